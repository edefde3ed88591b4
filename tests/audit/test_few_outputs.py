"""Test that an audit sees faults of mechanisms that have few outputs, or those of a grid.

α = 1e-6 for each call; seeds are fixed. Each fault was missed, and has a sound control.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from geoveil.audit import audit, own_cases
from geoveil.audit.agreement import compare
from geoveil.audit.forms import FORM, FormReport, forms
from geoveil.gp import GeoPrivacy, LocalPrivacy, Query, RandomSource
from tests.audit.comparing import differing

Array = NDArray[np.float64]


@dataclass
class OfTwo:
    """One of two outputs, likelier on the answer's side, but in a strip of points."""

    query: Query
    width: float
    privacy: LocalPrivacy

    def odds(self, x: Any) -> Array:
        line = x.ndim == 1
        along = abs(x - 117_067.2) / 8_000 if line else abs(x[..., 0] - 1_066.7) / 500
        return 0.45 * np.sign(self.query.value(x) - 0.5) - 2.0 * (along < self.width / 2)

    def log_density(self, y: Any, x: Any) -> Array:
        logs = -np.log1p(np.exp(np.where(y == 1, -1, 1) * self.odds(x)))
        return np.where((y == 0) | (y == 1), logs, -np.inf)

    def simulate(self, x: Any, rng: np.random.Generator) -> Array:
        odds = self.odds(x)
        return np.where(rng.random(odds.shape) < 1 / (1 + np.exp(-odds)), 1.0, 0.0)


@pytest.mark.parametrize(("width", "odds"), [(0.0, [-0.45] * 3), (1 / 400, [-1.55, -1.55, -2.45])])
def test_a_strip_is_seen_where_only_two_outputs_are_possible(
    width: float, odds: list[float]
) -> None:
    """Oracle: log(1 + e^-odds), for the least odds, less log(1 + e^-0.45)."""
    rows = own_cases({"mine": lambda query, privacy: OfTwo(query, width, LocalPrivacy(1.0))})
    found = [verdict.exact.fraction for verdict in audit(rows, samples=1_000, seed=3)]
    assert found == pytest.approx(np.log1p(np.exp(-np.array(odds))) - np.log1p(np.exp(-0.45)))


@dataclass
class OnAGrid:
    """Two-sided geometric noise, 1/12 of whose scale is a step; a share of it is made positive."""

    query: Query
    privacy: GeoPrivacy
    share: float
    ratio = 12 / 13

    @property
    def step(self) -> float:
        return self.query.lipschitz / self.privacy.rate / 12

    def simulate(self, x: Any, rng: np.random.Generator) -> Array:
        value = self.query.value(x) / self.step
        more, less = rng.geometric(1 - self.ratio, (2, *value.shape))
        positive = rng.random(value.shape) < self.share
        noise = np.where(positive, abs(more - less), more - less)
        return self.step * (np.floor(value + rng.random(value.shape)) + noise)

    def log_density(self, y: Any, x: Any) -> Array:
        value, place = self.query.value(x) / self.step, np.rint(y / self.step)
        low, up = np.floor(value), np.mod(value, 1)
        mixed = (1 - up) * self.ratio ** abs(place - low) + up * self.ratio ** abs(place - low - 1)
        logs = np.log(mixed * (1 - self.ratio) / (1 + self.ratio))
        return np.where(self.step * place == y, logs, -np.inf)


@pytest.mark.parametrize(("share", "agrees"), [(0.0, True), (0.16, False)])
def test_values_of_a_grid_that_are_off_together_are_refused(share: float, agrees: bool) -> None:
    """58 % of the noise is positive; n = 2,500 at each point."""
    rows = own_cases({"mine": lambda query, privacy: OnAGrid(query, privacy, share)})[:1]
    assert (differing(rows, samples=5_000, seed=3) == ()) == agrees


class PartlyOnAGrid(OnAGrid):
    """Half of the reports are on the grid, most of them at values that few reports have."""

    def simulate(self, x: Any, rng: np.random.Generator) -> Array:
        value, grid = self.query.value(x), super().simulate(x, rng)
        laplace = value + 12 * self.step * rng.laplace(size=value.shape)
        return np.where(rng.random(value.shape) < 0.5, grid, laplace)

    def log_density(self, y: Any, x: Any) -> Array:
        scale = 12 * self.step
        with np.errstate(divide="ignore"):
            grid = super().log_density(y, x)
        smooth = -np.abs(y - self.query.value(x)) / scale - np.log(2 * scale)
        return np.where(np.isneginf(grid), smooth, grid) - np.log(2)


