"""Compute estimates from sums, and decide which ones may be disclosed.

Heavy-tailed reports also get an interval that needs no variance. The mean of each of K blocks of
reports is as likely above as below the true mean: exactly for symmetric reports, otherwise up to
their skewness, whose effect shrinks faster with a block's size than the interval does. So the
number of blocks below is Binomial(K, ½), and two ordered block means enclose the true mean with a
known probability: the sign test's interval (Hettmansperger and McKean, Robust Nonparametric
Statistical Methods, §1.3) for the median of means (Nemirovski and Yudin 1983).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from math import comb, ldexp
from operator import add
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from geoveil.aggregator.domain.errors import Code, ServiceError
from geoveil.aggregator.domain.layout import Layout
from geoveil.campaign import AttributeCampaign, require_attribute, unbiased_for
from geoveil.gp import (
    Accumulator,
    Estimate,
    ForgedShare,
    GeoPrivacy,
    IntervalMethod,
    Limits,
    NoiseVariance,
    ParameterError,
    estimate,
    validation,
)


@dataclass(frozen=True, slots=True)
class MedianOfMeans:
    """The median of the blocks' means, and its interval."""

    value: float
    ci_low: float
    ci_high: float
    blocks: int
    """The number of blocks with reports."""


def median_of_means(
    blocks: Sequence[Accumulator], step_exponent: int, confidence: float = 0.95
) -> MedianOfMeans | None:
    """Return the median of means and its interval; None with too few answers.

    Skewness moves the median of a block mean by at most about skewness·K/(6√n) of the total's
    standard error, so n ≥ K² is required, and as many blocks as the confidence needs. `blocks` are
    exact sums of disjoint blocks, chosen independently of their values.

    Raises:
        ParameterError: if `confidence` is not in (0, 1).

    Example:
        >>> blocks = [Accumulator.of([i] * 20) for i in range(1, 17)]
        >>> median_of_means(blocks, 0, 0.9)
        MedianOfMeans(value=8.5, ci_low=5.0, ci_high=12.0, blocks=16)
    """
    confidence = validation.between("confidence", confidence, 0, 1, low_open=True, high_open=True)
    means = sorted(Fraction(block.total, block.n) for block in blocks if block.n)
    count = len(means)
    rank = _rank(count, confidence)
    if rank < 1 or sum(block.n for block in blocks) < len(blocks) ** 2:
        return None
    step = ldexp(1.0, step_exponent)
    middle = (means[(count - 1) // 2] + means[count // 2]) / 2
    return MedianOfMeans(
        value=float(middle) * step,
        ci_low=float(means[rank - 1]) * step,
        ci_high=float(means[count - rank]) * step,
        blocks=count,
    )


def _rank(count: int, confidence: float) -> int:
    """Return the greatest r with 2·P[Binomial(count, ½) < r] ≤ 1 − confidence, or 0."""
    allowed = (1 - Fraction(confidence)) / 2 * 2**count
    below = rank = 0
    while rank < count // 2 and below + comb(count, rank) <= allowed:
        below += comb(count, rank)
        rank += 1
    return rank


@dataclass(frozen=True, slots=True)
class QueryEstimate:
    """The estimate of one query in one period."""

    label: str
    period: int
    sums: Accumulator
    estimate: Estimate
    limits: Limits
    """The ranges of answers and of their mean."""
    median_of_means: MedianOfMeans | None
    """None if the noise has no heavy tail, or there are too few answers."""
    noise_variance: NoiseVariance | None = None
    """The part of an answer's variance that is noise; only for points."""
    cohort: int | None = None
    """The cohort, from 0; None for all people."""
    forged: ForgedShare | None = None
    """The least share of forged reports; None if it can't be tested."""


@dataclass(frozen=True, slots=True)
class DisclosedEstimates:
    """A campaign's estimates that may be disclosed."""

    estimates: Sequence[QueryEstimate]
    """Ordered by query, then by period."""
    unbiased_for: str
    """The quantity that every value estimates without bias, in words."""
    privacy: GeoPrivacy
    """A participant's privacy for all answers together, in each period with answers."""
    privacy_at_most: GeoPrivacy
    """The privacy of a participant who answered in every period so far."""
    covariances: Mapping[int, NDArray[np.float64]]
    """Period → the covariance of its estimates, shape (m, m), if requested."""


def disclose(
    layout: Layout,
    sums: Sequence[Accumulator],
    begun: int,
    period: int | None = None,
    confidence: float = 0.95,
    bin_counts: Mapping[int, int] = MappingProxyType({}),
    looked_from: float = math.inf,
) -> DisclosedEstimates:
    """Return the estimates of the periods that have enough answers to every query.

    `begun` ≥ 1 periods have begun; `period` selects one of them, None all. `bin_counts` come from
    `Store.sums`.

    Raises:
        ParameterError: if `confidence` is not in (0, 1), or the period has not begun.
        ServiceError: TOO_FEW_REPORTS if no selected period has enough.
        UnsupportedError: if the campaign is a form.
    """
    campaign = require_attribute(layout.campaign)
    shown = periods_shown(layout, sums, begun, period)
    rows = list(_estimates(layout, sums, shown, confidence, bin_counts, looked_from))
    return disclosed(campaign, rows, begun)


def interval_method(period: int, looked_from: float) -> IntervalMethod | None:
    """Return a period's interval method; None for the fixed interval, chosen by the limits.

    From period `looked_from` on no date ends the collection, so an analyst may stop or continue it
    because of the estimates.
    """
    return IntervalMethod.SEQUENCE if period >= looked_from else None


def disclosed(
    campaign: AttributeCampaign,
    estimates: Sequence[QueryEstimate],
    begun: int,
    *,
    later: bool = False,
    covariances: Mapping[int, NDArray[np.float64]] = MappingProxyType({}),
) -> DisclosedEstimates:
    """Return estimates that may be shown, with their meaning and privacy.

    The periods of `estimates` must have enough answers; `covariances` has (m, m) for each period.
    """
    return DisclosedEstimates(
        estimates=estimates,
        unbiased_for=unbiased_for(campaign, later=later),
        privacy=campaign.report_privacy,
        privacy_at_most=campaign.privacy_of(begun),
        covariances=covariances,
    )


def periods_shown(
    layout: Layout, sums: Sequence[Accumulator], begun: int, period: int | None = None
) -> dict[int, int]:
    """Return the periods with enough answers to every query, each with its fewest answers.

    Every cohort needs enough answers, since the total minus the others would reveal a small one.

    Raises:
        ParameterError: if the period has not begun.
        ServiceError: TOO_FEW_REPORTS if there is none.
    """
    if period is not None and not 0 <= period < begun:
        raise ParameterError("period", period, f"from 0 to {begun - 1}: later ones have not begun")
    periods = range(begun) if period is None else (period,)
    least = layout.campaign.minimum_participants
    shown = {}
    for asked_for in periods:
        of_cohorts = _sums_of(layout, sums, asked_for)
        if min(s.n for of_cohort in of_cohorts for s in of_cohort) >= least:
            shown[asked_for] = min(sum(s.n for s in each) for each in zip(*of_cohorts, strict=True))
    if not shown:
        of_each = " of every cohort" if layout.campaign.cohorts > 1 else ""
        needed = f"every query needs {least:,} answers{of_each}"
        raise ServiceError(Code.TOO_FEW_REPORTS, told=needed)
    return shown


def _estimates(
    layout: Layout,
    sums: Sequence[Accumulator],
    periods: Iterable[int],
    confidence: float,
    bin_counts: Mapping[int, int],
    looked_from: float,
) -> Iterable[QueryEstimate]:
    campaign = require_attribute(layout.campaign)
    exponent = campaign.grid_exponent
    for period in periods:
        method = interval_method(period, looked_from)
        of_cohorts = _sums_of(layout, sums, period)
        whole = [reduce(add, of_column) for of_column in zip(*of_cohorts, strict=True)]
        for column, (label, of_query) in enumerate(zip(campaign.labels, whole, strict=True)):
            of_blocks = _blocks_of(layout, sums, column, period)
            robust = layout.blocks > 1 and median_of_means(of_blocks, exponent, confidence)
            yield QueryEstimate(
                label,
                period,
                of_query,
                estimate(of_query, exponent, confidence, campaign.limits[column], method),
                campaign.limits[column],
                robust or None,
                forged=layout.forged(bin_counts, column, period),
            )
        if campaign.cohorts == 1:
            continue
        for cohort, of_cohort in enumerate(of_cohorts):
            for label, of_query, limits in zip(
                campaign.labels, of_cohort, campaign.limits, strict=True
            ):
                numbers = estimate(of_query, exponent, confidence, limits, method)
                yield QueryEstimate(label, period, of_query, numbers, limits, None, cohort=cohort)


def _blocks_of(
    layout: Layout, sums: Sequence[Accumulator], column: int, period: int
) -> Sequence[Accumulator]:
    """Return the sums of a query in a period by block, over all cohorts."""
    campaign = layout.campaign
    indices = range(column, campaign.indices, campaign.columns)
    of_cohorts = [layout.blocks_of(sums, index, period) for index in indices]
    if len(of_cohorts) == 1:
        return of_cohorts[0]
    return [reduce(add, of_block) for of_block in zip(*of_cohorts, strict=True)]


def _sums_of(layout: Layout, sums: Sequence[Accumulator], period: int) -> list[list[Accumulator]]:
    indices, columns = range(layout.campaign.indices), layout.campaign.columns
    blocks = [reduce(add, layout.blocks_of(sums, index, period)) for index in indices]
    return [blocks[first : first + columns] for first in indices[::columns]]
