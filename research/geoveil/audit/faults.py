"""Faults of careless code: the auditor's controls, which it must catch.

They are wrappers of sound mechanisms, histories of several answers about one value, those of
`release_faults`, and categories. None is visible in reports, but each breaks its promise.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geoveil.audit.case import (
    Audited,
    Case,
    Held,
    additive_outputs,
    all_numbers_added,
    first_number,
)
from geoveil.audit.catalogue import ASKED, BELL, INCOME, RAMP, STEP, any_two, reads_campaigns
from geoveil.audit.categories import category_faults
from geoveil.audit.derived_histories import AnsweredHistory, ExtrapolatedHistory
from geoveil.audit.histories import NestedHistory
from geoveil.audit.own import NoisyAnswer
from geoveil.audit.release_faults import release_faults
from geoveil.gp import (
    FLOAT,
    AdditiveMechanism,
    Cap,
    GeoPrivacy,
    Laplace,
    LipschitzMechanism,
    LocalPrivacy,
    Query,
    SmoothMechanism,
    Threshold,
)

Array = NDArray[np.float64]
_FOOT_IN_METRES = 0.3048
_LEAST = 1e-12


@dataclass(frozen=True, slots=True)
class Rescaled:
    """f(x) + factor(x)·scale(x)·Z in place of f(x) + scale(x)·Z; factor > 0."""

    mechanism: AdditiveMechanism
    factor: Callable[[Array], Array]

    @property
    def privacy(self) -> GeoPrivacy | LocalPrivacy:
        """The sound mechanism's promise, which this one breaks."""
        return self.mechanism.privacy

    def simulate(self, x: ArrayLike, rng: np.random.Generator) -> Array:
        """Return one faulty report per point."""
        points = np.asarray(x, dtype=np.float64)
        value = self.mechanism.query.value(points)
        noise = self.mechanism.simulate(points, rng) - value
        return np.asarray(value + self.factor(points) * noise)

    def log_density(self, y: ArrayLike, x: ArrayLike) -> Array:
        """Return the log-density of the faulty reports at output y given the point x."""
        points = np.asarray(x, dtype=np.float64)
        value, factor = self.mechanism.query.value(points), self.factor(points)
        inner = value + (np.asarray(y, dtype=np.float64) - value) / factor
        return np.asarray(self.mechanism.log_density(inner, points) - np.log(factor))


def less_noise(mechanism: AdditiveMechanism, factor: float = 0.7) -> Rescaled:
    """Return the mechanism with its noise scaled by a factor < 1."""
    return Rescaled(mechanism, lambda x: np.asarray(factor))


def beta_doubled(mechanism: SmoothMechanism) -> Rescaled:
    """Return the mechanism with a bound that decays at 2β, and the noise of β."""
    query, beta, reach = mechanism.query, mechanism.beta, mechanism.reach

    def factor(x: Array) -> Array:
        wrong = query.smooth_bound(x, 2 * beta, reach=reach)
        return np.asarray(wrong / query.smooth_bound(x, beta, reach=reach))

    return Rescaled(mechanism, factor)


def slope_for_bound(mechanism: SmoothMechanism) -> Rescaled:
    """Return the mechanism with |∇f|, which is not smooth, in place of its smooth bound B."""
    query, beta, reach = mechanism.query, mechanism.beta, mechanism.reach
    step = 1e-5 * query.profile.length_scale

    def factor(x: Array) -> Array:
        s = np.asarray(query.signed_distance(x))
        rise = query.profile.value(s + step, FLOAT) - query.profile.value(s - step, FLOAT)
        slope = np.maximum(np.abs(rise) / (2 * step), _LEAST * query.lipschitz)
        return np.asarray(slope / query.smooth_bound(x, beta, reach=reach))

    return Rescaled(mechanism, factor)


def feet_for_metres(query: Query, stated: GeoPrivacy) -> Held:
    """Return a mechanism built for a distance in feet that states the same number of metres."""
    feet = GeoPrivacy(stated.epsilon, stated.per * _FOOT_IN_METRES, stated.unit)
    return Held(LipschitzMechanism(query, feet), stated)


