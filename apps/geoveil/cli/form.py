"""geoveil form: forms from XLSForm, the format of ODK and KoboToolbox, and back."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from geoveil.analyst import (
    RADIUS_M,
    CrossTable,
    FormStatistic,
    Histogram,
    Mean,
    MeanBy,
    MeanMap,
    Option,
    PartialCorrelation,
    Parts,
    QuantileBy,
    Regression,
    Shares,
    area_of,
    fields_of_toml,
    form_of_workbook,
    form_reports_of,
    place_in,
    toml_of,
    whole_file,
    workbook_of,
)
from geoveil.campaign import CategoryField, Field, FormCampaign, NumberField, OrdinalField
from geoveil.cli import options
from geoveil.cli.asking import Period
from geoveil.cli.connection import Connection, analyst_at, connects
from geoveil.cli.console import err, out
from geoveil.cli.results import OutputFormat, formed
from geoveil.cli.sources import EXPORTED
from geoveil.gp import ParameterError, validation

app = typer.Typer(
    help="Turn XLSForm workbooks of ODK or KoboToolbox into forms, and forms into workbooks.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def fields_in(form: Path) -> tuple[Field, ...]:
    """Return the fields of a form in a TOML file."""
    try:
        text = form.read_text(encoding="utf-8")
    except (OSError, ValueError):
        raise ParameterError("form", str(form), "a file that can be read") from None
    return fields_of_toml(text)


@app.command("from")
def from_(
    workbook: Annotated[Path, typer.Argument(help="An XLSForm workbook, .xlsx.")],
    form: Annotated[Path, typer.Option("--out", "-o", help="The form to write.")] = Path(
        "form.toml"
    ),
    center: options.Center = None,
    radius: options.Radius = None,
) -> None:
    """Make a form of a workbook, for geoveil campaign create --form.

    Two columns more of its sheet 'survey' say how each answer is protected: epsilon (a number, or
    'open' for options that are sent as they are) and per (a distance with its unit, as '8000
    dollar', or 'step' for options in order). What can't be perturbed is left out, row by row.
    """
    plane = area_of([], None if center is None else place_in("center", center), radius or RADIUS_M)
    read = form_of_workbook(workbook, plane)
    with whole_file("out", form) as beside:
        beside.write_text(toml_of(read.fields), encoding="utf-8")
    for sentence in read.left_out:
        err.tell(sentence)
    for field in read.fields:
        cost = "open, sent as it is" if field.privacy is None else str(field.privacy)
        out.tell(f"{field.name}: {cost}")
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
@formed
def ask(
    campaign_id: Annotated[
        str,
        typer.Argument(
            help=f"The id of a form's campaign; or a file, ending in {EXPORTED}, that 'geoveil"
            " campaign export' wrote of it."
        ),
    ],
    *,
    shares: Annotated[
        list[str] | None,
        typer.Option(metavar="FIELD", help="Share of each option, with a joint band."),
    ] = None,
    mean: Annotated[
        list[str] | None,
        typer.Option(metavar="FIELD", help="Mean of a number, or of the scores 1, 2, …"),
    ] = None,
    table: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FIELD,FIELD[,FIELD]", help="Cross-table of two or three fields, with a test."
        ),
    ] = None,
    mean_by: Annotated[
        list[str] | None,
        typer.Option(metavar="NUMBER,FIELD", help="Mean of a number in each group."),
    ] = None,
    median_by: Annotated[
        list[str] | None,
        typer.Option(metavar="NUMBER,FIELD", help="Median of a number in each group."),
    ] = None,
    correlation: Annotated[
        list[str] | None,
        typer.Option(
            metavar="A,B[,GIVEN...]", help="Correlation of two numbers, or scores, given others."
        ),
    ] = None,
    regression: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[MODEL:]Y~X+X...",
            help="Regression: linear, or after 'logistic:', 'poisson:', 'median:'; FIELD=OPTION is"
            " whether a person chose it.",
        ),
    ] = None,
    mean_map: Annotated[
        list[str] | None,
        typer.Option(metavar="NUMBER,PLACE", help="Mean of a number by place, on a grid."),
    ] = None,
    confidence: options.Confidence = 0.95,
    period: Period = None,
    form: OutputFormat,
    connection: Connection,
) -> None:
    """Print what the reports of a form say of its fields, and of how they go together.

    A number is cut into bands where a group is wanted: income:50000|100000. Without more, every
    field is shown by itself.

    Example: geoveil form ask household --table rents,income:50000|100000
    Example: geoveil form ask household --regression "logistic: rents=yes ~ age + income"
    """
    validation.between("confidence", confidence, 0, 1, low_open=True, high_open=True)
    with ExitStack() as open_:
        if campaign_id.endswith(EXPORTED):
            reports = form_reports_of(Path(campaign_id), period)
        else:
            analyst = open_.enter_context(analyst_at(connection))
            reports = form_reports_of(analyst.export(campaign_id, period), period)
    wanted: list[FormStatistic[Any]] = [
        *(Shares(_group(name)) for name in shares or ()),
        *(Mean(name) for name in mean or ()),
        *(CrossTable(*map(_group, _split("table", text, 2, 3))) for text in table or ()),
        *(MeanBy(a, _group(b)) for a, b in (_split("mean-by", t, 2, 2) for t in mean_by or ())),
        *(
            QuantileBy(a, _group(b), levels=[0.5])
            for a, b in (_split("median-by", t, 2, 2) for t in median_by or ())
        ),
        *(
            PartialCorrelation(a, b, given)
            for a, b, *given in (_split("correlation", t, 2, 9) for t in correlation or ())
        ),
        *map(_regression, regression or ()),
        *(MeanMap(a, b) for a, b in (_split("mean-map", t, 2, 2) for t in mean_map or ())),
    ]
    results = [reports.ask(of, confidence) for of in wanted or _each(reports.campaign)]
    form.show(*results)


def _split(option: str, text: str, least: int, most: int) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    if not least <= len(names) <= most or not all(names):
        raise ParameterError(option, text, f"{least} to {most} names of fields, between commas")
    return names


def _regression(text: str) -> Regression:
    model, colon, formula = text.rpartition(":")
    y, tilde, covariates = formula.partition("~")
    if not tilde or not y.strip():
        raise ParameterError("regression", text, "[MODEL:]Y~X+X..., as in 'income ~ age + rents'")
    on = [_covariate(name) for name in covariates.split("+")]
    return Regression(_covariate(y), on, model.strip() if colon else "linear")  # type: ignore[arg-type]


def _covariate(text: str) -> str | Option:
    name, equals, option = (part.strip() for part in text.partition("="))
    return Option(name, option) if equals else name


def _group(text: str) -> str | Parts:
    """Return what makes groups: a field with options, or a number cut at 'NAME:EDGE|EDGE'."""
    name, cut, edges = text.partition(":")
    if not cut:
        return text
    try:
        return Parts(name, Histogram(edges=[float(edge) for edge in edges.split("|")]))
    except ValueError:
        raise ParameterError("edges", edges, "numbers, with '|' between them") from None


def _each(campaign: FormCampaign) -> Iterator[FormStatistic[Any]]:
    """Yield a statistic for each field."""
    for field in campaign.fields:
        asked_of_some = field.applies is not None and isinstance(field, OrdinalField)
        if isinstance(field, NumberField) or asked_of_some:
            yield Mean(field.name)
        elif isinstance(field, CategoryField):
            yield Shares(field.name)
