"""Smooth noisy max [SNM]: percentiles (from summary numbers, without data), trees and forests."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np

from geoveil.selection import ExponentialMechanism, PermuteAndFlip, SmoothUtilities, Utilities
from geoveil.simulation.experiment import grouped
from geoveil.simulation.ledger.given import SHIFTED, bisected, grown, tabled, tables
from geoveil.simulation.ledger.reproduction import Numbers, Told
from geoveil.simulation.selection import forest
from geoveil.simulation.selection.experiment import (
    OPEN,
    PUBLISHED_NOISE,
    Options,
    SelectionRow,
    published_mechanism,
)
from geoveil.simulation.selection.percentile import published_dampening

_ENTRIES = 4_096
_FLOOR = 0.01
"""The authors' code takes S as the greater of e^{−(2j+1)ε} and this."""
_NEAR = 5.0
"""The difference up to which the paper calls expected absolute errors alike."""
_STORED = (
    0.1, 0.1269, 0.1610, 0.2043, 0.2593, 0.3290, 0.4175, 0.5298, 0.6723, 0.8532, 1.0826, 1.3738,
)  # fmt: skip
_SPREAD = tuple((10.0 ** np.linspace(-1, 2, 7)).tolist())
"""Budgets for comparing mechanisms."""
_GLOBAL = {"EM": ExponentialMechanism, "PF": PermuteAndFlip}


class _Percentile(NamedTuple):
    """The quantities behind the error: the entries' sum, the percentile, its frequency, and j."""

    total: int
    value: int
    repeats: int
    j: int

    def error(self, mechanism: str, epsilon: float) -> float:
        """Return |x_k − E[A]| for EM, PF, LD as printed, or SNM as in the authors' code."""
        rest = (self.total - self.repeats * self.value) / (_ENTRIES - self.repeats)
        hit = _hit(mechanism, epsilon, self.repeats, self.j)
        return (1 - hit) * abs(rest - self.value)

    def budget(self, mechanism: str) -> float:
        """Return the least ε with a small error."""
        return bisected(lambda epsilon: self.error(mechanism, epsilon) <= _NEAR, 0.01, 200.0, 30)


@cache
def _hit(mechanism: str, epsilon: float, repeats: int, j: int) -> float:
    """Return the probability of choosing an entry that equals the percentile."""
    indicator = (np.arange(_ENTRIES) < repeats).astype(np.float64)
    if mechanism in _GLOBAL:
        law = _GLOBAL[mechanism](epsilon, 1.0).probabilities(Utilities(indicator))
    elif mechanism == "LD":
        law = published_dampening(epsilon, indicator, j)
    else:
        mechanism_published = published_mechanism(epsilon, _ENTRIES, PUBLISHED_NOISE[mechanism])
        bound = max(math.exp(-(2 * j + 1) * epsilon), _FLOOR)
        law = mechanism_published.probabilities(
            SmoothUtilities(indicator, bound, beta=mechanism_published.beta)
        )
    return float(law[:repeats].sum())


_PERCENTILES: Mapping[tuple[str, int], _Percentile] = {
    ("HEPTH", 50): _Percentile(347_414, 41, 12, 2),
    ("HEPTH", 90): _Percentile(347_414, 236, 7, 0),
    ("HEPTH", 99): _Percentile(347_414, 409, 2, 0),
    ("PATENT", 50): _Percentile(27_948_226, 7_761, 2, 0),
    ("PATENT", 90): _Percentile(27_948_226, 10_776, 2, 0),
    ("PATENT", 99): _Percentile(27_948_226, 13_835, 2, 0),
    ("INCOME", 50): _Percentile(20_787_122, 1, 217, 10),
    ("INCOME", 90): _Percentile(20_787_122, 1_299, 1, 0),
    ("INCOME", 99): _Percentile(20_787_122, 140_799, 1, 0),
}
_ZEROS = {"HEPTH": 867, "PATENT": 254, "INCOME": 1_842}
"""Dataset → its number of zeros."""


