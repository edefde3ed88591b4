"""The distances of a prior, on which mechanisms, bounds and channels depend alone."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from geoveil.analyst.planner.lower_bound import LowerBound, lower_bound
from geoveil.gp.errors import UnsupportedError
from geoveil.gp.mechanisms.channel_prior import DistancePrior, variation
from geoveil.gp.queries.base import Query
from geoveil.gp.queries.projected import Linear

if TYPE_CHECKING:
    from geoveil.analyst.planner.candidates import Survey

Array = NDArray[np.float64]

_REACH, _CELLS = 14.0, 16.0
"""Noise scales from the band up to which a law of distances is kept; cells per shortest length."""
_BOUND_REACH = 6.0
"""Noise scales from the band up to which the prior counts for a bound; a channel counts what is
beyond as being there."""
_PER_NEAR, _BEND = 40, 4.0
"""Distances that are joined: per shortest length at 0, and where their distances begin to grow."""


@dataclass(frozen=True, eq=False)
class SignedDistances:
    """What queries make of the nodes of a survey."""

    survey: "Survey"

    @cached_property
    def _known(self) -> dict[Query, Array]:
        return {}

    def at_nodes(self, query: Query) -> Array:
        """Return the distance of a query at every node: kinds, bounds and channels share bands."""
        if query not in self._known:
            points, _ = self.survey.nodes
            self._known[query] = np.asarray(query.signed_distance(points)).ravel()
        return self._known[query]

    def joined(self, query: Query) -> tuple[Query, Array, Array, Array]:
        """Return a query whose distance is the point, with distances, their truth and weights.

        What a mechanism makes of a query depends on the distance alone; those that lie within a
        fraction of the shortest length are joined at their mean.
        """
        s, weights = self.at_nodes(query), self.survey.nodes[1]
        near = min(self.survey.scale, query.profile.length_scale)
        place = np.rint(np.arcsinh(s / (_BEND * near)) * (_BEND * _PER_NEAR))
        _, index = np.unique(place, return_inverse=True)
        mass = np.asarray(np.bincount(index, weights), np.float64)
        used = mass > 0
        joined = np.bincount(index, weights * s)[used] / mass[used]
        line = Linear(query.profile, direction=1.0)
        return line, joined, line.value(joined), mass[used]

    def law(self, query: Query) -> DistancePrior:
        """Return the law of the distance, on a grid, with all that is far away at its ends."""
        s, weights = self.at_nodes(query), self.survey.nodes[1]
        low, high = variation(query.profile)
        if low == 0:
            s = np.abs(s)
        reach = _REACH * self.survey.scale
        cell = min(self.survey.scale, high - low) / _CELLS
        grid, index = np.unique(
            np.round(np.clip(s, low - reach, high + reach) / cell), return_inverse=True
        )
        return DistancePrior((grid * cell).tolist(), np.bincount(index, weights).tolist())

    def law_near(self, query: Query) -> tuple[DistancePrior, float]:
        """Return the law of the distance near where a query varies, and its share of the prior.

        Raises:
            UnsupportedError: if nobody is there.
        """
        prior = self.law(query)
        low, high = variation(query.profile)
        s, weights = np.array(prior.distances), np.array(prior.weights)
        reach = _BOUND_REACH * self.survey.scale
        near = (s >= low - reach) & (s <= high + reach)
        if not weights[near].sum() > 0:
            raise UnsupportedError(f"the prior has nobody near where {query!r} varies")
        share = float(weights[near].sum())
        return DistancePrior(s[near].tolist(), weights[near].tolist()), share

    def lower_bound(self, query: Query, nodes: int = 32, *, quick: bool = False) -> LowerBound:
        """Return what no unbiased report about the signed distance of a query can beat; see `Plan`.

        Raises:
            UnsupportedError: if nobody is near where the query varies, or the solver fails.
        """
        distances, share = self.law_near(query)
        found = lower_bound(query, self.survey.privacy, distances, nodes=nodes, quick=quick)
        return replace(found, value=share * found.value, attained=share * found.attained)
