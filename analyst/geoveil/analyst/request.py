"""A request for a plan: questions, a guarantee, public knowledge, and the number of people."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike

from geoveil.analyst.central import CentralWish
from geoveil.analyst.planner import (
    ALLOCATIONS,
    DEBIASED,
    KINDS,
    Allocated,
    Comparison,
    HardQuestion,
    PlanningProblem,
    PopulationMean,
    Prior,
    Search,
    SoftQuestion,
    profile_of,
)
from geoveil.analyst.public_prior import PublicPrior
from geoveil.analyst.questions import (
    RADIUS_M,
    AnalystQuestion,
    DensityAt,
    Place,
    Softness,
    area_of,
    is_inside,
    projected,
)
from geoveil.gp import (
    Array,
    AzimuthalEquidistant,
    GaussianKernel,
    GeoPrivacy,
    LogScale,
    ParameterError,
    validation,
)

RELATIVE_ERROR = 0.1
"""The ratio of 95 % error and expected answer that a bandwidth must reach at every place."""
_ALL = 1e300
_HELD: Mapping[int, str] = MappingProxyType(
    {1: "numbers, for example incomes", 2: "places, for example collisions"}
)
"""Names of values, by their number of coordinates."""
_ROUNDING = 1e-9
"""Tolerance for a place on the edge of an area, as a fraction of its radius."""
_FINEST, _COARSEST = 0.25, 64.0
"""Bandwidths to try, in noise scales."""


@dataclass(frozen=True, kw_only=True)
class PlanRequest:
    """A complete request; `of` makes it from the user's input."""

    labels: tuple[str, ...]
    questions: tuple[PopulationMean, ...]
    privacy: GeoPrivacy
    """The total guarantee of a person, over true distances."""
    plane: AzimuthalEquidistant | None
    """The plane of places."""
    source: PublicPrior
    prior: Prior
    participants: int
    target_error: float | None = None
    """The wanted 95 % error."""
    allocation: str | None = None
    """A name in `ALLOCATIONS`; None for the best with a person's total guarantee. One question has
    none, or "points"."""
    attribute: str = "value"
    mechanism: str | None = None
    """The mechanism, by its name for campaigns; None for the best."""
    scale: LogScale | None = None
    """The scale of numbers compared by ratio: questions, prior and privacy are about logarithms."""
    central: CentralWish | None = None
    """The central ε that the cap must keep; None for the default cap."""

    @classmethod
    def of(
        cls,
        questions: Sequence[AnalystQuestion],
        *,
        epsilon: float,
        per: float,
        source: PublicPrior,
        participants: int,
        unit: str | None = None,
        soft: bool = False,
        width: float | None = None,
        bandwidth: float | None = None,
        center: Place | None = None,
        radius: float = RADIUS_M,
        target_error: float | None = None,
        allocation: str | None = None,
        attribute: str | None = None,
        mechanism: str | None = None,
        delta: float = 0.0,
        reach: float = math.inf,
        scale: LogScale | None = None,
        central: CentralWish | None = None,
    ) -> "PlanRequest":
        """Return a request for a plan.

        Args:
            questions: at least one question, all about numbers or all about places.
            epsilon: ε of the promise to two values that are `per` apart.
            per: a distance, in the unit; with a scale a factor > 1.
            source: the public prior, of people's numbers or places themselves.
            unit: of the values; that of the prior by default.
            soft: whether the soft share itself is wanted.
            width: the width of its band, with `soft`; three noise scales by default. With a scale,
                the factor from one end to the other.
            bandwidth: the bandwidth of densities' bells, in metres; by default, the narrowest whose
                error is a tenth of the expected answer.
            center: longitude and latitude of the area's centre; by default, the first place.
            radius: of the area, in metres.
            target_error: the wanted 95 % error.
            allocation: how several questions share the privacy; the best by default. For one
                question, "points" plans a value campaign.
            attribute: the value that participants hold; by default, the prior's.
            mechanism: a mechanism, as "smooth:noise=student-t,nu=3"; the best by default.
            delta: δ of the promise, in [0, 1).
            reach: with a δ, the largest distance at which it is stated, in the unit.
            scale: of numbers that are compared by ratio.
            central: the central ε that the campaign's cap must keep, at any cost.

        Raises:
            ParameterError: naming the parameter, its value and what is permitted.
        """
        questions = validation.items("questions", questions, AnalystQuestion)
        dimension = _dimension(questions)
        validation.require_kind("source", source, PublicPrior)
        if dimension != source.dimension:
            raise ParameterError("source", source.name, f"a prior of {_HELD[dimension]}")
        if unit is not None and source.unit not in (None, unit):
            raise ParameterError("unit", unit, f"{source.unit!r}, as {source.name} has it")
        if unit is None and source.unit is None:
            raise ParameterError("unit", None, "given")
        places = [question for question in questions if isinstance(question, DensityAt)]
        if allocation is not None:
            validation.choice("allocation", allocation, ALLOCATIONS)
        several = len(questions) > 1 or allocation == "points"
        far = None if reach == math.inf else reach
        for name, value, fits, unless in (
            ("width", width, soft, "unless soft is given: otherwise the planner chooses it"),
            ("bandwidth", bandwidth, places, "unless a density at a place is asked"),
            ("allocation", allocation, several, "unless there are several questions, or 'points'"),
            ("mechanism", mechanism, allocation != "points", "of points"),
            ("reach", far, delta != 0, "without a delta: it holds everywhere"),
            ("reach", far, scale is None, "on a log scale"),
        ):
            if value is not None and not fits:
                raise ParameterError(name, value, f"left out {unless}")
        if target_error is not None:
            validation.positive("target_error", target_error)
        if mechanism is not None:
            _ = KINDS[mechanism]
        unit = unit or source.unit or ""
        if scale is None:
            privacy = GeoPrivacy(epsilon, per, unit, delta, reach)
        else:
            questions = tuple(question.on_scale(scale) for question in questions)
            source = source.on_scale(scale)
            privacy = replace(GeoPrivacy.per_factor(epsilon, per, unit), delta=delta)
            width = scale.width(width)
        plane = area_of(questions, center, radius) if dimension == 2 else None
        if dimension == 2 and plane is None:
            raise ParameterError(
                "center", None, "given: the numbers of a query are metres east and north of it"
            )
        prior = source.make(plane)
        if plane is not None:
            _check_area(plane, prior, source.name, questions, center)
        if places and bandwidth is None:
            centers = projected(plane, [question.place for question in places])
            assert plane is not None  # there are places
            bandwidth = narrowest(centers, plane.privacy(privacy), prior, participants)
        planned = [question.sharp(plane, bandwidth or 0.0) for question in questions]
        if soft:
            softness = Softness(1 / privacy.rate, width, profile=profile_of(mechanism))
            planned = [
                SoftQuestion(q.soft(plane, softness)) if isinstance(sharp, HardQuestion) else sharp
                for q, sharp in zip(questions, planned, strict=True)
            ]
        return cls(
            labels=tuple(
                f"density at {q.label}" if isinstance(q, DensityAt) else q.label for q in questions
            ),
            questions=tuple(planned),
            privacy=privacy,
            plane=plane,
            source=source,
            prior=prior,
            participants=participants,
            target_error=target_error,
            allocation=allocation,
            attribute=attribute or source.attribute,
            mechanism=mechanism,
            scale=scale,
            central=central,
        )

    @property
    def plane_privacy(self) -> GeoPrivacy:
        """The guarantee in the coordinates of the questions."""
        return self.privacy if self.plane is None else self.plane.privacy(self.privacy)

    def held(self, coordinates: ArrayLike) -> Array:
        """Return people's values for coordinates; on a log scale, their exponentials."""
        if self.scale is None:
            return np.asarray(coordinates, np.float64)
        return self.scale.from_log(coordinates)

    def chosen(self, found: Comparison) -> Allocated:
        """Return the requested allocation, or the best.

        Raises:
            ParameterError: if it does not serve all questions.
        """
        if self.allocation is not None:
            return found[self.allocation]
        if self.mechanism is None:
            return found.choice
        return next(row for row in found.rows if row.allocation != "points")


