"""The SQLite file of a state directory: made whole or not at all, private, shared, safe to fork.

A process holds at most one connection, under a lock, and none while it forks: a child must not use
its parent's SQLite. A commit survives the death of the process at once, and that of the machine
after `sync`. Each new connection checks the whole file: its structure, every row, and that no
commit is missing (see `Mark`). A damaged file, or one older than its mark, is not used at all.
"""

import os
import sqlite3
import stat
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import TypeAlias

from geoveil.client.errors import JournalError
from geoveil.gp import ParameterError, sha256

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_BYTES = 128
_CHECKSUM_DIGITS = 16
_BUSY_TIMEOUT_S = 5.0
_CHECKPOINT_BYTES = 1 << 20


Use: TypeAlias = Callable[[sqlite3.Connection], None]
_STATE = """
CREATE TABLE IF NOT EXISTS state (commits INTEGER NOT NULL, rows INTEGER NOT NULL);
INSERT INTO state SELECT 0, 0 WHERE NOT EXISTS (SELECT * FROM state);
"""
_COMMITS = "SELECT commits FROM state"
_COUNT_COMMIT = "UPDATE state SET commits = commits + 1 RETURNING commits"


class Mark:
    """The mark of one file, kept at a path."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._name = str(path)
        self._flushed = 0

    def least(self) -> int:
        """Return the least number of commits of the file; 0 if unknown."""
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
        """Record the file's number of commits, flushed to disk or not; OSError if that fails."""
        if flushed:
            self._flushed = commits
        text = f"{commits} {self._flushed} {_boot()}"
        line = f"{text} {_checksum(text)}".ljust(_BYTES - 1) + "\n"
        descriptor = os.open(self._name, os.O_CREAT | os.O_WRONLY, 0o600)
        try:
            os.write(descriptor, line.encode())
        finally:
            os.close(descriptor)


def _checksum(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:_CHECKSUM_DIGITS]


@cache
def _boot() -> str:
    """Return the id of this boot of the machine; "none" if unknown."""
    try:
        return _BOOT.read_text("utf-8").strip()
    except (OSError, ValueError):
        return f"none-{os.urandom(8).hex()}"


