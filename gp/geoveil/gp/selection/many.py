"""Many exact draws at once: 64 bits each decide nearly all of them, balls the rest.

A word w stands for a uniform number U in [w, w + 1]/2^64. What a vectorised comparison with proven
margins cannot decide, about one draw in a billion, goes on as it would alone: with the same leading
bits, and more of them. So every draw has exactly the ideal distribution, and none depends on
another.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate

import numpy as np
from flint import arb
from numpy.typing import NDArray

from geoveil.gp.arithmetic import Real
from geoveil.gp.exact.ball import working_precision
from geoveil.gp.exact.bits import LazyUniform, RandomSource
from geoveil.gp.selection.draw import weighted_index

Array = NDArray[np.float64]
Words = NDArray[np.uint64]
Indices = NDArray[np.int64]

_WORD = 64
_TOP = (1 << _WORD) - 1
_CHUNK = 512
"""Words that a source is asked for at a time."""
_PRECISION = 192
_RESOLVED = np.uint64(1 << 40)
"""Words from here on know U to 2^-40 of itself, and so noise to about 2^-40."""
_MARGIN = 1e-9
"""Of a noisy utility, relative to all that it is made of: far more than float64 loses."""
_FARTHEST = 1e300
_BLOCK = 1 << 20
"""Words that are handled together."""


def random_words(source: RandomSource, count: int) -> Words:
    """Return independent uniform integers in [0, 2^64), shape (count,).

    Example:
        >>> from geoveil.gp import SeededSource
        >>> random_words(SeededSource(1), 3).shape
        (3,)
    """
    parts = []
    for start in range(0, count, _CHUNK):
        size = min(_CHUNK, count - start)
        parts.append(source.bits(_WORD * size).to_bytes(_WORD // 8 * size, "big"))
    return np.frombuffer(b"".join(parts), dtype=">u8").astype(np.uint64)


class _Continued(LazyUniform):
    """A uniform number whose first 64 bits are known already."""

    def __init__(self, source: RandomSource, word: int) -> None:
        self._source = source
        self.count, self.numerator = _WORD, word


def weighted_indices(
    size: int, weights: Callable[[], Sequence[Real]], source: RandomSource
) -> Indices:
    """Return `size` indices, shape (size,), each as `draw.weighted_index` draws one.

    Args:
        size: ≥ 1.
        weights: see `draw.weighted_index`.
        source: random bits.

    Example:
        >>> from geoveil.gp import SeededSource
        >>> weighted_indices(4, lambda: [arb(0), arb(1)], SeededSource(1)).tolist()
        [1, 1, 1, 1]
    """
    drawn = random_words(source, size)
    with working_precision(_PRECISION):
        sums = list(accumulate(weights()))
        edges = [running / sums[-1] * arb(2) ** _WORD for running in sums[:-1]]
        # Where the balls are no help, everything is in doubt.
        below = [_integer(edge.lower().floor(), 0) for edge in edges]
        above = [_integer(edge.upper().ceil(), _TOP) for edge in edges]
    low = np.minimum.accumulate(np.array(below, dtype=np.uint64)[::-1])[::-1]
    high = np.maximum.accumulate(np.array(above, dtype=np.uint64))
    index = np.searchsorted(high, drawn, side="right").astype(np.int64)
    # Below every edge from `index` on; the largest word may lie below an edge at 2^64.
    sure = drawn < np.append(low, _TOP)[index]
    for place in np.flatnonzero(~sure).tolist():
        index[place] = weighted_index(_Continued(source, int(drawn[place])), weights)
    return index


def noisy_argmax(
    size: int,
    gaps: Array,
    noise: Callable[[Array], Array],
    exact: Callable[[list[LazyUniform]], int],
    source: RandomSource,
) -> Indices:
    """Return `size` draws, shape (size,), of the argmax of −gap + Z, Z = noise(1 − U) i.i.d.

    Args:
        size: ≥ 1.
        gaps: ≥ 0, in units of the noise, each within 1e-10 of itself; shape (m,).
        noise: float64 noise ≥ 0 by its survival T in (0, 1): at T (1 ± 2^-40) it is within
            1e-10 (1 + Z) of the truth.
        exact: decides one draw, given its m uniform numbers.
        source: random bits.
    """
    outcomes = len(gaps)
    # Farther behind than any noise of 64 bits reaches.
    behind = np.minimum(gaps, _FARTHEST)
    result = np.empty(size, dtype=np.int64)
    step = max(1, _BLOCK // outcomes)
    for start in range(0, size, step):
        rows = min(step, size - start)
        drawn = random_words(source, rows * outcomes).reshape(rows, outcomes)
        # T = 1 − U lies in [~w, ~w + 1]/2^64.
        left = np.uint64(_TOP) - drawn
        z = noise((left.astype(np.float64) + 0.5) * 2.0**-_WORD)
        margin = _MARGIN * (1 + z + behind)
        value = z - behind
        best = (value - margin).argmax(axis=1)[:, None]
        floor = np.take_along_axis(value - margin, best, axis=1)
        rivals = value + margin
        np.put_along_axis(rivals, best, -np.inf, axis=1)
        sure = (rivals < floor).all(axis=1) & (left >= _RESOLVED).all(axis=1)
        result[start : start + rows] = best[:, 0]
        for row in np.flatnonzero(~sure).tolist():
            uniforms: list[LazyUniform] = [_Continued(source, w) for w in drawn[row].tolist()]
            result[start + row] = exact(uniforms)
    return result


def _integer(value: arb, otherwise: int) -> int:
    known = value.unique_fmpz()
    return otherwise if known is None else min(max(int(known), 0), _TOP)
