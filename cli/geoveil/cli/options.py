"""Options that several commands have, with one meaning each."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from geoveil.analyst.questions import AnalystQuestion, questions_in

_REPEATED = " May be repeated."
Threshold = Annotated[
    list[float] | None, typer.Option(help=f"Share of people above this value.{_REPEATED}")
]
Range = Annotated[
    list[str] | None,
    typer.Option("--range", help=f"Share between two values: 'LOW,HIGH'.{_REPEATED}"),
]
Place = Annotated[
    list[str] | None,
    typer.Option(
        help="Density at 'longitude,latitude' or 'label=longitude,latitude', or at 'x,y' where"
        f" people hold pairs of numbers.{_REPEATED}"
    ),
]
Circle = Annotated[
    list[str] | None,
    typer.Option(
        help=f"Share within 'longitude,latitude,radius', the radius in metres.{_REPEATED}"
    ),
]
Region = Annotated[
    list[Path] | None,
    typer.Option(
        exists=True,
        dir_okay=False,
        help=f"Share inside the polygons of a GeoJSON file.{_REPEATED}",
    ),
]
Center = Annotated[
    str | None,
    typer.Option(help="'longitude,latitude' of the area's centre; the first place by default."),
]
Radius = Annotated[
    float | None, typer.Option(help="Radius of the area, in metres; 60000 by default.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead.")]


def asked(
    threshold: Sequence[float] | None,
    range_: Sequence[str] | None,
    place: Sequence[str] | None,
    circle: Sequence[str] | None,
    region: Sequence[Path] | None,
) -> list[AnalystQuestion]:
    """Return the questions that these options ask."""
    return questions_in(
        {
            "threshold": [repr(at) for at in threshold or ()],
            "range": range_ or (),
            "place": place or (),
            "circle": circle or (),
            "region": region or (),
        }
    )
