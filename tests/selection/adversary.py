"""Search for neighbours between which a smooth selection mechanism loses most.

    python tests/selection/adversary.py

writes what it finds for every case to golden/adversary.json, in some minutes.
"""

import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from scipy.optimize import minimize

from geoveil.selection import (
    ExponentialPareto,
    HalfStudentT,
    HeavyGeneralizedCauchy,
    SmoothNoisyMax,
    SmoothPrivateSelection,
    SmoothUtilities,
)

GOLDEN = Path(__file__).parent / "golden" / "adversary.json"
Mechanism = SmoothNoisyMax | SmoothPrivateSelection
MAKERS: dict[str, Callable[[int, float], Mechanism]] = {
    "exponential-pareto 1": lambda m, share: SmoothNoisyMax(1.0, m, share=share),
    "exponential-pareto 5": lambda m, share: SmoothNoisyMax(
        1.0, m, ExponentialPareto(5.0), share=share
    ),
    "half t": lambda m, share: SmoothNoisyMax(1.0, m, HalfStudentT(3.0), share=share),
    "two-sided": lambda m, share: SmoothPrivateSelection(
        1.0, m, HeavyGeneralizedCauchy(4.0), share=share
    ),
}
OUTCOMES = (2, 3, 10, 100)
SHARES = (0.1, 0.5, 0.9)


@dataclass(frozen=True)
class Neighbours:
    """Two databases: in the first, two groups of rivals are behind outcome 0 by `leads`.

    From the first to the second, outcome 0 falls and all others rise by min(S, S'), the most that
    is allowed, and S' = e^{±β} S.
    """

    leads: tuple[float, float]
    """How far the groups are behind, in units of the noise."""
    split: int
    """How many rivals the first group has."""
    sign: int
    """1 if S grows, −1 if it shrinks."""

    def loss(self, m: Mechanism, size: float = 1.0) -> float:
        """Return ln P[0]/P'[0]. `size` multiplies both S, and so the noise."""
        rest = m.outcomes - 1 - self.split
        groups = np.repeat(self.leads, [self.split, rest])
        x = np.concatenate([[0.0], -groups * m.scale(size)])
        grown = math.exp(self.sign * m.beta)
        move = min(1.0, grown)
        y = np.concatenate([[x[0] - move], x[1:] + move])
        p = m.probabilities(SmoothUtilities(x, size, beta=m.beta))
        q = m.probabilities(SmoothUtilities(y, size * grown, beta=m.beta))
        return math.log(p[0] / q[0])


def worst(m: Mechanism, size: float = 1.0) -> Neighbours:
    """Return the worst neighbours from 24 random starts for each way, the best of them refined."""
    rng, found, most = np.random.default_rng(0), None, -math.inf
    rivals = m.outcomes - 1
    for split in sorted({rivals, rivals // 2, 1}):
        for sign in (1, -1):
            starts = rng.choice([-1, 1], (24, 2)) * 10 ** rng.uniform(-1.5, 2.5, (24, 2))

            def at(leads: np.ndarray, split: int = split, sign: int = sign) -> Neighbours:
                first, second = np.clip(leads, -1e6, 1e6).tolist()
                return Neighbours((first, second), split, sign)

            def minus(leads: np.ndarray, at: Callable[..., Neighbours] = at) -> float:
                return -at(leads).loss(m, size)

            best = min(starts, key=minus)
            refined = minimize(minus, best, method="Nelder-Mead", options={"maxfev": 60})
            if -refined.fun > most:
                found, most = at(refined.x), -refined.fun
    assert found is not None
    return found


def row(name: str, share: float, outcomes: int, size: float) -> dict[str, object]:
    """Return what the file says of a case."""
    m = MAKERS[name](outcomes, share)
    found = worst(m, size)
    case = {"name": name, "share": share, "outcomes": outcomes, "size": size}
    return {**case, **asdict(found), "loss": found.loss(m, size)}


def cases() -> list[tuple[str, float, int, float]]:
    """Return name, share, outcomes and size: all with the noise they need, and with too little.

    [SPS Theorem 2] is not tight for few outcomes, where noise × 0.7 still keeps the promise.
    """
    right = [(name, share, m, 1.0) for name in MAKERS for share in SHARES for m in OUTCOMES]
    wrong = [
        (name, 0.1, m, 0.4 if name == "two-sided" and m < 10 else 0.7)
        for name in MAKERS
        for m in OUTCOMES
    ]
    return right + wrong


if __name__ == "__main__":
    rows = [json.dumps(row(*case)) for case in cases()]
    GOLDEN.write_text("[\n" + ",\n".join(rows) + "\n]\n")
