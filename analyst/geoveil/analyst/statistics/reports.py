"""Query reports in memory or in export files, without a server.

    reports_of("reports.parquet").ask([PointQuestion("adults", Threshold(18, 6, "smoothstep"))])

Points are read in blocks, so files may be larger than memory.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import chain
from math import ldexp
from pathlib import Path
from typing import Any, cast, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geoveil.analyst.estimates import CampaignEstimates
from geoveil.analyst.labelled_estimate import LabelledEstimate
from geoveil.analyst.statistics.joint import JointEstimates, Quantity
from geoveil.analyst.statistics.report_files import (
    Frame,
    ReportRows,
    campaign_in,
    in_folder,
    rows_in,
    rows_of,
)
from geoveil.analyst.statistics.statistic import (
    Asked,
    Found,
    Means,
    Separately,
    Statistic,
    driven,
    method_of_looks,
    noise_scale,
    period_of,
    steps_of,
    too_few,
)
from geoveil.campaign import (
    Attribute,
    AttributeCampaign,
    FormCampaign,
    PlanarLaplaceSpec,
    PointQuestion,
    ValueCampaign,
    decode_attribute_campaign,
    require_attribute,
    unbiased_for,
)
from geoveil.gp import (
    GRID_EXPONENT,
    MOST_AT_ONCE,
    Accumulator,
    AzimuthalEquidistant,
    BandTotals,
    EachTotals,
    GeoPrivacy,
    ParameterError,
    PlanarLaplace,
    PointEstimator,
    Products,
    Query,
    QueryMechanism,
    SmoothedRegion,
    Sums,
    estimate as estimate_of_sums,
    estimated_noise_variance,
    joint_way,
    step_exponent_of,
    sums_of,
    validation,
    ways,
)


@dataclass(frozen=True, eq=False)
class Reports:
    """The perturbed points of a value campaign: see `reports_of`."""

    campaign: ValueCampaign
    blocks: Callable[[], Iterator[ReportRows]] = field(repr=False)
    """Returns all reports, block by block, on each call."""

    @overload
    def ask(
        self, asked: Sequence[PointQuestion], confidence: float = 0.95, period: int | None = None
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
        """Return the result for these reports, as a server with them would.

        Args:
            asked: a statistic, or questions in the campaign's coordinates.
            confidence: of intervals, in (0, 1).
            period: of a recurring campaign, from 0.

        Raises:
            GeoVeilError: if a question can't be asked of points, or there are fewer than two.
        """
        wanted: Statistic[Any] = asked if isinstance(asked, Statistic) else Means(tuple(asked))
        of = period_of(self.campaign, period)
        steps = steps_of(wanted, self.campaign, confidence)
        return driven(steps, partial(self._answer, confidence, of))

    def estimates(
        self,
        questions: Sequence[PointQuestion],
        confidence: float = 0.95,
        period: int | None = None,
    ) -> CampaignEstimates:
        """Return one estimate for each question, as `Analyst.ask` does for a server's reports.

        Args:
            questions: in the campaign's coordinates.
            confidence: of intervals, in (0, 1).
            period: of a recurring campaign, from 0.

        Raises:
            GeoVeilError: if a question can't be asked of points.
        """
        of = period_of(self.campaign, period)
        by_label = self._estimators(questions)
        summed, _ = self._summed(by_label, of, together=False)
        method = method_of_looks(self.campaign, of)
        rows = []
        for label, estimator in by_label.items():
            sums, noise = summed[label]
            ends, limits = estimator.variance_limits, estimator.limits
            estimated = estimate_of_sums(sums, GRID_EXPONENT, confidence, limits, method)
            several = estimated.standard_error is not None
            row = LabelledEstimate(
                label=label,
                value=estimated.value,
                standard_error=estimated.standard_error,
                ci_low=estimated.ci_low,
                ci_high=estimated.ci_high,
                method=estimated.method if several else None,
                confidence=confidence,
                n=estimated.n,
                privacy=self.campaign.report_privacy,
                period=of,
                sums=(sums.total, sums.total_of_squares),
                step_exponent=GRID_EXPONENT,
                limits=limits,
                noise=estimated_noise_variance(*noise, ends, confidence)
                if noise and ends
                else None,
            )
            rows.append(row)
        spent = self.campaign.report_privacy
        return CampaignEstimates(
            self.campaign,
            "at hand",
            tuple(rows),
            unbiased_for(self.campaign, later=True),
            spent,
            self.campaign.privacy_of(of + 1),
        )

    def _estimators(self, questions: Sequence[PointQuestion]) -> dict[str, PointEstimator]:
        mechanism = self.campaign.point_mechanism
        labels = tuple(question.label for question in questions)
        if len(set(labels)) != len(labels) or not labels:
            raise ParameterError("labels of the queries", labels, "one or more, and distinct")
        return {q.label: mechanism.estimator(q.query, debias=True) for q in questions}

    def _summed(
        self, by_label: Mapping[str, PointEstimator], period: int, *, together: bool
    ) -> tuple[dict[str, Sums], BandTotals | Products | None]:
        """Return the sums of each estimator and, for joint estimates, of their products."""
        step = self.campaign.point_mechanism.step
        count = sum(int((rows.periods == period).sum()) for rows in self.blocks())
        chosen = ways(by_label, step, count)
        totals = [way.totals for way in chosen]
        joint = joint_way(chosen, by_label, step, count).totals if together else None
        for points in self.points(period):
            for total in totals if joint is None or joint in totals else [*totals, joint]:
                total.add(points, [(0, slice(0, len(points)))])
        summed = {
            label: sums
            for total in totals
            for label, sums in zip(total.labels, total.of(0), strict=True)
        }
        return summed, joint

    def _answer(self, confidence: float, period: int, queries: Asked) -> JointEstimates:
        together = not isinstance(queries, Separately)
        by_label = self._estimators(
            queries.questions if isinstance(queries, Separately) else queries
        )
        summed, joint = self._summed(by_label, period, together=together)
        sums = {label: of_one.values for label, of_one in summed.items()}
        labels = tuple(by_label)
        n = sums[labels[0]].n
        if n < 2:
            raise too_few(self.campaign, n, period)
        if joint is not None:
            covariance = joint.covariance(0) / (n - 1)
        else:
            alone = [estimate_of_sums(sums[label], GRID_EXPONENT) for label in labels]
            covariance = np.array([of.standard_error or 0.0 for of in alone]) ** 2
        return JointEstimates(
            labels=labels,
            values=np.array([ldexp(sums[label].total / n, GRID_EXPONENT) for label in labels]),
            covariance=covariance,
            n=n,
            confidence=confidence,
            limits=tuple(by_label[label].limits for label in labels),
            privacy=self.campaign.report_privacy,
            period=None if self.campaign.period is None else period,
        )

    def points(self, period: int) -> Iterator[NDArray[np.int64]]:
        """Yield the points of a period, (n, k) and at most 131,072 at a time, on the grid."""
        for rows in self.blocks():
            points = points_in(rows, period)
            for start in range(0, len(points), MOST_AT_ONCE):
                yield points[start : start + MOST_AT_ONCE]


def points_in(rows: ReportRows, period: int) -> NDArray[np.int64]:
    """Return the points of a period, (n, k), on the grid."""
    return np.asarray(np.stack(rows.columns, axis=1)[rows.periods == period])


def reports_of(
    source: "str | os.PathLike[str] | ReportRows | Iterable[bytes | ReportRows] | Frame",
    campaign: AttributeCampaign | None = None,
) -> Reports:
    """Return local reports that answer like a server.

    Args:
        source: a Parquet file that `geoveil campaign export` wrote, a folder that `geoveil simulate
            export` wrote, what `Analyst.export` yields, rows in memory, or a data frame of pandas
            or Dask with the columns of an export file.
        campaign: the campaign of the reports; a file and a server state it themselves, as does
            a folder of one campaign.

    Raises:
        ParameterError: if it is not a value campaign or not stated, or a file can't be read.
        UnsupportedError: if pyarrow is not installed, which is needed for files.

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
        path = Path(source)
        if path.is_dir():
            campaign, files = in_folder(path, campaign)
        else:
            campaign, files = campaign or _of_file(path), [path]
        return Reports(_of_points(campaign), lambda: chain.from_iterable(map(rows_in, files)))
    if isinstance(source, Frame):
        of = _of_points(_named(campaign))
        parts = getattr(source, "partitions", [source])  # of Dask, each is read by itself
        return Reports(of, lambda: (rows_of(getattr(p, "compute", lambda p=p: p)()) for p in parts))
    if not isinstance(source, (ReportRows, Iterable)):
        raise ParameterError("source", source, "a file, a frame, rows, or what an export yields")
    held: list[ReportRows] = []
    for part in [source] if isinstance(source, ReportRows) else source:
        if isinstance(part, ReportRows):
            held.append(part)
        else:
            campaign = campaign or decode_attribute_campaign(cast(bytes, part))
    return Reports(_of_points(_named(campaign)), lambda: iter(held))


