"""Make what devices in other languages are checked against: `python tools/vectors.py [FOLDER]`.

It writes proto/vectors, which is the same each time. `python tools/vectors.py --stream N SEED`
prints N more tuples of a campaign, a point and bits with their answers, a line each, without end of
new ones as the seed changes.
"""

import hashlib
import json
import math
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import cache
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

from geoveil.campaign import (
    Attribute,
    Campaign,
    ChannelSpec,
    DebiasedLaplaceSpec,
    LipschitzLaplaceSpec,
    MechanismSpec,
    PlanarLaplaceSpec,
    Question,
    SigningKey,
    SmoothSpec,
    StatisticCampaign,
    Strata,
    ValueCampaign,
    decode,
    digest,
    encode,
    open_envelope,
    seal,
    signer,
)
from geoveil.campaign.statistic import Allocation
from geoveil.client.errors import BudgetExceeded
from geoveil.client.ledger import Spending, check
from geoveil.client.policy import Demand, Limit, Window
from geoveil.gp import (
    Disc,
    GaussianKernel,
    GeoPrivacy,
    GeoVeilError,
    Linear,
    LinearProgramMechanism,
    Polygon,
    Query,
    Radial,
    RandomSource,
    Range,
    TabulatedProfile,
    Threshold,
    TwoWayThreshold,
)
from geoveil.gp.coordinates import AzimuthalEquidistant
from geoveil.gp.mechanisms.channel import TOTAL, Channel, ProbabilityTable
from geoveil.gp.mechanisms.channel_spline import SplineGrid
from geoveil.proto.v1 import campaign_pb2 as pb

VERSION = 1
FOLDER = Path(__file__).parents[1] / "proto" / "vectors"
_OPENS = datetime(2026, 1, 1, tzinfo=UTC)
_PROFILES = ("linear", "smoothstep", "fourth-order", "sixth-order")
_PARIS = AzimuthalEquidistant(2.35, 48.86, 15_000.0)
_WORLD = AzimuthalEquidistant(-73.98, 40.72, 4_000_000.0)
_STAR = ((-1000.0, -800.0), (950.0, -700.0), (1000.0, 812.5), (120.25, 10.0), (-1000.0, 800.0))
_HOLE = ((-400.0, -300.0), (-300.0, -300.0), (-350.0, -150.0))
_ISLAND = ((5000.0, 5000.0), (5100.5, 5000.0), (5050.0, 5075.0))


class Tape(RandomSource):
    """Bits that are written down, most significant first; after those given come seeded ones."""

    def __init__(self, seed: str, given: str = "") -> None:
        self._seed, self._given, self.written, self._blocks = seed, given, "", 0

    def bits(self, count: int) -> int:
        while len(self._given) < count:
            block = hashlib.sha256(f"{self._seed}/{self._blocks}".encode()).digest()
            self._given += f"{int.from_bytes(block):0256b}"
            self._blocks += 1
        drawn, self._given = self._given[:count], self._given[count:]
        self.written += drawn
        return int(drawn, 2) if drawn else 0

    @property
    def hexadecimal(self) -> str:
        """What was drawn, filled up with zeros to whole bytes."""
        filled = self.written + "0" * (-len(self.written) % 8)
        return "".join(f"{int(filled[i : i + 8], 2):02x}" for i in range(0, len(filled), 8))


def answers_of(
    campaign: Campaign, point: Sequence[float], group: int | None, source: RandomSource
) -> tuple[str, list[list[Any]]]:
    """Return the id and the answers of one report: what a device does with a point."""
    columns = campaign.draw_columns(source)
    first = campaign.draw_first_index(group, source)
    name = source.bits(128)
    given: Any = point[0] if campaign.dimension == 1 else tuple(point)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        released = campaign.release(given, columns, source)
    pairs = zip(columns, released, strict=True)
    return f"{name:032x}", [[first + column, str(value)] for column, value in pairs]


# Campaigns by chance


def _smooth_table(draw: Random, size: float) -> TabulatedProfile:
    at = [0.0]
    for _ in range(draw.randint(1, 5)):
        at.append(at[-1] + size * draw.uniform(0.1, 1.0))
    start = draw.choice([0.0, size * draw.uniform(-2.0, 0.0)])
    values = [draw.uniform(-1.0, 2.0) for _ in at]
    inner = [draw.uniform(-2.0, 2.0) / size for _ in at[1:-1]]
    slopes = [0.0, *(m for m in inner for _ in range(2)), 0.0]
    return TabulatedProfile(tuple(x + start for x in at), tuple(values), tuple(slopes))


