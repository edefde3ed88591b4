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


def total(answer: Reports, x: Array, rng: np.random.Generator) -> float:
    """Return the sum of one report for each point.

    Args:
        answer: the mechanism.
        x: points, (n,) or (n, k).
        rng: a NumPy generator.
    """
    if isinstance(answer, AdditiveMechanism) and answer.noise.variance < math.inf:
        scale = np.sqrt(answer.variance(x) / answer.noise.variance)
        noise = sampler(answer.noise)(rng, len(x))
        return float(answer.query.value(x).sum() + np.einsum("i,i", scale, noise))
    return float(answer.simulate(x, rng).sum())


def drawn_blocks(
    name: str, n: int, *, size: int, seed: int, repetition: int
) -> Iterator[tuple[int, np.random.Generator]]:
    """Return the blocks of one repetition: how many people, and random numbers of their own.

    They are made of the seed, the name, n, and the numbers of the repetition and the block: results
    do not depend on who computes what.

    Args:
        name: of the experiment, the panel and the mechanism.
        n: people in all.
        size: people in a block; the last one has the rest.
        seed: of the run, ≥ 0.
        repetition: its number, ≥ 0.
    """
    key = zlib.crc32(name.encode())
    for block, start in enumerate(range(0, n, size)):
        seeds = np.random.SeedSequence(seed, spawn_key=(key, n, repetition, block))
        yield min(size, n - start), np.random.default_rng(seeds)


def drawn_error(squares: Sequence[float], seed: int) -> dict[str, Any]:
    """Return the fields of a `ErrorRow` that say what repetitions gave.

    Args:
        squares: the squared error of each, two or more.
        seed: of the run.
    """
    return {
        "error": float(np.mean(squares)),
        "standard_error": float(np.std(squares, ddof=1) / math.sqrt(len(squares))),
        "mode": "monte-carlo",
        "seed": seed,
        "repetitions": len(squares),
    }


class Draws:
    """Reports of people who hold one of a few values.

    Args:
        answer: the mechanism.
        values: the distinct values, shape (k,).
    """

    def __init__(self, answer: Reports, values: Array) -> None:
        self._answer = answer
        self._values = values
        self._sample: Sampler | None = None
        # f(x) + scale(x)·Z: f and scale once per value.
        if isinstance(answer, AdditiveMechanism) and answer.noise.variance < math.inf:
            self._mean = answer.query.value(values)
            self._scale = np.sqrt(answer.variance(values) / answer.noise.variance)
            self._sample = sampler(answer.noise)

    def total(self, counts: NDArray[np.int64], rng: np.random.Generator) -> float:
        """Return the sum of one report of each person.

        Args:
            counts: number of people at each value, shape (k,).
            rng: a NumPy generator.
        """
        if self._sample is None:
            people = np.repeat(self._values, counts)
            return float(self._answer.simulate(people, rng).sum())
        noise = self._sample(rng, int(counts.sum()))
        # Not a matrix product: starting threads takes longer than adding.
        return float(counts @ self._mean + np.einsum("i,i", np.repeat(self._scale, counts), noise))
