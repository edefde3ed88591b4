"""Readings and bits with the resulting reports; and sequences of contributions over epochs."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import Any

from geoveil.campaign import (
    Allocation,
    Attribute,
    AttributeCampaign,
    DebiasedLaplaceSpec,
    LipschitzLaplaceSpec,
    PlanarLaplaceSpec,
    Question,
    Readings,
    StatisticCampaign,
    ValueCampaign,
    digest,
    encode,
    seal,
)
from geoveil.client.contributions import DeliveryStatus, Reading
from geoveil.client.device_session import DeviceSession, Timing
from geoveil.client.errors import AnswerNotYet, BudgetExceeded, PolicyRefused
from geoveil.client.limits import Epoch, Limit, Window
from geoveil.client.policy import Policy
from geoveil.client.reports import AcceptedCampaign, ReportBuilder
from geoveil.gp import (
    GaussianKernel,
    GeoPrivacy,
    GeoVeilError,
    Linear,
    PlanarLaplace,
    Range,
    TabulatedProfile,
    Threshold,
)
from geoveil.proto.v1 import report_pb2
from tools.vectors.campaigns import told_of
from tools.vectors.chance import OPENS, PARIS, any_campaign
from tools.vectors.examples import ONE_BY_ONE, every_campaign, small_campaign
from tools.vectors.hostile import changed
from tools.vectors.ledgers import pair as _pair, us as _us
from tools.vectors.tape import Tape

_LENGTH, _INCOME = timedelta(days=91), "household income"
_WEEK, _MICROSECOND = timedelta(days=7), timedelta(microseconds=1)


def _point(integers: Sequence[int]) -> list[str]:
    return [str(k) for k in integers]


def _campaigns() -> Iterator[tuple[str, AttributeCampaign]]:
    table = TabulatedProfile((-9_000.0, 4_000.0, 11_000.0), (0.0, 0.5, 1.0), (0.0, 5e-5, 5e-5, 0.0))
    soft = [
        Question("above", Threshold(50_000.0, 32_000.0, "smoothstep")),
        Question("below", Linear(table, -1.0, -45_000.0)),
        Question("between", Range(20_000.0, 80_000.0, 20_000.0, "smoothstep")),
        Question("near", GaussianKernel(40_000.0, 20_000.0)),
    ]
    weekly = {"period": _WEEK, "readings": Readings(every=_LENGTH, extrapolated=True)}
    for allocation in ONE_BY_ONE:
        asked = small_campaign("questions", questions=tuple(soft), allocation=allocation, **weekly)
        yield f"questions, {allocation.value}", asked
    told = {"questions": tuple(soft[:2]), "allocation": Allocation.REPEAT}
    every = Readings(every=timedelta(days=60), extrapolated=True, cohorts=7)
    yield "cohorts", small_campaign("cohorts", **told, period=_WEEK, readings=every)
    for dimension in (1, 2, 3):
        attribute = Attribute(name="home", unit="metre")
        if dimension == 2:
            attribute = replace(attribute, coordinates=PARIS)
        yield (
            f"points, {dimension}",
            small_campaign(
                "points",
                title="points",
                attribute=attribute,
                privacy=GeoPrivacy(1.0, 500.0, "metre"),
                mechanism=PlanarLaplaceSpec(dimension),
                readings=Readings(every=timedelta(days=365)),
            ),
        )


def epoch_vectors() -> list[dict[str, Any]]:
    """Return readings with a device's reports from them; and sequences over epochs."""
    draw, found = Random(11), list[dict[str, Any]]()
    for name, campaign in _campaigns():
        told = {"name": name, "campaign": encode(campaign).hex(), "cases": list[Any]()}
        cases = [(1.0, ""), (1.25, ""), (4.0, ""), (1000.0, "")]
        if isinstance(campaign, ValueCampaign):  # the second U is all ones: it has no logarithm
            cases.append((3.0, "01" * 64 + "1" * 128))
        asked = campaign.answer_privacy
        for i, (times, given) in enumerate(cases):
            rate = GeoPrivacy(asked.epsilon * times, asked.per, asked.unit)
            readings = []
            for _ in range(2):
                middle = 45_000 if isinstance(campaign, StatisticCampaign) else 0
                spread = 20_000 if middle else 1_000
                around = [draw.gauss(middle, spread) for _ in range(campaign.dimension)]
                near = [round(x / PlanarLaplace(rate).step) for x in around]
                readings.append(tuple(near))
            told["cases"].append(_nested(campaign, rate, readings, f"{name}/{i}", given))
        found.append(told)
    found += [_beyond_64_bits(), _finer_than_the_reading()]
    return [*found, *_envelopes(), *_sequences()]


