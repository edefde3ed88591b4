"""The central privacy of a campaign's reports in random order [MATH §18].

Whoever states such an ε promises the random order (see the window of a campaign) and the number of
honest reports.
"""

import math
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from geoveil.analyst.planner import ChosenCap, Prior, binomial, cheapest_cap
from geoveil.campaign import (
    Allocation,
    AttributeCampaign,
    StatisticCampaign,
    digits,
    ratio,
    rounded_up,
    to_one,
)
from geoveil.gp import Array, GeoPrivacy, ParameterError, UnsupportedError, validation

_MOST_HONEST, _MOST_EPSILON = 10**8, 500.0
_DELTA, _EXPECTED_FAILURES = 1e-6, 0.01
_ROUNDING = 2e-6
"""A bound of the relative error of binomials up to 10⁸ in float64, by which bounds are widened."""
_CUT = 1e-6
"""The share of δ for numbers of clones outside the sum."""
_RUNS = 512
"""The most runs of numbers of clones; each run counts as its least number."""
_HALVINGS = 50


@dataclass(frozen=True, slots=True)
class CentralPrivacy:
    """The guarantee of all reports together, if no report shows its sender.

    Attributes:
        epsilon: nats.
        delta: additive slack in (0, 1).
        honest: the number of reports in random order whose senders kept to the protocol.
    """

    epsilon: float
    delta: float
    honest: int


@lru_cache(maxsize=256)
def central_privacy(
    largest_epsilon: float,
    honest: int,
    pair_epsilon: float | None = None,
    delta: float | None = None,
) -> CentralPrivacy:
    """Return the joint guarantee of reports that reach the analyst in uniformly random order.

    It holds for all ways to make reports under a cap, even if honest people's differ, and against
    somebody who knows every other value. It never exceeds the ε of a report alone.

    Args:
        largest_epsilon: ε of one report between any two values, in (0, 500]: only a cap bounds it.
        honest: from 1 to 10⁸, including the person's own; late reports do not count.
        pair_epsilon: ε of one report between two given values, in (0, 500]; None: any two.
        delta: in (0, 1); None: 10⁻⁶, or 0.01/honest if that is less.

    Raises:
        ParameterError: if an argument is out of range, as without a cap.

    Example:
        >>> round(central_privacy(6.0, 100_000, delta=1e-6).epsilon, 4)
        0.357
        >>> round(central_privacy(6.0, 100_000, pair_epsilon=1.0, delta=1e-6).epsilon, 4)
        0.1842
    """
    far = validation.between("largest_epsilon", largest_epsilon, 0, _MOST_EPSILON, low_open=True)
    validation.require_count("honest", honest, 1, _MOST_HONEST)
    near = far
    if pair_epsilon is not None:
        near = validation.between("pair_epsilon", pair_epsilon, 0, _MOST_EPSILON, low_open=True)
        near = min(near, far)
    slack = min(_DELTA, _EXPECTED_FAILURES / honest)
    if delta is not None:
        slack = validation.between("delta", delta, 0, 1, low_open=True, high_open=True)
    clones, chances = _numbers_of_clones(far, near, honest, slack)
    low, high = 0.0, near
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        excess = float(np.sum(chances * _excess(middle, near, clones)))
        low, high = (low, middle) if excess <= (1 - _CUT) * slack else (middle, high)
    return CentralPrivacy(high, slack, honest)


def _numbers_of_clones(far: float, near: float, honest: int, delta: float) -> tuple[Array, Array]:
    """Return numbers of others that answer like either value, and their probabilities."""
    # 2p/((p + 1)q), p = e^near, q = e^far; fewer clones reveal more.
    chance = (1 - _ROUNDING) * 2 * math.exp(-far) / (1 + math.exp(-near))
    others, mean = honest - 1, (honest - 1) * chance
    # Bernstein's inequality: beyond `away` lies a share _CUT/2 of δ at most.
    logs = math.log(4 / (_CUT * delta)) / 3
    away = logs + math.sqrt(logs**2 + 6 * logs * mean * (1 - chance))
    first, last = max(0, math.floor(mean - away)), min(others, math.ceil(mean + away))
    counts = np.arange(first, last + 1.0)
    starts = np.unique(np.linspace(0, len(counts), _RUNS, endpoint=False).astype(np.int64))
    chances = np.add.reduceat(binomial(counts, others, chance), starts)
    return counts[starts], (1 + _ROUNDING) * chances


def _excess(epsilon: float, near: float, clones: Array) -> Array:
    """Return the excess probability over e^epsilon times the other's, given numbers of clones."""
    from scipy.special import betainc

    # The first value is more than e^epsilon times as likely as the other if more than `least` of
    # the clones and the person answer like it.
    p1, e1 = math.expm1(near), math.expm1(epsilon)
    odds = (p1 + e1 + p1 * e1) / (p1 * (2 + e1))
    least = np.minimum(np.floor((clones + 1) * odds), clones)
    at = (p1 - e1) / (p1 + 2) * binomial(least, clones, 0.5)
    beyond = e1 * np.where(
        least < clones, betainc(least + 1, np.maximum(clones - least, 1), 0.5), 0
    )
    return np.maximum(at - beyond, 0.0) + _ROUNDING * (at + beyond)