def _cornered_table(draw: Random, size: float) -> TabulatedProfile:
    table = _smooth_table(draw, size)
    slopes = tuple(m + draw.uniform(-1.0, 1.0) / size for m in table.slopes)
    return replace(table, slopes=slopes)


def _ray(table: TabulatedProfile) -> TabulatedProfile:
    return replace(table, at=tuple(x - table.at[0] for x in table.at))


def _query(
    draw: Random, kind: str, dimension: int, size: float, profile: str, corners: bool
) -> Query:
    """Return a query that varies near 0 over about `size`."""
    width = size * draw.choice([1.0, draw.uniform(0.2, 3.0)])
    centre = tuple(round(draw.gauss(0.0, size), draw.randint(-1, 8)) for _ in range(dimension))
    table = _cornered_table if corners else _smooth_table
    makers: dict[str, Callable[[], Query]] = {
        "threshold": lambda: Threshold(centre[0], width, profile),
        "range": lambda: Range(centre[0], centre[0] + width * 1.5, width, profile),
        "two-way-threshold": lambda: TwoWayThreshold(centre, width, profile),
        "disc": lambda: Disc(centre, width, width * draw.uniform(0.1, 2.0), profile),
        "polygon": lambda: Polygon(_region(draw, size), width, profile),
        "gaussian-kernel": lambda: GaussianKernel(centre, width),
        "radial": lambda: Radial(_ray(table(draw, width)), centre),
        "linear": lambda: Linear(
            table(draw, width), [draw.uniform(-3, 3) or 1.0 for _ in centre], draw.gauss(0, size)
        ),
    }
    return makers[kind]()


def _region(draw: Random, size: float) -> list[list[list[tuple[float, float]]]]:
    scale = size * draw.uniform(0.0005, 0.003)
    shape = [[_STAR, _HOLE], [_ISLAND]] if draw.random() < 0.5 else [[_STAR]]
    return [[[(x * scale, y * scale) for x, y in ring] for ring in part] for part in shape]


_KINDS = {
    1: ("threshold", "range", "gaussian-kernel", "radial", "linear"),
    2: ("two-way-threshold", "disc", "polygon", "gaussian-kernel", "radial", "linear"),
    3: ("disc", "gaussian-kernel", "radial", "linear"),
}


@cache
def _channels() -> tuple[tuple[Query, GeoPrivacy, MechanismSpec], ...]:
    """Return queries with their privacy and a channel for it; seconds of linear programmes."""
    found = []
    for query, privacy in (
        (Threshold(100_000.0, 16_000.0), GeoPrivacy(1.0, 8_000.0, "unit")),
        (Threshold(100.0, 24.0, "smoothstep"), GeoPrivacy(1.0, 8.0, "unit")),
        (Threshold(0.0, 16.0, "fourth-order"), GeoPrivacy(2.0, 8.0, "unit")),
        (Range(20.0, 60.0, 16.0), GeoPrivacy(1.0, 8.0, "unit")),
        (GaussianKernel((0.0, 0.0), 1000.0), GeoPrivacy(1.0, 500.0, "unit")),
        (Disc((10.0, -20.0), 1500.0, 1000.0, "smoothstep"), GeoPrivacy(1.0, 500.0, "unit")),
    ):
        channel = LinearProgramMechanism(query, privacy, quick=True)
        found.append((query, privacy, ChannelSpec.of(channel)))
    return tuple(found)


