"""A formula becomes a private statistic, and a campaign: how near people are to a station.

Run: python examples/a_question_of_your_own.py
"""

from datetime import UTC, datetime

import numpy as np

from geoveil.campaign import Attribute, Question, StatisticCampaign, encode
from geoveil.gp import (
    DebiasedLaplace,
    FormulaProfile,
    GeoPrivacy,
    Linear,
    Radial,
    SmoothMechanism,
    UnsupportedError,
)
from geoveil.simulation import household_incomes


def walking_decay(u, ops):
    """1 at the station, 1/e one scale away."""
    return ops.exp(-u)


def identity(u, ops):
    """The value itself, in units of the scale; `extent` caps it."""
    return u


near = Radial(FormulaProfile(walking_decay, scale=500.0), center=(0.0, 0.0))
mechanism = DebiasedLaplace(near, GeoPrivacy(epsilon=1.0, per=400.0, unit="metre"))
print(mechanism)
print("one exact report:", mechanism.release((120.0, 350.0)) * mechanism.step)

# A campaign carries it as a table, which every device checks before it answers.
campaign = StatisticCampaign(
    campaign_id="near-the-station",
    title="How near is the station?",
    attribute=Attribute(name="place of work", unit="metre"),
    privacy=GeoPrivacy(epsilon=1.0, per=400.0, unit="metre"),
    questions=(Question("near", near.tabulated(tolerance=1e-4)),),
    opens=datetime(2026, 1, 1, tzinfo=UTC),
    closes=datetime(2026, 2, 1, tzinfo=UTC),
)
print("\na campaign of", len(encode(campaign)), "bytes asks", campaign.questions[0].query.profile)

# The mean income, every income capped at ±$300,000.
capped = Linear(FormulaProfile(identity, scale=300_000.0, extent=1.0), direction=1.0)
privacy = GeoPrivacy(epsilon=1.0, per=8_000.0, unit="dollar")
try:
    DebiasedLaplace(capped, privacy)
except UnsupportedError as refusal:  # the cap is a corner
    print("\nnot debiased:", refusal)
incomes = household_incomes().sample(5_000, np.random.default_rng(1))
reports = SmoothMechanism(capped, privacy).simulate(incomes, np.random.default_rng(2))
error = 1.96 * reports.std(ddof=1) / np.sqrt(len(reports))
print(f"mean capped income {300_000 * reports.mean():,.0f} ± {300_000 * error:,.0f} dollar")
print(f"without noise      {300_000 * capped.value(incomes).mean():,.0f}")
