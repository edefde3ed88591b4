"""Test that a gateway process is restarted after it dies, without effect on gRPC."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc.aio
import httpx
import pytest

from geoveil.aggregator import Aggregator, Settings
from geoveil.cli.serve import gateway_beside
from geoveil.gateway import supervisor
from geoveil.gateway.supervisor import Supervisor, listening, resident
from geoveil.proto.v1.collector_pb2 import BrowseCampaignsRequest
from geoveil.proto.v1.collector_pb2_grpc import CollectorStub

HEALTH = "/grpc.health.v1.Health/Check"


@asynccontextmanager
async def supervised(folder: Path) -> AsyncIterator[tuple[Aggregator, Supervisor, str]]:
    settings = Settings(database=folder / "reports.db", port=0, web="127.0.0.1:0", grace_s=0.1)
    beside: Any = gateway_beside(settings)
    async with Aggregator(settings) as aggregator, beside(aggregator) as running:
        host, port = running._taken.getsockname()[:2]
        yield aggregator, running, f"http://{host}:{port}"


@pytest.mark.deep
async def test_a_gateway_that_dies_is_started_again(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    monkeypatch.setattr(supervisor, "_PAUSES_S", (0.1,))
    async with (
        supervised(tmp_path) as (aggregator, running, web),
        httpx.AsyncClient(base_url=web, timeout=60) as client,
        grpc.aio.insecure_channel(aggregator.address) as channel,
    ):
        # The socket is open from the start: who comes before the process is there waits.
        assert (await client.post(HEALTH, json={})).json() == {"status": "SERVING"}
        first = running.process
        assert first is not None
        assert os.getpriority(os.PRIO_PROCESS, first.pid) == supervisor._NICE
        assert 0 < resident(first.pid) < supervisor._MEMORY
        first.send_signal(signal.SIGKILL)
        answer = await CollectorStub(channel).BrowseCampaigns(BrowseCampaignsRequest())
        assert not answer.campaigns
        await first.wait()
        async with httpx.AsyncClient(base_url=web, timeout=60) as again:
            assert (await again.post(HEALTH, json={})).json() == {"status": "SERVING"}
        assert running.process is not first
        second = running.process
    assert second is not None
    assert second.returncode == 0  # told to end, it did


async def test_a_process_that_grows_too_large_is_ended(monkeypatch):
    monkeypatch.setattr(supervisor, "_MEMORY", 64 << 20)
    monkeypatch.setattr(supervisor, "_LOOK_S", 0.05)
    monkeypatch.setattr(supervisor, "_PAUSES_S", (60.0,))
    grows = "import time; held = bytes(range(256)) * (400 << 10); time.sleep(60)"
    async with Supervisor([sys.executable, "-c", grows], listening("127.0.0.1", 0)) as running:
        await asyncio.sleep(0.3)
        assert running.process is not None
        assert await asyncio.wait_for(running.process.wait(), 20) == -signal.SIGKILL


async def test_a_gateway_ends_with_the_process_that_started_it(tmp_path):
    started = "import os, sys, time; os.read(0, 1); open(sys.argv[1], 'w'); time.sleep(60)"
    mark = tmp_path / "ended"
    command = [sys.executable, "-c", started, str(mark)]
    async with Supervisor(command, listening("127.0.0.1", 0)) as running:
        await asyncio.sleep(0.3)
        assert running.process is not None
        assert running.process.stdin is not None
        running.process.stdin.close()  # as the system does when a process ends
        for _ in range(500):
            if mark.exists():
                break
            await asyncio.sleep(0.02)
        assert mark.exists()


def test_a_gateway_ends_although_its_parent_goes_on():
    """A thread that holds the lock of standard input would abort Python at its end."""
    waiting = "import threading; from geoveil.cli.web import _end_with_parent as wait;"
    waiting += " threading.Thread(target=wait, daemon=True).start()"
    with subprocess.Popen([sys.executable, "-c", waiting], stdin=subprocess.PIPE) as process:
        assert process.wait(60) == 0
