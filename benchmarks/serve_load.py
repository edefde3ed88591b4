"""The whole server under load: single reports beside two echoes, batches into both databases.

The client has its own process. The reference for single reports is a bare grpc.aio server that
echoes its request, in a separate process with the Python settings of `geoveil serve`. A second echo
also accepts many calls at once, as the aggregator does. Client, channel options, concurrency and
request are the same. The servers take turns, after a round that is not counted. Latencies are
measured at half the rate that ours reached, with requests due at random times (a Poisson process)
without waiting for answers, from the time they were due; the table gives the number of requests and
runs, and the range of their p99.

Beside each rate, the table gives the server's processor time and the machine's load average: if
others use the machine too, processor time is affected less.
"""

import os
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import psutil
from rich.console import Console
from rich.table import Table

from benchmarks.load_client import Load, run
from benchmarks.serving import ECHO, SUBMIT, Served, postgres, processor_s, publish, served
from geoveil.campaign import Campaign

ROUNDS = 5
CALLS, CONCURRENCY = 6_000, 128
ALONE = 1_000
"""Calls of a client that sends them one by one."""
HALVES, HALF_S = 5, 5.0
"""The number of runs at half the rate, and the seconds of each."""
BATCH, BATCHES, BATCHES_AT_ONCE = 4_096, 150, 8


class Measured(NamedTuple):
    """The figures of one run."""

    rate: float
    """Reports per second."""
    server_us: float
    """The server's processor time per report, in microseconds."""
    client_us: float
    """The client's processor time per report, in microseconds."""
    database_us: float
    """PostgreSQL's processor time per report, in microseconds."""
    p99_ms: float


def table() -> None:
    with tempfile.TemporaryDirectory() as folder:
        _print_single(str(Path(folder) / "single.db"))
        _print_alone(str(Path(folder) / "alone.db"), Path(folder) / "plain.db")
        _print_batches("SQLite", str(Path(folder) / "batches.db"))
    with postgres() as (url, process):
        _print_batches("PostgreSQL", url, process)


def measure(
    server: Served,
    method: str,
    campaign: Campaign,
    *,
    reports: int = 1,
    calls: int = CALLS,
    concurrency: int = CONCURRENCY,
    rate: float | None = None,
    database: psutil.Process | None = None,
) -> Measured:
    others = [] if database is None else [database, *database.children()]
    before, of_others = server.processor_s(), {one: processor_s(one) for one in others}
    sent = run(Load(server.address, method, campaign, reports, calls, concurrency, rate))
    spent = server.processor_s() - before
    spent_by_others = sum(  # a database worker may have ended
        processor_s(one) - first for one, first in of_others.items() if one.is_running()
    )
    count = reports * calls
    return Measured(
        count / sent.seconds,
        1e6 * spent / count,
        1e6 * sent.processor_s / count,
        1e6 * spent_by_others / count,
        1e3 * sent.quantile(0.99),
    )


def median(runs: Sequence[Measured]) -> Measured:
    """Return the median of each figure."""
    return Measured(*map(statistics.median, zip(*runs, strict=True)))


def _print_single(database: str) -> None:
    with (
        served("echo") as echo,
        served("echo-at-once") as at_once,
        served("aggregator", database) as aggregator,
    ):
        campaign = publish(aggregator.address)
        contestants = {
            "bare echo": (echo, ECHO),
            "echo that accepts as ours": (at_once, ECHO),
            "SubmitReports": (aggregator, SUBMIT),
        }
        runs = _take_turns(contestants, campaign, 1 + ROUNDS)
        runs = {name: of_one[1:] for name, of_one in runs.items()}
        medians = {name: median(of_one) for name, of_one in runs.items()}
        half = medians["SubmitReports"].rate / 2
        calls = max(1, round(HALF_S * half))
        halves = _take_turns(contestants, campaign, HALVES, calls=calls, rate=half)
    *echoes, ours = runs
    shown = _table(f"single reports, {CONCURRENCY} at once, median of {ROUNDS}")
    for name, of_one in medians.items():
        _row(shown, name, of_one)
    for name, of_half in halves.items():
        _row(shown, f"{name}, at half the rate of ours", median(of_half))
    Console().print(shown)
    for name in echoes:
        ratios = [b.rate / a.rate for a, b in zip(runs[name], runs[ours], strict=True)]
        print(
            f"ratio to the {name}: {statistics.median(ratios):.2f}"
            f" ({min(ratios):.2f} to {max(ratios):.2f})"
        )
    print(f"at half the rate: {half:,.0f}/s offered, {calls:,} calls, median p99 of {HALVES}:")
    for name, of_half in halves.items():
        p99s = [one.p99_ms for one in of_half]
        print(f"  {name}: {statistics.median(p99s):.1f} ms ({min(p99s):.1f} to {max(p99s):.1f})")


