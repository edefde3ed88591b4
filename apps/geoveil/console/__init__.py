"""The console: pages on which analysts and operators see, plan and publish surveys.

It runs in the gateway (`geoveil serve --console`) and calls the server over gRPC with the token of
the signed-in user, like any other analyst's client.
"""

from typing import TYPE_CHECKING, Any

from geoveil.gp import __version__ as __version__

if TYPE_CHECKING:
    from geoveil.console.app import Console
    from geoveil.console.public import PublicResults

__all__ = ["Console", "PublicResults"]


def __getattr__(name: str) -> Any:
    """Load the server's side on demand: the planning process does not need it."""
    if name == "Console":
        from geoveil.console.app import Console

        return Console
    if name == "PublicResults":
        from geoveil.console.public import PublicResults

        return PublicResults
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
