"""The whole idea in one process: private incomes in, an unbiased estimate out, no server.

Run: python examples/estimate_in_process.py
"""

import numpy as np

from geoveil.gp import DebiasedLaplace, GeoPrivacy, Threshold
from geoveil.gp.estimation import Accumulator, estimate
from geoveil.simulation import household_incomes

PARTICIPANTS = 5_000

households = household_incomes()
question = Threshold(at=100_000, width=24_000, profile="smoothstep")
privacy = GeoPrivacy(epsilon=1.0, per=8_000.0, unit="dollar")
mechanism = DebiasedLaplace(question, privacy)

incomes = households.sample(PARTICIPANTS, np.random.default_rng())
reports = [mechanism.release(income) for income in incomes]  # each on its own device
result = estimate(
    Accumulator.of(reports),
    mechanism.step_exponent,
    limits=mechanism.limits,
)

print(f"{privacy}, {result.n:,} households")
print(f"truth     {households.mean(question.value):.4f}")
print(f"estimate  {result.value:.4f}  ({result.ci_low:.4f} to {result.ci_high:.4f})")
