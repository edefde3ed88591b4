"""A channel as data: what a campaign carries, so that no device has to solve anything [MATH §8].

Its probabilities are integers over 2^60, checked exactly before use. A solver meets its constraints
to about 1e-9, which is no guarantee. What it returns, at slightly smaller ratios and with a little
of the uniform row in every row, is rounded to integers; then rows and means are made right, and
every condition is decided in integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from geoveil.gp.arrays import Array, np
from geoveil.gp.errors import ParameterError
from geoveil.gp.mechanisms.channel_spline import SplineGrid

BITS = 60
"""Probabilities are multiples of 2^-60."""
TOTAL = 1 << BITS


@dataclass(frozen=True, slots=True, repr=False)
class ProbabilityTable:
    """Rows of integers that add up to 2^60: distributions over the same outputs.

    Args:
        outputs: increasing integers k, which stand for k·step.
        rows: counts > 0; rows[j][i]/2^60 is the probability of outputs[i] in row j.

    Raises:
        ParameterError: if the outputs do not increase, a count is not positive, or a row does not
            add up.

    Example:
        >>> half = TOTAL // 2
        >>> table = ProbabilityTable((0, 1), ((half, half), (half // 2, TOTAL - half // 2)))
        >>> table.require_within((Fraction(2),))
        >>> table.require_within((Fraction(199, 100),))  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        geoveil.gp.errors.ParameterError: ratio of rows 0 and 1 must be at most 1.99, got ...
        >>> ProbabilityTable((0, 1), ((half, half + 1),))  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        geoveil.gp.errors.ParameterError: rows[0] must be 2 counts > 0 that add up to 2^60, got ...
    """

    outputs: tuple[int, ...]
    rows: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        outputs = self.outputs
        if not outputs or any(a >= b for a, b in pairwise(outputs)):
            raise ParameterError("outputs", f"{len(outputs)} integers", "increasing, at least one")
        for j, row in enumerate(self.rows):
            if len(row) != len(outputs) or min(row) <= 0 or sum(row) != TOTAL:
                raise ParameterError(
                    f"rows[{j}]",
                    f"{len(row)} counts that add up to 2^{BITS} + {sum(row) - TOTAL}",
                    f"{len(outputs)} counts > 0 that add up to 2^{BITS}",
                )

    def require_within(self, ratios: Sequence[Fraction]) -> None:
        """Refuse the table unless neighbouring rows differ at most by these factors, exactly.

        Args:
            ratios: one for every two neighbours, for all of their columns.

        Raises:
            ParameterError: naming the rows.
        """
        if len(ratios) != len(self.rows) - 1:
            raise ParameterError("rows", len(self.rows), f"{len(ratios) + 1}, as the grid has")
        for j, ratio in enumerate(ratios):
            up, down = ratio.numerator, ratio.denominator
            for a, b in zip(self.rows[j], self.rows[j + 1], strict=True):
                if a * down > b * up or b * down > a * up:
                    raise ParameterError(
                        f"ratio of rows {j} and {j + 1}", "more", f"at most {float(ratio):.9g}"
                    )

    def __repr__(self) -> str:
        return f"ProbabilityTable({len(self.rows)} rows over {len(self.outputs)} outputs)"

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
    ratios: Sequence[Fraction],
) -> ProbabilityTable:
    """Return the table nearest to a float one, with rows and means right.

    The mean of a row is then `means[j]`, but for a count, 2^-60, times the distance of two outputs.

    Args:
        outputs: increasing integers k, at least two.
        table: probabilities > 0, (M, m).
        means: what the rows are to have for the mean of k.
        ratios: the largest quotients of two rows, as `ProbabilityTable.require_within` takes them.

    Raises:
        ParameterError: if the result is not private by these ratios.
    """
    rows = tuple(
        _corrected(outputs, [int(p) for p in np.ldexp(row, BITS)], mean)
        for row, mean in zip(table, means, strict=True)
    )
    made = ProbabilityTable(outputs, rows)
    made.require_within(ratios)
    return made


def _corrected(outputs: tuple[int, ...], row: list[int], mean: Fraction) -> tuple[int, ...]:
    """Return the counts with their sum and mean put right, at the two largest of them."""
    a, b = sorted(sorted(range(len(row)), key=row.__getitem__)[-2:])
    row[a] += TOTAL - sum(row)
    short = mean * TOTAL - sum(k * n for k, n in zip(outputs, row, strict=True))
    moved = round(short / (outputs[b] - outputs[a]))
    row[a] -= moved
    row[b] += moved
    return tuple(row)


_EXPONENTS = range(-200, 1)
_INT64 = range(-(2**63), 2**63)


@dataclass(frozen=True, slots=True)
class Channel:
    """A report on the distance s as data: rows of probabilities, joined by quadratic splines.

    By itself it promises nothing. `ChannelMechanism` checks it against a privacy, exactly.

    Args:
        grid: distances s at which the rows stand; beyond its ends s counts as the end.
        table: one row per row of the grid.
        step_exponent: an output k stands for k·2^step_exponent; at most 0.
        even: whether it is a channel on |s|; then the grid begins at 0.

    Raises:
        ParameterError: if the parts do not fit together, or a cell is too narrow for doubles.

    Example:
        >>> half = 1 << 59
        >>> Channel(SplineGrid((0.0, 1.0), (1,)), ProbabilityTable((0, 1), ((half, half),) * 3), 0)
        Channel(3 rows over 2 outputs, s in [0, 1], step=2**0)
    """

    grid: SplineGrid
    table: ProbabilityTable
    step_exponent: int
    even: bool = False

    def __post_init__(self) -> None:
        grid, table = self.grid, self.table
        if not isinstance(grid, SplineGrid) or not isinstance(table, ProbabilityTable):
            raise ParameterError(
                "channel", type(grid).__name__, "made of a SplineGrid and a ProbabilityTable"
            )
        if len(table.rows) != grid.rows:
            raise ParameterError("number of rows", len(table.rows), f"{grid.rows}, as the grid has")
        if self.step_exponent not in _EXPONENTS:
            raise ParameterError("step_exponent", self.step_exponent, "an integer in [-200, 0]")
        if table.outputs[0] not in _INT64 or table.outputs[-1] not in _INT64:
            raise ParameterError("outputs", "more than 64 bits", "64-bit integers")
        if not isinstance(self.even, bool) or (self.even and grid.edges[0] != 0):
            raise ParameterError("edges[0]", grid.edges[0], "0 for a channel on |s|")
        if not (np.diff(grid.knots) > 0).all():
            raise ParameterError("counts", grid.counts, "so few that doubles tell the cells apart")

    @property
    def outputs(self) -> tuple[Fraction, ...]:
        """All numbers that can be reported, exactly."""
        step = Fraction(2) ** self.step_exponent
        return tuple(k * step for k in self.table.outputs)

    @property
    def means(self) -> Array:
        """Mean of each row, (M,), correctly rounded from exact sums."""
        step = Fraction(2) ** self.step_exponent
        return np.array([float(mean * step) for mean in self.table.means])

    def __repr__(self) -> str:
        low, high = self.grid.edges[0], self.grid.edges[-1]
        size = f"{len(self.table.rows)} rows over {len(self.table.outputs)} outputs"
        return f"Channel({size}, s in [{low:g}, {high:g}], step=2**{self.step_exponent})"
