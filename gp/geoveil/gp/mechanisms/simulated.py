"""What `simulate` returns, and the one warning where it may have been taken for `release`."""

import sys
from typing import NewType

import numpy as np
from numpy.typing import NDArray

from geoveil.gp.not_private import warn_caller

Simulated = NewType("Simulated", NDArray[np.float64])
"""Float64 reports or points for experiments: an array, whose type says that it is NOT private."""

_DEVICE = "geoveil.client"


def warn_on_device() -> None:
    """Warn the caller of `simulate`, once per process, if the device's SDK is loaded.

    Where people's values are held, nothing but `release` may leave. Called by `simulate` itself.
    """
    if _DEVICE in sys.modules:
        warn_caller(
            "simulate is not private on a computer: it is for experiments [MATH §10]. What leaves a"
            " device comes from release"
        )
