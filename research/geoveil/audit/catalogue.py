"""The rows of `geoveil audit`: every mechanism with each choice that changes its privacy.

Mechanisms with more choices than their family's record have a builder here and a line in `_ROWS`;
those of other packages use the examples of their records. Privacy depends on the proportion of
width or bandwidth to 1/rate only, so all queries and points are public examples.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from itertools import product
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from geoveil.audit.case import (
    Audited,
    Case,
    Held,
    Scene,
    additive_outputs,
    all_numbers_added,
    bounded_outputs,
)
from geoveil.audit.categories import CATEGORIES, categories
from geoveil.audit.derived_histories import AnsweredHistory, ExtrapolatedHistory
from geoveil.audit.histories import NestedHistory
from geoveil.gp import (
    AdditiveMechanism,
    ApproximateLaplace,
    Arithmetic,
    Array,
    Cap,
    DebiasedLaplace,
    Disc,
    FormulaProfile,
    GaussianKernel,
    GeneralizedCauchy,
    GeoPrivacy,
    Linear,
    LipschitzMechanism,
    LocalLaplace,
    LocalPrivacy,
    Noise,
    PlanarLaplace,
    QueryMechanism,
    Radial,
    RandomizedResponse,
    Range,
    Real,
    SmoothMechanism,
    StudentT,
    TabulatedProfile,
    Threshold,
    TwoWayThreshold,
    UnsupportedError,
    VectorSmoothMechanism,
    validation,
)

if TYPE_CHECKING:
    from geoveil.campaign import Example, MechanismFamily, QueryFamily

INCOME = GeoPrivacy(1.0, per=8000.0, unit="dollar")
PLACE = GeoPrivacy(1.0, per=500.0, unit="metre")
_ANY_TWO = LocalPrivacy(1.0)
_KNOWN = 1 << 53
"""A wider range of integers is the 64-bit one of a mechanism without a range."""
_RARELY = 2.0**-41
"""Share of reports beyond the tested outputs, if only a range is known."""

RAMP = Scene(
    name="Threshold, linear",
    query=Threshold(100_000.0, 16_000.0),
    privacy=INCOME,
    origin=(100_000.0,),
)
STEP = replace(
    RAMP, name="Threshold, smoothstep", query=Threshold(100_000.0, 24_000.0, "smoothstep")
)
BELL = Scene(
    name="GaussianKernel",
    query=GaussianKernel((0.0, 0.0), 750.0),
    privacy=PLACE,
    origin=(0.0, 0.0),
)
_OTHERS = (
    replace(RAMP, name="Range", query=Range(88_000.0, 112_000.0, 16_000.0)),
    replace(BELL, name="TwoWayThreshold", query=TwoWayThreshold((0.0, 0.0), 1000.0)),
    replace(BELL, name="Disc, smoothstep", query=Disc((0.0, 0.0), 1000.0, 1500.0, "smoothstep")),
)
ASKED = (
    STEP.query,
    Range(92_000.0, 140_000.0, 24_000.0, "smoothstep"),
    GaussianKernel(96_000.0, 12_000.0),
)
"""Questions that one perturbed number answers."""
_SEEDS: tuple[tuple[Noise, float], ...] = ((StudentT(3.0), 1 / 9), (GeneralizedCauchy(4.0), 1 / 15))
"""The seed paper's noises with its choices of β/ε [SGP §5]."""


def _polygon_scene() -> Scene:
    from geoveil.gp import Polygon

    corners = [(-1000.0, -800.0), (1000.0, -800.0), (1000.0, 800.0), (-1000.0, 800.0)]
    return replace(BELL, name="Polygon", query=Polygon(corners, 1000.0))


def _walk(u: Real, ops: Arithmetic) -> Real:
    return ops.exp(-u)


def _bump(u: Real, ops: Arithmetic) -> Real:
    rest = ops.maximum(1 - u * u, ops.constant(0))
    return rest * rest


def _walk_scene() -> Scene:
    """A custom profile with a corner at its centre."""
    query = Radial(FormulaProfile(_walk, scale=500.0), center=(0.0, 0.0))
    return replace(BELL, name="Radial, formula", query=query)


def _bump_scene() -> Scene:
    """A custom profile without corners that is 0 beyond a distance."""
    query = Linear(FormulaProfile(_bump, scale=20_000.0), direction=1.0, offset=100_000.0)
    return replace(RAMP, name="Linear, formula", query=query)


