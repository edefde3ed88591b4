"""Local privacy: geo-privacy in the discrete metric, where all distances are 1 [MATH §1]."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING
from fractions import Fraction

from geoveil.gp import validation
from geoveil.gp.exact import as_given, round_down, round_up, share
from geoveil.gp.reprs import six_digits
from geoveil.gp.validation import require_count


@dataclass(frozen=True, slots=True)
class LocalPrivacy:
    """ε-LDP: any two values, however far apart, are at most `epsilon`-distinguishable.

    It is geo-privacy in the discrete metric, where all distances are 1. `epsilon` > 0 is in nats.
    `GeoPrivacy.local` gives it for values from a domain of known diameter.

    Example:
        >>> LocalPrivacy(epsilon=1.0).at(8000)
        1.0
    """

    epsilon: float

    def __post_init__(self) -> None:
        epsilon = validation.positive("epsilon", self.epsilon)
        object.__setattr__(self, "epsilon", round_down(as_given(self.epsilon, epsilon)))

    def at(self, distance: float) -> float:
        """Return how distinguishable (nats) two values may be: epsilon, unless they are equal."""
        return self.epsilon if validation.non_negative("distance", distance) > 0 else 0.0

    def repeated(self, times: int) -> "LocalPrivacy":
        """Return the joint guarantee of `times` releases with this one; see `compose`.

        Example:
            >>> print(LocalPrivacy(0.25).repeated(12))
            ε = 3 between any two values
        """
        require_count("times", times)
        return self._together((self,), times)

    def split(self, parts: int) -> "LocalPrivacy":
        """Return the guarantee of each of `parts` releases that together keep this one.

        Example:
            >>> print(LocalPrivacy(1.0).split(4))
            ε = 0.25 between any two values
        """
        return LocalPrivacy(share("parts", self.epsilon, parts))

    @classmethod
    def _together(cls, guarantees: Sequence["LocalPrivacy"], times: int = 1) -> "LocalPrivacy":
        return cls(round_up(times * sum((Fraction(g.epsilon) for g in guarantees), Fraction(0))))

    def __str__(self) -> str:
        return f"ε = {six_digits(self.epsilon, ROUND_CEILING)} between any two values"
