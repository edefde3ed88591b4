"""Faults that densities and simulations don't show, or only in unusual places.

Some release something other than they state; others break the promise in a strip of points or at
distant outputs.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geoveil.audit.case import Case, additive_outputs, bounded_outputs
from geoveil.audit.catalogue import INCOME, RAMP, STEP
from geoveil.gp import (
    DebiasedLaplace,
    GeoPrivacy,
    LipschitzMechanism,
    PlanarLaplace,
    RandomSource,
)

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
_SEVEN = np.array([0.03, 0.21, 0.34, 0.5, 0.62, 0.81, 0.96])
"""The only random numbers of a broken generator."""
_RARELY = 1e-3
_SEED = 7
_LOW = 63, 37
"""Mask of the lowest bits of a float, and their value at a faulty place."""


@dataclass(frozen=True, slots=True)
class Released:
    """A sound mechanism with a faulty release: `draw` of the points, in the unit of reports."""

    stated: LipschitzMechanism | DebiasedLaplace | PlanarLaplace
    draw: Callable[[Array, np.random.Generator], Array]

    @property
    def privacy(self) -> GeoPrivacy:
        """The sound mechanism's promise, which the releases break."""
        return self.stated.privacy

    def simulate(self, x: ArrayLike, rng: np.random.Generator) -> Array:
        """Return one sound report per point."""
        return np.asarray(self.stated.simulate(x, rng))

    def log_density(self, y: ArrayLike, x: ArrayLike) -> Array:
        """Return the sound log-density at output y given the point x."""
        return np.asarray(self.stated.log_density(y, x))

    def release(self, x: float, source: RandomSource) -> int | list[int]:
        """Return one faulty release."""
        released: int | list[int] = self.release_many([x], source)[0].tolist()
        return released

    def release_many(self, x: ArrayLike, source: RandomSource) -> Integers:
        """Return one faulty release per point."""
        rng = np.random.default_rng(source.bits(64))
        drawn = self.draw(np.asarray(x, dtype=np.float64), rng)
        shape = (len(drawn), 1) if isinstance(self.stated, PlanarLaplace) else (len(drawn),)
        released: Integers = np.rint(drawn / self.stated.step).astype(np.int64).reshape(shape)
        return released


@dataclass(frozen=True, slots=True)
class Cut:
    """The value plus Laplace noise, redrawn beyond the distance `most` (unit of x)."""

    privacy: GeoPrivacy
    most: float

    def simulate(self, x: ArrayLike, rng: np.random.Generator) -> Array:
        """Return one report per point."""
        points = np.asarray(x, dtype=np.float64)
        size = -np.log1p(rng.random(points.shape) * np.expm1(-self.privacy.rate * self.most))
        return np.asarray(points + rng.choice([-1.0, 1.0], points.shape) * size / self.privacy.rate)

    def log_density(self, y: ArrayLike, x: ArrayLike) -> Array:
        """Return the log-density at output y given the point x: -inf beyond the distance."""
        rate, apart = self.privacy.rate, np.abs(np.subtract(y, x))
        whole = math.log(rate / 2) - math.log(-math.expm1(-rate * self.most))
        return np.asarray(np.where(apart <= self.most, whole - rate * apart, -math.inf))


@dataclass(frozen=True, slots=True)
class Strip:
    """Half of the value plus Laplace noise; in a strip of values it moves faster than promised.

    The strip has a `start` and `width` in the unit of the value, and moves by a `factor`.
    """

    privacy: GeoPrivacy
    start: float
    width: float
    factor: float

    def _center(self, x: ArrayLike) -> Array:
        points = np.asarray(x, dtype=np.float64)
        inside = np.clip(points - self.start, 0.0, self.width)
        return np.asarray(points / 2 + (self.factor - 0.5) * inside)

    def simulate(self, x: ArrayLike, rng: np.random.Generator) -> Array:
        """Return one report per point."""
        center = self._center(x)
        return np.asarray(center + rng.laplace(scale=1 / self.privacy.rate, size=center.shape))

    def log_density(self, y: ArrayLike, x: ArrayLike) -> Array:
        """Return the log-density at output y given the point x."""
        rate = self.privacy.rate
        return np.asarray(math.log(rate / 2) - rate * np.abs(np.subtract(y, self._center(x))))


def release_faults() -> tuple[Case, ...]:
    """Return the faults, at the points and pairs of the sound mechanisms."""
    return tuple(_faults())


