"""What `simulate` returns, and the one warning where it may have been taken for `release`."""

import sys
import warnings
from typing import NewType

import numpy as np
from numpy.typing import NDArray

from geoveil.gp.errors import NotPrivateWarning

Simulated = NewType("Simulated", NDArray[np.float64])
"""Float64 reports or points for experiments: an array, whose type says that it is NOT private."""

_DEVICE = "geoveil.client"
_EXPERIMENTS = ("geoveil.gp.", "geoveil.simulation.")
"""Modules that simulate on purpose. They neither hear the warning nor use it up."""
_warned = False


def warn_on_device() -> None:
    """Warn the caller of `simulate`, once per process, if the device's SDK is loaded.

    Where people's values are held, nothing but `release` may leave. Called by `simulate` itself.
    """
    global _warned
    if _warned or _DEVICE not in sys.modules:
        return
    caller = sys._getframe(2).f_globals.get("__name__", "")
    if str(caller).startswith(_EXPERIMENTS):
        return
    _warned = True
    warnings.warn(
        "simulate is not private on a computer: it is for experiments [MATH §10]. What leaves a "
        "device comes from release",
        NotPrivateWarning,
        stacklevel=3,
    )
