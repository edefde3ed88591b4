"""Bandwidths of densities that are left open: as fine a map as the reports can draw."""

import math
from collections.abc import Sequence

from geoveil.analyst.planner import Prior, SoftQuestion
from geoveil.analyst.planner.problem import PlanningProblem
from geoveil.analyst.planner.search import Search
from geoveil.cli.plan_search import boundary, enough, rounded
from geoveil.gp import GaussianKernel, GeoPrivacy, ParameterError

RELATIVE_ERROR = 0.1
"""95 % error over the expected answer, at every place asked about."""
_ALL = 1e300
_FINEST, _COARSEST = 0.25, 64.0
"""Bandwidths that are tried, in noise scales."""


def narrowest(
    centers: Sequence[tuple[float, ...]], privacy: GeoPrivacy, prior: Prior, n: int
) -> float:
    """Return the narrowest bell whose predicted 95 % error is a tenth of every expected answer.

    Args:
        centers: of the bells, in the coordinates of the prior.
        privacy: in the same coordinates.
        prior: public.
        n: number of reports on each place.

    Raises:
        ParameterError: if no bell up to 64 noise scales is answered so well.
    """
    scale = 1 / privacy.rate
    if n < 1:
        return 3 * scale  # refused later on, with how many would do

    def missed(bandwidth: float) -> float:
        worst = max(_error(c, bandwidth, privacy, prior, n) for c in centers)
        return math.log(worst / RELATIVE_ERROR)

    start = _FINEST * scale
    if missed(start) <= 0:
        return rounded(start, up=True)
    found = boundary(missed, start, 2.0, _COARSEST * scale)
    if found is None:
        raise ParameterError(
            "--bandwidth",
            None,
            f"given: with {n:,} participants no bell up to {_COARSEST * scale:,.3g} wide is"
            f" answered to {RELATIVE_ERROR:.0%} of the expected density",
        )
    return enough(missed, found, up=True)


def _error(
    center: tuple[float, ...], bandwidth: float, privacy: GeoPrivacy, prior: Prior, n: int
) -> float:
    """Return the predicted 95 % error in parts of the expected answer."""
    kernel = GaussianKernel(center, bandwidth)
    problem = PlanningProblem.of(SoftQuestion(kernel), privacy, prior)
    (found,) = Search(problem).asked_softly(
        "DebiasedLaplace"
    )  # of many nodes, the joined ones will do here
    margin = found.prediction.margin(n)
    expected = float((problem.nodes.weights * problem.nodes.truth).sum())
    return margin / expected if expected > 0 else _ALL
