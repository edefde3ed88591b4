"""The warning to whoever does, where people's values may be, what is for experiments only."""

import sys
import warnings

from geoveil.gp.errors import NotPrivateWarning

_EXPERIMENTS = ("geoveil.gp.", "geoveil.simulation.")
"""Modules that experiment on purpose. They neither hear a warning nor use it up."""
_said: set[str] = set()


def warn_caller(message: str) -> None:
    """Warn the caller of the public function that called the caller of this one, once per process.

    Args:
        message: what was done, and what to do instead. One message is said once.
    """
    if message in _said:
        return
    caller = sys._getframe(3).f_globals.get("__name__", "")
    if str(caller).startswith(_EXPERIMENTS):
        return
    _said.add(message)
    warnings.warn(message, NotPrivateWarning, stacklevel=4)