def _table_scene() -> Scene:
    """A profile as data, as a campaign carries it: a flat top and a soft slope."""
    table = TabulatedProfile(
        at=(0.0, 500.0, 2000.0), values=(1.0, 0.9, 0.0), slopes=(0.0, -0.0006, -0.0006, 0.0)
    )
    return replace(BELL, name="Radial, table", query=Radial(table, center=(0.0, 0.0)))


def smooth(
    scene: Scene,
    noise: Noise | None = None,
    share: float | None = None,
    reach: float = 0.0,
    calibration: str = "exact",
) -> Case:
    """Return the row of a `SmoothMechanism`; `share` is β/rate."""
    beta = None if share is None else share * scene.privacy.rate
    mechanism = SmoothMechanism(
        scene.query, scene.privacy, noise=noise, beta=beta, reach=reach, calibration=calibration
    )
    variant = (
        f"{type(mechanism.noise).__name__}, reach {'∞' if reach == math.inf else f'{reach:g}'}"
    )
    return _additive(scene, mechanism, variant + ("" if calibration == "exact" else ", paper"))


def _additive(scene: Scene, mechanism: AdditiveMechanism, variant: str = "") -> Case:
    return scene.case(mechanism, additive_outputs(mechanism.largest_scale), variant)


def _bounded(scene: Scene, mechanism: DebiasedLaplace) -> Case:
    return scene.case(mechanism, bounded_outputs(*mechanism.range, mechanism.atoms))


def any_two(scene: Scene, cap: Cap, variant: str, *, stated: float | None = None) -> Case:
    """Return the row of a `DebiasedLaplace`, audited against a cap's ε of any two points.

    `stated` replaces what the mechanism says.
    """
    query = cap.on(scene.query, scene.privacy.exact_rate)
    mechanism = DebiasedLaplace(query, scene.privacy)
    held = Held(mechanism, LocalPrivacy(stated or mechanism.largest_epsilon))
    outputs = bounded_outputs(*mechanism.range, mechanism.atoms)
    far = replace(scene, pairs=((-8.0, 8.0), (-2.0, 8.0), (0.0, 4.0)))
    return far.case(held, outputs, variant, name="Cap")


def _capped() -> Iterator[Case]:
    for scene, sides in ((STEP, 4.0), (BELL, 6.0), (RAMP, 4.0)):
        cap, privacy = Cap(sides, sides), scene.privacy
        query = cap.on(scene.query, privacy.exact_rate)
        if scene is RAMP:
            capped = smooth(replace(scene, query=query))
        else:
            capped = _bounded(scene, DebiasedLaplace(query, privacy))
            yield any_two(scene, cap, f"any two, within {sides:g}/ε")
        yield replace(capped, name="Cap", variant=f"{capped.name}, within {sides:g}/ε")
    yield any_two(STEP, Cap(1.5, 1.5), "any two, within 1.5/ε")


def _smooth() -> Iterator[Case]:
    for scene in (RAMP, STEP, BELL):
        yield smooth(scene)
        yield smooth(scene, reach=math.inf)
    for noise, share in _SEEDS:
        for calibration in ("paper", "exact"):
            yield smooth(RAMP, noise, share, math.inf, calibration)
    for scene in (*_OTHERS, _walk_scene(), _bump_scene(), _table_scene()):
        yield smooth(scene)
    if find_spec("shapely") is not None:
        yield smooth(_polygon_scene())


def _lipschitz() -> Iterator[Case]:
    for scene in (RAMP, BELL, _walk_scene()):
        yield _additive(scene, LipschitzMechanism(scene.query, scene.privacy))


def _debiased() -> Iterator[Case]:
    for scene in (STEP, BELL, _bump_scene(), _table_scene()):
        yield _bounded(scene, DebiasedLaplace(scene.query, scene.privacy))


def _local_scene() -> Scene:
    return replace(RAMP, pairs=((-0.2, 0.2), (-0.5, 1.5), (-2.0, 2.0)))


def _local_laplace() -> Iterator[Case]:
    scene = _local_scene()
    yield _additive(scene, LocalLaplace(scene.query, _ANY_TWO))


def _randomized_response() -> Iterator[Case]:
    scene = _local_scene()
    response = RandomizedResponse(scene.query, _ANY_TWO)
    yield scene.case(response, response.atoms)


