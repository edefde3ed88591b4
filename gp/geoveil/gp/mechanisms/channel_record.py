"""A channel as data: what a campaign carries, so that no device has to solve anything [MATH §8]."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from geoveil.gp.errors import ParameterError
from geoveil.gp.mechanisms.channel_grid import Grid
from geoveil.gp.mechanisms.channel_table import Table

Array = NDArray[np.float64]

_EXPONENTS = range(-200, 1)
_INT64 = range(-(2**63), 2**63)


@dataclass(frozen=True, slots=True)
class Channel:
    """A report on the distance s as data: rows of probabilities, joined by quadratic splines.

    By itself it promises nothing. `ChannelMechanism` checks it against a privacy, exactly.

    Args:
        grid: at which s the rows stand; beyond its ends s counts as the end.
        table: one row per row of the grid.
        step_exponent: an output k stands for k·2^step_exponent; at most 0.
        even: whether it is a channel on |s|; then the grid begins at 0.

    Raises:
        ParameterError: if the parts do not fit together, or a cell is too narrow for doubles.

    Example:
        >>> half = 1 << 59
        >>> Channel(Grid((0.0, 1.0), (1,)), Table((0, 1), ((half, half),) * 3), 0)
        Channel(3 rows over 2 outputs, s in [0, 1], step=2**0)
    """

    grid: Grid
    table: Table
    step_exponent: int
    even: bool = False

    def __post_init__(self) -> None:
        grid, table = self.grid, self.table
        if not isinstance(grid, Grid) or not isinstance(table, Table):
            raise ParameterError("channel", type(grid).__name__, "made of a Grid and a Table")
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
        """What can be reported, exactly."""
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