def any_campaign(draw: Random) -> tuple[Campaign, float]:
    """Return a campaign of any kind, and the length over which it asks.

    Every mechanism, query, profile, allocation and grid has its turn.
    """
    name = f"c{draw.randrange(10**9)}"
    groups = draw.choice([None, None, "openly", "lied"])
    labels = tuple(f"g{i}" for i in range(draw.randint(2, 9)))
    strata = groups and Strata(
        name="group", labels=labels, epsilon=draw.uniform(0.01, 8.0) if groups == "lied" else None
    )
    recurring = timedelta(days=draw.randint(1, 40)) if draw.random() < 0.3 else None
    common: dict[str, Any] = {
        "campaign_id": name,
        "title": "A question",
        "opens": _OPENS,
        "closes": _OPENS + timedelta(days=90),
        "strata": strata or None,
        "period": recurring,
    }
    if draw.random() < 0.1:
        query, privacy, spec = draw.choice(_channels())
        made: Campaign = StatisticCampaign(
            **common,
            attribute=Attribute(name="value", unit="unit"),
            privacy=privacy,
            questions=(Question("q", query),),
            mechanism=spec,
        )
        return _finer(draw, made), privacy.per
    plane = draw.choice([_PARIS, _WORLD]) if draw.random() < 0.25 else None
    dimension = 2 if plane else draw.choice([1, 1, 2, 2, 3])
    unit = "metre" if plane else "unit"
    size = 500.0 if plane else 10.0 ** draw.randint(-6, 8)
    per = size * draw.choice([1.0, draw.uniform(0.2, 3.0)])
    privacy = GeoPrivacy(draw.choice([1.0, 0.5, draw.uniform(0.05, 4.0)]), per, unit)
    common |= {
        "attribute": Attribute(name="value", unit=unit, coordinates=plane),
        "privacy": privacy,
    }
    if draw.random() < 0.1:
        made = ValueCampaign(**common, mechanism=PlanarLaplaceSpec(dimension))
        return _finer(draw, made), size
    mechanism = draw.choice(["debiased", "debiased", "lipschitz", "smooth"])
    queries = []
    for _ in range(draw.choice([1, 1, 1, 2, 3, 5])):
        kind, profile = draw.choice(_KINDS[dimension]), draw.choice(_PROFILES)
        if mechanism == "debiased" and profile == "linear":
            profile = "smoothstep"
        corners = mechanism != "debiased" and draw.random() < 0.5
        queries.append(_query(draw, kind, dimension, size, profile, corners))
    specs: dict[str, MechanismSpec] = {
        "debiased": DebiasedLaplaceSpec(),
        "lipschitz": LipschitzLaplaceSpec(),
        "smooth": SmoothSpec(draw.choice([0.15, 0.3, draw.uniform(0.01, 0.95)])),
    }
    made = StatisticCampaign(
        **common,
        questions=tuple(Question(f"q{i}", q) for i, q in enumerate(queries)),
        mechanism=specs[mechanism],
        allocation=draw.choice(list(Allocation)),
    )
    return _finer(draw, made), size


def _finer(draw: Random, campaign: Campaign) -> Campaign:
    """Return the campaign on a grid that is finer, at times by much, if it permits that."""
    by = draw.choice([0, 0, 0, 1, 2, 5, 10])
    while by:
        try:
            return replace(campaign, step_exponent=campaign.grid_exponent - by)
        except GeoVeilError:
            by -= 1
    return campaign


_HOSTILE = ("0" * 128, "1" * 128, "1" + "0" * 127, "0" + "1" * 127, "0" * 192, "1" * 256, "0" * 100)


