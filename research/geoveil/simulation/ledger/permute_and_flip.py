"""The statements of [PF]: permute-and-flip is report-noisy-max with exponential noise."""

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from geoveil.selection import ExponentialMechanism, PermuteAndFlip, ReportNoisyMax
from geoveil.simulation.ledger.reproduction import Numbers, Told
from geoveil.simulation.selection.experiment import Options

_OUTCOMES, _SCORES = 6, 100
_EPSILON = 1.0


def flipped(scores: NDArray[np.float64], epsilon: float) -> NDArray[np.float64]:
    """Return the law of [PF Algorithm 2] by enumerating all orders; the sensitivity is 1."""
    heads = np.exp(epsilon / 2 * (scores - scores.max()))
    result = np.zeros(len(scores))
    orders = list(permutations(range(len(scores))))
    for order in orders:
        left = 1.0
        for outcome in order:
            result[outcome] += left * heads[outcome]
            left *= 1 - heads[outcome]
    return result / len(orders)


def noisy(scores: NDArray[np.float64], epsilon: float) -> NDArray[np.float64]:
    """Return the law of [PF Algorithm 1] by quadrature over the winner's noisy score."""
    from scipy.integrate import quad

    rate = epsilon / 2

    def density(v: float, score: float, others: NDArray[np.float64]) -> float:
        below = -np.expm1(-rate * np.maximum(v - others, 0.0))
        return float(rate * np.exp(-rate * (v - score)) * below.prod())

    # Noise is not negative, so below any score the winner's noisy score is impossible.
    ends = scores.max(), scores.max() + 80 / rate
    others = [np.delete(scores, k) for k in range(len(scores))]
    exactly = partial(quad, density, *ends, epsabs=1e-13, limit=400)
    return np.array([exactly(args=pair)[0] for pair in zip(scores, others, strict=True)])


def _scores(options: Options) -> list[NDArray[np.float64]]:
    rng = np.random.default_rng(options.seed)
    return [rng.uniform(0, 10, _OUTCOMES) for _ in range(10 if options.quick else _SCORES)]


_SETTING = f"{_SCORES} random scores of {_OUTCOMES} outcomes"


def _equal_laws(options: Options) -> Iterator[Told]:
    apart = [flipped(s, _EPSILON) - noisy(s, _EPSILON) for s in _scores(options)]
    yield _SETTING, "largest difference of Algorithms 1 and 2", float(np.abs(apart).max())


def _compared(options: Options) -> Iterator[Told]:
    ratios = []
    for scores in _scores(options):
        flip, exponential = (
            float(mechanism(_EPSILON, 1.0).probabilities(scores) @ (scores.max() - scores))
            for mechanism in (PermuteAndFlip, ExponentialMechanism)
        )
        ratios.append(flip / exponential)
    quantity = "expected error over that of the exponential mechanism, the largest"
    yield _SETTING, quantity, max(ratios)
    lead = ReportNoisyMax(_EPSILON, 1.0, noise="exponential").guarantee.epsilon
    yield "ε = 1", "ε of a choice that comes with its lead", lead


NUMBERS: Mapping[str, Numbers] = {"pf-theorem-5": _equal_laws, "pf-section-4": _compared}
"""Row of the ledger → the function that computes its numbers."""
