"""Test whether `release` draws from the law of integers that a mechanism states.

Half of the releases use a seeded generator and half the system's bits, one by one and by a copy of
a user's mechanism, both for the same points in the same random order, two at a time; in the first
half of the latter, a new copy draws each, without a source. Half of the points lie close to those
of the row, and half of their reports at most 64 floats away; the others lie along its path, some at
odd and dyadic numbers, at 0, and up to 10⁶ `per` beyond. Ten tests, each exact or a bound, have
equal parts of the probability of refusing a sound mechanism:

* a report's place in its law is uniform in (0, 1), however it is drawn: counts in 32 equal parts,
  in any of 2, 4, … 2¹⁴, in both tails and about the middle are binomial, as is where the other
  generator's lies from it; their mean distance has a law of gamma; their distribution keeps to
  Massart's inequality; bits 13 to 36 are uniform, singly and by fours;
* no place depends on one or two others, of a device or of a person, at any lag, nor on multiples of
  preceding ones (`geoveil.audit.dependence`);
* places are not more evenly spread than by chance, in a tenth of the reports or between generators;
* hexadecimal digits of improbable integers are uniform up to 10⁻⁴, as are remainders, and their
  differences are multiples of no number more often than by chance (`geoveil.audit.digits`);
* equal reports of improbable integers, or an integer that occurs too often;
* reports that both generators, or two copies, draw alike, as from a fixed seed;
* how often a report is the answer without noise;
* how often reports of all points lie on their answers' side of the middle;
* a report that, together with all that are at most as probable, has a probability below 10⁻¹³;
* `simulate` of a user's mechanism has that law, as its density, mean and variance must.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from geoveil.audit.case import Case, copied, devices_call
from geoveil.audit.dependence import (
    chance_of_closeness,
    chance_of_even_tenths,
    chance_of_evenness,
    chance_of_order,
    chance_of_repeats,
    likeliest_either_way,
    same,
)
from geoveil.audit.digits import digits
from geoveil.audit.draw_points import points_afar, points_along, points_beside
from geoveil.audit.laws import Placed, placed, variance_of
from geoveil.audit.unknown_laws import unlike_simulated
from geoveil.gp import (
    AdditiveMechanism,
    Mechanism,
    NotPrivateWarning,
    ParameterError,
    QueryMechanism,
    SeededSource,
    SystemSource,
    chosen_source,
)

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

_OWN_SHARE, _LAW_SHARE, _LIBRARY_SHARE = 2, 4, 10
"""Samples per exact release, of a user's mechanism, of categories or a form, and of others."""
IMPOSSIBLE = 1e-13
"""Probability below which the audit refuses a report."""
_LIGHT = 1e-4
"""Repeats of integers less probable than this are counted together, those of 2⁻ʲ to 2⁻ʲ⁻¹."""
_RAREST = 53
"""The largest j; less probable integers count with those of 2⁻⁵³."""
_PARTS = 32
_TAILS = 2.0 ** -np.arange(6, 15)
_LEVELS = 14
_NEAR = 2.0 ** -np.arange(5, 41)
"""Probabilities of places about the middle, where the answer is without noise, and at 0."""
_NOISY = 1e3
"""The least noise, in grid steps, for which a density is compared."""
_ROUND = np.array([-1, 0, 1])
"""Integers at the answer without noise, whose mean is a double."""
_TESTS = 10
_MULTIPLES = 1 << 17
"""Twice the largest multiple of a place on which the next may depend: generators have such."""
_AGAIN = 1000
"""Reports that new copies of a user's mechanism draw twice in each way."""
_FLOATS = 64
"""The most floats by which every other pair of reports is shifted."""
_DEEPER = 2.0 ** np.arange(12, 36, 4)
"""A place in a law times these has its next four bits right of the point."""
_BITS = np.arange(16)[:, None] >> np.arange(4) & 1
"""The bits of such four."""
_WIDER, _TOLERATED = 2.0**-12, 1e-3
"""Fraction of a standard deviation on both sides over which a density is counted, and its error."""
_SMOOTH = 0.98, 0.8
"""Shares of reports where densities have no jump or pole, of added and of any other noise."""


@dataclass(frozen=True, slots=True)
class Draws:
    """The result of testing releases."""

    releases: int
    """The number of releases."""
    agree: bool
    """Whether they agree with the stated law."""
    difference: str
    """The disagreement in words; '' if they agree."""


