"""Random campaigns, points and bits, with the answers of a device."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from geoveil.campaign import (
    Attribute,
    AttributeCampaign,
    DebiasedLaplaceSpec,
    LipschitzLaplaceSpec,
    MechanismSpec,
    PlanarLaplaceSpec,
    Question,
    SmoothSpec,
    StatisticCampaign,
    ValueCampaign,
    encode,
)
from geoveil.campaign.statistic import Allocation
from geoveil.gp import (
    Cap,
    Disc,
    GaussianKernel,
    GeoPrivacy,
    GeoVeilError,
    Linear,
    Polygon,
    Query,
    Radial,
    Range,
    TabulatedProfile,
    Threshold,
    TwoWayThreshold,
)
from geoveil.gp.coordinates import AzimuthalEquidistant
from tools.vectors.tape import Tape, tuple_of

OPENS = datetime(2026, 1, 1, tzinfo=UTC)
PROFILES = ("linear", "smoothstep")
PARIS = AzimuthalEquidistant(2.35, 48.86, 15_000.0)
WORLD = AzimuthalEquidistant(-73.98, 40.72, 4_000_000.0)
_STAR = ((-1000.0, -800.0), (950.0, -700.0), (1000.0, 812.5), (120.25, 10.0), (-1000.0, 800.0))
_HOLE = ((-400.0, -300.0), (-300.0, -300.0), (-350.0, -150.0))
_ISLAND = ((5000.0, 5000.0), (5100.5, 5000.0), (5050.0, 5075.0))


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


def query_by_chance(
    draw: Random, kind: str, dimension: int, size: float, profile: str, corners: bool
) -> Query:
    """Return a random query that varies near 0 over about `size`."""
    width = size * draw.choice([1.0, draw.uniform(0.2, 3.0)])
    centre = tuple(round(draw.gauss(0.0, size), draw.randint(-1, 8)) for _ in range(dimension))
    table = _cornered_table if corners else _smooth_table
    makers: dict[str, Callable[[], Query]] = {
        "threshold": lambda: Threshold(centre[0], width, profile),
        "range": lambda: Range(centre[0], centre[0] + width * 1.5, width, profile),
        "two-way-threshold": lambda: TwoWayThreshold((centre[0], centre[1]), width, profile),
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


KINDS = {
    1: ("threshold", "range", "gaussian-kernel", "radial", "linear"),
    2: ("two-way-threshold", "disc", "polygon", "gaussian-kernel", "radial", "linear"),
    3: ("disc", "gaussian-kernel", "radial", "linear"),
}


CLOSED_KINDS = {
    1: ("threshold", "range", "gaussian-kernel"),
    2: ("two-way-threshold", "disc", "polygon", "gaussian-kernel"),
    3: ("disc", "gaussian-kernel"),
}
"""Kinds of query whose bound of infinite reach has a closed form."""


def published_by_chance(draw: Random) -> SmoothSpec:
    """Return random noise as in papers; browsers support most of it."""
    noise: dict[str, Any] = draw.choice(
        [
            {"noise": "student-t", "nu": float(draw.choice([3, 3, 4, 5, 7, 8, 10, 30]))},
            {"noise": "generalized-cauchy", "gamma": draw.choice([4.0, 4.0, 6.0, 8.0, 10.0, 12.0])},
            {"noise": "laplace", "calibration": "paper"},
            {"noise": "best"},
        ]
    )
    if noise["noise"] not in ("best", "laplace"):
        noise["calibration"] = draw.choice(["exact", "paper"])
    if noise["noise"] != "laplace":
        noise["reach"] = draw.choice([0.0, math.inf])
        noise["growth"] = draw.choice(["exponential", "exponential", "linear"])
    if draw.random() < 0.4:
        noise["beta_fraction"] = draw.choice([1 / 9, 1 / 15, 0.05, 10.0 ** draw.uniform(-6, -0.3)])
    return SmoothSpec(**noise)


def any_campaign(draw: Random) -> tuple[AttributeCampaign, float]:
    """Return a random campaign of any kind, and the length over which its query varies.

    Every mechanism, query, profile, allocation and grid may occur.
    """
    name = f"c{draw.randrange(10**9)}"
    recurring = timedelta(days=draw.randint(1, 40)) if draw.random() < 0.3 else None
    common: dict[str, Any] = {
        "campaign_id": name,
        "title": "A question",
        "opens": OPENS,
        "closes": OPENS + timedelta(days=90),
        "period": recurring,
    }
    plane = draw.choice([PARIS, WORLD]) if draw.random() < 0.25 else None
    dimension = 2 if plane else draw.choice([1, 1, 2, 2, 3])
    unit = "metre" if plane else "unit"
    size = 500.0 if plane else 10.0 ** draw.choice([*range(-6, 9), *range(-40, 41, 5)])
    per = size * draw.choice([1.0, draw.uniform(0.2, 3.0)])
    privacy = GeoPrivacy(draw.choice([1.0, 0.5, draw.uniform(0.05, 4.0)]), per, unit)
    common |= {
        "attribute": Attribute(name="value", unit=unit, coordinates=plane),
        "privacy": privacy,
    }
    if draw.random() < 0.1:
        if plane is None and dimension == 1 and draw.random() < 0.5:
            low = draw.gauss(0.0, 3 * size)
            ends = {"least": low, "most": low + size * draw.choice([1e-3, 1.0, 3.0, 1e4])}
            common["attribute"] = replace(common["attribute"], **ends)
        made: AttributeCampaign = ValueCampaign(**common, mechanism=PlanarLaplaceSpec(dimension))
        return _finer(draw, made), size
    mechanism = draw.choice(["debiased", "lipschitz", "smooth", "published", "published"])
    queries = []
    for _ in range(draw.choice([1, 1, 1, 2, 3, 5])):
        kind, profile = draw.choice(KINDS[dimension]), draw.choice(PROFILES)
        if mechanism == "published":
            kind, profile = draw.choice(CLOSED_KINDS[dimension]), draw.choice(PROFILES[:2])
        if mechanism == "debiased" and profile == "linear":
            profile = "smoothstep"
        corners = mechanism != "debiased" and draw.random() < 0.5
        queries.append(query_by_chance(draw, kind, dimension, size, profile, corners))
    specs: dict[str, MechanismSpec] = {
        "debiased": DebiasedLaplaceSpec(),
        "lipschitz": LipschitzLaplaceSpec(),
        "smooth": SmoothSpec(
            draw.choice([0.15, 0.3, draw.uniform(0.01, 0.95), 10.0 ** draw.uniform(-14, 0)])
        ),
    }
    spec = specs.get(mechanism) or published_by_chance(draw)
    if spec.unserved(queries) is not None:
        return any_campaign(draw)
    if spec.has_slack:
        common["privacy"] = replace(privacy, delta=10.0 ** draw.uniform(-12, -1))
    capped = draw.random() < 0.4
    made = StatisticCampaign(
        **common,
        cap=Cap(*(2.0 ** draw.uniform(0.0, 5.0) for _ in "-+")) if capped else None,
        questions=tuple(Question(f"q{i}", q) for i, q in enumerate(queries)),
        mechanism=spec,
        allocation=draw.choice(list(Allocation)),
    )
    return _finer(draw, made), size


def _finer(draw: Random, campaign: AttributeCampaign) -> AttributeCampaign:
    """Return the campaign on a finer, at times much finer, grid if it permits that."""
    by = draw.choice([0, 0, 0, 1, 2, 5, 10])
    while by:
        try:
            return replace(campaign, step_exponent=campaign.grid_exponent - by)
        except GeoVeilError:
            by -= 1
    return campaign


_HOSTILE = ("0" * 128, "1" * 128, "1" + "0" * 127, "0" + "1" * 127, "0" * 192, "1" * 256, "0" * 100)


def tuples(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield campaigns, points and bits with the answers; a campaign comes with its first tuple."""
    draw, made = Random(seed), 0
    while made < count:
        try:
            campaign, size = any_campaign(draw)
        except GeoVeilError:
            continue
        told = {"campaign": encode(campaign).hex()}
        for _ in range(min(draw.choice([1, 10, 100]), count - made)):
            yield told | one_tuple(draw, campaign, size, f"{seed}/{made}")
            told = {}
            made += 1


def one_tuple(draw: Random, campaign: AttributeCampaign, size: float, seed: str) -> dict[str, Any]:
    """Return a random point and bits for a campaign, with the answers."""
    spread = size * draw.choice([0.0, 1.0, 1.0, 3.0, 30.0, 1e4])
    exact = draw.random() < 0.2
    point = [draw.gauss(0.0, spread) for _ in range(campaign.dimension)]
    if exact:
        point = [float(round(c)) for c in point]
    if isinstance(campaign, StatisticCampaign) and draw.random() < 0.5:
        at = getattr(draw.choice(campaign.questions).query, "at", None)
        if isinstance(at, float):
            point[0] += at
    given = draw.choice(_HOSTILE) * draw.choice([1, 3]) if draw.random() < 0.03 else ""
    return tuple_of(campaign, point, Tape(seed, given))