def _named(campaign: AttributeCampaign | None) -> AttributeCampaign:
    if campaign is None:
        raise ParameterError("campaign", None, "given: rows in memory do not name theirs")
    return campaign


def _of_file(path: Path) -> AttributeCampaign:
    """Return the campaign of an export, or that of a mask with one column."""
    campaign = campaign_in(path)
    if isinstance(campaign, FormCampaign) and len(campaign.fields) == 1:
        return campaign.campaign_of(campaign.fields[0].name)
    return require_attribute(campaign)


def _of_points(campaign: AttributeCampaign) -> ValueCampaign:
    if not isinstance(campaign, ValueCampaign):
        permitted = "a value campaign: answers to fixed questions are shares, not points"
        raise ParameterError("campaign", campaign.campaign_id, permitted)
    noise_scale(campaign, campaign.dimension)
    return campaign


_NEVER = datetime(1970, 1, 1, tzinfo=UTC)


@overload
def estimate(
    reports: ArrayLike,
    mechanism: QueryMechanism | PlanarLaplace,
    asked: Query | SmoothedRegion | None = None,
    *,
    confidence: float = 0.95,
    label: str = "mean",
) -> Quantity: ...


@overload
def estimate(
    reports: ArrayLike,
    mechanism: PlanarLaplace,
    asked: Statistic[Found],
    *,
    confidence: float = 0.95,
    coordinates: AzimuthalEquidistant | None = None,
) -> Found: ...


