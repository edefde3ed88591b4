"""Fixtures of the tests of selection: rows of the contract, and a test of frequencies."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from scipy.stats import chi2

from geoveil.selection import (
    ExponentialMechanism,
    LocalDampening,
    LocalUtilities,
    Margin,
    PermuteAndFlip,
    ReportNoisyMax,
    Scores,
    SelectionMechanism,
    SmoothNoisyMax,
    SmoothPrivateSelection,
    SmoothUtilities,
    StabilityMechanism,
    Utilities,
)

Row = tuple[Callable[[float], SelectionMechanism], Callable[[Sequence[float]], Scores]]


def _local(values: Sequence[float]) -> LocalUtilities:
    sizes = 0.25 + 0.25 * (np.arange(len(values)) % 3)
    return LocalUtilities(values, [sizes, 2 * sizes])


def _smooth(values: Sequence[float]) -> SmoothUtilities:
    return SmoothUtilities(values, 1.0, beta=1e-6)


def _margin(values: Sequence[float]) -> Margin:
    ordered = sorted(values, reverse=True)
    lead = ordered[0] - ordered[1] if len(values) > 1 else 5.0
    return Margin(int(np.argmax(values)), min(int(lead), 2**53), len(values))


# A mechanism for an ε, and scores of its kind for utilities.
ROWS: dict[str, Row] = {
    "exponential": (lambda e: ExponentialMechanism(e, 1.0), Utilities),
    "exponential, monotone": (lambda e: ExponentialMechanism(e, 1.0, monotone=True), Utilities),
    "permute-and-flip": (lambda e: PermuteAndFlip(e, 1.0), Utilities),
    "permute-and-flip, monotone": (lambda e: PermuteAndFlip(e, 1.0, monotone=True), Utilities),
    "noisy max, exponential": (lambda e: ReportNoisyMax(e, 1.0), Utilities),
    "noisy max, laplace": (lambda e: ReportNoisyMax(e, 1.0, "laplace"), Utilities),
    "noisy max, gumbel": (lambda e: ReportNoisyMax(e, 1.0, "gumbel"), Utilities),
    "dampening": (lambda e: LocalDampening(e, 1.5), _local),
    "dampening, shifted": (lambda e: LocalDampening(e, 1.5, shifted=True), _local),
    "dampening, replaced": (lambda e: LocalDampening(e, 1.5, replace=True), _local),
    "smooth noisy max": (lambda e: SmoothNoisyMax(e, 10_000), _smooth),
    "smooth selection": (lambda e: SmoothPrivateSelection(e, 10_000), _smooth),
    "stability, ratio": (lambda e: StabilityMechanism(e, "ratio"), _margin),
    "stability, optimal": (lambda e: StabilityMechanism(e), _margin),
}


@pytest.fixture(params=list(ROWS))
def row(request):
    """How to make one mechanism, and scores for it."""
    return ROWS[request.param]


@pytest.fixture(params=[name for name in ROWS if not name.startswith("smooth")])
def light_row(request):
    """How to make one whose noise has an exponential tail, at any ε that a double can state."""
    return ROWS[request.param]


def chi_square_p(counts: np.ndarray, probabilities: np.ndarray) -> float:
    """Return Pearson's p-value; outcomes with fewer than 5 expected are put together."""
    n = counts.sum()
    expected = n * np.asarray(probabilities)
    rare = expected < 5
    observed = np.append(counts[~rare], counts[rare].sum())
    expected = np.append(expected[~rare], expected[rare].sum())
    observed, expected = observed[expected > 0], expected[expected > 0]
    statistic = float(((observed - expected) ** 2 / expected).sum())
    return float(chi2.sf(statistic, max(len(expected) - 1, 1)))


@pytest.fixture(scope="session")
def p_value():
    """Pearson's test of counts against probabilities."""
    return chi_square_p
