"""Test that a damaged state directory always gives JournalError."""

import logging
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from geoveil.client import (
    Client,
    InMemoryCollector,
    InMemoryTransport,
    JournalError,
    Limit,
    Policy,
    Window,
)
from geoveil.client.journal import FILE_NAME
from geoveil.gp import GeoPrivacy

Make = Callable[..., Any]
NAMES = ("first", "second", "third")
OPENS = datetime(2026, 1, 1, tzinfo=UTC)
WEEK = timedelta(days=7)
MOST = GeoPrivacy(100, 8000, "dollar")
POLICY = Policy(
    {"household income": Limit(campaign=MOST, lifetime=MOST, windows=(
        Window(limit=MOST, length=timedelta(days=300)),))}
)  # fmt: skip
CHANGES = [
    "report = x'ff'",
    "report = x'0a10ff'",
    "digest = 7",
    "step_exponent = 0.5",
    "step_exponent = step_exponent + 1",
    "closes = 'soon'",
    "drawn = 1e30",
    "drawn = drawn - 1",
    "epoch = drawn",
    "departs = drawn",
    "status = 9",
    "status = -1",
    "status = 'sent'",
    "period = 1",
]
CHARGES = [
    "attribute = CAST(x'ff' AS TEXT)",
    "epsilon = -1",
    "epsilon = epsilon / 2",
    "epsilon = 'much'",
    "per = 0",
    "any_two = 2",
]
"""What somebody or something did to a row."""


@pytest.fixture
def state(tmp_path):
    return tmp_path / "state"


@pytest.fixture
def waiting(
    make_either: Make, make_campaign: Any, collector: InMemoryCollector, state: Path,
    make_source: Any,
) -> Any:  # fmt: skip
    """A client with three reports that wait."""
    for name in NAMES:
        collector.add(make_campaign(name))
    client = make_either(state_dir=state, policy=POLICY, fetched=NAMES, source=make_source(0))
    for name in NAMES:
        client.contribute(name, 97_000)
    return client


def execute(state: Path, statement: str) -> int:
    with closing(sqlite3.connect(state / FILE_NAME)) as connection, connection:
        return connection.execute(statement).rowcount


@pytest.mark.parametrize("change", [*CHANGES, *CHARGES])
def test_a_row_that_was_changed_is_not_believed(waiting, make_either, state, tape, change):
    """Neither by the client that has the file open, nor by the next."""
    where = "WHERE campaign_id = 'second'"
    table = "charge" if change in CHARGES else "report"
    assert execute(state, f"UPDATE {table} SET {change} {where}") == 1
    with pytest.raises(JournalError):
        waiting.history()
    if "status" in change:  # it is not among those that wait
        with pytest.raises(JournalError):
            waiting.counts()
    else:
        with pytest.raises(JournalError):
            waiting.flush()
        assert tape.submitted == []
    if change != "period = 1":  # then there is none of period 0, until the file is opened again
        with pytest.raises(JournalError):
            waiting.contribute("second", 97_000)
    assert waiting.contribute("first", 1.0).campaign_id == "first"
    waiting.close(0)
    with pytest.raises(JournalError):
        make_either(state_dir=state, policy=POLICY)


def test_without_damage_all_is_delivered(waiting):
    """The control."""
    assert waiting.flush().acknowledged == 3
    assert len(waiting.history()) == 3


@pytest.mark.parametrize("change", ["envelope = x'00'", "digest = x'00'", "seen = 0"])
def test_a_campaign_that_was_changed_is_not_believed(waiting, make_either, state, change):
    assert execute(state, f"UPDATE campaign SET {change} WHERE campaign_id = 'third'") == 1
    waiting.close(0)
    with pytest.raises(JournalError, match="row of 'third'"):
        make_either(state_dir=state, policy=POLICY)


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM state",
        "UPDATE state SET commits = 'many'",
        "UPDATE state SET commits = 3",
        "UPDATE state SET rows = rows + 1",
        "DROP TABLE state",
        "DROP TABLE campaign",
        "DELETE FROM campaign WHERE campaign_id = 'second'",
        "DELETE FROM report WHERE campaign_id = 'second'",
        "DELETE FROM charge WHERE campaign_id = 'second'",
    ],
)
def test_a_file_that_lacks_a_part_is_not_used(waiting, make_either, state, statement):
    execute(state, statement)
    with pytest.raises(JournalError):  # while the first, which is open, keeps the mark
        make_either(state_dir=state, policy=POLICY)


