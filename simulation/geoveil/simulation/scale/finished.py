"""A small file of finished groups of blocks and their sums, from which a run goes on.

One line of JSON each, flushed to the disk as it comes; the first names the work. A line that a
crash cut short is cut off. The sums are those of perturbed reports, so nothing in it is private.
"""

import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from geoveil.gp import GeoVeilError
from geoveil.gp.estimation import Accumulator
from geoveil.simulation.scale.work import BlockedWork, Sums, add

_FORMAT = "geoveil blocks 1"


class FinishedFileError(GeoVeilError):
    """A file of finished blocks belongs to other work, or is damaged, or in use."""


class Finished:
    """Which blocks are done, and their sums together."""

    def __init__(self, work: BlockedWork, file: IO[bytes] | None = None) -> None:
        self._work = work
        self._file = file
        self._parts: list[range] = []
        self.sums: Sums = [Accumulator()] * work.queries

    @property
    def count(self) -> int:
        """How many blocks are done."""
        return sum(map(len, self._parts))

    def missing(self) -> list[range]:
        """Return the blocks that are not done, in order."""
        gaps, start = [], 0
        for part in sorted(self._parts, key=lambda blocks: blocks.start):
            if part.start < start:
                raise ValueError  # counted twice
            if start < part.start:
                gaps.append(range(start, part.start))
            start = part.stop
        if start > self._work.blocks:
            raise ValueError
        return [*gaps, range(start, self._work.blocks)] if start < self._work.blocks else gaps

    def add(self, blocks: range, sums: Sequence[Accumulator]) -> None:
        """Count a group of blocks, and write it down first."""
        if self._file is not None:
            triples = [[s.n, str(s.total), str(s.total_of_squares)] for s in sums]
            record = {"first": blocks.start, "end": blocks.stop, "sums": triples}
            _append(self._file, record)
        self._parts.append(blocks)
        self.sums = add(self.sums, sums)

    def _read(self, record: dict[str, Any]) -> None:
        """Count a group that was written down."""
        blocks = range(record["first"], record["end"])
        sums = [Accumulator(n, int(total), int(squares)) for n, total, squares in record["sums"]]
        if not blocks:
            raise ValueError
        self.sums = add(self.sums, sums)
        self._parts.append(blocks)


@contextmanager
def finished(work: BlockedWork, path: Path | None) -> Iterator[Finished]:
    """Yield what is done of some work, and keep the file up to date within the block.

    Args:
        work: whose blocks they are.
        path: of the file, made if absent; None keeps nothing.

    Raises:
        FinishedFileError: if the file is of other work, damaged or in use by another run.
    """
    if path is None:
        yield Finished(work)
        return
    try:
        file = path.open("a+b")
    except OSError as error:
        raise FinishedFileError(f"{path}: {error.strerror}") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise FinishedFileError(f"{path}: another run is writing to this file") from None
        yield _load(work, path, file)


def _load(work: BlockedWork, path: Path, file: IO[bytes]) -> Finished:
    file.seek(0)
    data = file.read()
    whole = data[: data.rfind(b"\n") + 1]
    result = Finished(work, file)
    name = {"format": _FORMAT, "work": work.fingerprint()}
    if not data:
        _append(file, name)
        return result
    header = None
    try:
        header, *records = map(json.loads, whole.splitlines())
        if header == name:
            for record in records:
                result._read(record)
            result.missing()  # finds blocks that are there twice, or not of this work
    except (ValueError, KeyError, TypeError, GeoVeilError):
        raise FinishedFileError(f"{path}: damaged, or not a file of finished blocks") from None
    if header != name:
        raise FinishedFileError(
            f"{path}: not of this work (another campaign, population, number of devices, seed,"
            " export or version): name another file, or delete this one"
        )
    file.truncate(len(whole))
    return result


def _append(file: IO[bytes], record: dict[str, Any]) -> None:
    file.write(json.dumps(record).encode() + b"\n")
    file.flush()
    os.fsync(file.fileno())
