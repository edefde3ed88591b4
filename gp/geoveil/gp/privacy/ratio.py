"""Values compared by ratio, as in "twice the income" [SGP footnote 3; MATH §1]."""

from __future__ import annotations

from dataclasses import dataclass

from geoveil.gp import exact, validation
from geoveil.gp.arrays import ArrayLike, NDArray, np
from geoveil.gp.errors import ParameterError


@dataclass(frozen=True, slots=True)
class LogScale:
    """Turns values > 0 into their logarithms, where a ratio is a distance.

    With `GeoPrivacy.per_factor(epsilon, factor)` on the logarithms, two values a factor r apart are
    at most ε·ln r/ln factor distinguishable, whether small or large. Thresholds, widths and
    bandwidths are in logarithms, too.

    Values below `floor`, also 0 and negative ones, count as `floor`: a refusal would tell that
    somebody has such a value. Logarithms are doubles: those of `coordinate`, which devices perturb,
    are the nearest to the true ones (r above means r·e^(2⁻⁴³)), those of `to_log` within 10⁻¹².

    Args:
        floor: the least value that is distinguished from smaller ones, > 0, in the unit of the
            values. Choose it without looking at private values.

    Example:
        >>> import math
        >>> from geoveil.gp import Threshold
        >>> incomes = LogScale(floor=1_000).to_log([0, 50_000, 100_000, 200_000])
        >>> q = Threshold(at=math.log(100_000), width=2 * math.log(1.2), profile="smoothstep")
        >>> q.value(incomes).round(3).tolist()  # softened by a factor of 1.2 on both sides
        [0.0, 0.0, 0.5, 1.0]
    """

    floor: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "floor", validation.positive("floor", self.floor))

    def coordinate(self, value: float) -> float:
        """Return the double nearest to the logarithm of a private value, or of a higher floor.

        Every language computes the same double: see `exact.log_nearest`.
        """
        return exact.log_nearest(max(value, self.floor))

    def width(self, factor: float | None) -> float | None:
        """Return the distance of the logarithms of two values that differ by a factor > 1.

        None, for a default width, stays None.
        """
        return None if factor is None else exact.log_nearest(validation.factor("width", factor))

    def to_log(self, values: ArrayLike) -> NDArray[np.float64]:
        """Return the natural logarithms of private values, in their shape, each within 10⁻¹².

        Values below the floor are raised to it.

        Raises:
            PrivateValueError: if a value is not a finite number.
        """
        return np.asarray(np.log(np.maximum(validation.points(values, 1), self.floor)))

    def from_log(self, logarithms: ArrayLike) -> NDArray[np.float64]:
        """Return the values of public logarithms, any shape; infinity beyond the doubles.

        The exponential of an unbiased estimate is not unbiased.

        Example:
            >>> LogScale(floor=1.0).from_log([0.0, 11.512925464970229]).round(6).tolist()
            [1.0, 100000.0]
        """
        array = validation.float_array(logarithms)
        if array is None or np.isnan(array).any():
            raise ParameterError("logarithms", logarithms, "numbers (infinity is permitted)")
        # A noisy logarithm may be far beyond the doubles: that is not the caller's fault.
        with np.errstate(over="ignore", under="ignore"):
            return np.asarray(np.exp(array))
