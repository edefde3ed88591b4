"""Test figures in documents by computing them."""

import math
import re
from decimal import ROUND_CEILING, Context, Decimal
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray

from geoveil.gp import (
    FormulaProfile,
    GaussianKernel,
    GeneralizedCauchy,
    GeoPrivacy,
    Linear,
    LocalPrivacy,
    Query,
    SmoothMechanism,
    StudentT,
    Threshold,
)
from geoveil.gp.smooth.growth import Smoothness
from geoveil.selection import HeavyGeneralizedCauchy
from geoveil.simulation.demo import FOOTINGS, experiments

ROOT = Path(__file__).parents[1]
Array: TypeAlias = NDArray[np.float64]
UNIT = GeoPrivacy(1.0, per=1.0)
RAMP, STEP, BELL = (
    Threshold(0.0, 2.0),
    Threshold(0.0, 2.0, "smoothstep"),
    GaussianKernel(0.0, 1.0),
)


def text(name: str) -> str:
    return " ".join((ROOT / name).read_text().split())


def found(name: str, pattern: str) -> list[float]:
    """Return the numbers in the one sentence that the pattern matches."""
    (match,) = re.findall(pattern, text(name))
    return [float(n) for n in ([match] if isinstance(match, str) else match)]


def cells(name: str, start: str) -> list[str]:
    (row,) = [r for r in (ROOT / name).read_text().splitlines() if r.startswith(start)]
    return [cell.strip() for cell in row.split("|")[2:-1]]


def test_what_is_said_of_the_lower_bound_is_what_its_table_has() -> None:
    """The table itself: tests/simulation/test_lower_bound.py."""
    ours = [float(c) for c in cells("docs/mechanisms.md", "| DebiasedLaplace |") if c]
    steps, bells = ours[:3], ours[3:6]  # w = 2b, 3b, 4b; b/h up to 0.7, which is h ≥ 1.4 b
    (most,) = found("gp/geoveil/gp/mechanisms/distance.py", r"at most ([\d.]+) times a lower bound")
    assert max(*steps, *bells) <= most < max(*steps, *bells) + 0.02
    (percent,) = found("docs/mechanisms.md", r"from bands of 3·per/ε on within (\d+) % of the best")
    assert max(steps[1:]) <= 1 + percent / 100 < max(steps[1:]) + 0.02


def test_the_width_that_is_quoted_is_the_planner_s() -> None:
    """planning.md's own table: tests/analyst/planner."""
    width = float(cells("docs/planning.md", "| DebiasedLaplace |")[2].replace(",", ""))
    (scales,) = found("docs/mechanisms.md", r"`geoveil plan` takes ([\d.]+)·b")
    assert width / 8000 == pytest.approx(scales, abs=0.05)


@pytest.mark.parametrize("beta", [0.05, 0.1, 0.2, 0.3])
def test_noise_at_equal_privacy(beta: float) -> None:
    printed = [float(c) for c in cells("docs/mechanisms.md", f"| {beta:g} |")]
    made = [
        SmoothMechanism(BELL, UNIT, noise=noise, beta=beta, calibration=calibration)
        for noise in (GeneralizedCauchy(4), StudentT(3))
        for calibration in ("paper", "exact")
    ]
    made += [SmoothMechanism(BELL, UNIT, beta=beta), SmoothMechanism(RAMP, UNIT, beta=beta)]
    for value, m in zip(printed, made, strict=True):
        assert m.noise.variance / m.eta**2 == pytest.approx(value, rel=3e-4)


def test_default_beta() -> None:
    ramp, other = found(
        "docs/mechanisms.md", r"By default it is ([\d.]+) of the rate for the ramp and ([\d.]+)"
    )
    assert (SmoothMechanism(RAMP, UNIT).beta, SmoothMechanism(BELL, UNIT).beta) == (ramp, other)
    student = found(
        "docs/mechanisms.md", r"that is ([\d.]+) of the rate with the ramp, and ([\d.]+) with the"
    )
    for query, beta in zip((RAMP, STEP), student, strict=True):
        assert SmoothMechanism(query, UNIT, noise=StudentT(3)).beta == pytest.approx(beta, abs=6e-4)


def formula(query: Query) -> Query:
    profiles = {
        RAMP: lambda u, ops: ops.clip(u / 2 + 0.5, ops.constant(0), ops.constant(1)),
        STEP: lambda u, ops: (lambda t: t * t * (3 - 2 * t))(
            ops.clip(u / 2 + 0.5, ops.constant(0), ops.constant(1))
        ),
        BELL: lambda u, ops: ops.exp(-u * u / 2),
    }
    return Linear(FormulaProfile(profiles[query], scale=1.0, extent=8.0), 1.0)


