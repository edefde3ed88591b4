"""Checks that every constructor shares: return the checked value, or raise `ParameterError`."""

from __future__ import annotations

import math
import operator
from collections.abc import Collection, Iterable
from numbers import Integral
from typing import Any, TypeGuard, TypeVar

from geoveil.gp.arrays import ArrayLike, NDArray, is_array, np
from geoveil.gp.errors import ParameterError, PrivateValueError

_Choice = TypeVar("_Choice", bound=str)
_Item = TypeVar("_Item")


def _is_no_number(value: object) -> bool:
    """Return whether float() would accept a value that is not a real number."""
    if isinstance(value, (bool, str, bytes)):
        return True
    return is_array(value) and isinstance(value, (np.bool_, np.complexfloating, np.ndarray))


def real(name: str, value: object, expected: str = "a finite number") -> float:
    """Return `value` as a float; refuse NaN, infinities, booleans and everything but numbers.

    A fraction or decimal becomes the nearest double. An integer beyond all doubles is refused.
    """
    number = _nearest(name, value, expected)
    if isinstance(value, Integral) and int(value) != number:
        raise ParameterError(name, value, f"{expected} {HELD}")
    return number


def require_ends(of: str, least: float | None, most: float | None) -> None:
    """Refuse ends of a range that are not finite or not in order; None stands for no end.

    `of` is what an error names before `least` and `most`.
    """
    for name, end in (("least", least), ("most", most)):
        if end is not None:
            real(of + name, end)
    if least is not None and most is not None and not least < most:
        raise ParameterError(of + "most", most, f"more than least={least}")


def _nearest(name: str, value: object, expected: str) -> float:
    if type(value) is not float and _is_no_number(value):
        raise ParameterError(name, value, expected)
    try:
        number = float(value)  # type: ignore[arg-type]  # what is no number raises, below
    except (TypeError, ValueError, OverflowError):
        raise ParameterError(name, value, expected) from None
    if not math.isfinite(number):
        raise ParameterError(name, value, expected)
    return number


HELD = "that a double holds exactly (float() rounds to one)"
"""The requirement that a double holds a number exactly, for errors."""
LEAST, MOST = 1e-50, 1e50
"""Range of positive parameters."""
FARTHEST = 1e90
"""Largest coordinate of a point. Squares of quotients of such numbers are still numbers."""
PRIVATE_NUMBERS = f"made of numbers from -{FARTHEST:g} to {FARTHEST:g} {HELD}"
"""The requirement on private numbers, for errors that do not show them."""


def require_count(name: str, value: object, least: int = 1, most: int | None = None) -> int:
    """Return `value` if it is an integer from `least` to `most`, and not a truth value."""
    if (
        isinstance(value, bool)
        or not isinstance(value, int)
        or value < least
        or (most is not None and value > most)
    ):
        expected = f">= {least}" if most is None else f"from {least:,} to {most:,}"
        raise ParameterError(name, value, f"an integer {expected}")
    return value


def require_flag(name: str, value: object) -> None:
    """Refuse anything but True and False."""
    if not isinstance(value, bool):
        raise ParameterError(name, value, "True or False")


def require_kind(name: str, value: object, kind: Any, example: str = "") -> None:
    """Refuse values that are not of a class, or of one of `A | B`, as "an A, or a B"."""
    if not isinstance(value, kind):
        kinds = [each.__name__ for each in getattr(kind, "__args__", (kind,))]
        said = [f"{'an' if each[0] in 'AEIOU' else 'a'} {each}" for each in kinds]
        expected = ", or ".join(said).replace("a NoneType", "None")
        raise ParameterError(name, value, expected + (example and f", for example {example}"))


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


def factor(name: str, value: object) -> float:
    """Return `value` as a float > 1, not absurdly large."""
    expected = f"a finite number > 1, at most {MOST:g}"
    number = real(name, value, expected)
    if not 1 < number <= MOST:
        raise ParameterError(name, value, expected)
    return number


def non_negative(name: str, value: object) -> float:
    """Return the double nearest to a number >= 0; infinity is permitted."""
    expected = "a number >= 0 (infinity is permitted)"
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value == math.inf:
        return math.inf
    number = _nearest(name, value, expected)
    if number < 0:
        raise ParameterError(name, value, expected)
    return number


