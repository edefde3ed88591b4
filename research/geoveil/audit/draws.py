"""Whether `release` draws from the law of integers that a mechanism states.

Half of the releases are from one generator and half from another, one by one and by a copy of a
user's mechanism, and a few from the system's bits. Half of the points lie a little beside those of
the row; the others along its path, at 0, and up to 10⁶ `per` beyond. Eight tests, each exact or a
bound:

* a report's place in its law is uniform in (0, 1): counts in 32 equal parts, in any of 2, 4, …
  2¹⁴ and in both tails are binomial, as is where the next lies from it, and the other generator's;
  their mean distance has a law of gamma; their distribution keeps to Massart's inequality;
* no place follows from one or two others, at any lag (`geoveil.audit.dependence`);
* digits to the base 16 of improbable integers are uniform but for 10⁻⁴, as are remainders, and
  their differences have no divisor;
* equal reports, though each integer is improbable, or an integer that comes too often;
* what both generators draw alike, as from a fixed seed;
* how often a report is the answer without noise;
* how often reports of all points lie on their answers' side of the middle;
* a report that, with all that are no more probable, has a probability below 10⁻¹³.

A user's mechanism without a closed law is compared with its own simulations.
"""

from __future__ import annotations

import copy
import math
import warnings
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from geoveil.audit.case import Case
from geoveil.audit.categories import CATEGORIES, Chain
from geoveil.audit.dependence import chance_of_order, likeliest
from geoveil.audit.laws import Placed, placed
from geoveil.gp import Mechanism, NotPrivateWarning, SeededSource, chosen_source

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

ALL_RELEASES = 80_000
"""Exact releases of the library's mechanisms in a whole table: 60 to 390 µs each."""
_OWN_SHARE = 4
"""Samples of a user's mechanism for each exact release of it."""
IMPOSSIBLE = 1e-13
"""A report with less is refused."""
_LIGHT = 1e-4
"""Repeats of integers less probable than this are counted together."""
_EVEN = 1e-4
"""By how much, of itself, the share of a digit may differ from 1/16 in the law."""
_PARTS = 32
_TAILS = 2.0 ** -np.arange(6, 15)
_LEVELS = 14
_DEVICES = 4
"""Releases of a mechanism that was just made, from the system's random bits, at each point."""
_NOISY = 1e3
"""Steps of noise, by its standard deviation, from which on equal reports are counted."""
_ASIDE = 0.02
"""Points lie so many `per` at most beside those of a row."""
_ROUND = np.array([-1, 0, 1])
"""Integers at the answer without noise, whose mean is a double."""
_ALONG, _MANY = (12, 64), 50_000
"""Points along the path, and how many releases are enough for the greater number of them."""
_TESTS = 8
_SHIFTS, _MODULI = np.arange(0, 60, 4), np.arange(3, 128)
_SURE = 64
"""Integers that share a divisor by chance with a probability of 2⁻⁶²."""


@dataclass(frozen=True, slots=True)
class Draws:
    """What releases showed."""

    releases: int
    """How many were drawn."""
    agree: bool
    """Whether they may be drawn from the law that is stated."""
    difference: str
    """In words, what shows that they are not; '' if they agree."""