def estimate(
    reports: ArrayLike,
    mechanism: QueryMechanism | PlanarLaplace,
    asked: Query | SmoothedRegion | Statistic[Any] | None = None,
    *,
    confidence: float = 0.95,
    label: str = "mean",
    coordinates: AzimuthalEquidistant | None = None,
) -> Any:
    """Return a population estimate from reports of one mechanism, without campaign or server.

    Args:
        reports: the integers that `release` or `release_many` returned: (n,), or points (n, k).
        mechanism: the mechanism that returned them.
        asked: for points, a query, or a statistic, whose result is returned; None if the
            mechanism answers a query itself.
        confidence: of the interval, in (0, 1).
        label: of the estimate of a query.
        coordinates: the plane that points lie in, for statistics of places on the Earth.

    Raises:
        ParameterError: if reports are not integers, are fewer than two or have another shape, or
            `asked` is missing or superfluous.
        UnsupportedError: if the noise on points can't be undone for the query.

    Example:
        >>> from geoveil.analyst import Quantiles
        >>> from geoveil.gp import GeoPrivacy, PlanarLaplace, SeededSource
        >>> mechanism = PlanarLaplace(GeoPrivacy(1.0, per=2.0, unit="year"), 1)
        >>> ages = np.arange(1_000) % 90
        >>> reports = mechanism.release_many(ages, SeededSource(1))
        >>> estimate(reports, mechanism, Quantiles(levels=[0.5])).values.round()
        array([45.])
    """
    later = isinstance(mechanism, PlanarLaplace)
    if later == (asked is None):
        permitted = (
            "a query or a statistic, for points" if later else "None: the mechanism has its own"
        )
        raise ParameterError("asked", asked, permitted)
    integers, columns = np.asarray(reports), mechanism.dimension if later else 1
    if integers.dtype.kind not in "iu" or integers.ndim > 2 or integers.size % columns:
        wrong = f"{integers.dtype}, shape {integers.shape}"
        raise ParameterError("reports", wrong, "integers, one report after the other")
    points = integers.astype(np.int64).reshape(-1, columns)
    validation.require_count("number of reports", len(points), 2)
    blocks = [points[i : i + MOST_AT_ONCE] for i in range(0, len(points), MOST_AT_ONCE)]
    if isinstance(mechanism, PlanarLaplace):
        assert asked is not None  # it was refused
        if isinstance(asked, Statistic):
            rows = [ReportRows(np.zeros(len(b), np.uint32), None, tuple(b.T)) for b in blocks]
            return reports_of(rows, _campaign_of(mechanism, coordinates)).ask(asked, confidence)
        estimator, exponent = mechanism.estimator(asked, debias=True), GRID_EXPONENT
        limits, totals = estimator.limits, EachTotals(label, estimator, mechanism.step)
        for block in blocks:
            totals.add(block, [(0, slice(0, len(block)))])
        sums = next(totals.of(0)).values
    else:
        limits, exponent, sums = mechanism.limits, mechanism.step_exponent, Accumulator()
        for block in blocks:
            sums += next(sums_of(block[:, 0], np.zeros(1, np.intp)))
    made = estimate_of_sums(sums, exponent, confidence, limits)
    assert made.value is not None  # there are two or more
    return Quantity(
        label=label,
        value=made.value,
        standard_error=made.standard_error or 0.0,
        ci_low=made.ci_low if made.ci_low is not None else -np.inf,
        ci_high=made.ci_high if made.ci_high is not None else np.inf,
        confidence=made.confidence,
        n=made.n,
        privacy=mechanism.privacy if isinstance(mechanism.privacy, GeoPrivacy) else None,
    )


def _campaign_of(
    mechanism: PlanarLaplace, coordinates: AzimuthalEquidistant | None
) -> ValueCampaign:
    """Return a campaign that could have these reports."""
    stretched = 1.0 if coordinates is None else coordinates.distortion
    privacy = mechanism.privacy
    return ValueCampaign(
        campaign_id="reports",
        title="Reports at hand",
        attribute=Attribute(name="value", unit=privacy.unit, coordinates=coordinates),
        privacy=replace(privacy, epsilon=privacy.epsilon * stretched),
        mechanism=PlanarLaplaceSpec(mechanism.dimension),
        step_exponent=step_exponent_of(mechanism.step),
        opens=_NEVER,
        closes=_NEVER + timedelta(days=1),
    )
