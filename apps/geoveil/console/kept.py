"""Bounded storage: the newest entries, and a session's uploads, which only it can read."""

import hashlib
import threading
from collections import OrderedDict
from typing import TypeVar

_MOST, _MOST_BYTES = 256, 48 << 20
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class Newest(OrderedDict[_Key, _Value]):
    """A dictionary that drops the entries set first, beyond the `most` it may hold.

    Example:
        >>> newest = Newest(2)
        >>> for key in "abac":
        ...     newest[key] = 0
        >>> [*newest]
        ['a', 'c']
    """

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: _Key, value: _Value) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        if len(self) > self._most:
            self.popitem(last=False)


class Kept:
    """Bytes by owner and name; the least recently used entries are dropped first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, str], bytes] = OrderedDict()

    def keep(self, owner: str, content: bytes) -> str:
        """Keep bytes, and return their name."""
        key = hashlib.sha256(content).hexdigest()[:32]
        with self._lock:
            self._kept[owner, key] = content
            self._kept.move_to_end((owner, key))
            while len(self._kept) > _MOST or self._size > _MOST_BYTES:
                self._kept.popitem(last=False)
        return key

    def find(self, owner: str, key: str) -> bytes | None:
        """Return the stored bytes; None if there are none."""
        with self._lock:
            content = self._kept.get((owner, key))
            if content is not None:
                self._kept.move_to_end((owner, key))
            return content

    @property
    def _size(self) -> int:
        return sum(map(len, self._kept.values()))
