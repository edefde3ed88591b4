"""Test the independence of numbers at the lag where they seem most dependent.

One series chooses the largest correlation, at any lag, of e^{2πiju}, j ≤ 4, with that of ku,
|k| ≤ 5, or of e^{2πiu} with that of sums and differences of two u, or of multiples of the preceding
u. Another series decides: every order of independent numbers is equally likely, so counts by rank
are hypergeometric (Fisher's exact law), and counts of close uniform numbers are binomial. Two
series may not be more alike than by chance, either.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Source = tuple[int, int, int]
"""Place, column and multiple of a number on which another may depend."""

_NEAR = 4
"""The largest distance of two added numbers in a series with one column."""
_MULTIPLES, _HARMONICS = (1, -1, 2, -2, 3, -3, 4, -4, 5, -5), (1, 2, 3, 4)
"""Multiples k of a number, and j of the number that may depend on it: j = 2 shows half turns."""
_MOST = 1 << 17
"""Numbers of a column used to choose a dependence."""
_FEWEST = 256
_FINE = 4096
"""Twice the largest multiple that can be seen from ranks of reports."""
_PAIRED, _LATER = 256, (range(1, 5), range(5, 9))
"""Twice the largest multiples of two numbers in a row, and the lags of one."""
_GROUPS, _FEW = (1, 4, 16, 64), 5
"""Neighbouring bins counted together, and the least expected count with a law of chi-square."""
_EQUAL = 512
"""Equal parts of (0, 1) whose numbers are counted."""
_CLOSE = 1 / 16
"""The largest distance of numbers that are close."""
_PARTS = 8
"""Parts by rank for comparing two series."""


@dataclass(frozen=True, slots=True)
class Follows:
    """A possible dependence of a multiple of a number on those at places before or after it."""

    sources: tuple[Source, ...]
    place: int
    column: int
    multiple: int = 1

    def sides(self, u: Array) -> tuple[Array, Array]:
        """Return combinations of sources in a series, and what may depend on each, (n,)."""
        offsets = [self.place, *(place for place, _, _ in self.sources)]
        first, span = min(offsets), max(offsets) - min(offsets)
        start = np.arange(max(len(u) - span, 0)) - first
        away = [abs(self.place - place) for place, c, _ in self.sources if c == self.column]
        if away:  # blocks in which sources end before dependent numbers begin, or the other way
            start = start[(start + first) % (span + min(away)) < min(away)]
        made = np.zeros(len(start))
        for place, column, multiple in self.sources:
            made += multiple * u[start + place, column]
        return np.mod(made, 1.0), np.mod(self.multiple * u[start + self.place, self.column], 1.0)


def likeliest(u: Array, fine: int = _FINE) -> Follows:
    """Return the strongest apparent dependence between numbers of a series in (0, 1), (n, c).

    A number may depend on a multiple up to fine/2 of one up to 8 before, or on sums of two.
    """
    from scipy.fft import next_fast_len

    u = u[:_MOST]
    n, columns = u.shape
    size: Any = next_fast_len(2 * n)
    powers = {k: np.exp(2j * np.pi * k * u.T).astype(np.complex64) for k in _MULTIPLES}
    # Four transforms together take little more time than one.
    targets = np.fft.fft(np.stack([powers[j] for j in _HARMONICS], axis=1), size)
    lags = np.concatenate([np.arange(size - size // 2), np.arange(-(size // 2), 0)])
    weights = (1 / np.maximum(n - np.abs(lags), 1)).astype(np.float32)
    weights[np.abs(lags) > n - min(_FEWEST, n)] = 0
    best, chosen = 0.0, Follows(((0, 0, 1),), 1, 0)
    for sources in _sources(columns):
        made = np.ones(n, np.complex64)
        for place, column, multiple in sources:
            made *= np.roll(powers[multiple][column], -place)
        made[n - max(place for place, _, _ in sources) :] = 0
        tested = targets if len(sources) == 1 else targets[:, :1]
        power = _squared(np.fft.ifft(np.conj(np.fft.fft(made, size)) * tested)) * weights
        for place, column, _ in sources:
            power[column, :, place] = 0
        at = np.unravel_index(int(np.argmax(power)), power.shape)
        if power[at] > best:
            on, harmonic, lag = map(int, at)
            best = float(power[at])
            chosen = Follows(sources, int(lags[lag]), on, _HARMONICS[harmonic])
    return max(((best, chosen), *_multiples(u, fine)), key=lambda pair: pair[0])[1]


def _squared(numbers: NDArray[np.complexfloating[Any, Any]]) -> NDArray[np.floating[Any]]:
    return np.asarray(np.square(numbers.real) + np.square(numbers.imag))


def likeliest_either_way(
    u: Array, others: Array, fine: int = _FINE
) -> Iterator[tuple[Follows, Array]]:
    """Yield `likeliest` of u with the numbers that test it, and of multiples of later numbers.

    Of the latter, both series are turned round, as a buffer is that is emptied from its end.
    """
    yield likeliest(u, fine), others
    backward = max(_multiples(u[:_MOST][::-1], fine), key=lambda pair: pair[0], default=None)
    if backward:
        yield backward[1], others[::-1]


def _multiples(u: Array, fine: int) -> Iterator[tuple[float, Follows]]:
    """Yield the multiples of neighbours on which a number seems to depend most, and how much."""
    grids = (*(((0,), fine, later) for later in _LATER), ((0, 1), _PAIRED, range(2, 3)))
    for (column, numbers), (places, size, afterwards) in product(enumerate(u.T), grids):
        later = [place for place in afterwards if len(u) - place >= _FEWEST]
        if not later:
            continue
        cell = np.zeros(len(u) - places[-1], np.intp)
        for before in places:
            cell = cell * size + (numbers[before : before + len(cell)] * size).astype(np.intp)
        turn, axes = 2 * np.pi * numbers, range(1, len(places) + 1)
        sums = np.empty((len(later), size ** len(places)), np.complex128)
        for row, place in zip(sums, later, strict=True):
            n = len(u) - place
            row.real = np.bincount(cell[:n], np.cos(turn[place:]), len(row))
            row.imag = np.bincount(cell[:n], np.sin(turn[place:]), len(row))
        shape = (size,) * len(places)
        powers = _squared(np.fft.fftn(sums.reshape(-1, *shape), axes=axes))
        for power, place in zip(powers, later, strict=True):
            power.flat[0] = 0
            at = np.unravel_index(int(np.argmax(power)), shape)
            by = [int(k) - size * (2 * int(k) > size) for k in at]
            sources = ((b, column, k) for b, k in zip(places, by, strict=True) if k)
            yield float(power[at]) / (len(u) - place), Follows(tuple(sources), place, column)


def _sources(columns: int) -> Iterator[tuple[Source, ...]]:
    yield from (((0, c, k),) for c, k in product(range(columns), _MULTIPLES))
    near = _NEAR if columns == 1 else 1
    signs = (1, -1)
    for c, d, place, *both in product(
        range(columns), range(columns), range(near + 1), signs, signs
    ):
        if place > 0 or c < d:
            yield (0, c, both[0]), (place, d, both[1])


def order_of(numbers: Array, rng: np.random.Generator) -> NDArray[np.intp]:
    """Return the places of numbers (..., n) in order; rng orders ties."""
    tied = rng.random(numbers.shape)
    order = np.argsort(numbers, axis=-1)  # many times faster than by two keys
    if (np.diff(np.take_along_axis(numbers, order, axis=-1)) > 0).all():
        return order
    return np.lexsort((tied, numbers))


def chance_of_order(made: Array, numbers: Array, rng: np.random.Generator) -> tuple[float, float]:
    """Return the chance of the least likely count by rank, and its share.

    Every order of the numbers (n,) is equally likely whatever `made` (n,) is; rng orders ties.
    """
    from scipy.stats import hypergeom

    n = len(made)
    if n < _PARTS:
        return 1.0, 0.0
    part = np.arange(n) * _PARTS // n
    ranks = [np.empty(n, np.intp), np.empty(n, np.intp)]
    for rank, series in zip(ranks, (made, numbers), strict=True):
        rank[order_of(series, rng)] = part
    table = np.bincount(ranks[0] * _PARTS + ranks[1], minlength=_PARTS**2)
    size = np.bincount(part)
    worst = int(np.argmax(np.abs(table - np.outer(size, size).ravel() / n)))
    row, column = divmod(worst, _PARTS)
    law = hypergeom(n, size[row], size[column])
    chance = 2 * min(law.cdf(table[worst]), law.sf(table[worst] - 1)) * len(table)
    return float(chance), float(table[worst] / size[row])


def chance_of_closeness(made: Array, numbers: Array) -> float:
    """Return the chance that as many numbers (n,) in (0, 1) are close to `made`, modulo 1.

    It is exact for independent, uniform numbers, and sees a dependence in fewer of them than
    counts by rank do.
    """
    from scipy.stats import binom

    apart = np.abs((numbers - made + 0.5) % 1 - 0.5)
    return float(binom.sf(np.count_nonzero(apart < _CLOSE) - 1, len(made), 2 * _CLOSE))


def chance_of_repeats(*pairs: tuple[NDArray[Any], NDArray[Any]]) -> float:
    """Bound the chance that as many reports of a pair of series are those of the other pair.

    Three independent reports of a point are in any order, so that each is as likely to be equal to
    the one that was drawn in its way as to the one that was drawn in another.
    """
    from scipy.stats import binom

    chances = []
    for first, third, other in zip(*pairs, pairs[0][::-1], strict=True):
        alike, by_chance = same(first, third), same(other, third)
        apart = alike != by_chance
        chances.append(float(binom.sf((alike & apart).sum() - 1, apart.sum(), 0.5)))
    return len(pairs) * min(chances)


def same(first: NDArray[Any], second: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which reports of two series, (n,) or (n, parts), are equal."""
    equal = first == second
    return np.asarray(equal if equal.ndim == 1 else equal.all(axis=-1))


