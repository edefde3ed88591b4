"""Optimal channels among the candidates: solved, not looked up, and so for few bands."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from geoveil.analyst.planner.kinds import CHANNEL
from geoveil.analyst.planner.prediction import Prediction
from geoveil.analyst.planner.question import Estimand, HardQuestion
from geoveil.analyst.planner.search import Alternative, Search
from geoveil.gp.errors import ParameterError, UnsupportedError
from geoveil.gp.mechanisms.distance import DebiasedLaplace
from geoveil.gp.mechanisms.linear_program_mechanism import LinearProgramMechanism
from geoveil.gp.queries.base import Query
from geoveil.gp.queries.indicator import SoftIndicator
from geoveil.gp.queries.profiles.higher_order import HigherOrderStep
from geoveil.gp.queries.profiles.soft_step import SoftStep

_WIDTHS = (2**-0.5, 1.0)
"""Bands for which a channel is made, in widths of the best band of the other kinds: it needs no
more than they do."""
WORTH_SOLVING = 0.05
"""Part of the variance of the noise that a channel must be able to save, so that it is solved."""
_NODES = 16
"""Distances for a quick bound; more where a band is wide."""
_WIDE = 12.0
"""Width of a band, in noise scales, from which on no channel is solved; of a steeper step that of
the smoothstep which is as steep."""


def bands_like(search: Search, query: Query) -> list[Query]:
    """Return a query, or for a hard question the bands about as wide that suit a channel."""
    if not isinstance(search.problem.question, HardQuestion) or not isinstance(
        query, SoftIndicator
    ):
        return [query]
    steeper = isinstance(query.profile, HigherOrderStep)
    profile = query.profile.name if steeper else "smoothstep"
    bands = (search.aimed(f * query.width, profile) for f in _WIDTHS)
    return [band for band in bands if band is not None]


def channels(search: Search, queries: Iterable[Query]) -> Iterator[Alternative]:
    """Yield optimal channels for queries; nothing for those that have none."""
    for candidate in queries:
        try:
            prior = search.law(candidate)
            reports = LinearProgramMechanism(candidate, search.problem.privacy, prior, quick=True)
        except (UnsupportedError, ParameterError):
            continue  # too many noise scales, or no table passes the check
        none: Mapping[str, float] = MappingProxyType({})
        prediction = search.believed(candidate, search.problem.predict(reports))
        yield Alternative(CHANNEL, candidate, search.problem.privacy, none, reports, prediction)


def best_channels(
    search: Search, queries: Sequence[Query], error: Callable[[Prediction], float]
) -> Iterator[Alternative]:
    """Yield optimal channels for queries, but for those that are certain not to be the best.

    Args:
        search: for the question, the guarantee and the prior.
        queries: bands that suit a channel, or one query.
        error: what is to be least.
    """
    if len(queries) < 2:
        yield from channels(search, queries)
        return
    best = math.inf
    # The likely one first: then the other's bound may do.
    for query in sorted(queries, key=lambda q: error(search.with_noise(q, search.likely_noise(q)))):
        if best < math.inf and error(search.with_noise(query, search.least_noise(query))) > best:
            continue
        for found in channels(search, [query]):
            best = min(best, error(found.prediction))
            yield found


def next_to_optimal(question: Estimand, found: Alternative) -> bool:
    """Return whether no channel can save much: for bands of 12 noise scales and more.

    `DebiasedLaplace` is then within 1.05 × of the lower bound, wherever on the band people are, as
    tests/analyst/planner/test_near_the_bound.py measures. So for a hard question, which leaves the
    profile open, it does not matter what was found; for a soft one that has to be it. Bells are
    never: who is at their top has more noise than need be, however wide they are.
    """
    profile = found.query.profile if isinstance(found.query, Query) else None
    wide = (
        isinstance(profile, SoftStep)
        and min(profile.width, 1.5 / profile.lipschitz) * found.privacy.rate >= _WIDE
    )
    return wide and (
        isinstance(question, HardQuestion) or isinstance(found.reports, DebiasedLaplace)
    )


def saves_noise(plain: Prediction, noise: float) -> bool:
    """Return whether so much noise is less than that of a prediction by a twentieth.

    The noise counts, and not the whole squared error: of a large campaign most of that is what the
    prior does not know of the bias, and no mechanism can save any of it.

    Args:
        plain: without a channel.
        noise: variance of a report of a channel, or its lower bound.
    """
    return noise <= (1 - WORTH_SOLVING) * plain.noise


def may_save(search: Search, found: Alternative) -> bool:
    """Return whether a channel may be worth its solution, by a quick bound.

    Args:
        search: that it was found by.
        found: the best without channels.
    """
    if next_to_optimal(search.problem.question, found) or not isinstance(found.query, Query):
        return False
    try:
        least = search.lower_bound(found.query, _NODES, quick=True).value
    except UnsupportedError:
        return True
    return saves_noise(found.prediction, least)
