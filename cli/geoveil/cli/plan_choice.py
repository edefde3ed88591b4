"""The plan for one question, in seconds: a channel is solved only where it may help."""

from dataclasses import replace

from geoveil.analyst.planner import KINDS, Plan, plan
from geoveil.analyst.planner.channels import WORTH_SOLVING, bands_like, channels, next_to_optimal
from geoveil.analyst.planner.kinds import fits_campaigns
from geoveil.analyst.planner.plan import ranked
from geoveil.cli.plan_wishes import Wish
from geoveil.gp import DebiasedLaplace, Query, UnsupportedError

_NODES = 16
"""Distances for a quick bound; more where a band is wide."""


def planned_for(
    wish: Wish, *, restricted: bool = False, bound: bool = True
) -> tuple[Plan, float | None]:
    """Return the plan for the first question, and the noise that no unbiased mechanism can beat.

    A channel for the band that was chosen has at least the noise of the lower bound. Where even
    that would save less than a twentieth of the squared error, none is solved; nor where the band
    is so wide that this is known beforehand (`next_to_optimal`).

    Args:
        wish: what is asked for.
        restricted: to mechanisms that campaigns can hold.
        bound: whether to compute the bound; there is one in one dimension only.
    """
    kinds = tuple(kind for kind in KINDS if fits_campaigns(kind) or not restricted)
    found = plan(wish.questions[0], wish.plane_privacy, wish.prior, wish.participants, kinds=kinds)
    on_line = found.question.dimension == 1
    settled = next_to_optimal(found.question, found.choice)
    least = None if settled and not (bound and on_line) else _least(found)
    if not settled and _saved(found, least) >= WORTH_SOLVING:
        better = _with_channel(found)
        if better.choice.query != found.choice.query and bound and on_line:
            least = _least(better)
        found = better
    return found, least if bound and on_line else None


def _least(found: Plan) -> float | None:
    """Return the lower bound on the noise for the query that was chosen, if it says anything."""
    query = found.choice.query
    least = _least_for(found, query) if isinstance(query, Query) else None
    # A biased mechanism may have less noise; the bound is not about those.
    return least if least is not None and least <= found.choice.prediction.noise else None


def _least_for(found: Plan, query: Query) -> float | None:
    try:
        least = found.search.lower_bound(query, _NODES, quick=True).value
    except UnsupportedError:
        return None
    return least if least > 0 else None


def _saved(found: Plan, least: float | None) -> float:
    """Return which part of the squared error a channel could save for the same query."""
    best, n = found.choice.prediction, found.n
    if least is None:
        return 0.0
    return (best.noise - least) / n / best.expected_error(n)


def _with_channel(found: Plan) -> Plan:
    """Return the plan with the channel among the alternatives that promises most."""

    def promised(query: Query) -> float:
        softened = found.problem.predict(DebiasedLaplace(query, found.privacy))
        least = _least_for(found, query)
        return replace(softened, noise=least or softened.noise).expected_error(found.n)

    query = found.choice.query
    assert isinstance(query, Query)
    bands = bands_like(found.search, query)
    likely = bands if len(bands) == 1 else [min(bands, key=promised)]
    solved = list(channels(found.search, likely))
    alternatives = sorted(
        (*found.alternatives, *solved),
        key=lambda a: (not a.satisfies_guarantee, ranked(a, a.prediction.expected_error(found.n))),
    )
    return replace(found, alternatives=tuple(alternatives))
