"""Compare the success of an adversary who guesses between two inputs with a guarantee."""

import math
from dataclasses import dataclass

from geoveil.gp import ParameterError, validation


def binomial_bounds(successes: int, trials: int, failure_probability: float) -> tuple[float, float]:
    """Return bounds on a probability, each wrong with at most half of the failure probability.

    Clopper and Pearson (1934): exact for independent trials.

    Example:
        >>> low, high = binomial_bounds(0, 200, 0.05)
        >>> low, round(high, 4)
        (0.0, 0.0183)
    """
    from scipy import special

    share = failure_probability / 2
    low = float(special.betaincinv(successes, trials - successes + 1, share)) if successes else 0.0
    if successes == trials:
        return low, 1.0
    return low, float(special.betaincinv(successes + 1, trials - successes, 1 - share))


@dataclass(frozen=True, slots=True)
class Guesses:
    """Counts of an adversary's guesses for the first input, by true input.

    Args:
        first: outputs of the first input that were attributed to it.
        second: outputs of the second that were attributed to the first.
        trials: number of outputs of each.
        failure_probability: probability, in (0, 1), that a lower bound exceeds the truth.
    """

    first: int
    second: int
    trials: int
    failure_probability: float

    def __post_init__(self) -> None:
        for name in ("first", "second"):
            count = getattr(self, name)
            if not 0 <= count <= self.trials:
                raise ParameterError(name, count, f"in [0, {self.trials}]")
        validation.between(
            "failure_probability", self.failure_probability, 0, 1, low_open=True, high_open=True
        )

    @property
    def right(self) -> float:
        """Share of right guesses from a single output, for two equally likely inputs."""
        return (self.first + self.trials - self.second) / (2 * self.trials)

    @property
    def epsilon(self) -> float:
        """Lower bound on how distinguishable the two inputs are, in nats; 0 if none is proven."""
        yes, no = self._bounds()
        ratios = [(yes[0], no[1]), (1 - no[1], 1 - yes[0])]
        return max([0.0, *(math.log(a / b) for a, b in ratios if a > 0)])

    def delta(self, promised_epsilon: float) -> float:
        """Return a lower bound on the δ that the promised ε (nats, of these inputs) would need."""
        yes, no = self._bounds()
        growth = math.exp(promised_epsilon)
        return max(0.0, yes[0] - growth * no[1], (1 - no[1]) - growth * (1 - yes[0]))

    def _bounds(self) -> tuple[tuple[float, float], tuple[float, float]]:
        # One bound of each of the two probabilities is used: two failures of a half each.
        share = self.failure_probability
        yes, no = (binomial_bounds(k, self.trials, share) for k in (self.first, self.second))
        return yes, no


def permitted_right(epsilon: float) -> float:
    """Return the largest share of right guesses that ε-indistinguishable inputs permit.

    P ≤ e^ε·Q and 1 − Q ≤ e^ε·(1 − P), so (P + 1 − Q)/2 ≤ e^ε/(1 + e^ε).

    Example:
        >>> round(permitted_right(0.01), 4)
        0.5025
    """
    return 1 / (1 + math.exp(-epsilon))