def _beyond_64_bits() -> dict[str, Any]:
    """Return reports on the finest grid, extrapolated beyond both ends of 64 bits."""
    question = Question("above", Threshold(50_000.0, 8_000.0, "smoothstep"))
    campaign = small_campaign(
        "finest",
        questions=(question,),
        period=_WEEK,
        readings=Readings(every=_LENGTH, extrapolated=True),
        step_exponent=-59,
    )
    step = campaign.point_mechanism.step
    low, high = ((round((50_000.0 + apart) / step),) for apart in (-3_990.0, 3_990.0))
    orders = enumerate(((low, high), (high, low)))
    cases = [
        _nested(campaign, campaign.answer_privacy, readings, f"finest/{i}", days=90)
        for i, readings in orders
    ]
    assert {case["answers"][0][1] for case in cases} == {str(2**63 - 1), str(-(2**63))}
    return {"name": "beyond 64 bits", "campaign": encode(campaign).hex(), "cases": cases}


def _finer_than_the_reading() -> dict[str, Any]:
    """Return points told in smaller steps than those of the readings."""
    campaign = small_campaign(
        "small-steps",
        title="small steps",
        privacy=_dollars(0.5),
        mechanism=PlanarLaplaceSpec(1),
        readings=Readings(every=_LENGTH),
        step_exponent=-40,
    )
    rate = _dollars(1.0)
    step = PlanarLaplace(rate, 1).step
    cases = [
        _nested(campaign, rate, [(round(z / step),)] * 2, f"small steps/{z}")
        for z in (50_000.0, -4_000.5)
    ]
    return {"name": "small steps", "campaign": encode(campaign).hex(), "cases": cases}


def _envelopes() -> Iterator[dict[str, Any]]:
    """Yield envelopes of campaigns with readings, and a device's verdict on them."""
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
        ("points", "readings.extrapolated", True),
        ("points", "readings.every", None),
        ("cohorts", "readings.cohorts", 1),
        ("cohorts", "readings.cohorts", 16),
        ("cohorts", "readings.cohorts", 17),
        ("cohorts", "readings", None),
    ):
        made = changed(encode(nested[base]), [(path, value)])
        yield told_of(f"{base}: {path} = {value}", seal(made))
    smooth = [(f"mechanism.smooth.{name}", 1) for name in ("growth", "calibration")]
    made = changed(encode(nested["questions"]), smooth)
    yield told_of("questions: smooth", seal(made))
    polygon = next(c for name, c, _ in every_campaign() if name == "smooth-polygon-smoothstep-2")
    made = changed(encode(polygon), [("readings.every.seconds", 86_400)])
    yield told_of("polygon", seal(made))


