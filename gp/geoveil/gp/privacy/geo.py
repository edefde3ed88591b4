"""Geo-privacy: a bound on how distinguishable values are by distance, and its composition."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR
from fractions import Fraction
from functools import lru_cache
from typing import overload

from geoveil.gp import exact, validation
from geoveil.gp.errors import ParameterError, UnsupportedError
from geoveil.gp.privacy.local import LocalPrivacy
from geoveil.gp.reprs import ReprByArguments, six_digits

LOG = "log "
"""Beginning of units whose distances are logarithms of ratios, as in "log dollar"."""
_FARTHEST_FACTOR = 700.0


@dataclass(frozen=True, slots=True, repr=False)
class GeoPrivacy(ReprByArguments):
    """Two values `per` apart are at most `epsilon`-distinguishable.

    Args:
        epsilon: log-ratio of probabilities (nats) that two values `per` apart may reach, > 0.
        per: a distance > 0, in `unit`.
        unit: the unit of `per`; empty if the caller keeps track of it.
        delta: additive slack in [0, 1).
        reach: largest distance Λ > 0, in `unit`, at which the guarantee is stated; may be infinite.

    Raises:
        ParameterError: if a parameter is out of range.

    Example:
        >>> p = GeoPrivacy(epsilon=1.0, per=8000.0, unit="dollar")
        >>> p.rate, p.at(4000)
        (0.000125, 0.5)
        >>> print(p)
        ε = 1 per 8000 dollar
    """

    epsilon: float
    per: float
    unit: str = ""
    delta: float = 0.0
    reach: float = math.inf

    def __post_init__(self) -> None:
        if not isinstance(self.unit, str):
            raise ParameterError("unit", self.unit, "a string")
        epsilon = validation.positive("epsilon", self.epsilon)
        object.__setattr__(self, "epsilon", exact.round_down(exact.as_given(self.epsilon, epsilon)))
        per = validation.positive("per", self.per, self.unit)
        object.__setattr__(self, "per", exact.round_up(exact.as_given(self.per, per)))
        delta = validation.between("delta", self.delta, 0, 1, high_open=True)
        object.__setattr__(self, "delta", exact.round_down(exact.as_given(self.delta, delta)))
        object.__setattr__(self, "reach", validation.non_negative("reach", self.reach))
        if self.reach == 0:
            raise ParameterError("reach", self.reach, "a number > 0 (infinity is permitted)")

    @classmethod
    def per_factor(cls, epsilon: float, factor: float | Fraction, unit: str = "") -> "GeoPrivacy":
        """Return the guarantee that values a `factor` > 1 apart are `epsilon`-distinguishable.

        It is about natural logarithms, in which a ratio is a distance; `LogScale` turns values, in
        `unit`, into them. ln factor is rounded up, so that the guarantee never promises too much.

        Example:
            >>> p = GeoPrivacy.per_factor(1.0, factor=2, unit="dollar")
            >>> print(p)
            ε = 1 per factor 2 in dollar
            >>> round(p.at(math.log(4)), 6)
            2.0
        """
        if not isinstance(unit, str):
            raise ParameterError("unit", unit, "a string")
        number = validation.factor("factor", factor)
        per = exact.log_up(exact.as_given(factor, number))
        return cls(epsilon, per, f"{LOG}{unit}".rstrip())

    @property
    def value_unit(self) -> str | None:
        """The unit of values compared by ratio; None if distances are differences."""
        return self.unit.removeprefix(LOG) if self.unit.startswith(LOG) else None

    @property
    def exact_rate(self) -> Fraction:
        """The rate ε/per as an exact fraction: an exact release allows no rounding error."""
        return _quotient(self.epsilon, self.per)

    @property
    def rate(self) -> float:
        """The rate ε per unit of distance, as the nearest double to `exact_rate`."""
        return self.epsilon / self.per

    def at(self, distance: float | Fraction) -> float:
        """Return how distinguishable (nats) two values `distance` apart may be, rounded up.

        A guarantee with delta = 0 holds at every distance [MATH §1]; one with delta > 0 holds with
        the slack `delta_at(distance)`.
        """
        number = validation.non_negative("distance", distance)
        if number == math.inf:
            return math.inf
        return exact.round_up(self.exact_rate * exact.as_given(distance, number))

    def delta_at(self, distance: float | Fraction) -> float:
        """Return the slack δ for `at(distance)`, rounded up; 1 without a promise.

        It is δ up to the reach Λ. At a distance d beyond it, with m = ⌈d/Λ⌉, group privacy gives
        δ·(1 + Σ_{k=1}^{m−1} e^{ε(d−kΛ)}) [MATH §1].

        Example:
            >>> p = GeoPrivacy(epsilon=1, per=10, unit="metre", delta=1e-6, reach=10)
            >>> p.at(20), round(p.delta_at(20), 9)
            (2.0, 3.718e-06)
        """
        number = validation.non_negative("distance", distance)
        if self.delta == 0 or number == math.inf:
            return 0.0 if self.delta == 0 else 1.0
        walked, reach = exact.as_given(distance, number), self.reach
        if walked <= reach:
            return self.delta if walked > 0 else 0.0
        step = Fraction(reach)
        whole_steps = math.ceil(walked / step) - 1
        return exact.geometric_up(
            Fraction(self.delta),
            self.exact_rate * (walked - whole_steps * step),
            self.exact_rate * step,
            whole_steps,
        )

    def scaled(self, factor: float | Fraction) -> "GeoPrivacy":
        """Return the guarantee whose rate is `factor` > 0 times this one, never more."""
        given = exact.as_given(factor, validation.positive("factor", factor))
        epsilon = exact.round_down(Fraction(self.epsilon) * given)
        return GeoPrivacy(epsilon, self.per, self.unit, self.delta, self.reach)

    def split(self, parts: int) -> "GeoPrivacy":
        """Return the guarantee of each of `parts` releases that together keep this one.

        Rate and slack are divided, and rounded down.

        Raises:
            ParameterError: if parts is not an integer >= 1, or more than epsilon can be split into.

        Example:
            >>> week = GeoPrivacy(epsilon=1.0, per=8000, unit="dollar")
            >>> week.split(7).repeated(7).exact_rate <= week.exact_rate
            True
        """
        epsilon = exact.share("parts", self.epsilon, parts)
        delta = exact.round_down(Fraction(self.delta) / parts)
        return GeoPrivacy(epsilon, self.per, self.unit, delta, self.reach)

    def repeated(self, times: int) -> "GeoPrivacy":
        """Return the joint guarantee of `times` releases with this one; errors as in `compose`.

        Example:
            >>> print(GeoPrivacy(epsilon=0.25, per=8000, unit="dollar").repeated(12))
            ε = 3 per 8000 dollar
        """
        validation.require_count("times", times)
        return self._together((self,), times)

    def local(self, diameter: float | Fraction) -> LocalPrivacy:
        """Return the guarantee for values at most `diameter` > 0 apart: ε-LDP.

        Raises:
            UnsupportedError: if delta > 0: `LocalPrivacy` has no slack.

        Example:
            >>> GeoPrivacy(epsilon=1.0, per=8000, unit="dollar").local(diameter=100_000)
            LocalPrivacy(epsilon=12.5)
        """
        if self.delta > 0:
            raise UnsupportedError(
                f"{self} has a slack, and LocalPrivacy has none; at(diameter) and"
                " delta_at(diameter) say what is promised between any two values"
            )
        number = validation.positive("diameter", diameter, self.unit)
        return LocalPrivacy(exact.round_up(self.exact_rate * exact.as_given(diameter, number)))

    @classmethod
    def _together(cls, guarantees: Sequence["GeoPrivacy"], times: int = 1) -> "GeoPrivacy":
        first = guarantees[0]
        for index, guarantee in enumerate(guarantees):
            if guarantee.unit != first.unit:
                raise ParameterError(
                    f"guarantees[{index}].unit",
                    guarantee.unit,
                    f"{first.unit!r}, that of guarantees[0]",
                )
        delta = exact.round_up(times * sum((Fraction(g.delta) for g in guarantees), Fraction(0)))
        if delta >= 1:
            raise UnsupportedError(
                f"the slacks δ add up to {delta:g}, and with 1 or more nothing is promised; use"
                " fewer releases, or a smaller delta"
            )
        rate = times * sum((g.exact_rate for g in guarantees), Fraction(0))
        reach = min((g.reach for g in guarantees if g.delta > 0), default=math.inf)
        return cls(exact.round_up(rate * Fraction(first.per)), first.per, first.unit, delta, reach)

    def __str__(self) -> str:
        # To six digits, and never less than the loss.
        parts = [f"ε = {six_digits(self.epsilon, ROUND_CEILING)} per {self._words(self.per)}"]
        if self.delta:
            parts.append(f"δ = {six_digits(self.delta, ROUND_CEILING)}")
        if self.reach < math.inf:
            parts.append(f"up to {self._words(self.reach)}")
        return ", ".join(parts)

    def _words(self, distance: float) -> str:
        if self.value_unit is None or distance > _FARTHEST_FACTOR:
            return f"{six_digits(distance, ROUND_FLOOR)} {self.unit}".rstrip()
        return f"factor {six_digits(math.exp(distance), ROUND_FLOOR)} in {self.value_unit}"


@lru_cache(maxsize=1024)
def _quotient(epsilon: float, per: float) -> Fraction:
    return Fraction(epsilon) / Fraction(per)


@overload
def compose(*guarantees: GeoPrivacy) -> GeoPrivacy: ...
@overload
def compose(*guarantees: LocalPrivacy) -> LocalPrivacy: ...
def compose(*guarantees: GeoPrivacy | LocalPrivacy) -> GeoPrivacy | LocalPrivacy:
    """Return the joint guarantee of several releases of one private value: sequential composition.

    Rates add, slacks add, and the reach is the smallest among the guarantees that have a slack
    [MATH §1]. The releases draw their noise independently. A later one may depend on earlier
    reports, as long as the guarantees themselves were fixed before.

    Args:
        guarantees: all `GeoPrivacy` in one unit, or all `LocalPrivacy`.

    Returns:
        Their exact sum, rounded up at the end, stated per the distance of the first.

    Raises:
        ParameterError: if there is no guarantee, or units differ.
        UnsupportedError: if the kinds are mixed, or the slacks add up to 1 or more.

    Example:
        >>> commute = GeoPrivacy(epsilon=1.0, per=2, unit="kilometre")
        >>> print(compose(commute, GeoPrivacy(0.5, per=2, unit="kilometre", delta=1e-6, reach=50)))
        ε = 1.5 per 2 kilometre, δ = 1e-06, up to 50 kilometre
    """
    if not validation.items("guarantees", guarantees, GeoPrivacy | LocalPrivacy):
        raise ParameterError("guarantees", guarantees, "at least one guarantee")
    geo = [guarantee for guarantee in guarantees if isinstance(guarantee, GeoPrivacy)]
    local = [guarantee for guarantee in guarantees if isinstance(guarantee, LocalPrivacy)]
    if geo and local:
        raise UnsupportedError(
            "the sum of a rate and a bound between any two values is neither; first state the"
            " GeoPrivacy as local, over the diameter of the values:"
            " compose(geo.local(diameter), local)"
        )
    return GeoPrivacy._together(geo) if geo else LocalPrivacy._together(local)
