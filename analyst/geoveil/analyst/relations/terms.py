"""Functions of one field of a form, each with an unbiased operator [MATH §17].

An operator h of a function f of a field has E[h(report) | x] = f(x). Fields are perturbed
independently, so the product of operators of different fields is unbiased for the product of their
functions. Functions of the same field are multiplied first: the operator of y·φ(y) is
(1 − b²∂²)(yφ), and never the product of the two.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial, reduce
from itertools import product
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from geoveil.analyst.questions import AnalystQuestion, Softness
from geoveil.analyst.statistics.statistic import logarithms
from geoveil.campaign import (
    ChoiceField,
    Field,
    FormCampaign,
    MultipleField,
    NumberField,
    OrdinalField,
    PlaceField,
)
from geoveil.gp import (
    UNLIMITED,
    Array,
    GaussianKernel,
    Limits,
    ParameterError,
    Query,
    ReportMoments,
    SmoothedRegion,
    Smoothstep,
    UnsupportedError,
    validation,
)

Columns: TypeAlias = "NDArray[np.int64]"
"""Reports: a row for each person, and a column for each integer."""
Jet: TypeAlias = tuple[Array, Array, Array]
"""A function's value, slope and second derivative at some numbers."""
Ends: TypeAlias = tuple[float, float]


class Operator(NamedTuple):
    """An unbiased estimator of a function from a report."""

    value: Callable[[Columns], Array]
    """The field's columns (n, columns) → pseudo-values, (n,)."""
    limits: Limits
    """The ranges of a pseudo-value and of its mean over any people."""


@dataclass(frozen=True, eq=False)
class Term(ABC):
    """A function of one field, whose mean over people can be estimated without bias."""

    field: str
    """The name of the field."""

    takes: ClassVar[Sequence[type[Field]]]
    """The kinds of fields that it accepts."""

    @property
    def text(self) -> str:
        """The name of its rows and columns in tables; that of the field by default."""
        return self.field

    @classmethod
    @abstractmethod
    def together(cls, field: Any, terms: Sequence[Any]) -> Operator:
        """Return the operator of the product of functions of one field.

        Args:
            field: of one of the kinds that these functions take.
            terms: one or more functions of it, of one family.
        """

    def limits(self, campaign: FormCampaign) -> Limits:
        """Return the ranges of a pseudo-value and of its mean over any people."""
        return limits_of_product([of for _, of in operators(campaign, [self])])


def operators(campaign: FormCampaign, terms: Sequence[Term]) -> list[tuple[slice, Operator]]:
    """Return the columns and the operator of each field in a product of functions."""
    by_field: dict[str, list[Term]] = {}
    for term in terms:
        by_field.setdefault(term.field, []).append(term)
    return [(campaign.columns_of(name), _of_field(campaign, *of)) for name, *of in by_field.items()]


def _of_field(campaign: FormCampaign, terms: Sequence[Term]) -> Operator:
    field = campaign.field(terms[0].field)
    for term in terms:
        if not isinstance(field, tuple(term.takes)):
            kinds = " or a ".join(kind.__name__ for kind in term.takes)
            raise ParameterError("field", field.name, f"a {kinds}, for {term.text!r}")
    families = {term.together.__func__ for term in terms}  # type: ignore[attr-defined]
    if len(families) > 1:
        texts = " and ".join(repr(term.text) for term in terms)
        raise UnsupportedError(f"the product of {texts} has no operator")
    return terms[0].together(field, terms)


def limits_of_product(factors: Sequence[Operator]) -> Limits:
    """Return the range of a product of functions of different fields."""
    if len(factors) == 1:
        return factors[0].limits  # with the law of the mechanism, where it is known
    return Limits(
        product_of_ends([of.limits.reports for of in factors]),
        product_of_ends([of.limits.means for of in factors]),
        imagined=product_of_ends([ends_of(of.limits) for of in factors]),
    )


def ends_of(limits: Limits) -> Ends:
    """Return the ends of reports, without noise that has none."""
    return limits.reports if limits.bounded else limits.means


def product_of_ends(pairs: Sequence[Ends]) -> Ends:
    """Return the least and the greatest product of numbers in intervals."""
    corners = [math.prod(ends) for ends in product(*pairs)]
    corners = [0.0 if math.isnan(corner) else corner for corner in corners]  # 0·∞
    return min(corners), max(corners)


