"""Value campaigns: perturbed points answer questions that come later [MATH §5.2].

The answer to a question is the mean of one function over the points, unbiased and at no further
cost in privacy. `ways` plans the sums and refuses too expensive ones before reading any report.
"""

import math
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from geoveil.aggregator.domain.errors import Code, ServiceError
from geoveil.aggregator.domain.estimates import QueryEstimate, interval_method
from geoveil.aggregator.domain.rows import Points
from geoveil.campaign import Campaign, PointQuestion, ValueCampaign
from geoveil.gp import (
    GRID_EXPONENT,
    MOST_AT_ONCE,
    BandTotals,
    Groups,
    ParameterError,
    PointEstimator,
    Products,
    SmoothedRegion,
    Sums,
    Totals,
    UnsupportedError,
    estimate,
    estimated_noise_variance,
    joint_way,
    validation,
    ways,
)

MOST_QUESTIONS = 4_096
MOST_JOINT = 900
"""The most queries with covariances, so that these fit in one message."""
_MOST_CELLS = 1 << 23
"""The most cells of all regions' rasters together, at some 50 bytes each."""
MOST_SECONDS = 60.0
"""Approximately the most processor seconds that one call may take."""
_WAYS_AT_A_TIME = 64
"""The number of ways of summing between two chances to cancel a call."""


class PointSums:
    """Exact sums of queries' estimators over points that come in blocks.

    Args:
        questions: 1 to 4,096, with distinct labels.
        expected: the approximate number of points, and the number of periods.
        joint: whether to compute `covariances`, for at most 900 questions, fewer with several
            periods.

    Raises:
        ParameterError: if the campaign is a statistic campaign, there are no or too many questions,
            labels repeat, or a question's dimension differs from the points'.
        UnsupportedError: if the noise can't be undone for a question, which the error names, or its
            answers are unbounded and so have no covariances.
        ServiceError: TOO_COSTLY.

    Example:
        >>> from datetime import UTC, datetime
        >>> from geoveil.campaign import Attribute, PlanarLaplaceSpec
        >>> from geoveil.gp import GeoPrivacy, Threshold
        >>> campaign = ValueCampaign(
        ...     campaign_id="ages", title="Ages", attribute=Attribute(name="age", unit="year"),
        ...     privacy=GeoPrivacy(1.0, per=2.0, unit="year"), mechanism=PlanarLaplaceSpec(1),
        ...     opens=datetime(2026, 1, 1, tzinfo=UTC), closes=datetime(2026, 2, 1, tzinfo=UTC))
        >>> sums = PointSums(campaign, [PointQuestion("adults", Threshold(18, 6, "smoothstep"))])
        >>> step = campaign.point_mechanism.step
        >>> ages = np.array([[9.0], [40.0], [70.0]])
        >>> sums.add(Points(np.zeros(3, np.uint32), (ages / step).astype(np.int64)))
        >>> [shown.estimate.value for shown in sums.estimates([0], confidence=0.95)]
        [0.6666666666666666]
    """

    def __init__(
        self,
        campaign: Campaign,
        questions: Sequence[PointQuestion],
        expected: tuple[int, int] = (0, 1),
        *,
        joint: bool = False,
    ) -> None:
        if not isinstance(campaign, ValueCampaign):
            raise ParameterError(
                "campaign_id",
                campaign.campaign_id,
                "of a value campaign: this one's queries are fixed",
            )
        _check(campaign, questions)
        self._estimators = {q.label: _estimator(campaign, q) for q in questions}
        if joint and expected[1] * len(questions) ** 2 > MOST_JOINT**2:
            most = int(MOST_JOINT / math.sqrt(expected[1]))
            raise ParameterError(
                "number of queries", len(questions), f"1 to {most} for covariances"
            )
        step = campaign.point_mechanism.step
        chosen = ways(self._estimators, step, *expected)
        self.seconds = sum(way.seconds for way in chosen)
        """The approximate processor time for all points."""
        self._ways = [way.totals for way in chosen]
        self._joint: BandTotals | Products | None = None
        if joint:
            self._joint, more = joint_way(chosen, self._estimators, step, *expected)
            self.seconds += more
            if self._joint not in self._ways:
                self._ways.append(self._joint)
        _afford(self.seconds, len(questions), expected[0])

    def parts(self) -> Iterator[Sequence[Totals]]:
        """Yield groups of totals for `add`."""
        for start in range(0, len(self._ways), _WAYS_AT_A_TIME):
            yield self._ways[start : start + _WAYS_AT_A_TIME]

    def add(self, points: Points, part: Sequence[Totals] | None = None) -> None:
        """Count points on the campaign's grid in part of the totals; None for all totals.

        Raises:
            UnsupportedError: if values are too large for an estimate from any number of points.
        """
        for start in range(0, len(points.values), MOST_AT_ONCE):
            block = slice(start, start + MOST_AT_ONCE)
            values, groups = _by_period(points.periods[block], points.values[block])
            for totals in self._ways if part is None else part:
                totals.add(values, groups)

    def estimates(
        self, periods: Collection[int], confidence: float, looked_from: float = math.inf
    ) -> list[QueryEstimate]:
        """Return the estimates, ordered by query, then by period; see `interval_method`."""
        sums = {
            (period, label): of_query
            for totals in self._ways
            for period in periods
            for label, of_query in zip(totals.labels, totals.of(period), strict=True)
        }
        return [
            _estimated(label, period, sums[period, label], estimator, confidence, looked_from)
            for period in periods
            for label, estimator in self._estimators.items()
        ]

    def covariances(self, periods: Collection[int]) -> dict[int, NDArray[np.float64]]:
        """Return the covariances (m, m) of each period's estimates, from noise and sampling.

        Periods with fewer than two points have none; without `joint` there are none at all.
        """
        if self._joint is None:
            return {}
        counts = {period: next(iter(self._ways[0].of(period))).values.n for period in periods}
        return {
            period: self._joint.covariance(period) / (n - 1)
            for period, n in counts.items()
            if n > 1
        }


