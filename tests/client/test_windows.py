"""Test that no schedule of reports spends more in a window than its limit.

Random campaigns (with noise of their own, from readings, going on from two readings), epochs, dates
and networks. Every departure is noted, with the draws that it tells of as they were drawn; brute
force adds up each stretch of time. The control counts draws by when they were drawn, as a ledger
might, and spends more.
"""

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from random import Random
from typing import Any

import pytest

from geoveil.campaign import (
    Attribute,
    DebiasedLaplaceSpec,
    LipschitzLaplaceSpec,
    PlanarLaplaceSpec,
    Question,
    Readings,
    StatisticCampaign,
    ValueCampaign,
    encode,
    seal,
)
from geoveil.client import (
    AnswerNotYet,
    BudgetExceeded,
    Epoch,
    Limit,
    Policy,
    Timing,
    Window,
    journal as journals,
    report_sender,
)
from geoveil.client.contributions import DeliveryStatus
from geoveil.client.device_session import DeviceSession
from geoveil.client.journal import Journal
from geoveil.client.report_sender import Local, ReportSender, Request
from geoveil.client.reports import ReportBuilder
from geoveil.gp import GeoPrivacy, Threshold
from geoveil.proto.v1 import collector_pb2, report_pb2
from tests.client.conftest import dollars

OPENS = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
SOFT = Question("above", Threshold(50_000.0, 40_000.0, "smoothstep"))
Telling = tuple[datetime, object, GeoPrivacy]
"""When something left, which draw it tells of, and what that cost."""


def campaigns(draw: Random) -> Iterator[Any]:
    shared: dict[str, Any] = {
        "attribute": Attribute(name="income", unit="dollar"),
        "opens": OPENS,
        "closes": OPENS + 900 * DAY,
        "period": draw.choice([1, 3, 7]) * DAY,
    }
    every = draw.choice([5, 10, 30]) * DAY
    for number in range(draw.randint(1, 4)):
        name = f"c{number}"
        of: dict[str, Any] = {"campaign_id": name, "title": name, **shared}
        price = dollars(draw.choice([0.25, 0.5]))
        kind = draw.choice(["own noise", "point", "question", "moved on"])
        if kind == "point":
            yield ValueCampaign(**of, privacy=price, mechanism=PlanarLaplaceSpec(1))
            continue
        mechanism = LipschitzLaplaceSpec() if kind == "own noise" else DebiasedLaplaceSpec()
        readings = Readings(every=every, extrapolated=True) if kind == "moved on" else None
        yield StatisticCampaign(
            **of, questions=(SOFT,), privacy=price, mechanism=mechanism, readings=readings
        )


def lived(draw: Random, monkeypatch: pytest.MonkeyPatch) -> tuple[Window, list[Telling], int]:
    """Return a window, all that left a device under it, and how many answers it refused."""
    window = Window(
        limit=dollars(draw.choice([0.5, 1.0, 1.5])), length=draw.choice([3, 10, 30]) * DAY
    )
    epoch = Epoch(privacy=dollars(0.5), length=draw.choice([2, 8, 25]) * DAY)
    limit = Limit(
        campaign=dollars(1e6),
        windows=(window,),
        epoch=epoch if draw.random() < 0.7 else None,
    )
    clock = [OPENS]
    session = DeviceSession(
        policy=Policy({"income": limit}),
        state_dir=None,
        source=None,
        most_pending=1_000,
        most_pending_bytes=1 << 20,
        floor_s=0,
        timing=Timing(now=lambda: clock[0]),
    )
    made_from: dict[bytes, list[tuple[object, GeoPrivacy]]] = {}
    answer = ReportBuilder.answer

    def noted(
        self: ReportBuilder, accepted: Any, latest: Any, before: Any = None, **of: Any
    ) -> Any:
        made = answer(self, accepted, latest, before, **of)
        readings = [point.reading for point in (latest, before) if point is not None]
        made_from[made.report] = [(one.point, one.privacy) for one in readings]
        return made

    monkeypatch.setattr(ReportBuilder, "answer", noted)
    for campaign in campaigns(draw):
        envelope = seal(encode(campaign))
        session.remember(session.builder.accept(campaign.campaign_id, envelope))
    names = list(session._accepted)
    told: list[Telling] = []
    refused = 0
    for _ in range(draw.randint(8, 30)):
        clock[0] += draw.choice([0.01, 0.5, 1, 2, 5, 11, 29]) * DAY
        try:
            session.contribute(draw.choice(names), 50_000.0)
        except BudgetExceeded:
            refused += 1
        except AnswerNotYet:
            continue
        for entry in session.journal.pending():
            made = entry.contribution
            if draw.random() < 0.4:
                continue  # no network
            clock[0] += DAY / 1000
            draws = made_from.get(made.report, [(made.report, made.charges[0].privacy)])
            told += [(clock[0], which, privacy) for which, privacy in draws]
            if draw.random() < 0.6:  # else the answer is lost, and the report will leave again
                settled = replace(entry, status=DeliveryStatus.ACKNOWLEDGED, settled=clock[0])
                session.journal.record_outcome(settled)
    monkeypatch.undo()
    session.journal.close()
    return window, told, refused


