"""What the SQLite file of a state directory must be like to be used: its tables, and undamaged."""

import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from geoveil.client.errors import JournalError

Use = Callable[[sqlite3.Connection], None]
_STATE = """
CREATE TABLE IF NOT EXISTS state (commits INTEGER NOT NULL, rows INTEGER NOT NULL);
INSERT INTO state SELECT 0, 0 WHERE NOT EXISTS (SELECT * FROM state);
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """See the module."""

    schema: str
    """SQL that makes the tables. There is one more, `state`, of one row: `commits` counts them, and
    `rows` is for triggers of the schema to tell, in any way, what rows there are."""
    version: int
    """Of the schema."""
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


def commit(connection: sqlite3.Connection) -> int:
    """Commit the open transaction, and return how many commits that makes."""
    connection.execute("UPDATE state SET commits = commits + 1")
    commits = commits_of(connection)
    connection.execute("COMMIT")
    return commits


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
