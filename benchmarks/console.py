"""The console beside reports: 100 open pages of a survey that 5,000 reports a second come to.

One server in a process of its own; reports come in requests of 25 at random times, whatever is
under way, from another process. Short turns with and without open pages alternate, and each with
pages is compared with the one before it and the one after: what else the machine does cancels out,
and the median of the ratios is told. An event is sent to every page for each look at the survey, so
that the events of one page are the looks. Beside it: how long the list of 500 surveys takes the
server.
"""

import asyncio
import math
import os
import statistics
import tempfile
import time

import httpx
from rich.console import Console
from rich.table import Table

from benchmarks.load_client import Load, run
from benchmarks.serving import SUBMIT, campaign_of_load, publish, served_to_browsers

PAGES, RATE, BATCH, SECONDS, PAIRS = 100, 5_000.0, 25, 5.0, 9
SURVEYS, LISTS = 500, 3
_HEADERS = {"sec-fetch-site": "none"}


def table() -> None:
    """Print both."""
    shown = Table(
        "open pages", "median of a request, ms", "p99, ms", "processor of the server",
        "looks a second", title=f"{RATE:,.0f} reports a second",
    )  # fmt: skip
    with (
        tempfile.TemporaryDirectory() as folder,
        served_to_browsers("console", f"{folder}/console.db") as (server, web),
    ):
        campaign = publish(server.address)
        requests = int(RATE / BATCH * SECONDS)
        load = Load(server.address, SUBMIT, campaign, BATCH, requests, 64, RATE / BATCH)

        def turn(pages: int) -> tuple[float, float, float, float]:
            before = server.processor_s()
            median, p99, looks = asyncio.run(_watched(f"http://{web}", pages, load))
            used = (server.processor_s() - before) / SECONDS
            return 1e3 * median, 1e3 * p99, used, looks

        turn(PAGES)  # not counted
        turns = [turn(PAGES if number % 2 else 0) for number in range(2 * PAIRS + 1)]
        for pages, some in ((0, turns[::2]), (PAGES, turns[1::2])):
            cells = [statistics.median(column) for column in zip(*some, strict=True)]
            texts = [f"{cells[0]:,.1f}", f"{cells[1]:,.1f}", f"{cells[2]:.2f}", f"{cells[3]:.2f}"]
            shown.add_row(f"{pages}", *texts)
        Console().print(shown)
        for name, column in (("median", 0), ("p99", 1)):
            ratios = [
                middle[column] / math.sqrt(before[column] * after[column])
                for before, middle, after in zip(
                    turns[:-2:2], turns[1:-1:2], turns[2::2], strict=True
                )
            ]
            print(
                f"{name} with pages / without, median of {PAIRS}: {statistics.median(ratios):.3f}"
                f" (each: {' '.join(f'{one:.2f}' for one in sorted(ratios))})"
            )
        for number in range(SURVEYS - 1):
            publish(server.address, campaign_id=f"survey{number}", questions=1)
        before, began = server.processor_s(), time.perf_counter()
        with httpx.Client(base_url=f"http://{web}", headers=_HEADERS, timeout=60) as client:
            for _ in range(LISTS):
                client.get("/console/").raise_for_status()
        spent = (server.processor_s() - before) / LISTS
        waited = (time.perf_counter() - began) / LISTS
    print(
        f"the list of {SURVEYS} surveys: {1e3 * waited:,.0f} ms, {1e3 * spent:,.0f} ms of a"
        f" processor (load average {os.getloadavg()[0]:.1f})"
    )


async def _watched(base: str, pages: int, load: Load) -> tuple[float, float, float]:
    """Return median and p99 of a load beside so many pages, in seconds, and the looks of these."""
    seen = [0] * pages
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(
        base_url=base, headers=_HEADERS, timeout=120, limits=limits
    ) as client:
        (await client.get("/console/")).raise_for_status()

        async def watch(number: int) -> None:
            address = f"/console/events?campaign={campaign_of_load().campaign_id}"
            async with client.stream("GET", address) as events:
                async for line in events.aiter_lines():
                    seen[number] += line == "event: estimate"

        watching = [asyncio.create_task(watch(number)) for number in range(pages)]
        await asyncio.sleep(1.0)
        before, began = [*seen], time.perf_counter()
        found = await asyncio.to_thread(run, load)
        seconds = time.perf_counter() - began
        for one in watching:
            one.cancel()
        await asyncio.gather(*watching, return_exceptions=True)
    looks = [now - then for now, then in zip(seen, before, strict=True)]
    return found.quantile(0.5), found.quantile(0.99), max(looks, default=0) / seconds
