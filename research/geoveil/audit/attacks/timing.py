"""The timing attack: test whether the time of a release reveals a point or scores.

Releases at several places are timed in random order: if time does not depend on the point, the
labels are exchangeable. Ranks are compared, which a few interruptions can't move.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.util import find_spec
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geoveil.audit.case import Scene
from geoveil.audit.catalogue import BELL, INCOME, PLACE, RAMP, STEP
from geoveil.gp import (
    DebiasedLaplace,
    LipschitzMechanism,
    LocalPrivacy,
    PlanarLaplace,
    RandomizedResponse,
    SmoothMechanism,
    StudentT,
    paced,
)
from geoveil.selection import (
    ExponentialMechanism,
    PermuteAndFlip,
    ReportNoisyMax,
    SelectionMechanism,
)

Array = NDArray[np.float64]

REFERENCE = "0.3"
"""The reference place, inside every band."""
_STEPS = {"0": 0.0, REFERENCE: 0.3, "1": 1.0, "1.5": 1.5, "10": 10.0, "10³": 1e3, "10⁶": 1e6}
_FARTHEST = 1e15
_WARM_UP = 200
_OUTCOMES = 1000
_STUDENT_SHARE = 1 / 9


class Releasing(Protocol):
    """An object whose releases are timed."""

    def release(self, x: ArrayLike) -> Any:
        """Return one report."""
        ...


@dataclass(frozen=True, slots=True)
class TimedMechanism:
    """A mechanism, and places near to and far from the band of its query; or scores."""

    name: str
    mechanism: Releasing = field(repr=False)
    places: Mapping[str, Array] = field(repr=False)


@dataclass(frozen=True, slots=True)
class ReleaseTimes:
    """Seconds that releases took, by place."""

    seconds: Mapping[str, Array] = field(repr=False)

    @property
    def medians(self) -> dict[str, float]:
        """The median at each place, in seconds."""
        return {place: float(np.median(times)) for place, times in self.seconds.items()}

    @property
    def comparisons(self) -> int:
        """Number of tests in `least_p_value`."""
        return 2 * (len(self.seconds) - 1)


def places(scene: Scene) -> dict[str, Array]:
    """Return points of a scene by their distance from its middle in `per`, and one 10¹⁵ units away.

    The edge of the linear band of the catalogue is 1, that of the smoothstep 1.5.
    """
    far = _FARTHEST / scene.privacy.per
    return {name: scene.points(step) for name, step in (_STEPS | {"10¹⁵ units": far}).items()}


@dataclass(frozen=True, slots=True)
class ReleasedSelection:
    """A selection with the interface of releases: scores take the place of points."""

    mechanism: SelectionMechanism

    def release(self, x: ArrayLike) -> int:
        """Return the selected index."""
        return self.mechanism.select(x)


def leads() -> dict[str, Array]:
    """Return scores of 1,000 outcomes, one of which leads by the distance of places."""
    ahead = {**_STEPS, "10¹⁵ units": _FARTHEST}
    return {name: lead * (np.arange(_OUTCOMES) == _OUTCOMES // 2) for name, lead in ahead.items()}


def timed_mechanisms() -> tuple[TimedMechanism, ...]:
    """Return one mechanism of every family with its own code; polygons if Shapely is installed."""
    student = partial(SmoothMechanism, noise=StudentT(3.0), beta=_STUDENT_SHARE * INCOME.rate)
    timed = [
        TimedMechanism(name, mechanism, places(scene))
        for name, scene, mechanism in (
            ("LipschitzMechanism", RAMP, LipschitzMechanism(RAMP.query, INCOME)),
            ("SmoothMechanism, LaplacePareto", RAMP, SmoothMechanism(RAMP.query, INCOME)),
            ("SmoothMechanism, StudentT", RAMP, student(RAMP.query, INCOME)),
            ("SmoothMechanism, PowerLaw, kernel", BELL, SmoothMechanism(BELL.query, PLACE)),
            ("DebiasedLaplace", STEP, DebiasedLaplace(STEP.query, INCOME)),
            ("DebiasedLaplace, kernel", BELL, DebiasedLaplace(BELL.query, PLACE)),
            ("PlanarLaplace", BELL, PlanarLaplace(PLACE, 2)),
            ("RandomizedResponse", RAMP, RandomizedResponse(RAMP.query, LocalPrivacy(1.0))),
        )
    ]
    timed += [
        TimedMechanism(
            f"{type(mechanism).__name__}, {_OUTCOMES:,} scores",
            ReleasedSelection(mechanism),
            leads(),
        )
        for mechanism in (
            PermuteAndFlip(1.0, 1.0),
            ExponentialMechanism(1.0, 1.0),
            ReportNoisyMax(1.0, 1.0, "laplace"),
        )
    ]
    if find_spec("shapely") is not None:
        from geoveil.gp import Polygon

        corners = [(-1000.0, -800.0), (1000.0, -800.0), (1000.0, 800.0), (-1000.0, 800.0)]
        scene = replace(BELL, query=Polygon(corners, 1000.0))
        mechanism = SmoothMechanism(scene.query, PLACE)
        timed.insert(4, TimedMechanism("SmoothMechanism, Polygon", mechanism, places(scene)))
    return tuple(timed)


def time_releases(
    subject: TimedMechanism,
    samples: int,
    seed: int,
    *,
    floor: float | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> ReleaseTimes:
    """Time single releases at all places, in random order.

    Args:
        subject: the mechanism and the places.
        samples: releases at each place, after a few that are not counted.
        seed: for the order.
        floor: seconds to which `paced` raises every release, or None.
        clock: in seconds.
    """
    names, points = list(subject.places), np.stack(list(subject.places.values()))
    point = points[0]

    def bare() -> object:
        return subject.mechanism.release(point)

    call = bare if floor is None else partial(paced, bare, floor)
    rng = np.random.default_rng(seed)
    order = rng.permutation(np.repeat(np.arange(len(names)), samples))
    warm = rng.integers(len(names), size=_WARM_UP)
    order = np.concatenate([warm, order])
    # Consecutive in memory: caches could reveal a place with a separate address.
    sequence = points[order]
    seconds = np.empty(len(order))
    for at in range(len(order)):
        point = sequence[at]
        start = clock()
        call()
        seconds[at] = clock() - start
    order, seconds = order[_WARM_UP:], seconds[_WARM_UP:]
    return ReleaseTimes({name: seconds[order == index] for index, name in enumerate(names)})


def least_p_value(timed: ReleaseTimes) -> float:
    """Return the least p value over the places, each compared with the reference by two rank tests.

    Mann and Whitney's sees a shift, Kolmogorov and Smirnov's any difference. The slowest 5 % of all
    times count as equal.
    """
    slow = float(np.quantile(np.concatenate(list(timed.seconds.values())), 0.95))
    cut = {place: np.minimum(times, slow) for place, times in timed.seconds.items()}
    reference = cut.pop(REFERENCE)
    return min(rank_p_value(reference, times) for times in cut.values())


def rank_p_value(first: ArrayLike, second: ArrayLike) -> float:
    """Return the lesser p-value of a Mann-Whitney and a Kolmogorov-Smirnov test; ties allowed."""
    from scipy import stats

    a, b = (np.asarray(s, dtype=np.float64) for s in (first, second))
    if np.ptp(np.concatenate([a, b])) == 0:
        return 1.0  # all are equal, so the rank test would divide by 0
    results: tuple[Any, ...] = (
        stats.mannwhitneyu(a, b, method="asymptotic"),
        stats.ks_2samp(a, b, method="asymp"),
    )
    return min(float(result.pvalue) for result in results)
