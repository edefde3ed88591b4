"""The `geoveil` command."""

import sys
from contextlib import suppress

__all__ = ["main"]

__version__: str


def main() -> None:
    """Run the command. Ctrl-C ends it with status 130, also while its modules are being loaded."""
    try:
        if sys.argv[1:] == ["--version"]:  # without loading anything else
            from geoveil.proto import __version__ as version

            with suppress(OSError):  # else the command says what the system refuses
                print(f"geoveil {version}", flush=True)
                return
        from geoveil.cli.app import run

        run()
    except KeyboardInterrupt:
        sys.exit(130)


def __getattr__(name: str) -> str:
    if name == "__version__":  # not before `main`, as it takes NumPy
        from geoveil.gp import __version__

        return __version__
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
