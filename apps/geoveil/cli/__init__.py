"""The `geoveil` command."""

import contextlib
import sys

from geoveil.proto import __version__ as __version__

__all__ = ["main"]


def main() -> None:
    """Run the command. Ctrl-C ends it with status 130, also while its modules are being loaded."""
    try:
        if sys.argv[1:] == ["--version"]:  # without loading anything else
            with contextlib.suppress(OSError):  # else the command says what the system refuses
                print(f"geoveil {__version__}", flush=True)
                return
        from geoveil.cli.app import run

        run()
    except KeyboardInterrupt:
        sys.exit(130)
