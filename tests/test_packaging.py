"""The wheel: builds from the tree, installs into a bare environment, and adds only `geoveil/`."""

import json
import os
import re
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

import geoveil.proto
from geoveil.gp.version import __version__

ROOT = Path(__file__).parents[1]
PARTS = {
    "aggregator",
    "analyst",
    "audit",
    "campaign",
    "cli",
    "client",
    "console",
    "gateway",
    "gp",
    "proto",
    "selection",
    "simulation",
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT, check=True, capture_output=True,
    )  # fmt: skip
    (built,) = folder.glob("*.whl")
    return built


def test_wheel_holds_the_parts_as_a_namespace(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"geoveil"}
    assert {name.split("/")[1] for name in names if name.startswith("geoveil/")} == PARTS
    assert "geoveil/__init__.py" not in names
    for part in PARTS:
        assert f"geoveil/{part}/py.typed" in names
    assert "geoveil/simulation/data/ca_household_income_2024.npz" in names
    assert "geoveil/proto/v1/campaign.proto" in names
    assert not [name for name in names if Path(name).name.startswith("test_") or "tests/" in name]
    licenses = [name for name in names if "/licenses/" in name]
    assert {Path(name).name for name in licenses} == {"LICENSE", "NOTICE"}


@pytest.mark.deep
def test_wheel_installs_into_a_bare_environment(wheel, tmp_path):
    """Dependencies come from the running environment's folder, whose .pth files are not read."""
    home = tmp_path / "bare"
    venv.create(home, with_pip=True)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(home)}))
    before = {entry.name for entry in packages.iterdir()}
    python = home / "bin" / "python"
    subprocess.run(
        [python, "-m", "pip", "install", "--no-deps", "--no-index", "--quiet", wheel], check=True
    )
    gained = {entry.name for entry in packages.iterdir()} - before
    assert "geoveil" in gained
    assert all(name == "geoveil" or name.endswith(".dist-info") for name in gained)
    environment = os.environ | {"PYTHONPATH": sysconfig.get_path("purelib")}
    where = subprocess.run(
        [python, "-c", "import geoveil.gp, geoveil.client; print(geoveil.gp.__file__)"],
        env=environment, check=True, capture_output=True, text=True, cwd=tmp_path,
    ).stdout  # fmt: skip
    assert where.startswith(str(packages))
    version = subprocess.run(
        [home / "bin" / "geoveil", "--version"],
        env=environment, check=True, capture_output=True, text=True, cwd=tmp_path,
    ).stdout  # fmt: skip
    assert version == f"geoveil {__version__}\n"


def test_no_part_makes_geoveil_a_regular_package():
    assert not list(ROOT.glob("*/geoveil/__init__.py"))


def test_readme_tells_the_two_commands_that_continuous_integration_runs():
    readme = (ROOT / "README.md").read_text()
    assert "\nmake demo\n" in readme
    assert "\nmake test\n" in readme


def test_version_and_date_are_the_same_wherever_they_are_said(wheel):
    """Between releases a version of development stands everywhere, beside no date of release."""
    assert f"geoveil-{__version__}-" in wheel.name
    assert geoveil.proto.__version__ == __version__
    changes = (ROOT / "CHANGELOG.md").read_text("utf-8")
    version, date = re.findall(r"^## (\S+) - (\S+)$", changes, re.MULTILINE)[0]
    assert version == __version__
    assert (date == "unreleased") == (".dev" in version)
    released = "" if date == "unreleased" else f"date-released: {date}\n"
    citation = (ROOT / "CITATION.cff").read_text("utf-8")
    assert f"\nversion: {version}\n{released}keywords:" in citation
    assert json.loads((ROOT / ".zenodo.json").read_text("utf-8"))["version"] == version
    typescript = ROOT / "client" / "typescript"
    on_npm = version.replace(".dev", "-dev.")
    assert json.loads((typescript / "package.json").read_text())["version"] == on_npm
    locked = json.loads((typescript / "package-lock.json").read_text())
    assert locked["version"] == locked["packages"][""]["version"] == on_npm