@pytest.mark.deep
def test_how_far_bounds_from_cells_are_above_the_tight_ones() -> None:
    own, gentle, steep = found(
        "docs/guarantees.md",
        r"at most (\d+) % above the tight one for the library's own profiles, and for a formula"
        r" beside its steepest slope at most (\d+) % up to β = 2/width, but (\d+) % at β = 6/width",
    )
    s = np.linspace(-8.0, 8.0, 801)

    def above(bound: Array, query: Query, beta: float, reach: float) -> float:
        return float((bound / query.smooth_bound(s, beta, reach=reach)).max())

    for query in (RAMP, STEP, BELL):
        bound = query.profile.noise_bound(query.signed_distance(s), Smoothness(3.0, reach=2.0))
        assert above(bound, query, 3.0, 2.0) <= 1 + own / 100
    # Those of all three, and of several reaches, that are furthest above.
    worst = {
        (query, beta): above(formula(query).smooth_bound(s, beta, reach=reach), query, beta, reach)
        for query, beta, reach in ((STEP, 1.0, 2.0), (STEP, 3.0, 2.0))
    }
    assert 1 + (gentle - 1) / 100 < worst[STEP, 1.0] <= 1 + gentle / 100
    assert 1 + (steep - 1) / 100 < worst[STEP, 3.0] <= 1 + steep / 100


def test_what_a_heavy_tail_costs_if_the_change_of_scale_is_priced_by_the_tail() -> None:
    """sup β|uψ−1| + ηψ at the η of ε = (γ−1)β + max_score·η."""
    gamma, share, cost = found(
        "docs/selection.md", r"With γ = ([\d.]+), β = ([\d.]+) ε and the sum .*? costs ([\d.]+) ε"
    )
    noise = HeavyGeneralizedCauchy(gamma)
    eta = (1 - (gamma - 1) * share) / noise.max_score
    u = np.geomspace(1e-9, 1e3, 200_001)
    psi = gamma * u ** (gamma - 1) / (1 + u**gamma)
    assert np.max(share * np.abs(u * psi - 1) + eta * psi) == pytest.approx(cost, abs=6e-3)


def test_the_readme_quotes_the_table_of_distributions() -> None:
    """The error of the median, and the factors by which ε-LDP's best is off at each footing."""
    start = "| incomes, ε = 1 per 8,000 dollar, n = 50,000 | "
    factors = [
        float(cells("docs/results.md", f"{start}{footing} |")[3].strip("*"))
        for footing in ("8,000", "40,000", "524,288")
    ]
    error, *quoted = found(
        "README.md", r"is off by \$(\d+)\. .*? by ([\d.]+), ([\d.]+) and ([\d.]+) times as much"
    )
    assert quoted == factors
    table = text("docs/results.md")
    (median,) = re.findall(r"\| Laplace, debiased \|(?: [^|]+\|){2} (\d+) ±", table)
    assert error == float(median)
    assert f"the median income of 50,000 Californians is off by ${median}" in table


def two_digits(value: float) -> float:
    return float(f"{value:.2g}")


def odds_of(nats: float) -> float:
    """Return e^nats to two digits, rounded up, since no loss may be understated."""
    return float(Context(prec=2, rounding=ROUND_CEILING).plus(Decimal(math.exp(nats))))


def as_number(cell: str) -> float:
    return float(cell.replace(",", "").rstrip("×"))


def printed(lines: list[str], start: str) -> list[float]:
    (line,) = [line for line in lines if line.lstrip().startswith(start)]
    return [as_number(word) for word in line.split() if word.endswith("×")]


@pytest.mark.deep
def test_the_demonstration_compares_what_can_be_compared() -> None:
    """ε-LDP on stated footings: odds and noise as printed, and nowhere called the same privacy."""
    incomes, places = experiments()
    scales = [d / incomes.privacy.per for d in (8_000, 40_000, 100_000)]
    assert scales == list(FOOTINGS)
    promises: list[GeoPrivacy | LocalPrivacy] = [incomes.privacy]
    promises += [incomes.privacy.local(d * incomes.privacy.per) for d in scales]
    odds = [[odds_of(p.at(d * incomes.privacy.per)) for d in scales] for p in promises]
    assert odds == [
        [as_number(cell) for cell in cells("docs/guarantees.md", start)]
        for start in ("| geo-privacy, ε = 1 per", *(f"| ε-LDP, ε = {s:g}:" for s in scales))
    ]
    readme = (ROOT / "README.md").read_text().splitlines()
    starts = ("8,000 dollar or 500", "40,000 dollar or 2,500", "6,250 metre")
    for start, column in zip(starts, zip(*odds, strict=True), strict=True):
        assert printed(readme, start) == list(column)
    capped = odds_of(incomes.campaign.largest_epsilon)
    assert printed(readme, "100,000 dollar") == [capped, *(row[2] for row in odds[1:])]
    assert places.campaign.largest_epsilon == np.inf
    for experiment, label in ((incomes, "above $100,000"), (places, "Times Square")):
        ours = experiment.predictions()[0]["DebiasedLaplace"].noise
        local = [p.noise / ours for p in experiment.local_predictions()[0]]
        assert printed(readme, f"noise: {label}") == [1.0, *map(two_digits, local)]
    told = found("README.md", r"needs (\d+) times the noise variance, or (\d+) times for a density")
    assert told == [printed(readme, f"noise: {label}")[1] for label in ("above", "Times")]
    for name in ("README.md", "apps/geoveil/cli/demo.py"):
        assert "at the same privacy" not in text(name)