def _planar() -> Iterator[Case]:
    path = tuple((np.arange(-40, 41) / 10).tolist())
    line = replace(RAMP, name="the value", path=path)
    yield line.case(PlanarLaplace(INCOME, 1), line.points(np.linspace(-12.0, 12.0, 301)))
    plane = replace(BELL, name="the place", path=path)
    axis = plane.privacy.per * np.linspace(-8.0, 8.0, 41)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    yield plane.case(PlanarLaplace(PLACE, 2), grid)


def _approximate() -> Iterator[Case]:
    near = ((-0.5, 0.5), (0.0, 1.5), (1.0, 3.0))
    # Those that need most of the slack, found among all pairs, and others.
    rows: tuple[tuple[Scene, str, float, float, tuple[tuple[float, float], ...]], ...] = (
        (RAMP, "paper", 0.01, math.inf, near),
        (RAMP, "exact", 0.01, 3.0, near),
        (RAMP, "exact", 0.01, math.inf, ((-1.0, 300.0), *near)),
        (STEP, "exact", 0.001, math.inf, ((0.1, 0.7), *near)),
        (BELL, "exact", 0.001, math.inf, ((-1.6, -2.4), *near)),
    )
    for scene, calibration, delta, reach, pairs in rows:
        privacy = replace(scene.privacy, delta=delta, reach=reach * scene.privacy.per)
        mechanism = ApproximateLaplace(scene.query, privacy, calibration=calibration)
        variant = f"{calibration}, up to {reach:g}/ε" if reach < math.inf else calibration
        outputs = np.linspace(-40.0, 41.0, 40_501)
        yield replace(scene, privacy=privacy, pairs=pairs).case(mechanism, outputs, variant)


def _vector() -> Iterator[Case]:
    path = tuple((np.arange(-60, 61) / 10).tolist())
    for first, gap in ((STEP, 0.0), (STEP, 4.0), (RAMP, 4.0)):
        assert isinstance(first.query, Threshold)
        second = Threshold(
            100_000.0 + gap * INCOME.per, first.query.width, first.query.profile.name
        )
        mechanism = VectorSmoothMechanism([first.query, second], INCOME)
        axis = additive_outputs(mechanism.largest_scale)[::4]
        grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
        # Two reports that change together change most where they are equal.
        equal = mechanism.largest_scale * np.linspace(-20.0, 20.0, 1001)
        outputs = np.concatenate([grid, np.stack([equal, equal], axis=-1)])
        kind = "ramps" if first is RAMP else "thresholds"
        name = "one threshold twice" if gap == 0 else f"two {kind}, {gap:g}/ε apart"
        scene = replace(first, name=name, path=path)
        variant = type(mechanism.noise).__name__
        yield scene.case(mechanism, outputs, variant, statistic=all_numbers_added)


def _history() -> Iterator[Case]:
    """Two epochs: the trajectory moves first in one, then in the other."""
    half, quarter = (replace(INCOME, epsilon=INCOME.epsilon / n) for n in (2, 4))
    start = np.full(2, 100_000.0)
    steps = INCOME.per * np.arange(-60, 61)[:, None] / 10
    first, second = (steps * axis for axis in np.eye(2))
    path = start + np.concatenate([first, first[-1] + second - second[0] + [[0.0, 800.0]]])
    pairs = tuple(
        (start, start + INCOME.per * distance * axis)
        for distance in (0.4, 1.5, 3.0)
        for axis in np.eye(2)
    )
    rng = np.random.default_rng(1)
    histories: dict[str, Audited] = {
        "answers at ε, ε/2 and ε/2": NestedHistory(INCOME, (INCOME, half, half), epochs=2),
        "answers at ε/2 and ε/4": NestedHistory(INCOME, (half, quarter), epochs=2),
        "extrapolated": ExtrapolatedHistory(INCOME, (0.5,), from_the_first=True),
        "extrapolated, by who came later": ExtrapolatedHistory(INCOME, (0.5,)),
        "questions to the point": AnsweredHistory(INCOME, ASKED, epochs=2),
    }
    for variant, history in histories.items():
        yield Case(
            name="History",
            variant=variant,
            query="two epochs",
            mechanism=history,
            path=path,
            outputs=history.simulate(np.broadcast_to(start, (400, 2)), rng),
            pairs=pairs,
            statistic=all_numbers_added,
        )


