"""The shared options of commands that ask questions."""

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from geoveil.analyst import (
    LAST_PERIOD,
    NAME_PROPERTY,
    RELATIONS,
    STATISTICS,
    StatisticFamily,
    Wish,
    questions_in,
    wish_in,
)
from geoveil.campaign import QUERIES
from geoveil.cli.options import takes
from geoveil.gp import ParameterError

_REPEATED = " May be repeated."
_FAMILIES = ", ".join(
    [name for name, family in QUERIES.built_in.items() if not family.of_points] + QUERIES.added
)
Levels = Annotated[
    list[str] | None,
    typer.Option("--quantile", help=STATISTICS["quantile"].summary),
]
_QUESTIONS: dict[str, tuple[Any, Any]] = {
    "threshold": (
        Annotated[
            list[float] | None, typer.Option(help=f"Share of people above this value.{_REPEATED}")
        ],
        None,
    ),
    "range": (
        Annotated[
            list[str] | None,
            typer.Option("--range", help=f"Share between two values: 'LOW,HIGH'.{_REPEATED}"),
        ],
        None,
    ),
    "place": (
        Annotated[
            list[str] | None,
            typer.Option(
                help="Density at 'LON,LAT' or 'LABEL=LON,LAT', a longitude and a latitude, or at"
                f" 'X,Y' where people hold pairs of numbers.{_REPEATED}"
            ),
        ],
        None,
    ),
    "circle": (
        Annotated[
            list[str] | None,
            typer.Option(help=f"Share within 'LON,LAT,RADIUS', the radius in metres.{_REPEATED}"),
        ],
        None,
    ),
    "region": (
        Annotated[
            list[Path] | None,
            typer.Option(
                exists=True,
                dir_okay=False,
                help=f"Share inside the polygons of a GeoJSON file.{_REPEATED}",
            ),
        ],
        None,
    ),
    "name_property": (
        Annotated[
            str | None,
            typer.Option(
                help="The property that names the polygons or points of GeoJSON files; 'name' by"
                " default."
            ),
        ],
        None,
    ),
    "query": (
        Annotated[
            list[str] | None,
            typer.Option(
                help=f"Mean of a query as it is: 'FAMILY:A=1,B=2', of {_FAMILIES}.{_REPEATED}"
            ),
        ],
        None,
    ),
}
"""Name → annotation and default."""
Words = Mapping[str, Sequence[Any]]
"""Word of the vocabulary → the texts after each of its uses."""
Period = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=LAST_PERIOD,
        help="The period of a recurring campaign, counted from 0; all by default.",
    ),
]


def asks(command: Callable[..., None]) -> Callable[..., None]:
    """Replace a command's argument `words` by the options for questions.

    An error about one of the questions names the option that asked it.
    """

    @wraps(command)
    def run(**given: Any) -> None:
        try:
            command(**given)
        except ParameterError as error:
            word = _that_asks(given["words"], error.value) if error.name == "question" else None
            if word is None:
                raise
            raise ParameterError(f"--{word}", error.value, error.expected) from error.__cause__

    return takes("words", _QUESTIONS, _words)(run)


def _that_asks(words: Words, label: object) -> str | None:
    """Return the word of the question with this label, or None."""
    named = {word: said for word, said in words.items() if word == NAME_PROPERTY}
    said = ((word, text) for word, texts in words.items() if word not in named for text in texts)
    return next(
        (w for w, text in said if label in [q.label for q in questions_in({w: [text]} | named)]),
        None,
    )


def _words(*, name_property: str | None, **given: Sequence[Any] | None) -> Words:
    words = {word: said for word, said in given.items() if said}
    return words if name_property is None else words | {NAME_PROPERTY: [name_property]}


def _option(word: str, of: StatisticFamily) -> tuple[Any, Any]:
    """Return the annotation and default of the option for a statistic."""
    kind: Any = of.takes
    option = typer.Option(f"--{word}", help=of.summary, exists=word == "districts", dir_okay=False)
    return Annotated[kind | None, option], False if kind is bool else None


def _statistics(*, statistic: str | None, **given: Any) -> dict[str, list[str]]:
    """Return the requested statistics' names and the text after each."""
    name, _, parameters = (statistic or "").partition(":")
    return {
        word.replace("_", "-"): said
        if isinstance(said, list)
        else []
        if said is True
        else [str(said)]
        for word, said in given.items()
        if said not in (None, False, [])
    } | ({} if statistic is None else {name: [parameters]})


def _wishes(**given: Sequence[str] | None) -> list[Wish]:
    return [
        wish_in(name.replace("_", "-"), text)
        for name, texts in given.items()
        for text in texts or ()
    ]


asks_statistics = takes(
    "statistics",
    {word.replace("-", "_"): _option(word, of) for word, of in STATISTICS.built_in.items()}
    | {
        "statistic": (
            Annotated[
                str | None,
                typer.Option(
                    help="Statistic of another package: 'NAME:A=1,B=2', of"
                    f" {', '.join(STATISTICS.added) or 'none that is installed'}; NAME alone says"
                    " what its parameters are.",
                    autocompletion=lambda: STATISTICS.added,
                ),
            ],
            None,
        )
    },
    _statistics,
)
"""Replaces a command's argument `statistics` by the options for statistics."""
relates = takes(
    "wishes",
    {
        word.replace("-", "_"): (
            Annotated[list[str] | None, typer.Option(metavar=of.takes, help=of.help)],
            None,
        )
        for word, of in RELATIONS.items()
    },
    _wishes,
)
"""Replaces a command's argument `wishes` by the options for statistics of forms."""
