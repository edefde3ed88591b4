"""Refuse settings that are missing, or in conflict with others."""

from collections.abc import Mapping

from geoveil.gp import ParameterError


def all_given(needed: Mapping[str, object], unless: str = "") -> None:
    """Raise an error that names all missing options.

    Args:
        needed: name of an option → its value, or None.
        unless: when they are not needed, as part of a sentence.

    Example:
        >>> all_given({"per": None, "epsilon": 1.0, "prior": None})
        Traceback (most recent call last):
        geoveil.gp.errors.ParameterError: per must be given, and so must --prior
    """
    missing = [name for name, given in needed.items() if given is None]
    if missing:
        others = ", ".join(f"--{name}" for name in missing[1:])
        also = f", and so must {others}" if others else ""
        raise ParameterError(missing[0], None, f"given{also}{unless}")


def left_out(given: Mapping[str, object], expected: str) -> None:
    """Refuse the first of some options that was given.

    Args:
        given: name of an option → its value; None, or False for a flag, if it was not given.
        expected: the end of the error's message.

    Example:
        >>> left_out({"by": None, "top": 0}, "left out beside --plan")
        Traceback (most recent call last):
        geoveil.gp.errors.ParameterError: top must be left out beside --plan, got top=0
    """
    for name, value in given.items():
        if value is not None and value is not False:
            raise ParameterError(name.replace("_", "-"), value, expected)
