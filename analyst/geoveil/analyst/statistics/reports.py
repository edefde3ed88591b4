"""Reports at hand, in memory or in an export file, asked without a server.

    reports_of("reports.parquet").ask([PointQuestion("adults", Threshold(18, 6, "smoothstep"))])

Points are read some at a time: a file may be larger than memory.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import ldexp
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from geoveil.analyst.estimates import ReportRows
from geoveil.analyst.statistics.joint import JointEstimates
from geoveil.analyst.statistics.separate import SeparateEstimates
from geoveil.analyst.statistics.statistic import (
    Answered,
    Asked,
    Found,
    Means,
    Separately,
    Statistic,
    driven,
    noise_scale,
    period_of,
)
from geoveil.campaign import Campaign, PointQuestion, ValueCampaign, decode
from geoveil.campaign.value import AXES
from geoveil.gp import ParameterError, UnsupportedError
from geoveil.gp.deconvolution.choice import joint_way, ways
from geoveil.gp.deconvolution.totals import GRID_EXPONENT, MOST_AT_ONCE
from geoveil.gp.estimation import estimate

__all__ = ["Reports", "reports_of"]

_CAMPAIGN = b"geoveil.campaign"
"""The key of the campaign's bytes in the metadata of an export file."""


@dataclass(frozen=True, eq=False)
class Reports:
    """The perturbed points of a value campaign: see `reports_of`."""

    campaign: ValueCampaign
    blocks: Callable[[], Iterator[ReportRows]] = field(repr=False)
    """Returns all reports, some at a time, as often as it is called."""

    @overload
    def ask(
        self,
        asked: Sequence[PointQuestion],
        confidence: float = 0.95,
        period: int | None = None,
    ) -> JointEstimates: ...

    @overload
    def ask(
        self, asked: Statistic[Found], confidence: float = 0.95, period: int | None = None
    ) -> Found: ...

    def ask(
        self,
        asked: Sequence[PointQuestion] | Statistic[Any],
        confidence: float = 0.95,
        period: int | None = None,
    ) -> Any:
        """Return what the reports say, as a server would that holds them.

        Args:
            asked: a statistic, or questions in the campaign's coordinates.
            confidence: of intervals, in (0, 1).
            period: of a recurring campaign, from 0.

        Raises:
            GeoVeilError: if a question can't be asked of points, or there are fewer than two.
        """
        wanted: Statistic[Any] = asked if isinstance(asked, Statistic) else Means(tuple(asked))
        of = period_of(self.campaign, period)

        def answer(questions: Asked) -> Answered:
            return self._answer(questions, confidence, of)

        return driven(wanted, self.campaign, confidence, answer)

    def _answer(self, asked: Asked, confidence: float, period: int) -> Answered:
        together = not isinstance(asked, Separately)
        questions = asked.questions if isinstance(asked, Separately) else asked
        mechanism = self.campaign.point_mechanism
        labels = tuple(question.label for question in questions)
        if len(set(labels)) != len(labels) or not labels:
            raise ParameterError("labels of the queries", labels, "one or more, and distinct")
        by_label = {q.label: mechanism.estimator(q.query, debias=True) for q in questions}
        count = sum(int((rows.periods == period).sum()) for rows in self.blocks())
        chosen = ways(by_label, mechanism.step, count)
        totals = [way.totals for way in chosen]
        joint = joint_way(chosen, by_label, mechanism.step, count).totals if together else None
        for points in self.points(period):
            for one in totals if joint is None or joint in totals else [*totals, joint]:
                one.add(points, [(0, slice(0, len(points)))])
        sums = {
            label: found.values
            for one in totals
            for label, found in zip(one.labels, one.of(0), strict=True)
        }
        n = sums[labels[0]].n
        if n < 2:
            raise UnsupportedError(f"{n} reports of period {period} have no standard error")
        told: dict[str, Any] = {
            "labels": labels,
            "values": np.array([ldexp(sums[label].total / n, GRID_EXPONENT) for label in labels]),
            "n": n,
            "confidence": confidence,
            "limits": tuple(by_label[label].limits for label in labels),
            "privacy": self.campaign.report_privacy,
            "period": None if self.campaign.period is None else period,
        }
        if joint is not None:
            return JointEstimates(**told, covariance=joint.covariance(0) / (n - 1))
        errors = [estimate(sums[label], GRID_EXPONENT).standard_error for label in labels]
        return SeparateEstimates(**told, standard_errors=np.array(errors))

    def points(self, period: int) -> Iterator[NDArray[np.int64]]:
        """Yield the points of a period, (n, k) and at most 131,072 at a time, on the grid."""
        for rows in self.blocks():
            points = np.stack(rows.columns, axis=1)[rows.periods == period]
            for start in range(0, len(points), MOST_AT_ONCE):
                yield points[start : start + MOST_AT_ONCE]


