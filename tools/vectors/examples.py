"""A campaign for every mechanism, query, profile, allocation and other choice."""

import math
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import Any, TypeAlias

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
)
from geoveil.campaign.statistic import Allocation
from geoveil.gp import (
    Cap,
    Disc,
    GaussianKernel,
    GeoPrivacy,
    Linear,
    ParameterError,
    Polygon,
    Query,
    Radial,
    Range,
    TabulatedProfile,
    Threshold,
    TwoWayThreshold,
)
from tools.vectors.chance import KINDS, OPENS, PARIS, PROFILES, WORLD, query_by_chance


def small_campaign(name: str, **changes: Any) -> AttributeCampaign:
    """Return a small campaign with the given changes."""
    given: dict[str, Any] = {
        "campaign_id": name,
        "title": "A question",
        "attribute": Attribute(name="household income", unit="dollar"),
        "privacy": GeoPrivacy(1.0, 8_000.0, "dollar"),
        "opens": OPENS,
        "closes": OPENS + timedelta(days=90),
    }
    if isinstance(changes.get("mechanism"), PlanarLaplaceSpec):
        return ValueCampaign(**(given | changes))
    asked = Threshold(100_000.0, 24_000.0, "smoothstep")
    given["questions"] = (Question("above 100k", asked),)
    return StatisticCampaign(**(given | changes))


Example: TypeAlias = tuple[str, AttributeCampaign, float]
"""A name, a campaign, and the length over which its query varies."""


def _example(name: str, length: float, **changes: Any) -> Example:
    """Return a small campaign about a number or point of no particular kind."""
    given = {"attribute": Attribute(name="value", unit="unit"), "privacy": _PRIVACY}
    return name, small_campaign(name, **(given | changes)), length


_PRIVACY = GeoPrivacy(1.0, 8.0, "unit")


ONE_BY_ONE = (Allocation.PARTITION, Allocation.SPLIT, Allocation.REPEAT)
"""Allocations that any mechanism can have."""


def _vectors() -> Iterator[tuple[str, SmoothSpec, tuple[Query, ...]]]:
    """Yield vectors of separate ramps and of other queries, with the best and the papers' noise."""
    student = SmoothSpec(noise="student-t", calibration="paper", reach=math.inf)
    bell, ramp = GaussianKernel(5.0, 12.0), Threshold(0.0, 16.0)
    yield "vector-ramps", SmoothSpec(), (ramp, Threshold(20.0, 16.0), Threshold(40.0, 16.0))
    yield "vector-bell", SmoothSpec(), (ramp, bell)
    yield "vector-paper", student, (Threshold(-9.0, 16.0, "smoothstep"), bell)


def _capped() -> Iterator[tuple[str, MechanismSpec, Query]]:
    """Yield queries with clipped distances, for every shape and noise."""
    ramp, corners = Threshold(0.0, 16.0), [(-40.0, -30.0), (40.0, -30.0), (0.0, 50.0)]
    yield "capped-range", DebiasedLaplaceSpec(), Range(-30.0, 30.0, 20.0, "smoothstep")
    yield "capped-kernel", DebiasedLaplaceSpec(), GaussianKernel((5.0, 0.0), 12.0)
    yield "capped-polygon", SmoothSpec(), Polygon(corners, 16.0)
    yield "capped-lipschitz", LipschitzLaplaceSpec(), ramp
    yield "capped-paper", SmoothSpec(noise="student-t", calibration="paper", reach=math.inf), ramp


