"""What the SQLite file of a state directory must be like to be used: its tables, and undamaged."""

import hashlib
import os
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from geoveil.client.errors import JournalError

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


Use = Callable[[sqlite3.Connection], None]
_STATE = """
CREATE TABLE IF NOT EXISTS state (commits INTEGER NOT NULL, rows INTEGER NOT NULL);
INSERT INTO state SELECT 0, 0 WHERE NOT EXISTS (SELECT * FROM state);
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """What a file of one kind must be like: its tables, and the check of its rows."""

    schema: str
    """SQL that makes the tables. There is one more, `state`, of one row: `commits` counts them, and
    `rows` is for triggers of the schema to tell, in any way, what rows there are."""
    version: int
    """The number of the schema: it is kept in the file."""
    upgrades: Mapping[int, Use] = field(default_factory=dict)
    """Earlier version → what makes its tables those of `version`, in one transaction."""
    check: Use = lambda connection: None
    """Reads all rows, and raises JournalError if one is not as it was written."""

    @property
    def script(self) -> str:
        """SQL that makes an empty file."""
        return f"{_STATE}{self.schema}PRAGMA user_version = {self.version};"

    def accept(self, connection: sqlite3.Connection, place: str, least: int) -> int:
        """Bring a file up to date, check all of it, and return how many commits it has.

        Args:
            connection: just opened.
            place: of the file, for messages.
            least: how many commits it is known to have.

        Raises:
            JournalError: if it is damaged, or another version wrote it.
        """
        self._bring_up_to_date(connection, place)
        connection.execute("BEGIN")  # all that is read is of one state
        _check_structure(connection, place)
        commits = commits_of(connection)
        if commits < least:
            reason = f"it is damaged: {least - commits} of the commits made are missing"
            raise JournalError(place, reason)
        self.check(connection)
        connection.execute("COMMIT")
        return commits

    def _bring_up_to_date(self, connection: sqlite3.Connection, place: str) -> None:
        found = _version(connection)
        if found in self.upgrades:
            connection.execute("BEGIN IMMEDIATE")
            if _version(connection) == found:  # no other process was faster
                _check_structure(connection, place)
                run(connection, _STATE)
                self.upgrades[found](connection)
                connection.execute(f"PRAGMA user_version = {self.version}")
            connection.execute("COMMIT")
            found = _version(connection)
        if found != self.version:
            raise JournalError(place, f"its format is {found}, this geoveil knows {self.version}")


def commits_of(connection: sqlite3.Connection) -> int:
    """Return how many commits were ever made; 0 if damage has left no number."""
    made = connection.execute("SELECT commits FROM state").fetchone()
    return made[0] if made is not None and isinstance(made[0], int) else 0


def run(connection: sqlite3.Connection, script: str) -> None:
    """Execute statements within the open transaction, which `executescript` would end."""
    statement = ""
    for part in script.split(";"):
        statement += f"{part};"
        if sqlite3.complete_statement(statement):  # a trigger has semicolons of its own
            connection.execute(statement)
            statement = ""


def _check_structure(connection: sqlite3.Connection, place: str) -> None:
    (found,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    if found != "ok":
        raise JournalError(place, f"it is damaged: {found}")


def _version(connection: sqlite3.Connection) -> int:
    (found,) = connection.execute("PRAGMA user_version").fetchone()
    return int(found)
