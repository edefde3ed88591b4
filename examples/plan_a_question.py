"""From a question to a mechanism: what is publicly known decides the band, its place and its noise.

Run: python examples/plan_a_question.py
"""

from geoveil.analyst.planner import HardThreshold, LogNormalPrior, plan
from geoveil.gp import GeoPrivacy

PEOPLE = 50_000
PRIVACY = GeoPrivacy(epsilon=1.0, per=8_000.0, unit="dollar")

# Incomes with a median of $98,000, trusted no more than a sample of 10,000 people.
incomes = LogNormalPrior(mu=11.49, sigma=0.83)
found = plan(
    HardThreshold(100_000), PRIVACY, incomes, PEOPLE,
    kinds=("DebiasedLaplace", "LaplacePareto", "smooth:noise=student-t,calibration=paper"),
)  # fmt: skip

print(f"{PEOPLE:,} people, {PRIVACY}\n")
for a in found.alternatives:
    prediction = a.prediction
    print(f"{a.kind:<40} ±{prediction.margin(PEOPLE):.4f}  {a.query}")
print(f"\n{found.reason}")
for n, margin, _ in found.at([5_000, 50_000, 500_000]):
    print(f"{n:>9,} people: ±{margin:.4f}")

mechanism = found.choice.reports  # what runs on each device: mechanism.release(income)
print(f"\nreports are multiples of {mechanism.step:g}")
