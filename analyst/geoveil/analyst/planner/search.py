"""Search for ways to ask: first coarsely for bands, then exactly, computing each result once.

Stages are functions of a problem; results for one number of people serve for others, which only
change bias² + noise/n.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import product
from types import MappingProxyType

import numpy as np

from geoveil.analyst.planner.candidates import (
    KINDS,
    POINTS,
    Kind,
    Parameters,
    PointReports,
    ReportLaw,
)
from geoveil.analyst.planner.coarse import (
    NARROWEST,
    STANDARD,
    WIDEST,
    Band,
    CoarseCandidate,
    aimed,
    interpolated,
    joined,
    merged,
    placed,
    table,
    width,
)
from geoveil.analyst.planner.prediction import ErrorOf, Prediction, predicted
from geoveil.analyst.planner.problem import HardQuestion, Nodes, PlanningProblem, SoftQuestion
from geoveil.gp import (
    PROFILES,
    Array,
    EnclosedProfile,
    Linear,
    ParameterError,
    PlanarLaplace,
    Query,
    Radial,
    SmoothedRegion,
    UnsupportedError,
)

_STRIDES = (8, 4, 2, 1)
"""The search tries widths an octave apart, then their neighbours, down to a quarter octave."""
_FEW = 1_000
"""The number of nodes up to which none are merged."""
_PER_NEAR, _BEND = 40, 4.0
"""Joined distances: how many per shortest length at 0, and where their spacing begins to grow."""
_BANDWIDTHS = (0.5, 0.7, 1.0, 1.4, 2.0, 2.8)
"""Bandwidths that smooth regions estimated from perturbed points, in noise scales."""


@dataclass(frozen=True)
class Alternative:
    """One way to ask, with its expected error."""

    kind: str
    """A name in `KINDS`."""
    query: Query | SmoothedRegion
    """The soft query."""
    parameters: Parameters
    reports: ReportLaw
    """The mechanism; for a value campaign with its estimator."""
    prediction: Prediction

    def __post_init__(self) -> None:
        # Predictions are often made of other reports with the same moments.
        prediction = self.prediction.within(self.reports.limits)
        object.__setattr__(self, "prediction", prediction)


class Search:
    """The ways to ask that the search has evaluated for a problem.

    Args:
        problem: the problem of a hard question, for bands and regions; or of a soft one.
        widest: of the bands that are tried, as `coarse.width` takes it.
    """

    def __init__(self, problem: PlanningProblem, widest: int = WIDEST) -> None:
        self.problem = problem
        self._widest = widest
        self.coarse = cache(self._coarse)
        """(kind, option, profile, index) → a kind's reports about a band; None if it refuses."""
        self.aimed = cache(partial(aimed, problem.nodes))
        """(width, profile) → the band with the prior's hard share, if any."""
        self.made = cache(self._made)
        """Coarse candidate → the same, with its moments at every node; None without room."""
        self.asked_softly = cache(lambda name: tuple(self._of_query(name, KINDS[name])))
        """Name of a kind → its alternatives for a soft question; none if it refuses."""
        self.signed = cache(lambda query, nodes: np.ravel(query.signed_distance(nodes.points)))
        """(query, nodes) → signed distances there, which kinds share."""
        self._atoms = cache(lambda nodes: joined(problem, nodes))
        self._band = cache(self._placed)
        self._smoothed = cache(self._region)

    @property
    def hard(self) -> HardQuestion:
        """The question, which must be hard."""
        assert isinstance(self.problem.question, HardQuestion)
        return self.problem.question

    def best(self, kind: str, error: ErrorOf) -> CoarseCandidate | Alternative | None:
        """Return the best way to ask by a kind, roughly predicted; None if it serves none.

        Bands of a hard question are tried from coarse to fine.
        """
        if not isinstance(self.problem.question, HardQuestion):
            return min(self.asked_softly(kind), key=lambda a: error(a.prediction), default=None)
        options = range(len(KINDS[kind].options))
        widths = range(NARROWEST, self._widest + 1, _STRIDES[0])
        refined = []
        for profile in PROFILES:
            best = self._best(kind, profile, list(product(options, widths)), error)
            if best is not None:
                refined.append(self._refined(best, error))
        return min(refined, key=lambda c: error(c.prediction), default=None)

    def exact(self, found: CoarseCandidate | Alternative) -> Alternative | None:
        """Return the same with its moments at every node of the prior; None without room."""
        if isinstance(found, CoarseCandidate):
            return self.made(found)
        if KINDS[found.kind].answers_all or not self._joins:
            return found
        assert isinstance(found.query, Query)
        build = KINDS[found.kind].build
        reports = build(found.query, self.problem.privacy, found.parameters)
        return replace(found, reports=reports, prediction=self.problem.predict(reports))

    # Bands, coarsely.

    def _best(
        self, kind: str, profile: str, tried: Sequence[tuple[int, int]], error: ErrorOf
    ) -> CoarseCandidate | None:
        """Return the best of pairs of an option and a width, if the kind serves any."""
        candidates = (self.coarse(kind, option, profile, index) for option, index in tried)
        return min(
            (candidate for candidate in candidates if candidate is not None),
            key=lambda c: error(c.prediction),
            default=None,
        )

    def _refined(self, best: CoarseCandidate, error: ErrorOf) -> CoarseCandidate:
        """Return the best of a band, its neighbours, and theirs, as long as the error falls."""
        for stride in _STRIDES[1:]:
            improved = True
            while improved:
                around = [
                    (option, index)
                    for option, index in (
                        (best.option - 1, best.index),
                        (best.option + 1, best.index),
                        (best.option, best.index - stride),
                        (best.option, best.index + stride),
                    )
                    if option in range(len(KINDS[best.kind].options))
                    and NARROWEST <= index <= self._widest
                ]
                near = self._best(best.kind, best.profile, around, error) or best
                improved = error(near.prediction) < error(best.prediction)
                best = near if improved else best
        return best

    def _coarse(self, name: str, option: int, profile: str, index: int) -> CoarseCandidate | None:
        problem, kind = self.problem, KINDS[name]
        if kind.answers_all and self.hard.dimension > 1:
            return None  # read from smoothed regions: see `regions`
        if kind.answers_all and self.hard.boundaries > 1:
            bands = self._band(profile, index)
            if bands is None or bands[0].query is None:
                return None
            try:
                reports = kind.build(bands[0].query, problem.privacy, kind.options[option])
                at = [band.atoms.points for band in bands]
                moments = [(reports.mean(x), reports.variance(x)) for x in at]
            except UnsupportedError:
                return None
        else:
            standard = problem.standard if kind.has_slack else STANDARD
            tabulated = table(name, option, profile, index, standard)
            bands = None if tabulated is None else self._band(profile, index)
            if bands is None or tabulated is None:
                return None
            moments = []
            for band in bands:
                bias, variance = interpolated(band.signed / problem.scale, index, tabulated)
                moments.append((bias + np.asarray(band.profile.value(band.signed)), variance))
        return CoarseCandidate(name, option, profile, index, self._predicted(bands, moments))

    def _predicted(
        self, bands: Sequence[Band], moments: Sequence[tuple[Array, Array]]
    ) -> Prediction:
        """Return the prediction from means and variances among the people of each law."""
        prediction, *scenarios = (
            predicted(mean, variance, of.truth, of.weights, nodes.prior.size, of.again)
            for (mean, variance), of, nodes in zip(
                moments, (band.atoms for band in bands), self._laws, strict=True
            )
        )
        return replace(prediction, scenarios=tuple(scenarios))

    @property
    def _laws(self) -> tuple[Nodes, ...]:
        """The nodes of the prior, then those of its scenarios."""
        return (self.problem.nodes, *self.problem.scenarios)

    def _placed(self, profile: str, index: int) -> tuple[Band, ...] | None:
        """Return a band among the people of the prior, then among those of each scenario."""
        expected, *others = map(self._atoms, self._laws)
        band = placed(self.problem, expected, profile, index)
        if band is None:
            return None
        return (band, *(replace(band, atoms=atoms) for atoms in others))

    # Bands, exactly.

    def _made(self, found: CoarseCandidate) -> Alternative | None:
        problem, kind = self.problem, KINDS[found.kind]
        query = self.aimed(width(found.index) * problem.scale, found.profile)
        if query is None:
            return None
        parameters = kind.options[found.option]
        reports = kind.build(query, problem.privacy, parameters)
        if kind.answers_all or query.dimension == 1:
            prediction = problem.predict(reports)
        else:  # what a mechanism makes of a query depends on the signed distance alone
            line = Linear(query.profile, direction=1.0)
            on_line = kind.build(line, problem.privacy, parameters)

            def moments(nodes: Nodes) -> tuple[Array, Array]:
                s = self.signed(query, nodes)
                return on_line.mean(s), on_line.variance(s)

            prediction = problem.prediction(moments)
        return Alternative(found.kind, query, parameters, reports, prediction)

    # A soft question, unchanged.

    def _of_query(self, name: str, kind: Kind) -> Iterator[Alternative]:
        """Yield a kind's alternatives for a soft question, one for each of its parameters.

        If the prior has many nodes, they are about the signed distance only: see `exact`.
        """
        problem, nodes = self.problem, self.problem.nodes
        assert isinstance(problem.question, SoftQuestion)
        query = problem.question.query
        local_query, points, truth, weights = query, nodes.points, nodes.truth, nodes.weights
        if self._joins and not kind.answers_all:
            local_query, points, truth, weights = self._line()
        for parameters in kind.options:
            try:
                reports = kind.build(local_query, problem.privacy, parameters)
                if local_query is query:
                    prediction = problem.predict(reports)
                else:
                    mean, variance = reports.mean(points), reports.variance(points)
                    prediction = predicted(mean, variance, truth, weights, problem.prior.size)
            except UnsupportedError:
                return
            yield Alternative(name, query, parameters, reports, prediction)

    @property
    def _joins(self) -> bool:
        """Whether a query is first predicted on joined signed distances."""
        return len(self.problem.nodes.weights) > _FEW

    def _line(self) -> tuple[Query, Array, Array, Array]:
        """Return a query whose signed distance is the point, with points, their truth and weights.

        A mechanism's reports on a query depend on the signed distance alone; distances within
        a fraction of the shortest length of each other are merged at their mean.
        """
        assert isinstance(self.problem.question, SoftQuestion)
        query = self.problem.question.query
        s, weights = self.signed(query, self.problem.nodes), self.problem.nodes.weights
        near = min(self.problem.scale, query.profile.length_scale)
        place = np.rint(np.arcsinh(s / (_BEND * near)) * (_BEND * _PER_NEAR))
        means, mass = merged(place, s[:, None], weights)
        points, profile = means[:, 0], query.profile
        ray = isinstance(profile, EnclosedProfile) and profile.ray
        line = Radial(profile, center=0.0) if ray else Linear(profile, direction=1.0)
        return line, points, line.value(points), mass

    # Regions of the plane, read from perturbed points and smoothed by a Gaussian.

    def regions(self, error: ErrorOf, hopeless: float) -> Iterator[Alternative]:
        """Yield value campaigns for a hard region of the plane, smoothed by a Gaussian.

        It goes from a bandwidth of 0.7 noise scales to either side, as long as the error falls. If
        the first error exceeds `hopeless`, the others, which take a second each, are skipped.
        """
        question = self.problem.question
        if not isinstance(question, HardQuestion) or question.dimension != 2:
            return
        middle = _BANDWIDTHS.index(0.7)
        best = math.inf
        for side in (range(middle, len(_BANDWIDTHS)), range(middle - 1, -1, -1)):
            improved = 0
            for i in side:
                smoothed = self._smoothed(_BANDWIDTHS[i])
                if smoothed is None:
                    continue
                yield smoothed
                if error(smoothed.prediction) > hopeless:
                    return
                if error(smoothed.prediction) >= best:
                    break
                best = error(smoothed.prediction)
                improved += 1
            if improved > 1:
                break

    def _region(self, factor: float) -> Alternative | None:
        problem, bandwidth = self.problem, factor * self.problem.scale
        mechanism = PlanarLaplace(problem.privacy, 2)
        try:
            region = self.hard.soft(bandwidth, "smoothstep", self.hard.still)
            smooth = SmoothedRegion(region, bandwidth)
            reports = PointReports(mechanism, mechanism.estimator(smooth, debias=True))
            prediction = problem.predict(reports)
        except (UnsupportedError, ParameterError):
            return None  # no room for the band, no bounds, or too large a raster
        parameters = MappingProxyType({"bandwidth": smooth.bandwidth})
        return Alternative(POINTS, smooth, parameters, reports, prediction)
