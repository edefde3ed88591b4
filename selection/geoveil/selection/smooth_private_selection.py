"""Smooth private selection: two-sided noise on every utility [SPS Definition 12]."""

from geoveil.gp.errors import ParameterError
from geoveil.gp.noise.base import Noise
from geoveil.selection.base import Guarantee
from geoveil.selection.smooth_law import two_sided_law
from geoveil.selection.smooth_noise import HeavyGeneralizedCauchy
from geoveil.selection.smooth_scale_cost import scale_cost_of
from geoveil.selection.smooth_selection import SmoothSelection
from geoveil.selection.smooth_two_sided import split_two_sided


class SmoothPrivateSelection(SmoothSelection):
    """argmax u_r + (S/α') Z_r with α' = α(kε), β' = β(lε), k + m l/2 = 1.

    All m noise variables change their scale, so β shrinks as 1/m: for many outcomes use
    `SmoothNoisyMax`.

    Args:
        epsilon: see `SelectionMechanism`.
        outcomes: m, the most outcomes there are to select from.
        noise: two-sided; of `geoveil.gp.noise`, or one with heavier tails still. Laplace and
            Laplace log-normal noise give (ε, δ).
        share: m l/2 in (0, 1), the part of ε that pays for β.
        delta: δ in (0, 0.5] for Laplace and Laplace log-normal noise, 0 for any other.
        monotone: whether all utilities move the same way between any two neighbours.

    Raises:
        ParameterError: if an argument is out of range.
        UnsupportedError: if nothing is proved of the noise.

    Example:
        >>> from geoveil.selection.scores import SmoothUtilities
        >>> m = SmoothPrivateSelection(epsilon=1.0, outcomes=2)
        >>> round(m.beta, 6), round(m.alpha, 6)
        (0.083333, 0.109673)
        >>> m.probabilities(SmoothUtilities([9.0, 0.0], 0.5, beta=m.beta)).round(4).tolist()
        [0.9424, 0.0576]
    """

    def __init__(
        self,
        epsilon: float,
        outcomes: int,
        noise: Noise | None = None,
        *,
        share: float = 0.5,
        delta: float = 0.0,
        monotone: bool = False,
    ) -> None:
        super().__init__(epsilon, outcomes, monotone=monotone)
        self.noise = HeavyGeneralizedCauchy(4.0) if noise is None else noise
        if not isinstance(self.noise, Noise):
            raise ParameterError("noise", noise, "two-sided noise of geoveil.gp.noise")
        self.share = share
        scale_cost = scale_cost_of(self.noise)
        self.delta, self._source = scale_cost.checked(self._delta(delta)), scale_cost.source
        self._split = split_two_sided(self.noise, self.epsilon, outcomes, share, self.delta)
        self._law = two_sided_law(self.noise)

    @property
    def alpha(self) -> float:
        """α': the noise is multiplied by S/α', or S/2α' for monotone utilities."""
        return self._split.alpha / 2

    @property
    def guarantee(self) -> Guarantee:
        """See `SelectionMechanism.guarantee`."""
        return Guarantee(
            epsilon=self._split.epsilon,
            delta=self.delta,
            statement=f"up to {self.outcomes} outcomes and a {self.beta:.6g}-smooth upper bound of"
            " the local sensitivity"
            + (", utilities moving in one direction" if self.monotone else ""),
            source=self._source,
        )
