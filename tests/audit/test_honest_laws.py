"""Test that an audit refuses no honest law that has jumps, atoms that move, or another unit.

α = 1e-6 for each call; seeds are fixed. Each was refused, and has a faulty one beside it.
"""

from dataclasses import dataclass, replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.stats import laplace

from geoveil.audit import audit, own_cases
from geoveil.audit.agreement import _LEVELS, _settled, _shares, compare
from geoveil.audit.counts import Counts
from geoveil.audit.draws import draws_of
from geoveil.audit.exact import Masses
from geoveil.gp import LocalPrivacy, RandomizedResponse, UnsupportedError
from tests.audit.test_everywhere import Array


class AnswerItself:
    """Laplace noise, but the answer itself with a probability of δ; draws are `more` times that."""

    def __init__(self, query: Any, privacy: Any, more: float = 1.0, delta: float = 0.1) -> None:
        self.query, self.privacy, self.more = query, replace(privacy, delta=delta), more
        self.noise = laplace(scale=query.lipschitz / privacy.rate)

    def simulate(self, x: Any, rng: np.random.Generator) -> Array:
        value = self.query.value(x)
        noise = self.noise.rvs(value.shape, random_state=rng)
        return np.where(rng.random(value.shape) < 0.1 * self.more, 0.0, noise) + value

    def log_density(self, y: Any, x: Any) -> Array:
        noise = y - self.query.value(x)
        return np.where(noise == 0, np.log(0.1), np.log(0.9) + self.noise.logpdf(noise))


@pytest.mark.deep(keep=0, rest=2)
@pytest.mark.parametrize(("more", "agrees"), [(1.0, True), (2.0, False)])
def test_with_a_slack_each_point_may_have_atoms_of_its_own(more: float, agrees: bool) -> None:
    """n = 1,000 at each of 8 points. Atoms of one point have a density at the others."""
    rows = own_cases({"mine": lambda query, privacy: AnswerItself(query, privacy, more)})
    (found,) = compare(rows[:1], samples=2_000, seed=3)
    assert found.agrees == agrees, found


@pytest.mark.deep(keep=0, rest=2)
@pytest.mark.parametrize(("delta", "keeps"), [(0.1, True), (0.099, False)])
def test_with_a_slack_the_probability_of_the_answer_itself_is_seen(
    delta: float, keeps: bool
) -> None:
    """It used no ε, as single values of some points were taken for those of all."""
    made = {"mine": lambda query, privacy: AnswerItself(query, privacy, delta=delta)}
    (row, *_) = own_cases(made)
    (verdict,) = audit([row], samples=1_000)
    assert verdict.keeps == keeps
    assert verdict.exact.fraction > 0.99


@dataclass(frozen=True)
class Uniform:
    """x plus uniform noise within 1."""

    def log_density(self, y: Any, x: Any) -> Array:
        with np.errstate(divide="ignore"):
            return np.log((np.abs(np.asarray(y) - x) <= 1) / 2)


def test_the_error_of_a_sum_over_outputs_allows_for_ends_of_a_law() -> None:
    """Laws of x and x + d differ by d/2 at any ε; sums over outputs had more than that."""
    rng = np.random.default_rng(4)
    more = []
    for x, d in rng.uniform(0, 0.5, (200, 2)):
        masses = Masses(Uniform(), np.linspace(-2, 3, 1001) + rng.uniform(0, 0.005))
        more.append(masses.delta(x, x + d, 10.0) - 2 * masses.missed(x, x + d) - d / 2)
    assert max(more) <= 1e-12
    assert min(more) > -0.03


HALF, LIKELY = 0.0028, np.exp(7.0)
"""Half the width of a square wave, and how many times as likely its numbers are as others."""


class SquareWave:
    """Numbers from −HALF to 1 + HALF, of which those near an answer are LIKELY."""

    def log_density(self, y: Any, x: Any) -> Array:
        logs = np.where(np.abs(y - x) < HALF, np.log(LIKELY), 0.0)
        return np.where((y < -HALF) | (y > 1 + HALF), -np.inf, logs - np.log1p(2 * HALF * LIKELY))


def below(x: float, likely: float) -> tuple[Array, Array]:
    """Return the knots of the distribution function of a wave, and its values there."""
    parts = np.cumsum([0.0, x, 2 * HALF * likely, 1 - x])
    return np.array([-HALF, x - HALF, x + HALF, 1 + HALF]), parts / parts[-1]


def test_shares_of_a_density_with_jumps_lie_within_their_bounds() -> None:
    """50,000 reports: sums with an error of 8 standard deviations were taken for those of the law.

    Others were not compared. The bounds exclude a wave that is a fifth less likely.
    """
    rng, true, false = np.random.default_rng(1), [], []
    for x in rng.uniform(0.01, 0.99, 12):
        knots, values = below(x, LIKELY)
        reports = np.interp(rng.random(50_000), values, knots)
        edges = np.quantile(reports, _LEVELS)
        shares = partial(_shares, SimpleNamespace(mechanism=SquareWave()), at=np.array([[x]]))
        settled = _settled(reports, edges, shares, 0.0)
        assert settled is not None
        stated, again = (np.cumsum(parts) for parts in settled[:2])
        least, most = Counts.of(1, stated, stated, again, min(settled[2], 3e-4)).shares()
        for likely, off in (LIKELY, true), (0.8 * LIKELY, false):
            share = np.cumsum(np.diff(np.interp(edges, *below(x, likely))))
            error = np.sqrt(share * (1 - share) / 50_000)
            off.append((np.maximum(least - share, share - most) / error).max())
    assert max(true) < 0.5
    assert min(false) > 8


class InDollars:
    """Laplace noise in the unit of the value, whose log-density is that of scipy."""

    def __init__(self, query: Any, privacy: Any, part: float) -> None:
        if query.dimension == 2:
            raise UnsupportedError("a line only")
        self.query, self.privacy, self.scale = query, privacy, part / privacy.rate

    def simulate(self, x: Any, rng: np.random.Generator) -> Array:
        return np.asarray(laplace.rvs(x, self.scale, random_state=rng))

    def log_density(self, y: Any, x: Any) -> Array:
        return np.asarray(laplace.logpdf(y, x, self.scale))


@pytest.mark.parametrize(("part", "keeps"), [(1.0, True), (0.98, False)])
def test_the_logarithm_of_a_density_that_underflows_may_be_of_another_unit(
    part: float, keeps: bool
) -> None:
    """The last bits of the least doubles, less the log of the scale, were a loss of 7,000 ε."""
    rows = own_cases({"mine": lambda query, privacy: InDollars(query, privacy, part)})
    (verdict,) = audit(rows[:1], samples=1_000)
    assert verdict.keeps == keeps, verdict


class MoreOften(RandomizedResponse):
    """Its simulations are 1 more often than its releases."""

    def simulate(self, x: Any, rng: Any) -> Any:
        return np.where(rng.random(len(x)) < 0.5, 1.0, super().simulate(x, rng))


@pytest.mark.deep(keep=1, rest=1)
@pytest.mark.parametrize(("kind", "agrees"), [(RandomizedResponse, True), (MoreOften, False)])
def test_simulations_are_the_nearest_floats_of_released_integers(kind: Any, agrees: bool) -> None:
    """1,000 releases. At ε = 25, 1 is 2⁶¹ steps, and the integer of the float is another."""
    rows = own_cases({"mine": lambda query, privacy: kind(query, LocalPrivacy(25.0))})
    found = draws_of(rows[0], 1_000, 1, 1e-6)
    assert found is not None
    assert found.agree == agrees, found