class _Category(Term):
    """A function of a choice: one number for each option."""

    takes: ClassVar[Sequence[type[Field]]] = (ChoiceField, OrdinalField)

    @abstractmethod
    def scores(self, field: Any) -> Array:
        """Return its value for each option."""

    @classmethod
    def together(cls, field: Any, terms: Sequence[Any]) -> Operator:
        if isinstance(field, MultipleField):
            return _ticked(field, terms)
        scores = reduce(np.multiply, (term.scores(field) for term in terms))
        means = float(scores.min()), float(scores.max())
        if field.mechanism is None:
            return Operator(lambda columns: scores[columns[:, 0]], _limits(means, means))
        reports, law = field.mechanism.limits(scores), partial(field.mechanism.moments, scores)
        return Operator(field.mechanism.estimator(scores), _limits(reports, means, cache(law)))


def _limits(
    reports: Ends, means: Ends, law: Callable[[], ReportMoments | None] = lambda: None
) -> Limits:
    """Return limits, or infinite ones if they coincide, as for a product that is always 0."""
    apart = reports[0] < reports[1] and means[0] < means[1]
    return Limits(reports, means, law, imagined=reports) if apart else UNLIMITED


def _ticked(field: MultipleField, terms: Sequence["Option"]) -> Operator:
    """Return the operator for several options all ticked; each option is perturbed separately."""
    factors = []
    for index in sorted({term.index(field) for term in terms}):
        if field.mechanism is None:

            def ticked(columns: Columns, bit: int = index) -> Array:
                return np.asarray(columns[:, 0] >> bit & 1, np.float64)

            factors.append(Operator(ticked, Limits((0.0, 1.0), (0.0, 1.0))))
        else:
            unit = np.eye(len(field.options))[index]
            reports, law = field.mechanism.limits(unit), partial(field.mechanism.moments, unit)
            value = field.mechanism.estimator(unit)
            factors.append(Operator(value, _limits(reports, (0.0, 1.0), cache(law))))
    return Operator(
        lambda columns: reduce(np.multiply, (of.value(columns) for of in factors)),
        limits_of_product(factors),
    )


@dataclass(frozen=True, eq=False)
class Option(_Category):
    """Whether a person chose an option: 1, else 0."""

    option: str

    takes = (ChoiceField, OrdinalField, MultipleField)

    @property
    def text(self) -> str:
        return f"{self.field}: {self.option}"

    def index(self, field: Any) -> int:
        """Return the index of the option in the field."""
        validation.choice(f"option of {field.name}", self.option, field.options)
        return int(field.options.index(self.option))

    def scores(self, field: Any) -> Array:
        return np.asarray(np.eye(len(field.options))[self.index(field)])


@dataclass(frozen=True, eq=False)
class Score(_Category):
    """A number for each option: by default 1 for the first, 2 for the second, and so on."""

    values: Sequence[float] | None = None
    """The numbers, in the order of the options; not all the same."""

    def scores(self, field: Any) -> Array:
        count = len(field.options)
        if self.values is None:
            return np.arange(1.0, count + 1)
        scores = np.array(validation.numbers("scores", self.values))
        if len(scores) != count or scores.min() == scores.max():
            raise ParameterError("scores", self.values, f"{count} numbers, not all the same")
        return scores


class _Numeric(Term):
    """A smooth function of a number."""

    takes = (NumberField,)

    @abstractmethod
    def jet(self, field: NumberField, x: Array) -> Jet:
        """Return the function and its derivatives at numbers, in the coordinates of queries."""

    @abstractmethod
    def sizes(self, field: NumberField) -> tuple[Ends, float, float]:
        """Return the range of the function, and the largest slope and second derivative."""

    @classmethod
    def together(cls, field: Any, terms: Sequence[Any]) -> Operator:
        square, step = field.noise_scale**2, field.mechanism.step

        def value(columns: Columns) -> Array:
            x = columns[:, 0] * step
            f, _, bent = reduce(_times, (term.jet(field, x) for term in terms))
            return np.asarray(f - square * bent)

        sizes = [term.sizes(field) for term in terms]
        ends = product_of_ends([size[0] for size in sizes])
        # The size of a product and of its derivatives, by Leibniz's rule.
        most = [(max(map(abs, size[0])), *size[1:]) for size in sizes]
        bent = most[0][2] if len(most) == 1 else reduce(_most_times, most)[2]
        reports = ends[0] - square * bent, ends[1] + square * bent
        return Operator(value, Limits(reports, ends))


def _times(a: Jet, b: Jet) -> Jet:
    return a[0] * b[0], a[1] * b[0] + a[0] * b[1], a[2] * b[0] + 2 * a[1] * b[1] + a[0] * b[2]


