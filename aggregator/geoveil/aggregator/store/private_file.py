"""Files that only their owner may read: databases, their logs and their copies."""

import os
import sqlite3
import stat
import tempfile
from contextlib import closing, suppress
from pathlib import Path

_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_LOGS = ("-wal", "-shm", "-journal")
"""Suffixes of files that SQLite makes for a database, with its mode."""


def new_private_file(folder: Path, name: str) -> Path:
    """Make an empty, unique file of mode 0600 whose name has this prefix; OSError if that fails."""
    descriptor, path = tempfile.mkstemp(dir=folder, prefix=f"{name}.")
    os.close(descriptor)
    return Path(path)


def make_private_database(path: Path) -> None:
    """Make an empty SQLite file of mode 0600 with a write-ahead log if there is none.

    The log is switched on before the file has its name, as one connection alone may do that. The
    name is never opened here: a close would give up the locks of this process's other connections.
    SQLite reports failures.
    """
    with suppress(OSError, sqlite3.Error):
        if not path.exists():
            empty = new_private_file(path.parent, path.name)
            try:
                with closing(sqlite3.connect(empty)) as connection:
                    connection.execute("PRAGMA journal_mode = WAL")
                os.link(empty, path)  # fails if another process made it meanwhile
            finally:
                empty.unlink()


def protect_database(path: Path) -> None:
    """Make a SQLite file and its logs readable by their owner alone, unless others own them."""
    for name in (path.name, *(path.name + end for end in _LOGS)):
        with suppress(FileNotFoundError, PermissionError):
            file = path.with_name(name)
            mode = stat.S_IMODE(file.stat().st_mode)
            if mode & _OTHERS:
                file.chmod(mode & ~_OTHERS)
