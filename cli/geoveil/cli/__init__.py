"""The `geoveil` command."""

import sys

__all__ = ["main"]

__version__: str


def main() -> None:
    """Run the command. Ctrl-C ends it with status 130, also while its modules are being loaded."""
    try:
        from geoveil.cli.app import run

        run()
    except KeyboardInterrupt:
        sys.exit(130)


def __getattr__(name: str) -> str:
    if name == "__version__":  # not before `main`, as it takes NumPy
        from geoveil.gp.version import __version__

        return __version__
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
