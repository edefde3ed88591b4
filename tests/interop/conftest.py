"""A live server for clients made from the .proto files alone, and for the TypeScript device."""

import shutil
import subprocess
from pathlib import Path

import pytest

from geoveil.simulation.local_server import local_server
from tests.shared import once

ROOT = Path(__file__).parents[2]
PATIENCE_S = 180
OFFLINE = ("ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ECONNRESET", "ETIMEDOUT", "ENETUNREACH")

EXPECTED = {
    "statuses": ["REPORT_STATUS_ACCEPTED"] * 3 + ["REPORT_STATUS_DUPLICATE"] * 3,
    "refused": "FAILED_PRECONDITION",
    "n": 3,
    "sum": str(7 - 3 + 2**33),
    "value": (7 - 3 + 2**33) / 3 / 2**30,
}
"""What both clients are told of reports with the integers 7, -3 and 2^33 on a grid of 2^-30."""


@pytest.fixture
def expected():
    return EXPECTED


@pytest.fixture
def protos():
    """The folder with the wire contract, and nothing else of use."""
    return Path(__file__).parents[2] / "proto"


@pytest.fixture
def server(tmp_path):
    with local_server(tmp_path / "reports.sqlite") as address:
        yield address


def npm(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run npm in a folder."""
    command = shutil.which("npm")
    if command is None or shutil.which("node") is None:
        pytest.skip("the TypeScript device is left out: install Node 20 or later, with npm")
    return subprocess.run(
        [command, *arguments], cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S
    )


@pytest.fixture(scope="session")
def device(tmp_path_factory):
    """A copy of the package, with what it needs, compiled once in a run."""
    return once(
        tmp_path_factory, "typescript", lambda: compiled(tmp_path_factory.mktemp("typescript"))
    )


def compiled(root: Path) -> Path:
    """Copy the package into a folder, with what it needs, and compile it."""
    folder = root / "client" / "typescript"
    left_out = shutil.ignore_patterns("node_modules", "build", "dist")
    shutil.copytree(ROOT / "client" / "typescript", folder, ignore=left_out)
    shutil.copytree(ROOT / "proto", root / "proto")
    done = npm(folder, "ci", "--ignore-scripts", "--no-audit", "--no-fund")
    if done.returncode and any(word in done.stderr for word in OFFLINE):
        pytest.skip("the TypeScript device is left out: the npm registry can't be reached")
    assert done.returncode == 0, done.stderr
    done = npm(folder, "run", "compile")
    assert done.returncode == 0, done.stdout
    return folder
