"""Whether `release` draws from the law of integers that a mechanism states.

Half of the releases are drawn from one generator and half from another, one by one and by a copy of
a mechanism of one's own, at points that lie a little beside those of the row, and at far ones. Six
tests, each exact or a bound:

* each report has a place in its law, a number that is uniform in (0, 1); how many of them lie in
  32 equal parts and far out in both tails is binomial, as is where the next one lies from it, and
  that of the other generator; how far out they lie on average has a law of gamma;
* of integers that are all improbable each digit to the base 16 is uniform but for 10⁻⁴;
* two reports that are equal, though each integer is improbable, or an integer that comes too often;
* what both generators draw alike, as from a fixed seed;
* how often a report is the answer without noise;
* a report that, with all that are no more probable, has a probability below 10⁻¹³.
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
from geoveil.audit.laws import Placed, placed
from geoveil.gp import Mechanism, NotPrivateWarning, SeededSource

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

ALL_RELEASES = 80_000
"""Exact releases of the library's mechanisms in a whole table: 60 to 390 µs each."""
_OWN_SHARE = 4
"""Of so many samples one is released by a mechanism of one's own."""
IMPOSSIBLE = 1e-13
"""A report with less is refused."""
_LIGHT = 1e-4
"""Repeats of integers less probable than this are counted together."""
_EVEN = 1e-4
"""By how much, of itself, the share of a digit may differ from 1/16 in the law."""
_PARTS = 32
_TAILS = 2.0 ** -np.arange(6, 15)
_ASIDE = 0.02
"""Points lie so many `per` at most beside those of a row."""


@dataclass(frozen=True, slots=True)
class Draws:
    """What releases showed."""

    releases: int
    """How many were drawn."""
    agree: bool
    """Whether they may be drawn from the law that is stated."""
    found: str
    """In words, what shows that they are not; '' if they agree."""


def releases_of(case: Case, samples: int, rows: int) -> int:
    """Return how many releases are drawn for a row: as many as samples where that is fast.

    Args:
        case: the row.
        samples: reports drawn for the black box.
        rows: how many rows with a `release` the table has, which share those of the library.
    """
    if not isinstance(case.mechanism, Mechanism):
        return samples
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
    """Return what releases show of a row; None if it has none, or no closed law of integers.

    Args:
        case: the row.
        releases: in all, at all points.
        seed: ≥ 0.
        failure: probability that releases from the very law are refused.
    """
    mechanism: Any = case.mechanism
    if not hasattr(mechanism, "release_many"):
        return None
    stated = getattr(mechanism, "stated", mechanism)
    ends = np.unique(np.array([end for pair in case.pairs for end in pair]), axis=0)
    points = points_beside(case, ends, np.random.default_rng(seed))
    each = max(releases // (2 * len(points)), 2)
    x = np.repeat(points, each, axis=0)
    both_states = copies(mechanism) if is_own(mechanism) else (mechanism, mechanism)
    many = [both_states[0].release_many, both_states[1].release_many]
    if isinstance(mechanism, Mechanism):  # what devices call
        many[1] = partial(Mechanism.release_many, both_states[1])
    reports = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotPrivateWarning)
        for half, release_many in enumerate(many):
            drawn = release_many(x, SeededSource(2 * seed + half))
            reports.append(drawn.reshape(len(points), each, *drawn.shape[1:]))
    both = np.concatenate(reports, axis=1)  # (points, 2·each, ...)
    where = []
    for point, drawn in zip(points, both, strict=True):
        place = placed(stated, point, drawn)
        if place is None:
            return None
        where.append(place)
    rng = np.random.default_rng([seed, 1])
    fault = _bare(stated, points, both, failure / 6) or _refused(both, where, each, failure, rng)
    return Draws(2 * each * len(points), not fault, fault)


def _bare(stated: Any, points: Array, reports: Integers, failure: float) -> str:
    """Return how often the answer itself is released, where that is improbable."""
    count, chances = 0, [np.zeros(1)]
    for point, drawn in zip(points, reports, strict=True):
        answer = np.reshape(stated.mean(point[None])[0], drawn.shape[1:])
        quiet = np.rint(answer / stated.step).astype(np.int64)
        near = np.array([quiet + step for step in (-1, 0, 1)])  # the mean is a double
        place = placed(stated, point, near)
        if place is None or place.once.sum() > _LIGHT:
            continue
        count += int(np.any([_same(drawn, other) for other in near], axis=0).sum())
        chances.append(np.full(len(drawn), place.once.sum()))
    if at_least(count, np.concatenate(chances)) < failure:
        return f"{count} of {sum(map(len, chances)) - 1} reports are the answer without noise"
    return ""


def points_beside(case: Case, ends: Array, rng: np.random.Generator) -> Array:
    """Return points of a row, moved a little, the ends of its path and two far ones."""
    per = getattr(case.mechanism.privacy, "per", float(np.ptp(case.path)) / 20)
    ends = ends + per * _ASIDE * rng.uniform(-1, 1, ends.shape)
    far = case.path[[0, -1]] + 3 * (case.path[[0, -1]] - case.path.mean(axis=0))
    return np.concatenate([ends, case.path[[0, -1]], far])


