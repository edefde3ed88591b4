"""A formula becomes a private statistic: how near people are to a station, a capped mean.

Run: python examples/a_question_of_your_own.py
"""

import numpy as np

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
