"""Hard questions to the points of a value campaign, with bands chosen from the reports.

Points answer a question with any band, at no further cost in privacy. The one whose bias-aware
interval is shortest is taken [MATH §8]. The user states a bound on the slope of the density of
people; otherwise it is estimated from the reports, which certifies nothing. The user must state
heaps, that is, people who hold exactly one value. The interval `any_crowd` holds without any of
this: it reaches from the share above a soft threshold that counts nobody below T to the share above
one that counts everybody above T.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from geoveil.analyst.estimates import CampaignEstimates
from geoveil.analyst.hard_question import Heap, difference, reach
from geoveil.analyst.labelled_estimate import ChosenBand, LabelledEstimate
from geoveil.analyst.questions import AnalystQuestion, ShareAbove, ShareBetween
from geoveil.analyst.simultaneous import critical_value_of_one
from geoveil.campaign import Difference, PointQuestion, ValueCampaign
from geoveil.gp import GaussianKernel, ParameterError, Query, Range, Threshold, validation

_WIDTHS = tuple(2.0 ** (k / 2) for k in range(2, 9))
"""In noise scales: from 2 to 16."""
_USUAL = 3.0
"""The widest band used while there are too few reports to choose one, in noise scales."""
_PILOT = 0.7
"""The bandwidth of the bells whose differences estimate the slope, in noise scales."""
_SURE = 1.64
"""Standard errors that are added to a slope."""
_STEEPER = 1.5
"""Factor by which the density may be steeper than the one smoothed by the bells."""
_SHARP = 1.0
"""The width of the thresholds on either side that together bound the hard share, in noise
scales."""
_PART = 0.49
"""The part of a range that either of its sharp thresholds takes at most: half, but for rounding."""
_difference = lru_cache(maxsize=4096)(difference)
_MOST = 40
"""The most questions; each sends about a hundred queries."""


@dataclass(frozen=True)
class ChosenBands:
    """Hard questions about numbers, with bands chosen from the reports.

    Args:
        campaign: a value campaign in one dimension.
        shares: at most 40 shares above a threshold or in a range: `ShareAbove`, `ShareBetween`.
        slope_bound: the density of people outside the heaps changes by at most this, in shares per
            (unit of the values)²; None to estimate it from the reports: see the module.
        heaps: people who hold exactly one value.

    Raises:
        ParameterError: if the points are not numbers, or there are too many questions.

    Example:
        >>> from datetime import UTC, datetime
        >>> from geoveil.analyst import ShareAbove
        >>> from geoveil.campaign import Attribute, PlanarLaplaceSpec
        >>> from geoveil.gp import GeoPrivacy
        >>> campaign = ValueCampaign(
        ...     campaign_id="ages", title="Ages", attribute=Attribute(name="age", unit="year"),
        ...     privacy=GeoPrivacy(1.0, per=2.0, unit="year"), mechanism=PlanarLaplaceSpec(1),
        ...     opens=datetime(2026, 1, 1, tzinfo=UTC), closes=datetime(2026, 2, 1, tzinfo=UTC))
        >>> bands = ChosenBands(campaign, [ShareAbove(18)], slope_bound=0.001)
        >>> len(bands.questions), bands.questions[0].query
        (9, Threshold(at=18.0, width=4.0, profile='smoothstep'))
    """

    campaign: ValueCampaign
    shares: Sequence[ShareAbove | ShareBetween]
    slope_bound: float | None = None
    heaps: tuple[Heap, ...] = ()
    questions: tuple[PointQuestion, ...] = field(init=False, repr=False)
    """The questions to the points, in one call."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "shares", tuple(self.shares))
        object.__setattr__(self, "heaps", tuple(self.heaps))
        if self.slope_bound is not None:
            validation.non_negative("slope_bound", self.slope_bound)
        if self.campaign.dimension != 1:
            raise ParameterError("dimension", self.campaign.dimension, "1")
        if (scale := self.campaign.attribute.scale) is not None:
            if self.slope_bound is not None:
                expected = "left out on a log scale: it bounds the density of the numbers"
                raise ParameterError("slope_bound", self.slope_bound, expected)
            object.__setattr__(
                self, "shares", tuple(share.on_scale(scale) for share in self.shares)
            )
        validation.require_count("number of questions", len(self.shares), 1, _MOST)
        queries = [query for number in range(len(self.shares)) for query in self._queries(number)]
        questions = [PointQuestion(str(i), query) for i, query in enumerate(queries)]
        object.__setattr__(self, "questions", tuple(questions))

    def answered(self, found: CampaignEstimates) -> CampaignEstimates:
        """Return one estimate for each question and period, with its hard share.

        Args: found: the estimates for `questions` from the points.
        """
        periods = list(dict.fromkeys(row.period for row in found.estimates))
        rows = {(row.period, int(row.label)): row for row in found.estimates}
        chosen = []
        for period in periods:
            at = 0
            for number, question in enumerate(self.shares):
                queries = list(self._queries(number))
                answers = [(query, rows[period, at + i]) for i, query in enumerate(queries)]
                chosen.append(replace(self._chosen(number, answers), label=question.label))
                at += len(queries)
        return replace(found, estimates=tuple(chosen))

    def _chosen(
        self, number: int, rows: Sequence[tuple[Query, LabelledEstimate]]
    ) -> LabelledEstimate:
        *others, inside, outside = rows
        bands = [(q, row) for q, row in others if isinstance(q, (Threshold, Range))]
        if any(_error(row) is None for _, row in rows):
            usual = [row for q, row in bands if q.width <= _USUAL * self._scale]
            return usual[-1] if usual else bands[0][1]
        candidates: list[tuple[float, LabelledEstimate]] = []
        scale, heaps = self.campaign.attribute.scale, self.heaps
        if scale is not None:
            heaps = tuple(replace(heap, at=scale.coordinate(heap.at)) for heap in heaps)
        for query, row in bands:
            slope = self.slope_bound
            if slope is None:
                slope = self._slope(number, query.width / 2, rows)
            steep = _difference(query, 1.0, heaps)
            softness = Difference(steep.expected, slope * steep.bound)
            guessed = self.slope_bound is None
            band = ChosenBand(
                query.profile.name, query.width, slope, guessed, self.heaps, scale is not None
            )
            length = reach(_error(row) or 0.0, softness.bound, row.confidence)
            chosen = replace(row, softness=softness, band=band, around=(inside[1], outside[1]))
            candidates.append((length, chosen))
        return min(candidates, key=lambda candidate: candidate[0])[1]

    def _slope(
        self, number: int, near: float, rows: Sequence[tuple[Query, LabelledEstimate]]
    ) -> float:
        """Return how fast the density may change within a distance of the ends."""
        h = _PILOT * self._scale
        bells = {q.center[0]: row for q, row in rows if isinstance(q, GaussianKernel)}
        steepest = 0.0
        for end in self.shares[number].sharp().ends:
            places = [end + k * h for k in _pilot_places()]
            for low, here, high in zip(places, places[1:], places[2:], strict=False):
                if abs(here - end) > max(near, self._scale):
                    continue
                below, above = bells[low], bells[high]
                rise = abs((above.value or 0.0) - (below.value or 0.0))
                unsure = math.hypot(_error(below) or 0.0, _error(above) or 0.0)
                steepest = max(steepest, rise + _SURE * unsure)
        return _STEEPER * steepest / (2 * h) / (h * math.sqrt(2 * math.pi))

    def _queries(self, number: int) -> Iterator[Query]:
        share, scale = self.shares[number].sharp(), self._scale
        for width in dict.fromkeys(min(w * scale, share.room) for w in _WIDTHS):
            yield share.soft(width, "smoothstep", share.still)
        if self.slope_bound is None:
            h = _PILOT * scale
            centers = dict.fromkeys(end + k * h for end in share.ends for k in _pilot_places())
            yield from (GaussianKernel(center, h) for center in centers)
        sharp = min(_SHARP * scale, _PART * share.room)
        for away in (sharp / 2, -sharp / 2):  # first counts nobody outside, then everybody inside
            yield share.soft(sharp, "smoothstep", (away,) * share.boundaries)

    @property
    def _scale(self) -> float:
        return 1 / self.campaign.point_mechanism.privacy.rate


def _pilot_places() -> range:
    """Return the places of bells around an end, in bandwidths, up to one beyond the widest band."""
    most = math.ceil(_WIDTHS[-1] / 2 / _PILOT) + 1
    return range(-most, most + 1)


def _error(row: LabelledEstimate) -> float | None:
    """Return the standard error that the interval implies; it is larger if few people are near."""
    if row.ci_low is None or row.ci_high is None:
        return None
    return (row.ci_high - row.ci_low) / 2 / critical_value_of_one(row.confidence)


def hard_shares(questions: Sequence[AnalystQuestion]) -> list[ShareAbove | ShareBetween]:
    """Return the questions if bands can be chosen for all of them, otherwise none."""
    shares = [q for q in questions if isinstance(q, (ShareAbove, ShareBetween))]
    return shares if len(shares) == len(questions) else []
