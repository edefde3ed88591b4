"""Rows of experiments, one for each setting, number of people and mechanism."""

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter

from geoveil.gp import ParameterError, validation

SEED, OURS = "seed paper", "geoveil"
SEED_PRIOR, PRIOR = "seed paper, with a prior", "geoveil, with a prior"
BASELINE = "local privacy"
OWN = "yours"
ORIGINS = (SEED, OURS, SEED_PRIOR, PRIOR, BASELINE, OWN)
"""Origins of mechanisms."""
MODES = ("exact", "monte-carlo")
LOCAL = "ε-LDP"
"""Shown for reference and left out of ratios: its guarantee matches the others' at one distance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorRow:
    """The error of one mechanism in one setting.

    It is the mean square error against the repetition's sample, summed over a grid's queries.
    """

    experiment: str
    """"oneway", "twoway", "kde" or "distribution"."""
    panel: str
    """The setting without n, for example "T=100000, 1/ε=8000"."""
    n: int
    per: float
    """1/ε, in the unit of the values."""
    mechanism: str
    origin: str
    """One of `ORIGINS`."""
    measure: str
    """"MSE" for one query, "ASE" for a grid, or the measure of a distribution."""
    error: float
    """≥ 0; infinite if a variance is infinite."""
    standard_error: float = 0.0
    """The standard error of `error`; 0 if nothing was drawn."""
    squared_bias: float | None = None
    """The part of `error` that does not shrink with n; None if it was not computed."""
    noise: float | None = None
    """The part of `error` that is noise, the cost of privacy; None if it was not computed."""
    mode: str = "exact"
    """One of `MODES`."""
    seed: int = 0
    repetitions: int = 0
    """0 in exact mode, which averages over all samples and all noise."""
    footing: float | None = None
    """Distance in the values' unit at which ε-LDP promises as much, if the row has one."""

    def __post_init__(self) -> None:
        validation.choice("origin", self.origin, ORIGINS)
        validation.choice("mode", self.mode, MODES)
        if not self.error >= 0:
            raise ParameterError("error", self.error, "a number >= 0")


@dataclass(frozen=True, slots=True)
class ErrorComparison:
    """The best of the seed paper's mechanisms and the best of geoveil's in one setting."""

    panel: str
    n: int
    seed: ErrorRow
    ours: ErrorRow
    aided: tuple[ErrorRow, ErrorRow] | None
    """The best of both with a public prior; None if geoveil has none."""
    own: ErrorRow | None = None
    """The best of the user's mechanisms, if any."""

    @property
    def ratio(self) -> float:
        """The seed paper's error over geoveil's; above 1, geoveil is more accurate."""
        return over(self.seed, self.ours)

    @property
    def ratio_with_prior(self) -> float:
        """The ratio with a public prior for both; NaN without one."""
        return math.nan if self.aided is None else over(*self.aided)


def compare(rows: Iterable[ErrorRow]) -> list[ErrorComparison]:
    """Return each side's best mechanism, for each panel and n with both sides; without ε-LDP."""
    settings: dict[tuple[str, int], dict[str, ErrorRow]] = defaultdict(dict)
    for row in rows:
        best = settings[row.panel, row.n]
        if row.mechanism != LOCAL and row.error < math.inf:
            best[row.origin] = min(best.get(row.origin, row), row, key=_error)
    comparisons = []
    for (panel, n), best in settings.items():
        if SEED in best and OURS in best:
            seed = min(best[SEED], best.get(SEED_PRIOR, best[SEED]), key=_error)
            aided = (seed, best[PRIOR]) if PRIOR in best else None
            comparisons.append(
                ErrorComparison(panel, n, best[SEED], best[OURS], aided, best.get(OWN))
            )
    return comparisons


def over(seed: ErrorRow, ours: ErrorRow) -> float:
    """Return the ratio of two errors; infinite if the second is 0."""
    return seed.error / ours.error if ours.error > 0 else math.inf


_error = attrgetter("error")
