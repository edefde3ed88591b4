"""The `geoveil` command."""

from geoveil.cli.app import main

__all__ = ["main"]
