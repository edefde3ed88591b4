"""Numbers whose distribution is estimated: incomes, collisions' northings, a table's column."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from geoveil.analyst import inverse
from geoveil.gp import ParameterError
from geoveil.simulation.demo import CITY
from geoveil.simulation.distribution.cells import Cells
from geoveil.simulation.experiments.own import OwnInput
from geoveil.simulation.populations import Array, Population, collisions, household_incomes

CELLS = 1024
"""The number of cells of an estimated distribution: 4⁵, as the tree requires."""
BARS = 32


class Distribution(NamedTuple):
    """A distribution, either estimated by a protocol or true."""

    mean: float
    """The mean of the numbers, clamped to the range."""
    below: Array | None = None
    """The share below each edge of the cells, (CELLS + 1,); None if only the mean is estimated."""


def proper(below: Array) -> Array:
    """Return shares sorted and clamped to [0, 1], which never increases their error."""
    return np.concatenate([[0.0], np.sort(np.clip(below[1:-1], 0.0, 1.0)), [1.0]])


@dataclass(frozen=True)
class NumericAttribute:
    """A number that people hold."""

    name: str
    people: Population
    cells: Cells
    """The public range of interest in the numbers' unit, which ε-LDP requires."""
    per: float
    """The distance over which ε is stated."""

    @property
    def diameter(self) -> float:
        """The width of the range."""
        return self.cells.high - self.cells.low

    @property
    def footings(self) -> tuple[float, ...]:
        """Distances at which ε-LDP promises as much: `per`, five times `per`, and the range."""
        return self.per, 5 * self.per, self.diameter

    @cached_property
    def truth(self) -> Distribution:
        """The distribution of the whole population."""
        return self.of(self.people.values, self.people.weights)

    def of(self, values: Array, weights: Array) -> Distribution:
        """Return the distribution of given numbers, without noise."""
        order = np.argsort(values)
        shares = np.append(0.0, np.cumsum(weights[order]))
        below = shares[np.searchsorted(values[order], self.cells.edges)] / shares[-1]
        capped = np.clip(values, self.cells.low, self.cells.high)
        return Distribution(float(np.average(capped, weights=weights)), proper(below))

    def errors(self, told: Distribution) -> dict[str, float]:
        """Return the error of each of `MEASURES`, ≥ 0, in their order."""
        mean = abs(told.mean - self.truth.mean)
        if told.below is None or self.truth.below is None:
            return {"mean": mean}
        both = np.stack([told.below, self.truth.below])
        levels = np.array([0.25, 0.5, 0.75])
        own, other = (inverse(self.cells.edges, below, levels) for below in both)
        wrong = np.abs(both[0] - both[1])
        bars = np.diff(both[:, :: CELLS // BARS])
        histogram = np.abs(bars[0] - bars[1]).sum() / 2
        of_measures = (
            mean,
            *abs(own - other),
            wrong.max(),
            wrong.mean() * self.diameter,
            histogram,
        )
        return dict(zip(MEASURES, map(float, of_measures), strict=True))


MEASURES: Mapping[str, str] = MappingProxyType(
    {
        "mean": "of the numbers, in their unit; those beyond an end count as that end",
        **dict.fromkeys(
            ("lower quartile", "median", "upper quartile"), "in the unit of the numbers"
        ),
        "largest": "the largest difference of the distribution functions",
        "area": "between the distribution functions, in the unit of the numbers",
        "histogram": f"what the shares of {BARS} bars differ by, added up and halved",
    }
)
"""Measure → the unit of its error."""


@lru_cache(maxsize=1)
def _incomes() -> NumericAttribute:
    return NumericAttribute("incomes", household_incomes(), Cells(0.0, 2.0**19, CELLS), 8_000.0)


@lru_cache(maxsize=1)
def _north() -> NumericAttribute:
    places = collisions().mapped(lambda degrees: CITY.project(degrees)[:, 1], "metre")
    return NumericAttribute("collisions", places, Cells(-24_576.0, 24_576.0, CELLS), 500.0)


ATTRIBUTES: Mapping[str, Callable[[], NumericAttribute]] = MappingProxyType(
    {"incomes": _incomes, "collisions": _north}
)
"""Name → attribute: Californian household incomes up to 2¹⁹ dollars, the range of [LWLSS20]; metres
of New York's collisions north of the centre."""


@lru_cache(maxsize=2)
def attribute_of(name: str, given: OwnInput) -> NumericAttribute:
    """Return one of `ATTRIBUTES`, or a table's column as an attribute with the column's name.

    Raises:
        ParameterError: if a table has no range, or no distance that ε is stated over.
    """
    people = given.people(1)
    if people is None:
        return ATTRIBUTES[name]()
    if given.ends is None or given.per is None:
        raise ParameterError("range", given.ends, "given together with a table, as is per")
    if len(np.unique(np.clip(people.values, *given.ends))) < 2:
        raise ParameterError("range", given.ends, "of two or more numbers that people hold")
    return NumericAttribute(name, people, Cells(*given.ends, CELLS), given.per)
