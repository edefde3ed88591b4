"""Options of the commands that ask statistics of points."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from geoveil.cli.asking import Levels
from geoveil.cli.options import takes

_STATISTICS: dict[str, tuple[Any, Any]] = {
    "mean": (Annotated[bool, typer.Option("--mean", help="Mean of the values.")], False),
    "geometric_mean": (
        Annotated[
            bool,
            typer.Option(
                "--geometric-mean",
                help="Geometric mean of values that are compared by ratio, which have no mean.",
            ),
        ],
        False,
    ),
    "quantile": (Levels, None),
    "curve": (
        Annotated[
            bool,
            typer.Option(
                "--curve", help="Distribution function, with a band that holds all of it."
            ),
        ],
        False,
    ),
    "smoothed": (
        Annotated[
            bool,
            typer.Option(
                "--smoothed",
                help="Distribution function by expectation-maximisation with smoothing: nearer"
                " where people are spread smoothly, but biased, and its band leaves the bias out."
                " All reports are fetched.",
            ),
        ],
        False,
    ),
    "density": (
        Annotated[bool, typer.Option("--density", help="Density of the values, with a band.")],
        False,
    ),
    "histogram": (
        Annotated[
            str | None,
            typer.Option(help="Shares between edges: '25000,50000,100000', and beyond them."),
        ],
        None,
    ),
    "gini": (Annotated[bool, typer.Option("--gini", help="Gini coefficient.")], False),
    "top_share": (
        Annotated[
            str | None,
            typer.Option(help="Share of the total that this share of the people holds: 0.1."),
        ],
        None,
    ),
    "map": (
        Annotated[
            Path | None,
            typer.Option(help="GeoJSON file to write: the density of people, on a grid of places."),
        ],
        None,
    ),
    "districts": (
        Annotated[
            Path | None,
            typer.Option(
                exists=True,
                dir_okay=False,
                help="Share in each polygon of a GeoJSON file, which must not overlap, and"
                " elsewhere.",
            ),
        ],
        None,
    ),
    "nearest": (
        Annotated[
            list[str] | None,
            typer.Option(
                help="Share to whom this place is the nearest: 'LABEL=LON,LAT', twice or more;"
                " or a GeoJSON file of points.",
            ),
        ],
        None,
    ),
}
"""Name → annotation and default."""


def asks_statistics(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that ask statistics, in place of its argument `statistics`."""
    return takes("statistics", _STATISTICS, _said)(command)


def _said(**given: Any) -> dict[str, list[str]]:
    """Return the words for statistics that options ask for, and what is written after each."""
    return {
        name.replace("_", "-"): said
        if isinstance(said, list)
        else []
        if said is True
        else [str(said)]
        for name, said in given.items()
        if said is not None and said is not False and said != []
    }
