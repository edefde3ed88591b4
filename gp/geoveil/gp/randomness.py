"""Random bits from the system, or from a seed for experiments, and lazily read uniforms."""

from __future__ import annotations

from abc import ABC, abstractmethod
from random import SystemRandom
from typing import ClassVar

from geoveil.gp import validation
from geoveil.gp.digests import sha256
from geoveil.gp.errors import ParameterError
from geoveil.gp.not_private import warn_caller

_SYSTEM = SystemRandom()


class RandomSource(ABC):
    """A stream of independent fair bits."""

    is_secure: ClassVar[bool] = False
    """Whether nobody can predict the bits; the client refuses a source for which it is false."""

    @abstractmethod
    def bits(self, count: int) -> int:
        """Return the next `count` bits as an integer, the first bit drawn the most significant."""

    def below(self, bound: int) -> int:
        """Return a uniform integer in [0, bound), exactly: draws again instead of folding."""
        validation.require_count("bound", bound)
        count = (bound - 1).bit_length()
        while (value := self.bits(count)) >= bound:
            pass
        return value


class SystemSource(RandomSource):
    """The operating system's generator."""

    is_secure: ClassVar[bool] = True

    def bits(self, count: int) -> int:
        validation.require_count("count", count, 0)
        return _SYSTEM.getrandbits(count)


def chosen_source(source: RandomSource | None) -> RandomSource:
    """Return the given source, or the system's for None; warn once if its bits can be predicted."""
    if source is None:
        return SystemSource()
    if not isinstance(source, RandomSource):
        raise ParameterError("source", source, "a RandomSource, or None for the system's")
    if not source.is_secure:
        warn_caller(
            "bits that can be predicted hide nothing: whoever knows them reads the value from the"
            " release. A source that is not secure, such as SeededSource, is for tests; leave it"
            " out where people's values are"
        )
    return source


class SeededSource(RandomSource):
    """Reproducible bits for tests: SHA-256 in counter mode. Never for a release to anyone.

    A release with it warns once per process (`NotPrivateWarning`).

    Example:
        >>> SeededSource(1).bits(16) == SeededSource(1).bits(16)
        True
    """

    def __init__(self, seed: int) -> None:
        self._seed = int(validation.real("seed", seed)) if not isinstance(seed, int) else seed
        self._counter = 0
        self._pool = 0
        self._left = 0

    def bits(self, count: int) -> int:
        validation.require_count("count", count, 0)
        while self._left < count:
            block = sha256(f"{self._seed}/{self._counter}".encode()).digest()
            self._pool = (self._pool << 256) | int.from_bytes(block)
            self._left += 256
            self._counter += 1
        self._left -= count
        value = self._pool >> self._left
        self._pool &= (1 << self._left) - 1
        return value


class LazyUniform:
    """A uniform number U in (0, 1) with its leading bits drawn.

    U lies in [numerator, numerator + 1] / 2^count. The first 128 bits are `first`, or are drawn at
    once, before the holder reads a private value.
    """

    FIRST = 128
    MORE = 64

    def __init__(self, source: RandomSource, first: int | None = None) -> None:
        self._source = source
        self.count = self.FIRST
        self.numerator = source.bits(self.FIRST) if first is None else first

    def refine(self) -> None:
        """Draw more bits, and keep the earlier ones."""
        self.numerator = (self.numerator << self.MORE) | self._source.bits(self.MORE)
        self.count += self.MORE

    def __repr__(self) -> str:
        return f"LazyUniform({self.count} bits, not shown)"