def _refused(
    reports: Integers, where: list[Placed], each: int, failure: float, rng: np.random.Generator
) -> str:
    """Return what no law explains, in words; '' if nothing is."""
    share = failure / 6
    worst = min(float(place.rare.min()) for place in where)
    if worst < IMPOSSIBLE:
        return f"a report whose like has a probability of {worst:.0e} in the law that is stated"
    if ties := _ties(reports, where, share):
        return ties
    alike = np.array([_same(r[:each], r[each:]) for r in reports])  # (points, each)
    chance = np.array([place.once[:each] for place in where])
    if at_least(int(alike.sum()), chance.ravel()) < share:
        return f"two generators draw {alike.mean():.1%} of the reports alike"
    return _places(where, each, share, rng) or _digits(reports, where, share)


def _same(first: Integers, second: Integers) -> NDArray[np.bool_]:
    same = first == second
    return np.asarray(same if same.ndim == 1 else same.all(axis=-1))


def at_least(count: int, chances: Array) -> float:
    """Bound P[at least so many of independent events], by Chernoff and Hoeffding."""
    n, mean = len(chances), float(chances.mean())
    q = count / n
    if q <= mean:
        return 1.0
    if q == 1.0:
        return math.exp(min(float(np.log(chances + 1e-300).sum()), 0.0))
    mean = max(mean, 1e-300)
    bits = q * math.log(q / mean) + (1 - q) * math.log((1 - q) / (1 - mean))
    return math.exp(-n * bits)


def _ties(reports: Integers, where: list[Placed], failure: float) -> str:
    """Return what is repeated too often.

    Given what came before, an improbable integer repeats one of i with at most i times the largest
    of their probabilities: so many repeats have at most the probability λ^d/d!. How often any other
    integer comes is binomial.
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


def _digits(reports: Integers, where: list[Placed], failure: float) -> str:
    """Return at which point a digit of the integers is not uniform, as if it told something."""
    from scipy.stats import binom

    shifts = range(0, 60, 4)
    tests = len(reports) * len(shifts) * 16 * (reports[0, 0].size)
    for drawn, place in zip(reports, where, strict=True):
        likely = float(place.once.max()) ** (1 / max(drawn[0].size, 1))
        for shift in shifts:
            if 16 * 2.0**shift * likely > _EVEN:
                break
            for k in drawn.reshape(len(drawn), -1).T:
                counts = np.bincount((k >> shift) & 15, minlength=16)
                p = (1 / 16) * (1 + 16 * 2.0**shift * likely)
                chance = 2 * np.minimum(
                    binom.cdf(counts, len(k), 1 / 8 - p), binom.sf(counts - 1, len(k), p)
                )
                if chance.min() * tests < failure:
                    often = int(counts[np.argmin(chance)])
                    return f"one digit of integers is the same in {often} of {len(k)} reports"
    return ""


def _places(where: list[Placed], each: int, failure: float, rng: np.random.Generator) -> str:
    """Return which part of a law has too many or too few reports."""
    from scipy.stats import binom, gamma

    places = []
    for place in where:
        inside = rng.random(place.below.shape)
        u = place.below + inside * place.equal
        high = place.above + (1 - inside) * place.equal
        places.append(np.where(u < high, u, 1 - np.minimum(high, 1.0)))
    cube = np.array(places)  # (points, reports, parts)
    streams = {"": cube.reshape(-1, cube.shape[-1])}
    for i, point in enumerate(cube):
        streams[f", at one of the points ({i + 1} of {len(cube)})"] = point
    # Differences and sums of independent numbers, modulo 1, are uniform and independent, too.
    for word, sign in (("less", -1), ("and", 1)):
        follow = (cube[:, 1:] + sign * cube[:, :-1]) % 1
        streams[f", one {word} the one before"] = follow.reshape(-1, cube.shape[-1])
    apart = (cube[:, :each] - cube[:, each:]) % 1
    streams[", one less the same of another generator"] = apart.reshape(-1, cube.shape[-1])
    if cube.shape[-1] > 1:
        apart = [(cube[..., :1] + sign * cube[..., 1:]) % 1 for sign in (-1, 1)]
        streams[", of two numbers of a report"] = np.concatenate(apart, axis=-1).reshape(
            -1, 2 * (cube.shape[-1] - 1)
        )
    edges = np.arange(1, _PARTS) / _PARTS
    tests = sum(u.shape[1] for u in streams.values()) * (_PARTS + 2 * len(_TAILS) + 1)
    for name, numbers in streams.items():
        for u in numbers.T:
            counts = np.bincount(np.searchsorted(edges, u), minlength=_PARTS)
            tails = [(u < t).sum() for t in _TAILS] + [(u > 1 - t).sum() for t in _TAILS]
            k = np.concatenate([counts, tails])
            p = np.concatenate([np.full(_PARTS, 1 / _PARTS), _TAILS, _TAILS])
            chance = 2 * np.minimum(binom.cdf(k, len(u), p), binom.sf(k - 1, len(u), p))
            worst = int(np.argmin(chance))
            if chance[worst] < failure / tests:
                return f"{k[worst] / len(u):.3%} of reports where {p[worst]:.3%} should be{name}"
            # How far out a uniform number lies, in nats, is exponential.
            out = -np.log(np.maximum(2 * np.minimum(u, 1 - u), 1e-300)).sum()
            if 2 * min(gamma.cdf(out, len(u)), gamma.sf(out, len(u))) < failure / tests:
                return f"reports lie {out / len(u):.3f} times as far out as they should{name}"
    return ""
