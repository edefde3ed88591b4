"""The address of a PostgreSQL database; it holds a password, so its repr shows only a part."""

from urllib.parse import urlsplit

from geoveil.campaign import added
from geoveil.gp import ParameterError

SCHEMES = ("postgresql",)
STORES = "geoveil.stores"
"""The group of entry points by which other packages add stores, named by schemes of URLs."""
_EXPECTED = "postgresql://USER:PASSWORD@HOST:PORT/DATABASE (it is not shown)"


class DatabaseURL:
    """A `postgresql://` URL as libpq reads it, or one of a store that another package adds.

    Its password, and all after "?", appear in no repr, error or log.

    Raises:
        ParameterError: if it is no such URL; without the text.

    Example:
        >>> DatabaseURL("postgresql://geoveil:s3cret@db.example:5432/reports?sslmode=verify-full")
        DatabaseURL('postgresql://geoveil:***@db.example:5432/reports?***')
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        if not isinstance(text, str) or not text.isprintable() or not _sound(text):
            raise ParameterError("database", "...", _EXPECTED)
        self._text = text

    @property
    def has_password(self) -> bool:
        """Whether it contains a password, or anything that might be one."""
        parts = urlsplit(self._text)
        return parts.password is not None or "password" in parts.query

    def reveal(self) -> str:
        """Return the URL itself: for the driver only."""
        return self._text

    def __str__(self) -> str:
        parts = urlsplit(self._text)
        users, at, hosts = parts.netloc.rpartition("@")
        user, colon, _ = users.partition(":")
        shown = f"{parts.scheme}://{user}{colon and ':***'}{at}{hosts}{parts.path}"
        return shown + ("?***" if parts.query else "")

    def __repr__(self) -> str:
        return f"DatabaseURL({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DatabaseURL) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)


def _sound(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    schemes = (*SCHEMES, *added(STORES, frozenset(SCHEMES)))
    return parts.scheme in schemes and "://" in text and not parts.fragment
