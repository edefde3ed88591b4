"""Errors of the library, in the words of the command line."""

import logging
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from traceback import extract_tb
from typing import Any, get_args, get_type_hints

import typer

from geoveil.gp import GeoVeilError, ParameterError

_ALSO_CALLED = {
    "target": "server",
    "campaign_id": "id",
    "levels": "quantile",
    "edges": "histogram",
    "share": "top-share",
    "count": "top",
    "n": "participants",
    "prior": "people",
    "source": "prior people",
    "columns": "prior-column value column",
    "weights": "weights prior-weights weight",
    "file": "file plan out",
    "tokens_file": "tokens-file file",
    "authority": "folder",
    "address": "port host",
    "signing key": "sign-key",
    "attribute.name": "attribute",
    "attribute.unit": "unit",
    "attribute.least": "least",
    "attribute.most": "most",
    "mechanism.dimension": "dimension",
    "readings.cohorts": "cohorts",
    "radius_m": "radius",
    "floor": "ratios-from",
    "factor": "per",
    "privacy.delta": "delta",
    "privacy.reach": "reach",
}
"""Name of a parameter in the library → the options that set it in commands."""
_PLAIN = {
    "float_parsing": "{input!r} is not a number: write it like 100000 or 0.5, without commas or"
    " a unit",
    "int_parsing": "{input!r} is not a whole number: write it like 20000, without commas or a unit",
    "int_parsing_size": "{input} has too many digits",
    "greater_than_equal": "{input} is less than {ge}, the least permitted",
    "less_than_equal": "{input} is more than {le}, the most permitted",
    "bool_parsing": "{input!r} is neither true nor false",
    "value_error": "{error}",
}
"""Type of a Pydantic error → the message about the typed text."""
_USAGE_ERROR: type[Exception] = typer.BadParameter.__mro__[1]
"""Click's errors for unreadable commands, whether Typer requires Click or contains it."""


def tell_plainly(command: Any) -> None:
    """Let a command report errors in the words of the command line.

    One about an option names it as it is typed; one that the code of a --module raises says so, in
    which line. Each is an error that a command says in one line.

    Args:
        command: of Click; its callback is replaced.
    """
    if hasattr(command, "commands"):  # its subcommands do
        return
    _show_plainly(command)
    run = command.callback
    names = {_spelling(parameter): parameter.name for parameter in command.params}

    @wraps(run)
    def told(*args: Any, **given: Any) -> Any:
        typed = {spelled: given.get(name) for spelled, name in names.items()}
        try:
            return run(*args, **given)
        except ParameterError as error:
            spelled = _set_by(error, typed)
            if spelled is None:
                _note(error, typed)
                raise
            raise ParameterError(spelled, error.value, error.expected) from error.__cause__
        except (GeoVeilError, OSError) as error:
            _note(error, typed)
            raise
        except Exception as error:
            module = given.get("module")
            line = None if module is None else _line_in(Path(module), error)
            if line is None:
                raise
            why = f"{type(error).__name__}: {error}"
            raise ParameterError(
                "--module", str(module), f"a Python file that runs; line {line} raises {why}"
            ) from error

    command.callback = told


def _set_by(error: ParameterError, typed: Mapping[str, Any]) -> str | None:
    """Return the option or argument that set an error's parameter, as typed; None if none did.

    One of several numbers, such as `edges[0]`, is set by what sets them all.
    """
    whole = error.name.partition("[")[0]
    own = "--" + whole.replace("_", "-")
    missing = error.value is None and not _given(typed.get("--config"))  # else perhaps in there
    if own in typed and (_given(typed[own]) or missing):
        return own
    there = [
        spelling
        for name in _ALSO_CALLED.get(whole, "").split()
        for spelling in (f"--{name}", name)
        if spelling in typed
    ]
    ends = own[1:]
    same = [said for said, value in typed.items() if said.endswith(ends) and value == error.value]
    given = [spelling for spelling in (*there, *same) if _given(typed[spelling])]
    return next(iter(given or ([] if _given(error.value) else there)), None)


