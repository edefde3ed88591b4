"""geoveil health --wait: for scripts that start a server and go on when it is ready."""

import asyncio
import socket
import subprocess
import sys

import pytest

from geoveil.aggregator import Aggregator, Settings

COMMAND = [sys.executable, "-c", "from geoveil.cli import main; main()", "health", "--wait"]


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


def test_a_server_that_starts_is_waited_for(tmp_path):
    port = free_port()

    async def started_later():
        process = await asyncio.create_subprocess_exec(
            *COMMAND, "--server", f"127.0.0.1:{port}", stdout=subprocess.PIPE
        )
        with pytest.raises(TimeoutError):  # nobody is there yet
            await asyncio.wait_for(process.wait(), 2.0)
        async with Aggregator(Settings(database=tmp_path / "a.db", port=port)):
            told, _ = await asyncio.wait_for(process.communicate(), 30)
        return process.returncode, told

    assert asyncio.run(started_later()) == (0, b"SERVING\n")


def test_one_that_never_does_is_told(geoveil):
    told = geoveil(
        "health", "--wait", "--timeout-s", "0.3", "--server", f"127.0.0.1:{free_port()}",
        to_server=False,
    )  # fmt: skip
    assert told.exit_code == 1
    assert "nobody answers" in told.stderr


def test_one_that_is_there_is_not_waited_for(geoveil):
    assert geoveil("health", "--wait").stdout == "SERVING\n"
