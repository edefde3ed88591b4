"""Bands for a hard question, screened: from coarse to fine, by tables of moments [MATH §8].

The prior is joined into a few thousand atoms of the distance, and the moments of every kind
are looked up in tables that all questions share. So a band costs a sum over the atoms, and one that
was tried stays known: other numbers of people are then a matter of bias² + noise/n.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from geoveil.analyst.planner.aiming import aimed, moved
from geoveil.analyst.planner.kinds import KINDS, Task
from geoveil.analyst.planner.moments import interpolated, table, width
from geoveil.analyst.planner.prediction import Prediction, predicted
from geoveil.analyst.planner.question import HardQuestion
from geoveil.gp.errors import ParameterError, UnsupportedError
from geoveil.gp.queries.indicator import PROFILES, SoftIndicator
from geoveil.gp.queries.profiles.base import Profile

if TYPE_CHECKING:
    from geoveil.analyst.planner.candidates import Survey

Array = NDArray[np.float64]

NARROWEST, WIDEST = -6, 26
"""Bands that are tried, as arguments of `moments.width`: from 0.35 to 91 noise scales."""
_STRIDES = (4, 2, 1)
"""The widths are first an octave apart; then their neighbours are tried, to a quarter of one."""
_PER_NEAR, _BEND = 40, 4.0
"""Signed distances that are joined: per shortest length at 0, and where their spacing begins to
grow."""


@dataclass(frozen=True, slots=True)
class Sketch:
    """A band and what asks about it, with the error that the tables predict."""

    kind: str
    option: int
    """Which of the kind's parameters."""
    profile: str
    index: int
    """Its width: see `moments.width`."""
    prediction: Prediction


@dataclass(frozen=True)
class _Band:
    profile: Profile
    query: SoftIndicator | None
    """In one dimension."""
    points: Array
    """Values in one dimension, else distances to the moved boundary."""
    signed: Array
    truth: Array
    weights: Array


