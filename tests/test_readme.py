"""What the README says to paste works."""

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def test_run_it(tmp_path):
    """All of it but the installation, in another folder and on another port."""
    section = README.read_text(encoding="utf-8").split("## Run it")[1]
    block = re.search(r"```sh\n(.*?)```", section, re.DOTALL)
    assert block is not None
    lines = block[1].splitlines()
    install = [line for line in lines if line.startswith(("python3 -m venv", "pip install '.["))]
    assert len(install) == 2
    script = "\n".join(line for line in lines if line not in install)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    environment = os.environ | {
        "GEOVEIL_PORT": str(port),
        "GEOVEIL_SERVER": f"127.0.0.1:{port}",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    done = subprocess.run(
        ["bash", "-c", script + "\nwait"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert "error" not in done.stderr, done.stderr
    assert "SERVING" in done.stdout
    assert done.stdout.count("counted: report") == 2
    assert "above 100,000" in done.stdout
    assert "standard error" in done.stdout