def _nested(
    campaign: AttributeCampaign,
    rate: GeoPrivacy,
    readings: Sequence[tuple[int, ...]],
    seed: str,
    given: str = "",
    days: int = 30,
) -> dict[str, Any]:
    accepted = AcceptedCampaign(
        campaign,
        digest(encode(campaign)),
        None,
        limits=(Limit(campaign=rate, epoch=Epoch(privacy=rate, length=_LENGTH)),),
    )
    points, told = [], dict[str, Any]()
    offsets = (30, 2) if readings[0][0] % 2 else (1, 2)  # days since they were read
    for label, point, begins, offset in zip(
        ("before", "latest"), readings, (OPENS, OPENS + _LENGTH), offsets, strict=True
    ):
        kept = Reading(
            attribute=campaign.attribute.name,
            space="",
            begins=begins,
            ends=begins + _LENGTH,
            privacy=rate,
            point=point,
            drawn=begins + timedelta(days=offset),
        )
        tape = Tape(f"{seed}/{label}", given)
        made = _builder(tape).coarsen(accepted, kept, kept.drawn)
        points.append(made)
        told[label] = {
            "reading": _point(point),
            "bits": tape.hexadecimal,
            "point": _point(made.point),
            "begins_us": _us(begins),
            "read_us": _us(kept.drawn),
        }
    extrapolated = campaign.readings is not None and campaign.readings.extrapolated
    tape, now = (
        Tape(f"{seed}/report", given),
        points[1].drawn + timedelta(days=days, microseconds=7),
    )
    report = _builder(tape).answer(
        accepted, points[1], points[0] if extrapolated else None, now=now, period=1
    )
    message = report_pb2.Report.FromString(report.report)
    return {
        "rate": _pair(rate),
        **told,
        "length_us": _LENGTH // _MICROSECOND,
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
    """Yield dated contributions, with the reading that answers each, or its refusal."""
    draw = Random(13)
    for number in range(6):
        yield _sequence(draw, f"sequence {number}", operations=13)


def _limit(draw: Random, own: bool) -> Limit:
    length = timedelta(days=draw.choice([30, 91, 365]))
    privacy = _dollars(draw.choice([1.0, 1.0, 0.5]))
    finest = draw.choice([None, _dollars(0.5)])
    windows = [Window(limit=_dollars(2.0), length=timedelta(days=draw.choice([20, 200])))]
    return Limit(
        campaign=_dollars(draw.choice([1.0, 2.0, 50.0])),
        lifetime=_dollars(draw.choice([2.0, 3.0, 50.0])),
        windows=tuple(windows if draw.random() < 0.6 else ()),
        epoch=None if own else Epoch(privacy=privacy, length=length, finest=finest),
    )


def _sequence(draw: Random, name: str, operations: int) -> dict[str, Any]:
    """Return contributions to campaigns of all kinds, under limits that sometimes change."""
    limits = [_limit(draw, own=draw.random() < 0.25) for _ in range(draw.choice([1, 1, 2]))]
    every = timedelta(days=draw.choice([30, 91, 365]))
    campaigns = {
        campaign_id: small_campaign(
            campaign_id,
            questions=(Question("above", Threshold(50_000.0, 40_000.0, "smoothstep")),),
            privacy=_dollars(epsilon),
            mechanism=DebiasedLaplaceSpec() if nests else LipschitzLaplaceSpec(),
            closes=OPENS + timedelta(days=3_000),
            period=_WEEK,
            readings=extrapolated
            and Readings(every=every, extrapolated=extrapolated == "moved on"),
        )
        for campaign_id, epsilon, extrapolated, nests in (
            ("a", 0.5, "carried", True),
            ("b", draw.choice([0.25, 0.75]), "moved on", True),
            ("c", 1.0, "carried", True),
            ("d", 0.5, None, True),
            ("e", 0.125, None, False),
        )
    }
    clock = [OPENS]
    session = DeviceSession(
        policy=Policy({_INCOME: limits[0]}),
        state_dir=None,
        source=None,
        most_pending=1_000,
        most_pending_bytes=1 << 20,
        floor_s=0,
        timing=Timing(now=lambda: clock[0]),
    )

    def readings() -> int:
        spaces = ("Number()", *(f"Number() for {name}" for name in campaigns))
        return sum(len(session.journal.readings(_INCOME, "dollar", space)) for space in spaces)

    told = []
    days = (1, 7, 7, 7, every.days // 2, every.days, 2 * every.days, -40)
    for i in range(operations):
        session.builder._source = tape = Tape(f"{name}/{i}")
        last = OPENS + timedelta(days=2_999)
        clock[0] = min(max(clock[0] + timedelta(days=draw.choice(days)), OPENS), last)
        of, campaign_id = draw.randrange(len(limits)), draw.choice("aabbccde")
        session.builder.policy = Policy({_INCOME: limits[of]})
        one: dict[str, Any] = {"at_us": _us(clock[0]), "campaign": campaign_id, "limit": of}
        kept = readings()
        try:
            envelope = seal(encode(campaigns[campaign_id]))
            session.remember(session.builder.accept(campaign_id, envelope))
            receipt = session.contribute(campaign_id, 50_000.0)
            one |= {"verdict": "kept", "fresh": receipt.fresh, "read": readings() > kept}
            one["begins_us"] = receipt.epoch and _us(receipt.epoch)
            if receipt.fresh:
                answers = [[a.query_index, str(a.value)] for a in receipt.answers]
                one |= {"bits": tape.hexadecimal, "answers": answers}
        except PolicyRefused:
            one["verdict"] = "not permitted"
        except AnswerNotYet as error:
            one |= {"verdict": "not yet", "starts_us": _us(error.starts)}
        except BudgetExceeded as error:
            one |= {"verdict": "refused", "scope": error.scope}
            one["frees_us"] = error.frees and _us(error.frees)
        one["spent"] = next(b.spent for b in session.budgets() if b.scope == "lifetime")
        one["delivers"] = draw.random() < 0.6
        for entry in session.journal.pending() if one["delivers"] else ():
            counted = replace(entry, status=DeliveryStatus.ACKNOWLEDGED, settled=clock[0])
            session.journal.record_outcome(counted)
        told.append(one)
    return {
        "name": name,
        "limits": [_told_limit(limit) for limit in limits],
        "campaigns": {
            campaign_id: {
                "rate": _pair(asked.privacy),
                "nests": asked.nests,
                "step_exponent": asked.grid_exponent,
                "every_us": asked.readings and asked.readings.every // _MICROSECOND,
                "extrapolated": asked.readings is not None and asked.readings.extrapolated,
            }
            for campaign_id, asked in campaigns.items()
        },
        "opens_us": _us(OPENS),
        "period_us": _WEEK // _MICROSECOND,
        "operations": told,
    }


def _told_limit(limit: Limit) -> dict[str, Any]:
    assert isinstance(limit.lifetime, GeoPrivacy)
    epoch, windows = limit.epoch, limit.windows
    return {
        "campaign": _pair(limit.campaign),
        "lifetime": _pair(limit.lifetime),
        "windows": [_pair(w.limit) | {"length_us": w.length // _MICROSECOND} for w in windows],
        "epoch": epoch
        and _pair(epoch.privacy)
        | {
            "length_us": epoch.length // _MICROSECOND,
            "finest": epoch.finest and _pair(epoch.finest),
        },
    }


def nested_tuples(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield readings and bits with the resulting reports, and a sequence after each hundred.

    A campaign comes with its first tuple.
    """
    draw, made = Random(seed), 0
    while made < count:
        try:
            campaign = _nesting_by_chance(draw)
        except GeoVeilError:
            continue
        told = {"campaign": encode(campaign).hex()}
        for _ in range(min(draw.choice([1, 10, 100]), count - made)):
            times = draw.choice([1.0, draw.uniform(1.0, 1.001), 10.0 ** draw.uniform(0, 8)])
            privacy = campaign.answer_privacy
            rate = GeoPrivacy(privacy.epsilon * times, privacy.per, privacy.unit)
            step = PlanarLaplace(rate, campaign.dimension).step
            around = privacy.per / privacy.epsilon * draw.choice([0.0, 1.0, 3.0, 1e3])
            drawn = [draw.gauss(0.0, around) / step for _ in range(2 * campaign.dimension)]
            points = tuple(min(max(round(k), -(2**63)), 2**63 - 1) for k in drawn)
            readings = [points[: campaign.dimension], points[campaign.dimension :]]
            ends = ["0" * 128, "1" * 128, "0" * 192, f"{draw.getrandbits(128):0128b}"]
            parts = draw.choices(ends, k=5)
            # A root that touches 0 beside a tie is known by intervals sooner than by balls.
            parts[3] = ends[-1]
            given = "".join(parts) if draw.random() < 0.1 else ""
            yield told | _nested(campaign, rate, readings, f"{seed}/{made}", given)
            told = {}
            made += 1
            if made % 100 == 0:
                yield _sequence(draw, f"{seed}/{made}", operations=draw.choice([10, 40]))


def _nesting_by_chance(draw: Random) -> AttributeCampaign:
    """Return a random campaign that is answered from readings.

    Raises:
        GeoVeilError: if the random campaign is invalid.
    """
    campaign, _ = any_campaign(draw)
    every = timedelta(microseconds=draw.randint(60_000_000, 3660 * 86_400_000_000))
    recurs = isinstance(campaign, StatisticCampaign) and campaign.period is not None
    moved = recurs and draw.random() < 0.7
    readings = Readings(
        every=every, extrapolated=moved, cohorts=draw.choice([0, draw.randint(2, 16)])
    )
    return replace(campaign, readings=readings)


def _dollars(epsilon: float) -> GeoPrivacy:
    return GeoPrivacy(epsilon, 8_000.0, "dollar")
