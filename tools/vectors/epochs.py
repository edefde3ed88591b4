"""Readings and bits with what is made of them; and sequences of contributions over epochs."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import Any

from geoveil.campaign import (
    Allocation,
    Attribute,
    Campaign,
    PlanarLaplaceSpec,
    Question,
    Readings,
    StatisticCampaign,
    Strata,
    ValueCampaign,
    digest,
    encode,
    seal,
)
from geoveil.client.device_session import DeviceSession, Timing
from geoveil.client.errors import BudgetExceeded, PolicyRefused
from geoveil.client.policy import Epoch, Limit, Policy
from geoveil.client.reports import AcceptedCampaign, Reading, ReportBuilder
from geoveil.gp import (
    GaussianKernel,
    GeoPrivacy,
    Linear,
    PlanarLaplace,
    Range,
    TabulatedProfile,
    Threshold,
)
from geoveil.proto.v1 import report_pb2
from tools.vectors.campaigns import told_of
from tools.vectors.chance import OPENS, PARIS
from tools.vectors.examples import every_campaign, small_campaign
from tools.vectors.hostile import changed
from tools.vectors.ledgers import pair as _pair
from tools.vectors.ledgers import us as _us
from tools.vectors.tape import Tape

_LENGTH, _INCOME = timedelta(days=91), "household income"


def _point(integers: Sequence[int]) -> list[str]:
    return [str(k) for k in integers]


def _campaigns() -> Iterator[tuple[str, Campaign]]:
    table = TabulatedProfile((-9_000.0, 4_000.0, 11_000.0), (0.0, 0.5, 1.0), (0.0, 5e-5, 5e-5, 0.0))
    soft = [
        Question("above", Threshold(50_000.0, 32_000.0, "smoothstep")),
        Question("below", Linear(table, -1.0, -45_000.0)),
        Question("between", Range(20_000.0, 80_000.0, 32_000.0, "sixth-order")),
        Question("near", GaussianKernel(40_000.0, 20_000.0)),
    ]
    for allocation in Allocation:
        yield (
            f"questions, {allocation.value}",
            replace(
                small_campaign("questions", questions=tuple(soft), allocation=allocation),
                period=timedelta(days=7),
                readings=Readings(every=timedelta(days=91), extrapolated=True),
            ),
        )
    cohorts = Strata(name="reading", labels=tuple("abcdefg"))
    told = small_campaign("cohorts", questions=tuple(soft[:2]), allocation=Allocation.REPEAT)
    every = Readings(every=timedelta(days=60), extrapolated=True)
    yield "cohorts", replace(told, period=timedelta(days=7), readings=every, strata=cohorts)
    for dimension in (1, 2, 3):
        attribute = Attribute(name="home", unit="metre")
        if dimension == 2:
            attribute = replace(attribute, coordinates=PARIS)
        yield (
            f"points, {dimension}",
            ValueCampaign(
                campaign_id="points",
                title="points",
                attribute=attribute,
                privacy=GeoPrivacy(1.0, 500.0, "metre"),
                mechanism=PlanarLaplaceSpec(dimension),
                opens=OPENS,
                closes=OPENS + timedelta(days=90),
                readings=Readings(every=timedelta(days=365)),
            ),
        )


def epoch_vectors() -> list[dict[str, Any]]:
    """Return readings, and what a device makes of them for a campaign; and sequences of epochs."""
    draw, found = Random(11), list[dict[str, Any]]()
    for name, campaign in _campaigns():
        told = {"name": name, "campaign": encode(campaign).hex(), "cases": list[Any]()}
        for i, times in enumerate((1.0, 1.25, 4.0, 1000.0)):
            rate = GeoPrivacy(campaign.answer_privacy.epsilon * times, campaign.privacy.per,
                              campaign.privacy.unit)  # fmt: skip
            readings = []
            for _ in range(2):
                middle = 45_000 if isinstance(campaign, StatisticCampaign) else 0
                spread = 20_000 if middle else 1_000
                around = [draw.gauss(middle, spread) for _ in range(campaign.dimension)]
                near = [round(x / PlanarLaplace(rate).step) for x in around]
                readings.append(tuple(near))
            told["cases"].append(_nested(campaign, rate, readings, f"{name}/{i}"))
        found.append(told)
    return [*found, *_envelopes(), *_sequences()]


def _envelopes() -> Iterator[dict[str, Any]]:
    """Yield envelopes of campaigns with readings, and what a device makes of them."""
    nested = {asked.campaign_id: asked for _, asked in _campaigns()}
    for name, campaign in _campaigns():
        yield told_of(name, seal(encode(campaign)))
    for base, path, value in (
        ("questions", "readings.every.seconds", 59),
        ("questions", "readings.every.seconds", 60),
        ("questions", "readings.every.nanos", 1),
        ("questions", "readings.every.nanos", 1_000),
        ("questions", "readings.every.seconds", 3660 * 86_400),
        ("questions", "readings.every.seconds", 3660 * 86_400 + 1),
        ("questions", "readings.extrapolated", False),
        ("questions", "period", None),
        ("questions", "mechanism.smooth.beta_fraction", 0.25),
        ("points", "readings.extrapolated", True),
        ("points", "readings.every", None),
        ("cohorts", "strata.epsilon", 1.0),
        ("cohorts", "readings", None),
    ):
        made = changed(encode(nested[base]), [(path, value)])
        yield told_of(f"{base}: {path} = {value}", seal(made))
    polygon = next(c for name, c, _ in every_campaign() if name == "smooth-polygon-smoothstep-2")
    made = changed(encode(polygon), [("readings.every.seconds", 86_400)])
    yield told_of("polygon", seal(made))


def _nested(
    campaign: Campaign, rate: GeoPrivacy, readings: Sequence[tuple[int, ...]], seed: str
) -> dict[str, Any]:
    accepted = AcceptedCampaign(
        campaign,
        digest(encode(campaign)),
        None,
        limit=Limit(campaign=rate, epoch=Epoch(privacy=rate, length=_LENGTH)),
    )
    points, told = [], dict[str, Any]()
    for label, point, begins in zip(
        ("before", "latest"), readings, (OPENS, OPENS + _LENGTH), strict=True
    ):
        kept = Reading(
            attribute=campaign.attribute.name,
            space="",
            begins=begins,
            ends=begins + _LENGTH,
            privacy=rate,
            point=point,
            drawn=begins + timedelta(days=2),
        )
        tape = Tape(f"{seed}/{label}")
        made = _builder(tape).coarsen(accepted, kept, kept.drawn)
        points.append(made)
        told[label] = {
            "reading": _point(point),
            "bits": tape.hexadecimal,
            "point": _point(made.point),
            "read_us": _us(kept.drawn),
        }
    extrapolated = campaign.readings is not None and campaign.readings.extrapolated
    tape, now = Tape(f"{seed}/report"), points[1].drawn + timedelta(days=30, microseconds=7)
    report = _builder(tape).answer(
        accepted, points[1], points[0] if extrapolated else None, now=now, period=1
    )
    message = report_pb2.Report.FromString(report.report)
    return {
        "rate": _pair(rate),
        **told,
        "length_us": _LENGTH // timedelta(microseconds=1),
        "now_us": _us(now),
        "bits": tape.hexadecimal,
        "id": message.report_id.hex(),
        "answers": [[a.query_index, str(a.value)] for a in message.answers],
    }


def _builder(tape: Tape) -> ReportBuilder:
    builder = ReportBuilder(policy=Policy({}))
    builder._source = tape
    return builder


def _sequences() -> Iterator[dict[str, Any]]:
    """Yield contributions by dates, and which reading answers each, or that it is refused."""
    draw = Random(13)
    for number in range(8):
        length = timedelta(days=draw.choice([30, 91, 365]))
        lifetime = _dollars(draw.choice([2.0, 3.0, 50.0]))
        most = _dollars(draw.choice([1.0, 2.0, 50.0]))
        finest = draw.choice([None, _dollars(0.5)])
        limit = Limit(
            campaign=most,
            lifetime=lifetime,
            epoch=Epoch(privacy=_dollars(1.0), length=length, finest=finest),
        )
        campaigns = {}
        for name, epsilon, extrapolated in (
            ("a", 0.5, False),
            ("b", 0.25, True),
            ("c", 1.0, False),
        ):
            asked = Question("above", Threshold(50_000.0, 40_000.0 / epsilon, "smoothstep"))
            campaigns[name] = replace(
                small_campaign(name, questions=(asked,), privacy=_dollars(epsilon)),
                closes=OPENS + timedelta(days=3_000),
                period=timedelta(days=7),
                readings=Readings(every=length, extrapolated=extrapolated),
            )
        clock = [OPENS]
        session = DeviceSession(
            policy=Policy({_INCOME: limit}),
            state_dir=None,
            source=None,
            most_pending=1_000,
            most_pending_bytes=1 << 20,
            floor_s=0,
            timing=Timing(now=lambda clock=clock: clock[0]),
        )
        # When epochs begin is drawn: by a source whose numbers are written down.
        session.builder._source = Tape(f"sequence {number}")
        operations = []
        for _ in range(25):
            jump = draw.choice([1, 7, 7, 7, length.days // 2, length.days, 2 * length.days, -40])
            last = OPENS + timedelta(days=2_999)
            clock[0] = min(max(clock[0] + timedelta(days=jump), OPENS), last)
            name = draw.choice("abc")
            told: dict[str, Any] = {"at_us": _us(clock[0]), "campaign": name}
            kept = session.journal.readings(_INCOME, "dollar", "Number()")
            try:
                session.remember(session.builder.accept(name, seal(encode(campaigns[name]))))
                receipt = session.contribute(name, 50_000.0)
                assert receipt.epoch is not None
                told |= {"verdict": "kept", "fresh": receipt.fresh}
                told["begins_us"] = _us(receipt.epoch)
                told["read"] = len(session.journal.readings(_INCOME, "dollar", "Number()")) > len(
                    kept
                )
            except PolicyRefused:
                told["verdict"] = "not permitted"
            except BudgetExceeded as error:
                told |= {"verdict": "refused", "scope": error.scope}
            told["spent"] = next(b.spent for b in session.budgets() if b.scope == "lifetime")
            operations.append(told)
        yield {
            "name": f"sequence {number}",
            "limit": {
                "campaign": _pair(most),
                "lifetime": _pair(lifetime),
                "epoch": _pair(_dollars(1.0)),
                "length_us": length // timedelta(microseconds=1),
                "finest": finest and _pair(finest),
            },
            "campaigns": {
                name: {
                    "rate": _pair(asked.privacy),
                    "extrapolated": asked.readings is not None and asked.readings.extrapolated,
                }
                for name, asked in campaigns.items()
            },
            "opens_us": _us(OPENS),
            "period_us": 7 * 86_400_000_000,
            "operations": operations,
        }


def _dollars(epsilon: float) -> GeoPrivacy:
    return GeoPrivacy(epsilon, 8_000.0, "dollar")
