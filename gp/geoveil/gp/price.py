"""The part of the variance of answers that is noise: the price of privacy [MATH §8].

Var(y) = Var f(X) + E Var(y | X): the noise variance is the last, the price Var(y)/Var f(X).
Perturbed points estimate it without bias.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from geoveil.gp.errors import ParameterError
from geoveil.gp.intervals import interval_of_mean
from geoveil.gp.limits import Limits
from geoveil.gp.reprs import enum_repr


class Basis(StrEnum):
    """The basis of a noise variance."""

    __repr__ = enum_repr

    EXACT = "exact"
    """The noise has the same variance whatever the value."""
    ESTIMATED = "estimated"
    """From the perturbed points, without bias; the ends are those of a confidence interval."""
    BOUNDED = "bounded"
    """Between two ends that are valid for all people."""
    LOOSE = "loose"
    """Between such ends, but the search for closer ones ended early, perhaps over 5 % off."""
    CONTRADICTED = "contradicted"
    """A contradiction: no people give such answers, except by chance or by forging."""

    @property
    def words(self) -> str:
        """Its name, as a part of a sentence."""
        return _WORDS[self]


_WORDS = {
    Basis.EXACT: "exact, as the noise is the same for all values",
    Basis.ESTIMATED: "estimated without bias from the perturbed points",
    Basis.BOUNDED: "bounded by what the mechanism's noise can be for people with such answers",
    Basis.LOOSE: "bounded by what the mechanism's noise can be, in a search that ended early",
    Basis.CONTRADICTED: "bounded by how answers vary alone, as no people give such ones",
}


@dataclass(frozen=True, slots=True)
class NoiseVariance:
    """The mean of Var(y | x) over those who answered, in the unit of the query squared."""

    value: float | None
    """None if there are only bounds."""
    low: float
    """≥ 0."""
    high: float
    """≥ `low`; may be infinite."""
    basis: Basis

    def __post_init__(self) -> None:
        if not 0 <= self.low <= self.high:
            raise ParameterError("noise variance", (self.low, self.high), "0 <= low <= high")

    def within(self, low: float, high: float) -> NoiseVariance:
        """Return the intersection of two bounds; an estimate stays as it is."""
        if self.value is not None:
            return self
        low = max(self.low, low)
        return NoiseVariance(self.value, low, max(low, min(self.high, high)), self.basis)


def estimated_noise_variance(
    n: int, total: float, limits: tuple[float, float], confidence: float
) -> NoiseVariance | None:
    """Return the noise variance from the estimated variances of points; None for fewer than two.

    `total` is their sum and `limits` their ends. The interval is a little wide: it rests on the
    bound (b − m)(m − a) of the variance of numbers in [a, b] with the mean m.

    Example:
        >>> found = estimated_noise_variance(10_000, 500.0, (0.0, 0.5), 0.95)
        >>> found.value, round(found.low, 4), round(found.high, 4)
        (0.05, 0.0471, 0.0529)
    """
    low, high = limits
    if n < 2 or not low < high:
        return None
    mean = min(max(total / n, low), high)
    most = (high - mean) * (mean - low)
    ends = Limits(limits, (0.0, high))
    interval = interval_of_mean(n, mean, most, confidence, ends)
    value = max(mean, 0.0)
    return NoiseVariance(
        value, min(max(interval.low, 0.0), value), max(interval.high, value), Basis.ESTIMATED
    )
