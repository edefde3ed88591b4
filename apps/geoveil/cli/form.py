"""geoveil form: forms from XLSForm, the format of ODK and KoboToolbox, and back."""

from pathlib import Path
from typing import Annotated

import typer

from geoveil.analyst import (
    RADIUS_M,
    area_of,
    fields_of_toml,
    form_of_workbook,
    place_in,
    toml_of,
    whole_file,
    workbook_of,
)
from geoveil.cli import options
from geoveil.cli.console import err, out
from geoveil.gp import ParameterError

app = typer.Typer(
    help="Turn XLSForm workbooks of ODK or KoboToolbox into forms, and forms into workbooks.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


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
    try:
        text = form.read_text(encoding="utf-8")
    except (OSError, ValueError):
        raise ParameterError("form", str(form), "a file that can be read") from None
    fields = fields_of_toml(text)
    with whole_file("workbook", workbook) as beside:
        workbook_of(fields, beside, title)
    err.tell(f"wrote {workbook}: {len(fields)} fields")