def test_the_background_says_so_and_sends_nothing(
    make_client: Make, make_campaign: Any, collector: InMemoryCollector, state: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    collector.add(make_campaign("first"))
    client = make_client(state_dir=state, policy=POLICY, fetched=("first", "income"))
    client.contribute("first", 97_000)
    execute(state, "UPDATE charge SET epsilon = 0.5")
    with caplog.at_level(logging.WARNING, "geoveil.client"):
        client.close()
    assert collector.reports("first") == ()
    assert "damaged" in caplog.text


class Written:
    """What a state directory with ten reports is made of, and what a device does with it."""

    def __init__(self, campaigns: list[Any], source: Any, time: Any, folder: Path) -> None:
        self.campaigns, self.source, self.time, self.folder = campaigns, source, time, folder

    def device(self, state: Path, handler: Any, seed: int, weeks: int) -> Client:
        return Client(
            policy=POLICY, state_dir=state, transport=InMemoryTransport(handler),
            background=False, source=self.source(seed),
            timing=self.time(date=OPENS + weeks * WEEK).timing(),
        )  # fmt: skip

    def write(self, *, closed: bool, first: int = 0, weeks: int = 6) -> dict[str, bytes]:
        """Return the files of a device that has closed its client, or died.

        Args:
            closed: whether it has closed it.
            first: seed of the first of its clients, each of which takes the next one.
            weeks: of its life.
        """
        state = self.folder / "written"
        collector = InMemoryCollector(self.campaigns)
        clients: list[Client] = []
        for week in range(weeks):
            client = self.device(state, collector, first + week, week)
            clients.append(client)
            for campaign in self.campaigns if week == 0 else self.campaigns[-1:]:
                client.fetch(campaign.campaign_id)
                client.contribute(campaign.campaign_id, 95_000.0 + week)
            if week == 3:
                client.flush()
            if closed or week < weeks - 1:
                client.close(0)
        files = {p.name: p.read_bytes() for p in state.iterdir() if p.suffix != ".sqlite3-shm"}
        clients[-1].close(0)
        shutil.rmtree(state)
        return files

    def use(self, files: dict[str, bytes]) -> list[Any]:
        """Return all that a device says and sends that finds these files."""
        state = self.folder / "found"
        shutil.rmtree(state, ignore_errors=True)
        state.mkdir(mode=0o700)
        for name, content in files.items():
            (state / name).write_bytes(content)
        sent: list[bytes] = []
        collector = InMemoryCollector(self.campaigns)

        def handler(request: Any) -> Any:
            sent.append(request.SerializeToString(deterministic=True))
            return collector(request)

        client = self.device(state, handler, 99, 5)
        try:
            said: list[Any] = [client.history(), client.budgets(), client.counts()]
            for campaign in self.campaigns:
                again = client.contribute(campaign.campaign_id, 1.0)
                said += [again, again.fresh]
            return [*said, client.flush(), client.history(), client.counts(), tuple(sent)]
        finally:
            client.close(0)


@pytest.fixture
def written(make_campaign, make_source, fake_time, tmp_path):
    weekly = {"opens": OPENS, "closes": OPENS + 20 * WEEK, "period": WEEK}
    campaigns = [*map(make_campaign, ("a", "b", "c", "d")), make_campaign("weekly", **weekly)]
    return Written(campaigns, make_source, type(fake_time), tmp_path)


def interesting(name: str, content: bytes, random: Random) -> list[int]:
    """Return bytes that mean something: of headers, of names and rows, and any others."""
    chosen = set(range(0, 100, 3))
    for word in (b"report", b"entry", b"index", b"weekly", b"dollar", b"household", b"status = 0"):
        start = 0
        while (place := content.find(word, start)) >= 0:
            chosen |= {place - 3, place, place + len(word)}
            start = place + 1
    chosen = set(random.sample(sorted(chosen), min(60, len(chosen))))
    chosen |= set(random.sample([i for i, byte in enumerate(content) if byte], 40))
    return sorted(i for i in chosen if 0 <= i < len(content))


@pytest.mark.deep(keep=0)
@pytest.mark.parametrize("closed", [True, False])
def test_a_byte_that_is_wrong_is_noticed_or_changes_nothing(written, closed):
    """In any file of the directory; all bytes were tried once, here are some."""
    files = written.write(closed=closed)
    expected = written.use(files)
    assert len(expected[0]) == 10
    random, refused = Random(5), 0
    for name, content in files.items():
        for place in interesting(name, content, random)[:: 1 if closed else 6]:
            damaged = bytearray(content)
            damaged[place] ^= random.choice([0xFF, 0x01, 0x80])
            try:
                assert written.use(files | {name: bytes(damaged)}) == expected, (name, place)
            except JournalError:
                refused += 1
    assert refused > 10


def mixed(files: dict[str, bytes], others: dict[str, bytes], *names: str) -> dict[str, bytes]:
    """Return the files with some of them as another device, or another time, has them."""
    return {
        name: content
        for name, content in (files | {name: others.get(name, b"") for name in names}).items()
        if content
    }


@pytest.mark.deep(keep=3)
@pytest.mark.parametrize("suffixes", [("",), ("-wal",), ("", "-wal")])
@pytest.mark.parametrize("of", ["another device", "an earlier time", "nothing"])
def test_files_that_do_not_belong_together_are_not_used(written, suffixes, of):
    """The log of one file would else be applied to another, without an error of SQLite's."""
    names = [f"{FILE_NAME}{suffix}" for suffix in suffixes]
    files = written.write(closed=False)
    others = {
        "another device": lambda: written.write(closed=False, first=40, weeks=3),
        "an earlier time": lambda: written.write(closed=False, weeks=3),
        "nothing": dict,
    }[of]()
    try:
        found = written.use(mixed(files, others, *names))
    except JournalError:
        return
    assert names == [FILE_NAME]  # the log has all that was changed ...
    assert found == written.use(files)  # ... and nothing is lost


@pytest.mark.deep(keep=3)
@pytest.mark.parametrize("weeks", [1, 3, 5, None])
def test_an_older_copy_of_the_file_is_not_used(written, weeks):
    """It has forgotten what was answered since; so has a new one, in place of one that is gone."""
    files = written.write(closed=True)
    older = {} if weeks is None else written.write(closed=True, weeks=weeks)
    with pytest.raises(JournalError, match="of the commits made are missing"):
        written.use(mixed(files, older, FILE_NAME))


def test_a_page_of_another_device_is_not_believed(written):
    """The page is of a file that is the same in all else, and its rows have right checksums."""
    files, others = (written.write(closed=True, first=first) for first in (0, 40))
    content, other = files[FILE_NAME], others[FILE_NAME]
    changed = 0
    for start in range(0, len(content), 4096):
        page = other[start : start + 4096]
        if page == content[start : start + 4096]:
            continue
        changed += 1
        with pytest.raises(JournalError):
            written.use(files | {FILE_NAME: content[:start] + page + content[start + 4096 :]})
    assert changed == 2  # reports, and what tells of rows


def test_a_journal_of_an_earlier_format_is_refused_and_stays_as_it_is(waiting, make_either, state):
    waiting.close(0)
    with closing(sqlite3.connect(state / FILE_NAME)) as connection, connection:
        connection.execute("PRAGMA user_version = 6")
    for _ in range(2):
        with pytest.raises(JournalError, match="its format is 6, this geoveil knows 13"):
            make_either(state_dir=state, policy=POLICY)
    with closing(sqlite3.connect(state / FILE_NAME)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (6,)
        assert connection.execute("SELECT count(*) FROM report").fetchone() == (3,)
