"""The TypeScript device, by its own tests and against Python's; left out where there is no Node."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PATIENCE_S = 180
OFFLINE = ("ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ECONNRESET", "ETIMEDOUT", "ENETUNREACH")


def npm(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run npm in a folder."""
    command = shutil.which("npm")
    if command is None or shutil.which("node") is None:
        pytest.skip("the TypeScript device is left out: install Node 20 or later, with npm")
    return subprocess.run(
        [command, *arguments], cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S
    )


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package, with what it needs, compiled."""
    root = tmp_path_factory.mktemp("typescript")
    folder = root / "client" / "typescript"
    left_out = shutil.ignore_patterns("node_modules", "build", "dist")
    shutil.copytree(ROOT / "client" / "typescript", folder, ignore=left_out)
    shutil.copytree(ROOT / "proto", root / "proto")
    done = npm(folder, "ci", "--ignore-scripts", "--no-audit", "--no-fund")
    if done.returncode and any(word in done.stderr for word in OFFLINE):
        pytest.skip("the TypeScript device is left out: the npm registry can't be reached")
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.deep
def test_the_device_in_typescript(device: Path) -> None:
    done = npm(device, "test")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "# fail 0" in done.stdout
    tuples = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "vectors.py"), "--stream", "300", "5"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    compared = subprocess.run(
        ["node", str(device / "build" / "test" / "tuples.js")],
        input=tuples,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert compared.returncode == 0, compared.stderr
    assert '"count":300,"unequal":0' in compared.stdout


@pytest.mark.deep
def test_generated_messages_have_not_drifted(device: Path, tmp_path: Path) -> None:
    script = ROOT / "client" / "typescript" / "messages.sh"
    subprocess.run(
        ["bash", str(script), str(tmp_path)],
        check=True,
        env={"PATH": f"{Path(sys.executable).parent}:{device / 'node_modules/.bin'}:/usr/bin:/bin"},
    )
    for made in (tmp_path / "geoveil" / "proto" / "v1").iterdir():
        kept = device / "src" / "gen" / "geoveil" / "proto" / "v1" / made.name
        assert made.read_text() == kept.read_text()