def reports_of(
    source: str | os.PathLike[str] | ReportRows | Iterable[bytes | ReportRows],
    campaign: Campaign | None = None,
) -> Reports:
    """Return reports at hand, which can be asked as a server can.

    Args:
        source: a Parquet file that `geoveil campaign export` wrote, what `Analyst.export` yields,
            or rows in memory.
        campaign: that they are of; a file and a server say it themselves.

    Raises:
        ParameterError: if it is no value campaign, or is not said, or a file can't be read.
        UnsupportedError: if a file is to be read, and pyarrow is not installed.

    Example:
        >>> from datetime import UTC, datetime
        >>> from geoveil.campaign import Attribute, PlanarLaplaceSpec
        >>> from geoveil.gp import GeoPrivacy, Threshold
        >>> campaign = ValueCampaign(
        ...     campaign_id="ages", title="Ages", attribute=Attribute(name="age", unit="year"),
        ...     privacy=GeoPrivacy(1.0, per=2.0, unit="year"), mechanism=PlanarLaplaceSpec(1),
        ...     opens=datetime(2026, 1, 1, tzinfo=UTC), closes=datetime(2026, 2, 1, tzinfo=UTC))
        >>> ages = np.array([9.0, 40.0, 70.0]) / campaign.point_mechanism.step
        >>> rows = ReportRows(np.zeros(3, np.uint32), None, (ages.astype(np.int64),))
        >>> adults = PointQuestion("adults", Threshold(18, 6, "smoothstep"))
        >>> reports_of(rows, campaign).ask([adults]).values
        array([0.66666667])
    """
    if isinstance(source, (str, os.PathLike)):
        file = Path(source)
        said = _campaign_in(file)
        return Reports(_of_points(campaign or said), lambda: _rows_in(file))
    held: list[ReportRows] = []
    for part in [source] if isinstance(source, ReportRows) else source:
        if isinstance(part, ReportRows):
            held.append(part)
        else:
            campaign = campaign or decode(part)
    if campaign is None:
        raise ParameterError("campaign", None, "named: rows in memory do not say theirs")
    return Reports(_of_points(campaign), lambda: iter(held))


def _of_points(campaign: Campaign) -> ValueCampaign:
    if not isinstance(campaign, ValueCampaign):
        raise ParameterError("campaign", campaign.campaign_id, "a value campaign")
    noise_scale(campaign, campaign.dimension)
    return campaign


def _parquet(file: Path) -> Any:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise UnsupportedError("reading Parquet needs pyarrow: pip install pyarrow") from None
    try:
        return parquet.ParquetFile(file)
    except (OSError, ArrowException) as error:
        raise ParameterError("file", str(file), f"a Parquet file to read ({error})") from error


def _campaign_in(file: Path) -> Campaign:
    with _parquet(file) as opened:
        metadata = opened.schema_arrow.metadata or {}
    if _CAMPAIGN not in metadata:
        raise ParameterError("file", str(file), "one that 'geoveil campaign export' wrote")
    return decode(metadata[_CAMPAIGN])


def _rows_in(file: Path) -> Iterator[ReportRows]:
    with _parquet(file) as opened:
        axes = [name for name in AXES if name in opened.schema_arrow.names]
        for batch in opened.iter_batches(MOST_AT_ONCE, columns=["period", *axes]):
            columns = tuple(batch.column(name).to_numpy() for name in axes)
            yield ReportRows(batch.column("period").to_numpy(), None, columns)