@dataclass(frozen=True, slots=True)
class Redrawn:
    """An answer with independent noise for each campaign, all charged once.

    `privacy`, the charged guarantee, is the largest of the rates.
    """

    privacy: GeoPrivacy
    rates: tuple[float, ...]

    def simulate(self, x: ArrayLike, rng: np.random.Generator) -> Array:
        """Return the answers of each value, (n, answers), for values (n, 1)."""
        points = np.asarray(x, dtype=np.float64)
        scales = 1 / np.array(self.rates)
        return np.asarray(points + scales * rng.laplace(size=(*points.shape[:-1], len(scales))))

    def log_density(self, y: ArrayLike, x: ArrayLike) -> Array:
        """Return the log-density of the answers given the value."""
        rates = np.array(self.rates)
        apart = np.abs(np.subtract(y, x))
        return np.asarray((np.log(rates / 2) - rates * apart).sum(axis=-1))


@dataclass(frozen=True, slots=True)
class ReadOnceAbove:
    """A value read at the first of two times if it is above a threshold, otherwise later.

    Points are the values at the two times, (n, 2). A report is the time, 0 or 1, and the noisy
    value.
    """

    privacy: GeoPrivacy
    threshold: float

    def simulate(self, x: ArrayLike, rng: np.random.Generator) -> Array:
        """Return time and perturbed value, (n, 2)."""
        points = np.asarray(x, dtype=np.float64)
        early = points[..., 0] > self.threshold
        value = np.where(early, points[..., 0], points[..., 1])
        noise = rng.laplace(scale=1 / self.privacy.rate, size=value.shape)
        return np.stack([np.where(early, 0.0, 1.0), value + noise], axis=-1)

    def log_density(self, y: ArrayLike, x: ArrayLike) -> Array:
        """Return the log-density of the sent value if the time is possible."""
        report, points = np.asarray(y), np.asarray(x)
        early = points[..., 0] > self.threshold
        value = np.where(early, points[..., 0], points[..., 1])
        rate = self.privacy.rate
        logs = np.log(rate / 2) - rate * np.abs(report[..., 1] - value)
        return np.asarray(np.where((report[..., 0] == 0) == early, logs, -np.inf))


@dataclass(frozen=True, slots=True)
class MovedAtom:
    """A coarser answer made from the kept noise, after the value has moved.

    Points are the values at the two times, (n, 2). If nothing is added to the noise, the answers
    differ exactly by the value's move: an atom. At `atoms`, probabilities are compared.
    """

    privacy: GeoPrivacy
    coarser: GeoPrivacy
    atoms: tuple[float, ...]

    def simulate(self, x: ArrayLike, rng: np.random.Generator) -> Array:
        """Return the first answer, and the difference of the second from it, (n, 2)."""
        points = np.asarray(x, dtype=np.float64)
        first = points[..., 0] + rng.laplace(scale=1 / self.privacy.rate, size=points.shape[:-1])
        rest = np.where(
            rng.random(first.shape) < (self.coarser.rate / self.privacy.rate) ** 2,
            0.0,
            rng.laplace(scale=1 / self.coarser.rate, size=first.shape),
        )
        return np.stack([first, points[..., 1] - points[..., 0] + rest], axis=-1)

    def log_density(self, y: ArrayLike, x: ArrayLike) -> Array:
        """Return the log-density, relative to counting at the atoms and to length elsewhere."""
        report, points = np.asarray(y), np.asarray(x)
        rate, coarse = self.privacy.rate, self.coarser.rate
        rest = report[..., 1] - (points[..., 1] - points[..., 0])
        share = (coarse / rate) ** 2
        added = np.log1p(-share) + np.log(coarse / 2) - coarse * np.abs(rest)
        at_atom = np.where(rest == 0, np.log(share), -np.inf)
        second = np.where(np.isin(report[..., 1], self.atoms), at_atom, added)
        first = np.log(rate / 2) - rate * np.abs(report[..., 0] - points[..., 0])
        return np.asarray(first + second)


