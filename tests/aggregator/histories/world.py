"""The world of a history: replicas of the server on one database, and their faults."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from pathlib import Path

from .campaigns import OPENS
from .operations import START


class Unreachable(Exception):  # noqa: N818 - it is what happened
    """The replica is dead: the request reached nobody."""


class Lost(Exception):  # noqa: N818 - it is what happened
    """The replica died before it answered."""


class Refused(Exception):  # noqa: N818 - it is what happened
    """The request got a status other than OK.

    Args:
        name: of the status, or DIGEST_MISMATCH.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class Watching(ABC):
    """A WatchEstimate that is under way."""

    @abstractmethod
    async def look(self) -> tuple[list[bytes], bool]:
        """Return what came since the last look, up to now, and whether there is more to come.

        Raises:
            Refused, Unreachable, Lost: as `World.call`.
        """

    @abstractmethod
    async def close(self) -> None:
        """Give it up."""


def copy_database(old: Path, new: Path) -> None:
    """Copy a SQLite file and its log; the index of the log is made anew by who opens it."""
    for suffix in ("", "-wal"):
        source = Path(f"{old}{suffix}")
        if source.exists():
            Path(f"{new}{suffix}").write_bytes(source.read_bytes())


class World(ABC):
    """Replicas of the server on one database; dead ones stay dead until they are restarted."""

    replicas: int
    looks_again = True
    """Whether watches look when they are told to, and not when a second has passed."""
    tag = ""
    """Ends the ids of campaigns, where histories share a database."""

    def __init__(self) -> None:
        self.now: list[datetime] = [OPENS + START] * self.replicas
        """The clock of each replica."""

    def set_clock(self, now: datetime, replica: int | None = None) -> None:
        """Let the clock of one replica, or of all, jump."""
        for i in range(self.replicas) if replica is None else [replica]:
            self.now[i] = now

    @abstractmethod
    async def start(self, replica: int) -> None:
        """Start a replica that was not needed before.

        Raises:
            Unreachable: if it is dead.
        """

    @abstractmethod
    async def call(self, replica: int, method: str, request: bytes) -> bytes:
        """Return the response to a request.

        Raises:
            Refused: with a status other than OK.
            Unreachable, Lost: see there.
        """

    @abstractmethod
    def converse(
        self, replica: int, method: str, requests: Sequence[bytes]
    ) -> AsyncIterator[bytes]:
        """Yield the responses of a method that streams, as they come.

        Raises:
            Refused, Unreachable, Lost: as `call`, at any time.
        """

    @abstractmethod
    def watch(self, replica: int, request: bytes) -> "Watching":
        """Begin to watch an estimate; nothing is asked before the first look."""

    @abstractmethod
    def troubled(self, replica: int) -> bool:
        """Return whether something may keep a replica from its work."""

    @abstractmethod
    async def kill(self, replica: int, at: int, *, all_replicas: bool) -> None:
        """Let a replica, or all, die at once, or some moment later while it writes."""

    @abstractmethod
    async def restart(self, replica: int) -> None:
        """Start a replica if it is dead."""

    @abstractmethod
    async def cut(self, replica: int, at: int, *, done: bool) -> None:
        """Let the database fail a replica once, at once or some moment later while it writes."""

    @abstractmethod
    async def fill_disk(self, full: bool) -> None:
        """Leave the database no room to grow, or all it wants."""

    @abstractmethod
    async def restart_database(self) -> None:
        """Let the database go away and come back; of files, open a copy."""

    @abstractmethod
    async def heal(self) -> None:
        """End all trouble; every replica has done what it was asked, or never will."""

    @abstractmethod
    def check(self) -> None:
        """Raise Violation if what is stored is not what is counted."""
