"""The errors of analysts' clients."""

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
