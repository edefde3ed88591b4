"""Exact draws: float64 decides nearly all of them, and ball arithmetic the rest.

An answer is a function of ideal uniform numbers, drawn to only as many bits as decide it, so it has
exactly the ideal distribution [MATH §10]. In arrays a word w stands for a uniform number in
[w, w + 1]/2^64. If float64 can't decide a draw, balls decide it, with the same leading bits and
further ones. The number of bits and comparisons does not depend on the scores, except in such
undecided draws, whose probability each function states.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from geoveil.gp import BALL, GeoVeilError, LazyUniform, RandomSource, Real, working_precision

_Answer = TypeVar("_Answer")

_GUARD_BITS = 32
_MOST_BITS = 1 << 16


def decided(
    uniforms: Sequence[LazyUniform], attempt: Callable[[list[Real]], _Answer | None]
) -> _Answer:
    """Return the first answer of `attempt`, called with ever smaller balls around the numbers.

    `attempt` returns None while the balls permit more than one answer.
    """
    while True:
        with working_precision(uniforms[0].count + _GUARD_BITS):
            answer = attempt([ball(u) for u in uniforms])
        if answer is not None:
            return answer
        _refine(uniforms)


def _refine(uniforms: Sequence[LazyUniform]) -> None:
    if uniforms[0].count >= _MOST_BITS:
        # A fair source gets here with probability below 2^-60000.
        raise GeoVeilError("the random source is broken: its bits decide nothing")
    for uniform in uniforms:
        uniform.refine()


def weighted_index(uniform: LazyUniform, weights: Callable[[], Sequence[Real]]) -> int:
    """Return an index with probability exactly proportional to the weights.

    It is the first whose running sum exceeds U times the total. `weights` returns balls around
    numbers ≥ 0, not all 0, at the current precision.
    """

    def attempt(balls: list[Real]) -> int | None:
        sums = list(accumulate(weights()))
        target = balls[0] * sums[-1]
        for index, running in enumerate(sums):
            if target < running:
                return index
            if not target > running:
                return None
        return None

    return decided([uniform], attempt)


def ball(uniform: LazyUniform) -> Real:
    """Enclose a uniform number with known leading bits."""
    return BALL.uniform(uniform.numerator, uniform.count)


def largest(values: Sequence[Real]) -> int | None:
    """Return the index of the largest number, or None if the balls overlap."""
    best = max(range(len(values)), key=lambda index: values[index].mid())
    champion = values[best]
    others = (value < champion for index, value in enumerate(values) if index != best)
    return best if all(others) else None


Array = NDArray[np.float64]
Words = NDArray[np.uint64]
Indices = NDArray[np.int64]

Enclosure: TypeAlias = Callable[[Words], tuple[Array, Array]]
"""Encloses noise, given two words of each U, shape (..., 2), as for `uniform`."""
Decide: TypeAlias = Callable[[Sequence[int], Sequence[LazyUniform]], int]
"""Returns which of several outcomes wins, given their uniform numbers, with balls."""

_WORD = 64
_CHUNK = 512
"""The number of words requested from a source at once."""
_SLACK = 2.0**-48
"""A bound on the relative error of a few float64 operations."""
_NOISE_SLACK = 2.0**-40
_SUM_BITS = 61
_LEAST_EXPONENT = 700.0
"""e^−700 is still a normal double."""
_FARTHEST = 1e300
_BLOCK = 1 << 20
"""The number of words processed together."""


def random_words(source: RandomSource, count: int) -> Words:
    """Return independent uniform integers in [0, 2^64), shape (count,)."""
    parts = []
    for start in range(0, count, _CHUNK):
        size = min(_CHUNK, count - start)
        parts.append(source.bits(_WORD * size).to_bytes(_WORD // 8 * size, "big"))
    return np.frombuffer(b"".join(parts), dtype=">u8").astype(np.uint64)


class Continued(LazyUniform):
    """A uniform number with known first words."""

    def __init__(self, source: RandomSource, words: Sequence[int]) -> None:
        self._source = source
        self.count = _WORD * len(words)
        self.numerator = int.from_bytes(b"".join(word.to_bytes(_WORD // 8) for word in words))


def widened(z: Array) -> tuple[Array, Array]:
    """Return bounds of noise that float64 computes within 2^-40 (1 + |z|)."""
    slack = _NOISE_SLACK * (1 + np.abs(z))
    return z - slack, z + slack


def uniform(words: Words) -> Array:
    """Return U from two words each, shape (..., 2), with a relative error of 2^-50.

    1 − U comes from the words' complement. The leading word is neither 0 nor the largest.
    """
    parts = words.astype(np.float64)
    return np.asarray((parts[..., 0] + (parts[..., 1] + 0.5) * 2.0**-_WORD) * 2.0**-_WORD)


def unknown(words: Words) -> tuple[Array, Array]:
    """Return infinite bounds, so that balls compare all outcomes."""
    return np.full(words.shape[:-1], -np.inf), np.full(words.shape[:-1], np.inf)


def exponential_bounds(least: Array, most: Array) -> tuple[Array, Array]:
    """Return bounds of e^−x for x between `least` ≥ 0 and `most`."""
    # Clamped so that the exponential never underflows, which takes longer.
    low, high = (np.exp(-np.minimum(x, _LEAST_EXPONENT)) for x in (most, least))
    return np.where(most < _LEAST_EXPONENT, low * (1 - _SLACK), 0.0), high * (1 + _SLACK)


def weighted_indices(
    size: int,
    bounds: tuple[Array, Array],
    weights: Callable[[], Sequence[Real]],
    source: RandomSource,
) -> Indices:
    """Return `size` indices, shape (size,), each with the law of `weighted_index`.

    Each takes 64 bits. More bits and balls follow if the bounds leave two outcomes possible; with
    bounds as narrow as doubles, the probability is about m (m + 2^13)/2^61.

    Args:
        size: ≥ 1.
        bounds: lower and upper bounds of the weights, shapes (m,), in any common unit; at least one
            upper bound is not 0.
        weights: as in `weighted_index`.

    Example:
        >>> from geoveil.gp import SeededSource
        >>> from flint import arb
        >>> known = np.array([0.0, 1.0])
        >>> weighted_indices(4, (known, known), lambda: [arb(0), arb(1)], SeededSource(1)).tolist()
        [1, 1, 1, 1]
    """
    drawn = random_words(source, size)
    low, high = bounds
    unit = 2.0**_SUM_BITS / high.sum()
    # Integers, whose sums are exact.
    below = np.cumsum(np.floor(low * unit * (1 - _SLACK)).astype(np.int64))
    above = np.cumsum(np.ceil(high * unit * (1 + _SLACK)).astype(np.int64))
    share = drawn.astype(np.float64) * 2.0**-_WORD
    least = np.floor(share * (below[-1] * (1 - _SLACK))).astype(np.int64)
    most = np.ceil((share + 2.0**-_WORD) * (above[-1] * (1 + _SLACK))).astype(np.int64)
    # All sums before the index are at most U times the total.
    index: Indices = np.searchsorted(above, least, side="right").astype(np.int64)
    for place in np.flatnonzero(most >= below[index]).tolist():
        index[place] = weighted_index(Continued(source, [int(drawn[place])]), weights)
    return index


def noisy_argmax(
    size: int,
    gaps: Array,
    noise: Enclosure,
    decide: Decide,
    source: RandomSource,
    *,
    least: int = 1,
) -> Indices:
    """Return `size` draws, shape (size,), of the argmax of −gap + Z, Z i.i.d.

    Each takes 128 bits per outcome.

    Args:
        size: ≥ 1.
        gaps: ≥ 0, in units of the noise, with a relative error of 2^-49; shape (m,).
        noise: encloses Z.
        decide: decides with balls which of several outcomes won.
        least: the fewest outcomes that `decide` compares, if there are that many.
    """
    if len(gaps) <= least:
        noise = unknown
    results = []
    for words, low, high in contests(size, gaps, noise, source):
        possible = contenders(low, high, least=least)
        result = low.argmax(axis=1)
        for row in np.flatnonzero(possible.sum(axis=1) > 1).tolist():
            places = np.flatnonzero(possible[row]).tolist()
            result[row] = places[decide(places, uniforms(source, words[row], places))]
        results.append(result)
    return np.concatenate(results).astype(np.int64)


def contests(
    size: int, gaps: Array, noise: Enclosure, source: RandomSource
) -> Iterator[tuple[Words, Array, Array]]:
    """Yield blocks of draws: their words, (n, m, 2), and bounds of −gap + Z, (n, m) each."""
    outcomes = len(gaps)
    # Beyond the reach of any noise from 128 bits.
    behind = np.minimum(gaps, _FARTHEST)
    step = max(1, _BLOCK // outcomes)
    for start in range(0, size, step):
        rows = min(step, size - start)
        words = random_words(source, 2 * rows * outcomes).reshape(rows, outcomes, 2)
        low, high = noise(words)
        low -= behind * (1 + _SLACK)
        high -= behind * (1 - _SLACK)
        slack = _SLACK * (np.abs(low) + np.abs(high))
        # The ends of (0, 1), where 128 bits are imprecise: one draw in 2^60.
        unknown = (words[..., 0] + np.uint64(1)) <= 1
        yield (
            words,
            np.where(unknown, -np.inf, low - slack),
            np.where(unknown, np.inf, high + slack),
        )


def contenders(low: Array, high: Array, *, places: int = 1, least: int = 1) -> NDArray[np.bool_]:
    """Return which numbers of each row may be among its `places` largest, shape (n, m).

    `low` and `high` bound the numbers. At least `least` are marked: those with the largest bounds.
    """
    # The `places`-th largest lower bound.
    floor = low.max(axis=1, keepdims=True)
    if places > 1:
        floor = np.partition(low, -places, axis=1)[:, -places, None]
    possible = np.asarray(high >= floor)
    if least > 1:
        most = min(least, high.shape[1])
        top = np.argpartition(high, -most, axis=1)[:, -most:]
        np.put_along_axis(possible, top, True, axis=1)
    return possible


def uniforms(source: RandomSource, words: Words, places: Sequence[int]) -> list[LazyUniform]:
    """Return the uniform numbers of some outcomes of a draw, given its words, (m, 2)."""
    return [Continued(source, words[place].tolist()) for place in places]


def exact_argmax(
    utilities: Sequence[float],
    scale: Callable[[], Real],
    noise: Callable[[LazyUniform], Real],
    uniforms: Sequence[LazyUniform],
) -> int:
    """Return argmax u_r + scale · Z_r, drawn from exactly its distribution.

    `scale` encloses the scale, and `noise` encloses each Z as a function of its own U.
    """
    left = list(range(len(uniforms)))
    while len(left) > 1:
        with working_precision(uniforms[left[0]].count + _GUARD_BITS):
            size = scale()
            noisy = [BALL.private(utilities[r]) + size * noise(uniforms[r]) for r in left]
            # A ball that is not finite is neither less nor greater than another.
            floors = [value.lower() for value in noisy if value.is_finite()]
            left = [
                r
                for r, value in zip(left, noisy, strict=True)
                if not any(value < floor for floor in floors)
            ]
        if len(left) > 1:
            _refine([uniforms[r] for r in left])
    return left[0]