def _note(error: Exception, typed: Mapping[str, Any]) -> None:
    """Add to an error the option that it quotes, unless it names one."""
    text = f"{error} {getattr(error, 'filename', '')!r}"
    quoted = [
        (f"'{part}'" in text, len(part), spelled)
        for spelled, value in typed.items()
        if spelled.startswith("--") and _given(value)
        for part in _parts(value)
        if _quotes(text, spelled, part)
    ]
    if quoted and (best := max(quoted)[-1]) not in text:
        error.add_note(f"({best})")


def _quotes(text: str, spelled: str, part: str) -> bool:
    if f"'{part}'" in text or f"{spelled[2:].replace('-', '_')}={part}" in text:
        return part != ""
    return len(part) > 3 and re.search(rf"(?<!\w){re.escape(part)}(?!\w)", text) is not None


def _parts(value: Any) -> Iterator[str]:
    """Yield the text of an option's value, and its parts between marks."""
    for item in value if isinstance(value, list | tuple) else [value]:
        yield from (str(item), *re.split("[:,=]", str(item)))


def _given(value: object) -> bool:
    return not (value is None or value is False or value == [] or value == ())


def refuse_empty_texts(command: Any) -> None:
    """Let a command refuse "" as a path or a text, unless that is its default.

    A path would be read as ".", the folder that the command is run in; a text, as no text.

    Args:
        command: of Click; its parameters are changed.
    """
    hints = {} if command.callback is None else get_type_hints(command.callback)
    for parameter in command.params:
        kinds = set(_kinds(hints.get(parameter.name)))
        if kinds & {Path, str} and parameter.default != "":
            expected = "the path of a file or folder" if Path in kinds else "a text"
            parameter.process_value = _unless_empty(
                parameter.process_value, _spelling(parameter), expected
            )


def _kinds(hint: object) -> Iterator[object]:
    """Yield a type and its component types: Path of `list[Path] | None`."""
    yield hint
    for part in get_args(hint):
        yield from _kinds(part)


def _spelling(parameter: Any) -> str:
    """Return the typed form of a parameter: its long option, or the name of an argument."""
    names: list[str] = [*parameter.opts, parameter.name]
    return next((said for said in names if said.startswith("--")), names[-1])


def _unless_empty(
    read: Callable[[Any, Any], Any], name: str, expected: str
) -> Callable[[Any, Any], Any]:
    @wraps(read)
    def checked(context: Any, said: Any) -> Any:
        if said == "" or (isinstance(said, list | tuple) and "" in said):
            raise ParameterError(name, "", f"{expected}, which is not empty")
        return read(context, said)

    return checked


@contextmanager
def for_operators() -> Iterator[None]:
    """Report an error once, without the advice to "send again later", which is for callers."""
    from geoveil.aggregator import Code, ServiceError

    logging.getLogger("geoveil").addHandler(logging.NullHandler())
    try:
        yield
    except ServiceError as error:
        raise ServiceError(Code.DATABASE_UNUSABLE, error.detail) from error


def _show_plainly(command: Any) -> None:
    """Let a command show a refused text, and say what is permitted."""
    parse = command.make_context
    of_two = {parameter.opts[0] for parameter in command.params if parameter.nargs == 2}

    @wraps(parse)
    def parsed(*args: Any, **given: Any) -> Any:
        try:
            return parse(*args, **given)
        except _USAGE_ERROR as raised:
            error: Any = raised
            param = getattr(error, "param", None)
            option = param.opts[0] if param else getattr(error, "option_name", None)
            two = f"write two numbers with a blank between them, like {option} 100 250"
            for problem in getattr(error.__cause__, "errors", tuple)():
                of_one = _PLAIN.get(problem["type"], "{msg}")
                plain = f"{{input!r}} is no number: {two}" if option in of_two else of_one
                error.message = plain.format_map(problem | problem.get("ctx", {}))
            if param is None and option in of_two:  # there was one, or none
                error.message = f"{error.message.rstrip('.')}: {two}"
            raise

    command.make_context = parsed


def _line_in(file: Path, error: BaseException) -> int | None:
    """Return the last line of a file in an error's traceback, here or in another process."""
    path = str(file.resolve())
    here = [
        frame.lineno
        for frame in extract_tb(error.__traceback__)
        if str(Path(frame.filename).resolve()) == path
    ]
    elsewhere = re.findall(
        rf'File "[^"]*{re.escape(file.name)}", line ([0-9]+)', str(error.__cause__)
    )
    return next(reversed(here or [int(line) for line in elsewhere]), None)
