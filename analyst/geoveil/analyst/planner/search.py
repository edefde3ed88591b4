"""Search for ways to ask: first coarsely for bands, then exactly, computing each result once.

Stages are functions of a problem; what is tried for one number of people stays known for others, as
these are a matter of bias² + noise/n.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from geoveil.analyst.hard_question import difference
from geoveil.analyst.planner.band_placement import aimed, at_the_boundary
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
    evenly_spread,
    interpolated,
    joined,
    least_noise,
    placed,
    table,
    width,
)
from geoveil.analyst.planner.prediction import Prediction, predicted
from geoveil.analyst.planner.problem import Nodes, PlanningProblem
from geoveil.analyst.planner.question import HardQuestion, HardRange, HardThreshold, SoftQuestion
from geoveil.gp import (
    PROFILES,
    EnclosedProfile,
    GeoPrivacy,
    Linear,
    ParameterError,
    PlanarLaplace,
    Query,
    Radial,
    SmoothedRegion,
    SoftIndicator,
    SoftStep,
    UnsupportedError,
)

Array = NDArray[np.float64]

_STRIDES = (4, 2, 1)
"""The search tries widths an octave apart, then their neighbours, down to a quarter octave."""
_FEW = 1_000
"""Nodes up to which none are joined."""
_PER_NEAR, _BEND = 40, 4.0
"""Joined distances: how many per shortest length at 0, and where their spacing begins to grow."""
_CERTAIN = 1.02
"""Factor by which a bound must exceed another error; moments in tables are off by 1 %."""
_UNBIASED = 1e-6
"""The largest difference of a report's mean from f by rounding and interpolation."""
_BANDWIDTHS = (0.5, 0.7, 1.0, 1.4, 2.0, 2.8)
"""Bandwidths that smooth regions estimated from perturbed points, in noise scales."""


@dataclass(frozen=True)
class Alternative:
    """One way to ask, with the error to expect."""

    kind: str
    """A name in `KINDS`."""
    query: Query | SmoothedRegion
    """The soft query."""
    privacy: GeoPrivacy
    """The guarantee of each report."""
    parameters: Parameters
    reports: ReportLaw
    """The mechanism; for a value campaign with its estimator."""
    prediction: Prediction
    answers_all: bool = False
    """Whether one report answers every question."""

    def __post_init__(self) -> None:
        # Predictions are often made of other reports with the same moments.
        prediction = self.prediction.within(self.reports.limits)
        object.__setattr__(self, "prediction", prediction)


