"""Test that an audit sees noise that is rounded before it is added, to any spacing."""

import numpy as np
import pytest

from geoveil.audit import digits
from geoveil.audit.catalogue import INCOME, RAMP
from geoveil.audit.draws import draws_of
from geoveil.audit.laws import Placed
from geoveil.gp import LipschitzMechanism
from tests.audit.test_draws import Broken, integers

SOUND = LipschitzMechanism(RAMP.query, INCOME)


def drawn(points: int, width: int, spacing: float, share: float, seed: int):
    """2,000 integers of equal odds at each point; a share of them rounded beside an answer."""
    rng = np.random.default_rng(seed)
    reports = []
    for _ in range(points):
        k, answer = rng.integers(0, width, 2_000), rng.integers(0, width)
        rounded = np.rint(answer + spacing * np.rint((k - answer) / spacing)).astype(np.int64)
        reports.append(np.where(rng.random(len(k)) < share, rounded, k))
    odds = np.full(2_000, 1 / width)
    equal = (1 - odds)[:, None]
    return reports, [Placed(equal / 2, equal / 2, odds, odds)] * points


@pytest.fixture
def few_distances(monkeypatch):
    monkeypatch.setattr(digits, "_CLOSE", 1 << 14)


@pytest.mark.parametrize(("spacing", "share"), [(4.7, 1.0), (17.586, 0.8), (997.3, 0.8)])
def test_distances_that_are_multiples_of_no_whole_number_are_seen(few_distances, spacing, share):
    """α = 1e-8, n = 40,000; rounding in none of the reports is the control."""
    width = 2**29
    found = digits._spaced(*drawn(20, width, spacing, share, 1), 1e-8)
    # A wave as long as the spacing, of all that fit the distances.
    assert float(found.rsplit(" ", 1)[1]) == pytest.approx(spacing, rel=2 * spacing / 2**14)
    assert not digits._spaced(*drawn(20, width, spacing, 0.0, 1), 1e-8)


def test_independent_integers_are_refused_as_rarely_as_stated(few_distances):
    """300 series of 10,000, each refused with a probability of at most 0.1 (+ 4.2 errors)."""
    found = [bool(digits._spaced(*drawn(5, 2**27, 1.0, 0.0, seed), 0.1)) for seed in range(300)]
    assert sum(found) <= 30 + 4.2 * 27**0.5


@pytest.mark.deep
@pytest.mark.parametrize("decimals", [7, 9, 11])
def test_an_answer_plus_rounded_noise_is_refused(decimals, monkeypatch):
    """50,000 releases, α = 1e-6; without a look at distances it is kept, which is the control."""

    def rounded(m, x, rng):
        answer = m.query.value(x)
        noise = np.round(integers(m, x, rng) * m.step - answer, decimals)
        return np.rint((answer + noise) / m.step).astype(np.int64)

    row = RAMP.case(Broken(SOUND, rounded), [0.0, 1.0])
    found = draws_of(row, 50_000, 60, 1e-6)
    assert found is not None
    assert "differ by multiples of" in found.difference, found
    monkeypatch.setattr(digits, "_spaced", lambda *_: "")
    assert draws_of(row, 50_000, 60, 1e-6).agree
