"""The options of commands that compute statistics of points."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from geoveil.analyst import STATISTICS, StatisticWord
from geoveil.cli.asking import Levels
from geoveil.cli.options import takes

_TAKES: dict[Any, Any] = {str: str | None, list: list[str] | None, Path: Path | None}


def _option(word: str, of: StatisticWord) -> tuple[Any, Any]:
    """Return the annotation and default of the option for a word."""
    if of.takes is bool:
        return Annotated[bool, typer.Option(f"--{word}", help=of.help)], False
    read = word == "districts"
    option = typer.Option(help=of.help, exists=read, dir_okay=not read)
    return Annotated[_TAKES[of.takes], option], None


_OPTIONS = {word.replace("-", "_"): _option(word, of) for word, of in STATISTICS.items()}


def asks_statistics(command: Callable[..., None]) -> Callable[..., None]:
    """Replace a command's argument `statistics` by the options for statistics."""
    return takes("statistics", _OPTIONS | {"quantile": (Levels, None)}, _said)(command)


def _said(**given: Any) -> dict[str, list[str]]:
    """Return the requested statistics' words and the text after each."""
    return {
        name.replace("_", "-"): said
        if isinstance(said, list)
        else []
        if said is True
        else [str(said)]
        for name, said in given.items()
        if said is not None and said is not False and said != []
    }