_EIGHTHS, _MOST = 8, 48
"""The search for ε of a report goes in steps of an eighth, like that of caps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CentralWish:
    """A central ε between any two values that the cap of a campaign is to keep.

    Raises:
        ParameterError: if a field is out of range.
    """

    epsilon: float
    """In (0, 48]."""
    honest: int
    """How many honest reports answer the same question, from 1 to 10⁸."""
    delta: float | None = None
    """In (0, 1); None: 10⁻⁶, or 0.01/honest if that is less."""

    def __post_init__(self) -> None:
        validation.between("central", self.epsilon, 0, _MOST, low_open=True)
        self.of(1.0)

    def of(self, largest_epsilon: float) -> float:
        """Return the central ε of reports, each with this ε between any two values."""
        return central_privacy(largest_epsilon, self.honest, delta=self.delta).epsilon

    @property
    def largest_epsilon(self) -> float:
        """The largest permitted ε of a report, in eighths; 0 if an eighth is too much."""
        tried = range(1, _MOST * _EIGHTHS + 1)
        return bisect_right(tried, self.epsilon, key=lambda i: self.of(i / _EIGHTHS)) / _EIGHTHS


def central_record(
    campaign: AttributeCampaign, honest: int, delta: float | None = None
) -> dict[str, Any] | None:
    """Return the central ε of honest people's reports, one each, in uniformly random order.

    Args:
        honest: how many honest people answer the same question.
        delta: in (0, 1); None: 10⁻⁶, or 0.01/honest if that is less.

    Returns:
        None if no central ε is proven: without a cap that protects far values, with a δ, or for
        answers from readings; and if nobody is honest.

    Raises:
        ParameterError: if the number is not from 0 to 10⁸, or δ out of range.
    """
    privacy = campaign.report_privacy
    if (
        honest == 0
        or privacy.delta
        or to_one(campaign.largest_epsilon) is None
        or campaign.readings is not None
    ):
        return None
    of_any = central_privacy(campaign.largest_epsilon, honest, delta=delta)
    of_pair = central_privacy(campaign.largest_epsilon, honest, privacy.epsilon, delta)
    return {
        "honest": honest,
        "delta": of_any.delta,
        "any_two_epsilon": of_any.epsilon,
        "epsilon": of_pair.epsilon,
        "per": privacy.per,
        "in_window": campaign.window is not None,
        "of_several_questions": of_one_question(campaign, campaign.columns) < campaign.columns,
    }


def of_one_question(campaign: AttributeCampaign, people: int) -> int:
    """Return how many people answer the same question, if all questions are equally likely."""
    parts = isinstance(campaign, StatisticCampaign) and campaign.allocation is Allocation.PARTITION
    return people // campaign.columns if parts else people


def central_text(record: Mapping[str, Any], privacy: GeoPrivacy) -> str:
    """Return the record of `central_record` as a sentence."""
    apart = f"{digits(privacy.per)} {privacy.unit}"
    if privacy.value_unit is not None:
        apart = f"a factor {ratio(privacy.per)}"
    near, far = (rounded_up(record[name], 3) for name in ("epsilon", "any_two_epsilon"))
    same = " to the same question" if record["of_several_questions"] else ""
    how = "which takes a relay and a campaign with a window"
    if record["in_window"]:
        how = "as the campaign's window has it behind a relay for devices connected all through it"
    return (
        f"If {record['honest']:,} honest reports{same} reach the analyst in uniformly random order"
        f" with no sender, {how}, their central ε is {near:g} between two values {apart} apart and"
        f" {far:g} between any two, at δ = {record['delta']:g}."
    )


def central_cap(campaign: AttributeCampaign, wish: CentralWish, prior: Prior) -> ChosenCap:
    """Return the cap that adds the least variance among those that keep a central ε."""
    if not isinstance(campaign, StatisticCampaign) or campaign.report_privacy.delta:
        expected = "left out with a delta, and for points: choose the allocation partition"
        raise ParameterError("central", wish.epsilon, expected)
    refused = ParameterError("central", wish.epsilon, "left out: no cap serves these answers")
    try:
        widest, least = cheapest_cap(campaign.mechanisms, prior)
    except UnsupportedError:
        raise refused from None
    if widest is None:
        raise refused
    whole = replace(campaign, cap=widest.cap).largest_epsilon
    # A report of several answers has that many times their ε.
    times = whole / (widest.cap.below + widest.cap.above)
    chosen, _ = cheapest_cap(campaign.mechanisms, prior, wish.largest_epsilon / times)
    if chosen is None:
        raise out_of_reach(wish, least * times)
    return chosen


def out_of_reach(wish: CentralWish, largest_epsilon: float) -> ParameterError:
    """Return the error for a wish that needs a smaller ε of a report than any cap gives."""
    least = wish.of(min(largest_epsilon, 500.0))
    expected = (
        f"at least {least:.3g}, which {wish.honest:,} honest reports have with the least cap that"
        " serves these questions; more reports, or fewer questions, allow less"
    )
    return ParameterError("central", wish.epsilon, expected)
