"""An index of ids that may be stored, with their pages, at eight bytes of memory per report.

A fingerprint has 32 bits, hashed from an id with a secret of the process so that nobody can choose
collisions. A hit must be checked on its page; an id without a hit is not stored.
"""

import secrets
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from geoveil.campaign import REPORT_ID_BYTES

_WORDS = REPORT_ID_BYTES // 4
_UPPER = 0xFFFFFFFF00000000
_RUNS = 8
"""The number of runs of one level that merge into one run of the next."""
_LARGEST = 1 << 21
"""The most entries of a run, since merging takes memory and time."""
_LEAST_BITS, _MOST_BITS = 16, 27
"""The least and greatest logarithm of the filter's size in bits."""
_BITS_PER_ENTRY = 32
"""The least while the filter can grow, so that new ids seldom need a search."""
_YOUNG = 1024
"""The entries up to which new ones join a run, which is cheaper than searching one more run."""
_PAGES_ADDED = 1024


class IdIndex:
    """Fingerprints and pages of a campaign's ids, in sorted runs that merge as they grow."""

    def __init__(self) -> None:
        self.reports = 0
        """The number of indexed reports: all with smaller numbers are in the index."""
        salt = secrets.token_bytes(8 * (_WORDS + 1))
        self._salt = np.frombuffer(salt, np.uint64)
        self._levels: list[list[NDArray[np.uint64]]] = []
        self._filter = _Filter(_LEAST_BITS)
        self._entries = 0

    def add(self, pages: Iterable[tuple[int, bytes]], reports: int) -> None:
        """Add pages lazily: the number of each page's first report, and its joined ids.

        It skips indexed ids; afterwards `reports` ids are indexed.
        """
        rest = iter(pages)
        while added := list(islice(rest, _PAGES_ADDED)):
            self.add_new([self._unknown(*page) for page in added])
        self.reports = reports

    def add_new(self, pages: Sequence[tuple[int, bytes]]) -> None:
        """Add pages of new ids, each with the number of its first report."""
        firsts, ids = zip(*pages, strict=True)
        counts = [len(of_page) // REPORT_ID_BYTES for of_page in ids]
        run = self._fingerprints(b"".join(ids))
        run |= np.repeat(np.array(firsts, np.uint64), counts)
        self._add_run(run)

    def find(self, ids: bytes) -> list[tuple[int, int]]:
        """Return (position in `ids`, page) for each page that may hold an id."""
        wanted = self._fingerprints(ids)
        order = np.flatnonzero(self._filter.may_hold(wanted))
        if not len(order):
            return []
        order = order[np.argsort(wanted[order])]
        wanted = wanted[order]
        places: list[tuple[int, int]] = []
        for run in self._runs():
            left = np.searchsorted(run, wanted)
            positions = np.arange(len(wanted))
            while len(left):
                inside = left < len(run)
                left, positions = left[inside], positions[inside]
                same = (run[left] ^ wanted[positions]) >> np.uint64(32) == 0
                left, positions = left[same], positions[same]
                pages = run[left] & np.uint64(0xFFFFFFFF)
                places += zip(order[positions].tolist(), pages.tolist(), strict=True)
                left = left + 1
        return places

    def _runs(self) -> Iterator[NDArray[np.uint64]]:
        return (run for level in self._levels for run in level)

    def _unknown(self, first: int, ids: bytes) -> tuple[int, bytes]:
        if first >= self.reports:
            return first, ids
        stored = {position for position, page in self.find(ids) if page == first}
        places = range(0, len(ids), REPORT_ID_BYTES)
        kept = [ids[at : at + REPORT_ID_BYTES] for i, at in enumerate(places) if i not in stored]
        return first, b"".join(kept)

    def _fingerprints(self, ids: bytes) -> NDArray[np.uint64]:
        """Return each id's fingerprint in the upper half, by multilinear hashing.

        It is strongly universal [D. Lemire, O. Kaser, "Strongly Universal String Hashing is Fast",
        2014].
        """
        words = np.frombuffer(ids, np.uint32).reshape(-1, _WORDS).astype(np.uint64)
        mixed: NDArray[np.uint64] = words @ self._salt[1:] + self._salt[0]
        return mixed & np.uint64(_UPPER)

    def _add_run(self, run: NDArray[np.uint64]) -> None:
        self._entries += len(run)
        bits = self._filter.bits
        while bits < _MOST_BITS and self._entries * _BITS_PER_ENTRY > 1 << bits:
            bits += 1
        if bits == self._filter.bits:
            self._filter.add(run)
        else:
            self._filter = _Filter(bits)
            for entries in (run, *self._runs()):
                self._filter.add(entries)
        youngest = self._levels[0] if self._levels else []
        if youngest and len(youngest[-1]) < _YOUNG:
            run = np.concatenate([youngest.pop(), run])
        run.sort()
        self._append(run, 0)

    def _append(self, run: NDArray[np.uint64], level: int) -> None:
        if level == len(self._levels):
            self._levels.append([])
        runs = self._levels[level]
        runs.append(run)
        if len(runs) >= _RUNS and sum(map(len, runs[-_RUNS:])) <= _LARGEST:
            merged = np.concatenate(runs[-_RUNS:])
            merged.sort()
            del runs[-_RUNS:]
            self._append(merged, level + 1)


class _Filter:
    """A bit for each prefix of a fingerprint, which spares most new ids a search."""

    def __init__(self, bits: int) -> None:
        self.bits = bits
        self._shift = np.uint64(64 - bits)
        self._set = np.zeros(1 << bits >> 3, np.uint8)

    def add(self, fingerprints: NDArray[np.uint64]) -> None:
        at = fingerprints >> self._shift
        np.bitwise_or.at(self._set, at >> np.uint64(3), self._mask(at))

    def may_hold(self, fingerprints: NDArray[np.uint64]) -> NDArray[np.bool_]:
        at = fingerprints >> self._shift
        held: NDArray[np.bool_] = (self._set[at >> np.uint64(3)] & self._mask(at)) != 0
        return held

    @staticmethod
    def _mask(at: NDArray[np.uint64]) -> NDArray[np.uint8]:
        return np.left_shift(np.uint8(1), (at & np.uint64(7)).astype(np.uint8))
