"""Bounded storage of a session's uploads and files, which only that session can read."""

import hashlib
import threading
from collections import OrderedDict

_MOST, _MOST_BYTES = 256, 48 << 20


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
