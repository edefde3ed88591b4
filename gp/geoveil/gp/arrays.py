"""NumPy, imported when it is first used, and the types of arrays.

A device that answers a campaign about a number needs no array, and NumPy would take most of what
its first report costs. So what a device imports takes `np` from here, and annotates with these
types under `from __future__ import annotations`.
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
        """Stands for numpy.typing.NDArray in annotations that somebody evaluates."""

        __class_getitem__ = classmethod(GenericAlias)

    Array = ArrayLike = Any


def is_array(value: object) -> TypeGuard["NDArray[Any]"]:
    """Return whether `value` is an array or a number of NumPy's: none is, unless it is imported.

    Example:
        >>> import numpy
        >>> is_array(numpy.array([1.0, 2.0])), is_array(numpy.float32(1)), is_array(1.0)
        (True, True, False)
    """
    return "numpy" in sys.modules and isinstance(value, (np.ndarray, np.generic))


def distinct(numbers: Array) -> Array:
    """Return the different numbers of an array, increasing.

    `numpy.unique` does the same, and takes 10 ms for its first: it imports masked arrays.

    Example:
        >>> import numpy
        >>> distinct(numpy.array([2.0, 1.0, 2.0])).tolist()
        [1.0, 2.0]
    """
    in_order = np.sort(numbers, axis=None)
    first = np.ones(len(in_order), np.bool_)
    first[1:] = in_order[1:] != in_order[:-1]
    return in_order[first]