def releases_of(case: Case, samples: int, rows: int) -> int:
    """Return how many releases are drawn for a row: as many as samples where that is fast.

    The `rows` with a `release` share those of the library; categories share as many as samples.
    """
    if not isinstance(case.mechanism, Mechanism):
        return samples // (len(CATEGORIES) if isinstance(case.mechanism, Chain) else 1)
    if is_own(case.mechanism):
        return samples // _OWN_SHARE
    return min(samples // 10, ALL_RELEASES // rows)


def is_own(mechanism: object) -> bool:
    """Return whether the class of a mechanism is none of geoveil's."""
    return not type(mechanism).__module__.startswith("geoveil.")


def copies(mechanism: Any) -> tuple[Any, Any]:
    """Return two mechanisms that are in the same state; what can't be copied stands for both."""
    try:
        return copy.deepcopy(mechanism), copy.deepcopy(mechanism)
    except TypeError:
        return mechanism, mechanism


def draws_of(case: Case, releases: int, seed: int, failure: float) -> Draws | None:
    """Return what releases show of a row, at all points; None if it has none.

    Without a closed law of integers they are compared with `simulate`. `failure` is the probability
    that releases from the very law are refused.
    """
    mechanism: Any = case.mechanism
    if not hasattr(mechanism, "release_many"):
        return None
    stated = getattr(mechanism, "stated", mechanism)
    ends = np.unique(np.array([end for pair in case.pairs for end in pair]), axis=0)
    rng = np.random.default_rng(seed)
    along = points_along(case, rng, releases), points_afar(case, releases)
    groups = points_beside(case, ends, rng), np.concatenate(along)
    both_states = copies(mechanism) if is_own(mechanism) else (mechanism, mechanism)
    many = [both_states[0].release_many, both_states[1].release_many]
    if isinstance(mechanism, Mechanism):  # what devices call
        many[1] = partial(Mechanism.release_many, both_states[1])
    reports, where, halves = [], [], []
    for group, points in enumerate(groups):
        each = max(releases // (4 * len(points)), 2)
        x, drawn = np.repeat(points, each, axis=0), []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotPrivateWarning)
            for half, release_many in enumerate(many):
                released = release_many(x, SeededSource(4 * seed + 2 * group + half))
                drawn.append(released.reshape(len(points), each, *released.shape[1:]))
            if is_own(mechanism) and isinstance(mechanism, Mechanism):  # as a device: new, one each
                few = range(min(_DEVICES, each))
                new = [[_as_a_device(mechanism, p) for _ in few] for p in points.tolist()]
                drawn[1][:, : len(few)] = new
        reports += list(np.concatenate(drawn, axis=1))  # of a point, (2·each, ...)
        halves += [each] * len(points)
    points = np.concatenate(groups)
    bare, chances, sides = 0, [np.zeros(0)], []
    answers = np.reshape(stated.mean(points), (len(points), *reports[0].shape[1:])) / stated.step
    middle = np.rint((answers.min(axis=0) + answers.max(axis=0)) / 2).astype(np.int64)
    for point, answer, drawn in zip(points, answers, reports, strict=True):
        near = np.rint(answer).astype(np.int64) + _ROUND[(..., *[None] * answer.ndim)]
        place = placed(stated, point, np.concatenate([drawn, near, middle[None]]))
        if place is None:
            fault = _unlike_simulated(mechanism, points, reports, halves, failure, rng)
            return Draws(sum(map(len, reports)), not fault, fault)
        where.append(place.of(slice(len(drawn))))
        sides.append((np.ravel(answer > middle), place.below[-1]))
        chance = place.once[len(drawn) : -1].sum()
        if chance <= _LIGHT:
            bare += int(np.any([_same(drawn, whole) for whole in near], axis=0).sum())
            chances.append(np.full(len(drawn), chance))
    share = failure / _TESTS
    chance = np.concatenate(chances)
    if len(chance) and at_least(bare, chance) < share:
        fault = f"{bare} of {len(chance)} reports are the answer without noise"
    else:
        fault = _refused(reports, where, halves, sides, share, np.random.default_rng([seed, 1]))
    return Draws(sum(map(len, reports)), not fault, fault)


def _as_a_device(mechanism: Any, point: Any) -> Any:
    """Return a release of a copy, which finds its own bits unless it can't."""
    new = copies(mechanism)[0]
    try:
        return new.release(point)
    except (AttributeError, TypeError):
        return new.release(point, chosen_source(None))


def points_beside(case: Case, ends: Array, rng: np.random.Generator) -> Array:
    """Return points of a row, moved a little, the ends of its path and two far ones."""
    ends = ends + case.per * _ASIDE * rng.uniform(-1, 1, ends.shape)
    far = case.path[[0, -1]] + 3 * (case.path[[0, -1]] - case.path.mean(axis=0))
    return np.concatenate([ends, case.path[[0, -1]], far])


def points_along(case: Case, rng: np.random.Generator, releases: int) -> Array:
    """Return points all along the path of a row, the more the more releases there are in all."""
    path, count = case.path, _ALONG[releases >= _MANY]
    step = (np.arange(count) + rng.random(count)) * (len(path) - 1) / count
    before = np.minimum(step.astype(np.intp), len(path) - 2)
    share = (step - before).reshape(-1, *(1,) * (path.ndim - 1))
    return np.asarray(path[before] + share * (path[before + 1] - path[before]))


def points_afar(case: Case, releases: int) -> Array:
    """Return 0, and points up to 10⁶ `per` beyond both ends of the path of a row."""
    path, count = case.path, max(_ALONG[releases >= _MANY] // 5, 8)
    ahead = (path[-1] - path[0]) / np.linalg.norm(path[-1] - path[0])
    # Half of them where noise that dies away has not vanished.
    steps = np.append(
        np.geomspace(3.0, 60.0, count - count // 2), np.geomspace(1e3, 1e6, count // 2)
    )
    far = case.per * steps.reshape(-1, *(1,) * (path.ndim - 1)) * ahead
    return np.concatenate([0 * path[:1], path[0] - far, path[-1] + far])


def _refused(
    reports: list[Integers],
    where: list[Placed],
    halves: list[int],
    sides: list[tuple[NDArray[np.bool_], Array]],
    share: float,
    rng: np.random.Generator,
) -> str:
    """Return what no law explains, in words; '' if nothing is."""
    worst = min(float(place.rare.min()) for place in where)
    if worst < IMPOSSIBLE:
        return f"a report whose like has a probability of {worst:.0e} in the law that is stated"
    if ties := _ties(reports, where, share):
        return ties
    both = list(zip(reports, where, halves, strict=True))
    alike = np.concatenate([_same(drawn[:n], drawn[n:]) for drawn, _, n in both])
    chance = np.concatenate([place.once[:n] for _, place, n in both])
    if at_least(int(alike.sum()), chance) < share:
        return f"two generators draw {alike.mean():.1%} of the reports alike"
    places = [_uniform(place, rng) for place in where]
    fault = _places(places, halves, share) or _on_its_side(places, sides, share)
    fault = fault or _follows(places, halves, share, rng)
    return fault or _digits(reports, where, share)


def _unlike_simulated(
    mechanism: Any,
    points: Array,
    reports: list[Integers],
    halves: list[int],
    failure: float,
    rng: np.random.Generator,
) -> str:
    """Return in what reports differ from as many that `simulate` draws, in words; '' if in nothing.

    Of two counts that should be alike the first is binomial, given their sum. Distribution
    functions differ by at most Bretagnolle's inequality (1980), for reports of different laws.
    """
    from scipy.stats import binom

    counts = np.zeros((2, 2), dtype=np.int64)  # [without noise or drawn alike, released or not]
    samples: list[tuple[Array, Array]] = []
    for point, drawn, half in zip(points, reports, halves, strict=True):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotPrivateWarning)
            again = mechanism.simulate(np.repeat(point[None], len(drawn), axis=0), rng)
        simulated = np.rint(np.reshape(again, drawn.shape) / mechanism.step)
        quiet = np.reshape(mechanism.mean(point[None])[0], drawn.shape[1:]) / mechanism.step
        both = drawn - quiet, simulated - quiet
        samples.append(both)
        if np.sqrt(mechanism.variance(point[None])).max() < _NOISY * mechanism.step:
            continue  # where noise vanishes all are alike
        for side, (noise, made) in enumerate(zip(both, (drawn, simulated), strict=True)):
            counts[0, side] += int((np.abs(noise) <= 1.5).reshape(len(noise), -1).all(axis=1).sum())
            counts[1, side] += int(_same(made[:half], made[half:]).sum())
    samples.append(tuple(map(np.concatenate, zip(*samples, strict=True))))  # type: ignore[arg-type]
    for released, simulated in samples:
        n = len(released)
        most = 2 * math.sqrt((1 + math.log(16 * released[0].size * len(samples) / failure)) / 2 / n)
        for noise, other in zip(released.reshape(n, -1).T, simulated.reshape(n, -1).T, strict=True):
            at, ordered, share = np.sort(noise), np.sort(other), np.arange(1, n + 1) / n
            low, high = (np.searchsorted(ordered, at + off, "right") / n for off in (-1, 1))
            if max((share - high).max(), (low - share).max()) > most:
                return f"{n} reports lie elsewhere than as many that are simulated"
    for what, (mine, others) in zip(
        ("are the answer without noise", "are drawn alike by two generators"), counts, strict=True
    ):
        if binom.sf(mine - 1, mine + others, 0.5) < failure / 4:
            return f"{mine} reports {what}, where {others} that are simulated are"
    return ""


def _same(first: Integers, second: Integers) -> NDArray[np.bool_]:
    same = first == second
    return np.asarray(same if same.ndim == 1 else same.all(axis=-1))


def at_least(count: int, chances: Array) -> float:
    """Bound P[at least so many of independent events], by a binomial law (Hoeffding, 1956)."""
    from scipy.stats import binom

    n, mean = len(chances), min(float(chances.mean()), 1.0)
    return float(binom.sf(count - 1, n, mean)) if count >= n * mean + 1 else 1.0


def _ties(reports: list[Integers], where: list[Placed], failure: float) -> str:
    """Return what is repeated too often.

    Given the past, an improbable integer repeats one of i with at most i times the largest of their
    probabilities: d repeats have at most λ^d/d!. Counts of any other integer are binomial.
    """
    from scipy.stats import binom

    repeats, mean = 0, 0.0
    for drawn, place in zip(reports, where, strict=True):
        n = len(drawn)
        _, first, counts = np.unique(
            drawn.reshape(n, -1), axis=0, return_index=True, return_counts=True
        )
        once = place.once[first]
        light = once < _LIGHT
        repeats += int((counts[light] - 1).sum())
        mean += n * (n - 1) / 2 * float(once[light].max(initial=0.0) + 2**-53)
        k, p = counts[~light], np.minimum(once[~light], 1.0)
        chance = 2 * np.minimum(binom.cdf(k, n, p), binom.sf(k - 1, n, p))
        # An integer's part of the failure probability is its own probability: they add up to 1.
        refused = chance * len(reports) < p * failure / 2
        if refused.any():
            often, stated = int(k[refused][0]), float(p[refused][0])
            return f"one integer is {often} of {n} reports of one person, where {stated:.3%} should"
    if repeats and repeats * math.log(mean) - math.lgamma(repeats + 1) < math.log(failure / 2):
        return f"{repeats} of {sum(map(len, reports))} reports repeat one of the same person"
    return ""


def _digits(reports: list[Integers], where: list[Placed], failure: float) -> str:
    """Return which digit or remainder is not uniform at a point, as if it told something."""
    from scipy.stats import binom

    tests = len(reports) * reports[0][0].size * (16 * len(_SHIFTS) + int(_MODULI.sum()))
    for drawn, place in zip(reports, where, strict=True):
        likely = float(place.once.max()) ** (1 / max(drawn[0].size, 1))
        shifts = _SHIFTS[16 * 2.0**_SHIFTS * likely <= _EVEN]
        moduli = _MODULI[_MODULI * likely <= _EVEN]
        if len(drawn) < _SURE or not len(shifts):
            continue
        sizes = np.concatenate([np.full(len(shifts), 16), moduli])
        slack = np.concatenate([2.0**shifts, np.ones(len(moduli))]) * likely
        starts = np.cumsum(sizes) - sizes
        p, off = np.repeat(1 / sizes, sizes), np.repeat(slack, sizes)
        for k in drawn.reshape(len(drawn), -1).T:
            apart = int(np.gcd.reduce(k - k[0]))
            if apart > 1:
                return f"integers of one person differ by multiples of {apart}"
            classes = np.concatenate([(k[:, None] >> shifts) & 15, k[:, None] % moduli], axis=1)
            counts = np.bincount((classes + starts).ravel(), minlength=len(p))
            chance = 2 * np.minimum(
                binom.cdf(counts, len(k), p - off), binom.sf(counts - 1, len(k), p + off)
            )
            if chance.min() * tests < failure:
                worst = int(np.argmin(chance))
                what = "digit" if worst < 16 * len(shifts) else "remainder"
                return f"one {what} of integers is the same in {counts[worst]} of {len(k)} reports"
    return ""


def _uniform(place: Placed, rng: np.random.Generator) -> Array:
    """Return where in its law each part of each report lies, uniform in (0, 1): (n, c)."""
    inside = rng.random(place.below.shape)
    u = place.below + inside * place.equal
    high = place.above + (1 - inside) * place.equal
    return np.where(u < high, u, 1 - np.minimum(high, 1.0))


def _follows(
    places: list[Array], halves: list[int], failure: float, rng: np.random.Generator
) -> str:
    """Return how places follow from others: one generator says which may, the other if they do."""
    both = list(zip(places, halves, strict=True))
    follows = likeliest(np.concatenate([u[:n] for u, n in both]))
    made, numbers = follows.sides(np.concatenate([u[n:] for u, n in both]))
    chance, _, share = chance_of_order(made, numbers, rng)
    if chance >= failure:
        return ""
    return (
        f"reports follow from others {abs(follows.place)} before or after in {share:.1%} of cases"
    )


def _on_its_side(
    places: list[Array], sides: list[tuple[NDArray[np.bool_], Array]], failure: float
) -> str:
    """Return by how much too many reports lie on the side of their answers; '' if not too many.

    `places` are of the reports of each point; `sides` say whether the answer is above the middle,
    and the probability of a report below it.
    """
    both = list(zip(places, sides, strict=True))
    true = np.concatenate([((u < below) != high).ravel() for u, (high, below) in both])
    chance = np.concatenate([np.resize(abs(high - below), u.size) for u, (high, below) in both])
    if at_least(int(true.sum()), chance) >= failure:
        return ""
    return (
        f"{true.mean():.1%} of reports lie on their answers' side, where {chance.mean():.1%} should"
    )


def _places(places: list[Array], halves: list[int], failure: float) -> str:
    """Return which part of a law has too many or too few reports."""
    from scipy.stats import binom, gamma

    streams = {"": np.concatenate(places)}
    # Differences and sums of independent numbers, modulo 1, are uniform and independent, too.
    for word, sign in (("less", -1), ("and", 1)):
        streams[f", one {word} the one before"] = np.concatenate(
            [(u[1:] + sign * u[:-1]) % 1 for u in places]
        )
    both = zip(places, halves, strict=True)
    apart = np.concatenate([(u[:n] - u[n:]) % 1 for u, n in both])
    streams[", one less the same of another generator"] = apart
    parts = apart.shape[-1]
    if parts > 1:
        u = streams[""]
        two = [(u[:, :1] + sign * u[:, 1:]) % 1 for sign in (-1, 1)]
        streams[", of two numbers of a report"] = np.concatenate(two, axis=1)
    count = len(streams)
    for i, u in enumerate(places):
        streams[f", at one of the points ({i + 1} of {len(places)})"] = u
    levels = 2 ** np.arange(1, _LEVELS + 1)
    for u in streams[""].T:
        cell = np.minimum((u * levels[-1]).astype(np.intp), levels[-1] - 1)
        finest = np.bincount(cell, minlength=levels[-1])
        k = np.concatenate([finest.reshape(level, -1).sum(axis=1) for level in levels])
        p = np.repeat(1 / levels, levels)
        chance = 2 * np.minimum(binom.cdf(k, len(u), p), binom.sf(k - 1, len(u), p))
        worst = int(np.argmin(chance))
        if chance[worst] < failure / (5 * parts * len(k)):
            return f"{k[worst] / len(u):.3%} of reports where {p[worst]:.3%} should be"
    edges = np.arange(1, _PARTS) / _PARTS
    for i, (name, numbers) in enumerate(streams.items()):
        # Those of points, which are many and short, have a share of their own.
        alike = count if i < count else len(places)
        tests = 5 * alike * 2 * parts * (_PARTS + 2 * len(_TAILS) + 1)
        for u in numbers.T:
            counts = np.bincount(np.searchsorted(edges, u), minlength=_PARTS)
            tails = [(u < t).sum() for t in _TAILS] + [(u > 1 - t).sum() for t in _TAILS]
            k = np.concatenate([counts, tails])
            p = np.concatenate([np.full(_PARTS, 1 / _PARTS), _TAILS, _TAILS])
            chance = 2 * np.minimum(binom.cdf(k, len(u), p), binom.sf(k - 1, len(u), p))
            worst = int(np.argmin(chance))
            if chance[worst] < failure / tests:
                return f"{k[worst] / len(u):.3%} of reports where {p[worst]:.3%} should be{name}"
            # How far out a uniform number lies, in nats, is exponential, and so is the farthest.
            nats = -np.log(np.maximum(2 * np.minimum(u, 1 - u), 1e-300))
            if -len(u) * math.exp(-nats.max()) < math.log(failure / (5 * alike * 2 * parts)):
                return f"no report of {len(u)} lies beyond {math.exp(-nats.max()):.2%}{name}"
            # Dvoretzky, Kiefer and Wolfowitz, with Massart's constant.
            n, apart = len(u), np.sort(u) - np.arange(1, len(u) + 1) / len(u)
            most = max(float(apart.max()) + 1 / n, float(-apart.min()))
            if 2 * math.exp(-2 * n * most**2) < failure / (5 * alike * 2 * parts):
                return f"reports lie {most:.1%} to one side of where they should{name}"
            out = nats.sum()
            if 2 * min(gamma.cdf(out, n), gamma.sf(out, n)) < failure / tests:
                return f"reports lie {out / n:.3f} times as far out as they should{name}"
    return ""