def chance_of_evenness(one: Array, other: Array, rng: np.random.Generator) -> float:
    """Return the chance that two series (n,) are nowhere farther apart than these (Gnedenko, 1951).

    Noise that is spread evenly over many reports, as in a Latin hypercube, cancels in their mean.
    Every order of both together is equally likely, a path of 2n steps; rng orders ties.
    """
    n = len(one)
    order = order_of(np.concatenate([one, other]), rng)
    beyond = int(np.abs(np.cumsum(np.where(order < n, 1, -1))).max(initial=0)) + 1
    # Paths that leave the strip are reflected at its edges, repeatedly.
    i = np.arange(n)
    ends = np.exp(np.cumsum(np.log((n - i) / (n + 1 + i)))[beyond - 1 :: beyond])
    return max(float(1 + 2 * (ends[1::2].sum() - ends[::2].sum())), 0.0)


def chance_of_even_counts(counts: NDArray[np.intp], expected: Array) -> float:
    """Bound the chance that counts (n, bins) differ as little from those expected (bins,).

    Bins are counted alone and in groups. Each of the n sums may be fixed, which takes away one
    degree of freedom.
    """
    from scipy.stats import chi2

    chances = [1.0]
    for size in _GROUPS:
        starts = np.arange(0, len(expected), size)
        mean, drawn = np.add.reduceat(expected, starts), np.add.reduceat(counts, starts, axis=1)
        if mean.min() >= _FEW:
            off = float(((drawn - mean) ** 2 / mean).sum())
            chances.append(len(_GROUPS) * float(chi2.cdf(off, drawn.size - len(drawn))))
    return min(chances)


def chance_of_even_tenths(u: Array) -> float:
    """Bound the chance that numbers (n,) in (0, 1) are as even in every tenth of the series."""
    tenths = np.minimum(u[: len(u) // 10 * 10] * _EQUAL, _EQUAL - 1).reshape(10, -1)
    counts = [np.bincount(tenth.astype(np.intp), minlength=_EQUAL) for tenth in tenths]
    return chance_of_even_counts(np.array(counts), np.full(_EQUAL, tenths.shape[1] / _EQUAL))