def every_campaign() -> Iterator[Example]:
    """Yield an example for every mechanism, query, profile and so on."""
    draw = Random(21)
    mechanisms: dict[str, MechanismSpec] = {
        "debiased": DebiasedLaplaceSpec(),
        "lipschitz": LipschitzLaplaceSpec(),
        "smooth": SmoothSpec(0.15),
    }
    for mechanism, spec in mechanisms.items():
        for dimension, kinds in KINDS.items():
            for kind in kinds:
                of_band = kind not in ("gaussian-kernel", "radial", "linear")
                for profile in PROFILES if of_band else PROFILES[:1]:
                    if (mechanism == "debiased" and of_band and profile == "linear") or (
                        dimension == 3 and mechanism != "debiased"
                    ):
                        continue
                    query = query_by_chance(
                        draw, kind, dimension, 16.0, profile, mechanism == "smooth"
                    )
                    parts = (mechanism, kind, *([profile] if of_band else []), str(dimension))
                    asked = (Question("q", query),)
                    yield _example("-".join(parts), 16.0, mechanism=spec, questions=asked)
    yield from published(draw)
    questions = tuple(Question(f"q{i}", Threshold(10.0 * i, 16.0, "smoothstep")) for i in range(3))
    for allocation in ONE_BY_ONE:
        for steps in (0, 7):
            name, made, length = _example(
                f"{allocation.value}-{steps}", 16.0, questions=questions, allocation=allocation
            )
            yield name, replace(made, step_exponent=made.grid_exponent - steps), length
    for name, spec, vector in _vectors():
        asked = tuple(Question(f"q{i}", query) for i, query in enumerate(vector))
        given = {"questions": asked, "mechanism": spec, "allocation": Allocation.VECTOR}
        yield _example(name, 16.0, **given)
    for name, spec, query in _capped():
        given = {"questions": (Question("q", query),), "mechanism": spec, "cap": Cap(4.0, 6.0)}
        yield _example(name, 30.0, **given)
    place = {
        "attribute": Attribute(name="home", unit="metre", coordinates=PARIS),
        "privacy": GeoPrivacy(1.0, 500.0, "metre"),
    }
    around = Question("centre", Disc((0.0, 0.0), 1500.0, 1000.0, "smoothstep"))
    yield _example("places-disc", 500.0, **place, questions=(around,))
    wide = place | {"attribute": Attribute(name="home", unit="metre", coordinates=WORLD)}
    yield _example("places-world", 500.0, **wide, questions=(around,))
    yield _example("places-points", 500.0, **place, mechanism=PlanarLaplaceSpec(2))
    for k in (1, 2, 3):
        yield _example(f"points-{k}", 8.0, mechanism=PlanarLaplaceSpec(k))
    yield _example("smooth-heavy", 8.0, mechanism=SmoothSpec(0.9))


def _fine(name: str, length: float, **changes: Any) -> Example:
    """Return an example on the finest grid that it permits."""
    _, campaign, _ = _example(name, length, **changes)
    while True:
        try:
            campaign = replace(campaign, step_exponent=campaign.grid_exponent - 1)
        except ParameterError:
            return name, campaign, length


def fine_campaigns() -> Iterator[Example]:
    """Yield examples on the finest grid: answers have 50 binary digits to compare.

    They reveal how a device rounds doubles: the bounds of slopes, their logarithms and ρ, the ε of
    a part and of a plane, β.
    """
    odd_sizes = {"privacy": GeoPrivacy(0.7, 6.1, "unit")}
    bump = TabulatedProfile((0.0, 7.3, 31.0), (0.1, 1.3, 0.2), (0.31, -0.05, -0.02, 0.07))
    odd = TabulatedProfile((0.0, 9.0, 40.0), (1.0, 0.4, 0.0), (-0.1, -0.03, -0.03, 0.0))
    flat = TabulatedProfile((0.0, 9.0, 40.0), (1.0, 0.4, 0.0), (-6e-8, -0.03, -0.03, 0.0))
    band = {"width": 13.7}
    queries: dict[str, Query] = {
        "smoothstep": Disc((0.1, 0.2), 30.0, profile="smoothstep", **band),
        "linear": TwoWayThreshold((0.3, 0.7), profile="linear", **band),
        "kernel": GaussianKernel((0.3,), 11.3),
        "table": Linear(bump, (0.7, 1.1), 0.3),
        "many-pieces": Linear(_many_pieces(5, 9), (-0.9,), 0.1),
        "odd-ray": Radial(odd, (0.1,)),
        "flat-ray": Radial(flat, (0.1, 0.3)),
    }
    mechanisms: dict[str, MechanismSpec] = {
        "smooth": SmoothSpec(0.15),
        "lipschitz": LipschitzLaplaceSpec(),
        "debiased": DebiasedLaplaceSpec(),
    }
    for mechanism, spec in mechanisms.items():
        for kind, query in queries.items():
            corners = kind in ("linear", "table", "many-pieces")
            if (mechanism == "debiased" and corners) or (
                mechanism == "lipschitz" and kind not in ("table", "many-pieces")
            ):
                continue
            given = {**odd_sizes, "mechanism": spec, "questions": (Question("q", query),)}
            yield _fine(f"fine-{mechanism}-{kind}", 12.0, **given)
    tables = tuple(Question(f"q{i}", Linear(_many_pieces(i, 3), (1.0,))) for i in range(5))
    repeated = {**odd_sizes, "questions": tables, "allocation": Allocation.REPEAT}
    yield _fine("fine-tables", 12.0, **repeated, mechanism=SmoothSpec(0.35))
    thirds = tuple(Question(f"q{i}", Threshold(10.0 * i, 16.0, "smoothstep")) for i in range(3))
    for allocation, epsilon in ((Allocation.SPLIT, 0.19), (Allocation.REPEAT, 0.7)):
        given = {"privacy": GeoPrivacy(epsilon, 8.0, "unit"), "questions": thirds}
        given |= {"mechanism": SmoothSpec(0.9), "allocation": allocation}
        yield _fine(f"fine-{allocation.value}", 16.0, **given)
    around = Question("centre", GaussianKernel((0.0, 0.0), 1500.0))
    yield _fine(
        "fine-places",
        700.0,
        attribute=Attribute(name="home", unit="metre", coordinates=WORLD),
        privacy=GeoPrivacy(0.1, 700.0, "metre"),
        questions=(around,),
        mechanism=LipschitzLaplaceSpec(),
    )


