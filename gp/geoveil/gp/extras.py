"""Optional libraries of extras, and the error that names the extra."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import MappingProxyType

from geoveil.gp.errors import UnsupportedError

EXTRAS = MappingProxyType(
    {
        "contourpy": "analyst",
        "dask": "all",
        "distributed": "all",
        "geopandas": "analyst",
        "grpc_health": "server",
        "grpc_reflection": "server",
        "httptools": "server",
        "jinja2": "console",
        "matplotlib": "analyst",
        "openpyxl": "analyst",
        "pandas": "analyst",
        "prometheus_client": "server",
        "psycopg": "server",
        "pyarrow": "analyst",
        "sqlalchemy": "server",
        "structlog": "server",
        "uvicorn": "server",
    }
)
"""Imported library → the smallest extra that installs it."""


class MissingExtraError(UnsupportedError, ImportError):
    """A `library` that a `purpose` needs is not installed; the message names its `extra`.

    Example:
        >>> str(MissingExtraError("a server", "structlog", "server"))
        "a server needs structlog, which is not installed: pip install 'geoveil[server]'"
    """

    def __init__(self, purpose: str, library: str, extra: str) -> None:
        super().__init__(purpose, library, extra)
        self.purpose = purpose
        self.library = library
        self.extra = extra

    def __str__(self) -> str:
        return (
            f"{self.purpose} needs {self.library}, which is not installed:"
            f" pip install 'geoveil[{self.extra}]'"
        )


@contextmanager
def needed_for(purpose: str) -> Iterator[None]:
    """Turn a failed import within the block into an error that names the extra.

    `purpose` is the subject of the message's sentence, as "a picture".

    Raises:
        MissingExtraError: if the library belongs to an extra; others raise Python's own error.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        if library not in EXTRAS:
            raise
        raise MissingExtraError(purpose, library, EXTRAS[library]) from None
