"""The URL of a PostgreSQL database, whose repr hides the password."""

from urllib.parse import urlsplit

from geoveil.campaign import added
from geoveil.gp import ParameterError

SCHEMES = ("postgresql",)
STORES = "geoveil.stores"
"""The entry point group through which other packages add stores, named after URL schemes."""
_EXPECTED = "postgresql://USER:PASSWORD@HOST:PORT/DATABASE (it is not shown)"


class DatabaseURL:
    """A `postgresql://` URL as for libpq, or the URL of another package's store.

    No repr, error or log shows its password or anything after "?".

    Raises:
        ParameterError: if it is not such a URL; the error does not quote it.

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
        """Whether it contains anything that may be a password."""
        parts = urlsplit(self._text)
        return parts.password is not None or "password" in parts.query

    def reveal(self) -> str:
        """Return the URL itself, only for the driver."""
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