def _dimension(questions: Sequence[AnalystQuestion]) -> int:
    """Return the common dimension of the values of the questions."""
    if not questions:
        raise ParameterError("question", "none", "at least one")
    first, *others = sorted({question.dimension for question in questions})
    if others:
        raise ParameterError(
            "questions", "numbers and places", "of one kind: plan each kind separately"
        )
    if first not in _HELD:
        raise ParameterError(
            "question", questions[0].label, "about a number or a place: nothing else has a prior"
        )
    return first


def narrowest(centers: Sequence[Place], privacy: GeoPrivacy, prior: Prior, n: int) -> float:
    """Return the narrowest bell with a 95 % error of a tenth of every expected answer.

    Args:
        centers: of the bells, in the coordinates of the prior.
        privacy: in the same coordinates.
        n: number of reports on each place.

    Raises:
        ParameterError: if no bell up to 64 noise scales gives such small errors.
    """
    scale = 1 / privacy.rate
    if n < 1:
        return 3 * scale  # refused later on, with how many would do

    def missed(bandwidth: float) -> float:
        worst = max(_relative_error(c, bandwidth, privacy, prior, n) for c in centers)
        return math.log(worst / RELATIVE_ERROR)

    narrow = first_enough(missed, rounded(_FINEST * scale, up=True), 2.0, _COARSEST * scale)
    if narrow is None:
        raise ParameterError(
            "bandwidth",
            None,
            f"given: with {n:,} participants no bell up to {_COARSEST * scale:,.3g} wide has"
            f" an error within {RELATIVE_ERROR:.0%} of the expected density",
        )
    return narrow


