"""The console under load: 100 open pages of a survey that receives 5,000 reports a second.

The server has its own process. Another process sends requests of 25 reports at random times, never
waiting for answers. Meanwhile, short turns alternate, three in a block, in random order: one with
open pages and two without, one of which is the control. Other work on the machine thus affects all
three alike, and the control shows how large a difference arises by chance. Quantiles are over all
requests in turns of a kind; the interval of a ratio is a bootstrap over blocks.

Bare sockets read the pages, since browsers run on other machines. Every page gets an event for each
look at the survey, so the events of one page count the looks. The benchmark also measures how long
the server takes to list 500 surveys.
"""

import http.client
import os
import selectors
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random

import httpx
import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.load_client import Load, Served, run
from benchmarks.serving import SUBMIT, publish, served_to_browsers

PAGES, RATE, BATCH = 100, 5_000.0, 25
BLOCKS, SETTLING_S, TURN_S = 40, 1.0, 3.0
SURVEYS, LISTS = 500, 3
_WITHOUT, _CONTROL, _WITH = "none", "none, again", f"{PAGES}"
_AGAIN = 2_000
_HEADERS = {"sec-fetch-site": "none"}


def table() -> None:
    order = Random(1)
    with (
        tempfile.TemporaryDirectory() as folder,
        served_to_browsers("console", f"{folder}/console.db") as (server, web),
    ):
        campaign = publish(server.address)
        seconds = 3 * BLOCKS * (SETTLING_S + TURN_S) * 1.02 + 10
        requests = int(RATE / BATCH * seconds)
        load = Load(server.address, SUBMIT, campaign, BATCH, requests, 64, RATE / BATCH)
        found: list[Served] = []
        sending = threading.Thread(target=lambda: found.append(run(load)))
        sending.start()
        time.sleep(5.0)  # the process of the load begins
        turns: list[dict[str, tuple[float, float]]] = []
        used: dict[str, list[float]] = {_WITHOUT: [], _CONTROL: [], _WITH: []}
        looks: list[float] = []
        with _open_pages(web, PAGES):
            time.sleep(SETTLING_S)  # the first look is not counted
        for _ in range(BLOCKS):
            block = {}
            for kind in order.sample([*used], len(used)):
                with _open_pages(web, PAGES if kind == _WITH else 0) as events:
                    time.sleep(SETTLING_S)
                    before, seen, begins = server.processor_s(), sum(events), time.perf_counter()
                    time.sleep(TURN_S)
                    ends = time.perf_counter()
                    used[kind].append((server.processor_s() - before) / (ends - begins))
                    if kind == _WITH:
                        looks.append((sum(events) - seen) / PAGES / (ends - begins))
                block[kind] = begins, ends
            turns.append(block)
        sending.join()
        _print_turns(found[0], turns, used, looks)
        _print_list(server.address, web, server.processor_s)


def _print_turns(
    found: Served,
    turns: list[dict[str, tuple[float, float]]],
    used: dict[str, list[float]],
    looks: list[float],
) -> None:
    due, took = np.asarray(found.due_s), np.asarray(found.latencies_s)
    of = {
        kind: [took[(due >= block[kind][0]) & (due < block[kind][1])] for block in turns]
        for kind in used
    }
    shown = Table(
        "open pages", "median of a request, ms", "p99, ms", "processor of the server",
        "looks a second", title=f"{RATE:,.0f} reports a second",
    )  # fmt: skip
    for kind, parts in of.items():
        median, p99 = 1e3 * np.quantile(np.concatenate(parts), (0.5, 0.99))
        told = f"{np.mean(looks):.2f}" if kind == _WITH else ""
        shown.add_row(kind, f"{median:,.1f}", f"{p99:,.1f}", f"{np.mean(used[kind]):.3f}", told)
    Console().print(shown)
    pairs = zip(of[_WITHOUT], of[_CONTROL], strict=True)
    without = [np.concatenate(pair) for pair in pairs]
    all_of_them = np.arange(len(turns))
    drawn = np.random.default_rng(1).integers(0, len(turns), (_AGAIN, len(turns)))
    for name, share in (("median", 0.5), ("p99", 0.99)):
        for what, above, below in (
            (f"{_WITH} pages / none", of[_WITH], without),
            ("control", of[_CONTROL], of[_WITHOUT]),
        ):
            ratio = _ratio(above, below, all_of_them, share)
            ratios = [_ratio(above, below, rows, share) for rows in drawn]
            low, high = np.quantile(ratios, (0.025, 0.975))
            print(f"{name}, {what}: {ratio:.3f} (95 %: {low:.3f}–{high:.3f})")


def _ratio(
    above: list[np.ndarray], below: list[np.ndarray], blocks: np.ndarray, share: float
) -> float:
    """Return the ratio of a quantile over the requests of some blocks."""
    one, other = (
        np.quantile(np.concatenate([parts[block] for block in blocks]), share)
        for parts in (above, below)
    )
    return float(one / other)


@contextmanager
def _open_pages(web: str, pages: int) -> Iterator[list[int]]:
    """Keep pages open that listen to a survey; yield the number of events that each received."""
    host, _, port = web.partition(":")
    first = http.client.HTTPConnection(host, int(port))
    first.request("GET", "/console/", headers=_HEADERS)
    answer = first.getresponse()
    answer.read()
    cookie = (answer.getheader("set-cookie") or "").partition(";")[0]
    first.close()
    seen, ended = [0] * pages, threading.Event()
    with selectors.DefaultSelector() as selector:
        for number in range(pages):
            page = socket.create_connection((host, int(port)))
            page.sendall(
                "GET /console/events?campaign=load HTTP/1.1\r\n"
                f"Host: {web}\r\nSec-Fetch-Site: same-origin\r\nCookie: {cookie}\r\n\r\n".encode()
            )
            page.setblocking(False)
            selector.register(page, selectors.EVENT_READ, number)

        def read() -> None:
            while not ended.is_set():
                for key, _ in selector.select(0.1):
                    assert isinstance(key.fileobj, socket.socket)  # as registered
                    content = key.fileobj.recv(1 << 16)
                    assert content, "the server closed a page"
                    seen[key.data] += content.count(b"event: estimate")

        reading = threading.Thread(target=read)
        reading.start()
        try:
            yield seen
        finally:
            ended.set()
            reading.join()
            for key in [*selector.get_map().values()]:
                assert isinstance(key.fileobj, socket.socket)  # as registered
                key.fileobj.close()


def _print_list(address: str, web: str, processor_s: Callable[[], float]) -> None:
    for number in range(SURVEYS - 1):
        publish(address, campaign_id=f"survey{number}", questions=1)
    before, began = processor_s(), time.perf_counter()
    with httpx.Client(base_url=f"http://{web}", headers=_HEADERS, timeout=60) as client:
        for _ in range(LISTS):
            client.get("/console/").raise_for_status()
    spent = (processor_s() - before) / LISTS
    waited = (time.perf_counter() - began) / LISTS
    print(
        f"the list of {SURVEYS} surveys: {1e3 * waited:,.0f} ms, {1e3 * spent:,.0f} ms of a"
        f" processor (load average {os.getloadavg()[0]:.1f})"
    )
