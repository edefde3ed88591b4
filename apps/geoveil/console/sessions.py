"""Short sessions of signed-in users, in memory, identified by a browser's cookie."""

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from geoveil.console.kept import Newest

COOKIE = "geoveil-console"
IDLE_S = 30 * 60.0
"""Seconds without a request until a user is signed out."""
LONGEST_S = 8 * 3600.0
"""Seconds until a user is signed out in any case."""
_MOST = 1_000


@dataclass(slots=True)
class Session:
    """A signed-in user."""

    who: str
    """The name of the user's token, for display only."""
    token: str | None = field(repr=False)
    """The user's token; None if the server trusts everybody on its machine."""
    form_token: str = field(repr=False)
    """The secret in each form of the console, which no other page knows."""
    began: float
    seen: float
    rights: frozenset[str] = frozenset()
    """The token's scopes when the last page was made."""


class Sessions:
    """Sessions by the SHA-256 of their cookies.

    When there are too many, the least recently used session ends.

    Example:
        >>> sessions = Sessions(clock=lambda: 0.0)
        >>> cookie = sessions.begin("alice", None)
        >>> sessions.find(cookie).who, sessions.find("another")
        ('alice', None)
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, most: int = _MOST) -> None:
        self._clock = clock
        self._kept: Newest[bytes, Session] = Newest(most)

    def begin(self, who: str, token: str | None) -> str:
        """Begin a session, and return its new random cookie."""
        now = self._clock()
        cookie = secrets.token_urlsafe(32)
        self._kept[_key(cookie)] = Session(who, token, secrets.token_urlsafe(32), now, now)
        return cookie

    def find(self, cookie: str, *, use: bool = True) -> Session | None:
        """Return the session of a cookie; None if absent or ended.

        Args:
            cookie: the browser's cookie.
            use: whether this extends the session; a page that is merely open does not.
        """
        key, now = _key(cookie), self._clock()
        session = self._kept.get(key)
        if session is None:
            return None
        if now - session.seen > IDLE_S or now - session.began > LONGEST_S:
            del self._kept[key]
            return None
        if use:
            session.seen = now
            self._kept.move_to_end(key)
        return session

    def end(self, cookie: str) -> None:
        """End a session; idempotent."""
        self._kept.pop(_key(cookie), None)

    def __len__(self) -> int:
        return len(self._kept)


def same(one: str, other: str) -> bool:
    """Return whether two secrets are equal, in a time independent of their content."""
    return hmac.compare_digest(one.encode("utf-8", "replace"), other.encode("utf-8", "replace"))


def _key(cookie: str) -> bytes:
    return hashlib.sha256(cookie.encode("utf-8", "replace")).digest()
