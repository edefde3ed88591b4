"""The fields of a form: one person's answers, each perturbed independently.

A number or a place is perturbed in its metric. The metric of options is 0 or 1, that of an ordered
scale the number of steps. Categories may be open: sent unperturbed, without ε or a guarantee.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

from geoveil.campaign.attribute_campaign import Attribute, Value
from geoveil.campaign.text import require_printable
from geoveil.campaign.translation import Wording, check_languages
from geoveil.campaign.value import PointRelease
from geoveil.campaign.words import in_language
from geoveil.gp import (
    BITS_A_COLUMN,
    MOST_EPSILON,
    Array,
    CategoryMechanism,
    GeoPrivacy,
    NDArray,
    OrdinalResponse,
    ParameterError,
    PlanarLaplace,
    PrivateValueError,
    RandomSource,
    SubsetResponse,
    category_mechanism,
    lazy,
    np,
    round_up,
    step_exponent_of,
    validation,
)

OPTION, STEP = "option", "step"
"""The units of categories: any two options are 1 apart; an ordered scale counts steps."""
MOST_OPTIONS, MOST_STEPS, MOST_TICKS = 10_000, 100, BITS_A_COLUMN


@dataclass(frozen=True, kw_only=True)
class Condition:
    """A field applies only to people who gave one of these answers to an earlier field.

    Others send a perturbed "does not apply", so that the report does not reveal the earlier
    answer.
    """

    field: str
    """The name of an earlier choice or ordinal field."""
    options: tuple[str, ...]
    """At least one of that field's options."""

    def __post_init__(self) -> None:
        options = validation.items("applies.options", self.options, str)
        object.__setattr__(self, "options", options)


@dataclass(frozen=True, kw_only=True)
class Field(ABC):
    """One answer of a form."""

    name: str
    """The attribute's name, which is the field's key in answers and analyses."""
    attribute: Attribute
    """The attribute's name in policies and ledgers."""
    privacy: GeoPrivacy | None
    """The guarantee between two answers, over `unit`; None if the answer is sent unperturbed."""
    wordings: tuple[Wording, ...] = ()
    """The text for people in one or more languages; the first is the default."""
    applies: Condition | None = None
    """The condition under which it applies; None for everybody."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "wordings", validation.items("wordings", self.wordings, Wording))
        validation.require_kind("applies", self.applies, Condition | None)
        check_languages("languages of wordings", [each.language for each in self.wordings])
        many = len(self.attribute_options)
        for wording in self.wordings:
            if wording.options and len(wording.options) != many:
                raise ParameterError("number of wording.options", len(wording.options), f"{many}")
            if wording.unit and many:
                raise ParameterError("wording.unit", wording.unit, "'' of options")

    @property
    def unit(self) -> str:
        """The unit of distances between answers."""
        return self.attribute.unit

    @property
    def attribute_options(self) -> tuple[str, ...]:
        """The options to choose from; empty for numbers and places."""
        return ()

    @property
    def text(self) -> str:
        """The question in the default language."""
        return (self.wordings[0].text if self.wordings else "") or self.name

    @property
    def wording(self) -> Wording:
        """All texts in the current language, otherwise in the default one."""
        fitting = in_language(self.wordings or (Wording(),))
        return Wording(
            language=fitting.language,
            text=fitting.text or self.text,
            options=fitting.options or self.attribute_options,
            unit="" if self.attribute_options else fitting.unit or self.attribute.value_unit,
        )

    @lazy
    @abstractmethod
    def ranges(self) -> tuple[tuple[int, int], ...]:
        """The least and greatest integer that counts in each column of a report."""

    @property
    def releasable(self) -> tuple[tuple[int, int], ...]:
        """The least and greatest integer that a device may report in each column."""
        return self.ranges

    @property
    def columns(self) -> int:
        """The number of its integers in a report."""
        return len(self.ranges)

    @lazy
    @abstractmethod
    def largest_epsilon(self) -> float:
        """ε between any two answers; infinite if some have no guarantee."""

    @lazy
    @abstractmethod
    def epsilon_if_not_asked(self) -> float:
        """The largest ε between any answer and "does not apply"."""

    @abstractmethod
    def prepare(self, value: Any) -> Any:
        """Return an answer in the form for `release`; PrivateValueError if it is invalid."""

    @property
    @abstractmethod
    def not_asked(self) -> Any:
        """The input to `release` for people to whom the field does not apply."""

    @abstractmethod
    def release(self, prepared: Any, source: RandomSource) -> Sequence[int]:
        """Return a report's integers, one per column."""


