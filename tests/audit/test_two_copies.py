"""Test that two copies of a mechanism may not draw alike with the system's bits."""

from collections import defaultdict
from itertools import product
from typing import Any

import numpy as np
import pytest

from geoveil.audit.catalogue import INCOME, RAMP
from geoveil.audit.dependence import chance_of_repeats
from geoveil.audit.draws import draws_of
from geoveil.gp import LipschitzMechanism, SeededSource, SystemSource
from tests.audit.test_unknown_kinds import OfNoKnownKind


@pytest.mark.parametrize("share", [0.02, 0.3, 0.5])
def test_repeats_are_as_improbable_as_stated(share: float) -> None:
    """All 8⁴ series of four people, the last two of whom answer oppositely."""
    shares = (share, share, 1 - share, 1 - share)
    chances: dict[float, float] = defaultdict(float)
    for answers in product(product((0, 1), repeat=3), repeat=4):
        series = np.array(answers).T
        odds = np.where(series, shares, np.subtract(1, shares)).prod()
        chances[chance_of_repeats(*series)] += float(odds)
    assert sum(chances.values()) == pytest.approx(1)
    assert min(chances) == 1 / 16
    for level in chances:
        assert sum(odds for chance, odds in chances.items() if chance <= level) <= level + 1e-12


def of_one_seed(kind: Any) -> Any:
    class OfOneSeed(kind):  # type: ignore[misc]
        """With the system's source it has numbers of its own, the same in each process."""

        def release(self, x: Any, source: Any = None) -> Any:
            if isinstance(source, SystemSource):
                source = self.__dict__.setdefault("numbers", SeededSource(7))
            return super().release(x, source)

    return OfOneSeed


class Own(LipschitzMechanism):
    """One's own, and sound."""


@pytest.mark.deep
@pytest.mark.parametrize("kind", [Own, OfNoKnownKind])
def test_a_seed_with_the_system_alone_is_seen(kind: Any) -> None:
    """4,000 releases of each, α = 1e-6; the sound one is the control."""
    for made, agrees in ((kind, True), (of_one_seed(kind), False)):
        found = draws_of(RAMP.case(made(RAMP.query, INCOME), [0.0, 1.0]), 4_000, 6, 1e-6)
        assert found is not None
        assert found.agree == agrees, found
        assert agrees or "a new copy repeats" in found.difference