def reads_campaigns() -> bool:
    """Return whether the packages that read and write campaigns are installed."""
    return find_spec("google") is not None and find_spec("google.protobuf") is not None


def _forms() -> Iterator[Case]:
    if reads_campaigns():
        from geoveil.audit.forms import forms

        yield from forms()


_ROWS: Mapping[str, Callable[[], Iterator[Case]]] = MappingProxyType(
    {
        "SmoothMechanism": _smooth,
        "LipschitzMechanism": _lipschitz,
        "DebiasedLaplace": _debiased,
        "Cap": _capped,
        "PlanarLaplace": _planar,
        "History": _history,
        "ApproximateLaplace": _approximate,
        "VectorSmoothMechanism": _vector,
        "LocalLaplace": _local_laplace,
        "RandomizedResponse": _randomized_response,
        **{name: partial(categories, name) for name in CATEGORIES},
        "FormCampaign": _forms,
    }
)
"""Class of a mechanism, or "Cap" → the function that makes its rows, which may take seconds."""


def catalogue(mechanism: str | None = None) -> tuple[Case, ...]:
    """Return rows for every mechanism of the library, one for each choice that matters.

    `mechanism` selects one. Other packages' families are audited at the examples of their records.
    Without shapely, `Polygon` has no row.

    Raises:
        ParameterError: if no mechanism has that name.

    Example:
        >>> [case.query for case in catalogue("DebiasedLaplace")][:2]
        ['Threshold, smoothstep', 'GaussianKernel']
    """
    own = (case for name, rows in _ROWS.items() if mechanism in (None, name) for case in rows())
    others = tuple(_of_others())
    if mechanism is not None:
        validation.choice(
            "mechanism", mechanism, list(dict.fromkeys([*_ROWS, *(case.name for case in others)]))
        )
    return (*own, *(case for case in others if mechanism in (None, case.name)))


def _of_others() -> Iterator[Case]:
    if not reads_campaigns():
        return
    from geoveil.campaign import MECHANISMS, QUERIES

    for query in QUERIES:
        if query.name not in QUERIES.built_in and not query.of_points:
            yield from _of_queries(query)
    for family in MECHANISMS:
        if family.name not in MECHANISMS.built_in:
            yield from _of_mechanisms(family)


def _of_queries(family: "QueryFamily") -> Iterator[Case]:
    for example in family.examples():
        for kind in (DebiasedLaplace, SmoothMechanism, LipschitzMechanism):
            try:
                yield _example(example, kind(example.query, example.privacy))
            except UnsupportedError:
                continue


def _of_mechanisms(family: "MechanismFamily") -> Iterator[Case]:
    for example, planned in product(family.examples(), family.planned):
        for options in planned.options:
            variant = ", ".join(f"{name} {value:g}" for name, value in options.items())
            try:
                built = family.make(options).build(example.query, example.privacy)
            except UnsupportedError:
                continue
            yield _example(example, built, variant, planned.name)


def _example(
    example: "Example", mechanism: QueryMechanism, variant: str = "", name: str | None = None
) -> Case:
    """Return the row of any mechanism that fulfils the contract."""
    scene = Scene(
        name=type(example.query).__name__,
        query=example.query,
        privacy=example.privacy,
        origin=example.origin,
    )
    return scene.case(mechanism, outputs_of(mechanism), variant, name=name)


def outputs_of(mechanism: QueryMechanism) -> Array:
    """Return outputs to test for any mechanism that fulfils the contract."""
    if isinstance(mechanism, AdditiveMechanism):
        return additive_outputs(mechanism.largest_scale)
    if isinstance(mechanism, DebiasedLaplace):
        return bounded_outputs(*mechanism.range, mechanism.atoms)
    low, high = mechanism.likely_range(_RARELY)
    if high - low > _KNOWN:
        return additive_outputs(mechanism._spread())
    return np.linspace(low * mechanism.step, high * mechanism.step, 2001)


def named(cases: tuple[Case, ...], mechanism: str) -> tuple[Case, ...]:
    """Return the rows of one mechanism; refuse unknown names."""
    names = list(dict.fromkeys(case.name for case in cases))
    validation.choice("mechanism", mechanism, names)
    return tuple(case for case in cases if case.name == mechanism)