class Screening:
    """What was found out about the bands for a survey; it remembers.

    Args:
        survey: of a hard question.
    """

    def __init__(self, survey: "Survey") -> None:
        assert isinstance(survey.question, HardQuestion)
        self._survey, self._question = survey, survey.question
        self._bands: dict[tuple[str, int], _Band | None] = {}
        self._sketches: dict[tuple[str, int, str, int], Sketch | None] = {}
        self._atoms: dict[float | None, tuple[Array, Array, Array]] = {}

    def best(self, kind: str, error: Callable[[Sketch], float]) -> Sketch | None:
        """Return the best band for a kind, from coarse to fine; None if it refuses all.

        Args:
            kind: a key of `KINDS`.
            error: what is to be least.
        """
        options = range(len(KINDS[kind].options))
        tried = [
            self.sketch(kind, option, profile, index)
            for profile in PROFILES
            for option in options
            for index in range(NARROWEST, WIDEST + 1, _STRIDES[0])
        ]
        found = [sketch for sketch in tried if sketch is not None]
        if not found:
            return None
        leading = [
            min((s for s in found if s.profile == profile), key=error)
            for profile in PROFILES
            if any(s.profile == profile for s in found)
        ]
        return min((self._refined(sketch, error) for sketch in leading), key=error)

    def _refined(self, best: Sketch, error: Callable[[Sketch], float]) -> Sketch:
        for stride in _STRIDES[1:]:
            improved = True
            while improved:
                near = [s for s in self._around(best, stride) if error(s) < error(best)]
                improved = bool(near)
                best = min(near, key=error, default=best)
        return best

    def _around(self, sketch: Sketch, stride: int) -> Iterator[Sketch]:
        """Yield what is known of narrower and wider bands, and of the parameters beside."""
        for option in (sketch.option - 1, sketch.option, sketch.option + 1):
            for index in (sketch.index - stride, sketch.index, sketch.index + stride):
                if 0 <= option < len(KINDS[sketch.kind].options) and NARROWEST <= index <= WIDEST:
                    found = self.sketch(sketch.kind, option, sketch.profile, index)
                    if found is not None:
                        yield found

    def sketch(self, kind: str, option: int, profile: str, index: int) -> Sketch | None:
        """Return what a kind makes of a band, if there is room for it and the kind serves it."""
        key = (kind, option, profile, index)
        if key not in self._sketches:
            self._sketches[key] = self._sketch(*key)
        return self._sketches[key]

    def _sketch(self, kind: str, option: int, profile: str, index: int) -> Sketch | None:
        scale, diameter = self._survey.scale, self._survey.diameter
        alone = not KINDS[kind].answers_all
        if not alone and self._question.dimension > 1:
            return None  # read from smoothed regions: see `Survey.regions`
        if alone or self._question.boundaries == 1:
            apart = None if diameter is None or KINDS[kind].keeps else diameter / scale
            found = table(kind, option, profile, index, apart)
            band = None if found is None else self._band(profile, index)
            if band is None or found is None:
                return None
            bias, variance = interpolated(band.signed / scale, index, found)
            mean = bias + np.asarray(band.profile.value(band.signed))
        else:
            band = self._band(profile, index)
            if band is None or band.query is None:
                return None
            task = Task(band.query, self._survey.privacy, diameter)
            try:
                reports = KINDS[kind].build(task, KINDS[kind].options[option])
                mean, variance = reports.mean(band.points), reports.variance(band.points)
            except UnsupportedError:
                return None
        size = self._survey.prior.size
        return Sketch(
            kind, option, profile, index, predicted(mean, variance, band.truth, band.weights, size)
        )

    def _band(self, profile: str, index: int) -> _Band | None:
        key = (profile, index)
        if key not in self._bands:
            try:
                self._bands[key] = self._placed(profile, width(index) * self._survey.scale)
            except ParameterError:
                self._bands[key] = None  # no room for it
        return self._bands[key]

    def _placed(self, profile: str, wide: float) -> _Band | None:
        """Return the band, placed where the soft share of the atoms is their hard one."""
        points, truth, weights = self._joined(wide if self._question.rounded else None)
        shape = PROFILES[profile](wide)
        if self._question.dimension == 1:
            query = aimed(self._question, wide, profile, points, weights, truth=truth)
            if query is None:
                return None
            signed = np.asarray(query.signed_distance(points))
            return _Band(shape, query, points, signed, truth, weights)
        inwards = moved(points, truth, weights, wide, profile)
        if not self._question.fits(wide, profile, (inwards,)):
            return None
        return _Band(shape, None, points, points - inwards, truth, weights)

    def _joined(self, wide: float | None) -> tuple[Array, Array, Array]:
        """Return atoms: values in one dimension, else distances; their truth and weights.

        Joined at their mean are those that lie within a fraction of the narrowest band of each
        other, next to the same end of the question and on the same side.
        """
        if wide not in self._atoms:
            self._atoms[wide] = self._join(wide)
        return self._atoms[wide]

    def _join(self, wide: float | None) -> tuple[Array, Array, Array]:
        (points, weights), truth = self._survey.nodes, self._survey.truth
        if self._question.dimension == 1:
            # Without an end within reach of the prior, nobody is near it.
            ends = self._survey.jumps if len(self._survey.jumps) else np.zeros(1)
            end = np.abs(points[:, None] - ends).argmin(axis=1)
            origin = ends[end]
            distance = points - origin
        else:
            end, origin = np.zeros(len(points), np.intp), np.zeros(len(points))
            distance = self._survey.signed(wide or 1.0)
        bend = _BEND * width(NARROWEST) * self._survey.scale
        place = np.rint(np.arcsinh(distance / bend) * (_BEND * _PER_NEAR))
        key = (place * 2 + truth) * (end.max() + 1) + end
        _, first, index = np.unique(key, return_index=True, return_inverse=True)
        mass = np.asarray(np.bincount(index, weights), np.float64)
        with np.errstate(invalid="ignore"):
            joined = np.bincount(index, weights * distance) / mass
        used = mass > 0
        return (joined + origin[first])[used], truth[first][used], mass[used]