@dataclass(frozen=True, slots=True)
class AnsweredApart:
    """Questions that are each answered from a separate reading, but charged as a single one."""

    privacy: GeoPrivacy
    queries: tuple[Query, ...]

    @property
    def alone(self) -> list[AnsweredHistory]:
        """The history of each question."""
        return [AnsweredHistory(self.privacy, (query,)) for query in self.queries]

    def simulate(self, x: ArrayLike, rng: np.random.Generator) -> Array:
        """Return the answers of each value, (n, questions), for values (n, 1)."""
        return np.concatenate([mechanism.simulate(x, rng) for mechanism in self.alone], axis=-1)

    def log_density(self, y: ArrayLike, x: ArrayLike) -> Array:
        """Return the log-probability of the answers given the value."""
        answers = np.asarray(y)
        parts = [each.log_density(answers[..., [i]], x) for i, each in enumerate(self.alone)]
        return np.asarray(sum(parts))


@dataclass(frozen=True, slots=True)
class WronglyExtrapolated:
    """The answers of two epochs, the second extrapolated from a value that must not be used.

    Points are the values in both epochs, (n, 2). A report has the first point, and the second plus
    `age`, in (0, 1], times its step from a first point drawn anew (`redrawn`) or the value's move.
    """

    privacy: GeoPrivacy
    age: float
    redrawn: bool

    def simulate(self, x: ArrayLike, rng: np.random.Generator) -> Array:
        """Return the first point and the second answer, (n, 2)."""
        points = np.asarray(x, dtype=np.float64)
        seen = points + rng.laplace(scale=1 / self.privacy.rate, size=points.shape)
        if not self.redrawn:
            moved = np.diff(points, axis=-1)[..., 0]
        else:
            noise = rng.laplace(scale=1 / self.privacy.rate, size=points.shape[:-1])
            moved = seen[..., 1] - points[..., 0] - noise
        return np.stack([seen[..., 0], seen[..., 1] + self.age * moved], axis=-1)

    def log_density(self, y: ArrayLike, x: ArrayLike) -> Array:
        """Return the log-density of both answers given both values."""
        report, points, rate = np.asarray(y), np.asarray(x), self.privacy.rate
        first = np.log(rate / 2) - rate * np.abs(report[..., 0] - points[..., 0])
        if self.redrawn:
            moved_on = ExtrapolatedHistory(self.privacy, (self.age,))
            return np.asarray(first + moved_on.log_density(report[..., 1:], points))
        there = points[..., 1] + self.age * (points[..., 1] - points[..., 0])
        return np.asarray(first + np.log(rate / 2) - rate * np.abs(report[..., 1] - there))


def _history(mechanism: Audited, variant: str, statistic: Callable[[Array], Array]) -> Case:
    """Return the row of a faulty history of two answers about one value."""
    sound = RAMP.case(mechanism, [])
    near = [[a, b] for a in range(-12, 13) for b in (a - 3.0, a, a + 2.5)]
    return replace(
        sound,
        name="History",
        variant=variant,
        query="the value",
        path=sound.path[:, None],
        outputs=RAMP.points(near),
        pairs=tuple((a[None], b[None]) for a, b in sound.pairs),
        statistic=statistic,
    )


def _two_times(
    mechanism: Audited, outputs: Array, variant: str, statistic: Callable[[Array], Array]
) -> Case:
    """Return the row of a faulty history about a value at two times."""
    start = np.array([100_000.0, 104_000.0])
    steps = INCOME.per * np.array([-0.25, 0.25, 0.75, 1.75])
    first, second = (start + steps[:, None] * axis for axis in np.eye(2))
    return Case(
        name="History",
        variant=variant,
        query="the value at two times",
        mechanism=mechanism,
        path=np.concatenate([first, second]),
        outputs=outputs,
        pairs=tuple((line[0], point) for line in (first, second) for point in line[1:]),
        statistic=statistic,
    )


def _second(reports: Array) -> Array:
    return np.asarray(reports[:, 1])


def _apart(reports: Array) -> Array:
    """Return the first number minus half of the second, to detect the value in both."""
    return np.asarray(reports[:, 0] - reports[:, 1] / 2)


