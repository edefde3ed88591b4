"""geoveil form and mask: forms from XLSForm and back, and noise on the columns of a file."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from geoveil.analyst import (
    EXPORTED,
    NOT_HIDDEN,
    RADIUS_M,
    FormReports,
    PlannedForm,
    Wish,
    area_of,
    contributions,
    fields_of_mask,
    fields_of_toml,
    form_of_workbook,
    form_plan,
    form_reports_of,
    id_of,
    is_file_of_reports,
    left_out,
    mask_file,
    place_in,
    sample_of,
    sidecar_of,
    toml_of,
    whole_file,
    wishes_for,
    with_invited,
    workbook_of,
    write_answers,
)
from geoveil.campaign import Field, FormCampaign, PlaceField, field_text, what_a_form_tells
from geoveil.cli import options
from geoveil.cli.asking import Period, relates
from geoveil.cli.connection import Connection, analyst_at, connects
from geoveil.cli.console import err, out, print_json
from geoveil.cli.plan_text import print_form
from geoveil.cli.results import OutputFormat, formed
from geoveil.gp import ParameterError, validation

app = typer.Typer(
    help="Convert XLSForm workbooks of ODK or KoboToolbox to forms and back.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def fields_in(form: Path) -> tuple[Field, ...]:
    """Return the fields of a form in a TOML file."""
    try:
        return fields_of_toml(form.read_text(encoding="utf-8"))
    except (OSError, UnicodeError):
        raise ParameterError("form", str(form), "a file that can be read") from None


_Source = Annotated[
    str,
    typer.Argument(
        help=f"The id of a form's campaign; or a file, ending in {EXPORTED}, that 'geoveil"
        " campaign export' wrote of it; or a masked file."
    ),
]


@app.command("from")
def from_(
    workbook: Annotated[Path, typer.Argument(help="An XLSForm workbook, .xlsx.")],
    form: Annotated[Path, typer.Option("--out", "-o", help="The form to write.")] = Path(
        "form.toml"
    ),
    center: options.Center = None,
    radius: options.Radius = None,
) -> None:
    """Make a form from a workbook, for 'geoveil campaign create --form'.

    Two more columns of its sheet 'survey' say how each answer is protected: epsilon (a number, or
    'open' for options that are sent unperturbed) and per (a distance with its unit, as '8000
    dollar', or 'step' for options in order). Rows that can't be perturbed are left out and listed.
    """
    plane = area_of([], None if center is None else place_in("center", center), radius or RADIUS_M)
    read = form_of_workbook(workbook, plane)
    with whole_file("out", form) as beside:
        beside.write_text(toml_of(read.fields), encoding="utf-8")
    err.tell_all(*read.left_out)
    out.tell_all(*(f"{of.name}: {of.privacy or 'open, sent as it is'}" for of in read.fields))
    err.tell(f"wrote {form}: {len(read.fields)} fields of {read.title or workbook.name!r}")


@app.command()
def to(
    form: Annotated[Path, typer.Argument(help="A form, .toml.")],
    workbook: Annotated[Path, typer.Argument(help="The XLSForm workbook to write, .xlsx.")],
    title: Annotated[str, typer.Option(help="The form's title.")] = "",
) -> None:
    """Write a form as an XLSForm workbook."""
    fields = fields_in(form)
    with whole_file("workbook", workbook) as beside:
        workbook_of(fields, beside, title)
    err.tell(f"wrote {workbook}: {len(fields)} fields")


@app.command()
@connects
def data(
    campaign_id: _Source,
    file: Annotated[Path, typer.Argument(help="The CSV file to write.")],
    *,
    period: Period = None,
    connection: Connection,
) -> None:
    """Write the reports of a form as a CSV file in the format of XLSForm data.

    Each column has the name of a field. Answers are the perturbed ones that devices sent: ask them
    with 'geoveil form ask', which takes the noise off, and count no options here.
    """
    reports = _reports(campaign_id, period, connection)
    write_answers(reports, file)
    err.tell(f"wrote {file}: {reports.n:,} perturbed reports")


@app.command("contributions")
@connects
def contributions_(
    campaign_id: _Source,
    file: Annotated[Path, typer.Argument(help="The CSV file to write.")],
    *,
    products: Annotated[
        bool, typer.Option("--products", help="Write the product of every two columns as well.")
    ] = False,
    period: Period = None,
    connection: Connection,
) -> None:
    """Write the contributions of each report as a CSV file: unbiased numbers, for R and the like.

    A row is a person, in the order of the file. A mean of a column, with any survey weights, is an
    unbiased estimate. A product of two columns of one field is not: take it from --products.
    """
    frame = contributions(_reports(campaign_id, period, connection), products=products)
    with whole_file("file", file) as beside:
        frame.to_csv(beside, index=False, lineterminator="\n")
    err.tell(f"wrote {file}: {len(frame):,} rows of {len(frame.columns)} columns")


def _reports(campaign_id: str, period: int | None, connection: Connection) -> FormReports:
    """Return the reports of a campaign on a server, or from a file."""
    if is_file_of_reports(campaign_id):
        return form_reports_of(Path(campaign_id), period)
    with analyst_at(connection) as analyst:
        return form_reports_of(analyst.export(campaign_id, period), period)


@app.command()
@connects
@relates
@formed
def ask(
    campaign_id: _Source,
    *,
    wishes: list[Wish],
    confidence: options.Confidence = 0.95,
    invited: Annotated[
        str | None,
        typer.Option(
            metavar="N or OPTION=N,...",
            help="The number of people who were invited: adds the worst-case interval to shares and"
            " tables. Or the number of each option's people, with one --shares: adds the rate at"
            " which they answered.",
        ),
    ] = None,
    period: Period = None,
    form: OutputFormat,
    connection: Connection,
) -> None:
    """Print statistics of a form's fields, and of the relations between them, from its reports.

    To use a number for groups, cut it into bands: income:50000|100000. By default, every field is
    shown separately.

    Example: geoveil form ask household --table rents,income:50000|100000
    Example: geoveil form ask household --regression "logistic: rents=yes ~ age + income"
    """
    validation.between("confidence", confidence, 0, 1, low_open=True, high_open=True)
    reports = _reports(campaign_id, period, connection)
    for wish in wishes:
        left_out({"statistic": wish.error and wish.text}, "without '@', which is for a plan")
    results = [
        reports.ask(wish.statistic, confidence)
        for wish in wishes or wishes_for(reports.campaign.fields)
    ]
    form.show(*(results if invited is None else with_invited(results, invited)))


def of_form(
    form: Path | None,
    prior_sample: Path | None,
    wishes: Sequence[Wish],
    epsilon_sum: float | None,
    participants: int | None,
    out_file: Path | None,
    *,
    as_json: bool,
) -> bool:
    """Print and write the plan of a form; return whether one was given."""
    if form is None:
        left_out(
            {
                "prior-sample": prior_sample,
                "epsilon-sum": epsilon_sum,
                "statistics": [wish.text for wish in wishes] or None,
            },
            "left out where there is no --form",
        )
        return False
    fields = fields_in(form)
    if prior_sample is None:
        raise ParameterError("prior-sample", None, "given, with --form")
    if participants is None and not any(wish.error for wish in wishes):
        raise ParameterError("participants", None, "given, or a statistic with an error: '@ERROR'")
    with err.status("planning"):
        sample = sample_of(fields, prior_sample)
        planned = PlannedForm(fields, sample, tuple(wishes) or tuple(wishes_for(fields)))
        if epsilon_sum is not None:
            planned = planned.shared_out(epsilon_sum)
        report = form_plan(planned, participants, epsilon_sum)
    if out_file is not None:
        with whole_file("out", out_file) as beside:
            beside.write_text(toml_of(planned.fields), encoding="utf-8")
        err.tell(f"wrote {out_file}: a form for geoveil campaign create --form")
    if as_json:
        print_json(report)
    else:
        print_form(report)
    return True


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
    at = None if center is None else place_in("center", center)
    area = RADIUS_M if radius is None else radius
    answers = None if form is None else fields_in(form)
    fields = fields_of_mask(answers, place, epsilon, per, at, area)
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
    out.tell(f"{rows:,} rows in {out_file}; their noise is described in {sidecar_of(out_file)}")


def _pair(text: str) -> tuple[str, str]:
    first, comma, second = text.partition(",")
    if not (first and comma and second):
        raise ParameterError("columns", text, "LON,LAT: two names of columns")
    return first, second