@dataclass(frozen=True, kw_only=True)
class PointField(Field):
    """A number or a place, perturbed by Laplace noise in its metric.

    A report's integers are multiples of 2^`step_exponent`, in the coordinates of queries.
    """

    name: str = field(init=False, repr=False, compare=False)
    attribute: Attribute
    """The attribute, including the unit of distances and the range of numbers."""
    privacy: GeoPrivacy
    """The guarantee in the attribute's unit; δ must be 0."""
    step_exponent: int | None = None
    """The public grid is 2 to this power; by default the finest that the mechanism needs."""
    dimension: ClassVar[int]

    def __post_init__(self) -> None:
        validation.require_kind("attribute", self.attribute, Attribute)
        object.__setattr__(self, "name", self.attribute.name)
        super().__post_init__()
        name, privacy, plane = self.name, self.privacy, self.attribute.coordinates
        if (plane is None) is (self.dimension == 2):
            expected = "None for a number, and an AzimuthalEquidistant for a place"
            raise ParameterError(f"{name}: coordinates", plane, expected)
        ends = self.attribute.least, self.attribute.most
        if plane is not None and ends != (None, None):
            raise ParameterError(f"{name}: least and most", ends, "None, but of a number")
        if not isinstance(privacy, GeoPrivacy) or privacy != GeoPrivacy(
            privacy.epsilon, privacy.per, self.unit
        ):
            expected = f"a pure GeoPrivacy over a distance in {self.unit}"
            raise ParameterError(f"{name}: privacy", str(privacy), expected)
        exponent = self.step_exponent
        if exponent is None:
            object.__setattr__(self, "step_exponent", step_exponent_of(self.mechanism.step))
        else:
            validation.require_count(f"{name}: step_exponent", exponent, -200, 200)
        _ = self.mechanism
        if self.applies is not None and self.largest_epsilon == float("inf"):
            expected = "both stated, for a number that not everybody is asked for"
            raise ParameterError(f"{name}: least and most", ends, expected)

    @lazy
    def _release(self) -> PointRelease:
        plane, exponent = self.attribute.coordinates, self.step_exponent
        return PointRelease(
            attribute=self.attribute,
            privacy=self.privacy if plane is None else plane.privacy(self.privacy),
            dimension=self.dimension,
            step=None if exponent is None else 2.0**exponent,
        )

    @property
    def mechanism(self) -> PlanarLaplace:
        """The mechanism that perturbs a point."""
        return self._release.mechanism

    @property
    def noise_scale(self) -> float:
        """The noise scale PER/ε in the coordinates of queries."""
        return 1 / self.mechanism.privacy.rate

    @lazy
    def ranges(self) -> tuple[tuple[int, int], ...]:
        return self._release.ranges

    @property
    def releasable(self) -> tuple[tuple[int, int], ...]:
        return ((-(2**63), 2**63 - 1),) * self.dimension

    @lazy
    def largest_epsilon(self) -> float:
        return self._release.largest_epsilon

    def prepare(self, value: Value) -> float | Array:
        return self.attribute.point(value, self.dimension)

    def release(self, prepared: float | Array, source: RandomSource) -> Sequence[int]:
        return self._release.release(prepared, source)

    def release_many(self, values: Array, source: RandomSource | None = None) -> NDArray[np.int64]:
        """Return the reports of many people, given their values, (n, columns)."""
        plane = self.attribute.coordinates
        if plane is not None:
            return self.mechanism.release_many(plane.project(values), source)
        points = np.array([self.prepare(value) for (value,) in values.tolist()], np.float64)
        return self.mechanism.release_many(self.clamped(points), source)

    def clamped(self, points: Array) -> Array:
        """Return many points as devices perturb them, numbers clamped to the range."""
        ends = self._release.ends
        return points if ends is None else np.clip(points, *ends)


