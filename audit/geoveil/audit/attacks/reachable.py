"""The reachable-outputs attack (Mironov, On significance of the least significant bits, CCS 2012).

Float noise takes finitely many values, with gaps, and adding f(x) moves the gaps. An output that
no uniform number leads to from x' can't be from x', however close f(x') is.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from geoveil.audit.attacks.guesses import Guesses
from geoveil.audit.attacks.preimages import Path


@dataclass(frozen=True, slots=True)
class Reached:
    """What the attack found."""

    guesses: Guesses
    unreachable: float
    """Share of outputs that the other input can't have led to."""
    largest_loss: float
    """The largest |log-ratio| of the two probabilities of an output that the counts prove."""


def reachable_attack(
    path: Path, x: float, other: float, *, samples: int, seed: int, failure_probability: float
) -> Reached:
    """Guess, from single outputs, which of two inputs they are from.

    The guess is the input from which more uniform numbers lead to exactly that output: the
    likelihood-ratio test, which no other guess beats. A tie is decided by a coin.

    Args:
        path: how the reports are made.
        x: one input.
        other: the other.
        samples: outputs of each.
        seed: for the outputs and the coins.
        failure_probability: see `Guesses`.
    """
    rng = np.random.default_rng([seed, 2])
    called = []
    unreachable = 0
    loss = 0.0
    for index, truth in enumerate((x, other)):
        outputs = path.draw(truth, samples, 2 * seed + index)
        counts = [path.preimages(point, outputs) for point in (x, other)]
        coin = rng.random(samples) < 0.5
        called.append(int(np.where(counts[0] == counts[1], coin, counts[0] > counts[1]).sum()))
        unreachable += int((counts[1 - index] == 0).sum())
        loss = max(loss, _largest_ratio(counts[0], counts[1], path.count_error))
    guesses = Guesses(called[0], called[1], samples, failure_probability)
    return Reached(guesses, unreachable / (2 * samples), loss)


def _largest_ratio(first: NDArray[np.int64], second: NDArray[np.int64], error: int) -> float:
    more = np.maximum(first, second) - error
    less = np.minimum(first, second) + error
    if (less == 0).any():
        return math.inf
    return max(0.0, float(np.log(np.maximum(more, 1) / less).max()))