def published(draw: Random) -> Iterator[Example]:
    """Yield examples with noise from papers, calibrated both ways, of either reach."""
    specs = [
        {**noise, "calibration": calibration, "reach": reach}
        for i, noise in enumerate(_PUBLISHED)
        for calibration in ("exact", "paper")
        for reach in (0.0, math.inf)
        if i < 2 or (calibration == "paper") == (reach > 0)
    ]
    specs += [{"noise": "best", "reach": math.inf}, {"noise": "best", "growth": "linear"}]
    specs += [{"noise": "laplace", "calibration": "paper"}] * 3
    kinds = (("threshold", 1), ("range", 1), ("two-way-threshold", 2), ("gaussian-kernel", 2))
    for index, given in enumerate(specs):
        spec = SmoothSpec(**given)
        kind, dimension = kinds[index % 4] if index >= 8 else kinds[index // 2 % 4]
        profile = PROFILES[index % 2]
        if spec.growth == "linear" and spec.reach == 0 and kind == "gaussian-kernel":
            kind, dimension = kinds[0]
        query = query_by_chance(draw, kind, dimension, 16.0, profile, False)
        slack = {"delta": 1e-6} if spec.has_slack else {}
        name = f"published-{index}-{spec.noise}-{spec.calibration}-{kind}"
        privacy = GeoPrivacy(1.0, 8.0, "unit", **slack)
        asked = (Question("q", query),)
        yield _example(name, 16.0, privacy=privacy, mechanism=spec, questions=asked)


_PUBLISHED: tuple[dict[str, Any], ...] = (
    {"noise": "student-t", "nu": 3.0},
    {"noise": "generalized-cauchy", "gamma": 4.0},
    {"noise": "student-t", "nu": 10.0},
    {"noise": "generalized-cauchy", "gamma": 6.0, "beta_fraction": 0.05},
    {"noise": "student-t", "nu": 4.0, "beta_fraction": 0.1},
    {"noise": "student-t", "nu": 5.0},
)


def _many_pieces(seed: int, pieces: int) -> TabulatedProfile:
    draw = Random(seed)
    at = [0.0]
    for _ in range(pieces):
        at.append(at[-1] + draw.uniform(0.5, 9.0))
    values = [draw.uniform(-1.0, 2.0) for _ in at]
    slopes = [draw.uniform(-0.4, 0.4) for _ in range(2 * pieces)]
    return TabulatedProfile(tuple(x - 20.0 for x in at), tuple(values), tuple(slopes))
