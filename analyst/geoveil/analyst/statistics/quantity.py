"""One number with its interval, and the ratio of two."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from geoveil.analyst.results import Answer, Estimates, amount_answer, possible
from geoveil.analyst.simultaneous import critical_value_of_one
from geoveil.gp import Array, LogScale, validation

_MOST_DOUBLED = 60


@dataclass(frozen=True, kw_only=True, eq=False)
class Quantity(Estimates):
    """One number with its error and interval."""

    coverage = "The interval covers at {of.percent}{of.assumed}."
    label: str
    value: float
    """The estimate, unbiased for a mean; rows clamp it to the interval."""
    standard_error: float
    """Noise and sampling together; NaN if the interval needs none."""
    ci_low: float
    """Infinite if the reports do not bound the quantity on this side."""
    ci_high: float
    assumed: str = ""
    """The condition under which the interval covers, as the end of a sentence."""

    @property
    def title(self) -> str:
        return self.label

    @property
    def sentences(self) -> Sequence[Answer]:
        if not math.isfinite(self.value):
            return ()
        ends = self.ci_low, self.ci_high
        value = float(possible(self.value, *ends)["estimate"])
        return (amount_answer(value, *ends, "", f"is the {self.label}"),)

    def rows(self) -> list[dict[str, Any]]:
        return [
            {
                "name": self.label,
                **possible(self.value, self.ci_low, self.ci_high),
                "standard_error": self.standard_error,
                "ci_low": self.ci_low,
                "ci_high": self.ci_high,
                "n": self.n,
            }
        ]

    def held(self, scale: LogScale) -> Self:
        value, low, high = (
            float(scale.from_log(x)) for x in (self.value, self.ci_low, self.ci_high)
        )
        return replace(
            self,
            label=f"geometric {self.label}",
            value=value,
            standard_error=self.standard_error * value,  # to first order
            ci_low=low,
            ci_high=high,
        )

    def scaled(self, factor: float, label: str) -> "Quantity":
        """Return a multiple, for example a total from a share.

        Args:
            factor: > 0.
            label: of the multiple.
        """
        factor = validation.positive("factor", factor)
        return replace(
            self,
            label=label,
            value=self.value * factor,
            standard_error=self.standard_error * factor,
            ci_low=self.ci_low * factor,
            ci_high=self.ci_high * factor,
        )


def ratio_of(
    a: float,
    b: float,
    covariance: Array,
    like: Quantity,
) -> Quantity:
    """Return the ratio of two estimates with Fieller's interval.

    Args:
        a: the numerator.
        b: the denominator.
        covariance: of both, (2, 2).
        like: the quantity whose label, confidence, n and privacy are copied.
    """
    quantile = critical_value_of_one(like.confidence)
    (aa, ab), (_, bb) = covariance.tolist()
    value = a / b if b else math.nan
    error = (
        math.sqrt(max(aa - 2 * value * ab + value * value * bb, 0.0)) / abs(b) if b else math.inf
    )
    low, high = _fieller(a, b, (aa, ab, bb), quantile)
    return replace(
        like,
        value=value,
        standard_error=error,
        ci_low=low,
        ci_high=high,
        about=(
            *like.about,
            "The interval is Fieller's, which holds also where the denominator is hardly told from"
            " 0, and is the whole line where it is not; the standard error is by the delta method.",
        ),
    )


def ratios_within(
    contrast: Callable[[float], tuple[float, float]],
    ratio: Quantity,
    *,
    falls: bool,
    least: float = -math.inf,
) -> tuple[float, float]:
    """Return the ends of all r for which the interval of a − r·b contains 0, with the estimate.

    Args:
        contrast: r → the ends of the interval of a − r·b.
        ratio: the estimate of a/b, with its approximate error.
        falls: whether a − r·b decreases in r.
        least: a lower bound of all ratios; ignored if the interval contains no r above it.
    """
    from scipy.optimize import brentq

    start = max(ratio.value, least)
    low, high = contrast(start)
    if not low <= 0 <= high:
        start, least = ratio.value, -math.inf
    step = max(ratio.standard_error, abs(ratio.value) * 1e-3, 1e-9)

    def end(sign: int) -> float:
        side = int((sign > 0) == falls)

        def left(away: float) -> float:
            """Return how far 0 is from the contrast's end; negative if r is outside."""
            bound = contrast(start + sign * away)[side]
            return bound if side else -bound

        inside, outside = 0.0, step
        for _ in range(_MOST_DOUBLED):
            if sign < 0 and start - outside < least:
                outside = start - least
                if left(outside) >= 0:
                    return least
            if left(outside) < 0:
                root: Any = brentq(left, inside, outside, xtol=step * 1e-12)
                return start + sign * float(root)
            inside, outside = outside, 2 * outside
        return sign * math.inf

    return min(end(-1), ratio.value), max(end(1), ratio.value)


def _fieller(
    a: float, b: float, covariance: tuple[float, float, float], quantile: float
) -> tuple[float, float]:
    """Return the ends of all r with |a − r·b| ≤ z·√Var(a − r·b).

    If b may be 0, that set is not an interval, and the whole line is returned.
    """
    aa, ab, bb = covariance
    square = quantile**2
    # (a − r·b)² = z²·Var: lead·r² − 2·half·r + last = 0
    lead, half = b * b - square * bb, a * b - square * ab
    if b == 0 or lead <= 0:
        return -math.inf, math.inf
    inside = math.sqrt(max(half * half - lead * (a * a - square * aa), 0.0))
    return (half - inside) / lead, (half + inside) / lead
