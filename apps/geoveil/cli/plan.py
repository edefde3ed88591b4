"""geoveil plan: the right mechanism for a question, and the error to expect."""

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

import typer

from geoveil.analyst import (
    RADIUS_M,
    VOCABULARY,
    AnalystQuestion,
    CentralWish,
    PlannedQuestion,
    PlannedQuestions,
    PlanRequest,
    PublicPrior,
    ShareAbove,
    UnmetWishError,
    Wish,
    any_numbers_in,
    participants_to_name_the_top,
    pilot_prior,
    place_in,
    plan_for,
    planned_contamination,
    planned_periods,
    planned_quantiles,
    questions_in,
    reports_of,
    whole_file,
)
from geoveil.cli import options
from geoveil.cli.asking import Levels, Words, asks
from geoveil.cli.connection import Connection, analyst_at, connects
from geoveil.cli.console import err, out, print_json
from geoveil.cli.plan_forms import of_form
from geoveil.cli.plan_text import print_planned
from geoveil.cli.relations_words import relates
from geoveil.cli.results import check_picture
from geoveil.gp import GeoPrivacy, GeoVeilError, Heap, LogScale, ParameterError, validation
from geoveil.simulation.people_files import FORMATS
from geoveil.simulation.priors import KNOWN, public_prior