class Search:
    """The ways to ask that the search has evaluated for a problem.

    Args:
        problem: of a hard question, for bands and regions; or of a soft one.
        widest: of the bands that are tried, as `coarse.width` takes it.
    """

    def __init__(self, problem: PlanningProblem, widest: int = WIDEST) -> None:
        self.problem = problem
        self._widest = widest
        self.coarse = cache(self._coarse)
        """(kind, option, profile, index) → a kind's reports about a band; None if it refuses."""
        self.floor = cache(self._floor)
        """(profile, index, part, β) → the least noise of reports about a band; None without room.
See `least_noise`."""
        self.aimed = cache(self._aimed)
        """(width, profile) → the band with the prior's hard share, if any."""
        self.made = cache(self._made)
        """Coarse candidate → the same, with its moments at every node; None without room."""
        self.asked_softly = cache(self._asked_softly)
        """Name of a kind → its alternatives for a soft question; none if it refuses."""
        self.signed = cache(self._signed)
        """(query, nodes) → signed distances there, which kinds share."""
        self._atoms = cache(lambda nodes: joined(problem, nodes))
        self._noiseless = cache(self._without_noise)
        self._steepness = cache(self._steepest_nearby)
        self._band = cache(self._placed)
        self._smoothed = cache(self._region)

    @property
    def hard(self) -> HardQuestion:
        """The question, which must be hard."""
        assert isinstance(self.problem.question, HardQuestion)
        return self.problem.question

    # Bands, coarsely.

    def best_band(self, kind: str, error: Callable[[Prediction], float]) -> CoarseCandidate | None:
        """Return the best band for a kind, from coarse to fine; None if it refuses all.

        Args:
            kind: a key of `KINDS`.
            error: what is to be least.
        """
        leading: list[CoarseCandidate] = []
        for profile in PROFILES:
            ramps = any(candidate.profile == "linear" for candidate in leading)
            first: Sequence[int] = range(NARROWEST, self._widest + 1, _STRIDES[0])
            alone = not self.problem.scenarios and self.problem.nodes.again is None
            alone = alone and self.problem.prior.assumed is None
            if not ramps and profile != "linear" and alone:  # noise before f, in closed form
                best = self._best_width(profile, error)
                first = (best,) if self.coarse(kind, 0, profile, best) else first
            tried = [(o, i) for o in range(len(KINDS[kind].options)) for i in first]
            candidates = list(self._near_the_best(kind, profile, tried, error))
            if candidates:
                leading.append(min(candidates, key=lambda c: error(c.prediction)))
        refined = (self._refined(c, error) for c in leading)
        return min(refined, key=lambda c: error(c.prediction), default=None)

    def _near_the_best(
        self,
        kind: str,
        profile: str,
        tried: Sequence[tuple[int, int]],
        error: Callable[[Prediction], float],
        least: float = math.inf,
    ) -> Iterator[CoarseCandidate]:
        """Yield candidates for options and widths, except those that can't be the best.

        Args:
            kind: a key of `KINDS`.
            profile: a name in `PROFILES`.
            tried: pairs of an option and a width.
            error: what is to be least.
            least: error of a candidate that was found before.
        """
        floors = {
            (option, index): self._least_error(kind, option, profile, index, error)
            for option, index in tried
        }
        candidates: dict[tuple[int, int], CoarseCandidate] = {}
        for pair in sorted(tried, key=floors.__getitem__):
            if floors[pair] > _CERTAIN * least:
                break
            option, index = pair
            candidate = self.coarse(kind, option, profile, index)
            if candidate is not None:
                candidates[pair] = candidate
                least = min(least, error(candidate.prediction))
        return (candidates[pair] for pair in tried if pair in candidates)

    def _least_error(
        self,
        kind: str,
        option: int,
        profile: str,
        index: int,
        error: Callable[[Prediction], float],
    ) -> float:
        """Return a lower bound of the error of a kind's reports about a band; 0 without one."""
        family = KINDS[kind]
        several = family.answers_all and (self.hard.dimension > 1 or self.hard.boundaries > 1)
        if several or family.has_slack:
            return 0.0
        least = self.floor(profile, index, *least_noise(kind, option, profile))
        return math.inf if least is None else error(least)

    def _floor(self, profile: str, index: int, part: float, beta: float) -> Prediction | None:
        """Return the prediction for reports about a band with the least possible noise."""
        noiseless = self._noiseless(profile, index)
        if noiseless is None:
            return None
        noise, *others = (part * steep for steep in self._steepness(profile, index, beta))
        scenarios = zip(noiseless.scenarios, others, strict=False)  # none if the bias is assumed
        return replace(
            noiseless,
            noise=noise,
            scenarios=tuple(replace(p, noise=noise) for p, noise in scenarios),
        )

    def _without_noise(self, profile: str, index: int) -> Prediction | None:
        """Return the prediction for the soft share itself; None without room for the band."""
        bands = self._band(profile, index)
        if bands is None:
            return None
        means = [np.asarray(band.profile.value(band.signed)) for band in bands]
        return self._predicted(bands, [(mean, np.zeros_like(mean)) for mean in means])

    def _steepest_nearby(self, profile: str, index: int, beta: float) -> list[float]:
        """Return the mean of (|φ'(t)| e^{−β|s − t|})² among the people of each law.

        In noise scales; t is the point of the band next to s, or its centre, if that is more.
        """
        bands = self._band(profile, index)
        assert bands is not None
        squares = []
        for band in bands:
            shape, scale = band.profile, self.problem.scale
            assert isinstance(shape, SoftStep)
            away = np.abs(band.signed)
            within = np.minimum(away, shape.width / 2)
            beside = np.abs(shape.slope(within)) * np.exp(beta / scale * (within - away))
            steep = np.maximum(beside, shape.lipschitz * np.exp(-beta / scale * away))
            squares.append(float(np.sum(band.weights * np.square(steep * scale))))
        return squares

    def _best_width(self, profile: str, error: Callable[[Prediction], float]) -> int:
        """Return the best width by a closed form, for noise before the step."""
        size = self.problem.prior.size
        widths = range(NARROWEST, self._widest + 1)
        return min(widths, key=lambda index: error(evenly_spread(profile, index, size)))

    def _refined(
        self, best: CoarseCandidate, error: Callable[[Prediction], float]
    ) -> CoarseCandidate:
        options = range(len(KINDS[best.kind].options))
        for stride in _STRIDES[1:]:
            improved = True
            while improved:
                least = error(best.prediction)
                around = [
                    (option, index)
                    for option in (best.option - 1, best.option, best.option + 1)
                    for index in (best.index - stride, best.index, best.index + stride)
                    if option in options and NARROWEST <= index <= self._widest
                ]
                candidates = self._near_the_best(best.kind, best.profile, around, error, least)
                near = [c for c in candidates if error(c.prediction) < least]
                improved = bool(near)
                best = min(near, key=lambda c: error(c.prediction), default=best)
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
                moments = [(reports.mean(b.points), reports.variance(b.points)) for b in bands]
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
        if problem.prior.assumed is not None and bands[0].query is not None:
            answer = np.asarray(bands[0].query.value(bands[0].points)).ravel()
            if np.abs(moments[0][0] - answer).max() > _UNBIASED:
                return None  # what is assumed of people bounds how far f is off, and no more
        return CoarseCandidate(name, option, profile, index, self._predicted(bands, moments))

    def _predicted(
        self, bands: Sequence[Band], moments: Sequence[tuple[Array, Array]]
    ) -> Prediction:
        """Return the prediction from means and variances among the people of each law."""
        prediction, *scenarios = (
            predicted(mean, variance, band.truth, band.weights, nodes.prior.size, band.again)
            for (mean, variance), band, nodes in zip(moments, bands, self._laws, strict=True)
        )
        if scenarios:
            prediction = replace(prediction, scenarios=tuple(scenarios))
        return self.believed(bands[0].query, prediction)

    @property
    def _laws(self) -> tuple[Nodes, ...]:
        """The nodes of the prior, then those of its scenarios."""
        return (self.problem.nodes, *self.problem.scenarios)

    def _placed(self, profile: str, index: int) -> tuple[Band, ...] | None:
        """Return a band among the people of the prior, then among those of each scenario."""
        expected, *others = map(self._atoms, self._laws)
        band = placed(self.problem, expected, profile, index)
        return None if band is None else (band, *map(band.among, others))

    # Bands, exactly.

    def _aimed(self, wide: float, profile: str) -> SoftIndicator | None:
        nodes = self.problem.nodes
        if nodes.prior.assumed is not None:
            return at_the_boundary(self.hard, wide, profile)
        signed = None if self.hard.dimension == 1 else nodes.signed
        return aimed(self.hard, wide, profile, nodes.points, nodes.weights, signed, nodes.truth)

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
        return self._alternative(found.kind, query, parameters, reports, prediction)

    def _alternative(
        self,
        name: str,
        query: Query,
        parameters: Parameters,
        reports: ReportLaw,
        prediction: Prediction,
    ) -> Alternative:
        kind, privacy = KINDS[name], self.problem.privacy
        return Alternative(
            name, query, privacy, parameters, reports, self.believed(query, prediction),
            kind.answers_all,
        )  # fmt: skip

    def believed(self, query: Query | None, prediction: Prediction) -> Prediction:
        """Return a prediction whose bias follows the assumptions: see `Prior.assumed`."""
        question, people = self.problem.question, self.problem.prior.assumed
        if people is None or not isinstance(question, (HardThreshold, HardRange)) or query is None:
            return prediction
        return prediction.off_by(difference(query, question.ends, people))

    # A soft question, as it is.

    def _asked_softly(self, name: str) -> tuple[Alternative, ...]:
        """Return a kind's alternatives for a soft question, for all its parameters.

        Where the prior has many nodes they are about the signed distance only: see `exact`.
        """
        return tuple(self._of_query(name, KINDS[name]))

    def _of_query(self, name: str, kind: Kind) -> Iterator[Alternative]:
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
            yield self._alternative(name, query, parameters, reports, prediction)

    def exact(self, found: Alternative) -> Alternative:
        """Return an alternative with its mechanism, and its moments at every node of the prior."""
        if found.answers_all or not self._joins:
            return found
        assert isinstance(found.query, Query)
        build = KINDS[found.kind].build
        reports = build(found.query, self.problem.privacy, found.parameters)
        return replace(found, reports=reports, prediction=self.problem.predict(reports))

    @property
    def _joins(self) -> bool:
        """Whether a query is first predicted on joined signed distances."""
        return len(self.problem.nodes.weights) > _FEW

    def _line(self) -> tuple[Query, Array, Array, Array]:
        """Return a query whose signed distance is the point, with points, their truth and weights.

        What a mechanism makes of a query depends on the signed distance alone; those that lie
        within a fraction of the shortest length are joined at their mean.
        """
        assert isinstance(self.problem.question, SoftQuestion)
        query = self.problem.question.query
        s, weights = self.signed(query, self.problem.nodes), self.problem.nodes.weights
        near = min(self.problem.scale, query.profile.length_scale)
        place = np.rint(np.arcsinh(s / (_BEND * near)) * (_BEND * _PER_NEAR))
        _, index = np.unique(place, return_inverse=True)
        mass = np.asarray(np.bincount(index, weights), np.float64)
        used = mass > 0
        points = np.bincount(index, weights * s)[used] / mass[used]
        profile = query.profile
        ray = isinstance(profile, EnclosedProfile) and profile.ray
        line = Radial(profile, center=0.0) if ray else Linear(profile, direction=1.0)
        return line, points, line.value(points), mass[used]

    # Regions of the plane, read from perturbed points and smoothed by a Gaussian.

    def regions(
        self, error: Callable[[Prediction], float], hopeless: float
    ) -> Iterator[Alternative]:
        """Yield value campaigns for a hard region of the plane, smoothed by a Gaussian.

        From a bandwidth of 0.7 noise scales on to either side, as long as the error falls. Where
        the first one's exceeds `hopeless`, the others, which take a second each, are not tried.
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
            region = self.hard.soft(bandwidth, "smoothstep", (0.0,))
            smooth = SmoothedRegion(region, bandwidth)
            reports = PointReports(mechanism, mechanism.estimator(smooth, debias=True))
            prediction = problem.predict(reports)
        except (UnsupportedError, ParameterError):
            return None  # no room for the band, no bounds, or too large a raster
        parameters = MappingProxyType({"bandwidth": smooth.bandwidth})
        return Alternative(
            POINTS, smooth, problem.privacy, parameters, reports, prediction, answers_all=True
        )

    def _signed(self, query: Query, nodes: Nodes) -> Array:
        return np.asarray(query.signed_distance(nodes.points)).ravel()
