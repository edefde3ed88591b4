"""Private selection using smooth sensitivity [SNM]: percentiles, trees and forests.

A percentile's figure depends on few numbers of a dataset: how many entries it has and their sum,
the percentile, how often it occurs, and j. So it is computed without the data.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from geoveil.selection import SmoothUtilities
from geoveil.simulation.ledger.reproduction import Key, Numbers, Own
from geoveil.simulation.selection import forest, tree
from geoveil.simulation.selection.experiment import OPEN, Options, SelectionRow
from geoveil.simulation.selection.published import (
    PUBLISHED_NOISE,
    published_dampening,
    published_mechanism,
)
from geoveil.simulation.selection.tables import ADULT_EDGES, Dataset, given_tables, table

_ENTRIES = 4_096
_FLOOR = 0.01
"""S is at least this in the authors' code."""
_NEAR = 5.0
"""Absolute expected errors that far apart are alike, as the paper puts it."""
_STORED = (
    0.1, 0.1269, 0.1610, 0.2043, 0.2593, 0.3290, 0.4175, 0.5298, 0.6723, 0.8532, 1.0826, 1.3738,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Percentile:
    """What the error depends on: the sum of the entries, the value, how often it occurs, and j."""

    total: int
    value: int
    repeats: int
    j: int

    def indicator(self) -> NDArray[np.float64]:
        return (np.arange(_ENTRIES) < self.repeats).astype(np.float64)

    def error(self, probabilities: NDArray[np.float64]) -> float:
        """Return |x_k − E[A]|."""
        hit = float(probabilities[: self.repeats].sum())
        rest = (self.total - self.repeats * self.value) / (_ENTRIES - self.repeats)
        return (1 - hit) * abs(rest - self.value)


_PERCENTILES: Mapping[tuple[str, int], _Percentile] = {
    ("HEPTH", 50): _Percentile(347_414, 41, 12, 2),
    ("HEPTH", 90): _Percentile(347_414, 236, 7, 0),
    ("HEPTH", 99): _Percentile(347_414, 409, 2, 0),
    ("PATENT", 50): _Percentile(27_948_226, 7_761, 2, 0),
    ("PATENT", 90): _Percentile(27_948_226, 10_776, 2, 0),
    ("PATENT", 99): _Percentile(27_948_226, 13_835, 2, 0),
}


def _as_coded(known: _Percentile, epsilon: float) -> float:
    """Return the error of SNM-T as the authors' code has it: S = max(e^{−(2j+1)ε}, 0.01)."""
    mechanism = published_mechanism(epsilon, _ENTRIES, PUBLISHED_NOISE["SNM-T"])
    bound = max(math.exp(-(2 * known.j + 1) * epsilon), _FLOOR)
    scores = SmoothUtilities(known.indicator(), bound, beta=mechanism.beta)
    return known.error(mechanism.probabilities(scores))


def _dampened(known: _Percentile, epsilon: float) -> float:
    return known.error(published_dampening(epsilon, known.indicator(), known.j)[0])


def _least(error: Callable[[float], float]) -> float:
    """Return the ε at which the error comes down to `_NEAR`, by bisection of its logarithm."""
    low, high = math.log(0.01), math.log(200.0)
    for _ in range(30):
        middle = (low + high) / 2
        if error(math.exp(middle)) > _NEAR:
            low = middle
        else:
            high = middle
    return math.exp(high)


def _percentiles(options: Options) -> Mapping[Key, Own]:
    found: dict[Key, Own] = {}
    stored = _STORED[::4] if options.quick else _STORED
    known = _PERCENTILES["HEPTH", 50]
    for epsilon in stored:
        quantity = f"SNM-T as in the authors' code, ε = {epsilon:.4f}"
        found["HEPTH, p = 50", quantity] = (_as_coded(known, epsilon), 0.0)
    for (name, p), known in list(_PERCENTILES.items())[: 1 if options.quick else None]:
        smooth, local = (
            _least(lambda e, k=known, of=of: of(k, e))  # type: ignore[misc]  # bound here
            for of in (_as_coded, _dampened)
        )
        quantity = "budget that SNM-T saves against LD"
        found[f"{name}, p = {p}", quantity] = (1 - smooth / local, 0.0)
    return found


def _accuracies(rows: Sequence[SelectionRow], place: str) -> dict[Key, Own]:
    return {
        (place, f"{row.mechanism}, ε = {row.epsilon:g}"): (row.value, row.standard_error)
        for row in rows
        if row.mechanism in PUBLISHED_NOISE
    }


_ROWS_OF = {21_574: "NLTCS", 47_461: "ACS", 4_732: "Compas"}


def named(data: Dataset) -> str:
    """Return the name that the papers give to a table of so many rows, or its own."""
    return _ROWS_OF.get(len(data), data.name)


def _trees(options: Options) -> Mapping[Key, Own]:
    setting = (
        tree.TreeSetting(depths=(2,), budgets=(0.1, 1.0), folds=2)
        if options.quick
        else replace(tree.TreeSetting(), most_draws=4)
    )
    chosen = tuple(c for c in tree.CONTESTANTS if c.name in PUBLISHED_NOISE)
    found: dict[Key, Own] = {}
    for data in (table("adult").discretised(ADULT_EDGES), *given_tables(options.data)):
        name = named(data)
        if name not in ("Adult", "NLTCS", "ACS"):
            continue
        coded = data if name == "Adult" else data.coded()
        rows = list(tree.rows_of(coded, setting, options.seed, chosen))
        for depth in setting.depths:
            found |= _accuracies(
                [row for row in rows if row.setting == f"depth {depth}"], f"{name}, depth {depth}"
            )
    return found


def _forests(options: Options) -> Mapping[Key, Own]:
    setting = forest.QUICK if options.quick else forest.ForestSetting(executions=5, draws=4)
    setting = replace(setting, budgets=(0.1, 1.0)) if options.quick else setting
    found: dict[Key, Own] = {}
    asked = [(table(name), depth) for name, depth in setting.tables]
    asked += [(data, 5) for data in given_tables(options.data) if named(data) == "Compas"]
    for data, depth in asked:
        contestants = forest.one_margin(data)
        rows = list(forest.rows_of(data, depth, setting, options.seed, contestants))
        found |= _accuracies(rows, named(data))
        level = next(row for row in rows if row.standing == OPEN)
        found[named(data), "WDP"] = (level.value, level.standard_error)
    return found


NUMBERS: Mapping[str, Numbers] = {
    "snm-figure-2": _percentiles,
    "snm-figure-4": _trees,
    "snm-figure-5": _forests,
}
"""Row of the ledger → what computes its numbers."""