@dataclass(frozen=True, kw_only=True)
class NumberField(PointField):
    """A number, such as money or years, possibly on a log scale.

    Example:
        >>> income = NumberField(
        ...     attribute=Attribute(name="income", unit="dollar", least=0, most=500_000),
        ...     privacy=GeoPrivacy(1, 8000, "dollar"),
        ... )
        >>> income.name, income.columns, income.largest_epsilon
        ('income', 1, 62.5)
    """

    otherwise: float | None = None
    """The value for people to whom it does not apply, in the values' unit, ideally near the others'
    mean; None for the middle of the range."""
    dimension = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.otherwise is not None:
            least, most = self.attribute.least, self.attribute.most
            if self.applies is None or least is None or most is None:
                raise ParameterError(f"{self.name}: otherwise", self.otherwise, "None")
            validation.between(f"{self.name}: otherwise", self.otherwise, least, most)

    @property
    def not_asked(self) -> float:
        ends = self._release.ends
        assert ends is not None  # both are required for conditional fields
        middle = ends[0] / 2 + ends[1] / 2  # the sum could overflow
        return middle if self.otherwise is None else float(self.prepare(self.otherwise))

    @lazy
    def epsilon_if_not_asked(self) -> float:
        ends = self._release.ends
        assert ends is not None
        far = max(abs(Fraction(end) - Fraction(self.not_asked)) for end in ends)
        return round_up(self.mechanism.privacy.exact_rate * far)


@dataclass(frozen=True, kw_only=True)
class PlaceField(PointField):
    """A place on the Earth: longitude and latitude in degrees, in an area.

    People to whom it does not apply count at the centre of the area.
    """

    dimension = 2

    @property
    def not_asked(self) -> Array:
        return np.zeros(2)

    @lazy
    def epsilon_if_not_asked(self) -> float:
        return round_up(Fraction(self.largest_epsilon) / 2)


@dataclass(frozen=True, kw_only=True)
class CategoryField(Field):
    """One or more of several options."""

    attribute: Attribute = field(init=False, repr=False, compare=False)
    privacy: GeoPrivacy | None = field(init=False, repr=False, compare=False)
    name: str
    """The attribute's name; 1 to 64 visible characters."""
    options: tuple[str, ...]
    """Distinct options, each of 1 to 64 visible characters."""
    epsilon: float | None = None
    """ε, above 0 and at most 16; None for an open field, sent unperturbed."""
    _unit: ClassVar[str] = OPTION
    _most: ClassVar[int] = MOST_OPTIONS

    def __post_init__(self) -> None:
        require_printable("name of a field", self.name, 64)
        options = self.options
        listed = isinstance(options, Sequence) and not isinstance(options, str)
        if not listed or not 2 <= len(options) <= self._most:
            raise ParameterError(f"{self.name}: options", options, f"2 to {self._most:,} names")
        for option in options:
            require_printable(f"{self.name}: options", option, 64)
        object.__setattr__(self, "options", tuple(options))
        if len(set(options)) != len(options):
            raise ParameterError(f"{self.name}: options", options, "distinct")
        if self.epsilon is not None:
            least = validation.LEAST
            epsilon = validation.between(f"{self.name}: epsilon", self.epsilon, least, MOST_EPSILON)
            object.__setattr__(self, "epsilon", epsilon)
        privacy = None if self.epsilon is None else GeoPrivacy(self.epsilon, 1.0, self._unit)
        object.__setattr__(self, "privacy", privacy)
        object.__setattr__(self, "attribute", Attribute(name=self.name, unit=self._unit))
        super().__post_init__()
        _ = self.ranges

    @property
    def attribute_options(self) -> tuple[str, ...]:
        return self.options

    @lazy
    def mechanism(self) -> CategoryMechanism | None:
        """The mechanism that perturbs an answer; None if the field is open."""
        return None if self.epsilon is None else self._mechanism(self.epsilon)

    @abstractmethod
    def _mechanism(self, epsilon: float) -> CategoryMechanism:
        """Return the mechanism for an ε."""

    @lazy
    def ranges(self) -> tuple[tuple[int, int], ...]:
        if self.mechanism is None:
            return ((0, len(self.options) - 1),)
        return tuple(self.mechanism.ranges)

    @lazy
    def largest_epsilon(self) -> float:
        return float("inf") if self.mechanism is None else self.mechanism.largest_epsilon

    @lazy
    def epsilon_if_not_asked(self) -> float:
        return self.largest_epsilon

    def index(self, option: object) -> int:
        """Return the index of an option, from 0.

        Raises:
            PrivateValueError: if it is not an option; the message does not quote it.
        """
        if isinstance(option, str) and option in self.options:
            return self.options.index(option)
        few = ", ".join(self.options[:20]) + (", …" if len(self.options) > 20 else "")
        raise PrivateValueError(f"{self.name}: one of {few}")

    def prepare(self, value: Any) -> int:
        return self.index(value)

    def release(self, prepared: int, source: RandomSource) -> Sequence[int]:
        return (prepared,) if self.mechanism is None else self.mechanism.release(prepared, source)


