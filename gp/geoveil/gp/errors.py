"""Errors of the whole system. No message ever holds a private value, an exact result or a draw.

    GeoVeilError
    ├── ParameterError     a public parameter is wrong: names it, its value and what is permitted
    ├── PrivateValueError  a private value is wrong: says what is permitted, never the value
    ├── ContradictionError reports that no people can produce through the stated mechanism
    └── UnsupportedError   no mathematics behind the combination: says why, and what to use
    NotPrivateWarning      an operation for experiments ran where people's values may be
    └── PublishedCalibrationWarning  a published guarantee that does not hold (geoveil.selection)

The first three are also `ValueError`s.
"""


class GeoVeilError(Exception):
    """Root of every error that geoveil raises."""


class ParameterError(GeoVeilError, ValueError):
    """A public parameter (`name`, `value`) is outside its permitted range (`expected`).

    Every argument outside the range that its docstring states raises it.

    Example:
        >>> str(ParameterError("epsilon", -1, "a finite number > 0"))
        'epsilon must be a finite number > 0, got epsilon=-1'
    """

    def __init__(self, name: str, value: object, expected: str) -> None:
        super().__init__(name, value, expected)
        self.name = name
        self.value = value
        self.expected = expected

    def __str__(self) -> str:
        missing = self.value is None and self.expected.startswith("given")
        got = "" if missing else f", got {self.name}={self.value!r}"
        return f"{self.name} must be {self.expected}{got}"


class PrivateValueError(GeoVeilError, ValueError):
    """A private value can't be used; the message says what is `expected`, never the value.

    Example:
        >>> str(PrivateValueError("a finite number of dollars"))
        'the value must be a finite number of dollars (the value itself is not shown)'
    """

    def __init__(self, expected: str) -> None:
        super().__init__(expected)
        self.expected = expected

    def __str__(self) -> str:
        return f"the value must be {self.expected} (the value itself is not shown)"


class UnsupportedError(GeoVeilError):
    """The requested combination has no proof or no finite answer; the message names others."""


class ContradictionError(GeoVeilError):
    """No people can have produced these reports through the stated mechanism."""


class NotPrivateWarning(UserWarning):
    """An operation for experiments ran in a process that may hold people's values.

    `simulate` ran in a process that holds the device's SDK, or a release took predictable bits.
    """
