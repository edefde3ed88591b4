"""Test that the enumerated law of categories is the proved one, and that releases follow it."""

import math

import numpy as np
import pytest

from geoveil.audit import audit
from geoveil.audit.categories import CATEGORIES, Chain, categories
from geoveil.gp import KaryResponse, OrdinalResponse, SubsetResponse, UnaryEncoding

E = math.e


def chain(name: str) -> Chain:
    (case,) = categories(name)
    mechanism = case.mechanism
    assert isinstance(mechanism, Chain)
    return mechanism


def bits(of_options: np.ndarray) -> np.ndarray:
    """Return the law of a mask of independent bits, from the chances (values, options) to be on."""
    masks = np.arange(2 ** of_options.shape[1])[:, None] >> np.arange(of_options.shape[1]) & 1
    return np.where(masks, of_options[:, None], 1 - of_options[:, None]).prod(axis=2)


def stated(name: str) -> np.ndarray:
    """Return the laws of four options at ε = 1, in doubles."""
    apart = np.abs(np.subtract.outer(np.arange(4), np.arange(4)))
    q = 1 / (E + 1)
    if name == KaryResponse.__name__:
        return np.where(apart == 0, E, 1) / (E + 3)
    if name == OrdinalResponse.__name__:
        inner = np.exp(-1.0 * apart) / (1 + 1 / E)
        inner[:, 1:3] *= 1 - 1 / E
        return inner
    if name == UnaryEncoding.__name__:
        return bits(np.where(np.eye(4, dtype=bool), 0.5, q))
    return bits(np.where(np.tri(5, 4, -1, dtype=bool), 1 - q, q))


@pytest.mark.parametrize("name", CATEGORIES)
def test_the_enumerated_law_is_the_one_that_is_proved(name):
    """To 2^-29, what words of 32 bits leave open."""
    found = chain(name).law
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=2e-9)
    np.testing.assert_allclose(found, stated(name), rtol=1e-8)


class Stuck(SubsetResponse):
    """A generator that goes on with the word before, once in five times."""

    last = (0,)

    def _draw(self, source):
        drawn = super()._draw(source)
        type(self).last, before = drawn, self.last
        return before if source.bits(32) < 2**32 // 5 else drawn


@pytest.mark.deep(keep=0)
def test_draws_that_follow_from_others_are_refused():
    """25,000 releases, α = 1e-6. The law of one report is what it should be."""
    (case,) = categories("SubsetResponse")
    chain = case.mechanism
    assert isinstance(chain, Chain)
    chain.mechanism = Stuck(4, 1.0)
    (verdict,) = audit([case])
    assert verdict.draws is not None
    assert verdict.draws.releases > 24_000
    assert not verdict.keeps
    assert verdict.exact.fraction == pytest.approx(1, abs=1e-6)
    assert not verdict.draws.agree
