"""Test the first sentence of a result against arithmetic by hand, on seeded numbers."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from geoveil.analyst import CampaignEstimates, campaign_asking
from geoveil.analyst.questions import AnalystQuestion, ShareAbove, ShareBetween
from geoveil.analyst.results import amount_answer, share_answer
from geoveil.gp import GeoPrivacy
from geoveil.gp.estimation import Accumulator

from .test_estimates import PRIVACY, labelled

NUMBER = re.compile(r"-?[\d,]+(?:\.\d+)?")
INTERNAL = re.compile(r"\de[+-]?\d|weighted|sequence|full-ends|student")


def read(text: str) -> list[float]:
    return [float(part.replace(",", "")) for part in NUMBER.findall(text)]


@pytest.mark.parametrize("seed", range(20))
def test_what_is_read_is_the_number_and_its_ends_to_a_digit_of_the_error(seed: int) -> None:
    rng = np.random.default_rng(seed)
    value, half = rng.random(), 10.0 ** rng.uniform(-5, -1)
    low, high = max(value - half, 0.0), min(value + half, 1.0)
    text = str(share_answer(value, low, high, "of people"))
    assert not INTERNAL.search(text)
    for shown, true in zip(read(text), (value, low, high), strict=True):
        assert abs(shown - 100 * true) <= 100 * (high - low) / 4 / 2 * 1.0001
    amount, error = rng.lognormal(10, 3), 10.0 ** rng.uniform(-3, 3)
    text = str(amount_answer(amount, amount - error, amount + error, "dollar", "is the median"))
    assert not INTERNAL.search(text)
    assert text.startswith("$")
    for shown, true in zip(read(text), (amount, amount - error, amount + error), strict=True):
        assert abs(shown - true) <= error / 4 * 1.0001


def estimates_of(counts: list[int], question: AnalystQuestion | None = None) -> CampaignEstimates:
    """Return estimates of 1,000 answers 0 and 1 in each period, of which so many are 1."""
    opens = datetime(2026, 5, 1, tzinfo=UTC)
    campaign = campaign_asking(
        [question or ShareAbove(100_000)],
        attribute="household income",
        privacy=PRIVACY,
        campaign_id="incomes",
        title="Incomes",
        opens=opens,
        closes=opens + timedelta(days=7 * len(counts)),
        period=timedelta(days=7) if len(counts) > 1 else None,
    )
    rows = [
        replace(
            labelled(Accumulator(1_000, ones, ones), 0), label=campaign.labels[0], period=period
        )
        for period, ones in enumerate(counts)
    ]
    return CampaignEstimates(
        campaign=campaign, state="closed", estimates=tuple(rows), unbiased_for="",
        privacy=PRIVACY, privacy_at_most=GeoPrivacy(4.0, 8_000.0, "dollar"),
    )  # fmt: skip


def test_a_share_is_of_people_who_are_named() -> None:
    (said,) = estimates_of([495]).sentences
    assert re.fullmatch(
        r"50 % \(4\d to 5\d\) of people have a household income of more than about \$100,000\.",
        str(said),
    )
    (said,) = estimates_of([495], ShareBetween(50_000, 100_000)).sentences
    assert str(said).endswith("a household income between about $50,000 and $100,000.")


def test_a_rise_is_told_with_its_test_and_chance_is_not_called_a_rise() -> None:
    rose, *_ = estimates_of([340, 420, 480, 520]).trends()
    (said,) = rose.sentences
    assert "rose from 34 % to 52 % over 4 periods" in str(said)
    assert "p < 0.001" in str(said)
    (flat,) = estimates_of([500, 510, 495, 505]).trends()[0].sentences
    assert "rose" not in str(flat)
    assert "which may be chance" in str(flat)
    assert not INTERNAL.search(f"{said}{flat}")
