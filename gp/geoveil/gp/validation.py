"""Checks that every constructor shares: return the checked value, or raise `ParameterError`."""

import math
from collections.abc import Collection, Iterable
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geoveil.gp.errors import ParameterError, PrivateValueError

_Choice = TypeVar("_Choice", bound=str)


def real(name: str, value: object, expected: str = "a finite number") -> float:
    """Return `value` as a float; refuse NaN, infinities, booleans and what is no number."""
    if isinstance(value, (bool, np.bool_, str, bytes)):
        raise ParameterError(name, value, expected)
    try:
        number = float(value)  # type: ignore[arg-type]  # what is no number raises, below
    except (TypeError, ValueError, OverflowError):
        raise ParameterError(name, value, expected) from None
    if not math.isfinite(number):
        raise ParameterError(name, value, expected)
    return number


LEAST, MOST = 1e-50, 1e50
"""Range of positive parameters."""
FARTHEST = 1e90
"""Largest coordinate of a point. Squares of quotients of such numbers are still numbers."""


def positive(name: str, value: object, unit: str = "") -> float:
    """Return `value` as a float > 0, not absurdly small or large."""
    expected = f"a finite number{' of ' + unit if unit else ''} > 0, in [{LEAST:g}, {MOST:g}]"
    number = real(name, value, expected)
    if not LEAST <= number <= MOST:
        raise ParameterError(name, value, expected)
    return number


def between(
    name: str,
    value: object,
    low: float,
    high: float,
    *,
    low_open: bool = False,
    high_open: bool = False,
) -> float:
    """Return `value` as a float in the interval from `low` to `high`."""
    expected = f"a number in {'(' if low_open else '['}{low:g}, {high:g}{')' if high_open else ']'}"
    number = real(name, value, expected)
    if (
        number < low
        or number > high
        or (low_open and number == low)
        or (high_open and number == high)
    ):
        raise ParameterError(name, value, expected)
    return number


def non_negative(name: str, value: object) -> float:
    """Return `value` as a float >= 0; infinity is permitted."""
    expected = "a number >= 0 (infinity is permitted)"
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value == math.inf:
        return math.inf
    number = real(name, value, expected)
    if number < 0:
        raise ParameterError(name, value, expected)
    return number


def numbers(name: str, value: object) -> tuple[float, ...]:
    """Return an iterable of finite numbers as a tuple."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise ParameterError(name, value, "a sequence of finite numbers")
    return tuple(real(f"{name}[{i}]", number) for i, number in enumerate(value))


def outputs(y: ArrayLike) -> NDArray[np.float64]:
    """Return public outputs as float64, any shape."""
    array = float_array(y)
    if array is None:
        raise ParameterError("y", y, "numbers")
    return array


def choice(name: str, value: _Choice, permitted: Collection[str]) -> _Choice:
    """Return `value` if it is one of `permitted`."""
    if not isinstance(value, str) or value not in permitted:
        raise ParameterError(name, value, "one of " + ", ".join(repr(p) for p in permitted))
    return value


def float_array(x: ArrayLike) -> NDArray[np.float64] | None:
    """Return x as float64, or None if it is no array of numbers.

    NumPy's own error would quote the value; as nothing is raised here, no error of ours can hold on
    to it as its context.
    """
    try:
        array = np.asarray(x)
        # Neither text that looks like numbers, nor truth values, nor complex numbers less a part.
        return array.astype(np.float64, copy=False) if array.dtype.kind in "iufO" else None
    except (TypeError, ValueError, OverflowError):
        return None


def point(x: ArrayLike, dimension: int) -> list[float]:
    """Return the coordinates of one private point.

    Raises:
        PrivateValueError: if it is not one finite point of that dimension.
    """
    coordinates = points(x, dimension).ravel().tolist()
    if len(coordinates) != dimension:
        raise PrivateValueError(f"one point of {dimension} finite coordinate(s)")
    return [float(c) for c in coordinates]


def points(x: ArrayLike, dimension: int) -> NDArray[np.float64]:
    """Return private points as float64: any shape for dimension 1, else (..., dimension).

    Raises:
        PrivateValueError: if a coordinate is not finite or the shape does not fit.
    """
    expected = f"numbers from -{FARTHEST:g} to {FARTHEST:g}"
    if dimension > 1:
        expected = f"coordinates of shape (n, {dimension}) or ({dimension},), {expected}"
    array = float_array(x)
    if array is None:
        raise PrivateValueError(expected)
    if dimension > 1 and (array.ndim == 0 or array.shape[-1] != dimension):
        raise PrivateValueError(expected)
    # The extremes need no array of their own. NaN is either of them, and compares false.
    if array.size and not (array.min() >= -FARTHEST and array.max() <= FARTHEST):
        raise PrivateValueError(expected)
    return array
