"""Test that the wheel builds, installs into a bare environment, and adds only `geoveil/`."""

import json
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

import geoveil.proto
from geoveil.gp.version import __version__
from tools import sbom

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
    "relay",
    "selection",
    "simulation",
}


def build(folder, target="wheel", tree=ROOT):
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder)],
        cwd=tree, check=True, capture_output=True,
    )  # fmt: skip
    (built,) = folder.iterdir()
    return built


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return build(tmp_path_factory.mktemp("wheel"))


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


@pytest.mark.deep(keep=0)
def test_a_wheel_of_the_source_archive_has_the_same_bytes(wheel, tmp_path):
    """In another folder, of files with other times and other permissions."""
    source = build(tmp_path, "sdist")
    with tarfile.open(source) as archive:
        archive.extractall(tmp_path / "tree", filter="data")
    (tree,) = (tmp_path / "tree").iterdir()
    for file in tree.rglob("*.py"):
        os.utime(file, (0, 0))
        file.chmod(0o600)
    (tmp_path / "again").mkdir()
    assert build(tmp_path / "again", tree=tree).read_bytes() == wheel.read_bytes()


def test_the_bill_of_materials_is_of_the_lock_and_in_the_wheel(wheel):
    assert sbom.bill() == sbom.FILE.read_text("utf-8"), "python tools/sbom.py"
    held = json.loads(sbom.FILE.read_text("utf-8"))
    named = {part["name"] for part in held["components"]}
    package = json.loads((sbom.FILE.parent / "package.json").read_text("utf-8"))
    assert set(package["dependencies"]) <= named
    assert all(re.fullmatch("[0-9a-f]{128}", h["hashes"][0]["content"]) for h in held["components"])
    names = zipfile.ZipFile(wheel).namelist()
    assert [name for name in names if name.endswith(".dist-info/sboms/sbom.cdx.json")]


def test_the_package_of_npm_has_a_licence_and_says_what_it_exports():
    folder = ROOT / "client" / "typescript"
    assert (folder / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    package = json.loads((folder / "package.json").read_text("utf-8"))
    assert package["sideEffects"] == ["./dist/element.js"]
    assert package["publishConfig"] == {"access": "public", "provenance": True}
    for export in package["exports"].values():
        assert list(export) == ["types", "default"]


def test_no_part_makes_geoveil_a_regular_package():
    assert not list(ROOT.glob("*/geoveil/__init__.py"))


def test_readme_tells_the_two_commands_to_begin_with():
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