def dearest(window: Window, told: list[Telling]) -> Fraction:
    """Return the most that a stretch of time costs, as a fraction of what the window permits."""
    stretches = (
        {which: privacy for at, which, privacy in told if start <= at < start + window.length}
        for start, *_ in told
    )
    costs = [sum(privacy.exact_rate for privacy in of.values()) for of in stretches]
    return Fraction(max(costs, default=Fraction(0))) / window.limit.exact_rate


@pytest.mark.deep(keep=1)
@pytest.mark.parametrize("seed", range(8))
def test_no_schedule_tells_more_in_a_window_than_it_permits(seed, monkeypatch):
    draw = Random(seed)
    found = [lived(draw, monkeypatch) for _ in range(12)]
    assert max(dearest(window, told) for window, told, _ in found) <= 1
    assert sum(refused for *_, refused in found) > 10, "the limits were not tried"
    assert any(dearest(window, told) == 1 for window, told, _ in found)


def test_draws_counted_by_when_they_were_drawn_spend_more(monkeypatch):
    last = "coalesce(report.settled, 9223372036854775807)"
    read = "(SELECT drawn FROM reading WHERE begins = point.begins)"
    assert last in journals.TOLD
    by_draw = journals.TOLD.replace(last, f"coalesce({read}, report.drawn)")
    draw, found = Random(1), []
    for _ in range(10):
        monkeypatch.setattr(journals, "TOLD", by_draw)
        found.append(lived(draw, monkeypatch))
    assert max(dearest(window, told) for window, told, _ in found) > 1


def working(sender: ReportSender, left: list[bytes]) -> Iterator[None]:
    """Work in the background in steps, and note the reports that leave; the server counts each."""
    counted = report_pb2.ReportResult(status=report_pb2.REPORT_STATUS_ACCEPTED)
    steps = sender.work()
    result: Any = None
    with suppress(StopIteration):
        while True:
            step = steps.send(result)
            yield
            result = step.work() if isinstance(step, Local) else None
            if isinstance(step, Request):
                left.append(step.message.reports[0].report_id)
                result = collector_pb2.SubmitReportsResponse(results=[counted])


@pytest.mark.parametrize(
    ("steps", "asleep", "looks", "look_s", "again"),
    [
        (2, False, True, 60.0, 0),
        (2, True, True, 60.0, 0),
        (2, True, False, 60.0, 3),
        (8, False, True, 60.0, 1),
        (8, False, True, math.inf, 2),
    ],
    ids=["", "whose clock stood still", "control", "while sending", "control while sending"],
)
def test_a_process_that_was_stopped_sends_nothing_that_another_has_sent(
    steps, asleep, looks, look_s, again, monkeypatch, tmp_path
):
    """It stops when it knows what waits, or as it sends the second of three reports."""
    monkeypatch.setattr(report_sender, "_LOOK_S", look_s)
    if not looks:
        monkeypatch.setattr(Journal, "mark_sent", lambda _, entries, at: entries)
    clock = [0.0]
    timing = Timing(
        clock=lambda: 0.0 if asleep else clock[0],
        now=lambda: OPENS + timedelta(seconds=clock[0]),
    )
    policy = Policy({"income": Limit(campaign=dollars(1), lifetime="unbounded")})
    draw = Random(1)
    asked = [next(campaigns(draw)) for _ in range(3)]
    senders = []
    for _ in range(2):
        session = DeviceSession(
            policy=policy,
            state_dir=tmp_path / "state",
            source=None,
            most_pending=10,
            most_pending_bytes=1 << 20,
            floor_s=0,
            timing=timing,
        )
        senders.append(ReportSender(session, 10.0))
    for number, campaign in enumerate(asked):
        named = replace(campaign, campaign_id=f"c{number}", readings=None)
        session.remember(session.builder.accept(named.campaign_id, seal(encode(named))))
        session.contribute(named.campaign_id, 50_000.0)
    left: list[bytes] = []
    stopped = working(senders[0], left)
    for _ in range(steps):
        next(stopped)
    for _ in working(senders[1], left):
        pass
    assert len(left) == 3
    clock[0] += 40 * 86_400.0
    for _ in stopped:
        pass
    assert len(left) == 3 + again
    for sender in senders:
        sender._journal.close()
