"""Test that an audit sees numbers that follow from later ones, as in a buffer emptied from its end.

Two series of 12,500 with fixed seeds: one chooses the multiple, the other decides.
"""

import numpy as np
import pytest
from numpy.typing import NDArray

from geoveil.audit.dependence import chance_of_closeness, likeliest_either_way


def turned(factor: int, seed: int) -> NDArray[np.float64]:
    """Each number is so many times the one after it, modulo 1, in a tenth of cases."""
    rng = np.random.default_rng(seed)
    u, follows = rng.random(12_500), rng.random(12_500) < 0.1
    for i in range(1, len(u)):
        u[i] = factor * u[i - 1] % 1 if follows[i] else u[i]
    return u[::-1, None]


@pytest.mark.parametrize("factor", [-37, 16_807, 65_000])
def test_multiples_of_later_numbers_are_seen(factor: int) -> None:
    """What looks at multiples of earlier numbers alone does not see them: the control."""
    first, second = turned(factor, 1), turned(factor, 2)
    both = likeliest_either_way(first, second, 1 << 17)
    chances = [chance_of_closeness(*follows.sides(tested)) for follows, tested in both]
    assert chances[0] > 1e-5
    assert chances[1] < 1e-20
