"""Sums of many reports of people whose values repeat: exact in distribution, and fast.

What depends on the value alone is computed once per distinct value. The noise is drawn for each
person. NOT private on a computer [MATH §10].
"""

import math
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from geoveil.analyst.planner import Reports
from geoveil.gp import GeneralizedCauchy, Laplace, Noise
from geoveil.gp.mechanisms.additive import AdditiveMechanism
from geoveil.simulation.comparison import Array

Sampler = Callable[[np.random.Generator, int], Array]


def sampler(noise: Noise) -> Sampler:
    """Return a function that draws n of the noise: the family's own, or a faster one.

    The magnitude of generalized Cauchy noise is (G/G')^{1/γ}, with G and G' of Gamma laws of shape
    1/γ and 1 − 1/γ: u^γ/(1 + u^γ) has the law Beta(1/γ, 1 − 1/γ) [MATH §10].
    """
    match noise:
        case Laplace():
            return lambda rng, n: rng.laplace(scale=noise.scale, size=n)
        case GeneralizedCauchy():
            shape = 1 / noise.gamma

            def draw(rng: np.random.Generator, n: int) -> Array:
                ratio = rng.standard_gamma(shape, n) / rng.standard_gamma(1 - shape, n)
                magnitude = ratio**shape
                return np.asarray(np.where(rng.random(n) < 0.5, magnitude, -magnitude))

            return draw
        case _:
            return lambda rng, n: noise.sample(rng, (n,))


def seeded(seed: int, *key: int | str) -> np.random.Generator:
    """Return the random numbers of one part of the work: a function of the seed and its key."""
    numbers = (zlib.crc32(part.encode()) if isinstance(part, str) else part for part in key)
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=tuple(numbers)))


def drawn_blocks(
    name: str, n: int, *, size: int, seed: int, repetition: int
) -> Iterator[tuple[int, np.random.Generator]]:
    """Return the blocks of one repetition: how many people, and random numbers of their own.

    Results do not depend on who computes what. The name is that of the experiment, the panel and
    the mechanism; the last block has the rest.
    """
    for block, start in enumerate(range(0, n, size)):
        yield min(size, n - start), seeded(seed, name, n, repetition, block)


def drawn_error(squares: Sequence[float], seed: int) -> dict[str, Any]:
    """Return the fields of an `ErrorRow` that say what two repetitions or more gave."""
    return {
        "error": float(np.mean(squares)),
        "standard_error": float(np.std(squares, ddof=1) / math.sqrt(len(squares))),
        "mode": "monte-carlo",
        "seed": seed,
        "repetitions": len(squares),
    }


def summed(
    answer: Reports, values: Array
) -> Callable[[NDArray[np.int64], np.random.Generator], float]:
    """Return what draws the sum of one report of each person.

    It is given the number of people at each of the values, (k,) or (k, d), and a generator.
    """
    if not isinstance(answer, AdditiveMechanism) or answer.noise.variance == math.inf:
        return lambda counts, rng: float(
            answer.simulate(np.repeat(values, counts, axis=0), rng).sum()
        )
    # f(x) + scale(x)·Z: f and scale once per value.
    mean, sample = answer.query.value(values), sampler(answer.noise)
    scale = np.sqrt(answer.variance(values) / answer.noise.variance)

    def total(counts: NDArray[np.int64], rng: np.random.Generator) -> float:
        noise = sample(rng, int(counts.sum()))
        # Not a matrix product: starting threads takes longer than adding.
        return float(counts @ mean + np.einsum("i,i", np.repeat(scale, counts), noise))

    return total


def at_nodes(places: Array, count: int, weights: Array | None = None) -> Array:
    """Return the weight at each node, every point shared by the two next to it.

    Args:
        places: numbers of nodes ≥ 0, fractions between them; what is beyond the last is put there.
        count: of nodes, ≥ 2.
        weights: of the points; 1 each if None.

    Example:
        >>> at_nodes(np.array([0.25, 1.0, 7.0]), 3).tolist()
        [0.75, 1.25, 1.0]
    """
    left = np.minimum(places.astype(np.intp), count - 2)
    return shared(left, np.minimum(places - left, 1.0), count, weights)


def shared(left: NDArray[np.intp], right: Array, count: int, weights: Array | None = None) -> Array:
    """Return the weight at each node, of points between nodes `left` and the next.

    `right` is the part that goes to the next one, from 0 to 1; it is overwritten.
    """
    if weights is not None:
        right *= weights
    upper = np.bincount(left, right, count)
    found = np.bincount(left, weights, count) - upper
    found[1:] += upper[:-1]
    return np.asarray(found, np.float64)