_EXAMPLES = (
    "What do you want to know? For example: threshold 100000; range 50000,100000;"
    " place -73.98,40.75; circle -73.98,40.75,2000; region district.geojson"
)
_PROMPTS: Mapping[str, str] = MappingProxyType(
    {
        "participants": "How many people will take part?",
        "prior": f"What is publicly known of them ({KNOWN})?",
        "unit": "In which unit are the values?",
        "epsilon": "ε: how much may a report tell of two values a distance apart (usually 1)?",
        "per": "Which distance (by ratio: factor) should nobody be able to tell, in that unit?",
    }
)
_COLUMNS = "Which column of the file holds the values (of places: longitude, latitude)?"
_NUMBERS: Mapping[str, type] = MappingProxyType(
    {"participants": int, "epsilon": float, "per": float}
)


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
            help="A form (TOML): what its statistics will say, each named by an option below, with"
            " '@ERROR' or '@ROW=ERROR' for a 95 % error that is wanted. Takes --prior-sample."
        ),
    ] = None,
    prior_sample: Annotated[
        Path | None,
        typer.Option(help="Answers to --form of people like those who will answer (CSV)."),
    ] = None,
    epsilon_sum: Annotated[
        float | None,
        typer.Option(help="Share out ε of this sum over the fields of --form as best they can."),
    ] = None,
    wishes: list[Wish],
    participants: Annotated[int | None, typer.Option(help="How many people will report.")] = None,
    epsilon: options.Epsilon = None,
    per: options.Per = None,
    unit: Annotated[
        str | None, typer.Option(help="Unit of the values; by default that of a prior that ships.")
    ] = None,
    ratios_from: options.RatiosFrom = None,
    prior: Annotated[
        str | None,
        typer.Option(
            help="What is publicly known of the people: incomes, collisions,"
            " lognormal:MEDIAN,SIGMA,"
            " histogram:FILE.csv (columns low, high, count), FILE.csv or FILE.parquet; or what a"
            " value campaign's reports say, pilot:CAMPAIGN_ID, or pilot:FILE.parquet that 'geoveil"
            " campaign export' wrote."
        ),
    ] = None,
    prior_column: Annotated[
        list[str] | None,
        typer.Option(help="Column of a file that holds values, or (twice) longitude and latitude."),
    ] = None,
    prior_weights: Annotated[
        str | None, typer.Option(help="Column: how many people a row of the file stands for.")
    ] = None,
    heap: options.Heaps = None,
    scenario: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME=PRIOR: what people may be like instead, as 2019=incomes2019.csv; the plan"
            " is for the worst. Repeat it for more."
        ),
    ] = None,
    scenario_scale: Annotated[
        float,
        typer.Option(
            help="Values may be lower or higher than the prior says by this part of them, as 0.1;"
            " the plan is for the worst."
        ),
    ] = 0.0,
    slope_bound: Annotated[
        float | None,
        typer.Option(
            help="Plan and sign for any people whose density, --heap aside, changes by at most so"
            " much, in shares per unit²; the prior only says how much they vary."
        ),
    ] = None,
    soft: Annotated[
        bool,
        typer.Option(
            "--soft", help="Plan for the soft share itself, not for the one with a sharp edge."
        ),
    ] = False,
    width: Annotated[
        float | None, typer.Option(help="Width of the band, with --soft; 3·PER/ε by default.")
    ] = None,
    bandwidth: Annotated[
        float | None,
        typer.Option(
            help="Bandwidth of a density's bell, in metres; by default the narrowest that is"
            " answered to a tenth of what is expected."
        ),
    ] = None,
    center: options.Center = None,
    radius: options.Radius = None,
    target_error: Annotated[
        float | None,
        typer.Option(
            help="The 95 % error wanted of the population, which an estimate prints; refused if"
            " out of reach."
        ),
    ] = None,
    allocation: Annotated[
        str | None,
        typer.Option(
            help="How several questions share the privacy: partition, split, vector, points,"
            " or repeat, which promises less; by default the best. One question takes points, a"
            " value campaign that it is asked of."
        ),
    ] = None,
    mechanism: Annotated[
        str | None,
        typer.Option(
            help="Choose this one, as 'smooth:noise=student-t,nu=3,calibration=paper,reach=inf',"
            " and compare the others; 'geoveil mechanisms' lists them. The best by default."
        ),
    ] = None,
    delta: options.Delta = 0.0,
    reach: options.Reach = None,
    for_campaign: Annotated[
        bool | None,
        typer.Option(
            "--for-campaign/--any-mechanism",
            help="Choose among mechanisms that campaigns can hold; so by default with --out.",
        ),
    ] = None,
    contamination: options.Contamination = None,
    top: Annotated[
        int | None,
        typer.Option(
            help="Also say how many people it takes for the estimates to name so many of the"
            " questions with the greatest answers rightly, in 95 % of campaigns."
        ),
    ] = None,
    periods: Annotated[
        int | None,
        typer.Option(
            help="Of one question about numbers, asked in so many periods: what noise of its own"
            " each time would cost, beside one reading that answers all of them."
        ),
    ] = None,
    drift: Annotated[
        float,
        typer.Option(help="With --periods: by how much the share moves in a period, as 0.001."),
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
            help="With --out the campaign tells no two values apart, however far apart, better than"
            " the least cap does that costs 5 % of the variance, as the prior says, unless this is"
            " 'none'. 'fit' also has no band wider than 8·PER/ε, so that there is one."
        ),
    ] = None,
    honest: Annotated[
        int | None,
        typer.Option(
            help="Say the central ε of the campaign with a cap, if so many honest reports of one"
            " question reach the analyst in uniformly random order with no sender; with --out that"
            " of all participants. geoveil does not shuffle.",
        ),
    ] = None,
    central_delta: options.CentralDelta = None,
    central: Annotated[
        float | None,
        typer.Option(
            help="Choose the cap, and bands that fit within it, that keep the central ε between any"
            " two values at most so large, of --honest reports of one question, and say what that"
            " costs. Refused where none does."
        ),
    ] = None,
    figure: Annotated[Path | None, typer.Option(help="Draw it (PNG, PDF or SVG).")] = None,
    as_json: options.AsJson = False,
    connection: Connection,
) -> None:
    """Choose the mechanism for a question, say why, and predict its error.

    Several questions are compared by how the privacy is shared out among them. At a terminal, what
    is missing is asked for. A wish that cannot be met is refused with the nearest that can.

    --quantile says how closely a value campaign will find a quantile of numbers.

    Examples: geoveil plan --threshold 100000 --participants 50000 --epsilon 1 --per 8000 --prior
    incomes; geoveil plan --place -73.98,40.75 --place -73.95,40.8 --participants 20000
    --epsilon 1 --per 500 --prior collisions; geoveil plan --quantile 0.5 --participants 50000
    --epsilon 1 --per 8000 --prior incomes; geoveil plan --form form.toml --prior-sample people.csv
    --mean income@500 --regression "income ~ age + rents" --participants 20000
    """
    if of_form(form, prior_sample, wishes, epsilon_sum, participants, out_file, as_json=as_json):
        return
    check_picture("--figure", figure)
    _check_cap(cap, honest, central)
    if periods is None and drift:
        raise ParameterError("drift", drift, "left out where there is no --periods")
    needed = {"participants": participants, "prior": prior, "epsilon": epsilon, "per": per}
    questions = _questions(words, bool(quantile), needed)
    people: int = _answer("participants", participants, validation.require_count)
    source = _source(prior, prior_column, prior_weights, heap, scenario, scenario_scale, connection)
    source = source.slope_bounded(slope_bound)
    if source.unit is None:
        unit = _answer("unit", unit, lambda _, said: said)
    said = (
        _answer("epsilon", epsilon, validation.positive),
        _answer("per", per, validation.positive),
    )
    scale = None if ratios_from is None else LogScale(ratios_from)
    promise = GeoPrivacy if scale is None else GeoPrivacy.per_factor
    privacy = promise(*said, source.unit or str(unit))
    levels = sorted({x for said in quantile or () for x in any_numbers_in("quantile", said)})
    of_levels = []
    if levels:
        doubt = contamination or 0.0
        of_levels = planned_quantiles(source, privacy, people, levels, width, doubt, scale)
        allocation = allocation or "points"  # that quantiles are asked of
    only_quantiles = bool(of_levels) and not questions
    request_of = partial(
        PlanRequest.of,
        questions
        or [ShareAbove(row["value"], f"above quantile {row['level']:g}") for row in of_levels],
        epsilon=said[0],
        per=said[1],
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
    wish = _wish(central, honest, central_delta, people // max(len(questions), len(of_levels)))
    held = any(x is not None for x in (out_file, contamination, top, honest, wish))
    restricted = held if for_campaign is None else for_campaign
    with err.status("planning"):
        plan_of = partial(plan_for, for_campaign=restricted, capped=cap == "fit")
        try:
            planned = plan_of(request_of(soft=soft, central=wish))
        except UnmetWishError:
            # Quantiles are read from soft shares, and take nothing from the prior.
            if soft or not only_quantiles or target_error is not None:
                raise
            planned = plan_of(request_of(soft=True, central=wish))
        report = planned.report() | ({"quantiles": of_levels} if of_levels else {})
        report |= _extras(planned, contamination, periods, drift, top)
        if cap != "none" and (out_file is not None or honest is not None or wish is not None):
            report |= _central(planned, honest, central_delta, plan_of)
        if out_file is not None:
            planned.write(out_file, capped=cap != "none")
        if figure is not None:
            _draw(planned, figure)
    if as_json:
        print_json(report)
        return
    print_planned(report, planned.request.privacy, out, only_quantiles=only_quantiles)
    for file in (out_file, figure):
        if file is not None:
            err.tell(f"wrote {file}")
    if out_file is not None and cap != "none":
        err.tell(str(planned.cap or "no cap: no protection of far values"))


def _check_cap(cap: str | None, honest: int | None, central: float | None) -> None:
    if cap not in (None, "none", "fit"):
        raise ParameterError("cap", cap, "'fit' or 'none'")
    if honest is not None:
        validation.require_count("honest", honest)
    for name, given in (("honest", honest), ("central", central)):
        if given is not None and cap == "none":
            raise ParameterError(name, given, "left out without a cap")


def _wish(
    central: float | None, honest: int | None, delta: float | None, people: int
) -> CentralWish | None:
    if central is None:
        return None
    return CentralWish(epsilon=central, honest=honest or max(people, 1), delta=delta)


def _central(
    planned: PlannedQuestion | PlannedQuestions,
    honest: int | None,
    delta: float | None,
    plan_of: Callable[[PlanRequest], PlannedQuestion | PlannedQuestions],
) -> dict[str, Any]:
    """Return what a plan says of all reports together, and what a wish about them costs."""
    wish = planned.request.central
    if wish is None:
        return {"central": planned.central(honest, delta)}
    free = plan_of(replace(planned.request, central=None))
    return {"central": planned.central(wish.honest, delta), "cap": planned.price_of_central(free)}


def _questions(
    words: Words, quantile: bool, needed: Mapping[str, object]
) -> Sequence[AnalystQuestion]:
    """Return what is asked; at a terminal, what is typed where neither that nor a quantile is."""
    questions: Sequence[AnalystQuestion] = questions_in(words)
    if at_terminal():
        if not (questions or quantile):
            questions = _until_right(_EXAMPLES, lambda said: questions_in(_in_words(said)))
        return questions
    if not (questions or quantile):
        names = ", ".join(f"--{word}" for word in (*VOCABULARY, "quantile"))
        also = ", ".join(f"--{name}" for name, given in needed.items() if given is None)
        more = f"; and {also}" if also else ""
        raise ParameterError("question", "none", f"given: at least one of {names}{more}")
    unless = "" if needed["prior"] else f". PRIOR, what is publicly known, is {KNOWN}"
    options.all_given(needed, unless)
    return questions


def _source(
    prior: str | None,
    columns: Sequence[str] | None,
    weights: str | None,
    heap: Sequence[str] | None,
    scenario: Sequence[str] | None,
    scale: float,
    connection: Connection,
) -> PublicPrior:
    """Return what is publicly known, with what people may be like instead."""
    heaps = options.heaps(heap)
    text: str = _answer("prior", prior, lambda _, said: _of_people(said))
    if prior is None and _is_of_rows(text) and columns is None:
        columns = _until_right(_COLUMNS, lambda said: _columns(text, said))
    doubts = [_named(of) for of in scenario or ()]
    any_rows = any(map(_is_of_rows, (text, *(other for _, other in doubts))))

    def known(of: str) -> PublicPrior:
        # Without a file of rows, columns are given to the prior, which refuses them.
        said = (tuple(columns or ()), weights) if _is_of_rows(of) or not any_rows else ((), None)
        return _prior(of, *said, heaps, connection)

    source = known(text)
    return source.doubted({name: _scenario(name, of, known) for name, of in doubts}, scale)


def _extras(
    planned: PlannedQuestion | PlannedQuestions,
    contamination: float | None,
    periods: int | None,
    drift: float,
    top: int | None,
) -> dict[str, Any]:
    """Return what a plan says beside its errors: of false reports, of periods and of ranks."""
    extras: dict[str, Any] = {}
    if contamination is not None:
        extras["contamination"] = planned_contamination(planned, contamination)
    if periods is not None:
        extras["periods"] = planned_periods(planned, periods, drift)
    if top is not None:
        if isinstance(planned, PlannedQuestion):
            raise ParameterError("top", top, "left out unless there are several questions")
        people = participants_to_name_the_top(planned, top, contamination=contamination or 0.0)
        extras["top"] = {"count": top, "confidence": 0.95, "participants": people}
    return extras


def _draw(planned: PlannedQuestion | PlannedQuestions, figure: Path) -> None:
    from geoveil.simulation.figures.plan import draw_comparison, draw_plan

    request = planned.request
    with whole_file("--figure", figure) as beside:
        if isinstance(planned, PlannedQuestion):
            unit = request.privacy.value_unit or request.privacy.unit
            draw_plan(planned.result, beside, title=request.labels[0], unit=unit)
        else:
            draw_comparison(planned.result, beside)


def at_terminal() -> bool:
    """Return whether somebody can be asked."""
    return sys.stdin.isatty()


def _prior(
    text: str,
    columns: Sequence[str],
    weights: str | None,
    heaps: Sequence[Heap],
    connection: Connection,
) -> PublicPrior:
    """Return what is publicly known, or what the reports of a campaign at a server say."""
    kind, _, pilot = text.partition(":")
    if kind == "pilot" and pilot and Path(pilot).suffix not in FORMATS:
        with analyst_at(connection) as analyst:
            return pilot_prior(reports_of(analyst.export(pilot)), heaps=heaps)
    return public_prior(text, columns, weights, heaps)


def _is_of_rows(prior: str) -> bool:
    """Return whether a prior is a file of rows, which has columns."""
    return Path(prior).suffix in FORMATS and ":" not in prior


def _named(scenario: str) -> tuple[str, str]:
    """Return the two parts of NAME=PRIOR."""
    name, _, prior = scenario.partition("=")
    if not name.strip() or not prior:
        raise ParameterError("scenario", scenario, "NAME=PRIOR, for example 2019=incomes2019.csv")
    return name.strip(), prior


def _scenario(name: str, prior: str, known: Callable[[str], PublicPrior]) -> PublicPrior:
    """Return what people may be like instead; a file of rows has the columns of the prior."""
    try:
        return known(prior)
    except ParameterError as error:
        of = "--prior-column" if error.name == "columns" else "the prior"
        expected = f"NAME=PRIOR, {of} {error.expected}"
        raise ParameterError("scenario", f"{name}={prior}", expected) from error


def _answer(name: str, given: Any, right: Callable[[str, Any], Any]) -> Any:
    """Return what an option says; at a terminal, what is answered where it was not given."""
    if given is not None:
        return given
    if not at_terminal():
        raise ParameterError(name, None, "given")
    return _until_right(_PROMPTS[name], lambda said: right(name, _read(name, said)))


def _until_right(question: str, read: Callable[[str], Any]) -> Any:
    """Ask until what is answered can be read."""
    while True:
        try:
            return read(typer.prompt(question, err=True).strip())
        except GeoVeilError as error:
            err.tell(str(error))


def _read(name: str, text: str) -> Any:
    try:
        return _NUMBERS.get(name, str)(text.replace("_", "") if name in _NUMBERS else text)
    except ValueError:
        raise ParameterError(name, text, "a number") from None


def _in_words(said: str) -> dict[str, list[str]]:
    """Return the question of text like "threshold 100000", also with the dashes of an option."""
    word, _, text = said.removeprefix("--").partition(" ")
    return {word: [text.strip()]}


def _of_people(said: str) -> str:
    """Return a prior that can be read, but for the columns of a file and a server's pilot."""
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
