"""A server that runs from the bundle of an image, is killed under load and is started again.

`python -m tests.in_image BUNDLE` does it in a network and mount namespace of its own and prints
what it saw as JSON.
"""

import asyncio
import json
import subprocess
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import grpc.aio
from grpc_health.v1.health_pb2 import HealthCheckRequest
from grpc_health.v1.health_pb2_grpc import HealthStub

from geoveil.campaign import digest, encode
from geoveil.proto.v1 import report_pb2
from tests.aggregator.conftest import Published, Wire, _publish
from tests.aggregator.test_crash import check_whole

CRUN = ("crun", "--cgroup-manager=disabled")
NAME = "geoveil-test"
ADDRESS = "127.0.0.1:7717"
QUERIES, PER_QUERY, BATCH = 60, 40, 20
BEFORE_KILL = 600
PATIENCE_S = 60
PROBE = """
import json, os
status = dict(line.split(":", 1) for line in open("/proc/1/status"))
def writes(place):
    try:
        open(place + "/probe", "w").close()
    except OSError as error:
        return error.strerror
    os.remove(place + "/probe")
    return "writes"
places = ("/usr", "/etc", "/tmp", "/var/lib/geoveil")
print(json.dumps({"uid": status["Uid"].split(), "capabilities": int(status["CapBnd"], 16),
                  "writes": {place: writes(place) for place in places},
                  "shells": [name for name in ("/bin/sh", "/bin/bash") if os.path.exists(name)]}))
"""


class Container:
    """A container that runs in the foreground of crun."""

    def __init__(self, bundle: str) -> None:
        self.begun = time.monotonic()
        self._process = subprocess.Popen([*CRUN, "run", "--bundle", bundle, NAME])

    async def serves(self) -> float:
        """Return the seconds from its start until it says SERVING."""
        while time.monotonic() < self.begun + PATIENCE_S:
            async with grpc.aio.insecure_channel(ADDRESS) as channel:
                try:
                    health = await HealthStub(channel).Check(HealthCheckRequest(), timeout=1)
                except grpc.aio.AioRpcError:
                    await asyncio.sleep(0.02)
                    continue
                if health.status == health.SERVING:
                    return time.monotonic() - self.begun
        raise TimeoutError("the container does not serve")

    def probe(self) -> Any:
        """Return what a program inside sees."""
        command = [*CRUN, "exec", "--user", "10001:10001", NAME, "python3.11", "-c", PROBE]
        return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)

    def kill(self) -> None:
        """Send SIGKILL to its process, and wait until crun has removed what is left."""
        subprocess.run([*CRUN, "kill", NAME, "KILL"], check=True)
        self._process.wait(PATIENCE_S)


async def main(bundle: str) -> None:
    """Load, kill and count."""
    opens = datetime.now(UTC)
    campaign = replace(
        _publish(queries=QUERIES).campaign, opens=opens, closes=opens + timedelta(days=1)
    )
    published = Published(campaign, encode(campaign), digest(encode(campaign)))
    keys = [(q, j) for j in range(PER_QUERY) for q in range(QUERIES)]
    batches = [keys[i : i + BATCH] for i in range(0, len(keys), BATCH)]
    acknowledged: set[tuple[int, int]] = set()
    enough = asyncio.Event()

    def report(q: int, j: int) -> report_pb2.Report:
        number = (PER_QUERY * q + j).to_bytes(16, "big")
        answer = report_pb2.Answer(query_index=q, value=2**j)
        return report_pb2.Report(report_id=number, answers=[answer])

    async def send(wire: Wire, batch: list[tuple[int, int]]) -> None:
        results = await wire.submit(published, *[report(*key) for key in batch])
        taken = (report_pb2.REPORT_STATUS_ACCEPTED, report_pb2.REPORT_STATUS_DUPLICATE)
        assert all(result.status in taken for result in results)
        acknowledged.update(batch)
        if len(acknowledged) >= BEFORE_KILL:
            enough.set()

    async def client(wire: Wire, todo: list[list[tuple[int, int]]]) -> None:
        for batch in todo:
            await send(wire, batch)

    first = Container(bundle)
    seconds = [await first.serves()]
    inside = first.probe()
    async with grpc.aio.insecure_channel(ADDRESS) as channel:
        wire = Wire(channel)
        await wire.create(published)
        clients = [asyncio.create_task(client(wire, batches[i::4])) for i in range(4)]
        await asyncio.wait_for(enough.wait(), PATIENCE_S)
        first.kill()
        refused = await asyncio.gather(*clients, return_exceptions=True)
    sent = len(acknowledged)
    second = Container(bundle)
    seconds.append(await second.serves())
    async with grpc.aio.insecure_channel(ADDRESS) as channel:
        wire = Wire(channel)
        counted = check_whole(await wire.sums(published))
        lost = sum(j not in counted[q] for q, j in acknowledged)
        await client(wire, batches)
        whole = check_whole(await wire.sums(published)) == [set(range(PER_QUERY))] * QUERIES
    second.kill()
    third = Container(bundle)
    seconds.append(await third.serves())
    third.kill()
    seen = {
        "seconds": seconds,
        "inside": inside,
        "unfinished": sum(isinstance(error, grpc.aio.AioRpcError) for error in refused),
        "acknowledged": sent,
        "counted": sum(map(len, counted)),
        "lost": lost,
        "whole": whole,
    }
    print(json.dumps(seen))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
