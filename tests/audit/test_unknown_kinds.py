"""Test mechanisms of which only the contract is known; the control of each is without a fault."""

import math
from typing import Any

import numpy as np
import pytest

from geoveil.audit import audit, own_cases
from geoveil.audit.catalogue import INCOME, STEP
from geoveil.audit.draws import draws_of
from geoveil.gp import GeoPrivacy, LipschitzMechanism, SeededSource
from geoveil.gp.mechanisms.base import QueryMechanism
from tests.audit.test_everywhere import Array


class OfNoKnownKind(QueryMechanism):
    """f + Laplace noise, of which only the contract is known: its range is that of 64 bits."""

    unbiased = True

    def __init__(self, query: Any, privacy: GeoPrivacy) -> None:
        super().__init__(query, privacy, step=None)
        self.sound = LipschitzMechanism(query, privacy)
        self._choose_step(None)

    def law(self) -> Any:
        return self.sound.law()

    def _ideal(self, s: Any, u: Any, ops: Any) -> Any:
        return self.sound._ideal(s, u, ops)

    def _simulate(self, s: Array, rng: np.random.Generator) -> Array:
        return self.sound._simulate(s, rng)

    def _variance(self, s: Array) -> Array:
        return self.sound._variance(s)

    def _log_density(self, y: Array, s: Array) -> Array:
        return self.sound._log_density(y, s)

    def _spread(self) -> float:
        return self.sound.largest_scale

    def _default_step_exponent(self) -> int:
        return -20


def test_outputs_of_a_mechanism_that_knows_no_range_lie_near_its_reports():
    """At 2^63 steps densities were rounding, and the honest mechanism was refused at 46 ε."""
    cases = own_cases({"mine": OfNoKnownKind})
    for verdict in audit(cases, samples=1_000, seed=3):
        assert verdict.keeps, verdict
        assert verdict.exact.fraction > 0.99


class Bare(OfNoKnownKind):
    """What devices call returns the answer."""

    def release(self, x: Any, source: Any = None) -> Any:
        return int(np.rint(float(self.query.value(np.asarray(x))) / self.step))


class NowAndThenBare(OfNoKnownKind):
    """One report in 100 is the answer."""

    def release(self, x: Any, source: Any = None) -> Any:
        if source and source.bits(32) < 2**32 // 100:
            return int(np.rint(float(self.query.value(np.asarray(x))) / self.step))
        return super().release(x, source)


class OnAGrid(OfNoKnownKind):
    """Its noise is 64 steps wide."""

    def _default_step_exponent(self) -> int:
        return math.floor(math.log2(self.sound.largest_scale / 45))


class NowAndThenBareOnAGrid(OnAGrid, NowAndThenBare):
    """So is that of one whose answer shows in one report of 100."""


class OfOneSeed(OfNoKnownKind):
    """All reports have the same noise."""

    def release(self, x: Any, source: Any = None) -> Any:
        return super().release(x, SeededSource(5))


class OfFewSeeds(OfNoKnownKind):
    """There are 128 reports of a person."""

    def release(self, x: Any, source: Any = None) -> Any:
        return super().release(x, SeededSource(source.bits(7) if source else 5))


class Quieter(OfNoKnownKind):
    """Half of the noise is left out."""

    def release(self, x: Any, source: Any = None) -> Any:
        answer = int(np.rint(float(self.query.value(np.asarray(x))) / self.step))
        return (super().release(x, source) + answer) // 2


class NowAndThenFar(OfNoKnownKind):
    """One report in 100 lies twelve scales above."""

    def release(self, x: Any, source: Any = None) -> Any:
        far = round(12 * self.sound.largest_scale / self.step)
        released = super().release(x, source)
        return released + far if released % 100 == 0 else released


class NowAndThenNear(OfNoKnownKind):
    """One report in 50 has a hundredth of its noise."""

    def release(self, x: Any, source: Any = None) -> Any:
        answer = int(np.rint(float(self.query.value(np.asarray(x))) / self.step))
        released = super().release(x, source)
        near = answer + (released - answer) // 100
        return near if released % 50 == 0 else released


@pytest.mark.deep(rest=4)
@pytest.mark.parametrize(
    ("kind", "releases", "agrees"),
    [
        (OfNoKnownKind, 8_000, True),
        (Bare, 2_000, False),
        (NowAndThenBare, 8_000, False),
        (OnAGrid, 30_000, True),
        (NowAndThenBareOnAGrid, 30_000, False),
        (OfOneSeed, 2_000, False),
        (OfFewSeeds, 8_000, False),
        (Quieter, 30_000, False),
        (NowAndThenFar, 30_000, False),
        (NowAndThenNear, 50_000, False),
    ],
)
def test_releases_without_a_known_law_are_compared_with_what_is_simulated(kind, releases, agrees):
    """α = 1e-6; the first is the control."""
    case = STEP.case(kind(STEP.query, INCOME), [0.0, 1.0])
    found = draws_of(case, releases, 6, 1e-6)
    assert found is not None
    assert found.agree == agrees, found