def _check_area(
    plane: AzimuthalEquidistant,
    prior: Prior,
    source: str,
    questions: Sequence[AnalystQuestion],
    center: Place | None,
) -> None:
    """Refuse a question outside the area, and an area that most people are outside."""
    edge = plane.radius_m * (1 - _ROUNDING)
    points, weights = prior.nodes()
    outside = float(weights[np.hypot(points[:, 0], points[:, 1]) > edge].sum())
    about = [(q.label, q.place) for q in questions if q.place is not None]
    far = f"farther than {plane.radius_m:,.0f} metre from"
    if outside > 0.5:
        name, value = "question", about[0][0]
        if center is not None:
            name, value = "center", f"{center[0]:.15g},{center[1]:.15g}"
        expected = f"near people: {outside:.0%} of {source} are {far} it; the longitude comes first"
        raise ParameterError(name, value, expected)
    for label, place in about:
        if not is_inside(plane, place):
            expected = f"in the area, not {far} its centre; the longitude comes first"
            raise ParameterError("question", label, expected)


def _relative_error(
    center: Place, bandwidth: float, privacy: GeoPrivacy, prior: Prior, n: int
) -> float:
    """Return the predicted 95 % error as a fraction of the expected answer."""
    problem = PlanningProblem.of(SoftQuestion(GaussianKernel(center, bandwidth)), privacy, prior)
    # If there are many nodes, merged ones suffice here.
    (alternative,) = Search(problem).asked_softly(DEBIASED)
    expected = float((problem.nodes.weights * problem.nodes.truth).sum())
    return alternative.prediction.margin(n) / expected if expected > 0 else _ALL


_DIGITS = 3


def first_enough(
    excess: Callable[[float], float], start: float, factor: float, end: float
) -> float | None:
    """Return the first number of three digits without an excess, from start towards end.

    Args:
        excess: positive for insufficient numbers; decreases in the direction of `end`.
        start: > 0; returned if it is sufficient.
        factor: > 0, not 1: the factor between the numbers tried.
        end: > 0; the function returns None if no number before it is sufficient.

    Example:
        >>> first_enough(lambda x: 700.5 - x, start=10, factor=4, end=1e9)
        701.0
        >>> first_enough(lambda x: 700.5 - x, start=10, factor=4, end=500) is None
        True
        >>> first_enough(lambda x: 700.5 - x, start=800, factor=4, end=1e9)
        800
    """
    if excess(start) <= 0:
        return start
    up = factor > 1
    bad, good = start, rounded(start * factor, up=up)
    while excess(good) > 0:
        bad, good = good, rounded(good * factor, up=up)
        if (good > end) == up:
            return None
    while (middle := rounded((bad + good) / 2, up=up)) != good:
        bad, good = (middle, good) if excess(middle) > 0 else (bad, middle)
    return good


def rounded(number: float, *, up: bool) -> float:
    """Return a number > 0 with three digits, not below it (or not above it).

    Example:
        >>> rounded(61_349.2, up=True), rounded(0.0123456, up=False)
        (61400.0, 0.0123)
    """
    exact = Decimal(number)
    place = Decimal(1).scaleb(exact.adjusted() - _DIGITS + 1)
    return float(exact.quantize(place, ROUND_CEILING if up else ROUND_FLOOR))