class HalfOfFewDigits(OnAGrid):
    """Half of the reports are any number of 30 bits; the others have less noise by a share."""

    def simulate(self, x: Any, rng: np.random.Generator) -> Array:
        value = self.query.value(x)
        laplace = 12 * self.step * (1 - self.share) * rng.laplace(size=value.shape)
        few = rng.integers(0, 2**30, value.shape) / 2**30
        return np.where(rng.random(value.shape) < 0.5, few, value + laplace)

    def log_density(self, y: Any, x: Any) -> Array:
        scale = 12 * self.step
        smooth = -np.abs(y - self.query.value(x)) / scale - np.log(4 * scale)
        of_few = (np.mod(y * 2.0**30, 1) == 0) & (y >= 0) & (y < 1)
        return np.where(of_few, -31 * np.log(2), smooth)


class NextToEachOther(OnAGrid):
    """A third of the reports are two neighbouring floats, and a share more are the lower one."""

    pair = np.array([0.5, np.nextafter(0.5, 1.0)])

    def simulate(self, x: Any, rng: np.random.Generator) -> Array:
        value = self.query.value(x)
        drawn = rng.random(value.shape)
        laplace = value + 12 * self.step * rng.laplace(size=value.shape)
        either = np.where(drawn < 1 / 6 + self.share, *self.pair)
        return np.where(drawn < 1 / 3, either, laplace)

    def log_density(self, y: Any, x: Any) -> Array:
        scale = 12 * self.step
        smooth = -np.abs(y - self.query.value(x)) / scale - np.log(3 * scale)
        return np.where(np.isin(y, self.pair), -np.log(6), smooth)


class Steeper(OnAGrid):
    """Geometric noise, 4 times as wide above the answer; a share is within 2 steps of it."""

    ratios = np.exp(-1 / 40), np.exp(-1 / 160)

    @property
    def step(self) -> float:
        return super().step * 12 / 40

    @property
    def most(self) -> float:
        low, high = self.ratios
        return 1 / (1 / (1 - high) + low / (1 - low))

    def simulate(self, x: Any, rng: np.random.Generator) -> Array:
        value, (low, high) = self.query.value(x) / self.step, self.ratios
        above = rng.random(value.shape) < self.most / (1 - high)
        noise = np.where(above, rng.geometric(1 - high, value.shape) - 1, 0)
        noise -= np.where(above, 0, rng.geometric(1 - low, value.shape))
        near = rng.random(value.shape) < self.share
        noise = np.where(near, rng.integers(-2, 3, value.shape), noise)
        return self.step * (np.floor(value + rng.random(value.shape)) + noise)

    def log_density(self, y: Any, x: Any) -> Array:
        value, place = self.query.value(x) / self.step, np.rint(y / self.step)
        below, up = np.floor(value), np.mod(value, 1)
        logs = [
            np.where(k < 0, -k * np.log(self.ratios[0]), k * np.log(self.ratios[1]))
            for k in (place - below, place - below - 1)
        ]
        with np.errstate(divide="ignore"):
            mixed = np.logaddexp(np.log1p(-up) + logs[0], np.log(up) + logs[1])
        return np.where(self.step * place == y, mixed + np.log(self.most), -np.inf)


@pytest.mark.deep
@pytest.mark.parametrize(
    ("kind", "share", "agrees"),
    [
        (PartlyOnAGrid, 0.0, True),
        (PartlyOnAGrid, 0.16, False),
        (HalfOfFewDigits, 0.0, True),
        (HalfOfFewDigits, 0.2, False),
        (NextToEachOther, 0.0, True),
        (NextToEachOther, 0.02, False),
        (Steeper, 0.0, True),
        (Steeper, 0.007, False),
    ],
)
def test_single_values_are_counted_together_and_apart_from_a_density(
    kind: Any, share: float, agrees: bool
) -> None:
    """n = 10,000 at each of 8 points. A sound one was refused, and a narrow crowd was kept."""
    rows = own_cases({"mine": lambda query, privacy: kind(query, privacy, share)})[:1]
    (found,) = compare(rows, samples=20_000, seed=3)
    assert found.agrees == agrees, found
    assert {*found.reasons} <= {"single values are too rare there"}


def bit_of_another_answer(prepared: Sequence[Any], source: RandomSource) -> list[int]:
    age, *others = FORM.release(prepared, source)
    return [age - age % 2 + int(prepared[2]), *others]


@pytest.mark.deep(keep=0, rest=2)
@pytest.mark.parametrize(
    ("release", "keeps"), [(FORM.release, True), (bit_of_another_answer, False)]
)
def test_a_bit_beside_options_is_seen(release: Any, keeps: bool) -> None:
    """5,000 releases of forms: the age's last bit is the answer to another question."""
    (row,) = forms()
    (verdict,) = audit([replace(row, mechanism=FormReport(release=release))], samples=20_000)
    assert verdict.keeps == keeps
