"""A campaign: one public question put to many devices, and all they need to answer it.

There are two kinds. A *statistic* campaign has questions, and a report holds perturbed answers to
them. A *value* campaign has none, and its mechanism is a `PlanarLaplaceSpec`: a report holds a
perturbed point, of which any query is asked later. Either way a report is a few integers, each of a
*column*: a question, or a coordinate.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import Enum
from math import ldexp

from geoveil.campaign.allocation import Allocation
from geoveil.campaign.attribute import Attribute
from geoveil.campaign.counted import columns_that_clamp, counted_ranges
from geoveil.campaign.families import MechanismSpec, foreign
from geoveil.campaign.mechanisms import DebiasedLaplaceSpec, PlanarLaplaceSpec
from geoveil.campaign.question import Question
from geoveil.campaign.text import plain
from geoveil.gp import (
    GeoPrivacy,
    Mechanism,
    ParameterError,
    PlanarLaplace,
    Query,
    UnsupportedError,
)
from geoveil.gp.exact.release import step_exponent_of
from geoveil.gp.lazy import lazy
from geoveil.gp.shown import member

MOST_QUESTIONS = 10_000
MOST_SLOTS = 100_000
"""Columns times periods: as many sums does a server keep for one campaign."""
_AXES = ("x", "y", "z")
_PLACE_AXES = ("metres east", "metres north")
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


class State(Enum):
    """Whether a campaign takes reports."""

    __repr__ = member

    PENDING = "pending"
    OPEN = "open"
    CLOSED = "closed"


@dataclass(frozen=True, kw_only=True)
class Campaign:
    """Everything public; validated as a whole when it is made, on the server and on the device.

    A campaign that is made can be written, signed, read again and answered.

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
    """What is to be allocated, in the unit of the attribute: the guarantee to each participant for
    one report or, with REPEAT, for each answer in it. What they spend is `report_privacy`."""
    opens: datetime
    """With a time zone; reports are accepted from here on."""
    closes: datetime
    """With a time zone; reports are accepted until before it."""
    questions: tuple[Question, ...] = ()
    """1 to 10,000, all of one dimension, with distinct labels; none of a value campaign."""
    mechanism: MechanismSpec | PlanarLaplaceSpec = field(default_factory=DebiasedLaplaceSpec)
    """What perturbs an answer; a `PlanarLaplaceSpec` makes it a value campaign."""
    allocation: Allocation = Allocation.PARTITION
    """How the privacy is spent over the questions; PARTITION where there are none."""
    step_exponent: int | None = None
    """Of the public grid; by default the finest that a mechanism asks for."""
    period: timedelta | None = None
    """Of a recurring campaign: each participant answers once in every period, the first of which
    begins when the campaign opens, and spends `report_privacy` each time. None: once in all."""
    minimum_participants: int = 0
    """No estimate is shown before it rests on so many answers; a promise by the server."""

    def __post_init__(self) -> None:
        self._check_kinds()
        self._check_names()
        self._check_questions()
        self._check_dates()
        self._check_periods()
        self._check_minimum()
        stated = (self.privacy.delta, self.privacy.reach, self.privacy.unit)
        if stated != (0, math.inf, self.attribute.unit):
            raise ParameterError(
                "privacy",
                str(self.privacy),
                f"pure, at every distance, over a distance in {self.attribute.unit}",
            )
        _ = self.total_privacy  # refuses what can't be added up
        if self.step_exponent is None:
            object.__setattr__(self, "step_exponent", self._finest_exponent())
        _ = self.point_mechanism if self.is_value else self.mechanisms  # refuses what has no proof
        _ = self.encoded  # refuses what can't travel

    @lazy
    def encoded(self) -> bytes:
        """The canonical bytes, of which the digest is taken."""
        from geoveil.campaign.codec import encode  # which makes campaigns

        return encode(self)

    @property
    def is_value(self) -> bool:
        """Whether reports are perturbed points, and queries are asked later."""
        return isinstance(self.mechanism, PlanarLaplaceSpec)

    @lazy
    def mechanisms(self) -> tuple[Mechanism, ...]:
        """One per question, at the rate that one answer spends, in the queries' coordinates."""
        return self._build(self._step)

    @lazy
    def point_mechanism(self) -> PlanarLaplace:
        """Of a value campaign: what perturbs a point, in the coordinates of queries.

        Raises:
            ParameterError: if it is a statistic campaign.
        """
        return self._build_point(self._step)

    @property
    def dimension(self) -> int:
        """Coordinates of a point, the same for all questions."""
        if isinstance(self.mechanism, PlanarLaplaceSpec):
            return self.mechanism.dimension
        return self.questions[0].query.dimension

    @property
    def columns(self) -> int:
        """What a query_index counts: the questions, or the coordinates of a point."""
        return self.dimension if self.is_value else len(self.questions)

    @property
    def answers(self) -> int:
        """How many of them a report holds: one, or one per column."""
        return self.columns if self.is_value or self.allocation.answers_all else 1

    @property
    def labels(self) -> tuple[str, ...]:
        """The name of each column."""
        if self.is_value:
            axes = _AXES if self.attribute.coordinates is None else _PLACE_AXES
            return axes[: self.dimension]
        return tuple(question.label for question in self.questions)

    @lazy
    def ranges(self) -> tuple[tuple[int, int], ...]:
        """The least and greatest integer that counts in each column.

        All that can be reported, where that is bounded. Reports with noise that knows no bound stay
        in this range in all but 2⁻⁴¹ of cases, whatever the value, and perturbed places likewise.
        """
        return counted_ranges(self)

    @lazy
    def clamps(self) -> tuple[bool, ...]:
        """Whether a report outside the range of a column counts as its end; else it is refused."""
        return columns_that_clamp(self)

    def counted(self, column: int, value: int) -> int:
        """Return what a reported integer counts as: see `clamps`."""
        low, high = self.ranges[column]
        return min(max(value, low), high) if self.clamps[column] else value

    def most_from_one(self, column: int) -> float:
        """Return how far the sum of a column moves at most when one report becomes another."""
        low, high = self.ranges[column]
        return ldexp(high - low, self.grid_exponent)

    @lazy
    def outputs(self) -> tuple[frozenset[int] | None, ...]:
        """All integers that can be reported in each column; None where that is its whole range."""
        if self.is_value:
            return (None,) * self.columns
        found = (mechanism.outputs for mechanism in self.mechanisms)
        return tuple(None if outputs is None else frozenset(outputs) for outputs in found)

    def admits(self, indices: Sequence[int]) -> bool:
        """Return whether a report with values of these columns, in this order, is sound."""
        if self.is_value:
            return list(indices) == list(range(self.columns))
        return self.allocation.admits(indices, self.columns)

    @property
    def grid_exponent(self) -> int:
        """The exponent of the public grid, resolved."""
        assert self.step_exponent is not None  # __post_init__ sees to it
        return self.step_exponent

    @property
    def answer_privacy(self) -> GeoPrivacy:
        """What one answer spends, in true distances."""
        return self.privacy.scaled(self.allocation.share(self.columns))

    @lazy
    def report_privacy(self) -> GeoPrivacy:
        """What one report spends, all its answers together, in true distances."""
        return self.privacy.repeated(self.allocation.times(self.columns))

    @lazy
    def total_privacy(self) -> GeoPrivacy:
        """What a participant spends who reports in every period."""
        return self.report_privacy.repeated(self.periods)

    def state(self, now: datetime, *, closed: bool = False) -> State:
        """Return whether reports are taken at `now`, given whether its analyst closed it."""
        if closed or now >= self.closes:
            return State.CLOSED
        return State.PENDING if now < self.opens else State.OPEN

    @property
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
        """How many sums the answers make: one per column and period."""
        return self.columns * self.periods

    def slot(self, column: int, period: int) -> int:
        """Return which of the sums an answer belongs to: those of one period are together."""
        return period * self.columns + column

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

    def _finest_exponent(self) -> int:
        if self.is_value:
            return step_exponent_of(self._build_point(None).step)
        return min(mechanism.step_exponent for mechanism in self._build(None))

    def _build(self, step: float | None) -> tuple[Mechanism, ...]:
        if not isinstance(self.mechanism, MechanismSpec):
            return ()  # value campaigns have no questions
        privacy, specs = self._plane_privacy, self.mechanism.each(len(self.questions))
        return tuple(
            _built(spec, question.query, privacy, step)
            for spec, question in zip(specs, self.questions, strict=True)
        )

    def _build_point(self, step: float | None) -> PlanarLaplace:
        if not isinstance(self.mechanism, PlanarLaplaceSpec):
            raise ParameterError("campaign", self.campaign_id, "a value campaign")
        return self.mechanism.build(self._plane_privacy, step)

    def _check_kinds(self) -> None:
        kinds: dict[str, type] = {
            "attribute": Attribute,
            "privacy": GeoPrivacy,
            "allocation": Allocation,
            "opens": datetime,
            "closes": datetime,
        }
        for name, kind in kinds.items():
            if not isinstance(getattr(self, name), kind):
                article = "an" if kind.__name__[0] in "AO" else "a"
                raise ParameterError(name, getattr(self, name), f"{article} {kind.__name__}")
        if not isinstance(self.questions, Sequence) or not all(
            isinstance(question, Question) for question in self.questions
        ):
            raise ParameterError("questions", self.questions, "a sequence of Question")
        object.__setattr__(self, "questions", tuple(self.questions))

    def _check_names(self) -> None:
        check_campaign_id(self.campaign_id)
        plain("title", self.title, 200)

    def _check_questions(self) -> None:
        if isinstance(self.mechanism, PlanarLaplaceSpec):
            self._check_no_questions()
            return
        if not isinstance(self.mechanism, MechanismSpec):
            raise ParameterError(
                "mechanism", self.mechanism, "a MechanismSpec, or a PlanarLaplaceSpec"
            )
        if not 1 <= len(self.questions) <= MOST_QUESTIONS:
            raise ParameterError(
                "number of queries", len(self.questions), f"1 to {MOST_QUESTIONS:,}"
            )
        labels = [q.label for q in self.questions]
        if len(set(labels)) != len(labels):
            raise ParameterError("labels of the queries", labels, "distinct")
        dimensions = {q.query.dimension for q in self.questions}
        if len(dimensions) > 1:
            raise ParameterError("dimensions of the queries", sorted(dimensions), "all the same")
        self._check_dimension("dimension of the queries")

    def _check_no_questions(self) -> None:
        if self.questions:
            raise ParameterError(
                "number of queries", len(self.questions), "0: they are asked of the points later"
            )
        if self.allocation is not Allocation.PARTITION:
            raise ParameterError(
                "allocation", self.allocation.value, "'partition': there is nothing to divide"
            )
        self._check_dimension("mechanism.dimension")

    def _check_dimension(self, name: str) -> None:
        plane = self.attribute.coordinates
        if plane is not None and self.dimension != plane.dimension:
            raise ParameterError(name, self.dimension, f"{plane.dimension} for places")

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
            return
        if not isinstance(self.period, timedelta) or self.period < timedelta(minutes=1):
            raise ParameterError("period", str(self.period), "at least a minute, or None")
        if self.slots > MOST_SLOTS:
            raise ParameterError(
                "period",
                str(self.period),
                f"so long that queries times periods, {self.slots:,}, are at most {MOST_SLOTS:,}",
            )

    def _check_minimum(self) -> None:
        least = self.minimum_participants
        if isinstance(least, bool) or not isinstance(least, int) or not 0 <= least <= 10**12:
            raise ParameterError("minimum_participants", least, "an integer from 0 to 10^12")


def _built(spec: MechanismSpec, query: Query, privacy: GeoPrivacy, step: float | None) -> Mechanism:
    """Return the mechanism for a query, which another package may have made, if it is that."""
    with foreign(type(spec).__name__):
        found = spec.build(query, privacy, step)
        if (found.query, found.privacy) != (query, privacy) or step not in (None, found.step):
            raise UnsupportedError(
                f"{spec!r} builds {found!r}, which is not for {query!r}, {privacy} and the grid"
                f" of {step}"
            )
    return found
