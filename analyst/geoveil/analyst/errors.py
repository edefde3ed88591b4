"""The errors of analysts' clients."""

from collections.abc import Iterator
from contextlib import contextmanager

from geoveil.campaign import CallError, TLSRequiredError
from geoveil.gp import GeoVeilError


class AnalystError(GeoVeilError):
    """Root of the errors of analysts' clients."""


class ServerError(AnalystError, CallError):
    """The server refused a call, or can't be reached; `retryable` says whether to try again."""

    def __str__(self) -> str:
        return f"{self.detail} ({self.code})" if self.detail else self.code


class TokenInClearError(AnalystError, ValueError):
    """A token for another machine needs TLS: without it, eavesdroppers could steal the token."""

    def __init__(self, target: str) -> None:
        super().__init__(target)
        self.target = target

    def __str__(self) -> str:
        return f"{self.target} is not on this machine, and a token is sent over TLS only"


class TLSMissingError(AnalystError, TLSRequiredError):
    """Without TLS, anybody in between could read estimates and replace campaigns."""


class StatisticFailedError(AnalystError):
    """The code of another package's statistic, or of its result, is at fault.

    The message holds only the type of the original error, which is the cause: a package may write
    estimates, or paths of the server, into the text of its errors, and consoles show this message.
    """

    def __init__(self, name: str, package: str, failure: str) -> None:
        super().__init__(name, package, failure)
        self.name = name
        self.package = package
        self.failure = failure

    def __str__(self) -> str:
        return (
            f"{self.name} of the package {self.package!r} failed with {self.failure}: its authors"
            " can mend it"
        )


def package_of(kind: type) -> str | None:
    """Return the package of a class; None if it is geoveil."""
    package = kind.__module__.partition(".")[0]
    return None if package == "geoveil" else package


@contextmanager
def code_of_packages(kind: type) -> Iterator[None]:
    """Turn an error in a class of another package into one that names it.

    Errors of geoveil and of its own classes pass through.
    """
    try:
        yield
    except GeoVeilError:
        raise
    except Exception as error:
        if (package := package_of(kind)) is None:
            raise
        raise StatisticFailedError(kind.__qualname__, package, type(error).__name__) from error
