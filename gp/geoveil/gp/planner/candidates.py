"""Candidates: what a kind makes of a query, and the error that is to be expected of it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from geoveil.gp.deconvolution import SmoothedRegion
from geoveil.gp.errors import ParameterError, UnsupportedError
from geoveil.gp.mechanisms.channel import LinearProgramMechanism
from geoveil.gp.mechanisms.channel_prior import ScalarPrior, variation
from geoveil.gp.mechanisms.planar import PlanarLaplace
from geoveil.gp.planner.aiming import aimed, stand_ins
from geoveil.gp.planner.kinds import (
    CHANNEL,
    KINDS,
    POINTS,
    Kind,
    Parameters,
    PointReports,
    Reports,
    Task,
)
from geoveil.gp.planner.prediction import Prediction, predicted
from geoveil.gp.planner.prior import Prior
from geoveil.gp.planner.question import HardQuestion, Question, SoftQuestion
from geoveil.gp.privacy import GeoPrivacy
from geoveil.gp.queries.base import Query
from geoveil.gp.queries.indicator import SoftIndicator
from geoveil.gp.queries.projected import Linear

Array = NDArray[np.float64]

_FAR = 60.0
"""Noise scales from a landmark up to which quadrature nodes are dense."""
_MESH = np.sinh(np.linspace(-np.arcsinh(4 * _FAR), np.arcsinh(4 * _FAR), 241)) / 4
_NEIGHBOURS = (2**-0.25, 2**0.25)
_CHANNEL_WIDTHS = (2**-0.5, 1.0)
"""Bands for which a channel is made, in widths of the best band of the other kinds: it needs no
more than they do."""
_CHANNEL_REACH = 14.0
_CHANNEL_CELLS = 16.0
_BOUND_REACH = 6.0
"""Noise scales from the band up to which the prior counts for a bound, or for a channel; beyond, a
channel counts it as being there."""
_PER_NEAR, _BEND = 40, 4.0
"""Scalars that are joined: per shortest length at 0, and where their distances begin to grow."""
_BANDWIDTHS = (0.5, 0.7, 1.0, 1.4, 2.0, 2.8)
"""Bandwidths of regions that are read from perturbed points, in noise scales."""


@dataclass(frozen=True)
class Alternative:
    """One way to ask, with the error to expect."""

    kind: str
    """A name in `KINDS`, or "LinearProgramMechanism"."""
    query: Query | SmoothedRegion
    """What is asked, softly."""
    privacy: GeoPrivacy
    """What each report promises; for a kind that does not keep it, what was asked for."""
    parameters: Parameters
    reports: Reports
    """The mechanism; for a value campaign with its estimator."""
    prediction: Prediction
    keeps: bool = True
    """Whether it keeps ε-GP, so that it may be chosen."""
    answers_all: bool = False
    """Whether one report answers every question."""


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
        breaks = [mark + self.scale * _MESH for mark in self.question.landmarks]
        return self.prior.nodes(np.concatenate(breaks).tolist() if breaks else ())

    @cached_property
    def truth(self) -> Array:
        """What each node contributes to the truth."""
        return self.question.truth(self.nodes[0])

    def predict(self, reports: Reports) -> Prediction:
        """Return the error of reports, from their exact moments at every node."""
        points, weights = self.nodes
        mean, variance = reports.mean(points), reports.variance(points)
        return predicted(mean, variance, self.truth, weights, self.prior.size)

    def exact(self, found: Alternative) -> Alternative:
        """Return an alternative with its mechanism, and its moments at every node of the prior."""
        if found.kind not in KINDS or found.answers_all or self.question.dimension == 1:
            return found
        assert isinstance(found.query, Query)
        task = Task(found.query, self.privacy, self.diameter)
        reports = KINDS[found.kind].build(task, found.parameters)
        return replace(found, reports=reports, prediction=self.predict(reports))

    def _on_line(self, query: Query) -> tuple[Query, Array, Array, Array]:
        """Return a query whose scalar is the point, with scalars, their truth and weights.

        What a mechanism makes of a query depends on the scalar alone; those that lie within a
        fraction of the shortest length are joined at their mean.
        """
        points, weights = self.nodes
        s = np.asarray(query.scalar(points)).ravel()
        near = min(self.scale, query.profile.feature)
        place = np.rint(np.arcsinh(s / (_BEND * near)) * (_BEND * _PER_NEAR))
        hard = isinstance(self.question, HardQuestion)
        key = 2 * place + (self.truth if hard else 0)
        first, index = np.unique(key, return_inverse=True)
        mass = np.asarray(np.bincount(index, weights), np.float64)
        joined = np.bincount(index, weights * s) / mass
        line = Linear(query.profile, direction=1.0)
        truth = np.mod(first, 2) if hard else line.value(joined)
        return line, joined, truth, mass

    def queries(self) -> list[Query]:
        """Return the soft queries to try."""
        if isinstance(self.question, SoftQuestion):
            return [self.question.query]
        assert isinstance(self.question, HardQuestion)
        return [q for _, _, q in stand_ins(self.question, self.scale, *self.nodes)]

    def alternatives(self, name: str, kind: Kind, query: Query) -> Iterator[Alternative]:
        """Yield what a kind makes of a query, for all its parameters; nothing if it refuses.

        In more than one dimension they are about the scalar only: see `exact`.
        """
        nodes, weights = self.nodes
        asked, points, truth = query, nodes, self.truth
        if self.question.dimension > 1 and not kind.answers_all:
            asked, points, truth, weights = self._on_line(query)
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

    def neighbours(self, found: Alternative) -> Iterator[Alternative]:
        """Yield the same kind and parameters with a band a little narrower or wider."""
        query = found.query
        if not isinstance(self.question, HardQuestion) or not isinstance(query, SoftIndicator):
            return
        kind = replace(KINDS[found.kind], options=(found.parameters,))
        for factor in _NEIGHBOURS:
            near = aimed(self.question, factor * query.width, query.step, *self.nodes)
            if near is not None:
                yield from self.alternatives(found.kind, kind, near)

    def channels(self, query: Query) -> Iterator[Alternative]:
        """Yield optimal channels for a query or, for a hard question, for bands about as wide."""
        queries: list[Query | None] = [query]
        if isinstance(self.question, HardQuestion) and isinstance(query, SoftIndicator):
            queries = [
                aimed(self.question, factor * query.width, "smoothstep", *self.nodes)
                for factor in _CHANNEL_WIDTHS
            ]
        for candidate in queries:
            if candidate is None:
                continue
            try:
                prior = self.scalars(candidate)
                reports = LinearProgramMechanism(candidate, self.privacy, prior, quick=True)
            except (UnsupportedError, ParameterError):
                continue  # too many noise scales, or no table passes the check
            none: Mapping[str, float] = MappingProxyType({})
            prediction = self.predict(reports)
            yield Alternative(CHANNEL, candidate, self.privacy, none, reports, prediction)

    def scalars(self, query: Query) -> ScalarPrior:
        """Return the law of the scalar, on a grid, with all that is far away at its ends."""
        points, weights = self.nodes
        low, high = variation(query.profile)
        s = np.asarray(query.scalar(points)).ravel()
        if low == 0:
            s = np.abs(s)
        reach = _CHANNEL_REACH * self.scale
        cell = min(self.scale, high - low) / _CHANNEL_CELLS
        grid, index = np.unique(
            np.round(np.clip(s, low - reach, high + reach) / cell), return_inverse=True
        )
        return ScalarPrior((grid * cell).tolist(), np.bincount(index, weights).tolist())

    def scalars_near(self, query: Query) -> tuple[ScalarPrior, float]:
        """Return the law of the scalar near where a query varies, and how much of the prior it is.

        Raises:
            UnsupportedError: if nobody is there.
        """
        prior = self.scalars(query)
        low, high = variation(query.profile)
        s, weights = np.array(prior.scalars), np.array(prior.weights)
        reach = _BOUND_REACH * self.scale
        near = (s >= low - reach) & (s <= high + reach)
        if not weights[near].sum() > 0:
            raise UnsupportedError(f"the prior has nobody near where {query!r} varies")
        share = float(weights[near].sum())
        return ScalarPrior(s[near].tolist(), weights[near].tolist()), share

    def regions(self) -> Iterator[Alternative]:
        """Yield value campaigns for a hard region of the plane, smoothed by a Gaussian."""
        if not isinstance(self.question, HardQuestion) or self.question.dimension != 2:
            return
        mechanism = PlanarLaplace(self.privacy, 2)
        for factor in _BANDWIDTHS:
            try:
                region = self.question.soft(factor * self.scale, "smoothstep", (0.0,))
                smooth = SmoothedRegion(region, factor * self.scale)
                reports = PointReports(mechanism, mechanism.estimator(smooth, debias=True))
                prediction = self.predict(reports)
            except (UnsupportedError, ParameterError):
                continue  # no room for the band, no bounds, or too large a raster
            parameters = MappingProxyType({"bandwidth": smooth.bandwidth})
            yield Alternative(
                POINTS, smooth, self.privacy, parameters, reports, prediction, answers_all=True
            )
