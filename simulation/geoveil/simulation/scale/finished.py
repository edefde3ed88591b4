"""A small file of finished groups of blocks and their sums, from which a run goes on.

One line of JSON each, flushed to the disk as it comes; the first names the work. A line that a
crash cut short is cut off. The sums are those of perturbed reports, so nothing in it is private.

With N devices at c seconds each, G groups that are handed out at d seconds each, and W workers, the
sums of some work take

    t(W) = start + max(N·c / W, G·d).

`python -m benchmarks scale` measures these. On two shared cores: c = 77 ns of processor time, with
the draw of a person by weight; d = 2.0 to 2.6 ms; start = 60 to 80 ms; two workers spent 94 to 98 %
of their time computing. 10⁹ devices took 86 s of processor time and 0.31 GB for all processes
together. Extrapolated, not measured: on 100 workers of that kind 10⁹ devices take 1 to 2 seconds
(their 120 groups do not fill the workers evenly) and 10¹¹ devices 80 seconds at 99 %. Groups of the
default size keep a scheduler busy from about 250 workers on; larger ones raise that.
"""

import fcntl
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any

from geoveil.gp import GeoVeilError, validation
from geoveil.gp.estimation import Accumulator
from geoveil.simulation.computing import Computer, in_this_process
from geoveil.simulation.scale.work import BlockedWork, Sums, add, groups, of_blocks

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


GROUP = 32
"""Blocks per group at most, by default: 0.65 s of work, against 2 or 3 ms to hand it out."""


def total(
    work: BlockedWork,
    compute: Computer = in_this_process,
    *,
    group_size: int | None = None,
    path: Path | None = None,
    on_progress: Callable[[int, int], None] = lambda done, blocks: None,
) -> Sums:
    """Return the exact sums of all blocks: the same bits, however they are computed.

    Args:
        work: whose blocks to add.
        compute: in this process, or what `computer` yields.
        group_size: blocks that are computed together, > 0. By default a hundredth of all, so that
            little is lost when a run is interrupted, but at most 32.
        path: file of finished groups; a run that finds it goes on from there.
        on_progress: called with the number of blocks done, and of all, after each group.

    Raises:
        FinishedFileError: if the file is of other work, damaged or in use.
        ClusterError: if the cluster fails.

    Example:
        >>> from geoveil.simulation import household_incomes
        >>> from geoveil.simulation.scale import simulated
        >>> from geoveil.simulation.demo import experiments
        >>> work = simulated(experiments()[0].campaign, household_incomes(), 10_000, seed=1)
        >>> [sums.n for sums in total(work)]
        [10000]
    """
    if group_size is None:
        group_size = min(GROUP, max(1, work.blocks // 100))
    validation.require_count("group_size", group_size)
    with finished(work, path) as done:
        on_progress(done.count, work.blocks)
        for blocks, sums in compute(partial(of_blocks, work), groups(done.missing(), group_size)):
            done.add(blocks, sums)
            on_progress(done.count, work.blocks)
        return done.sums
