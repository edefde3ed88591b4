"""Recorded bits, and a device's answers from them."""

import hashlib
import warnings
from collections.abc import Sequence
from typing import Any

from geoveil.campaign import Campaign
from geoveil.gp import RandomSource


class Tape(RandomSource):
    """Recorded bits, most significant first, followed by seeded ones."""

    def __init__(self, seed: str, given: str = "") -> None:
        self._seed, self._blocks = seed, 0
        self._left, self._many = int(given or "0", 2), len(given)
        self._drawn, self.drawn = 0, 0

    def bits(self, count: int) -> int:
        while self._many < count:
            block = hashlib.sha256(f"{self._seed}/{self._blocks}".encode()).digest()
            self._left, self._many = self._left << 256 | int.from_bytes(block), self._many + 256
            self._blocks += 1
        self._many -= count
        bits = self._left >> self._many
        self._left &= (1 << self._many) - 1
        self._drawn, self.drawn = self._drawn << count | bits, self.drawn + count
        return bits

    @property
    def hexadecimal(self) -> str:
        """The drawn bits, padded with zeros to whole bytes."""
        filled = -self.drawn % 8
        return (self._drawn << filled).to_bytes((self.drawn + filled) // 8).hex()


def answers_of(
    campaign: Campaign, point: Sequence[float], source: RandomSource
) -> tuple[str, list[list[Any]]]:
    """Return the id and the answers of one report: what a device does with a point."""
    columns = campaign.draw_columns(source)
    name = source.bits(128)
    given: Any = point[0] if campaign.dimension == 1 else tuple(point)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        released = campaign.release(given, columns, source)
    pairs = zip(columns, released, strict=True)
    return f"{name:032x}", [[column, str(value)] for column, value in pairs]


def tuple_of(campaign: Campaign, point: Sequence[float], tape: Tape) -> dict[str, Any]:
    """Return a point and bits with the answers, as they are published."""
    name, answers = answers_of(campaign, point, tape)
    return {
        "point": list(point),
        "bits": tape.hexadecimal,
        "id": name,
        "answers": answers,
    }
