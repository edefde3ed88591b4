"""NumPy, imported at its first use, and the types of arrays.

A device that answers about a number needs no array, and NumPy would take most of the time of its
first report. Modules that a device imports take `np` from here.
"""

import sys
from types import GenericAlias, ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

__all__ = ["Array", "ArrayLike", "NDArray", "distinct", "is_array", "np"]

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    Array: TypeAlias = NDArray[np.float64]
else:

    def _first_use(name: str) -> object:
        import numpy

        attribute = getattr(numpy, name)
        setattr(np, name, attribute)
        return attribute

    np = ModuleType("numpy")
    np.__getattr__ = _first_use

    class NDArray:
        """Stands in for numpy.typing.NDArray when annotations are evaluated."""

        __class_getitem__ = classmethod(GenericAlias)

    Array = ArrayLike = Any


def is_array(value: object) -> TypeGuard["NDArray[Any]"]:
    """Return whether `value` is an array or number of NumPy, without importing NumPy."""
    return "numpy" in sys.modules and isinstance(value, (np.ndarray, np.generic))


def distinct(numbers: Array) -> Array:
    """Return the distinct numbers of an array, increasing.

    The first `numpy.unique` takes 10 ms: it imports masked arrays.
    """
    in_order = np.sort(numbers, axis=None)
    first = np.ones(len(in_order), np.bool_)
    first[1:] = in_order[1:] != in_order[:-1]
    return in_order[first]
