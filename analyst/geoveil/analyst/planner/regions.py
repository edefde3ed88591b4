"""Regions of the plane that are read from perturbed points, smoothed by a Gaussian."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

from geoveil.analyst.planner.alternative import Alternative
from geoveil.analyst.planner.kinds import POINTS, PointReports
from geoveil.analyst.planner.prediction import Prediction
from geoveil.analyst.planner.question import HardQuestion
from geoveil.gp.deconvolution import SmoothedRegion
from geoveil.gp.errors import ParameterError, UnsupportedError
from geoveil.gp.mechanisms.planar import PlanarLaplace

if TYPE_CHECKING:
    from geoveil.analyst.planner.candidates import Survey

_BANDWIDTHS = (0.5, 0.7, 1.0, 1.4, 2.0, 2.8)
"""In noise scales."""


@dataclass(frozen=True, eq=False)
class Regions:
    """Value campaigns for the hard region of a survey; it remembers those that it made."""

    survey: "Survey"

    def best(self, error: Callable[[Prediction], float], hopeless: float) -> Iterator[Alternative]:
        """Yield value campaigns for a hard region of the plane, smoothed by a Gaussian.

        From a bandwidth of 0.7 noise scales on to either side, as long as the error falls. Where
        the first one's exceeds `hopeless`, the others, which take a second each, are not tried.
        """
        if (
            not isinstance(self.survey.question, HardQuestion)
            or self.survey.question.dimension != 2
        ):
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
    def _known(self) -> dict[float, Alternative | None]:
        return {}

    def _region(self, factor: float) -> Alternative | None:
        if factor not in self._known:
            self._known[factor] = self._smoothed(factor)
        return self._known[factor]

    def _smoothed(self, factor: float) -> Alternative | None:
        assert isinstance(self.survey.question, HardQuestion)
        mechanism = PlanarLaplace(self.survey.privacy, 2)
        try:
            region = self.survey.question.soft(factor * self.survey.scale, "smoothstep", (0.0,))
            smooth = SmoothedRegion(region, factor * self.survey.scale)
            reports = PointReports(mechanism, mechanism.estimator(smooth, debias=True))
            prediction = self.survey.predict(reports)
        except (UnsupportedError, ParameterError):
            return None  # no room for the band, no bounds, or too large a raster
        parameters = MappingProxyType({"bandwidth": smooth.bandwidth})
        return Alternative(
            POINTS, smooth, self.survey.privacy, parameters, reports, prediction, answers_all=True
        )
