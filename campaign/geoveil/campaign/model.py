"""A campaign: what is asked of many devices, and all they need to answer it.

There are two kinds. To a `StatisticCampaign` a report holds perturbed answers to its questions; to
a `ValueCampaign` it holds a perturbed point, of which any query is asked later. Either way a report
is a few integers on a public grid, each of one *column*: a question, or a coordinate. Where people
are in groups, every group has its own columns: see `Strata`.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from math import ldexp
from typing import TypeAlias

from geoveil.campaign.readings import COHORT, MOST_COHORTS, Readings
from geoveil.campaign.strata import Strata
from geoveil.campaign.text import plain
from geoveil.gp import (
    INT64_MAX,
    INT64_MIN,
    LOG,
    UNLIMITED,
    Array,
    ArrayLike,
    AzimuthalEquidistant,
    FindsMoments,
    GeoPrivacy,
    Limits,
    LogScale,
    ParameterError,
    PlanarLaplace,
    PrivateValueError,
    QueryMechanism,
    RandomSource,
    lazy,
    member,
    validation,
)

MOST_SLOTS = 100_000
"""The most columns times periods: as many sums does a server keep for one campaign."""
LIKELY_BEYOND = 2.0**-41
"""The largest share of reports that honest noise takes out of the range that counts: of a million
reports, any at all in one of two million campaigns."""
_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


def check_campaign_id(campaign_id: object) -> None:
    """Refuse what can't name a campaign.

    Raises:
        ParameterError: saying what can.
    """
    if not isinstance(campaign_id, str) or not _ID.fullmatch(campaign_id):
        raise ParameterError(
            "campaign_id",
            campaign_id,
            "1 to 64 lower-case letters, digits, '-' and '_', the first a letter or digit",
        )


Value: TypeAlias = "float | int | Sequence[float] | Array"
"""A number, a list of numbers, or (longitude, latitude) in degrees."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribute:
    """A metric space in which every participant has one point."""

    name: str
    """For example "household income" or "location"."""
    unit: str
    """Unit of distance, for example "dollar"; "metre" for places, "log dollar" for ratios."""
    coordinates: AzimuthalEquidistant | None = None
    """The plane of places given as (longitude, latitude); None if values are used as they are."""
    scale: LogScale | None = None
    """What turns numbers into logarithms, so that ratios are distances; None if values are used as
    they are."""
    least: float | None = None
    """The least number that people are expected to hold, a public fact of one number; None: any.
    Who holds one beyond is asked whether it is meant. Of a value campaign with both ends it then
    counts as the nearer end (`Campaign.clamped`), else as it is."""
    most: float | None = None
    """The greatest, likewise."""

    def __post_init__(self) -> None:
        plain("attribute.name", self.name, 64)
        plain("attribute.unit", self.unit, 64)
        if not isinstance(self.coordinates, AzimuthalEquidistant | None):
            raise ParameterError(
                "attribute.coordinates", self.coordinates, "an AzimuthalEquidistant, or None"
            )
        if self.coordinates is not None and self.unit != "metre":
            raise ParameterError("attribute.unit", self.unit, "'metre' for places on the Earth")
        if not isinstance(self.scale, LogScale | None):
            raise ParameterError("attribute.scale", self.scale, "a LogScale, or None")
        # By their units policies and ledgers tell ratios from differences.
        if (self.scale is None) is self.unit.startswith(LOG):
            expected = f"{LOG.strip()!r} and the unit of values on a log scale, and only there"
            raise ParameterError("attribute.unit", self.unit, expected)
        validation.require_ends("attribute.", self.least, self.most)

    @property
    def value_unit(self) -> str:
        """The unit of what participants hold: "dollar" where distances are in "log dollar"."""
        return self.unit if self.scale is None else self.unit.removeprefix(LOG)

    @property
    def distortion(self) -> float:
        """κ: how much longer a distance may be in the queries' coordinates than in truth."""
        return 1.0 if self.coordinates is None else self.coordinates.distortion

    def point(self, value: Value, dimension: int) -> float | Array:
        """Return one participant's value in the coordinates of the queries.

        Args:
            value: what the participant holds.
            dimension: number of coordinates that queries take.

        Raises:
            PrivateValueError: if it is no finite number (or numbers) of the kind asked for.
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
            # What most devices hold, for which no array is needed.
            return float(value) if self.scale is None else self.scale.coordinate(float(value))
        array = validation.exact_array(value)
        if array is None:
            raise PrivateValueError(f"{expected}, {validation.HELD}")
        if array.size != dimension or array.ndim > 1:
            raise PrivateValueError(expected)
        if not all(map(math.isfinite, array.ravel().tolist())):
            raise PrivateValueError(expected)
        if self.coordinates is not None:
            return self.coordinates.project(array)
        if self.scale is not None:
            return self.scale.coordinate(array.item())
        return array.reshape(()) if dimension == 1 else array


class State(Enum):
    """Whether a campaign takes reports."""

    __repr__ = member

    PENDING = "pending"
    OPEN = "open"
    CLOSED = "closed"


@dataclass(frozen=True, kw_only=True)
class Campaign(ABC):
    """What campaigns of both kinds say: all of it public, validated as a whole when it is made.

    A campaign that is made can be written, signed, read again and answered, on the server and on
    the device alike.

    Raises:
        ParameterError: naming the field, its value and what is permitted.
        UnsupportedError: if the mechanism has no proof for one of the queries, or a query or a
            mechanism is of a kind that no campaign carries.
    """

    campaign_id: str
    """Lower-case letters, digits, "-" and "_"; 1 to 64 of them, the first a letter or digit."""
    title: str
    """One line that people read; 1 to 200 visible characters."""
    attribute: Attribute
    """What participants hold."""
    privacy: GeoPrivacy
    """The stated guarantee, in the unit of the attribute. A report spends `report_privacy`."""
    opens: datetime
    """The time from which reports are accepted; with a time zone."""
    closes: datetime
    """The time before which reports are accepted; with a time zone."""
    step_exponent: int | None = None
    """The public grid is 2 to this power; by default the finest that a mechanism asks for."""
    period: timedelta | None = None
    """The length of a period of a recurring campaign, whose first begins when it opens: each
    participant answers once in every period, and spends `report_privacy` each time. None: once."""
    minimum_participants: int = 0
    """No estimate is shown before it rests on so many answers; a promise by the server."""
    strata: Strata | None = None
    """The groups that participants tell which of them they are in; None: one."""
    readings: Readings | None = None
    """How often a value is read and perturbed; None: for every report, unless the app's policy says
    otherwise."""

    def __post_init__(self) -> None:
        self._check_kinds()
        self._check_names()
        self._check_mechanism()
        self._check_dates()
        self._check_periods()
        self._check_minimum()
        self._check_privacy()
        _ = self.total_privacy  # refuses what can't be added up
        if self.step_exponent is None:
            object.__setattr__(self, "step_exponent", self._finest_exponent())
        self._build_mechanisms()  # refuses what has no proof
        self._check_readings()
        _ = self.encoded  # refuses what can't travel

    @lazy
    def encoded(self) -> bytes:
        """The canonical bytes, of which the digest is taken."""
        from geoveil.campaign.codec import encode  # which makes campaigns

        return encode(self)

    @lazy
    @abstractmethod
    def dimension(self) -> int:
        """The number of coordinates of a participant's value, as queries take it."""

    @lazy
    @abstractmethod
    def columns(self) -> int:
        """The number of things that a query_index counts: questions, or coordinates of a point."""

    @lazy
    @abstractmethod
    def answers_all(self) -> bool:
        """Whether a report has an integer for every column; else for one, drawn uniformly."""

    @property
    def answers(self) -> int:
        """The number of integers in a report: one, or one per column."""
        return self.columns if self.answers_all else 1

    @property
    @abstractmethod
    def labels(self) -> tuple[str, ...]:
        """The name of each column."""

    def words_for(self, label: str) -> str:
        """Return what people read for the name of a column, or of a question asked later."""
        return label

    @lazy
    @abstractmethod
    def mechanisms(self) -> tuple[QueryMechanism, ...]:
        """What perturbs the answer in each column by itself; none where a point is perturbed."""

    @lazy
    @abstractmethod
    def ranges(self) -> tuple[tuple[int, int], ...]:
        """The least and greatest integer that counts in each column.

        All that can be reported, where that is bounded. Reports with noise that knows no bound stay
        in this range in all but 2⁻⁴¹ of cases, whatever the value, and perturbed places likewise.
        """

    @property
    @abstractmethod
    def releasable(self) -> tuple[tuple[int, int], ...]:
        """The least and greatest integer that a device may report in each column."""

    @lazy
    @abstractmethod
    def outputs(self) -> tuple[frozenset[int] | None, ...]:
        """All integers that can be reported in each column; None where that is its whole range."""

    @property
    @abstractmethod
    def answer_privacy(self) -> GeoPrivacy:
        """What one answer, or one point, spends, in true distances."""

    @lazy
    @abstractmethod
    def report_privacy(self) -> GeoPrivacy:
        """What one report spends, all its answers together, in true distances."""

    @property
    def clamped(self) -> bool:
        """Whether values count as the nearest in the attribute's range, from `least` to `most`."""
        return False

    @lazy
    def largest_epsilon(self) -> float:
        """ε of one report between any two values, however far apart; infinite where it has none."""
        return math.inf

    @lazy
    @abstractmethod
    def nests(self) -> bool:
        """Whether reports can be made from one perturbed point, at the rate of one answer."""

    @lazy
    @abstractmethod
    def point_mechanism(self) -> PlanarLaplace:
        """What perturbs a point, in the coordinates of queries, at the rate of one answer."""

    @abstractmethod
    def answers_from(
        self, point: Sequence[int], columns: Sequence[int], source: RandomSource
    ) -> Sequence[int]:
        """Return the integers that one report holds, made from a perturbed point.

        Args:
            point: what `point_mechanism` released, or a `Coarsening` to it.
            columns: the columns that `draw_columns` returned.
            source: random bits.
        """

    @lazy
    def groups(self) -> int:
        """How many groups participants are told apart by: 1 without strata."""
        return 1 if self.strata is None else len(self.strata.labels)

    @lazy
    def indices(self) -> int:
        """How many values a query_index can have: columns, group after group."""
        return self.columns * self.groups

    def draw_first_index(self, group: int | None, source: RandomSource) -> int:
        """Return the query_index of the first column of the group that a report is sent for.

        Args:
            group: the participant's, from 0; None without strata. Private.
            source: random bits.
        """
        if self.strata is None or group is None:
            return 0
        return self.columns * self.strata.draw(group, source)

    def draw_columns(self, source: RandomSource) -> Sequence[int]:
        """Return the columns that one report has values of, in its order."""
        return range(self.columns) if self.answers_all else (source.below(self.columns),)

    @abstractmethod
    def release(
        self, point: ArrayLike, columns: Sequence[int], source: RandomSource
    ) -> Sequence[int]:
        """Return the integers that one report holds.

        Args:
            point: the participant's value in the coordinates of queries, shape (1,) or (1, k).
            columns: the columns that `draw_columns` returned.
            source: random bits.
        """

    @lazy
    def clamps(self) -> tuple[bool, ...]:
        """Whether a report outside the range of a column counts as its end; else it is refused."""
        return tuple(
            of_one != counts for of_one, counts in zip(self.releasable, self.ranges, strict=True)
        )

    def counted(self, index: int, value: int) -> int:
        """Return what a reported integer counts as: the nearest end of a range that clamps."""
        column = index % self.columns
        low, high = self.ranges[column]
        return min(max(value, low), high) if self.clamps[column] else value

    def most_from_one(self, column: int) -> float:
        """Return how far the sum of a column moves at most when one report becomes another.

        Infinite where every integer counts as it is: numbers have no ends.
        """
        low, high = self.ranges[column]
        if (low, high) == (INT64_MIN, INT64_MAX):
            return math.inf
        return ldexp(high - low, self.grid_exponent)

    @lazy
    def limits(self) -> tuple[Limits, ...]:
        """What reports in each column, and their mean over any people, can be, in its unit.

        Reports with noise that knows no bound have no limits, though only some of them count.
        """
        step = ldexp(1.0, self.grid_exponent)
        of_questions = []
        of_columns = zip(self.ranges, self.clamps, self._means, self._moments, strict=True)
        for (low, high), clamps, means, moments in of_columns:
            endless = clamps or (low, high) == (INT64_MIN, INT64_MAX)
            reports = UNLIMITED.reports if endless else (low * step, high * step)
            of_questions.append(Limits(reports, means, moments))
        return tuple(of_questions)

    @property
    def _means(self) -> tuple[tuple[float, float], ...]:
        """The least and the greatest mean of reports in each column, over any people."""
        return (UNLIMITED.means,) * self.columns

    @property
    def _moments(self) -> Sequence[FindsMoments]:
        """What finds the moments of a report in each column."""
        return (UNLIMITED.moments,) * self.columns

    @lazy
    def grid_exponent(self) -> int:
        """The exponent of the public grid, resolved."""
        assert self.step_exponent is not None  # __post_init__ sees to it
        return self.step_exponent

    @lazy
    def total_privacy(self) -> GeoPrivacy:
        """What a participant spends who reports in every period."""
        return self.privacy_of(self.periods)

    def privacy_of(self, periods: int) -> GeoPrivacy:
        """Return what a participant spends at most who reports in so many periods on end."""
        if self.readings is not None and self.period is not None:
            periods = min(periods, self.readings.most(periods * self.period))
        return self.report_privacy.repeated(periods)

    def state(self, now: datetime, *, closed: bool = False) -> State:
        """Return whether reports are taken at `now`, given whether its analyst closed it."""
        if closed or now >= self.closes:
            return State.CLOSED
        return State.PENDING if now < self.opens else State.OPEN

    @lazy
    def periods(self) -> int:
        """How often a participant can answer: 1 unless the campaign recurs."""
        if self.period is None:
            return 1
        return -((self.opens - self.closes) // self.period)

    def period_at(self, now: datetime) -> int:
        """Return the period at a time, from 0; times outside the dates count to the nearest one."""
        if self.period is None:
            return 0
        return min(max((now - self.opens) // self.period, 0), self.periods - 1)

    @property
    def slots(self) -> int:
        """How many sums the answers make: one per column, group and period."""
        return self.indices * self.periods

    def slot(self, index: int, period: int) -> int:
        """Return which of the sums an answer belongs to: those of one period are together."""
        return period * self.indices + index

    @property
    def _step(self) -> float:
        exponent = self.step_exponent
        if isinstance(exponent, bool) or not isinstance(exponent, int) or abs(exponent) > 200:
            raise ParameterError(
                "grid.step_exponent", self.step_exponent, "an integer in [-200, 200]"
            )
        return ldexp(1.0, exponent)

    @property
    def _plane_privacy(self) -> GeoPrivacy:
        """What one answer spends, in the coordinates of queries."""
        privacy = self.answer_privacy
        if self.attribute.coordinates is not None:
            privacy = self.attribute.coordinates.privacy(privacy)
        return privacy

    @abstractmethod
    def _finest_exponent(self) -> int:
        """Return the exponent of the finest grid that a mechanism asks for."""

    @abstractmethod
    def _build_mechanisms(self) -> None:
        """Build what perturbs, on the campaign's grid; refuse what has no proof."""

    @abstractmethod
    def _check_mechanism(self) -> None:
        """Refuse a mechanism, and what goes with it, that is not of this kind of campaign."""

    def _check_kinds(self) -> None:
        kinds: dict[str, type] = {
            "attribute": Attribute,
            "privacy": GeoPrivacy,
            "opens": datetime,
            "closes": datetime,
        }
        for name, kind in kinds.items():
            if not isinstance(getattr(self, name), kind):
                article = "an" if kind.__name__[0] in "AO" else "a"
                raise ParameterError(name, getattr(self, name), f"{article} {kind.__name__}")
        if not isinstance(self.strata, Strata | None):
            raise ParameterError("strata", self.strata, "a Strata, or None")

    def _check_privacy(self) -> None:
        unit, privacy = self.attribute.unit, self.privacy
        if privacy.unit != unit:
            raise ParameterError("privacy", str(privacy), f"over a distance in {unit}")
        if self.attribute.scale is not None and privacy.reach < math.inf:
            raise ParameterError("privacy.reach", privacy.reach, "infinite on a log scale")
        if privacy.delta > 0 and not self._has_slack:
            raise ParameterError(
                "privacy.delta", privacy.delta, "0, but of smooth noise of the family laplace"
            )
        if privacy.delta == 0 and privacy.reach < math.inf:
            raise ParameterError(
                "privacy.reach", privacy.reach, "infinite: without a δ it holds at every distance"
            )

    @property
    def _has_slack(self) -> bool:
        """Whether the mechanism is for guarantees with a δ."""
        return False

    def _check_names(self) -> None:
        check_campaign_id(self.campaign_id)
        plain("title", self.title, 200)

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

    def _check_dates(self) -> None:
        for name, date in (("opens", self.opens), ("closes", self.closes)):
            if date.tzinfo is None:
                raise ParameterError(name, date.isoformat(), "a date with a time zone")
            try:
                date.astimezone(UTC)
            except OverflowError:
                raise ParameterError(name, date.isoformat(), "within the years 1 to 9999") from None
        if not self.opens < self.closes:
            raise ParameterError(
                "closes", self.closes.isoformat(), f"after {self.opens.isoformat()}"
            )
        if self.closes - self.opens > timedelta(days=3660):
            raise ParameterError(
                "closes", self.closes.isoformat(), "within ten years of its opening"
            )

    def _check_periods(self) -> None:
        if self.period is None:
            if self.slots > MOST_SLOTS:
                few = f"so few that queries times labels are at most {MOST_SLOTS:,}"
                raise ParameterError("number of strata.labels", self.groups, few)
            return
        if not isinstance(self.period, timedelta) or self.period < timedelta(minutes=1):
            raise ParameterError("period", str(self.period), "at least a minute, or None")
        if self.slots > MOST_SLOTS:
            raise ParameterError(
                "period",
                str(self.period),
                f"so long that queries times {'labels times ' if self.strata else ''}periods,"
                f" {self.slots:,}, are at most {MOST_SLOTS:,}",
            )

    @lazy
    def tells_cohorts(self) -> bool:
        """Whether a report's label is in which part of an epoch its device's epochs begin."""
        strata = self.strata
        return self.readings is not None and strata is not None and strata.name == COHORT

    def _check_readings(self) -> None:
        if not isinstance(self.readings, Readings | None):
            raise ParameterError("readings", self.readings, "a Readings, or None")
        if self.readings is not None and not self.nests:
            raise ParameterError(
                "readings",
                str(self.readings.every),
                "None: only points, and DebiasedLaplace on a line, are answered from one reading",
            )

        if not self.tells_cohorts or self.strata is None:
            return
        if self.strata.epsilon is not None:
            raise ParameterError(
                "strata.epsilon", self.strata.epsilon, f"None where the strata are named {COHORT!r}"
            )
        if self.groups > MOST_COHORTS:
            few = f"at most {MOST_COHORTS} where the strata are named {COHORT!r}"
            raise ParameterError("number of strata.labels", self.groups, few)

    def _check_minimum(self) -> None:
        least = self.minimum_participants
        if isinstance(least, bool) or not isinstance(least, int) or not 0 <= least <= 10**12:
            raise ParameterError("minimum_participants", least, "an integer from 0 to 10^12")
