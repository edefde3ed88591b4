"""Files that only their owner may read: databases, their logs and copies."""

import os
import sqlite3
import stat
import tempfile
from contextlib import closing, suppress
from pathlib import Path

_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_LOGS = ("-wal", "-shm", "-journal")
"""Suffixes of the files that SQLite creates beside a database, with the same mode."""


def new_private_file(folder: Path, name: str) -> Path:
    """Create an empty, unique file of mode 0600 whose name begins with `name`, or raise OSError."""
    descriptor, path = tempfile.mkstemp(dir=folder, prefix=f"{name}.")
    os.close(descriptor)
    return Path(path)


def make_private_database(path: Path) -> None:
    """Create an empty SQLite file of mode 0600 with a write-ahead log, unless it exists.

    The log is enabled before the file gets its name, since only a sole connection may do so. This
    never opens the file under its name, since closing it would release the locks of the process's
    other connections. SQLite reports failures.
    """
    with suppress(OSError, sqlite3.Error):
        if not path.exists():
            empty = new_private_file(path.parent, path.name)
            try:
                with closing(sqlite3.connect(empty)) as connection:
                    connection.execute("PRAGMA journal_mode = WAL")
                os.link(empty, path)  # fails if another process has created it meanwhile
            finally:
                empty.unlink()


def protect_database(path: Path) -> None:
    """Make a SQLite file and its logs readable only by their owner, unless others own them."""
    for name in (path.name, *(path.name + end for end in _LOGS)):
        with suppress(FileNotFoundError, PermissionError):
            file = path.with_name(name)
            mode = stat.S_IMODE(file.stat().st_mode)
            if mode & _OTHERS:
                file.chmod(mode & ~_OTHERS)