class _Translated:
    """A block in which errors of the system and of SQLite become a JournalError."""

    def __init__(self, place: str) -> None:
        self._place = place

    def __enter__(self) -> None:
        """Do nothing. A contextlib manager would take longer than most blocks."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if isinstance(error, (OSError, sqlite3.Error)):
            raise JournalError(self._place, str(error)) from error
        if isinstance(error, UnicodeDecodeError):  # in a name of SQLite's own, or about it
            raise JournalError(self._place, "it is damaged: a text in it is none") from None


class StateFile:
    """One SQLite file, shared by all users of its directory.

    Args:
        state_dir: made with mode 0700 if it is missing; else only its owner may have access. On a
            local file system with hard links. None: in memory.
        schema: SQL that makes its tables. One more, `state`, has one row: `commits` counts them,
            and triggers of the schema keep in `rows` which rows there are.
        version: the number of the schema, which is kept in the file.
        check: reads all rows, and raises JournalError if one has changed.

    Attributes:
        durable: whether it is on disk, and survives a crash.
        counted: in a transaction that writes, how many commits there are with it.

    Raises:
        JournalError: if the directory can't be used, the file is damaged or of another version.
    """

    _connection: sqlite3.Connection | None = None
    _synced: int | None = None
    """The log whose entry in the directory is on the disk."""

    def __init__(
        self,
        state_dir: str | os.PathLike[str] | None,
        name: str,
        schema: str,
        version: int,
        *,
        check: Use = lambda connection: None,
    ) -> None:
        self._script = f"{_STATE}{schema}PRAGMA user_version = {version};"
        self._version = version
        self._check = check
        self._commits = self.counted = 0
        self._lock = threading.Lock()
        self._inode = 0
        self._path = None if state_dir is None else _directory(state_dir) / name
        self._name = str(self._path)  # a Path is made one again at each use
        self._translated = _Translated(self.place)
        self.durable = self._path is not None
        if self._path is None:
            self._connection = _memory(self._script)
        else:
            self._mark = Mark(self._path.with_name(f"{name}-mark"))
            self._prepare(self._path)
        _FILES.add(self)

    def __del__(self) -> None:
        # Of a client that was forgotten: what was committed is safe, so it may end quietly.
        self._disconnect()

    @property
    def place(self) -> str:
        """The path of the file, or "memory", for messages."""
        return "memory" if self._path is None else str(self._path)

    @contextmanager
    def transaction(self, *, writes: bool) -> Iterator[sqlite3.Connection]:
        """Open a transaction: a block sees one state, and one block writes at a time."""
        with self._lock, self._translated:
            connection = self._open()
            connection.execute("BEGIN IMMEDIATE" if writes else "BEGIN")
            try:
                if writes:
                    self.counted = commits_of(connection, _COUNT_COMMIT)
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                # A failed COMMIT may have rolled back by itself.
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            if writes and self.durable:
                self._commits = self.counted
                with suppress(OSError):  # an older mark is one as well
                    self._mark.note(self._commits)

    def sync(self) -> None:
        """Wait until everything committed before survives a power failure."""
        if self._path is None:
            return
        log = f"{self._name}-wal"
        with self._translated:
            try:
                commits = self._commits
                written = os.stat(log)
                _sync(log)
                if self._synced != written.st_ino:
                    _sync(self._path.parent)
                    self._synced = written.st_ino
                self._mark.note(commits, flushed=True)
            except FileNotFoundError:
                return  # the last connection closed, and left everything on the disk
        if written.st_size > _CHECKPOINT_BYTES:
            with self._lock, self._translated:
                self._open().execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def close(self) -> None:
        """Close the connection; a later use opens another. In memory, forget everything."""
        with self._lock:
            self._disconnect()

    def _prepare(self, path: Path) -> None:
        try:
            _make_private(path.parent)
            if not path.exists():
                _create(path, self._script)
            for suffix in ("", "-wal", "-shm", "-mark"):  # of an app that was careless with them
                with suppress(FileNotFoundError):
                    path.with_name(path.name + suffix).chmod(0o600)
            self._inode = path.stat().st_ino
        except (OSError, sqlite3.Error) as error:
            raise JournalError(str(path.parent), str(error)) from error
        with self._lock, self._translated:
            self._open()

    def _open(self) -> sqlite3.Connection:
        if self._path is None:
            if self._connection is None:
                raise JournalError(self.place, "it is closed")
            return self._connection
        # A file put in the place of another has forgotten what was drawn, without an error.
        if os.stat(self._name).st_ino != self._inode:
            raise JournalError(str(self._path), "another file has taken its place")
        if self._connection is None:
            least = self._mark.least()  # before the file is looked at, which only ever has more
            connection = _connect(self._path)
            try:
                connection.execute("PRAGMA synchronous = NORMAL")
                # Not within a commit, which somebody may wait for: `sync` does it.
                connection.execute("PRAGMA wal_autocheckpoint = 0")
                # A log that was copied is cut to what does not ask for that again.
                connection.execute(f"PRAGMA journal_size_limit = {_CHECKPOINT_BYTES}")
                self._commits = self._accept(connection, least)
                self._mark.note(self._commits)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def _accept(self, connection: sqlite3.Connection, least: int) -> int:
        """Bring a newly opened file up to date, check it, and return its commits, at least `least`.

        Raises:
            JournalError: if it is damaged or of another version.
        """
        version = _version(connection)
        if version != self._version:
            reason = f"its format is {version}, this geoveil knows {self._version}"
            raise JournalError(self.place, reason)
        connection.execute("BEGIN")  # all that is read is of one state
        _check_structure(connection, self.place)
        commits = commits_of(connection)
        if commits < least:
            reason = f"it is damaged: {least - commits} of the commits made are missing"
            raise JournalError(self.place, reason)
        self._check(connection)
        connection.execute("COMMIT")
        return commits

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        self._synced = None
        if connection is not None:
            connection.close()
            log = self._path and self._path.with_name(f"{self._path.name}-wal")
            if log is not None and not log.exists():
                # It was the last, and left everything in the file itself, on the disk.
                with suppress(OSError):
                    self._mark.note(max(self._commits, self._mark.least()), flushed=True)

    def _before_fork(self) -> None:
        self._lock.acquire()
        if self._path is not None:
            self._disconnect()

    def _after_fork_in_parent(self) -> None:
        self._lock.release()

    def _after_fork_in_child(self) -> None:
        self._lock = threading.Lock()


_FILES: "weakref.WeakSet[StateFile]" = weakref.WeakSet()
_FORKING = threading.local()


def _before_fork() -> None:
    # In one order, so that two threads that fork at once can't wait for each other.
    _FORKING.files = sorted(_FILES, key=id)
    for file in _FORKING.files:
        file._before_fork()


def _after_fork_in_parent() -> None:
    for file in _FORKING.__dict__.pop("files", ()):
        file._after_fork_in_parent()


def _after_fork_in_child() -> None:
    for file in _FORKING.__dict__.pop("files", ()):
        file._after_fork_in_child()


os.register_at_fork(
    before=_before_fork,
    after_in_parent=_after_fork_in_parent,
    after_in_child=_after_fork_in_child,
)


def _memory(schema: str) -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    connection.executescript(schema)
    return connection


def _connect(path: Path) -> sqlite3.Connection:
    # mode=rw: a file that has vanished is an error, never silently a new and empty one.
    return sqlite3.connect(
        f"{path.as_uri()}?mode=rw",
        uri=True,
        timeout=_BUSY_TIMEOUT_S,
        isolation_level=None,
        check_same_thread=False,
    )


def _directory(state_dir: str | os.PathLike[str]) -> Path:
    text = os.fspath(state_dir) if isinstance(state_dir, str | os.PathLike) else None
    if not isinstance(text, str) or not text or "\0" in text:
        raise ParameterError("state_dir", state_dir, "the path of a directory, or None")
    return Path(text).absolute()


def _make_private(directory: Path) -> None:
    if not directory.exists():
        directory.parent.mkdir(parents=True, exist_ok=True)
        directory.mkdir(mode=0o700, exist_ok=True)
        _sync(directory.parent)
    if not directory.is_dir():
        raise NotADirectoryError("it is a file: name a directory, which is made if it is missing")
    mode = stat.S_IMODE(directory.stat().st_mode)
    if mode & 0o077:
        raise PermissionError(
            f"others have access to it (mode {mode:04o}): chmod 700, or name a directory in it"
        )


def _create(path: Path, script: str) -> None:
    """Put an empty file into place, whole or not at all, unless another process did."""
    draft = path.with_name(f"{path.name}.{os.urandom(8).hex()}")
    os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    try:
        with closing(_connect(draft)) as connection:
            connection.executescript(f"PRAGMA journal_mode = WAL;{script}")
        # Not a rename: that would replace the file of a process that was faster.
        try:
            os.link(draft, path)
        except FileExistsError:
            return
        _sync(path.parent)
    finally:
        draft.unlink()


def _sync(path: str | Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def commits_of(connection: sqlite3.Connection, statement: str = _COMMITS) -> int:
    """Return the number of commits ever made; 0 if damage has destroyed the number."""
    rows = connection.execute(statement).fetchall()
    return rows[0][0] if rows and isinstance(rows[0][0], int) else 0


def _check_structure(connection: sqlite3.Connection, place: str) -> None:
    (problem,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    if problem != "ok":
        raise JournalError(place, f"it is damaged: {problem}")


def _version(connection: sqlite3.Connection) -> int:
    (number,) = connection.execute("PRAGMA user_version").fetchone()
    return int(number)