def _percentiles(options: Options) -> Iterator[Told]:
    for epsilon in _STORED[::4] if options.quick else _STORED:
        quantity = f"SNM-T as in the authors' code, ε = {epsilon:.4f}"
        yield "HEPTH, p = 50", quantity, _PERCENTILES["HEPTH", 50].error("SNM-T", epsilon)
    for name, zeros in _ZEROS.items():
        median = _PERCENTILES[name, 50]
        yield name, "sum of the entries", float(median.total)
        yield name, "share of zeros", zeros / _ENTRIES
        yield name, "j at p = 50", float(median.j)
    saved = {}
    for (name, p), percentile in list(_PERCENTILES.items())[: 1 if options.quick else None]:
        saved[name, p] = 1 - percentile.budget("SNM-T") / percentile.budget("LD")
        yield f"{name}, p = {p}", "budget that SNM-T saves against LD", saved[name, p]
        apart = max(
            abs(percentile.error("EM", epsilon) - percentile.error("PF", epsilon))
            for epsilon in _SPREAD
        )
        yield (
            f"{name}, p = {p}",
            "EM and PF apart, over the error at ε = 0.1",
            apart / percentile.error("EM", _SPREAD[0]),
        )
        for noise in ("SNM-T", "SNM-LAP"):
            behind = [
                percentile.error(noise, epsilon)
                - min(percentile.error(key, epsilon) for key in (*_GLOBAL, "LD"))
                for epsilon in _SPREAD
            ]
            quantity = f"error of {noise} less the least of EM, PF and LD, most of all ε"
            yield f"{name}, p = {p}", quantity, max(behind)
    if not options.quick:
        first = saved.pop(("INCOME", 50))
        quantity = "budget saved, less the most saved elsewhere"
        yield "INCOME, p = 50", quantity, first - max(saved.values())


_COMPETITORS = (
    "exponential, information gain", "permute-and-flip, information gain", SHIFTED,
)  # fmt: skip
"""The mechanisms EM, PF and SLD."""


def _published_trees(options: Options) -> Iterator[Told]:
    for name, data in tabled(options):
        rows = list(grown(options, data, (*PUBLISHED_NOISE, *_COMPETITORS)))
        for row in rows:
            if row.mechanism in PUBLISHED_NOISE:
                logs = ("", ", the other log") if row.mechanism == "SNM-LLN" else ("",)
                for log in logs:
                    quantity = f"{row.mechanism}, ε = {row.epsilon:g}{log}"
                    yield f"{name}, {row.setting}", quantity, row.value, row.standard_error
        every: list[tuple[float, float]] = []
        for setting, of_setting in grouped(rows, "setting").items():
            gains = _ahead(of_setting)
            every += gains.values()
            place = f"{name}, {setting}"
            yield (
                place,
                "SNM-T less the best of EM, PF and SLD, least of all ε",
                *min(gains.values()),
            )
            if name == "Adult" and setting == "depth 2":
                for epsilon in (gains.keys() & {0.01, 2.0}) - {2.0 if options.quick else None}:
                    quantity = f"SNM-T less the best of EM, PF and SLD, ε = {epsilon:g}"
                    yield place, quantity, *gains[epsilon]
        if not options.quick:
            yield name, "SNM-T less the best of EM, PF and SLD, most", *max(every)


def _ahead(rows: Sequence[SelectionRow]) -> dict[float, tuple[float, float]]:
    """Return SNM-T's lead over its best competitor, with a standard error, by ε."""
    gains = {}
    for epsilon, at in grouped(rows, "epsilon").items():
        ours = next(row for row in at if row.mechanism == "SNM-T")
        best = max((r for r in at if r.mechanism in _COMPETITORS), key=lambda row: row.value)
        spread = math.hypot(ours.standard_error, best.standard_error)
        gains[epsilon] = ours.value - best.value, spread
    return gains


def _forests(options: Options) -> Iterator[Told]:
    setting = forest.QUICK if options.quick else {"executions": 5, "draws": 4}
    given = [(replace(data, name=name), forest.DEPTH) for name, data in tables(options, "Compas")]
    for data, depth in [*forest.shipped(options.quick), *given]:
        margin = forest.one_margin(data)
        rows = list(forest.rows_of(data, depth, options.seed, margin, **setting))
        open_ = next(row for row in rows if row.standing == OPEN)
        yield data.name, "WDP", open_.value, open_.standard_error
        for row in rows:
            if row.standing != OPEN:
                quantity = f"{row.mechanism}, ε = {row.epsilon:g}"
                yield data.name, quantity, row.value, row.standard_error
                if (row.mechanism, row.epsilon) in _BESIDE_OPEN.get(data.name, ()):
                    spread = math.hypot(row.standard_error, open_.standard_error)
                    yield data.name, f"{quantity}, less WDP", row.value - open_.value, spread


_BESIDE_OPEN: Mapping[str, Sequence[tuple[str, float]]] = {
    "Adult": [("SNM-T", 0.01)],
    "Mushroom": [(name, 0.1) for name in PUBLISHED_NOISE],
    "Wine": [("SNM-T", 0.01)],
    "Pen-digits": [("SNM-T", 2.0)],
    "Wall-sensor": [("SNM-T", 0.01)],
    "Compas": [("SNM-T", 0.01)],
}
"""Dataset → mechanisms and ε for which the paper says whether they reach the open forest."""


NUMBERS: Mapping[str, Numbers] = {
    "snm-figure-2": _percentiles,
    "snm-figure-4": _published_trees,
    "snm-figure-5": _forests,
}
"""Row of the ledger → the function that computes its numbers."""
