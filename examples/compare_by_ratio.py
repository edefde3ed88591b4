"""Half or twice as much: a plan and a value campaign that compare incomes by ratio.

Run: python examples/compare_by_ratio.py
"""

from datetime import UTC, datetime, timedelta

import numpy as np

from geoveil.analyst import (
    GeometricMean,
    PlanRequest,
    Quantiles,
    Reports,
    ShareAbove,
    campaign_for_points,
    plan_for,
)
from geoveil.gp import GeoPrivacy, LogScale
from geoveil.simulation import household_incomes
from geoveil.simulation.priors import public_prior
from geoveil.simulation.rehearsal import rehearse

SCALE = LogScale(floor=1_000)  # who has less, or nothing, counts as having 1,000 dollars
PRIVACY = GeoPrivacy.per_factor(2.0, factor=2, unit="dollar")

# What would one question cost? Thresholds and the prior are in dollars, widths are factors.
request = PlanRequest.of(
    [ShareAbove(100_000)], epsilon=2.0, per=2, scale=SCALE, participants=50_000,
    source=public_prior("incomes"),
)  # fmt: skip
report = plan_for(request).report()
error = report["targets"]["hard_question"]["error_95"]
print(f"{PRIVACY}: ±{error:.4f} by {report['reason'].split()[0]}, from 50,000 people")

# Or everyone sends one perturbed logarithm, of which anything is asked later.
now = datetime.now(UTC)
campaign = campaign_for_points(
    attribute="household income", privacy=PRIVACY, scale=SCALE, campaign_id="by-ratio",
    title="Income, by ratio", opens=now, closes=now + timedelta(days=1),
)  # fmt: skip
incomes = household_incomes().sample(2_000, np.random.default_rng(1))
held = rehearse(campaign, incomes)
assert isinstance(held, Reports)  # of a value campaign, which holds no estimates
print(held.ask(Quantiles(levels=(0.25, 0.5, 0.75))))
print(held.ask(GeometricMean()))
print(f"in the clear: {np.quantile(incomes, (0.25, 0.5, 0.75)).round().tolist()}")
