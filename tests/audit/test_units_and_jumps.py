"""Test faults that only reports in small units, or sums of densities with jumps, hid.

α = 1e-6 for each call; seeds are fixed. Each fault was missed, and has a sound control.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from geoveil.audit import audit, own_cases
from geoveil.gp import GeoPrivacy, Query, UnsupportedError
from tests.audit.comparing import differing
from tests.audit.test_everywhere import Array


@dataclass
class InUnits:
    """The value, so many of which are a dollar, plus Laplace noise rounded to a part of it."""

    query: Query
    privacy: GeoPrivacy
    units: float
    part: float

    @property
    def scale(self) -> float:
        return self.units / self.privacy.rate

    def simulate(self, x: Any, rng: np.random.Generator) -> Array:
        noise = rng.laplace(scale=self.scale, size=np.shape(x))
        step = self.part * self.scale
        return np.asarray(self.units * x + (step * np.rint(noise / step) if step else noise))

    def log_density(self, y: Any, x: Any) -> Array:
        return np.asarray(-np.abs(y - self.units * x) / self.scale - np.log(2 * self.scale))


@dataclass
class WholeUnits(InUnits):
    """Whole numbers of units whose log-probability is stated between them, too."""

    def simulate(self, x: Any, rng: np.random.Generator) -> Array:
        more, less = (rng.geometric(-np.expm1(-1 / self.scale), np.shape(x)) for _ in range(2))
        return np.asarray(np.rint(self.units * x) + more - less)

    def log_density(self, y: Any, x: Any) -> Array:
        away = np.abs(np.rint(y) - np.rint(self.units * x))
        return np.asarray(np.log(np.tanh(0.5 / self.scale)) - away / self.scale)


class OnlyWholeUnits(WholeUnits):
    """It is stated at whole numbers and a millionth beside them."""

    def log_density(self, y: Any, x: Any) -> Array:
        off = np.abs(y - np.rint(y)) > 1e-6
        return np.where(off, -np.inf, super().log_density(y, x))


def row(kind: Callable[..., Any], *given: Any) -> Any:
    def make(query: Query, privacy: GeoPrivacy) -> Any:
        if query.dimension == 2:
            raise UnsupportedError("a line only")
        return kind(query, privacy, *given)

    return own_cases({"mine": make})[:1]


@pytest.mark.deep(keep=3, rest=3)
@pytest.mark.parametrize(
    ("kind", "units", "part", "agrees"),
    [
        (InUnits, 100.0, 0.0, True),
        (InUnits, 100.0, 1e-6, False),
        (WholeUnits, 100.0, 0.0, True),
        (InUnits, 1e4, 1e-7, False),
        (InUnits, 1e6, 1e-7, False),
        (InUnits, 1e6, 0.0, True),
    ],
)
def test_rounded_noise_is_seen_in_any_unit(
    kind: Callable[..., Any], units: float, part: float, agrees: bool
) -> None:
    """n = 400,000 at 8 points; in cents, a density is so low that repeats looked like its own."""
    assert (differing(row(kind, units, part), samples=100_000, seed=1) == ()) == agrees


def test_a_grid_of_which_values_lie_between_others_by_chance_has_no_density() -> None:
    """n = 5,000 at most points; at one of them it was taken for a density, and refused."""
    found = differing(row(OnlyWholeUnits, 1e6, 0.0), samples=100_000, seed=3)
    assert {of.difference for of in found} <= {""}


@dataclass
class Wide:
    """Uniform noise 1,000 times as wide as the answer's range: δ is 1/2,000 at any ε."""

    query: Query
    privacy: GeoPrivacy
    half = 1_000.0

    def simulate(self, x: Any, rng: np.random.Generator) -> Array:
        value = self.query.value(x)
        return np.asarray(value + rng.uniform(-self.half, self.half, value.shape))

    def log_density(self, y: Any, x: Any) -> Array:
        inside = np.abs(y - self.query.value(x)) <= self.half
        return np.where(inside, -np.log(2 * self.half), -np.inf)


@pytest.mark.parametrize(("delta", "keeps"), [(5.01e-4, True), (4.99e-4, False), (1e-5, False)])
def test_a_slack_is_summed_to_the_very_ends_of_a_law(delta: float, keeps: bool) -> None:
    """Oracle: 1/2,000. Ends between outputs hid 50 times the δ that was promised."""

    def make(query: Query, privacy: GeoPrivacy) -> Wide:
        return Wide(query, replace(privacy, delta=delta))

    (verdict,) = audit(own_cases({"mine": make})[:1], samples=1_000, seed=1)
    assert verdict.keeps == keeps, verdict
