"""The `geoveil` command."""

from geoveil.cli.app import main
from geoveil.gp.version import __version__ as __version__

__all__ = ["main"]
