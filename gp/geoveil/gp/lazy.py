"""Attributes computed once, at their first use, for classes that devices use."""

from collections.abc import Callable
from contextlib import nullcontext
from functools import cached_property
from typing import Any, TypeVar

_Value = TypeVar("_Value")


class lazy(cached_property[_Value]):  # noqa: N801  (used as a decorator, like its base)
    """A `functools.cached_property` without Python 3.11's lock, which a fork may leave locked.

    Two threads may both compute the same value.
    """

    def __init__(self, function: Callable[[Any], _Value]) -> None:
        super().__init__(function)
        self.lock = nullcontext()