def _print_alone(database: str, plain: Path) -> None:
    """Print the cost of reports sent one by one, beside its floor."""
    with served("echo") as echo, served("aggregator", database) as aggregator:
        campaign = publish(aggregator.address)
        contestants = {"bare echo": (echo, ECHO), "SubmitReports": (aggregator, SUBMIT)}
        runs = _take_turns(contestants, campaign, 1 + ROUNDS, calls=ALONE, concurrency=1)
    medians = {name: median(of_one[1:]).server_us for name, of_one in runs.items()}
    medians["one commit, sqlite3 alone"] = _plain_us(plain)
    listed = ", ".join(f"{name} {number:,.1f}" for name, number in medians.items())
    print(f"one report at a time, µs of the server's processors: {listed}")


def _plain_us(file: Path) -> float:
    """Return the processor time of an equally durable transaction of one row, in microseconds."""
    connection = sqlite3.connect(file, isolation_level=None)
    for statement in (
        "PRAGMA journal_mode = WAL",
        "PRAGMA synchronous = FULL",
        "CREATE TABLE report (id BLOB PRIMARY KEY, answers BLOB) WITHOUT ROWID",
    ):
        connection.execute(statement)
    before = time.process_time()
    for _ in range(ALONE):
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO report VALUES (randomblob(16), zeroblob(12))")
        connection.execute("COMMIT")
    spent = time.process_time() - before
    connection.close()
    return 1e6 * spent / ALONE


def _take_turns(
    contestants: Mapping[str, tuple[Served, str]], campaign: Campaign, rounds: int, **load: Any
) -> dict[str, list[Measured]]:
    """Return the cost of a load to each server, in each round."""
    runs: dict[str, list[Measured]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, (server, method) in contestants.items():
            runs[name].append(measure(server, method, campaign, **load))
    return runs


def _print_batches(name: str, database: str, process: psutil.Process | None = None) -> None:
    load: dict[str, Any] = {"reports": BATCH, "calls": BATCHES, "concurrency": BATCHES_AT_ONCE}
    with served("aggregator", database) as server, served("echo") as echo:
        campaign = publish(server.address)
        runs = [measure(server, SUBMIT, campaign, database=process, **load) for _ in range(ROUNDS)]
        floor = measure(echo, ECHO, campaign, **load)
        shown = _table(f"{name}: batches of {BATCH:,}, {BATCHES_AT_ONCE} at once")
        _row(shown, f"median of {ROUNDS}", median(runs))
        _row(shown, "fastest", max(runs))
        _row(shown, "bare echo", floor)
        Console().print(shown)
        print(f"resident: {server.resident_mb():.0f} MB")


def _table(title: str) -> Table:
    columns = ("", "reports/s", "server µs", "client µs", "database µs", "p99 ms", "load average")
    return Table(*columns, title=title, title_justify="left")


def _row(shown: Table, name: str, one: Measured) -> None:
    shown.add_row(
        name,
        f"{one.rate:,.0f}",
        f"{one.server_us:,.1f}",
        f"{one.client_us:,.1f}",
        f"{one.database_us:,.1f}",
        f"{one.p99_ms:,.1f}",
        f"{os.getloadavg()[0]:.1f}",
    )