def _faults() -> Iterator[Case]:
    sound = LipschitzMechanism(RAMP.query, INCOME)
    careless = LipschitzMechanism(RAMP.query, replace(INCOME, epsilon=2 * INCOME.epsilon))
    point = PlanarLaplace(INCOME, 1)
    scale, value = sound.largest_scale, sound.query.value

    def seven(x: Array, rng: np.random.Generator) -> Array:
        return np.asarray(value(x) + scale * sound.noise.ppf(rng.choice(_SEVEN, x.shape)))

    def sometimes_bare(x: Array, rng: np.random.Generator) -> Array:
        return np.where(rng.random(x.shape) < _RARELY, value(x), sound.simulate(x, rng))

    def seeded(x: Array, rng: np.random.Generator) -> Array:
        return sound.simulate(x, np.random.default_rng(_SEED))

    def odd_bare(x: Array, rng: np.random.Generator) -> Array:
        return np.where(x % 2 == 1, value(x), sound.simulate(x, rng))

    def low_bits_bare(x: Array, rng: np.random.Generator) -> Array:
        which, bare = _LOW
        return np.where((x.view(np.int64) & which) == bare, value(x), sound.simulate(x, rng))

    def multiplied(x: Array, rng: np.random.Generator) -> Array:
        u = rng.random(x.shape)
        u[1::2] = 37 * u[: x.size // 2 * 2 : 2] % 1
        return np.asarray(value(x) + scale * sound.noise.ppf(u))

    def of_24_bits(x: Array, rng: np.random.Generator) -> Array:
        u = (rng.integers(0, 2**24, x.shape) + 0.5) / 2**24
        return np.asarray(value(x) + scale * sound.noise.ppf(u))

    def whole_dollars(x: Array, rng: np.random.Generator) -> Array:
        return x + np.rint(rng.laplace(scale=1 / INCOME.rate, size=x.shape))

    fine = LipschitzMechanism(RAMP.query, replace(INCOME, epsilon=16.0))
    grid = INCOME.per / 4

    def to_a_quarter(x: Array, rng: np.random.Generator) -> Array:
        return np.asarray(fine.simulate(np.rint(x / grid) * grid, rng))

    soft = DebiasedLaplace(STEP.query, INCOME)

    def six_bits_bare(x: Array, rng: np.random.Generator) -> Array:
        drawn = soft.simulate(x, rng)
        whole, quiet = np.rint([drawn / soft.step, soft.mean(x) / soft.step])
        shown = (rng.random(x.shape) < 0.5) & ~np.isin(drawn, soft.atoms)
        return np.asarray((whole - shown * ((whole - quiet) % 64)) * soft.step)

    outputs = additive_outputs(scale)
    for variant, draw in (
        ("release at 2ε", careless.simulate),
        ("seven random numbers", seven),
        ("1 in 1,000 is the value", sometimes_bare),
        ("a fixed seed", seeded),
        ("no noise at odd numbers", odd_bare),
        ("no noise where 6 bits are 37", low_bits_bare),
        ("each second number is 37 u", multiplied),
        ("random numbers of 24 bits", of_24_bits),
    ):
        yield RAMP.case(Released(sound, draw), outputs, variant, name="LipschitzMechanism")
    yield replace(RAMP, privacy=fine.privacy).case(
        Released(fine, to_a_quarter),
        additive_outputs(fine.largest_scale),
        "x to a quarter of per",
        name="LipschitzMechanism",
    )
    between = bounded_outputs(*soft.range, soft.atoms)
    low = Released(soft, six_bits_bare)
    yield STEP.case(low, between, "low bits beside atoms", name="DebiasedLaplace")
    line = replace(RAMP, name="the value")
    near = line.points(np.linspace(-12.0, 12.0, 25))
    rounded = Released(point, whole_dollars)
    yield line.case(rounded, near, "x + round(noise)", name="PlanarLaplace")
    cut = Cut(INCOME, 9 * INCOME.per)
    yield line.case(cut, near, "no noise beyond 9/ε", name="PlanarLaplace")
    for variant, away, width in (
        ("a strip of 4.4 ε", 0.311, 1 / 400),
        ("4.4 ε far away", 2e3, 0.1),
    ):
        strip = Strip(INCOME, 100_000.0 + away * INCOME.per, width * INCOME.per, 4.4)
        yield line.case(strip, near, variant, name="PlanarLaplace")
