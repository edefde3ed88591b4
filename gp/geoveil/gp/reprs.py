"""Objects that show their arguments: eval(repr(x)) == x, if the arguments have a repr.

Python's own `repr` fails for infinite floats, enumerations and long arrays.
"""

import inspect
import math
from collections.abc import Mapping
from dataclasses import fields
from decimal import Context
from enum import Enum
from functools import cache
from typing import Any


def repr_of(value: object) -> str:
    """Return a Python expression for a value.

    Example:
        >>> repr_of((1, math.inf, {"a": -math.inf}))
        "(1, float('inf'), {'a': float('-inf')})"
    """
    if isinstance(value, float):
        return repr(float(value)) if math.isfinite(value) else f"float('{value}')"
    if isinstance(value, tuple) and type(value) is tuple:
        return f"({', '.join(map(repr_of, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{repr_of(k)}: {repr_of(v)}' for k, v in value.items())}}}"
    if callable(value) and hasattr(value, "__name__"):
        return str(value.__name__)
    return repr(value)


def six_digits(x: float, rounding: str) -> str:
    """Return a number to six digits, with a rounding of `decimal` for all up to the twelfth.

    Example:
        >>> from decimal import ROUND_CEILING
        >>> six_digits(1 / 3, ROUND_CEILING), six_digits(0.1 + 0.2, ROUND_CEILING)
        ('0.333334', '0.3')
    """
    return f"{float(Context(prec=6, rounding=rounding).create_decimal(f'{x:.12g}')):g}"


@cache
def _parameters(kind: Any) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(kind).parameters


class ReprByArguments:
    """A value that shows its constructor's arguments (a dataclass its fields) except defaults."""

    __slots__ = ()

    def _arguments(self) -> Mapping[str, Any]:
        """Return the arguments of the constructor, by name, in their order."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.init}  # type: ignore[arg-type]  # of a dataclass

    def _given(self) -> dict[str, Any]:
        kind: Any = type(self)
        parameters = _parameters(kind)
        return {
            name: value
            for name, value in self._arguments().items()
            if type(value) is not type(parameters[name].default)
            or value != parameters[name].default
        }

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={repr_of(value)}" for name, value in self._given().items())
        return f"{type(self).__name__}({given})"


def enum_repr(self: Enum) -> str:
    """Return the Python expression of an enumeration's member, for its class's `__repr__`."""
    return f"{type(self).__name__}.{self.name}"


class ValueObject(ReprByArguments):
    """A class, not a dataclass, whose objects are equal if their arguments are.

    `_arguments` names them, by default the attributes of the same names.
    """

    def _arguments(self) -> Mapping[str, Any]:
        kind: Any = type(self)
        return {name: getattr(self, name) for name in _parameters(kind)}

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self._given() == other._given()

    def __hash__(self) -> int:
        return hash((type(self), tuple(self._given().items())))
