"""Value campaigns: queries that are asked of perturbed points after these were sent [MATH §5.2].

The noise on a point can be undone in the mean, so that each query is the average of one function
over the points, without bias and at no further cost in privacy. Its values are rounded to a public
grid and added up as integers: any order, any sharding gives the same bits.
"""

import asyncio
import math
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from geoveil.aggregator.domain.estimates import QueryEstimate
from geoveil.aggregator.domain.layout import Layout
from geoveil.aggregator.domain.rows import Points, points_of, read_blocks
from geoveil.aggregator.store.reader import Reader
from geoveil.aggregator.store.sums import tally
from geoveil.campaign import Campaign, PointQuestion, ValueCampaign
from geoveil.gp import ParameterError, PointEstimator, SmoothedRegion, UnsupportedError
from geoveil.gp.estimation import Accumulator, estimate

MOST_QUESTIONS = 4_096
GRID_EXPONENT = -30
"""The power of 2 to which values are rounded: it moves an estimate by less than 10⁻⁹."""
_MOST_CELLS = 1 << 23
"""The most cells of the rasters of all regions together, at some 50 bytes each."""
_QUESTIONS_AT_A_TIME = 64
"""Between two of which a call can be cancelled."""
_LARGEST = math.ldexp(1.0, 62 + GRID_EXPONENT)
_ANSWER = np.dtype([("query_index", "<u4"), ("value", "<i8")])


class PointSums:
    """Exact sums of the estimators of queries, over points that come block after block.

    Args:
        campaign: a value campaign.
        questions: 1 to 4,096, with distinct labels.

    Raises:
        ParameterError: if it is a statistic campaign, there are none or too many questions, two
            have one label, or one is of another dimension than the points.
        UnsupportedError: if the noise can't be undone for one of them, which is named.

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

    def __init__(self, campaign: Campaign, questions: Sequence[PointQuestion]) -> None:
        if not isinstance(campaign, ValueCampaign):
            raise ParameterError(
                "campaign_id",
                campaign.campaign_id,
                "of a value campaign: this one's queries are fixed",
            )
        _check(campaign, questions)
        self._step = campaign.point_mechanism.step
        self._labels = [question.label for question in questions]
        self._estimators = [_estimator(campaign, question) for question in questions]
        self._sums: dict[tuple[int, int], Accumulator] = {}

    def parts(self) -> Iterator[range]:
        """Yield the questions in parts of some: see `add`."""
        for start in range(0, len(self._labels), _QUESTIONS_AT_A_TIME):
            yield range(start, min(start + _QUESTIONS_AT_A_TIME, len(self._labels)))

    def add(self, points: Points, part: range | None = None) -> None:
        """Count some points.

        Args:
            points: on the campaign's grid.
            part: the questions to count them for; None: all of them.

        Raises:
            UnsupportedError: if values are so large that no number of points gives an estimate.
        """
        if not len(points.values):
            return
        coordinates = points.values.astype(np.float64) * self._step
        if coordinates.shape[1] == 1:
            coordinates = coordinates[:, 0]
        answers = np.empty(len(coordinates), _ANSWER)
        answers["query_index"] = points.periods
        for question in range(len(self._labels)) if part is None else part:
            answers["value"] = self._integers(question, self._estimators[question], coordinates)
            for period, found in tally(answers.tobytes()).items():
                key = period, question
                self._sums[key] = self._sums.get(key, Accumulator()) + found

    def estimates(self, periods: Collection[int], confidence: float) -> list[QueryEstimate]:
        """Return the estimates of queries, query after query, period after period.

        Args:
            periods: to be shown.
            confidence: of the intervals, in (0, 1).
        """
        return [
            QueryEstimate(
                label, period, of_query, estimate(of_query, GRID_EXPONENT, confidence), None
            )
            for period in periods
            for question, label in enumerate(self._labels)
            for of_query in [self._sums.get((period, question), Accumulator())]
        ]

    def _integers(
        self, question: int, estimator: PointEstimator, coordinates: NDArray[np.float64]
    ) -> NDArray[np.int64]:
        with np.errstate(over="ignore", invalid="ignore"):  # what comes of it is refused below
            values = estimator.value(coordinates)
        if not np.abs(values).max() < _LARGEST:  # NaN compares false
            raise UnsupportedError(
                f"query {self._labels[question]!r}: it is so narrow for the noise that a point may"
                f" count for {_LARGEST:.0e} or more, or too far away to compute: widen or move it"
            )
        return np.rint(np.ldexp(values, -GRID_EXPONENT)).astype(np.int64)


async def estimate_queries(
    reader: Reader,
    layout: Layout,
    questions: Sequence[PointQuestion],
    periods: Sequence[int],
    confidence: float,
) -> list[QueryEstimate]:
    """Return what the stored points say of queries. Off the event loop, and ends if cancelled.

    Args:
        reader: started.
        layout: of a value campaign.
        questions: see `PointSums`.
        periods: to be shown.
        confidence: of the intervals, in (0, 1).

    Raises:
        GeoVeilError: see `PointSums`; ParameterError if `confidence` is not in (0, 1).
        ServiceError: STORE_UNAVAILABLE, STOPPING.
    """
    estimate(Accumulator(), GRID_EXPONENT, confidence)  # refuses before anything is read
    sums = await asyncio.to_thread(PointSums, layout.campaign, questions)
    shown = np.array(periods, np.uint32)
    async for packed in read_blocks(reader, layout.campaign):
        points = await asyncio.to_thread(_points_of_periods, layout, packed, shown)
        for part in sums.parts():
            await asyncio.to_thread(sums.add, points, part)
    return sums.estimates(periods, confidence)


def _points_of_periods(layout: Layout, packed: bytes, shown: NDArray[np.uint32]) -> Points:
    points = points_of(layout, packed)
    kept = np.isin(points.periods, shown)
    return points if kept.all() else Points(points.periods[kept], points.values[kept])


def _check(campaign: ValueCampaign, questions: Sequence[PointQuestion]) -> None:
    if not 1 <= len(questions) <= MOST_QUESTIONS:
        raise ParameterError("number of queries", len(questions), f"1 to {MOST_QUESTIONS:,}")
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
    """Return how many cells the raster of a region has; 0 for queries that need none."""
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
