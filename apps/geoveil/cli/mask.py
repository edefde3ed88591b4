"""geoveil mask: exact noise on the columns of a file, for its holder."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from geoveil.analyst import (
    NOT_HIDDEN,
    RADIUS_M,
    all_given,
    area_of,
    id_of,
    left_out,
    mask_file,
    place_in,
    sidecar_of,
)
from geoveil.campaign import (
    Attribute,
    Field,
    FormCampaign,
    PlaceField,
    field_text,
    what_a_form_tells,
)
from geoveil.cli import options
from geoveil.cli.console import err, out
from geoveil.cli.form import fields_in
from geoveil.gp import GeoPrivacy, ParameterError


def mask(
    file: Annotated[
        Path,
        typer.Argument(
            exists=True,
            dir_okay=False,
            help="CSV, also from ODK or KoboToolbox (.csv, .tsv), GeoJSON (.geojson, .json) or"
            " GeoPackage (.gpkg), one row per person.",
        ),
    ],
    out_file: Annotated[
        Path,
        typer.Option("--out", "-o", help="The masked file, in the same format."),
    ],
    form: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="A form, .toml, whose fields are the columns to mask: numbers and places.",
        ),
    ] = None,
    place: Annotated[
        str,
        typer.Option(
            help="Without a form: the name of the masked place. In GeoJSON and GeoPackage it is the"
            " geometry."
        ),
    ] = "place",
    columns: Annotated[
        str | None,
        typer.Option(
            help="'LON,LAT': the columns of longitude and latitude, in a CSV that does not name"
            " them as ODK and KoboToolbox do."
        ),
    ] = None,
    epsilon: options.Epsilon = None,
    per: options.Per = None,
    center: Annotated[
        str | None, typer.Option(help="'LON,LAT' of the area's centre, a public fact.")
    ] = None,
    radius: options.Radius = None,
    drop_empty: Annotated[
        bool, typer.Option("--drop-empty", help="Leave out rows in which a value is missing.")
    ] = False,
) -> None:
    """Add exact noise to columns of a file that you hold, and describe the noise in a second file.

    'geoveil estimate OUT' and 'geoveil form ask OUT' then correct shares, densities and the like
    for the noise. This hides values from people who get the masked file, but not from anybody
    who has the original.

    Example: geoveil mask homes.csv --columns lon,lat --epsilon 1 --per 500 --center=2.35,48.86
    --radius 15000 --out masked.csv
    """
    if form is None:
        fields: tuple[Field, ...] = (_place(place, epsilon, per, center, radius),)
    else:
        left_out({"epsilon": epsilon, "per": per, "center": center}, "left out: the form says it")
        fields = fields_in(form)
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    made = FormCampaign(
        campaign_id=id_of(f"mask-{out_file.stem}"),
        title="Masked columns",
        fields=fields,
        opens=today - timedelta(days=1),
        closes=today,  # no more come: intervals are for a single look
    )
    placed = next((field for field in fields if isinstance(field, PlaceField)), fields[0])
    rows = mask_file(
        file,
        out_file,
        made,
        {} if columns is None else {placed.name: _pair(columns)},
        drop_empty=drop_empty,
    )
    out.tell_all(*(field_text(made, field) for field in fields))
    err.tell_all(*what_a_form_tells(made), *NOT_HIDDEN)
    out.tell(f"{rows:,} rows in {out_file}; which noise is on them says {sidecar_of(out_file)}")


def _place(
    name: str, epsilon: float | None, per: float | None, center: str | None, radius: float | None
) -> PlaceField:
    all_given({"epsilon": epsilon, "per": per, "center": center}, ", or --form in its place")
    assert epsilon is not None
    assert per is not None
    assert center is not None
    plane = area_of((), place_in("center", center), RADIUS_M if radius is None else radius)
    return PlaceField(
        attribute=Attribute(name=name, unit="metre", coordinates=plane),
        privacy=GeoPrivacy(epsilon, per, "metre"),
    )


def _pair(text: str) -> tuple[str, str]:
    first, comma, second = text.partition(",")
    if not (first and comma and second):
        raise ParameterError("columns", text, "LON,LAT: two names of columns")
    return first, second
