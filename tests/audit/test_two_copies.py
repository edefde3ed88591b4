"""Test that two copies of a mechanism may not draw alike, in any way to draw."""

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


@pytest.mark.parametrize("share", [0.02, 0.3])
def test_repeats_are_as_improbable_as_stated(share: float) -> None:
    """All 16³ pairs of pairs of series of three people, the last of whom answers oppositely."""
    shares = (share, share, 1 - share)
    chances: dict[float, float] = defaultdict(float)
    for answers in product(product((0, 1), repeat=4), repeat=3):
        a, b, c, d = series = np.array(answers).T
        odds = np.where(series, shares, np.subtract(1, shares)).prod()
        chances[chance_of_repeats((a, b), (c, d))] += float(odds)
    assert sum(chances.values()) == pytest.approx(1)
    assert min(chances) == 2 / 8
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


def of_one_seed_at_once(kind: Any) -> Any:
    class OfOneSeed(kind):  # type: ignore[misc]
        """Many reports at once have numbers of its own, whatever the source."""

        def release_many(self, x: Any, source: Any = None) -> Any:
            return super().release_many(x, SeededSource(7))

    return OfOneSeed


class Own(LipschitzMechanism):
    """One's own, and sound."""


@pytest.mark.deep
@pytest.mark.parametrize("kind", [Own, OfNoKnownKind])
def test_a_seed_in_one_way_to_draw_is_seen(kind: Any) -> None:
    """4,000 releases of each, α = 1e-6; the sound one is the control."""
    faulty = of_one_seed(kind), of_one_seed_at_once(kind)
    for made, agrees in ((kind, True), *((fault, False) for fault in faulty)):
        found = draws_of(RAMP.case(made(RAMP.query, INCOME), [0.0, 1.0]), 4_000, 60, 1e-6)
        assert found is not None
        assert found.agree == agrees, found
        assert agrees or "a new copy repeats" in found.difference
