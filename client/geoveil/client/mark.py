"""How far a file had come, noted beside it, so that it can't fall back unseen.

What a process commits is in SQLite's log until the last connection closes. A log that is damaged
looks to SQLite like one whose last transactions never ended: it forgets them, without an error. So
does a file that is replaced by an older copy of it. The mark is what tells. It is only ever a lower
bound, so that one that is old, torn or missing does no harm.

A machine that loses its power may lose commits that were not flushed to the disk. The mark
therefore notes two numbers, all commits and those flushed, and in which run of the machine it was
made; only the second holds in another.
"""

import hashlib
import os
from functools import cache
from pathlib import Path

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_BYTES = 128
_CHECKSUM_DIGITS = 16


class Mark:
    """The mark of one file.

    Args:
        path: of the mark.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._flushed = 0

    def least(self) -> int:
        """Return how many commits the file has at least; 0 if nothing is known."""
        try:
            text = self.path.read_bytes()[:_BYTES].decode()
            commits, flushed, boot, checksum = text.split()
        except (OSError, ValueError):
            return 0
        if checksum != _checksum(f"{commits} {flushed} {boot}"):
            return 0
        self._flushed = int(flushed)
        return int(commits) if boot == _boot() else self._flushed

    def note(self, commits: int, *, flushed: bool = False) -> None:
        """Note that the file has so many commits, and whether they are flushed to the disk.

        Raises:
            OSError: if it can't be written.
        """
        if flushed:
            self._flushed = commits
        text = f"{commits} {self._flushed} {_boot()}"
        line = f"{text} {_checksum(text)}".ljust(_BYTES - 1) + "\n"
        descriptor = os.open(self.path, os.O_CREAT | os.O_WRONLY, 0o600)
        try:
            os.write(descriptor, line.encode())
        finally:
            os.close(descriptor)


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_CHECKSUM_DIGITS]


@cache
def _boot() -> str:
    """Return the name of this run of the machine; "none", equal to no other, if it has none."""
    try:
        return _BOOT.read_text("utf-8").strip()
    except (OSError, ValueError):
        return f"none-{os.urandom(8).hex()}"