def numbers(name: str, value: object) -> tuple[float, ...]:
    """Return an iterable of finite numbers as a tuple."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise ParameterError(name, value, "a sequence of finite numbers")
    return tuple(real(f"{name}[{i}]", number) for i, number in enumerate(value))


def items(name: str, value: Iterable[_Item], kind: Any) -> tuple[_Item, ...]:
    """Return an iterable of objects of a class, or of one of `A | B`, as a tuple."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise ParameterError(name, value, f"a sequence of {getattr(kind, '__name__', kind)}")
    each = tuple(value)
    for i, item in enumerate(each):
        require_kind(f"{name}[{i}]", item, kind)
    return each


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
    """Return x as float64, or None if it is not an array of numbers; an error would quote it."""
    try:
        array = np.asarray(x)
        # Neither text that looks like numbers, nor truth values, nor complex numbers less a part.
        return array.astype(np.float64, copy=False) if array.dtype.kind in "iufO" else None
    except (TypeError, ValueError, OverflowError):
        return None


_EXACT = 2**53
"""The largest integer up to which every integer is a double."""


def is_plain(x: object) -> TypeGuard[float]:
    """Return whether x is a number of Python, finite or not, that a double holds exactly."""
    return type(x) is float or (type(x) is int and abs(x) <= _EXACT)


def exact_array(x: ArrayLike) -> NDArray[np.float64] | None:
    """Return x as float64, or None if it is not an array of numbers that doubles hold exactly.

    Rounded private numbers may lie farther apart than the true ones. NumPy would round 2^53 + 1
    beside 0.5, so elements of a list are checked one by one.
    """
    if is_plain(x):
        return np.array(x, dtype=np.float64)  # what most devices hold, in a tenth of the time
    try:
        given = np.asarray(x, dtype=None if hasattr(x, "__array__") else object)
        if given.dtype.kind == "O":
            return _exact_elements(given)
        if given.dtype.kind not in "iuf":
            return None
        array = given.astype(np.float64, copy=False)
        if not np.can_cast(given.dtype, np.float64):
            same = array.astype(given.dtype) == given
        elif given.dtype.kind == "f" or given.dtype.itemsize < array.dtype.itemsize:
            return array
        else:
            # From the largest integer on, the nearest double is beyond them, and has no way back.
            inside = array < float(np.iinfo(given.dtype).max)
            same = inside & (np.where(inside, array, 0).astype(given.dtype) == given)
    except (TypeError, ValueError, OverflowError):
        return None
    return array if same.all() else None


def _exact_elements(given: NDArray[np.object_]) -> NDArray[np.float64] | None:
    elements = given.ravel().tolist()
    if not set(map(type, elements)) <= {float, int}:
        elements = [_number(element) for element in elements]
    array = np.array(elements, dtype=np.float64)
    # Python compares a double with an integer, a fraction or a decimal without rounding it.
    same = all(map(operator.eq, array.tolist(), elements))
    return array.reshape(given.shape) if same else None


def _number(element: Any) -> Any:
    """Return an element as a number that Python compares exactly, or None."""
    if isinstance(element, (np.generic, np.ndarray)):
        return element.item() if element.dtype.kind in "iuf" else None
    return None if isinstance(element, (bool, str, bytes)) else element


def point(x: ArrayLike, dimension: int) -> list[float]:
    """Return the coordinates of one private point; `PrivateValueError` unless finite and of k."""
    given: tuple[Any, ...] = x if isinstance(x, tuple) else (x,)
    if len(given) == dimension and all(type(c) is float and abs(c) <= FARTHEST for c in given):
        return list(given)  # plain floats need no array
    coordinates: list[float] = points(x, dimension).ravel().tolist()
    if len(coordinates) != dimension:
        raise PrivateValueError(f"one point of {dimension} finite coordinate(s)")
    return coordinates


def points(x: ArrayLike, dimension: int) -> NDArray[np.float64]:
    """Return private points as float64: any shape for dimension 1, else (..., dimension).

    Raises:
        PrivateValueError: if a coordinate is not finite or no double, or the shape does not fit.
    """
    array = exact_array(x)
    if array is None or (dimension > 1 and array.shape[-1:] != (dimension,)):
        raise _not_points(dimension)
    # The extremes need no array of their own. NaN is either of them, and compares false.
    if array.size and not (array.min() >= -FARTHEST and array.max() <= FARTHEST):
        raise _not_points(dimension)
    return array


def _not_points(dimension: int) -> PrivateValueError:
    if dimension == 1:
        return PrivateValueError(PRIVATE_NUMBERS)
    shape = f"coordinates of shape (n, {dimension}) or ({dimension},)"
    return PrivateValueError(f"{shape}, {PRIVATE_NUMBERS}")
