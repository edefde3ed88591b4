"""The warning about an operation for experiments in a process that may hold people's values.

Packages declare that they hold people's values, or that they experiment on purpose.
"""

from __future__ import annotations

import sys
import warnings
from typing import NewType

from geoveil.gp.arrays import Array
from geoveil.gp.errors import NotPrivateWarning

Simulated = NewType("Simulated", Array)
"""Float64 reports or points for experiments; the array's type says that they are NOT private."""

_holders: set[str] = set()
_experiments: set[str] = {__name__.removesuffix("not_private")}
_said: set[str] = set()


def declare_holder(package: str) -> None:
    """Declare that a package, by its `__name__`, holds people's values: `simulate` then warns."""
    _holders.add(package)


def declare_experiments(package: str) -> None:
    """Declare that a package, by its `__name__`, experiments on purpose: no warning."""
    _experiments.add(f"{package}.")


def warn_beside_holder() -> None:
    """Warn the caller of `simulate`, once per process, if the process holds people's values."""
    if _holders:
        warn_caller(
            "simulate is not private on a computer: it is for experiments [MATH §10]. What leaves a"
            " device comes from release"
        )


def warn_caller(message: str) -> None:
    """Warn the caller of the public function that called this one's caller, once per message."""
    if message in _said:
        return
    caller = str(sys._getframe(3).f_globals.get("__name__", ""))
    if f"{caller}.".startswith(tuple(_experiments)):
        return
    _said.add(message)
    warnings.warn(message, NotPrivateWarning, stacklevel=4)
