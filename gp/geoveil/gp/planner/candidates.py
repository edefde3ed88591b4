"""Candidates: what a kind makes of a query, and the error that is to be expected of it."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
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
from geoveil.gp.planner import moments
from geoveil.gp.planner.aiming import aimed
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
from geoveil.gp.planner.lower_bound import LowerBound, lower_bound
from geoveil.gp.planner.prediction import Prediction, predicted
from geoveil.gp.planner.prior import Prior
from geoveil.gp.planner.question import HardQuestion, Question, SoftQuestion
from geoveil.gp.planner.screening import Screening, Sketch
from geoveil.gp.privacy import GeoPrivacy
from geoveil.gp.queries.base import Query
from geoveil.gp.queries.indicator import SoftIndicator
from geoveil.gp.queries.projected import Linear

Array = NDArray[np.float64]

_FAR = 60.0
"""Noise scales from a landmark up to which quadrature nodes are dense."""
_MESH = np.sinh(np.linspace(-np.arcsinh(4 * _FAR), np.arcsinh(4 * _FAR), 241)) / 4
_KEPT = ("nodes", "truth", "_distances")
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
_FEW = 1_000
"""Nodes up to which none are joined."""
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

    def under(self, privacy: GeoPrivacy) -> "Survey":
        """Return the same question and prior under another guarantee, with all that stays true."""
        other = Survey(self.question, privacy, self.prior, self.diameter)
        if not self.question.landmarks:  # else nodes may lie elsewhere
            kept = {name: self.__dict__[name] for name in _KEPT if name in self.__dict__}
            other.__dict__.update(kept)
        return other

    def signed(self, width: float) -> Array:
        """Return the signed distances of the nodes to the boundary of a hard region.

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
    def screening(self) -> Screening:
        """Bands for a hard question, and what is known of them."""
        return Screening(self)

    @cached_property
    def _aimed(self) -> dict[tuple[float, str], SoftIndicator | None]:
        return {}

    def aimed(self, width: float, step: str) -> SoftIndicator | None:
        """Return the band of a width whose soft share of the prior is the hard one; see `aimed`."""
        assert isinstance(self.question, HardQuestion)
        key = (width, step)
        if key not in self._aimed:
            points, weights = self.nodes
            try:
                signed = None if self.question.dimension == 1 else self.signed(width)
            except ParameterError:
                return None  # no room for the band
            self._aimed[key] = aimed(
                self.question, width, step, points, weights, signed, self.truth
            )
        return self._aimed[key]

    @cached_property
    def _made(self) -> dict[tuple[str, int, str, int], Alternative | None]:
        return {}

    def made(self, sketch: Sketch) -> Alternative | None:
        """Return what was sketched, with its moments at every node; None if there is no room."""
        key = (sketch.kind, sketch.option, sketch.step, sketch.index)
        if key not in self._made:
            query = self.aimed(moments.width(sketch.index) * self.scale, sketch.step)
            self._made[key] = None if query is None else self._make(sketch, query)
        return self._made[key]

    def _make(self, sketch: Sketch, query: Query) -> Alternative:
        kind = KINDS[sketch.kind]
        parameters = kind.options[sketch.option]
        reports = kind.build(Task(query, self.privacy, self.diameter), parameters)
        if kind.answers_all or query.dimension == 1:
            prediction = self.predict(reports)
        else:  # what a mechanism makes of a query depends on the scalar alone
            line = Linear(query.profile, direction=1.0)
            on_line = kind.build(Task(line, self.privacy, self.diameter), parameters)
            s, weights = self._scalars(query), self.nodes[1]
            mean, variance = on_line.mean(s), on_line.variance(s)
            prediction = predicted(mean, variance, self.truth, weights, self.prior.size)
        return Alternative(
            sketch.kind, query, self.privacy, parameters, reports, prediction,
            kind.keeps, kind.answers_all,
        )  # fmt: skip

    @cached_property
    def _known_scalars(self) -> dict[Query, Array]:
        return {}

    def _scalars(self, query: Query) -> Array:
        """Return the scalar of a query at every node: kinds, bounds and channels share bands."""
        if query not in self._known_scalars:
            self._known_scalars[query] = np.asarray(query.scalar(self.nodes[0])).ravel()
        return self._known_scalars[query]

    def exact(self, found: Alternative) -> Alternative:
        """Return an alternative with its mechanism, and its moments at every node of the prior."""
        if found.kind not in KINDS or found.answers_all or not self._on_scalar:
            return found
        assert isinstance(found.query, Query)
        task = Task(found.query, self.privacy, self.diameter)
        reports = KINDS[found.kind].build(task, found.parameters)
        return replace(found, reports=reports, prediction=self.predict(reports))

    @property
    def _on_scalar(self) -> bool:
        """Whether a query is first predicted on joined scalars."""
        return len(self.nodes[1]) > _FEW

    def _on_line(self, query: Query) -> tuple[Query, Array, Array, Array]:
        """Return a query whose scalar is the point, with scalars, their truth and weights.

        What a mechanism makes of a query depends on the scalar alone; those that lie within a
        fraction of the shortest length are joined at their mean.
        """
        s, weights = self._scalars(query), self.nodes[1]
        near = min(self.scale, query.profile.feature)
        place = np.rint(np.arcsinh(s / (_BEND * near)) * (_BEND * _PER_NEAR))
        _, index = np.unique(place, return_inverse=True)
        mass = np.asarray(np.bincount(index, weights), np.float64)
        used = mass > 0
        joined = np.bincount(index, weights * s)[used] / mass[used]
        line = Linear(query.profile, direction=1.0)
        return line, joined, line.value(joined), mass[used]

    @cached_property
    def _alternatives(self) -> dict[str, list[Alternative]]:
        return {}

    def alternatives(self, name: str) -> list[Alternative]:
        """Return what a kind makes of a soft question, for all its parameters; [] if it refuses.

        Where the prior has many nodes they are about the scalar only: see `exact`.
        """
        if name not in self._alternatives:
            self._alternatives[name] = list(self._of_query(name, KINDS[name]))
        return self._alternatives[name]

    @cached_property
    def _line(self) -> tuple[Query, Array, Array, Array]:
        assert isinstance(self.question, SoftQuestion)
        return self._on_line(self.question.query)

    def _of_query(self, name: str, kind: Kind) -> Iterator[Alternative]:
        assert isinstance(self.question, SoftQuestion)
        query, (points, weights), truth = self.question.query, self.nodes, self.truth
        asked = query
        if self._on_scalar and not kind.answers_all:
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

    def bands_like(self, query: Query) -> list[Query]:
        """Return a query, or for a hard question the bands about as wide that suit a channel."""
        if not isinstance(self.question, HardQuestion) or not isinstance(query, SoftIndicator):
            return [query]
        bands = (self.aimed(f * query.width, "smoothstep") for f in _CHANNEL_WIDTHS)
        return [band for band in bands if band is not None]

    def channels(self, queries: Iterable[Query]) -> Iterator[Alternative]:
        """Yield optimal channels for queries; nothing for those that have none."""
        for candidate in queries:
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
        s, weights = self._scalars(query), self.nodes[1]
        low, high = variation(query.profile)
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

    def lower_bound(self, query: Query, nodes: int = 32, *, quick: bool = False) -> LowerBound:
        """Return what no unbiased report about the scalar of a query can beat; see `Plan`.

        Raises:
            UnsupportedError: if nobody is near where the query varies, or the solver fails.
        """
        scalars, share = self.scalars_near(query)
        found = lower_bound(query, self.privacy, scalars, nodes=nodes, quick=quick)
        return replace(found, value=share * found.value, attained=share * found.attained)

    def regions(
        self, error: Callable[[Prediction], float], hopeless: float
    ) -> Iterator[Alternative]:
        """Yield value campaigns for a hard region of the plane, smoothed by a Gaussian.

        From a bandwidth of 0.7 noise scales on to either side, as long as the error falls. Where
        the first one's exceeds `hopeless`, the others, which take a second each, are not tried.
        """
        if not isinstance(self.question, HardQuestion) or self.question.dimension != 2:
            return
        middle = _BANDWIDTHS.index(0.7)
        best = math.inf
        for side in (range(middle, len(_BANDWIDTHS)), range(middle - 1, -1, -1)):
            improved = 0
            for i in side:
                found = self._region(_BANDWIDTHS[i])
                if found is None:
                    continue
                yield found
                if error(found.prediction) > hopeless:
                    return
                if error(found.prediction) >= best:
                    break
                best = error(found.prediction)
                improved += 1
            if improved > 1:
                break

    @cached_property
    def _regions(self) -> dict[float, Alternative | None]:
        return {}

    def _region(self, factor: float) -> Alternative | None:
        if factor not in self._regions:
            self._regions[factor] = self._smoothed(factor)
        return self._regions[factor]

    def _smoothed(self, factor: float) -> Alternative | None:
        assert isinstance(self.question, HardQuestion)
        mechanism = PlanarLaplace(self.privacy, 2)
        try:
            region = self.question.soft(factor * self.scale, "smoothstep", (0.0,))
            smooth = SmoothedRegion(region, factor * self.scale)
            reports = PointReports(mechanism, mechanism.estimator(smooth, debias=True))
            prediction = self.predict(reports)
        except (UnsupportedError, ParameterError):
            return None  # no room for the band, no bounds, or too large a raster
        parameters = MappingProxyType({"bandwidth": smooth.bandwidth})
        return Alternative(
            POINTS, smooth, self.privacy, parameters, reports, prediction, answers_all=True
        )