def _estimated(
    label: str,
    period: int,
    sums: Sums,
    estimator: PointEstimator,
    confidence: float,
    looked_from: float,
) -> QueryEstimate:
    limits, ends, noise = estimator.limits, estimator.variance_limits, sums.variance
    method = interval_method(period, looked_from)
    return QueryEstimate(
        label,
        period,
        sums.values,
        estimate(sums.values, GRID_EXPONENT, confidence, limits, method),
        limits,
        None,
        estimated_noise_variance(*noise, ends, confidence) if noise and ends else None,
    )


def _by_period(
    periods: NDArray[np.uint32], values: NDArray[np.int64]
) -> tuple[NDArray[np.int64], Groups]:
    """Return a block's points sorted by period, and the start of each period."""
    if (periods == periods[0]).all():
        return values, [(int(periods[0]), slice(0, len(values)))]
    order = np.argsort(periods, kind="stable")
    periods, values = periods[order], values[order]
    starts = np.flatnonzero(np.concatenate([[True], periods[1:] != periods[:-1]])).tolist()
    ends = [*starts[1:], len(values)]
    return values, [(int(periods[a]), slice(a, b)) for a, b in zip(starts, ends, strict=True)]


def _afford(seconds: float, questions: int, points: int) -> None:
    if seconds > MOST_SECONDS:
        raise ServiceError(
            Code.TOO_COSTLY,
            told=f"{questions:,} queries of {points:,} points take about {seconds:,.0f} s of a"
            f" processor, more than {MOST_SECONDS:.0f}: ask about fewer at a time, or one period."
            " Thresholds, ranges, and near kernels of one bandwidth are cheap together",
        )


def _check(campaign: ValueCampaign, questions: Sequence[PointQuestion]) -> None:
    validation.require_count("number of queries", len(questions), 1, MOST_QUESTIONS)
    labels = [question.label for question in questions]
    if len(set(labels)) != len(labels):
        raise ParameterError("labels of the queries", labels, "distinct")
    for index, question in enumerate(questions):
        dimension = question.query.dimension
        if dimension != campaign.dimension:
            raise ParameterError(f"queries[{index}].dimension", dimension, f"{campaign.dimension}")
    cells = sum(_cells(campaign, question) for question in questions)
    if cells > _MOST_CELLS:
        raise UnsupportedError(
            f"the rasters of the regions have {cells:,} cells, more than {_MOST_CELLS:,}: ask about"
            " fewer at a time, or take larger bandwidths"
        )


def _cells(campaign: ValueCampaign, question: PointQuestion) -> int:
    """Return the number of cells of a region's raster; 0 for queries that need none."""
    if not isinstance(question.query, SmoothedRegion):
        return 0
    with _named(question):
        grid = question.query.grid(1 / campaign.point_mechanism.privacy.rate)
    return math.prod(grid.shape)


def _estimator(campaign: ValueCampaign, question: PointQuestion) -> PointEstimator:
    with _named(question):
        return campaign.point_mechanism.estimator(question.query, debias=True)


@contextmanager
def _named(question: PointQuestion) -> Iterator[None]:
    try:
        yield
    except UnsupportedError as error:
        raise UnsupportedError(f"query {question.label!r}: {error}") from None