def _most_times(a: tuple[float, ...], b: tuple[float, ...]) -> tuple[float, ...]:
    with np.errstate(invalid="ignore"):
        jet = _times(*(tuple(map(np.float64, of)) for of in (a, b)))  # type: ignore[arg-type]
    return tuple(math.inf if math.isnan(size) else float(size) for size in jet)


def _on_scale(field: NumberField, name: str, at: float) -> float:
    """Return a threshold in the coordinates of queries."""
    if math.isinf(at) or field.attribute.scale is None:
        return at
    return logarithms(name, [at])[0]


@dataclass(frozen=True, eq=False)
class NumberOf(_Numeric):
    """The number itself, or its logarithm if numbers are compared by ratio."""

    def jet(self, field: NumberField, x: Array) -> Jet:
        return x, np.ones_like(x), np.zeros_like(x)

    def sizes(self, field: NumberField) -> tuple[Ends, float, float]:
        # A report has no ends, but people's values have if they are clamped.
        return public_range(field), 1.0, math.inf


def public_range(field: NumberField) -> Ends:
    """Return the range to which values are clamped; infinite without clamping."""
    low, high = field.attribute.least, field.attribute.most
    if low is None or high is None:
        return -math.inf, math.inf
    return _on_scale(field, "least", low), _on_scale(field, "most", high)


@dataclass(frozen=True, eq=False)
class Between(_Numeric):
    """Whether a number lies between two ends, softly: 1 within, 0 beyond."""

    low: float
    """The lower end, −∞ for none."""
    high: float
    """The upper end, ∞ for none."""
    width: float | None = None
    """The width of the soft ends, in the unit of values (a factor if they are compared by ratio);
    by default three noise scales, at most the distance of the ends."""

    def __post_init__(self) -> None:
        if not self.low < self.high or -self.low == self.high == math.inf:
            raise ParameterError("ends", (self.low, self.high), "low < high, one of them finite")

    @property
    def text(self) -> str:
        low, high = (f"{end:,.12g}" for end in (self.low, self.high))
        if math.isinf(self.low):
            return f"{self.field} up to {high}"
        return (
            f"{self.field} {low} to {high}" if self.high < math.inf else f"{self.field} above {low}"
        )

    def jet(self, field: NumberField, x: Array) -> Jet:
        return self._coordinates(field).jet(field, x)

    def sizes(self, field: NumberField) -> tuple[Ends, float, float]:
        return self._coordinates(field).sizes(field)

    def _coordinates(self, field: NumberField) -> "SoftBand":
        """Return the band in the coordinates of queries."""
        low, high = (_on_scale(field, "threshold", at) for at in (self.low, self.high))
        width, scale = self.width, field.attribute.scale
        if scale is not None:
            width = scale.width(width)
        width = Softness(field.noise_scale, width).band(high - low)
        return SoftBand(self.field, low, high, validation.positive("width", width), self.text)


@dataclass(frozen=True, eq=False)
class SoftBand(_Numeric):
    """A soft band in the coordinates of queries: logarithms if values are compared by ratio."""

    low: float
    high: float
    width: float
    label: str = ""

    @property
    def text(self) -> str:
        return self.label or f"{self.field} {self.low:,.12g} to {self.high:,.12g}"

    def jet(self, field: NumberField, x: Array) -> Jet:
        above = _step(x, self.low, self.width)
        if math.isinf(self.high):
            return above
        beyond = _step(x, self.high, self.width)
        return above[0] - beyond[0], above[1] - beyond[1], above[2] - beyond[2]

    def sizes(self, field: NumberField) -> tuple[Ends, float, float]:
        # Where the two soft ends overlap, their slopes may add up.
        both = 1 if self.width <= self.high - self.low else 2
        return (0.0, 1.0), both * 1.5 / self.width, both * 6 / self.width**2


def _step(x: Array, at: float, width: float) -> Jet:
    """Return the smoothstep of a width from 0 below a threshold to 1 above."""
    if math.isinf(at):
        flat = np.zeros_like(x)
        return (flat + (at < 0), flat, flat)
    step = Smoothstep(width)
    s = x - at
    t = np.clip(s / width + 0.5, 0.0, 1.0)
    inside = np.abs(s) < width / 2
    return step.value(s), 6 * t * (1 - t) / width, inside * (6 - 12 * t) / width**2


class Above(Between):
    """Whether a number is above a threshold, softly: 1 above, 0 below."""

    def __init__(self, field: str, at: float, width: float | None = None) -> None:
        super().__init__(field, validation.real("at", at), math.inf, width)


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
