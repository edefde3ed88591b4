"""Candidates: what a kind makes of a query, and the error that is to be expected of it."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from geoveil.analyst.planner import moments
from geoveil.analyst.planner.aiming import aimed
from geoveil.analyst.planner.alternative import Alternative
from geoveil.analyst.planner.distances import SignedDistances
from geoveil.analyst.planner.kinds import KINDS, Kind, Reports, Task
from geoveil.analyst.planner.places import jumps, nodes_near
from geoveil.analyst.planner.prediction import Prediction, predicted
from geoveil.analyst.planner.prior import Prior
from geoveil.analyst.planner.question import HardQuestion, Question, SoftQuestion
from geoveil.analyst.planner.regions import Regions
from geoveil.analyst.planner.screening import Screening, Sketch
from geoveil.gp.errors import ParameterError, UnsupportedError
from geoveil.gp.privacy import GeoPrivacy
from geoveil.gp.queries.base import Query
from geoveil.gp.queries.indicator import SoftIndicator
from geoveil.gp.queries.projected import Linear

Array = NDArray[np.float64]

_KEPT = ("nodes", "truth", "jumps", "_distances")
_FEW = 1_000
"""Nodes up to which none are joined."""


@dataclass(frozen=True)
class Survey:
    """A question under a guarantee, with the nodes of the prior: all that predictions need."""

    question: Question
    privacy: GeoPrivacy
    prior: Prior
    diameter: float | None = None

    @property
    def scale(self) -> float:
        """1/ε, in the unit of the points."""
        return 1 / self.privacy.rate

    @cached_property
    def nodes(self) -> tuple[Array, Array]:
        """Points and weights of the prior, dense where the question varies."""
        return nodes_near([self.question], self.prior, min(self.scale, self.question.length_scale))

    @cached_property
    def truth(self) -> Array:
        """What each node contributes to the truth."""
        return self.question.truth(self.nodes[0])

    def predict(self, reports: Reports) -> Prediction:
        """Return the error of reports, from their exact moments at every node."""
        points, weights = self.nodes
        mean, variance = reports.mean(points), reports.variance(points)
        return predicted(mean, variance, self.truth, weights, self.prior.size)

    @cached_property
    def jumps(self) -> Array:
        """Where the truth of a hard question jumps within reach of the prior; for one dimension."""
        assert isinstance(self.question, HardQuestion)
        return jumps(self.question, self.prior)

    def under(self, privacy: GeoPrivacy) -> "Survey":
        """Return the same question and prior under another guarantee, with all that stays true."""
        other = Survey(self.question, privacy, self.prior, self.diameter)
        if not self.prior.continuous:  # else nodes may lie elsewhere
            kept = {name: self.__dict__[name] for name in _KEPT if name in self.__dict__}
            other.__dict__.update(kept)
        return other

    def signed(self, width: float) -> Array:
        """Return the distances of the nodes to the boundary of a hard region.

        Args:
            width: of the band; counts where corners are rounded by it only.
        """
        assert isinstance(self.question, HardQuestion)
        if not self.question.rounded:
            return self._distances
        return self.question.signed(self.nodes[0], width)

    @cached_property
    def _distances(self) -> Array:
        assert isinstance(self.question, HardQuestion)
        return self.question.signed(self.nodes[0], 1.0)

    @cached_property
    def distances(self) -> SignedDistances:
        """What queries make of the nodes."""
        return SignedDistances(self)

    @cached_property
    def regions(self) -> Regions:
        """Value campaigns for a hard region of the plane."""
        return Regions(self)

    @cached_property
    def screening(self) -> Screening:
        """Bands for a hard question, and what is known of them."""
        return Screening(self)

    @cached_property
    def _aimed(self) -> dict[tuple[float, str], SoftIndicator | None]:
        return {}

    def aimed(self, width: float, profile: str) -> SoftIndicator | None:
        """Return the band of a width whose soft share of the prior is the hard one; see `aimed`."""
        assert isinstance(self.question, HardQuestion)
        key = (width, profile)
        if key not in self._aimed:
            points, weights = self.nodes
            try:
                signed = None if self.question.dimension == 1 else self.signed(width)
            except ParameterError:
                return None  # no room for the band
            self._aimed[key] = aimed(
                self.question, width, profile, points, weights, signed, self.truth
            )
        return self._aimed[key]

    @cached_property
    def _made(self) -> dict[tuple[str, int, str, int], Alternative | None]:
        return {}

    def made(self, sketch: Sketch) -> Alternative | None:
        """Return what was sketched, with its moments at every node; None if there is no room."""
        key = (sketch.kind, sketch.option, sketch.profile, sketch.index)
        if key not in self._made:
            query = self.aimed(moments.width(sketch.index) * self.scale, sketch.profile)
            self._made[key] = None if query is None else self._make(sketch, query)
        return self._made[key]

    def _make(self, sketch: Sketch, query: Query) -> Alternative:
        kind = KINDS[sketch.kind]
        parameters = kind.options[sketch.option]
        reports = kind.build(Task(query, self.privacy, self.diameter), parameters)
        if kind.answers_all or query.dimension == 1:
            prediction = self.predict(reports)
        else:  # what a mechanism makes of a query depends on the distance alone
            line = Linear(query.profile, direction=1.0)
            on_line = kind.build(Task(line, self.privacy, self.diameter), parameters)
            s, weights = self.distances.at_nodes(query), self.nodes[1]
            mean, variance = on_line.mean(s), on_line.variance(s)
            prediction = predicted(mean, variance, self.truth, weights, self.prior.size)
        return Alternative(
            sketch.kind, query, self.privacy, parameters, reports, prediction,
            kind.keeps, kind.answers_all,
        )  # fmt: skip

    def exact(self, found: Alternative) -> Alternative:
        """Return an alternative with its mechanism, and its moments at every node of the prior."""
        if found.kind not in KINDS or found.answers_all or not self._on_distance:
            return found
        assert isinstance(found.query, Query)
        task = Task(found.query, self.privacy, self.diameter)
        reports = KINDS[found.kind].build(task, found.parameters)
        return replace(found, reports=reports, prediction=self.predict(reports))

    @property
    def _on_distance(self) -> bool:
        """Whether a query is first predicted on joined distances."""
        return len(self.nodes[1]) > _FEW

    @cached_property
    def _alternatives(self) -> dict[str, list[Alternative]]:
        return {}

    def alternatives(self, name: str) -> list[Alternative]:
        """Return what a kind makes of a soft question, for all its parameters; [] if it refuses.

        Where the prior has many nodes they are about the signed distance only: see `exact`.
        """
        if name not in self._alternatives:
            self._alternatives[name] = list(self._of_query(name, KINDS[name]))
        return self._alternatives[name]

    @cached_property
    def _line(self) -> tuple[Query, Array, Array, Array]:
        assert isinstance(self.question, SoftQuestion)
        return self.distances.joined(self.question.query)

    def _of_query(self, name: str, kind: Kind) -> Iterator[Alternative]:
        assert isinstance(self.question, SoftQuestion)
        query, (points, weights), truth = self.question.query, self.nodes, self.truth
        asked = query
        if self._on_distance and not kind.answers_all:
            asked, points, truth, weights = self._line
        task = Task(asked, self.privacy, self.diameter)
        for parameters in kind.options:
            try:
                reports = kind.build(task, parameters)
                mean, variance = reports.mean(points), reports.variance(points)
            except UnsupportedError:
                return
            prediction = predicted(mean, variance, truth, weights, self.prior.size)
            yield Alternative(
                name, query, self.privacy, parameters, reports, prediction,
                kind.keeps, kind.answers_all,
            )  # fmt: skip
