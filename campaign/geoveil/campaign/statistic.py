"""Statistic campaigns: devices answer questions with perturbed answers [MATH §7]."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from fractions import Fraction
from typing import TypeVar

from geoveil.campaign.attribute_campaign import LIKELY_BEYOND, AttributeCampaign
from geoveil.campaign.entry_points import foreign
from geoveil.campaign.families import MechanismSpec, not_together
from geoveil.campaign.mechanisms import MECHANISMS, DebiasedLaplaceSpec
from geoveil.campaign.queries import QUERIES, Question
from geoveil.gp import (
    ArrayLike,
    Cap,
    DebiasedLaplace,
    GeoPrivacy,
    Limits,
    ParameterError,
    PlanarLaplace,
    Query,
    QueryMechanism,
    RandomSource,
    Range,
    Threshold,
    UnsupportedError,
    VectorAnswer,
    enum_repr,
    lazy,
    round_up,
    validation,
)

MOST_QUESTIONS = 10_000
MOST_TOGETHER = 100
"""The most questions in a vector, since a device computes which of them vary together."""
_Number = TypeVar("_Number", int, float)


class Allocation(Enum):
    """How a report answers m queries, and its cost.

    Independent answers about one value add up (sequential composition). With a campaign's
    `privacy` ε, a report therefore spends ε under PARTITION and SPLIT, and mε under REPEAT. Under
    VECTOR the answers are dependent, and spend ε together.

    Example:
        >>> for allocation in Allocation:
        ...     print(allocation.value, allocation.times(4))
        partition 1
        split 1
        repeat 4
        vector 1
    """

    __repr__ = enum_repr

    PARTITION = "partition"
    """Each participant answers one random query with ε, so n is divided by m."""
    SPLIT = "split"
    """Each participant answers all m queries, each with ε/m."""
    REPEAT = "repeat"
    """Each participant answers all m queries, each with ε, and spends mε."""
    VECTOR = "vector"
    """Each participant answers all m queries, 2 to 100, with ε for all together [SGP Cor. 3.2], by
    smooth noise without δ whose bound grows exponentially."""

    @property
    def answers_all(self) -> bool:
        """Whether a participant answers every query."""
        return self is not Allocation.PARTITION

    def times(self, queries: int) -> int:
        """Return the multiple of the campaign's ε for one report."""
        return queries if self is Allocation.REPEAT else 1


