"""The best unbiased channel on the distance, found by a linear programme [MATH §8]."""

import numpy as np

from geoveil.gp import validation
from geoveil.gp.errors import ParameterError
from geoveil.gp.mechanisms.channel_design import REACH_OF_OUTPUTS, design
from geoveil.gp.mechanisms.channel_mechanism import ChannelMechanism
from geoveil.gp.mechanisms.channel_prior import DistancePrior, default_prior
from geoveil.gp.mechanisms.grid import exponent_below, grid_exponent
from geoveil.gp.privacy import GeoPrivacy
from geoveil.gp.queries.base import Query

_STEP_BITS = 20


class LinearProgramMechanism(ChannelMechanism):
    """A table of probabilities, optimal for a prior on the distance: ε-GP, and next to unbiased.

    The report is one of some hundred outputs. Its probabilities are a quadratic spline in s(x)
    between the rows of a table that a linear programme has found, so that |∂_s log P| ≤ ε
    everywhere: the theorem, and its proof, are in `channel_grid`. Beyond the ends of the grid s
    counts as the end, and for an even φ as |s|; both maps are 1-Lipschitz, and so is s(x). The
    table is integers over 2^60, and every row, sign and ratio has been checked exactly
    (`channel_table`). What is released is hence exactly ε-GP, whatever the solver did; only the
    variance depends on it.

    The mean is the spline of the means of the rows, which differs from f by at most `bias_bound`.
    On a linear ramp it does not differ at all.

    What was found is its `channel`, plain data: a campaign carries it, and a device checks it and
    draws by it, as a `ChannelMechanism`.

    Where φ varies over more than some 8/ε, the cells become coarse and the gain small: there
    `DebiasedLaplace`, if the profile permits it, has about as little variance, or less.

    Args:
        query: any; its profile may have corners. It should vary over at most some 60 noise scales.
        privacy: the guarantee, in the unit of x.
        prior: what the variance is minimal for; by default uniform where the profile varies. Fix it
            without looking at private values.
        tolerance: largest bias permitted, in the unit of f, in [1e-6, 0.1].
        quick: whether to solve on a coarser grid: in a second instead of several, with a variance
            that is a few per cent larger.
        step: see `Mechanism`; at most 1. The outputs lie on this grid.

    Raises:
        ParameterError: if a parameter is out of range, or the tolerance out of reach.
        UnsupportedError: if the query varies over too many noise scales, or the solver fails.

    Example:
        >>> from geoveil.gp import GeoPrivacy, Threshold
        >>> q = Threshold(at=100_000, width=16_000)
        >>> m = LinearProgramMechanism(q, GeoPrivacy(epsilon=1.0, per=8000.0))
        >>> m.unbiased
        True
        >>> bool(m.variance(100_000.0) < 0.6)
        True
    """

    def __init__(
        self,
        query: Query,
        privacy: GeoPrivacy,
        prior: DistancePrior | None = None,
        *,
        tolerance: float = 1e-3,
        quick: bool = False,
        step: float | None = None,
    ) -> None:
        self._check(query, privacy)
        if prior is not None and not isinstance(prior, DistancePrior):
            raise ParameterError("prior", prior, "a DistancePrior, or None for the uniform one")
        self.tolerance = validation.between("tolerance", tolerance, 1e-6, 0.1)
        self.prior = default_prior(query.profile) if prior is None else prior
        if not isinstance(quick, bool):
            raise ParameterError("quick", quick, "True or False")
        self.quick = quick
        low, high = query.profile.bounds
        exponent = grid_exponent(
            step,
            default=min(exponent_below(high - low, _STEP_BITS), 0),
            spread=REACH_OF_OUTPUTS * query.lipschitz / privacy.rate + max(abs(low), abs(high)),
            levels=(),
        )
        rate = privacy.exact_rate
        found = design(query.profile, rate, self.prior, exponent, self.tolerance, quick)
        super().__init__(query, privacy, found)
        self._options = {"prior": prior, "tolerance": tolerance, "quick": quick, "step": step}

    @property
    def expected_variance(self) -> float:
        """The variance of a report, averaged over the prior."""
        return float(self._variance(np.array(self.prior.distances)) @ np.array(self.prior.weights))