def _answered(mechanism: Audited, variant: str) -> Case:
    """Return the row of a faulty history of answers to the questions of the catalogue."""
    near = RAMP.points(np.arange(-12, 13, 0.5))
    outputs = mechanism.simulate(near[:, None], np.random.default_rng(1))
    row = _history(mechanism, variant, all_numbers_added)
    return replace(row, query=f"{len(ASKED)} questions", outputs=outputs)


def _shown_twice(reports: Array) -> Array:
    """Return answers that are equal for both campaigns, and a far number for others."""
    return np.where(reports[:, 0] == reports[:, 1], reports[:, 0], 1e12)


def _of_histories() -> tuple[Case, ...]:
    """Return faulty histories, whose promise is the largest rate or that of one reading."""
    half = GeoPrivacy(INCOME.epsilon / 2, INCOME.per, INCOME.unit)
    weights = np.array([INCOME.rate, half.rate])
    redrawn = Redrawn(INCOME, (INCOME.rate, INCOME.rate))
    summed = Redrawn(INCOME, (INCOME.rate, half.rate))
    misstated = Held(NestedHistory(INCOME, (half, half)), half)
    moved = MovedAtom(INCOME, half, atoms=(2_000.0, 6_000.0))
    moves = np.array([[100_000.0, atom] for atom in moved.atoms])
    times = np.array([[0.0, 100_000.0], [1.0, 100_000.0]])
    asked_finer = Held(AnsweredHistory(INCOME, ASKED), half)
    true_move, drawn_anew = (WronglyExtrapolated(INCOME, 1.0, anew) for anew in (False, True))
    seen = RAMP.points([[a, b] for a in range(-12, 13, 2) for b in range(-12, 13, 2)])
    return (
        _history(redrawn, "redrawn in an epoch", all_numbers_added),
        _history(summed, "the largest for the sum", lambda reports: reports @ weights),
        _history(misstated, "the largest asked", _shown_twice),
        _two_times(ReadOnceAbove(INCOME, 100_000.0), times, "read when it is above", first_number),
        _two_times(moved, moves, "atom at a moved value", _second),
        _answered(AnsweredApart(INCOME, ASKED), "a reading for each question"),
        _answered(asked_finer, "answered from a finer point"),
        _two_times(true_move, seen, "moved on by the true change", _second),
        _two_times(drawn_anew, seen, "moved on from a point drawn anew", _apart),
    )


def _of_forms() -> Iterator[Case]:
    if reads_campaigns():
        from geoveil.audit.forms import form_faults

        yield from form_faults()


def faults() -> tuple[Case, ...]:
    """Return the faulty mechanisms, at the points and pairs of the sound ones, and histories.

    Example:
        >>> [case.variant for case in faults()][:4]
        ['noise × 0.7', 'β doubled', '|∇f| for B', 'feet for metres']
    """
    ramp, bell = (SmoothMechanism(scene.query, scene.privacy) for scene in (RAMP, BELL))
    wide, narrow = (additive_outputs(m.largest_scale) for m in (ramp, bell))
    feet = feet_for_metres(BELL.query, BELL.privacy)
    slack, band = replace(INCOME, delta=0.01), Threshold(101_000.0, 560.0)
    steep = NoisyAnswer(band, slack, Laplace(), band.lipschitz / (2.8 * slack.rate))
    return (
        RAMP.case(less_noise(ramp), wide, "noise × 0.7", name="SmoothMechanism"),
        RAMP.case(beta_doubled(ramp), wide, "β doubled", name="SmoothMechanism"),
        BELL.case(slope_for_bound(bell), narrow, "|∇f| for B", name="SmoothMechanism"),
        BELL.case(feet, narrow, "feet for metres", name="LipschitzMechanism"),
        RAMP.case(steep, np.linspace(-60, 61, 4001), "2.8 ε in a band", name="ApproximateLaplace"),
        any_two(STEP, Cap(2.5, 1.5), "clipped a scale too far", stated=3.0),
        *_of_histories(),
        *release_faults(),
        *category_faults(),
        *_of_forms(),
    )