def tuples(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield campaigns, points and bits with the answers; the campaign with the first of its own."""
    draw, made = Random(seed), 0
    while made < count:
        try:
            campaign, size = any_campaign(draw)
        except GeoVeilError:
            continue
        for _ in range(min(draw.choice([1, 4, 20]), count - made)):
            tuple_ = one_tuple(draw, campaign, size, f"{seed}/{made}")
            yield {"campaign": encode(campaign).hex(), **tuple_}
            made += 1


def one_tuple(draw: Random, campaign: Campaign, size: float, seed: str) -> dict[str, Any]:
    """Return a point and bits for a campaign, with the answers."""
    spread = size * draw.choice([0.0, 1.0, 1.0, 3.0, 30.0, 1e4])
    exact = draw.random() < 0.2
    point = [draw.gauss(0.0, spread) for _ in range(campaign.dimension)]
    if exact:
        point = [float(round(c)) for c in point]
    if isinstance(campaign, StatisticCampaign) and draw.random() < 0.5:
        at = getattr(draw.choice(campaign.questions).query, "at", None)
        if isinstance(at, float):
            point[0] += at
    group = None if campaign.strata is None else draw.randrange(campaign.groups)
    given = draw.choice(_HOSTILE) * draw.choice([1, 3]) if draw.random() < 0.03 else ""
    tape = Tape(seed, given)
    name, answers = answers_of(campaign, point, group, tape)
    return {
        "point": point,
        "group": group,
        "bits": tape.hexadecimal,
        "id": name,
        "answers": answers,
    }


# What is written


def _campaign(name: str, **changes: Any) -> Campaign:
    """Return a small campaign with changes."""
    given: dict[str, Any] = {
        "campaign_id": name,
        "title": "A question",
        "attribute": Attribute(name="household income", unit="dollar"),
        "privacy": GeoPrivacy(1.0, 8_000.0, "dollar"),
        "opens": _OPENS,
        "closes": _OPENS + timedelta(days=90),
    }
    kind = ValueCampaign if isinstance(changes.get("mechanism"), PlanarLaplaceSpec) else None
    if kind is None:
        kind = StatisticCampaign
        asked = Threshold(100_000.0, 24_000.0, "smoothstep")
        given["questions"] = (Question("above 100k", asked),)
    made: Campaign = kind(**(given | changes))
    return made


def _spline_channel(
    query: Query, edges: tuple[float, ...], cells: tuple[int, ...], even: bool
) -> ChannelSpec:
    """Return the channel with three outputs, −2, 1 and 3, whose mean is the query's in each row."""
    places: list[Fraction] = []
    for (low, high), count in zip(pairwise(map(Fraction, edges)), cells, strict=True):
        width = (high - low) / count
        places += [low, *(low + (i + Fraction(1, 2)) * width for i in range(count))]
    places.append(Fraction(edges[-1]))
    rows = []
    for place in places:
        mean = Fraction(float(query.profile.value(float(place))))
        # Of what is not the middle output, as much goes up as has the mean right.
        middle = Fraction(1, 5)
        high_share = (mean - middle + 2 * (1 - middle)) / 5
        top = round(high_share * TOTAL)
        between = round(middle * TOTAL)
        rows.append((TOTAL - top - between, between, top))
    table = ProbabilityTable((-2, 1, 3), tuple(rows))
    return ChannelSpec((Channel(SplineGrid(edges, cells), table, 0, even),))


def _every_campaign() -> Iterator[tuple[str, Campaign, float]]:
    """Yield a name, a campaign and its length, for every mechanism, query, profile and so on."""
    draw = Random(21)
    income = {"attribute": Attribute(name="value", unit="unit")}
    privacy = GeoPrivacy(1.0, 8.0, "unit")
    mechanisms: dict[str, MechanismSpec] = {
        "debiased": DebiasedLaplaceSpec(),
        "lipschitz": LipschitzLaplaceSpec(),
        "smooth": SmoothSpec(0.15),
    }
    for mechanism, spec in mechanisms.items():
        for dimension, kinds in _KINDS.items():
            for kind in kinds:
                of_band = kind not in ("gaussian-kernel", "radial", "linear")
                for profile in _PROFILES if of_band else _PROFILES[:1]:
                    if (mechanism == "debiased" and of_band and profile == "linear") or (
                        dimension == 3 and mechanism != "debiased"
                    ):
                        continue
                    query = _query(draw, kind, dimension, 16.0, profile, mechanism == "smooth")
                    name = (
                        f"{mechanism}-{kind}-{profile}-{dimension}"
                        if of_band
                        else f"{mechanism}-{kind}-{dimension}"
                    )
                    yield (
                        name,
                        _campaign(
                            name,
                            **income,
                            privacy=privacy,
                            mechanism=spec,
                            questions=(Question("q", query),),
                        ),
                        16.0,
                    )
    questions = tuple(Question(f"q{i}", Threshold(10.0 * i, 16.0, "smoothstep")) for i in range(3))
    region = Strata(name="region", labels=("north", "south", "west"), epsilon=0.5)
    for allocation in Allocation:
        for strata in (None, replace(region, epsilon=None), region):
            for steps in (0, 7):
                label = "none" if strata is None else "lied" if strata.epsilon else "openly"
                name = f"{allocation.value}-{label}-{steps}"
                made = _campaign(
                    name,
                    **income,
                    privacy=privacy,
                    questions=questions,
                    allocation=allocation,
                    strata=strata,
                )
                yield name, replace(made, step_exponent=made.grid_exponent - steps), 16.0
    place = {
        "attribute": Attribute(name="home", unit="metre", coordinates=_PARIS),
        "privacy": GeoPrivacy(1.0, 500.0, "metre"),
    }
    around = Question("centre", Disc((0.0, 0.0), 1500.0, 1000.0, "smoothstep"))
    yield "places-disc", _campaign("places-disc", **place, questions=(around,)), 500.0
    wide = place | {"attribute": Attribute(name="home", unit="metre", coordinates=_WORLD)}
    yield "places-world", _campaign("places-world", **wide, questions=(around,)), 500.0
    points = {"mechanism": PlanarLaplaceSpec(2)}
    yield "places-points", _campaign("places-points", **place, **points), 500.0
    for k in (1, 2, 3):
        name = f"points-{k}"
        yield name, _campaign(name, **income, privacy=privacy, mechanism=PlanarLaplaceSpec(k)), 8.0
    heavy = SmoothSpec(0.9)
    yield "smooth-heavy", _campaign("smooth-heavy", **income, privacy=privacy, mechanism=heavy), 8.0
    bell = TabulatedProfile((0.0, 48.0), (1.0, 0.0), (0.0, 0.0))
    for name, query, edges, cells, even in (
        ("channel-ramp", Threshold(0.0, 16.0), (-8.0, 8.0), (12,), False),
        ("channel-two-segments", Threshold(3.0, 16.0), (-8.0, -1.0, 8.0), (6, 8), False),
        ("channel-even", Radial(bell, (0.0, 0.0)), (0.0, 48.0), (32,), True),
    ):
        spec = _spline_channel(query, edges, cells, even)
        made = _campaign(
            name,
            **income,
            privacy=GeoPrivacy(1.0, 4.0, "unit"),
            questions=(Question("q", query),),
            mechanism=spec,
        )
        yield name, made, 16.0
        finer = replace(made, campaign_id=f"{name}-finer", step_exponent=-5)
        yield f"{name}-finer", finer, 16.0


def release_vectors() -> dict[str, Any]:
    """Return campaigns, and what a device answers for points and bits."""
    draw = Random(2026)
    found = []
    for name, campaign, size in _every_campaign():
        cases = [one_tuple(draw, campaign, size, f"{name}/{i}") for i in range(3)]
        found.append({"name": name, "campaign": encode(campaign).hex(), "cases": cases})
    campaign, hard = _campaign("hard-bits"), []
    for label, given in (
        ("zeros", "0" * 256),
        ("ones", "1" * 256),
        ("the middle", "1" + "0" * 255),
    ):
        tape = Tape(label, "0" * 128 + given)
        name, answers = answers_of(campaign, [100_000.0], None, tape)
        hard.append(
            {
                "point": [100_000.0],
                "group": None,
                "bits": tape.hexadecimal,
                "id": name,
                "answers": answers,
            }
        )
    found.append({"name": "hard bits", "campaign": encode(campaign).hex(), "cases": hard})
    return {"version": VERSION, "release": found}


def _told(name: str, envelope: bytes) -> dict[str, Any]:
    """Return what a device makes of an envelope."""
    told: dict[str, Any] = {"name": name, "envelope": envelope.hex()}
    try:
        message = open_envelope(envelope)
        signed_by = signer(message)
        campaign = decode(message.campaign)
    except (GeoVeilError, ArithmeticError):
        return told | {"verdict": "refused"}
    price, whole = campaign.report_privacy, campaign.total_privacy
    demand = Demand.of(message.campaign)
    return told | {
        "verdict": "sound",
        "campaign_id": campaign.campaign_id,
        "digest": digest(message.campaign).hex(),
        "signer": None if signed_by is None else str(signed_by),
        "price": {"epsilon": price.epsilon, "per": price.per, "unit": price.unit},
        "total": {"epsilon": whole.epsilon, "per": whole.per, "unit": whole.unit},
        "work": demand.work,
        "queries": demand.queries,
        "periods": campaign.periods,
    }


_Change = Callable[[Any], None]


def _changed(campaign: Campaign, change: _Change) -> bytes:
    message = pb.Campaign.FromString(encode(campaign))
    change(message)
    return message.SerializeToString(deterministic=True)


def _set(path: str, value: Any) -> _Change:
    """Return what sets one field of a message, named by a path of fields and indices."""

    def change(message: Any) -> None:
        *way, last = path.split(".")
        for part in way:
            message = message[int(part)] if part.isdigit() else getattr(message, part)
        if last.isdigit():
            message[int(last)] = value
        elif isinstance(value, list):
            del getattr(message, last)[:]
            getattr(message, last).extend(value)
        elif value is None:
            message.ClearField(last)
        else:
            setattr(message, last, value)

    return change


_HOSTILE_FIELDS: dict[str, Sequence[tuple[str, Any]]] = {
    "plain": (
        ("campaign_id", "UPPER"),
        ("campaign_id", ""),
        ("campaign_id", "a" * 65),
        ("title", ""),
        ("title", " blank"),
        ("title", "two\nlines"),
        ("title", "\u202eright to left"),
        ("title", "o" + "\u0301" * 5),
        ("title", "\u200b"),
        ("title", "x" * 201),
        ("attribute.name", ""),
        ("attribute.unit", "\u3164"),
        ("attribute.unit", "y" * 65),
        ("privacy.epsilon", 0.0),
        ("privacy.epsilon", -1.0),
        ("privacy.epsilon", math.nan),
        ("privacy.epsilon", math.inf),
        ("privacy.epsilon", 1e60),
        ("privacy.per", 0.0),
        ("privacy.per", 1e-3),
        ("privacy.per", 1e15),
        ("privacy", None),
        ("queries", []),
        ("queries.0.label", ""),
        ("queries.0.threshold.width", 0.0),
        ("queries.0.threshold.width", -1.0),
        ("queries.0.threshold.at", math.nan),
        ("queries.0.threshold.at", math.inf),
        ("queries.0.threshold.profile", 0),
        ("queries.0.threshold.profile", 1),
        ("queries.0.threshold.profile", 9),
        ("mechanism", None),
        ("mechanism.planar_laplace.dimension", 1),
        ("allocation", 0),
        ("allocation", 4),
        ("grid.step_exponent", 1),
        ("grid.step_exponent", -100),
        ("grid.step_exponent", 300),
        ("closes.seconds", 0),
        ("closes.seconds", 10**15),
        ("closes.nanos", 1),
        ("opens.nanos", 10**9),
        ("opens.seconds", -(10**12)),
        ("period.seconds", 59),
        ("period.seconds", 0),
        ("period.seconds", -60),
        ("minimum_participants", 10**13),
        ("strata.name", "region"),
        ("title", "caf\u00e9 \u2764\ufe0f"),
        ("queries.0.threshold.at", -0.0),
        ("queries.0.threshold.at", 0.0),
        ("queries.0.softness.bound", 0.5),
        ("queries.0.softness.bound", -0.5),
        ("queries.0.softness.expected_difference", math.inf),
        ("period.seconds", 86_400),
    ),
    "split": (
        ("allocation", 3),
        ("queries.1.label", "q0"),
        ("privacy.epsilon", 1e-50),
        ("strata.labels", ["one"]),
        ("strata.labels", ["a", "a"]),
        ("strata.epsilon", 17.0),
        ("strata.epsilon", 0.0),
        ("strata.labels", ["a", "b "]),
        ("strata", None),
    ),
    "polygon": (
        ("queries.0.polygon.parts.0.rings.0.coordinates", [0.0, 0.0, 9.0, 9.0, 9.0, 0.0, 0.0, 9.0]),
        ("queries.0.polygon.parts.0.rings.0.coordinates", [0.0, 0.0, 9.0, 9.0]),
        ("queries.0.polygon.parts.0.rings.0.coordinates", [0.0, 0.0, 9.0, 9.0, 9.0]),
        ("queries.0.polygon.parts.0.rings.0.coordinates", [0.0, 0.0, 9.0, 0.0, 9.0, 9.0, 0.0, 0.0]),
        ("queries.0.polygon.parts.0.rings.0.coordinates", [0.0, 0.0, 9.0, 0.0, 18.0, 0.0]),
        ("queries.0.polygon.parts.0.rings.1.coordinates", [90.0, 90.0, 91.0, 90.0, 91.0, 91.0]),
        ("queries.0.polygon.parts.1.rings.0.coordinates", [-15.0, -10.0, 5.0, -10.0, 5.0, 9.0]),
        ("queries.0.polygon.parts.0.rings.0.coordinates", [math.nan, 0.0, 9.0, 0.0, 9.0, 9.0]),
        ("queries.0.polygon.parts", []),
    ),
    "table": (
        ("queries.0.linear.profile.at", [0.0, 0.0]),
        ("queries.0.linear.profile.at", [0.0]),
        ("queries.0.linear.profile.values", [1.0]),
        ("queries.0.linear.profile.slopes", [1.0]),
        ("queries.0.linear.profile.at.0", math.nan),
        ("queries.0.linear.profile.slopes.0", 0.5),
        ("queries.0.linear.profile.at.0", -1e9),
        ("queries.0.linear.direction", []),
        ("queries.0.linear.direction", [0.0]),
        ("queries.0.linear.offset", math.inf),
        ("queries.0.linear.direction", [1.0, 2.0]),
    ),
    "channel": (
        ("mechanism.channels.per_query", []),
        ("mechanism.channels.per_query.0.cells", [11]),
        ("mechanism.channels.per_query.0.cells.0", 0),
        ("mechanism.channels.per_query.0.outputs", [1, -2, 3]),
        ("mechanism.channels.per_query.0.outputs", [-2, 1]),
        ("mechanism.channels.per_query.0.counts.0", 0),
        ("mechanism.channels.per_query.0.counts.0", 1 << 60),
        ("mechanism.channels.per_query.0.edges", [8.0, -8.0]),
        ("mechanism.channels.per_query.0.edges", [-800.0, 8.0]),
        ("mechanism.channels.per_query.0.absolute", True),
        ("mechanism.channels.per_query.0.step_exponent", 1),
        ("privacy.epsilon", 0.2),
        ("privacy.epsilon", 2.0),
        ("queries.0.threshold.at", 50.0),
        ("grid.step_exponent", 1),
    ),
    "places": (
        ("attribute.unit", "mile"),
        ("attribute.azimuthal_equidistant.radius_m", 0.0),
        ("attribute.azimuthal_equidistant.radius_m", 6e6),
        ("attribute.azimuthal_equidistant.latitude_deg", 91.0),
        ("attribute.azimuthal_equidistant.longitude_deg", -181.0),
        ("queries.0.disc.center", [0.0, 0.0, 0.0]),
        ("queries.0.disc.center", [0.0]),
        ("queries.0.disc.width", 4000.0),
        ("queries.0.disc.radius", -1.0),
    ),
    "points": (
        ("mechanism.planar_laplace.dimension", 0),
        ("mechanism.planar_laplace.dimension", 4),
        ("allocation", 2),
        ("queries.0.label", "q"),
    ),
}


def campaign_vectors() -> dict[str, Any]:
    """Return envelopes of all sorts, and what a device makes of them."""
    made = {name: (campaign, size) for name, campaign, size in _every_campaign()}
    bases = {
        "plain": _campaign("plain"),
        "split": made["split-lied-0"][0],
        "polygon": made["smooth-polygon-smoothstep-2"][0],
        "table": made["debiased-linear-1"][0],
        "channel": made["channel-ramp"][0],
        "places": made["places-disc"][0],
        "points": made["points-2"][0],
    }
    key = SigningKey.from_pem(_PEM)
    found = [_told(name, seal(encode(campaign))) for name, campaign in bases.items()]
    signed = seal(encode(bases["plain"]), key)
    found.append(_told("signed", signed))
    for name, change in (
        ("signature of other bytes", _set("campaign", encode(bases["points"]))),
        ("signature with a bit turned", lambda e: _turn(e.signature, "signature", 5)),
        ("key with a bit turned", lambda e: _turn(e.signature, "public_key", 5)),
        ("short signature", _set("signature.signature", b"x")),
        ("key of small order", _set("signature.public_key", b"\x01" + bytes(31))),
        ("empty signature", lambda e: e.signature.Clear() or e.signature.SetInParent()),
    ):
        envelope = pb.CampaignEnvelope.FromString(signed)
        change(envelope)
        found.append(_told(name, envelope.SerializeToString(deterministic=True)))
    for base, changes in _HOSTILE_FIELDS.items():
        for path, value in changes:
            with suppress(IndexError, TypeError):
                changed = _changed(bases[base], _grown(path, value))
                found.append(_told(f"{base}: {path} = {str(value)[:40]}", seal(changed)))
    plain = encode(bases["plain"])
    within = pb.Campaign.FromString(plain)
    within.attribute.MergeFromString(b"\x98\x06\x01")
    for name, bytes_ in (
        ("unknown field at the end", plain + b"\x98\x06\x01"),
        ("unknown field within a message", within.SerializeToString(deterministic=True)),
        ("not canonical: a field twice", plain + plain[:7]),
        ("not canonical: a default is written", plain + b"\x60\x00"),
        ("cut", plain[:-1]),
        ("nothing", b""),
        ("no message", b"\xff" * 20),
        ("not UTF-8", plain.replace(b"A question", b"A questi\xff\xfe")),
        ("a longer varint", plain.replace(b"\x38\x01", b"\x38\x81\x00")),
    ):
        found.append(_told(name, pb.CampaignEnvelope(campaign=bytes_).SerializeToString()))
    found.append(_told("an envelope with an unknown field", signed + b"\x98\x06\x01"))
    found.append(_told("no envelope", b"\x0a\xff"))
    return {"version": VERSION, "campaigns": found}


def _grown(path: str, value: Any) -> _Change:
    """Return `_set`, which first adds a repeated message that the path counts on."""

    def change(message: Any) -> None:
        node = message
        for part in path.split(".")[:-1]:
            if part.isdigit() and int(part) == len(node) and hasattr(node, "add"):
                node.add()
            node = node[int(part)] if part.isdigit() else getattr(node, part)
        _set(path, value)(message)

    return change


def _turn(message: Any, field: str, bit: int) -> None:
    old = getattr(message, field)
    setattr(message, field, bytes([old[0] ^ 1 << bit]) + old[1:])


_PEM = b"""-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g
-----END PRIVATE KEY-----
"""
"""The first key of RFC 8032 §7.1."""


class _Answers:
    """A history in memory."""

    def __init__(self) -> None:
        self.kept: list[tuple[datetime, str, GeoPrivacy]] = []

    def spendings(
        self, *, campaign_id: str | None = None, after: datetime | None = None
    ) -> Iterator[Spending]:
        for when, campaign, privacy in self.kept:
            if campaign_id in (None, campaign) and (after is None or when > after):
                yield Spending(privacy=privacy)

    def times(self, *, after: datetime | None) -> Iterator[tuple[datetime, Spending]]:
        for when, _, privacy in sorted(self.kept, key=lambda kept: kept[0]):
            if after is None or when > after:
                yield when, Spending(privacy=privacy)


def ledger_vectors() -> dict[str, Any]:
    """Return sequences of answers to limits, and whether each is permitted."""
    draw, found = Random(7), []
    for _ in range(12):
        per = draw.choice([8_000.0, 500.0, 0.1])
        each = draw.choice([0.1, 1 / 3, 1.0])

        def limit(times: float, per: float = per, each: float = each) -> GeoPrivacy:
            return GeoPrivacy(each * times, per * draw.choice([1.0, 2.0]), "unit")

        windows = [
            Window(limit=limit(draw.uniform(1, 4)), length=timedelta(days=draw.randint(1, 60)))
            for _ in range(draw.randint(0, 2))
        ]
        lifetime = draw.choice([None, limit(draw.randint(3, 9))])
        allowed = Limit(campaign=limit(3.0), lifetime=lifetime, windows=tuple(windows))
        history, now, operations = _Answers(), _OPENS, []
        for _ in range(12):
            now += timedelta(seconds=draw.choice([0, 60, 86_400, 86_400 * draw.randint(1, 30)]))
            campaign = draw.choice(["a", "b", "c"])
            asked = GeoPrivacy(each * draw.choice([1, 1, 1, 0.5, 2]), per, "unit")
            told: dict[str, Any] = {
                "at_us": _us(now),
                "campaign": campaign,
                "epsilon": asked.epsilon,
                "per": per,
            }
            try:
                check(asked, allowed, history, campaign_id=campaign, attribute="x", now=now)
                history.kept.append((now, campaign, asked))
                told["verdict"] = "permitted"
            except BudgetExceeded as error:
                told |= {"verdict": "refused", "spent": error.spent}
                told["frees_us"] = error.frees and _us(error.frees)
            operations.append(told)
        limits = {
            "campaign": _pair(allowed.campaign),
            "lifetime": lifetime and _pair(lifetime),
            "windows": [{**_pair(w.limit), "length_us": _us(_EPOCH + w.length)} for w in windows],
        }
        found.append({"limits": limits, "operations": operations})
    return {"version": VERSION, "ledgers": found}


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _us(when: datetime) -> int:
    return (when - _EPOCH) // timedelta(microseconds=1)


def _pair(privacy: GeoPrivacy) -> dict[str, float]:
    return {"epsilon": privacy.epsilon, "per": privacy.per}


def projection_vectors() -> dict[str, Any]:
    """Return places, and their points in planes, right to 1e-8 m."""
    draw, found = Random(3), []
    for plane in (
        _PARIS,
        _WORLD,
        AzimuthalEquidistant(179.9, -17.5, 300_000.0),
        AzimuthalEquidistant(0.0, 90.0, 5e6),
        AzimuthalEquidistant(-20.0, 0.0, 1000.0),
    ):
        places = [(plane.longitude_deg, plane.latitude_deg), (plane.longitude_deg, -89.5)]
        for _ in range(10):
            near = draw.random() < 0.7
            spread = plane.radius_m / 80_000.0
            latitude = min(max(plane.latitude_deg + draw.gauss(0, spread), -90.0), 90.0)
            longitude = plane.longitude_deg + draw.gauss(0, spread)
            longitude = (longitude + 180.0) % 360.0 - 180.0
            if not near:
                longitude, latitude = draw.uniform(-180, 180), draw.uniform(-90, 90)
            places.append((longitude, latitude))
        points = [[float(c) for c in plane.project(place)] for place in places]
        found.append(
            {
                "plane": [plane.longitude_deg, plane.latitude_deg, plane.radius_m],
                "distortion": plane.distortion,
                "places": places,
                "points": points,
            }
        )
    return {"version": VERSION, "projection": found}


MAKERS: dict[str, Callable[[], dict[str, Any]]] = {
    "release.json": release_vectors,
    "campaigns.json": campaign_vectors,
    "ledger.json": ledger_vectors,
    "projection.json": projection_vectors,
}


def text(found: dict[str, Any]) -> str:
    """Return vectors as they are written: an item a line."""
    (version, number), (name, items) = found.items()
    lines = ",\n".join(json.dumps(item, separators=(",", ":")) for item in items)
    return f'{{"{version}":{number},"{name}":[\n{lines}\n]}}\n'


def main() -> None:
    """Write the vectors, or print more tuples."""
    if sys.argv[1:2] == ["--stream"]:
        last = None
        for found in tuples(int(sys.argv[2]), int(sys.argv[3])):
            if found["campaign"] == last:
                del found["campaign"]
            else:
                last = found["campaign"]
            print(json.dumps(found))
        return
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    for name, make in MAKERS.items():
        (folder / name).write_text(text(make()), encoding="utf-8")


if __name__ == "__main__":
    main()