@dataclass(frozen=True, kw_only=True)
class SingleField(CategoryField):
    """Exactly one of several options."""

    otherwise: str | None = None
    """The option that stands for "does not apply"; only of a field with a condition."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.otherwise not in ((None,) if self.applies is None else self.options):
            expected = "None: everybody is asked" if self.applies is None else "an option"
            raise ParameterError(f"{self.name}: otherwise", self.otherwise, expected)

    @property
    def not_asked(self) -> int:
        return self.index(self.otherwise)


@dataclass(frozen=True, kw_only=True)
class ChoiceField(SingleField):
    """One of 2 to 10,000 options at equal distances, such as yes and no.

    It uses randomised response for up to 3e^ε + 2 options, otherwise unary encoding.

    Example:
        >>> rents = ChoiceField(name="rents", options=("yes", "no"), epsilon=2.0)
        >>> str(rents.privacy), rents.columns
        ('ε = 2 per 1 option', 1)
    """

    def _mechanism(self, epsilon: float) -> CategoryMechanism:
        return category_mechanism(len(self.options), epsilon)


@dataclass(frozen=True, kw_only=True)
class OrdinalField(SingleField):
    """One of 2 to 100 ordered options; ε is between neighbours."""

    _unit = STEP
    _most = MOST_STEPS

    def _mechanism(self, epsilon: float) -> CategoryMechanism:
        return OrdinalResponse(len(self.options), epsilon)

    @lazy
    def epsilon_if_not_asked(self) -> float:
        if self.epsilon is None:
            return float("inf")
        steps = max(self.not_asked, len(self.options) - 1 - self.not_asked)
        return min(self.largest_epsilon, round_up(Fraction(self.epsilon) * steps))


@dataclass(frozen=True, kw_only=True)
class MultipleField(CategoryField):
    """Any subset of 2 to 62 options; one option more or less is a distance of 1."""

    most: int | None = None
    """The most options that a device lets a person choose; None for all."""
    _most = MOST_TICKS

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.most is not None:
            validation.require_count(f"{self.name}: most", self.most, 1, len(self.options))

    def _mechanism(self, epsilon: float) -> CategoryMechanism:
        return SubsetResponse(len(self.options), epsilon, self.most)

    @lazy
    def ranges(self) -> tuple[tuple[int, int], ...]:
        return ((0, 2 ** len(self.options) - 1),)

    @lazy
    def epsilon_if_not_asked(self) -> float:
        if self.epsilon is None:
            return float("inf")
        return round_up(Fraction(self.epsilon) * (self.most or len(self.options)))

    def prepare(self, value: Collection[str]) -> int:
        many = f"{self.name}: at most {self.most or len(self.options)} distinct options"
        if isinstance(value, (str, bytes)) or not isinstance(value, Collection):
            raise PrivateValueError(f"{many}, in a list")
        ticked = {self.index(option) for option in value}
        if len(ticked) != len(value) or len(ticked) > (self.most or len(self.options)):
            raise PrivateValueError(many)
        return sum(1 << index for index in ticked)

    @property
    def not_asked(self) -> int:
        return 0
