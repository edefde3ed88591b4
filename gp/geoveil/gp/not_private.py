"""The warning to whoever does, where people's values may be, what is for experiments only.

Who holds people's values, and who experiments on purpose, is not known here: both declare it.
"""

from __future__ import annotations

import sys
import warnings
from typing import NewType

from geoveil.gp.arrays import Array
from geoveil.gp.errors import NotPrivateWarning

Simulated = NewType("Simulated", Array)
"""Float64 reports or points for experiments: an array, whose type says that it is NOT private."""

_holders: set[str] = set()
_experiments: set[str] = {__name__.removesuffix("not_private")}
_said: set[str] = set()


def declare_holder(package: str) -> None:
    """Declare that a package holds people's values in this process: `simulate` then warns.

    Args:
        package: its `__name__`.
    """
    _holders.add(package)


def declare_experiments(package: str) -> None:
    """Declare that all modules of a package experiment on purpose.

    They neither hear a warning nor use it up.

    Args:
        package: its `__name__`.
    """
    _experiments.add(f"{package}.")


def warn_beside_holder() -> None:
    """Warn the caller of `simulate`, once per process, if people's values are held in it.

    Where they are, nothing but `release` may leave. Called by `simulate` itself.
    """
    if _holders:
        warn_caller(
            "simulate is not private on a computer: it is for experiments [MATH §10]. What leaves a"
            " device comes from release"
        )


def warn_caller(message: str) -> None:
    """Warn the caller of the public function that called the caller of this one, once per process.

    Args:
        message: what was done, and what to do instead. One message is said once.
    """
    if message in _said:
        return
    caller = str(sys._getframe(3).f_globals.get("__name__", ""))
    if f"{caller}.".startswith(tuple(_experiments)):
        return
    _said.add(message)
    warnings.warn(message, NotPrivateWarning, stacklevel=4)