def releases_of(case: Case, samples: int) -> int:
    """Return the number of releases for a row, as many as samples if releases are fast."""
    if not isinstance(case.mechanism, Mechanism):
        return samples // (_LAW_SHARE if hasattr(case.mechanism, "placed") else 1)
    return samples // (_OWN_SHARE if _is_own(case) else _LIBRARY_SHARE)


def _is_own(case: Case) -> bool:
    """Return whether a mechanism is a user's, or its class comes from outside geoveil."""
    return case.own or not type(case.mechanism).__module__.startswith("geoveil.")


def draws_of(case: Case, releases: int, seed: int, failure: float) -> Draws | None:
    """Return the test of a row's releases at all points; None without releases.

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
    own = _is_own(case)
    points = np.concatenate(groups)
    halves = [2 * max(releases // (8 * len(g)), 1) for g in groups for _ in g]
    turns = np.repeat(rng.permutation(np.repeat(np.arange(len(points)), halves)[::2]), 2)
    order = np.argsort(turns, kind="stable")
    x = points[turns]
    moved = np.flatnonzero((turns < len(groups[0])) & (np.arange(len(x)) // 2 % 2 == 1))
    x[moved] += np.spacing(np.abs(x[moved])) * rng.integers(0, _FLOATS, x[moved].shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotPrivateWarning)
        try:
            few = [x[:_AGAIN]] * 2 if own else []
            both, *again = (_both_ways(case, of, seed + i) for i, of in enumerate([x, *few]))
        except (TypeError, ValueError, OverflowError):
            if own and isinstance(mechanism, Mechanism):
                _as_a_device(case.name, mechanism, points[0].tolist())  # refuses invalid reports
            raise
        if again and chance_of_repeats(*again) < failure / (2 * _TESTS):
            return Draws(2 * len(x), False, "a new copy repeats reports with other random bits")
        drawn_by = [np.split(drawn[order], np.cumsum(halves)[:-1]) for drawn in both]
        if own and isinstance(mechanism, Mechanism):  # like devices: a new copy each time
            by_a_device = _by_a_device(halves)
            for point, drawn, new in zip(points.tolist(), drawn_by[1], by_a_device, strict=True):
                for i in np.flatnonzero(new):
                    drawn[i] = _as_a_device(case.name, mechanism, point)
    reports = [np.concatenate(pair) for pair in zip(*drawn_by, strict=True)]
    where, simulated = [], []
    bare, chances, sides = 0, [np.zeros(0)], []
    answers = np.reshape(stated.mean(points), (len(points), *reports[0].shape[1:])) / stated.step
    middle = np.rint((answers.min(axis=0) + answers.max(axis=0)) / 2).astype(np.int64)
    for point, answer, drawn in zip(points, answers, reports, strict=True):
        near = np.rint(answer).astype(np.int64) + _ROUND[(..., *[None] * answer.ndim)]
        place = placed(stated, point, np.concatenate([drawn, near, middle[None]]))
        if place is None:
            fault = unlike_simulated(mechanism, points, reports, halves, failure, rng)
            return Draws(sum(map(len, reports)), not fault, fault)
        where.append(place.of(slice(len(drawn))))
        if own and isinstance(mechanism, QueryMechanism):
            if fault := _misstated(mechanism, point, drawn, where[-1].once):
                return Draws(sum(map(len, reports)), False, fault)
            simulated.append(_simulated(mechanism, point, len(drawn), rng))
        sides.append((np.ravel(answer > middle), place.below[-1]))
        chance = place.once[len(drawn) : -1].sum()
        if chance <= _LIGHT:
            bare += int(np.any([same(drawn, whole) for whole in near], axis=0).sum())
            chances.append(np.full(len(drawn), chance))
    share = failure / _TESTS
    chance = np.concatenate(chances)
    if len(chance) and at_least(bare, chance) < share:
        fault = f"{bare} of {len(chance)} reports are the answer without noise"
    elif simulated and _places(simulated, halves, share):
        fault = "simulate draws from a law other than that of the released integers"
    else:
        last = np.random.default_rng([seed, 1])
        fault = _refused(reports, where, halves, sides, order, own, share, last)
    return Draws(sum(map(len, reports)), not fault, fault)


def _both_ways(case: Case, x: Array, seed: int) -> tuple[Integers, Integers]:
    """Return reports with a seed and with the system's bits, by copies of a user's mechanism."""
    two: tuple[Any, Any] = case.two_alike() if _is_own(case) else (case.mechanism, case.mechanism)
    return two[0].release_many(x, SeededSource(seed)), devices_call(two[1])(x, SystemSource())


def _misstated(mechanism: Any, x: Array, reports: Integers, once: Array) -> str:
    """Return a statement of a user's mechanism that contradicts its law of integers at a point.

    Each of the reports has the probability `once`.
    """
    kind: Any = next(k for k in type(mechanism).__mro__ if k.__module__.startswith("geoveil."))
    s = np.asarray(mechanism.query.signed_distance(x[None]))
    for what, said, true in (
        ("variance", mechanism.variance(x[None]), variance_of(mechanism, kind, s)),
        ("mean", mechanism.mean(x[None]), kind.mean(mechanism, x[None])),
    ):
        if not np.allclose(said, true, atol=min(mechanism.step, 1e-8), equal_nan=True):
            return f"{what} is not that of the released integers"
    wide = int(_WIDER * float(np.quantile(reports, 0.8) - np.quantile(reports, 0.2)) / 2)
    if wide < _NOISY or once.max() > _LIGHT:  # atoms have no density
        return ""
    low, high = (placed(mechanism, x, reports + side) for side in (-wide, wide))
    if low is None or high is None:
        return ""
    # The probability of the tail that contains a report is exact in relative terms.
    mass = np.where(low.below < low.above, high.below - low.below, low.above - high.above)[:, 0]
    logs = mechanism.log_density(reports[:, None] * mechanism.step, x[None])[:, 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        off = np.abs(np.log(mass / (2 * wide * mechanism.step)) - logs)
    fits = np.quantile(off, _SMOOTH[not isinstance(mechanism, AdditiveMechanism)]) <= _TOLERATED
    return "" if fits else "log_density is not that of the released integers"


def _simulated(mechanism: Any, x: Array, count: int, rng: np.random.Generator) -> Array:
    """Return the places of as many simulated reports in the law of integers, uniform in (0, 1)."""
    rounded = np.rint(mechanism.simulate(np.repeat(x[None], count, axis=0), rng) / mechanism.step)
    ends = [rounded == float(end) for end in mechanism.grid_range]  # the nearest of all floats
    whole = np.select(ends, [*mechanism.grid_range], rounded.astype(np.int64))
    return _uniform(placed(mechanism, x, whole), rng)  # type: ignore[arg-type]


def _by_a_device(halves: list[int]) -> list[NDArray[np.bool_]]:
    """Return which reports of each point's second half a device draws; the others follow them."""
    return [np.arange(n) < n // 2 for n in halves]


def _as_a_device(name: str, mechanism: Any, point: Any) -> Any:
    """Return a release of a copy, which uses its own source if it can; refuse any other value."""
    new = copied(mechanism)
    try:
        report = new.release(point)
    except (AttributeError, TypeError):
        report = new.release(point, chosen_source(None))
    parts = report if isinstance(report, tuple) else (report,)
    whole = all(isinstance(k, int | np.integer) and -(2**63) <= k < 2**63 for k in parts)
    if not whole or np.shape(report) != mechanism._shape:
        released = f"an integer of 64 bits, not {report!r:.40}"
        permitted = f"a file whose {name}(query, privacy) releases {released}"
        raise ParameterError("module", name, permitted)
    return report


def _refused(
    reports: list[Integers],
    where: list[Placed],
    halves: list[int],
    sides: list[tuple[NDArray[np.bool_], Array]],
    order: NDArray[np.intp],
    own: bool,
    share: float,
    rng: np.random.Generator,
) -> str:
    """Return, in words, an output that contradicts the law; '' without one."""
    worst = min(float(place.rare.min()) for place in where)
    if worst < IMPOSSIBLE:
        return f"a report whose like has a probability of {worst:.0e} in the law that is stated"
    if ties := _ties(reports, where, share):
        return ties
    both = list(zip(reports, where, halves, strict=True))
    alike = np.concatenate([same(drawn[:n], drawn[n:]) for drawn, _, n in both])
    chance = np.concatenate([place.once[:n] for _, place, n in both])
    if at_least(int(alike.sum()), chance) < share / 2:
        return f"two generators draw {alike.mean():.1%} of the reports alike"
    places = [_uniform(place, rng) for place in where]
    fault = _places(places, halves, share) or _on_its_side(places, sides, share)
    back = np.argsort(order)  # as they were drawn
    parts = [(u[:n], u[n:]) for u, n in zip(places, halves, strict=True)]
    first, second = (np.concatenate(series) for series in zip(*parts, strict=True))
    device = first[back], second[back]
    fault = fault or _evenly(*device, share, rng)
    new = np.concatenate(_by_a_device(halves))[back]
    ways = [np.array_split(device[1][way], 2) for way in (new, ~new)]
    for half, other in (device, (first, second), *ways):  # of a person, and by way of drawing
        fault = fault or _follows(half, other, own, share / 4, rng)
    return fault or digits(reports, where, halves, share)


def at_least(count: int, chances: Array) -> float:
    """Bound a tail of a count of independent events by a binomial law (Hoeffding, 1956)."""
    from scipy.stats import binom

    n, mean = len(chances), min(float(chances.mean()), 1.0)
    return float(binom.sf(count - 1, n, mean)) if count >= n * mean + 1 else 1.0


def _ties(reports: list[Integers], where: list[Placed], failure: float) -> str:
    """Return reports that repeat too often, in words.

    Given the past, an integer with a probability of at most 2⁻ʲ repeats one of i such with at most
    i·2⁻ʲ: d repeats have at most λ^d/d!. Counts of probable integers are binomial.
    """
    from scipy.stats import binom

    most = 2.0 ** -np.arange(_RAREST + 1)
    repeats, means = np.zeros(len(most)), np.zeros(len(most))
    for drawn, place in zip(reports, where, strict=True):
        n = len(drawn)
        _, first, counts = np.unique(drawn, axis=0, return_index=True, return_counts=True)
        once = place.once[first]
        light = once < _LIGHT
        power = -np.log2(np.maximum(once[light], most[-1])).astype(np.intp)
        repeats += np.bincount(power, counts[light] - 1, len(most))
        means += n * (n - 1) / 2 * most
        k, p = counts[~light], np.minimum(once[~light], 1.0)
        chance = 2 * np.minimum(binom.cdf(k, n, p), binom.sf(k - 1, n, p))
        # An integer's part of the failure probability is its own probability: they add up to 1.
        refused = chance * len(reports) < p * failure / 2
        if refused.any():
            often, stated = int(k[refused][0]), float(p[refused][0])
            return f"one integer is {often} of {n} reports of one person, where {stated:.3%} should"
    for count, mean in zip(repeats.tolist(), means.tolist(), strict=True):
        nats = count * math.log(mean) - math.lgamma(count + 1)
        if count and nats < math.log(failure / 2 / len(most)):
            return f"{count:.0f} of {sum(map(len, reports))} reports repeat one of the same person"
    return ""


def _uniform(place: Placed, rng: np.random.Generator) -> Array:
    """Return the place of each part of each report in its law, uniform in (0, 1): (n, c)."""
    inside = rng.random(place.below.shape)
    u = place.below + inside * place.equal
    high = place.above + (1 - inside) * place.equal
    return np.where(u < high, u, 1 - np.minimum(high, 1.0))


def _follows(
    first: Array, second: Array, own: bool, failure: float, rng: np.random.Generator
) -> str:
    """Return a dependence between places; one series (n, c) suggests it, the other tests it."""
    for follows, tested in islice(likeliest_either_way(first, second, _MULTIPLES), 1 + own):
        sides = follows.sides(tested)
        chance, share = chance_of_order(*sides, rng)
        if min(chance, chance_of_closeness(*sides)) < failure / 4:
            away = abs(follows.place)
            return f"reports follow from others {away} before or after in {share:.1%} of cases"
    return ""


def _evenly(first: Array, second: Array, failure: float, rng: np.random.Generator) -> str:
    """Return a message if places (n, c) vary too little, from each other or in a tenth of n."""
    chances = []
    for columns in zip(first.T, second.T, strict=True):
        chances.append(chance_of_evenness(*columns, rng))
        chances += map(chance_of_even_tenths, columns)
    if min(chances) * len(chances) >= failure:
        return ""
    return "reports are spread more evenly than independent noise is"


def _on_its_side(
    places: list[Array], sides: list[tuple[NDArray[np.bool_], Array]], failure: float
) -> str:
    """Return, in words, that too many reports lie on their answers' side; '' if they do not.

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
    from scipy.special import gammainc, gammaincc
    from scipy.stats import binom

    streams = {"": np.concatenate(places)}
    # The difference of independent numbers, modulo 1, is uniform, too.
    both = list(zip(places, halves, strict=True))
    apart = np.concatenate([(u[:n] - u[n:]) % 1 for u, n in both])
    streams[", one less the same of another generator"] = apart
    parts = apart.shape[-1]
    streams[", with a seed"] = np.concatenate([u[:n] for u, n in both])
    second = np.concatenate([u[n:] for u, n in both])
    new = np.concatenate(_by_a_device(halves))
    streams[", as a device draws"] = second[new]
    streams[", with the system's bits"] = second[~new]
    count = len(streams)
    for i, u in enumerate(places):
        streams[f", at one of the points ({i + 1} of {len(places)})"] = u
    levels = 2 ** np.arange(1, _LEVELS + 1)
    for u in streams[""].T:
        cell = np.minimum((u * levels[-1]).astype(np.intp), levels[-1] - 1)
        finest = np.bincount(cell, minlength=levels[-1])
        # Of equally likely parts the smallest and the largest are the least likely ones.
        parted = [np.sort(finest.reshape(n, -1).sum(axis=1))[[0, -1]] for n in levels]
        digits = (u[:, None] * _DEEPER % 1 * 16).astype(np.intp)
        near = (np.abs([2 * u - 1, u])[..., None] < _NEAR).sum(axis=1)
        of_digits = np.array([np.bincount(digit, minlength=16) for digit in digits.T])
        k = np.concatenate([*parted, *of_digits, *(of_digits @ _BITS), *near])
        deep = np.repeat([1 / 16, 1 / 2], [16 * len(_DEEPER), 4 * len(_DEEPER)])
        p = np.concatenate([np.repeat(1 / levels, 2), deep, _NEAR, _NEAR])
        chance = 2 * np.minimum(binom.cdf(k, len(u), p), binom.sf(k - 1, len(u), p))
        worst = int(np.argmin(chance))
        if chance[worst] < failure / (5 * parts * (len(k) + int((levels - 2).sum()))):
            return f"{k[worst] / len(u):.3%} of reports where {p[worst]:.3%} should be"
    edges = np.arange(1, _PARTS) / _PARTS
    p = np.concatenate([np.full(_PARTS, 1 / _PARTS), _TAILS, _TAILS])
    ordered, counted = [], []
    for i, (name, numbers) in enumerate(streams.items()):
        for u in np.sort(numbers.T):
            n, above = len(u), np.searchsorted(u, 1 - _TAILS, "right")
            counts = np.diff(np.searchsorted(u, edges, "right"), prepend=0, append=n)
            counted.append(np.concatenate([counts, np.searchsorted(u, _TAILS), n - above]))
            ordered.append((i, name, u))
    k, sizes = np.array(counted), np.array([[len(u)] for *_, u in ordered])
    chances = 2 * np.minimum(binom.cdf(k, sizes, p), binom.sf(k - 1, sizes, p))
    for (i, name, u), counts, chance in zip(ordered, k, chances, strict=True):
        # Streams at single points, which are many and short, have a separate share.
        tests, n = 5 * (count if i < count else len(places)) * 2 * parts, len(u)
        worst = int(np.argmin(chance))
        if chance[worst] < failure / (tests * len(p)):
            return f"{counts[worst] / n:.3%} of reports where {p[worst]:.3%} should be{name}"
        # How far out a uniform number lies, in nats, is exponential, and so is the farthest.
        nats = -np.log(np.maximum(2 * np.minimum(u, 1 - u), 1e-300))
        if -n * math.exp(-nats.max()) < math.log(failure / tests):
            return f"no report of {n} lies beyond {math.exp(-nats.max()):.2%}{name}"
        if _apart(u) < failure / tests:
            return f"reports lie to one side of where they should{name}"
        out = nats.sum()
        if 2 * min(gammainc(n, out), gammaincc(n, out)) < failure / tests:  # the law of gamma
            return f"reports lie {out / n:.3f} times as far out as they should{name}"
    return ""


def _apart(u: Array) -> float:
    """Bound the chance of ordered numbers (n,) as far from uniform as these.

    By the inequality of Dvoretzky, Kiefer and Wolfowitz, with Massart's constant.
    """
    n, apart = len(u), u - np.arange(1, len(u) + 1) / len(u)
    return 2 * math.exp(-2 * n * max(float(apart.max()) + 1 / n, float(-apart.min())) ** 2)
