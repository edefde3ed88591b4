"""Attributes, and campaigns about one: the common part of statistic and value campaigns."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ldexp
from typing import TypeAlias

from geoveil.campaign.model import Campaign, Charge, require_campaign
from geoveil.campaign.readings import Readings
from geoveil.campaign.text import require_printable
from geoveil.campaign.translation import Texts, Translation
from geoveil.gp import (
    INT64_MAX,
    INT64_MIN,
    LOG,
    UNLIMITED,
    Array,
    ArrayLike,
    AzimuthalEquidistant,
    GeoPrivacy,
    Limits,
    LogScale,
    ParameterError,
    PlanarLaplace,
    PrivateValueError,
    RandomSource,
    UnsupportedError,
    lazy,
    validation,
)

Value: TypeAlias = "float | int | Sequence[float] | Array"
"""A number, a list of numbers, or (longitude, latitude) in degrees."""
LIKELY_BEYOND = 2.0**-41
"""The largest probability that honest noise leaves the counted range: with a million reports, it
happens in one of two million campaigns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribute:
    """A metric space in which every participant has one point."""

    name: str
    """The name, for example "household income" or "location"."""
    unit: str
    """The unit of distances, for example "dollar"; "metre" for places, "log dollar" for ratios."""
    coordinates: AzimuthalEquidistant | None = None
    """The plane onto which (longitude, latitude) is projected; None if values are used as given."""
    scale: LogScale | None = None
    """Turns numbers into logarithms, whose distances are ratios; None to use values as given."""
    least: float | None = None
    """The least expected number, a public fact; None for any. A person with a number beyond must
    confirm it. In a value campaign with both ends it then counts as the nearer end
    (`Campaign.clamped`), otherwise unchanged."""
    most: float | None = None
    """The greatest expected number, treated in the same way."""

    def __post_init__(self) -> None:
        require_printable("attribute.name", self.name, 64)
        require_printable("attribute.unit", self.unit, 64)
        validation.require_kind(
            "attribute.coordinates", self.coordinates, AzimuthalEquidistant | None
        )
        if self.coordinates is not None and self.unit != "metre":
            raise ParameterError("attribute.unit", self.unit, "'metre' for places on the Earth")
        validation.require_kind("attribute.scale", self.scale, LogScale | None)
        # Policies and ledgers distinguish ratios from differences by their units.
        if (self.scale is None) is self.unit.startswith(LOG):
            expected = f"{LOG.strip()!r} and the unit of values on a log scale, and only there"
            raise ParameterError("attribute.unit", self.unit, expected)
        validation.require_ends("attribute.", self.least, self.most)

    @property
    def value_unit(self) -> str:
        """The unit of participants' values: "dollar" if distances are in "log dollar"."""
        return self.unit if self.scale is None else self.unit.removeprefix(LOG)

    @property
    def distortion(self) -> float:
        """κ, the largest ratio of a distance in the queries' coordinates to the true distance."""
        return 1.0 if self.coordinates is None else self.coordinates.distortion

    def point(self, value: Value, dimension: int) -> float | Array:
        """Return one participant's value in the queries' `dimension` coordinates.

        Raises:
            PrivateValueError: unless it is finite and of the attribute's kind.
        """
        expected = "a longitude and a latitude, in degrees"
        if self.coordinates is None:
            many = "a finite number" if dimension == 1 else f"{dimension} finite numbers"
            expected = f"{many}, in {self.value_unit}"
        if isinstance(value, (bool, str, bytes)):
            raise PrivateValueError(f"{expected}, and neither a text nor a truth value")
        if dimension == 1 and self.coordinates is None and validation.is_plain(value):
            if not math.isfinite(value):
                raise PrivateValueError(expected)
            # The usual value of a device, which needs no array.
            return float(value) if self.scale is None else self.scale.coordinate(float(value))
        array = validation.exact_array(value)
        if array is None:
            raise PrivateValueError(f"{expected}, {validation.HELD}")
        finite = all(map(math.isfinite, array.ravel().tolist()))
        if array.size != dimension or array.ndim > 1 or not finite:
            raise PrivateValueError(expected)
        if self.coordinates is not None:
            return self.coordinates.project(array)
        if self.scale is not None:
            return self.scale.coordinate(array.item())
        return array.reshape(()) if dimension == 1 else array


