"""A client in a separate process: it sends requests in turn or at a rate, and times them."""

import asyncio
import gc
import multiprocessing
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import grpc.aio

from benchmarks.serving import SUBMIT, Requests
from geoveil.campaign import Campaign
from geoveil.proto.v1 import collector_pb2, report_pb2

_ACCEPTED = report_pb2.REPORT_STATUS_ACCEPTED


@dataclass(frozen=True)
class Load:
    """The load that a client sends.

    Args:
        campaign: see `Requests`.
        concurrency: the number of requests in flight at once.
        rate: requests per second, at random times, without waiting for answers; None: each
            client sends its next one after an answer.
    """

    address: str
    method: str
    campaign: Campaign
    reports: int
    requests: int
    concurrency: int
    rate: float | None = None


@dataclass(frozen=True)
class Served:
    """How a server handled a load."""

    seconds: float
    """Time from the first request to the last answer."""
    processor_s: float
    """Processor time that the client used."""
    latencies_s: Sequence[float]
    """Latencies in ascending order; at a rate, counted from the time a request was due."""
    due_s: Sequence[float]
    """When each request was due or sent, in the same order, by `time.perf_counter`."""

    def quantile(self, share: float) -> float:
        """Return a quantile of the latencies."""
        return self.latencies_s[min(int(share * len(self.latencies_s)), len(self.latencies_s) - 1)]


def run(load: Load) -> Served:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_run, (load,))


def _run(load: Load) -> Served:
    # The client's own garbage collections, 0.1 s each, must not count as latency; it ends soon.
    gc.disable()
    return asyncio.run(_send(load))


async def _send(load: Load) -> Served:
    requests = Requests(load.campaign, load.reports)
    check = _check_submitted if load.method == SUBMIT else _check_nothing
    options = [("grpc.max_receive_message_length", -1)]
    async with grpc.aio.insecure_channel(load.address, options) as channel:
        call = channel.unary_unary(load.method)
        check(await call(requests.draw(), timeout=60), load.reports)
        drawn = [requests.draw() for _ in range(load.requests)] if load.reports == 1 else None
        send = _at_rate if load.rate is not None else _in_turn
        cpu, start = time.process_time(), time.perf_counter()
        timed, answers = await send(call, load, drawn.pop if drawn is not None else requests.draw)
        seconds, spent = time.perf_counter() - start, time.process_time() - cpu
    for answer in answers:
        check(answer, load.reports)
    latencies, due = zip(*sorted(timed), strict=True)
    return Served(seconds, spent, latencies, due)


async def _in_turn(
    call: Callable[..., Any], load: Load, draw: Callable[[], bytes]
) -> tuple[list[tuple[float, float]], list[bytes]]:
    left = load.requests
    timed: list[tuple[float, float]] = []
    answers: list[bytes] = []

    async def client() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            request = draw()
            start = time.perf_counter()
            answers.append(await call(request))
            timed.append((time.perf_counter() - start, start))

    await asyncio.gather(*(client() for _ in range(load.concurrency)))
    return timed, answers


async def _at_rate(
    call: Callable[..., Any], load: Load, draw: Callable[[], bytes]
) -> tuple[list[tuple[float, float]], list[bytes]]:
    assert load.rate is not None
    timed: list[tuple[float, float]] = []
    answers: list[bytes] = []
    rng = Random(1)
    due = time.perf_counter()

    async def one(due: float, request: bytes) -> None:
        answers.append(await call(request))
        timed.append((time.perf_counter() - due, due))

    async with asyncio.TaskGroup() as group:
        for _ in range(load.requests):
            due += rng.expovariate(load.rate)
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            group.create_task(one(due, draw()))
    return timed, answers


def _check_submitted(answer: bytes, reports: int) -> None:
    results = collector_pb2.SubmitReportsResponse.FromString(answer).results
    assert len(results) == reports
    assert all(result.status == _ACCEPTED for result in results)


def _check_nothing(answer: bytes, reports: int) -> None:
    assert answer
