"""Test that a release with predictable bits warns its caller, once."""

import warnings
from collections.abc import Callable

import pytest

from geoveil.audit import attacks
from geoveil.gp import (
    GeoPrivacy,
    LipschitzMechanism,
    NotPrivateWarning,
    PlanarLaplace,
    RandomSource,
    SeededSource,
    SystemSource,
    Threshold,
    VectorSmoothMechanism,
    not_private,
)
from geoveil.selection import PermuteAndFlip, ReportNoisyMax

QUERY, PRIVACY = Threshold(0.0, 1.0), GeoPrivacy(1.0, per=1.0)
RELEASES: dict[str, Callable[[RandomSource], object]] = {
    "scalar": lambda bits: LipschitzMechanism(QUERY, PRIVACY).release(0.0, bits),
    "vector": lambda bits: VectorSmoothMechanism([QUERY], PRIVACY).release(0.0, bits),
    "planar": lambda bits: PlanarLaplace(PRIVACY, 1).release(0.0, bits),
    "selection": lambda bits: PermuteAndFlip(1.0, 1.0).select([1.0, 2.0], bits),
    "many": lambda bits: PermuteAndFlip(1.0, 1.0).select_many([1.0, 2.0], 3, bits),
    "gap": lambda bits: ReportNoisyMax(1.0, 1.0).select([1.0, 2.0], bits, gap=True),
}


class Dice(RandomSource):
    def bits(self, count: int) -> int:
        return (1 << count) // 3


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch):
    monkeypatch.setattr(not_private, "_said", set())


@pytest.mark.parametrize("source", [SeededSource(1), Dice()], ids=["seeded", "own"])
@pytest.mark.parametrize("name", RELEASES)
def test_it_warns_once_and_blames_the_caller(name, source):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for release in (RELEASES[name], *RELEASES.values()):
            release(source)
    (warning,) = found
    assert warning.category is NotPrivateWarning
    assert warning.filename == __file__
    assert "SeededSource, is for tests" in str(warning.message)


@pytest.mark.deep
def test_bits_of_the_system_and_the_library_s_own_experiments_are_silent():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for release in RELEASES.values():
            release(SystemSource())
        attacks.attack_outputs(reachable_samples=20, spacing_samples=20)
    assert not_private._said == set(), "the warning is not used up"
