"""geoveil plan: the right mechanism for a question, and the error to expect."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from geoveil.analyst.planner import compare_allocations
from geoveil.analyst.planner.allocation import Searches
from geoveil.cli.console import err, out
from geoveil.cli.plan_choice import planned_for
from geoveil.cli.plan_file import chosen_alone, chosen_together, write_plan
from geoveil.cli.plan_nearest import check_comparison, check_people, check_plan, check_prior
from geoveil.cli.plan_report import Record, comparison_report, plan_report
from geoveil.cli.plan_text import print_comparison, print_plan
from geoveil.cli.plan_wishes import Flags, Wish, completed, wish_of


def plan(
    above: Annotated[
        list[float] | None, typer.Option(help="Share of people above this value.")
    ] = None,
    between: Annotated[
        list[str] | None, typer.Option(help="Share of people between two values: 'LOW,HIGH'.")
    ] = None,
    density: Annotated[
        list[str] | None,
        typer.Option(help="Density at 'longitude,latitude' or 'label=longitude,latitude'."),
    ] = None,
    within: Annotated[
        list[str] | None,
        typer.Option(help="Share within a circle: 'longitude,latitude,radius' in metres."),
    ] = None,
    region: Annotated[
        list[Path] | None, typer.Option(help="Share inside the polygon of a GeoJSON file.")
    ] = None,
    participants: Annotated[int | None, typer.Option(help="How many people will report.")] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="ε: two values PER apart are ε-alike.")
    ] = None,
    per: Annotated[float | None, typer.Option(help="A distance, in UNIT.")] = None,
    unit: Annotated[
        str | None, typer.Option(help="Of the values; that of a prior that ships by default.")
    ] = None,
    prior: Annotated[
        str | None,
        typer.Option(
            help="What is publicly known of them: incomes, collisions, lognormal:MEDIAN,SIGMA,"
            " histogram:FILE.csv (columns low, high, count), FILE.csv or FILE.parquet."
        ),
    ] = None,
    prior_column: Annotated[
        list[str] | None,
        typer.Option(help="Of a file of rows: its values, or (twice) longitude and latitude."),
    ] = None,
    prior_weights: Annotated[
        str | None, typer.Option(help="Column: how many people a row of the file stands for.")
    ] = None,
    soft: Annotated[
        bool, typer.Option("--soft", help="What is wanted is the soft share, as it is.")
    ] = False,
    width: Annotated[
        float | None, typer.Option(help="Of its band, with --soft; 3·PER/ε by default.")
    ] = None,
    bandwidth: Annotated[
        float | None,
        typer.Option(
            help="Of a density's bell, in metres; by default the narrowest that is answered to a"
            " tenth of what is expected."
        ),
    ] = None,
    center: Annotated[
        str | None, typer.Option(help="'longitude,latitude' of the area; the first place else.")
    ] = None,
    radius: Annotated[float, typer.Option(help="Of the area, in metres.")] = 60_000.0,
    target_error: Annotated[
        float | None, typer.Option(help="The 95 % error that is wanted; refused if out of reach.")
    ] = None,
    allocation: Annotated[
        str | None,
        typer.Option(
            help="How several questions share the privacy: partition, split, points, or repeat,"
            " which promises less; by default the best."
        ),
    ] = None,
    channels: Annotated[
        bool,
        typer.Option(
            "--channels",
            help="Consider optimal channels for several questions, too: some seconds for each.",
        ),
    ] = False,
    for_campaign: Annotated[
        bool | None,
        typer.Option(
            "--for-campaign/--any-mechanism",
            help="Choose among mechanisms that campaigns can hold; so by default with --out.",
        ),
    ] = None,
    bound: Annotated[
        bool,
        typer.Option("--bound/--no-bound", help="How good could any unbiased mechanism be?"),
    ] = True,
    attribute: Annotated[
        str | None, typer.Option(help="What participants hold, for --out.")
    ] = None,
    out_file: Annotated[
        Path | None,
        typer.Option("--out", help="Write a plan for 'geoveil campaign create --plan' (TOML)."),
    ] = None,
    figure: Annotated[Path | None, typer.Option(help="Draw it (PNG, PDF or SVG).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
) -> None:
    """Choose the mechanism for a question, say why, and predict its error.

    Several questions are compared by how the privacy is shared out among them. At a terminal, what
    is missing is asked for. A wish that cannot be met is refused with the nearest that can.

    Examples: geoveil plan --above 100000 --participants 50000 --epsilon 1 --per 8000 --prior
    incomes; geoveil plan --density -73.98,40.75 --density -73.95,40.8 --participants 20000
    --epsilon 1 --per 500 --prior collisions
    """
    flags = Flags(
        above=above or (),
        between=between or (),
        density=density or (),
        within=within or (),
        region=region or (),
        participants=participants,
        prior=prior,
        prior_column=prior_column or (),
        prior_weights=prior_weights,
        unit=unit,
        epsilon=epsilon,
        per=per,
        soft=soft,
        width=width,
        bandwidth=bandwidth,
        center=center,
        radius=radius,
        target_error=target_error,
        allocation=allocation,
        channels=channels,
        attribute=attribute,
    )
    wish = wish_of(completed(flags, _ask if at_terminal() else None))
    check_prior(wish)
    check_people(wish)
    restricted = out_file is not None if for_campaign is None else for_campaign
    with err.status("planning"):
        make = _several if len(wish.questions) > 1 else _one
        report = make(wish, restricted, bound, out_file, figure)
    if as_json:
        typer.echo(json.dumps(report, indent=2, allow_nan=False))
        return
    (print_comparison if len(wish.questions) > 1 else print_plan)(report, out)
    for file in (out_file, figure):
        if file is not None:
            err.tell(f"wrote {file}")
    _print_note(report)


def at_terminal() -> bool:
    """Return whether somebody can be asked."""
    return sys.stdin.isatty()


def _ask(question: str) -> str:
    answer: str = typer.prompt(question, err=True)
    return answer


def _one(
    wish: Wish, restricted: bool, bound: bool, out_file: Path | None, figure: Path | None
) -> Record:
    found, least = planned_for(wish, restricted=restricted, bound=bound)
    check_plan(wish, found)
    if out_file is not None:
        write_plan(out_file, wish, chosen_alone(wish, found))
    if figure is not None:
        from geoveil.simulation.figures_plan import draw_plan

        draw_plan(found, figure, title=wish.labels[0], unit=wish.privacy.unit)
    return plan_report(wish, found, least)


def _several(
    wish: Wish, restricted: bool, bound: bool, out_file: Path | None, figure: Path | None
) -> Record:
    searches: Searches = {}
    found = compare_allocations(
        wish.questions,
        wish.plane_privacy,
        wish.prior,
        wish.participants,
        searches=searches,
        channels=wish.channels,
    )
    check_comparison(wish, found, searches)
    if out_file is not None:
        write_plan(out_file, wish, chosen_together(wish, found, searches))
    if figure is not None:
        from geoveil.simulation.figures_plan import draw_comparison

        draw_comparison(found, figure)
    return comparison_report(wish, found)


def _print_note(report: Record) -> None:
    """Say so if the best is nothing that a campaign can hold."""
    rows = report.get("alternatives", [])
    if not rows or rows[0]["campaign"]:
        return
    held = [row for row in rows if row["campaign"]]
    more = (
        f"; the best that one can hold is {held[0]['mechanism']}, with {held[0]['times']:.3g} ×"
        " the squared error (--for-campaign)"
        if held
        else ""
    )
    out.print(f"A campaign cannot hold {rows[0]['mechanism']}{more}.")