@dataclass(frozen=True, kw_only=True)
class AttributeCampaign(Campaign):
    """A campaign about one attribute."""

    attribute: Attribute
    """The attribute of participants' values."""
    privacy: GeoPrivacy
    """The stated guarantee, in the unit of the attribute. A report spends `report_privacy`."""
    step_exponent: int | None = None
    """The public grid is 2 to this power; by default the finest that a mechanism needs. A coarser
    one rounds every answer, which moves a mean by up to half of a step, and one of extrapolated
    answers by up to two steps."""
    readings: Readings | None = None
    """The schedule of readings; None: unless the policy differs, each report is perturbed anew."""

    @lazy
    @abstractmethod
    def dimension(self) -> int:
        """The number of coordinates of a participant's value in queries."""

    @property
    @abstractmethod
    def answer_privacy(self) -> GeoPrivacy:
        """The guarantee of one answer or point, in true distances."""

    @lazy
    @abstractmethod
    def report_privacy(self) -> GeoPrivacy:
        """The guarantee of one report with all its answers, in true distances."""

    @property
    def clamped(self) -> bool:
        """Whether values are clamped to the attribute's range, from `least` to `most`."""
        return False

    @lazy
    @abstractmethod
    def largest_epsilon(self) -> float:
        """ε of one report between any two values at any distance; infinite without a bound."""

    @lazy
    @abstractmethod
    def nests(self) -> bool:
        """Whether reports can be made from one point, perturbed at the rate of one answer."""

    @lazy
    @abstractmethod
    def point_mechanism(self) -> PlanarLaplace:
        """The mechanism that perturbs a point in queries' coordinates at one answer's rate."""

    @abstractmethod
    def answers_from(
        self, point: Sequence[int], columns: Sequence[int], source: RandomSource
    ) -> Sequence[int]:
        """Return a report's integers for `draw_columns` from a released or coarsened point."""

    @lazy
    def charges(self) -> tuple[Charge, ...]:
        return (Charge(self.attribute.name, self.report_privacy, self.largest_epsilon),)

    def _texts(self, chosen: Translation) -> Texts:
        name, unit = self.attribute.name, self.attribute.value_unit
        return (
            super()
            ._texts(chosen)
            ._replace(attribute=chosen.attribute or name, unit=chosen.unit or unit)
        )

    @lazy
    def cohorts(self) -> int:
        return 1 if self.readings is None else max(self.readings.cohorts, 1)

    def draw_columns(self, source: RandomSource) -> Sequence[int]:
        """Return the columns in which one report has values, in its order."""
        return range(self.columns) if self.answers_all else (source.below(self.columns),)

    @abstractmethod
    def release(
        self, point: ArrayLike, columns: Sequence[int], source: RandomSource
    ) -> Sequence[int]:
        """Return a report's integers for `draw_columns` from a point (1,) or (1, k)."""

    def most_from_one(self, column: int) -> float:
        """Return the most by which one report can change a column's sum; may be infinite."""
        low, high = self.ranges[column]
        if (low, high) == (INT64_MIN, INT64_MAX):
            return math.inf
        return ldexp(high - low, self.grid_exponent)

    @lazy
    def limits(self) -> tuple[Limits, ...]:
        """Bounds of reports in each column, and of their mean over any people, in its unit.

        Unbounded noise has no limits, although only reports within the range count.
        """
        return tuple(map(self._limits, range(self.columns)))

    def _limits(self, column: int) -> Limits:
        low, high = self.ranges[column]
        if self.clamps[column] or (low, high) == (INT64_MIN, INT64_MAX):
            return UNLIMITED
        step = ldexp(1.0, self.grid_exponent)
        return replace(UNLIMITED, reports=(low * step, high * step))

    @lazy
    def grid_exponent(self) -> int:
        """The exponent of the public grid, resolved."""
        assert self.step_exponent is not None  # __post_init__ sees to it
        return self.step_exponent

    @lazy
    def total_privacy(self) -> GeoPrivacy:
        """The guarantee of a participant who reports in every period."""
        return self.privacy_of(self.periods)

    def privacy_of(self, periods: int) -> GeoPrivacy:
        """Return the largest cost to a participant who reports in this many successive periods."""
        if self.readings is not None and self.period is not None:
            periods = min(periods, self.readings.most(periods * self.period))
        return self.report_privacy.repeated(periods)

    @property
    def _step(self) -> float:
        return ldexp(
            1.0, validation.require_count("grid.step_exponent", self.step_exponent, -200, 200)
        )

    @property
    def _plane_privacy(self) -> GeoPrivacy:
        """The guarantee of one answer, in queries' coordinates."""
        privacy = self.answer_privacy
        if self.attribute.coordinates is not None:
            privacy = self.attribute.coordinates.privacy(privacy)
        return privacy

    @abstractmethod
    def _finest_exponent(self) -> int:
        """Return the exponent of the finest grid that a mechanism needs."""

    @abstractmethod
    def _build_mechanisms(self) -> None:
        """Build the mechanisms on the campaign's grid; refuse those without a proof."""

    def _complete(self) -> None:
        self._check_privacy()
        _ = self.total_privacy  # refuses guarantees that can't be added up
        if self.step_exponent is None:
            object.__setattr__(self, "step_exponent", self._finest_exponent())
        self._build_mechanisms()  # refuses mechanisms without a proof
        self._check_readings()

    def _check_kinds(self) -> None:
        super()._check_kinds()
        validation.require_kind("attribute", self.attribute, Attribute)
        validation.require_kind("privacy", self.privacy, GeoPrivacy)

    def _check_privacy(self) -> None:
        unit, privacy = self.attribute.unit, self.privacy
        if privacy.unit != unit:
            raise ParameterError("privacy", str(privacy), f"over a distance in {unit}")
        if self.attribute.scale is not None and privacy.reach < math.inf:
            raise ParameterError("privacy.reach", privacy.reach, "infinite on a log scale")
        if privacy.delta > 0 and not self._has_slack:
            raise ParameterError(
                "privacy.delta", privacy.delta, "0, except for smooth noise of the family laplace"
            )
        if privacy.delta == 0 and privacy.reach < math.inf:
            raise ParameterError(
                "privacy.reach", privacy.reach, "infinite: without a δ it holds at every distance"
            )

    @property
    def _has_slack(self) -> bool:
        """Whether the mechanism is for guarantees with a δ."""
        return False

    def _check_dimension(self, name: str) -> None:
        plane = self.attribute.coordinates
        if plane is not None and self.dimension != plane.dimension:
            raise ParameterError(name, self.dimension, f"{plane.dimension} for places")
        if self.attribute.scale is not None and self.dimension != 1:
            raise ParameterError(name, self.dimension, "1 on a log scale")
        for end in ("least", "most"):
            stated = getattr(self.attribute, end)
            if stated is not None and self.dimension != 1:
                raise ParameterError(f"attribute.{end}", stated, "None, but of one number")

    def _check_readings(self) -> None:
        validation.require_kind("readings", self.readings, Readings | None)
        if self.readings is not None and not self.nests:
            raise ParameterError(
                "readings",
                str(self.readings.every),
                "None: only points, and DebiasedLaplace on a line, are answered from one reading",
            )


def require_attribute(campaign: Campaign) -> AttributeCampaign:
    """Return the campaign if it is about one attribute; UnsupportedError if it is a form.

    Raises:
        ParameterError: if it is not a campaign.
    """
    require_campaign(campaign)
    if not isinstance(campaign, AttributeCampaign):
        raise UnsupportedError(
            f"{campaign.campaign_id!r} is a form of several fields, whose reports are exported"
        )
    return campaign
