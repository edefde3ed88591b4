"""geoveil plan: the right mechanism for a question, and the error to expect."""

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from geoveil.analyst import (
    RADIUS_M,
    VOCABULARY,
    AnalystQuestion,
    CentralWish,
    Heap,
    PlannedQuestion,
    PlannedQuestions,
    PlanRequest,
    PublicPrior,
    ShareAbove,
    UnmetWishError,
    Wish,
    all_given,
    any_numbers_in,
    central_report,
    further_report,
    left_out,
    pilot_prior,
    place_in,
    plan_for,
    planned_quantiles,
    questions_in,
    reports_of,
    whole_file,
)
from geoveil.cli import options
from geoveil.cli.asking import Levels, Words, asks, relates
from geoveil.cli.connection import Connection, analyst_at, connects
from geoveil.cli.console import err, print_json
from geoveil.cli.form import of_form
from geoveil.cli.plan_text import print_planned
from geoveil.cli.results import check_picture
from geoveil.gp import GeoPrivacy, GeoVeilError, LogScale, ParameterError, validation
from geoveil.simulation.people_files import FORMATS
from geoveil.simulation.priors import KNOWN, public_prior, with_scenarios


@connects
@asks
@relates
def plan(
    *,
    words: Words,
    quantile: Levels = None,
    form: Annotated[
        Path | None,
        typer.Option(
            help="A form (TOML) to plan for: predict the statistics named by the options below;"
            " append '@ERROR' or '@ROW=ERROR' to ask for a 95 % error. Needs --prior-sample."
        ),
    ] = None,
    prior_sample: Annotated[
        Path | None,
        typer.Option(help="CSV of answers to --form from people like the future participants."),
    ] = None,
    epsilon_sum: Annotated[
        float | None,
        typer.Option(help="Divide this sum of ε over the fields of --form in the best way."),
    ] = None,
    wishes: list[Wish],
    participants: Annotated[
        int | None, typer.Option(help="Number of people who will report.")
    ] = None,
    epsilon: options.Epsilon = None,
    per: options.Per = None,
    unit: Annotated[
        str | None, typer.Option(help="Unit of the values; by default that of a shipped prior.")
    ] = None,
    ratios_from: options.RatiosFrom = None,
    prior: Annotated[
        str | None,
        typer.Option(
            help="Public knowledge about the people: incomes, collisions, lognormal:MEDIAN,SIGMA,"
            " histogram:FILE.csv (columns low, high, count), FILE.csv or FILE.parquet; or the"
            " reports of a value campaign: pilot:CAMPAIGN_ID, or pilot:FILE.parquet from"
            " 'geoveil campaign export'."
        ),
    ] = None,
    prior_column: Annotated[
        list[str] | None,
        typer.Option(help="Column of a file that holds values, or (twice) longitude and latitude."),
    ] = None,
    prior_weights: Annotated[
        str | None, typer.Option(help="Column with the number of people that a row stands for.")
    ] = None,
    heap: options.Heaps = None,
    scenario: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME=PRIOR: an alternative prior, for example 2019=incomes2019.csv; the plan is"
            " for the worst case. May be repeated."
        ),
    ] = None,
    scenario_scale: Annotated[
        float,
        typer.Option(
            help="Relative error of the prior's values, for example 0.1; the plan is for the worst"
            " case."
        ),
    ] = 0.0,
    soft: Annotated[
        bool,
        typer.Option("--soft", help="Plan for the soft share itself instead of the hard share."),
    ] = False,
    width: Annotated[
        float | None, typer.Option(help="Width of the band, with --soft; 3·PER/ε by default.")
    ] = None,
    bandwidth: Annotated[
        float | None,
        typer.Option(
            help="Bandwidth of a density, in metres; by default the narrowest whose error is a"
            " tenth of the expected value."
        ),
    ] = None,
    center: options.Center = None,
    radius: options.Radius = None,
    target_error: Annotated[
        float | None,
        typer.Option(
            help="The desired 95 % error of the population's value, as an estimate prints it;"
            " refused if out of reach."
        ),
    ] = None,
    allocation: Annotated[
        str | None,
        typer.Option(
            help="How several questions share ε: partition, split, vector, points, or repeat, which"
            " costs more privacy; by default the best. A single question permits points: a"
            " value campaign."
        ),
    ] = None,
    mechanism: Annotated[
        str | None,
        typer.Option(
            help="Choose this mechanism, for example"
            " 'smooth:noise=student-t,nu=3,calibration=paper,reach=inf', and compare the"
            " others; the best by default. 'geoveil mechanisms' lists them."
        ),
    ] = None,
    delta: options.Delta = 0.0,
    reach: options.Reach = None,
    contamination: options.Contamination = None,
    periods: Annotated[
        int | None,
        typer.Option(
            help="For one question about numbers, asked in this many periods: compare fresh noise"
            " in each period with one reading that answers all."
        ),
    ] = None,
    drift: Annotated[
        float,
        typer.Option(help="With --periods: change of the share per period, for example 0.001."),
    ] = 0.0,
    attribute: Annotated[
        str | None, typer.Option(help="What participants hold, for --out.")
    ] = None,
    out_file: Annotated[
        Path | None,
        typer.Option("--out", help="Write a plan for 'geoveil campaign create --plan' (TOML)."),
    ] = None,
    cap: Annotated[
        str | None,
        typer.Option(
            help="With --out: the cap on the odds between any two values. By default the lowest cap"
            " that costs at most 5 % of the variance under the prior; 'none': no cap; 'fit':"
            " limit bands to 8·PER/ε, so that a cap exists."
        ),
    ] = None,
    honest: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Print the central ε of the capped campaign, if this many honest reports of one"
            " question reach the analyst in uniformly random order without senders; with --out,"
            " of all participants. geoveil itself does not shuffle.",
        ),
    ] = None,
    central_delta: options.CentralDelta = None,
    central: Annotated[
        float | None,
        typer.Option(
            help="Choose the cap, and bands that fit within it, that keep the central ε between any"
            " two values at or below this, for --honest reports of one question, and print the"
            " cost. Refused if impossible."
        ),
    ] = None,
    figure: Annotated[Path | None, typer.Option(help="Draw the plan (PNG, PDF or SVG).")] = None,
    as_json: options.AsJson = False,
    connection: Connection,
) -> None:
    """Choose the mechanism for a question, say why, and predict its error.

    For several questions it compares the ways to divide ε among them. At a terminal it asks for
    missing options. It refuses a request that can't be met, and names the nearest ones that can.

    --quantile predicts how closely a value campaign estimates a quantile of numbers.

    Examples: geoveil plan --threshold 100000 --participants 50000 --epsilon 1 --per 8000 --prior
    incomes; geoveil plan --place -73.98,40.75 --place -73.95,40.8 --participants 20000
    --epsilon 1 --per 500 --prior collisions; geoveil plan --quantile 0.5 --participants 50000
    --epsilon 1 --per 8000 --prior incomes; geoveil plan --form form.toml --prior-sample people.csv
    --mean income@500 --regression "income ~ age + rents" --participants 20000
    """
    if of_form(form, prior_sample, wishes, epsilon_sum, participants, out_file, as_json=as_json):
        return
    check_picture("--figure", figure)
    validation.choice("cap", cap or "fit", ("fit", "none"))
    if cap == "none":
        left_out({"honest": honest, "central": central}, "left out without a cap")
    if periods is None:
        left_out({"drift": drift or None}, "left out where there is no --periods")
    needed = {"participants": participants, "prior": prior, "epsilon": epsilon, "per": per}
    questions = _questions(words, bool(quantile), needed)
    people: int = answer("participants", participants, validation.require_count)
    source = source_of(
        prior, prior_column, prior_weights, heap, scenario, scenario_scale, connection
    )
    if source.unit is None:
        unit = answer("unit", unit, lambda _, said: said)
    promised: float = answer("epsilon", epsilon, validation.positive)
    distance: float = answer("per", per, validation.positive)
    scale = None if ratios_from is None else LogScale(ratios_from)
    of_levels = []
    if levels := sorted({x for said in quantile or () for x in any_numbers_in("quantile", said)}):
        promise = GeoPrivacy if scale is None else GeoPrivacy.per_factor
        of_levels = planned_quantiles(
            source,
            promise(promised, distance, source.unit or str(unit)),
            people,
            levels,
            width,
            contamination or 0.0,
            scale,
        )
        allocation = allocation or "points"  # that quantiles are asked of
    only_quantiles = bool(of_levels) and not questions
    request_of = partial(
        PlanRequest.of,
        questions
        or [ShareAbove(row["value"], f"above quantile {row['level']:g}") for row in of_levels],
        epsilon=promised,
        per=distance,
        source=source,
        participants=people,
        unit=unit,
        width=width,
        bandwidth=bandwidth,
        center=None if center is None else place_in("center", center),
        radius=RADIUS_M if radius is None else radius,
        target_error=target_error,
        allocation=allocation,
        attribute=attribute,
        mechanism=mechanism,
        delta=delta,
        reach=math.inf if reach is None else reach,
        scale=scale,
    )
    wish = None
    if central is not None:
        honest = honest or max(people // max(len(questions), len(of_levels)), 1)
        wish = CentralWish(epsilon=central, honest=honest, delta=central_delta)
    with err.status("planning"):
        plan_of = partial(plan_for, capped=cap == "fit")
        try:
            planned = plan_of(request_of(soft=soft, central=wish))
        except UnmetWishError:
            # Quantiles are read from soft shares, and take nothing from the prior.
            if soft or not only_quantiles or target_error is not None:
                raise
            planned = plan_of(request_of(soft=True, central=wish))
        report = planned.report() | ({"quantiles": of_levels} if of_levels else {})
        report |= further_report(planned, contamination, periods, drift)
        if cap != "none" and (out_file is not None or honest is not None):
            report |= central_report(planned, honest, central_delta, capped=cap == "fit")
        if out_file is not None:
            planned.write(out_file, capped=cap != "none")
        if figure is not None:
            _draw(planned, figure)
    if as_json:
        print_json(report)
        return
    print_planned(report, planned.request.privacy, only_quantiles=only_quantiles)
    capped = out_file is not None and cap != "none"
    err.tell_all(
        *(f"wrote {file}" for file in (out_file, figure) if file is not None),
        str(planned.cap or "no cap: no protection of values far apart") if capped else None,
    )


def _questions(
    words: Words, quantile: bool, needed: Mapping[str, object]
) -> Sequence[AnalystQuestion]:
    """Return the questions; at a terminal, ask for one if there is no quantile either."""
    questions: Sequence[AnalystQuestion] = questions_in(words)
    if not (questions or quantile):
        if at_terminal():
            questions = until_right(_PROMPTS["question"], _in_words)
        else:
            names = ", ".join(f"--{word}" for word in (*VOCABULARY, "quantile"))
            missing = [f"--{name}" for name, given in needed.items() if given is None]
            also = f"; and {', '.join(missing)}" if missing else ""
            raise ParameterError("question", "none", f"given: at least one of {names}{also}")
    if not at_terminal():
        all_given(needed, "" if needed["prior"] else f". PRIOR, what is publicly known, is {KNOWN}")
    return questions


def _draw(planned: PlannedQuestion | PlannedQuestions, figure: Path) -> None:
    from geoveil.simulation.figures.plan import draw_comparison, draw_plan

    request = planned.request
    with whole_file("--figure", figure) as beside:
        if isinstance(planned, PlannedQuestion):
            draw_plan(
                planned.result,
                beside,
                title=request.labels[0],
                unit=request.privacy.value_unit or request.privacy.unit,
            )
        else:
            draw_comparison(planned.result, beside)


def _in_words(said: str) -> Sequence[AnalystQuestion]:
    """Return the question of text like "threshold 100000", also with the dashes of an option."""
    word, _, text = said.removeprefix("--").partition(" ")
    return questions_in({word: [text.strip()]})


_PROMPTS: Mapping[str, str] = {
    "question": "What do you want to know? For example: threshold 100000; range 50000,100000;"
    " place -73.98,40.75; circle -73.98,40.75,2000; region district.geojson",
    "participants": "How many people will take part?",
    "prior": f"What is publicly known about them ({KNOWN})?",
    "unit": "In which unit are the values?",
    "epsilon": "ε: how much may a report reveal about two values a distance apart (usually 1)?",
    "per": "Within which distance (by ratio: factor) should values look alike, in that unit?",
    "columns": "Which column of the file holds the values (of places: longitude, latitude)?",
}


def at_terminal() -> bool:
    """Return whether a person can answer at the terminal."""
    return sys.stdin.isatty()


def answer(name: str, given: Any, right: Callable[[str, Any], Any]) -> Any:
    """Return an option's value; at a terminal, ask for it if it is missing."""
    if given is not None or not at_terminal():
        return given
    kind = {"participants": int, "epsilon": float, "per": float}.get(name, str)
    return until_right(_PROMPTS[name], lambda said: right(name, said), kind)


def until_right(question: str, read: Callable[[Any], Any], kind: type = str) -> Any:
    """Ask until the answer can be read."""
    while True:
        said = typer.prompt(question, err=True).strip()
        try:
            return read(kind(said))
        except GeoVeilError as error:
            err.tell(str(error))
        except ValueError:
            err.tell(f"{said!r}: write a number like 20000, without commas or a unit")


def source_of(
    prior: str | None,
    columns: Sequence[str] | None,
    weights: str | None,
    heap: Sequence[str] | None,
    scenario: Sequence[str] | None,
    scale: float,
    connection: Connection,
) -> PublicPrior:
    """Return the prior with its scenarios."""
    heaps = tuple(map(Heap.parse, heap or ()))
    text: str = answer("prior", prior, lambda _, said: _of_people(said))
    if prior is None and _is_of_rows(text) and columns is None:
        columns = until_right(_PROMPTS["columns"], lambda said: _columns(text, said))
    any_rows = any(map(_is_of_rows, (text, *(of.partition("=")[2] for of in scenario or ()))))

    def known(of: str) -> PublicPrior:
        """Return a public prior, or a pilot from a campaign's reports at a server."""
        kind, _, pilot = of.partition(":")
        if kind == "pilot" and pilot and Path(pilot).suffix not in FORMATS:
            with analyst_at(connection) as analyst:
                return pilot_prior(reports_of(analyst.export(pilot)), heaps=heaps)
        # Without a file of rows, columns are given to the prior, which refuses them.
        said = (tuple(columns or ()), weights) if _is_of_rows(of) or not any_rows else ((), None)
        return public_prior(of, *said, heaps)

    return with_scenarios(known, text, scenario or (), scale)


def _is_of_rows(prior: str) -> bool:
    """Return whether a prior is a file of rows, which has columns."""
    return Path(prior).suffix in FORMATS and ":" not in prior


def _of_people(said: str) -> str:
    """Return a prior that needs neither the columns of a file nor a server."""
    if _is_of_rows(said):
        if not Path(said).is_file():
            raise ParameterError("prior", said, "a file that exists")
    elif not said.startswith("pilot:"):
        public_prior(said, (), None, ())
    return said


def _columns(file: str, said: str) -> tuple[str, ...]:
    columns = tuple(name.strip() for name in said.split(","))
    public_prior(file, columns, None, ()).make(None)
    return columns