@dataclass(frozen=True, kw_only=True)
class StatisticCampaign(AttributeCampaign):
    """Questions to many devices, each of which reports perturbed answers.

    Its `privacy` is the guarantee to each participant for one report or, with
    `Allocation.REPEAT`, for each answer in it.
    """

    questions: tuple[Question, ...]
    """1 to 10,000 questions of equal dimension, with distinct labels."""
    mechanism: MechanismSpec = field(default_factory=DebiasedLaplaceSpec)
    """The mechanism that perturbs an answer."""
    allocation: Allocation = Allocation.PARTITION
    """The allocation of the privacy to the questions."""
    cap: Cap | None = None
    """The distance beyond which values count alike, in noise scales of one answer; None: no cap."""

    @lazy
    def _all_built_in(self) -> bool:
        """Whether the library itself provides every query and the mechanism."""
        return MECHANISMS.is_built_in(self.mechanism) and all(
            QUERIES.is_built_in(question.query) for question in self.questions
        )

    @lazy
    def dimension(self) -> int:
        return self.questions[0].query.dimension

    @lazy
    def columns(self) -> int:
        return len(self.questions)

    @lazy
    def answers_all(self) -> bool:
        return self.allocation.answers_all

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(question.label for question in self.questions)

    @lazy
    def mechanisms(self) -> tuple[QueryMechanism, ...]:
        """One mechanism per question, at one answer's rate, in the queries' coordinates."""
        return self._build(self._step)

    @lazy
    def ranges(self) -> tuple[tuple[int, int], ...]:
        beyond = LIKELY_BEYOND / self.answers
        return tuple(self.widened(m.likely_range(beyond)) for m in self.mechanisms)

    @property
    def releasable(self) -> tuple[tuple[int, int], ...]:
        return tuple(self.widened(mechanism.grid_range) for mechanism in self.mechanisms)

    def _limits(self, column: int) -> Limits:
        own = self.mechanisms[column].limits
        limits = replace(super()._limits(column), means=self.widened(own.means))
        if self.extrapolated:
            return replace(limits, possible=own.means)
        return replace(limits, moments=own.moments) if self._all_built_in else limits

    @property
    def extrapolated(self) -> bool:
        """Whether answers are extrapolated from two readings."""
        return self.readings is not None and self.readings.extrapolated

    @property
    def noise_factor(self) -> int:
        """The most by which the noise of (1 + r)y − ry', r in [0, 1], exceeds that of y."""
        return 5 if self.extrapolated else 1

    def widened(self, ends: tuple[_Number, _Number]) -> tuple[_Number, _Number]:
        """Return the range of reports, or of their means, from the range of an answer's."""
        low, high = ends
        return (2 * low - high, 2 * high - low) if self.extrapolated else ends

    @property
    def answer_privacy(self) -> GeoPrivacy:
        split = self.allocation is Allocation.SPLIT
        return self.privacy.split(self.columns) if split else self.privacy

    @property
    def _has_slack(self) -> bool:
        return self.mechanism.has_slack

    @lazy
    def report_privacy(self) -> GeoPrivacy:
        if self.readings is not None:
            return self.answer_privacy  # all answers come from one point
        return self.privacy.repeated(self.allocation.times(self.columns))

    @lazy
    def largest_epsilon(self) -> float:
        # Other packages' code has no proof, and a reading is not clipped.
        if self.readings is not None or not self._all_built_in:
            return math.inf
        each = [mechanism.largest_epsilon for mechanism in self.mechanisms]
        if not self.answers_all or math.inf in each:
            return max(each)
        return round_up(sum(map(Fraction, each), Fraction()))

    @lazy
    def nests(self) -> bool:
        """True of `DebiasedLaplace` on a line, for queries of the library (`Query.nests`)."""
        return (
            isinstance(self.mechanism, DebiasedLaplaceSpec)
            and self.dimension == 1
            and all(mechanism.query.nests for mechanism in self.mechanisms)
            and self._all_built_in
        )

    @lazy
    def point_mechanism(self) -> PlanarLaplace:
        return PlanarLaplace(self._plane_privacy, self.dimension)

    def answers_from(
        self, point: Sequence[int], columns: Sequence[int], source: RandomSource
    ) -> Sequence[int]:
        exponent, (kept,) = self.point_mechanism.step_exponent, point
        mechanisms = (self.mechanisms[column] for column in columns)
        return [
            mechanism.answer(kept, exponent, source)
            for mechanism in mechanisms
            if isinstance(mechanism, DebiasedLaplace)
        ]

    def _check_readings(self) -> None:
        super()._check_readings()
        if self.cap is not None and self.readings is not None:
            raise ParameterError("cap", self.cap, "None where answers are made from one reading")
        if self.extrapolated and self.period is None:
            raise ParameterError(
                "readings.extrapolated", True, "False for a campaign that asks once"
            )

    def release(
        self, point: ArrayLike, columns: Sequence[int], source: RandomSource
    ) -> Sequence[int]:
        if self.readings is not None:
            return self.answers_from(self.point_mechanism.release(point, source), columns, source)
        first = self.mechanisms[0]
        if isinstance(first, VectorAnswer):
            return first.vector.release(point, source)
        if self._all_built_in:
            return [self.mechanisms[column].release(point, source) for column in columns]
        try:
            values = [self._checked_release(point, column, source) for column in columns]
        except Exception:  # noqa: BLE001 - what another package raises may quote the value
            values = []
        if not values:  # raised here, so that the failure is not this error's context
            raise UnsupportedError(
                "the package of a query or of the mechanism failed to perturb the value, which is"
                " not shown; nothing was sent"
            )
        return values

    def _checked_release(self, point: ArrayLike, column: int, source: RandomSource) -> int:
        value = self.mechanisms[column].release(point, source)
        low, high = self.mechanisms[column].grid_range
        if type(value) is not int or not low <= value <= high:
            raise UnsupportedError("not an integer in the range that the mechanism states")
        return value

    def _finest_exponent(self) -> int:
        return min(mechanism.step_exponent for mechanism in self._build(None))

    def _build_mechanisms(self) -> None:
        _ = self.mechanisms
        if self.allocation is Allocation.VECTOR and not self._all_built_in:
            raise not_together("what another package adds")

    def _build(self, step: float | None) -> tuple[QueryMechanism, ...]:
        privacy, cap = self._plane_privacy, self.cap
        with foreign(type(self.mechanism).__name__):
            queries = [question.query for question in self.questions]
            if cap is not None:
                queries = [cap.on(query, privacy.exact_rate) for query in queries]
            if self.allocation is Allocation.VECTOR:
                return self.mechanism.build_together(queries, privacy, step).answers
            return tuple(_built(self.mechanism, query, privacy, step) for query in queries)

    def _check_kinds(self) -> None:
        super()._check_kinds()
        validation.require_kind("allocation", self.allocation, Allocation)
        validation.require_kind("cap", self.cap, Cap | None)
        questions = validation.items("questions", self.questions, Question)
        object.__setattr__(self, "questions", questions)

    def _check_content(self) -> None:
        validation.require_kind("mechanism", self.mechanism, MechanismSpec)
        least, most = 1, MOST_QUESTIONS
        if self.allocation is Allocation.VECTOR:
            least, most = 2, MOST_TOGETHER
        validation.require_count("number of queries", len(self.questions), least, most)
        labels = [q.label for q in self.questions]
        if len(set(labels)) != len(labels):
            raise ParameterError("labels of the queries", labels, "distinct")
        dimensions = {q.query.dimension for q in self.questions}
        if len(dimensions) > 1:
            raise ParameterError("dimensions of the queries", sorted(dimensions), "all the same")
        self._check_dimension("dimension of the queries")
        if self.attribute.scale is not None:
            for i, query in enumerate(q.query for q in self.questions):
                if not isinstance(query, Threshold | Range):
                    kind = type(query).__name__
                    raise ParameterError(
                        f"queries[{i}]", kind, "a Threshold or a Range on a log scale"
                    )


def _built(
    spec: MechanismSpec, query: Query, privacy: GeoPrivacy, step: float | None
) -> QueryMechanism:
    """Return the mechanism for a query, and check it, since another package may have made it."""
    built = spec.build(query, privacy, step)
    if (built.query, built.privacy) != (query, privacy) or step not in (None, built.step):
        raise UnsupportedError(
            f"{spec!r} builds {built!r}, which is not for {query!r}, {privacy} and the grid of"
            f" {step}"
        )
    return built
