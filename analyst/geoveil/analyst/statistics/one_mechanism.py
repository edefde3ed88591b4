"""Estimate from reports of one mechanism, without campaign or server."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike

from geoveil.analyst.statistics.quantity import Quantity
from geoveil.analyst.statistics.report_files import ReportRows
from geoveil.analyst.statistics.reports import reports_of
from geoveil.analyst.statistics.statistic import Found, Statistic
from geoveil.campaign import Attribute, PlanarLaplaceSpec, ValueCampaign
from geoveil.gp import (
    GRID_EXPONENT,
    MOST_AT_ONCE,
    Accumulator,
    AzimuthalEquidistant,
    EachTotals,
    GeoPrivacy,
    ParameterError,
    PlanarLaplace,
    Query,
    QueryMechanism,
    SmoothedRegion,
    estimate as estimate_of_sums,
    step_exponent_of,
    sums_of,
)

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
        raise ParameterError("reports", "these", "integers, one report after the other")
    points = integers.astype(np.int64).reshape(-1, columns)
    if len(points) < 2:
        raise ParameterError("number of reports", len(points), "at least 2")
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
