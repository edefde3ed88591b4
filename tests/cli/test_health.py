"""geoveil health --wait: for scripts that start a server and go on when it is ready."""

import asyncio
import socket
import subprocess
import sys

import grpc
import pytest
from grpc_health.v1 import health_pb2

from geoveil.aggregator import Aggregator, Settings
from geoveil.cli.connection import CommandError
from geoveil.gp import ParameterError

COMMAND = [sys.executable, "-c", "from geoveil.cli import main; main()", "health", "--wait"]


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


@pytest.mark.deep(keep=0)
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
    nobody = f"127.0.0.1:{free_port()}"
    for wait in (["--wait"], []):
        with pytest.raises(CommandError, match=f"no aggregator answers at {nobody}: start one"):
            geoveil("health", *wait, "--timeout-s", "0.3", "--server", nobody, to_server=False)


@pytest.mark.deep(keep=1)
@pytest.mark.parametrize("wait", [[], ["--wait"]])
def test_a_service_that_there_is_not_is_told(geoveil, wait):
    with pytest.raises(CommandError, match="has no service 'nothing': leave out --service"):
        geoveil("health", "--service", "nothing", "--timeout-s", "1", *wait)


@pytest.mark.parametrize("seconds", ["0", "nan"])
def test_no_time_at_all_is_refused(geoveil, seconds):
    with pytest.raises(ParameterError, match="--timeout-s must be a finite number > 0"):
        geoveil("health", "--timeout-s", seconds)


def test_a_server_that_stays_out_of_service_is_told(geoveil, monkeypatch):
    """The stub stands for a server that stops."""
    answers = iter([health_pb2.HealthCheckResponse(status=2)])

    class Stopping(grpc.RpcError):
        code = staticmethod(lambda: grpc.StatusCode.DEADLINE_EXCEEDED)

    class Stub:
        def __init__(self, channel):
            pass

        def Watch(self, *asked, **how):
            yield from answers
            raise Stopping

    monkeypatch.setattr("grpc_health.v1.health_pb2_grpc.HealthStub", Stub)
    with pytest.raises(CommandError, match="answered NOT_SERVING, and was not SERVING in time"):
        geoveil("health", "--wait")


def test_one_that_is_there_is_not_waited_for(geoveil):
    assert geoveil("health", "--wait").stdout == "SERVING\n"
