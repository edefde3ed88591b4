"""The oracles, and bits that a test chooses."""

import importlib
import os
import random
import signal
import zlib
from collections.abc import Generator
from types import ModuleType

import pytest

from geoveil.gp import RandomSource, randomness

# A shell makes jobs in the background ignore Ctrl-C, and so would all that tests start there.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collect_file() -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Look for tests alone: no docstring here has an example, and the search takes a second."""
    found = yield
    return [part for part in found if type(part) is pytest.Module]


def _use_the_system() -> None:
    randomness._SYSTEM = random.SystemRandom()


# Two lives of a device would draw alike, and a second draw would not show.
os.register_at_fork(after_in_child=_use_the_system)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Seed the system's bits by the test's file, so that no statistical test fails by chance."""
    file = item.nodeid.partition("::")[0]
    randomness._SYSTEM = random.Random(zlib.crc32(file.encode()))  # type: ignore[assignment]


@pytest.fixture(scope="session")
def oracles() -> ModuleType:
    """The module of oracles."""
    return importlib.import_module("tests.oracles")


class FixedBits(RandomSource):
    """Bits that the test chose, the first one the most significant; says how many were drawn."""

    def __init__(self, value: int, count: int) -> None:
        assert 0 <= value < 1 << count
        self.value = value
        self.count = count
        self.draws: list[int] = []

    @property
    def drawn(self) -> int:
        """Number of bits drawn so far."""
        return sum(self.draws)

    def bits(self, count: int) -> int:
        left = self.count - self.drawn - count
        assert left >= 0, "the release wanted more bits than the test supplied"
        self.draws.append(count)
        return (self.value >> left) & ((1 << count) - 1)


@pytest.fixture(scope="session")
def fixed_bits() -> type[FixedBits]:
    """The class FixedBits."""
    return FixedBits
