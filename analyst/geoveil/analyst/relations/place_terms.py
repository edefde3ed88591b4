"""Functions of a place: coordinates for second moments, regions and bells for everything else."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from geoveil.analyst.questions import AnalystQuestion, Softness
from geoveil.analyst.relations.terms import Operator, Term, product_of_ends
from geoveil.campaign import PlaceField
from geoveil.gp import GaussianKernel, Limits, Query, SmoothedRegion, UnsupportedError


@dataclass(frozen=True, eq=False)
class Coordinate(Term):
    """A coordinate of a place, in metres from the centre of its area."""

    axis: int
    """0: eastwards, 1: northwards."""

    takes = (PlaceField,)

    @property
    def text(self) -> str:
        return f"{self.field}, metres {('east', 'north')[self.axis]}"

    @classmethod
    def together(cls, field: Any, terms: Sequence[Any]) -> Operator:
        if len(terms) > 2:
            raise UnsupportedError(f"products of {len(terms)} coordinates of a place: at most 2")
        axes, step = [term.axis for term in terms], field.mechanism.step
        # Either coordinate of the noise has the variance 3b², and the two are uncorrelated.
        noise = 3 * field.noise_scale**2 if axes in ([0, 0], [1, 1]) else 0.0
        radius = field.attribute.coordinates.radius_m
        means = product_of_ends([(-radius, radius)] * len(axes))
        return Operator(
            lambda columns: np.prod(columns[:, axes] * step, axis=1) - noise,
            Limits(means=(0.0, means[1]) if noise else means),
        )


class _Region(Term):
    """One of the smooth functions of a place."""

    takes = (PlaceField,)

    @abstractmethod
    def operator(self, field: PlaceField) -> Operator:
        """Return its operator."""

    @classmethod
    def together(cls, field: Any, terms: Sequence[Any]) -> Operator:
        if len(terms) > 1:
            raise UnsupportedError(f"products of regions of one place: {terms[0].text!r}")
        operator: Operator = terms[0].operator(field)
        return operator


@dataclass(frozen=True, eq=False)
class Within(_Region):
    """Whether a place is within a region, softly: 1 inside, 0 outside; or a bell around a place."""

    region: Any
    """A question about places in longitude and latitude: `ShareWithin`, `ShareInside`, `DensityAt`.
    Or, in metres of the plane, a SmoothedRegion, a GaussianKernel or what SmoothedRegion takes."""
    bandwidth: float | None = None
    """The smoothing length of edges, in metres; three noise scales by default."""
    label: str = ""
    """Its name; by default that of its question."""

    @property
    def text(self) -> str:
        said = self.label or getattr(self.region, "label", "within a region")
        return f"{self.field}: {said}"

    def operator(self, field: PlaceField) -> Operator:
        return _within(self, field)


@lru_cache(maxsize=64)
def _within(term: Within, field: PlaceField) -> Operator:
    """Return the operator of a region; its limits take seconds and serve all reports."""
    softness = Softness(field.noise_scale, bandwidth=term.bandwidth)
    region: Query | SmoothedRegion = term.region
    if isinstance(region, AnalystQuestion):
        region = region.of_points(field.attribute.coordinates, softness)
    elif not isinstance(region, (SmoothedRegion, GaussianKernel)):
        region = SmoothedRegion(region, softness.bell)
    step, estimator = field.mechanism.step, field.mechanism.estimator(region, debias=True)
    return Operator(lambda columns: estimator.value(columns * step), estimator.limits)


@dataclass(frozen=True, eq=False)
class Outside(_Region):
    """Whether a place is outside of all of several disjoint regions."""

    regions: Sequence[Within]
    label: str = "elsewhere"

    @property
    def text(self) -> str:
        return f"{self.field}: {self.label}"

    def operator(self, field: PlaceField) -> Operator:
        inside = [region.operator(field) for region in self.regions]
        low, high = (sum(of.limits.reports[end] for of in inside) for end in (1, 0))
        return Operator(
            lambda columns: np.asarray(1 - sum(of.value(columns) for of in inside)),
            Limits((1 - low, 1 - high), (0.0, 1.0)),
        )
