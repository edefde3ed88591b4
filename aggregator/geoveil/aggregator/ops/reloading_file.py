"""A file that is read again when it changes."""

import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

_Content = TypeVar("_Content")
_Stamp = tuple[tuple[int, int, int], ...]


class ReloadingFile(Generic[_Content]):
    """The content of files that belong together, thread-safe; `read` reads them all.

    `get` detects changes by size, time and inode. It raises OSError if a file is missing, and the
    errors of `read` at each call until they are corrected.
    """

    def __init__(self, paths: Sequence[Path], read: Callable[[], _Content]) -> None:
        self._paths = tuple(paths)
        self._read = read
        self._lock = threading.Lock()
        self._stamp = self._look()
        self._content: _Content = read()

    def get(self) -> _Content:
        """Return the current content."""
        with self._lock:
            stamp = self._look()
            if stamp != self._stamp:
                self._content = self._read()
                # Only after success, so that unreadable files are tried again.
                self._stamp = stamp
            return self._content

    def _look(self) -> _Stamp:
        stats = [os.stat(path) for path in self._paths]
        return tuple((s.st_mtime_ns, s.st_size, s.st_ino) for s in stats)
