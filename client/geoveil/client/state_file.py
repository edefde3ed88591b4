"""The SQLite file of a state directory: created atomically, private, shared and safe to fork.

A process has at most one connection, under a lock, and none while it forks, since a child must not
use its parent's SQLite. A commit survives a crash of the process at once, and of the machine after
`sync`. Each new connection checks the whole file: its structure, every row, and that no commit is
missing (see `Mark`). A damaged file, or one older than its mark, is never used.
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
    """A separate file with the least number of commits of a state file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._name = str(path)
        self._flushed = 0

    def least(self) -> int:
        """Return the state file's least number of commits; 0 if unknown."""
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
        """Record the number of commits, and whether they are on disk; OSError if that fails."""
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
    """Return the id of the machine's current boot; "none" if unknown."""
    try:
        return _BOOT.read_text("utf-8").strip()
    except (OSError, ValueError):
        return f"none-{os.urandom(8).hex()}"


class StateFile:
    """One SQLite file, shared by all users of its directory.

    Args:
        state_dir: created with mode 0700 if missing; otherwise only its owner may have access. It
            must be on a local file system with hard links. None for memory.
        schema: SQL that creates its tables. A further table, `state`, has one row: `commits` counts
            commits, and the schema's triggers maintain a fingerprint of all rows in `rows`.
        version: the schema's number, which is stored in the file.
        check: reads all rows, and raises JournalError if one has changed.

    Attributes:
        durable: whether it is on disk, and survives a crash.
        counted: the number of commits, including the current write transaction.

    Raises:
        JournalError: if the directory is unusable, or the file damaged or of another version.
    """

    _connection: sqlite3.Connection | None = None
    _synced: int | None = None
    """The log file whose directory entry is on disk."""

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
        self._name = str(self._path)  # a Path would be converted at each use
        self.durable = self._path is not None
        if self._path is None:
            self._connection = sqlite3.connect(
                ":memory:", isolation_level=None, check_same_thread=False
            )
            self._connection.executescript(self._script)
        else:
            self._mark = Mark(self._path.with_name(f"{name}-mark"))
            self._prepare(self._path)
        _FILES.add(self)

    def __del__(self) -> None:
        # A forgotten client's: commits are safe, so it may close silently.
        self._disconnect()

    @property
    def place(self) -> str:
        """The path of the file, or "memory", for messages."""
        return "memory" if self._path is None else str(self._path)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Turn errors of the system and SQLite in a block into a JournalError."""
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            raise JournalError(self.place, str(error)) from error
        except UnicodeDecodeError:  # from SQLite's own names or messages
            raise JournalError(self.place, "it is damaged: a text in it is invalid") from None

    @contextmanager
    def transaction(self, *, writes: bool) -> Iterator[sqlite3.Connection]:
        """Open a transaction: a block sees one state, and only one block writes at a time."""
        with self._lock, self._translated():
            connection = self._open()
            connection.execute("BEGIN IMMEDIATE" if writes else "BEGIN")
            try:
                if writes:
                    self.counted = commits_of(connection, _COUNT_COMMIT)
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                # A failed COMMIT may already have rolled back.
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            if writes and self.durable:
                self._commits = self.counted
                with suppress(OSError):  # an older mark remains valid
                    self._mark.note(self._commits)

    def sync(self) -> None:
        """Wait until all previous commits survive a power failure."""
        if self._path is None:
            return
        log = f"{self._name}-wal"
        with self._translated():
            try:
                commits = self._commits
                written = os.stat(log)
                _sync(log)
                if self._synced != written.st_ino:
                    _sync(self._path.parent)
                    self._synced = written.st_ino
                self._mark.note(commits, flushed=True)
            except FileNotFoundError:
                return  # the last connection closed, which wrote everything to disk
        if written.st_size > _CHECKPOINT_BYTES:
            with self._lock, self._translated():
                self._open().execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def close(self) -> None:
        """Close the connection; a later use reopens it. In memory, forget everything."""
        with self._lock:
            self._disconnect()

    def _prepare(self, path: Path) -> None:
        try:
            _make_private(path.parent)
            if not path.exists():
                _create(path, self._script)
            for suffix in ("", "-wal", "-shm", "-mark"):  # their modes may be too open
                with suppress(FileNotFoundError):
                    path.with_name(path.name + suffix).chmod(0o600)
            self._inode = path.stat().st_ino
        except (OSError, sqlite3.Error) as error:
            raise JournalError(str(path.parent), str(error)) from error
        with self._lock, self._translated():
            self._open()

    def _open(self) -> sqlite3.Connection:
        if self._path is None:
            if self._connection is None:
                raise JournalError(self.place, "it is closed")
            return self._connection
        # A replaced file would have forgotten draws without an error.
        if os.stat(self._name).st_ino != self._inode:
            raise JournalError(str(self._path), "another file has taken its place")
        if self._connection is None:
            least = self._mark.least()  # read before the file, whose number only grows
            connection = _connect(self._path)
            try:
                connection.execute("PRAGMA synchronous = NORMAL")
                # Not within a commit, for which somebody may wait: `sync` does it.
                connection.execute("PRAGMA wal_autocheckpoint = 0")
                # After a checkpoint, truncate the log below the size that triggers the next one.
                connection.execute(f"PRAGMA journal_size_limit = {_CHECKPOINT_BYTES}")
                self._commits = self._accept(connection, least)
                self._mark.note(self._commits)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def _accept(self, connection: sqlite3.Connection, least: int) -> int:
        """Check a newly opened file, and return its number of commits, at least `least`.

        Raises:
            JournalError: if it is damaged or has another version.
        """
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version != self._version:
            reason = f"its format is {version}, this geoveil knows {self._version}"
            raise JournalError(self.place, reason)
        connection.execute("BEGIN")  # all reads see one state
        (problem,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
        if problem != "ok":
            raise JournalError(self.place, f"it is damaged: {problem}")
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
                # It was the last, and wrote everything into the file itself, on disk.
                with suppress(OSError):
                    self._mark.note(max(self._commits, self._mark.least()), flushed=True)


_FILES: "weakref.WeakSet[StateFile]" = weakref.WeakSet()
_FORKING = threading.local()


def _before_fork() -> None:
    # In one order, so that two threads that fork at once can't deadlock.
    _FORKING.files = sorted(_FILES, key=id)
    for file in _FORKING.files:
        file._lock.acquire()
        if file.durable:
            file._disconnect()


def _after_fork_in_parent() -> None:
    for file in _FORKING.__dict__.pop("files", ()):
        file._lock.release()


def _after_fork_in_child() -> None:
    for file in _FORKING.__dict__.pop("files", ()):
        file._lock = threading.Lock()


os.register_at_fork(
    before=_before_fork,
    after_in_parent=_after_fork_in_parent,
    after_in_child=_after_fork_in_child,
)


def _connect(path: Path) -> sqlite3.Connection:
    # mode=rw: a missing file is an error, never silently replaced by an empty one.
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
    """Create an initialised file atomically, unless another process has created it."""
    draft = path.with_name(f"{path.name}.{os.urandom(8).hex()}")
    os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    try:
        with closing(_connect(draft)) as connection:
            connection.executescript(f"PRAGMA journal_mode = WAL;{script}")
        # Not a rename, which would replace a faster process's file.
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
    """Return the total number of commits; 0 if damage has destroyed it."""
    rows = connection.execute(statement).fetchall()
    return rows[0][0] if rows and isinstance(rows[0][0], int) else 0
