"""A table of probabilities that are integers over 2^60, checked exactly before use [MATH §8].

A solver meets its constraints to about 1e-9, which is no guarantee. What it returns, at slightly
smaller ratios and with a little of the uniform row in every row, is rounded to integers; then rows
and means are made right, and every condition is decided in integers.
"""

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from geoveil.gp.errors import UnsupportedError

Array = NDArray[np.float64]

BITS = 60
"""Probabilities are multiples of 2^-60."""
TOTAL = 1 << BITS


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of integers that add up to 2^60, private by the ratios between neighbours.

    Args:
        outputs: increasing integers k, which stand for k·step.
        rows: counts > 0; rows[j][i]/2^60 is the probability of outputs[i] in row j.
        ratios: exact; neighbouring rows differ at most by these factors, in every column.

    Raises:
        UnsupportedError: if a row does not add up, a count is not positive, or a ratio is exceeded.

    Example:
        >>> half = TOTAL // 2
        >>> Table((0, 1), ((half, half), (half // 2, TOTAL - half // 2)), (Fraction(2),)).rows[1][0]
        288230376151711744
        >>> Table((0, 1), ((half, half), (half // 2 - 1, TOTAL - half // 2 + 1)), (Fraction(2),))
        Traceback (most recent call last):
        ...
        geoveil.gp.errors.UnsupportedError: rows 0 and 1 of the table differ by more than a factor 2
    """

    outputs: tuple[int, ...]
    rows: tuple[tuple[int, ...], ...]
    ratios: tuple[Fraction, ...]

    def __post_init__(self) -> None:
        rows, outputs = self.rows, self.outputs
        if any(a >= b for a, b in pairwise(outputs)):
            raise UnsupportedError("the outputs of the table are not increasing")
        if len(self.ratios) != len(rows) - 1:
            raise UnsupportedError("the table needs one ratio between two rows")
        for j, row in enumerate(rows):
            if len(row) != len(outputs) or min(row) <= 0 or sum(row) != TOTAL:
                raise UnsupportedError(
                    f"row {j} of the table is not {len(outputs)} counts > 0 that add up to 2^{BITS}"
                )
        for j, ratio in enumerate(self.ratios):
            up, down = ratio.numerator, ratio.denominator
            for a, b in zip(rows[j], rows[j + 1], strict=True):
                if a * down > b * up or b * down > a * up:
                    raise UnsupportedError(
                        f"rows {j} and {j + 1} of the table differ by more than a factor"
                        f" {float(ratio):g}"
                    )

    @property
    def means(self) -> tuple[Fraction, ...]:
        """Mean of k in each row, exactly."""
        return tuple(
            Fraction(sum(k * n for k, n in zip(self.outputs, row, strict=True)), TOTAL)
            for row in self.rows
        )

    @property
    def probabilities(self) -> Array:
        """The table in float64, (M, m), each entry correctly rounded."""
        return np.array([[n / TOTAL for n in row] for row in self.rows])


def rounded(
    outputs: tuple[int, ...],
    table: Array,
    means: tuple[Fraction, ...],
    ratios: tuple[Fraction, ...],
) -> Table:
    """Return the table nearest to a float one, with rows and means right.

    The mean of a row is then `means[j]`, but for a count, 2^-60, times the distance of two outputs.

    Args:
        outputs: increasing integers k, at least two.
        table: probabilities > 0, (M, m).
        means: what the rows are to have for the mean of k.
        ratios: see `Table`.

    Raises:
        UnsupportedError: if the result is not private by these ratios.
    """
    rows = tuple(
        _corrected(outputs, [int(p) for p in np.ldexp(row, BITS)], mean)
        for row, mean in zip(table, means, strict=True)
    )
    return Table(outputs, rows, ratios)


def _corrected(outputs: tuple[int, ...], row: list[int], mean: Fraction) -> tuple[int, ...]:
    """Return the counts with their sum and mean put right, at the two largest of them."""
    a, b = sorted(sorted(range(len(row)), key=row.__getitem__)[-2:])
    row[a] += TOTAL - sum(row)
    short = mean * TOTAL - sum(k * n for k, n in zip(outputs, row, strict=True))
    moved = round(short / (outputs[b] - outputs[a]))
    row[a] -= moved
    row[b] += moved
    return tuple(row)
