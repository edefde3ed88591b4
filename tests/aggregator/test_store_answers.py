"""Test reading all answers of a campaign, in blocks, from every store."""

from collections import Counter
from collections.abc import Callable
from random import Random

import pytest

from geoveil.aggregator import Code, Store
from geoveil.aggregator.domain.reports import PackedReport, pack
from geoveil.aggregator.store import CampaignRecord, Submission, open_store

from .refusals import refuses

WIDTH = 24


@pytest.fixture
def store(target):
    with open_store(target) as opened:
        for name in ("a", "b"):
            opened.create_campaign(
                CampaignRecord(campaign_id=name, published=name.encode(), queries=2)
            )
        yield opened


def points(random: Random, count: int) -> list[PackedReport]:
    return [
        PackedReport(random.randbytes(16), pack([(0, random.getrandbits(60)), (1, 7)]))
        for _ in range(count)
    ]


def commit(store: Store, reports: list[PackedReport], to: str = "a") -> None:
    for start in range(0, len(reports), 700):
        store.commit([Submission(to, reports[start : start + 700], True)])


def read(store: Store, limit: int, meanwhile: Callable[[], object] = lambda: None) -> list[bytes]:
    parts = []
    after: bytes | None = b""
    while after is not None:
        part = store.answers("a", after, limit)
        parts.append(part.packed)
        after = part.after
        meanwhile()
    return parts


def split(parts: list[bytes]) -> Counter[bytes]:
    joined = b"".join(parts)
    return Counter(joined[i : i + WIDTH] for i in range(0, len(joined), WIDTH))


@pytest.mark.parametrize("limit", [pytest.param(1, marks=pytest.mark.deep), 300, 1_500, 1 << 16])
def test_every_report_comes_once_and_few_at_a_time(store, limit):
    reports = points(Random(1), 1_500)
    commit(store, reports)
    commit(store, points(Random(2), 30), to="b")
    parts = read(store, limit)
    assert split(parts) == Counter(report.answers for report in reports)
    assert max(map(len, parts)) <= max(limit, 256) * WIDTH


def test_reports_that_come_meanwhile_disturb_nobody(store):
    """All that were there before come once; of the later ones, none twice."""
    random = Random(3)
    before, later = points(random, 1_000), points(random, 1_000)
    commit(store, before)
    waiting = iter(range(0, 1_000, 250))

    def meanwhile() -> None:
        start = next(waiting, None)
        if start is not None:
            commit(store, later[start : start + 250])

    seen = split(read(store, 300, meanwhile))
    assert max(seen.values()) == 1
    assert seen.keys() >= {report.answers for report in before}
    assert seen.keys() <= {report.answers for report in before + later}


def test_a_campaign_without_reports_has_none(store):
    assert read(store, 100) == [b""]


def test_an_unknown_campaign_is_not_found(store):
    with refuses(Code.CAMPAIGN_NOT_FOUND):
        store.answers("c")
