"""Plans as people read them: tables, and privacy in words."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from rich.text import Text

from geoveil.analyst import Record, central_text
from geoveil.campaign import away, likelihood, rounded_up
from geoveil.cli.console import out, print_table
from geoveil.gp import LOG, GeoPrivacy

_ALLOCATIONS: Mapping[str, str] = {
    "partition": "each person answers one question, drawn at random",
    "split": "each answers all of them, each with a part of ε",
    "repeat": "each answers all of them with all of ε: a weaker promise",
    "vector": "each answers all of them with one ε, if they vary in different places",
    "points": "each sends one perturbed point, which answers all of them",
}


_TIMES_MEAN = (
    "squared error in multiples of the first row's, without what sampling people adds. (A wider"
    " band may err less, since it takes more of the answer from the prior: that is no reason to"
    " choose it.)"
)
_TARGETS = ("participants", "population", "hard_question")
_TARGETS_MEAN = (
    "Participants: their own mean of the soft query. Population: that of all of whom they are a"
    " random sample. Hard question: what was asked, in the population; the interval is longer by "
    "the possible bias of asking softly. ±: half of a normal interval at 95 %, or of the"
    " bias-aware one for the hard question. An estimate prints the intervals of the last two, and "
    "for the first the standard error, ± over 1.96."
)


def print_planned(report: Record, privacy: GeoPrivacy, *, only_quantiles: bool) -> None:
    """Print a whole plan.

    Args:
        only_quantiles: whether only quantiles were asked for.
    """
    follows = "Next: how precisely the share of people above it is estimated."
    out.tell_all(*_quantiles(report), follows if only_quantiles else None)
    (print_plan if "alternatives" in report else _print_comparison)(report)
    central, cap = report.get("central"), report.get("cap")
    out.tell_all(
        None if central is None else central_text(central, privacy),
        cap
        and (
            f"The cap for that is {cap['below']:g} noise scales outside and {cap['above']:g}"
            f" inside, and bands fit within it: 95 % errors are up to ±{cap['error_95']:.3g}, at"
            f" most {cap['times']:.3f} times those of a plan without --central."
        ),
        _periods(report),
        *_liars(report),
    )


def print_plan(report: Record) -> None:
    """Print the result of `plan_report`."""
    _print_heading(report, report["question"])
    form = "{:,.6g}" if "ratios_from" not in report else "factor {:.3g}"
    print_table(
        ("mechanism", "profile", "centre", "width", "95 % ±", "bias", "×"),
        (
            (
                row["mechanism"],
                row["profile"],
                "–".join(f"{place:,.6g}" for place in row["center"]) or "as asked",
                _or_dash(row["width"], form),
                _or_dash(row["error_95"], "{:.3g}"),
                f"{row['share_of_bias']:.0%}",
                _or_dash(row["times"], "{:.3g}"),
            )
            for row in report["alternatives"]
        ),
        wrapped=[0],
        right=range(2, 7),
        bold=[0],
    )
    out.print(
        "95 % ±: of the interval for what was asked. bias: part of the squared error that more"
        f" people do not remove. ×: {_TIMES_MEAN}",
        style="dim",
    )
    out.paragraphs(
        report["reason"],
        _asked(report["alternatives"][0], form),
        f"{report['from_prior']:.0%} of the answer comes from the prior, by where the band lies; "
        "the rest from people."
        if report["from_prior"] > 0
        else None,
    )
    print_table(
        ("of", "95 % error"),
        ((name.replace("_", " "), _error_of(report["targets"][name])) for name in _TARGETS),
        right=[1],
    )
    out.print(_TARGETS_MEAN, style="dim")
    price = report["price_of_privacy"]
    out.paragraphs(
        price
        and (
            f"Price of privacy: {price['variance_ratio']:.3g} × the variance. In the clear,"
            f" {price['participants_in_the_clear']:,} participants instead of"
            f" {report['participants']:,} would have the same error in the population."
        )
    )
    _print_scenarios(report["scenarios"])
    _print_errors_and_odds(report)


def _print_comparison(report: Record) -> None:
    """Print the result of `comparison_report`."""
    m, choice = len(report["questions"]), report["choice"]
    _print_heading(report, f"{m} questions")
    print_table(
        ("allocation", "mechanism", "ε in all", "95 % error", "worst", "× error²"),
        (
            (
                Text.assemble(row["allocation"], "\n", (_ALLOCATIONS[row["allocation"]], "dim")),
                ", ".join(row["mechanisms"]),
                f"{row['epsilon']:.4g}",
                f"±{row['typical_error_95']:.3g}",
                f"±{row['worst_error_95']:.3g}",
                f"{row['times']:.3g}",
            )
            for row in report["allocations"]
        ),
        wrapped=(0, 1),
        right=range(2, 6),
        bold=[[row["allocation"] for row in report["allocations"]].index(choice)],
    )
    out.print(
        "95 % error: half the interval for what was asked, typical of the questions, and the worst."
        f" × error²: {_TIMES_MEAN}",
        style="dim",
    )
    least = "has the least error of those that promise the same in total"
    why = "is what was asked for" if report["asked_for"] else least
    out.paragraphs(
        f"{choice} {why}: {_ALLOCATIONS[choice]}.",
        _crossover(report["crossover"], m),
    )
    print_table(
        ("question", "participants", "population", "hard question", "price"),
        (
            (
                row["question"],
                *(_error_of(row["targets"][name]) for name in _TARGETS),
                _or_dash((row["price_of_privacy"] or {}).get("variance_ratio"), "{:.3g}×"),
            )
            for row in report["questions"]
        ),
        wrapped=(0, 1),
        right=range(1, 5),
    )
    out.print(
        f"{_TARGETS_MEAN} Price: the price of privacy, the variance in multiples of what the same "
        "people"
        " would give in the clear.",
        style="dim",
    )
    worst = (
        (row["question"], *_worst(row["scenarios"]))
        for row in report["questions"]
        if row["scenarios"]
    )
    out.paragraphs(*(f"{of}: the worst scenario is {name}, {error}." for of, name, error in worst))
    _print_errors_and_odds(report)


def _quantiles(report: Record) -> Iterator[str]:
    """Yield the expected errors of quantiles, if requested."""
    unit = report["privacy"]["unit"].removeprefix(LOG)
    error, width = f"±{{:,.4g}} {unit}", "{:,.6g}"
    if "ratios_from" in report:
        error, width = "a factor of {:.5g}", "a factor of {:,.6g}"
    for row in report.get("quantiles", ()):
        yield (
            f"Quantile {row['level']:g}: {row['value']:,.6g} {unit} by the prior, known to"
            f" {error.format(row['error_95'])} at 95 %, of the population's values blurred over"
            f" {width.format(row['width'])}."
        )


def _liars(report: Record) -> Iterator[str]:
    """Yield the effect of false reports on the estimates, if requested."""
    doubted = report.get("contamination", ())
    by = "a factor of at most" if "ratios_from" in report else "at most"
    for row in report.get("quantiles", ()) if doubted else ():
        moved = "anywhere" if row["moved"] is None else f"by {by} {row['moved']:,.4g}"
        yield f"Liars, quantile {row['level']:g}: whatever they send, it moves {moved}."
    for row in doubted:
        yield (
            f"Liars, {row['question']}: if {100 * row['fraction_of_participants']:g} % of the"
            " participants send anything, the estimate moves by at most"
            f" {rounded_up(row['moved'], 3):g}; if they only hand a false value to an honest app,"
            f" by at most {rounded_up(row['moved_by_false_values'], 3):g}."
        )


def _periods(report: Record) -> str | None:
    """Return the best way to ask a question in many periods, if requested."""
    periods = report.get("periods")
    if periods is None:
        return None
    ways = "; ".join(
        f"{way['way']} ±{1.96 * way['error']:.3g} for ε = {way['epsilon']:g}"
        for way in periods["ways"]
    )
    return (
        f"In {periods['periods']:,} periods, the 95 % error of each answer for the participants"
        f" themselves and the ε of all of them: {ways}. While the share moves by less than"
        f" {periods['drift_split']:.2g} a period, a reading that is carried errs less than noise"
        f" split over the periods; by less than {periods['drift_carried']:.2g}, also less than one"
        " that goes on as the last two did (geoveil campaign create --read-every, --extrapolated)."
        " A reading's ε covers that many consecutive periods; this campaign may meet two "
        "readings, because devices draw when each begins. Extrapolated answers have the stated "
        "error once devices have read three times. Before that, fewer devices answer."
    )


def odds_text(row: Mapping[str, Any]) -> str:
    """Return two probabilities in per cent, the smaller with two digits and rounded down.

    Example:
        >>> odds_text({"probability": 0.7310585786, "other_probability": 0.2689414214})
        '73.2:26.8'
        >>> odds_text({"probability": 0.9933071491, "other_probability": 0.0066928509})
        '99.34:0.66'
    """
    other = 100 * row["other_probability"]
    if other < 1e-5:
        return "certainty"
    # The smaller one, and its difference from even odds, keep two digits.
    off = 0.03 * min(other, 50 - other)
    rounded = [math.floor(other * 10**d + 1e-9) / 10**d for d in range(10)]
    digits = next((d for d, less in enumerate(rounded) if other - less <= off), 9)
    return f"{100 - rounded[digits]:.{digits}f}:{rounded[digits]:.{digits}f}"


def _print_heading(report: Record, what: str) -> None:
    prior = report["prior"]
    worth = prior["worth_people"]
    worth_in_words = "taken as exact" if worth is None else f"worth {worth:,.0f} people"
    out.paragraphs(
        out.styled(
            (what, "bold"),
            f"  {report['participants']:,} participants, {GeoPrivacy(**report['privacy'])},"
            f" prior: {prior['name']}, {worth_in_words}",
        ),
        prior["caution"],
    )


def print_form(report: Record) -> None:
    """Print the result of `form_plan`."""
    shared, people = report["epsilon_sum"], report["participants"]
    how = "as the form states" if shared is None else f"shared out of a sum of {shared:g}"
    print_table(
        ("field", f"ε, {how}"),
        ((of["name"], of["privacy"] or "open, sent as it is") for of in report["fields"]),
    )
    if people is not None:
        print_table(
            ("statistic", "row", "expected", "95 % error"),
            (
                (of["statistic"], row["row"], _or_dash(row["expected"], "{:.4g}"), _error_of(row))
                for of in report["statistics"]
                for row in of["rows"]
            ),
            wrapped=[0, 1],
            right=(2, 3),
        )
        out.print(
            f"Of {people:,} participants like the {report['sample']:,} of the sample: simulated"
            " reports were asked as real ones will be. 95 % error: the distance to the farther "
            "end of an interval; –: the reports would give none."
        )
    out.paragraphs(
        *(
            f"{of['statistic']}: ±{of['target_error']:g} takes {of['participants']:,} participants."
            for of in report["statistics"]
            if of["target_error"] is not None
        )
    )


def _error_of(target: Mapping[str, Any] | None) -> str:
    return "–" if target is None else _or_dash(target["error_95"], "±{:.3g}")


def _worst(scenarios: Record) -> tuple[str, str]:
    """Return the name of the worst scenario, and its error."""
    by_name = {row["scenario"]: row for row in scenarios["rows"]}
    return scenarios["worst"], _error_of(by_name[scenarios["worst"]]["hard_question"])


def _print_scenarios(scenarios: Record | None) -> None:
    """Print the errors of the choice if the prior is wrong."""
    if scenarios is None:
        return
    (worst, error), rows = _worst(scenarios), scenarios["rows"]
    place = [row["scenario"] for row in rows].index(worst)
    if not scenarios["stated"]:
        off = abs(rows[place]["bias"] - rows[0]["bias"])
        out.print(
            f"With {worst} than the prior says, the answer would be off by {off:.2g},"
            " which none of these errors counts: --scenario-scale 0.1 plans for that."
        )
        return
    print_table(
        ("if people are", "soft − hard", "population", "hard question", "participants"),
        (
            (
                row["scenario"],
                f"{row['bias']:z.4f}",
                _error_of(row["population"]),
                _error_of(row["hard_question"]),
                f"{row['participants']:,}",
            )
            for row in rows
        ),
        wrapped=[0],
        right=range(1, 5),
        bold=[place],
    )
    out.print(
        "Hard question: how far its interval has to reach, once the middle of the differences"
        f" is taken from the estimate. The worst scenario is {worst}, {error}: it is planned for,"
        " so that one interval holds in each. Participants: this many have the same error for the "
        "population."
    )


def _print_errors_and_odds(report: Record) -> None:
    n, privacy = report["participants"], GeoPrivacy(**report["privacy"])
    print_table(
        ("participants", "95 % error of what is asked"),
        ((f"{row['participants']:,}", f"±{row['error_95']:.3g}") for row in report["errors"]),
        right=(0, 1),
        bold=[place for place, row in enumerate(report["errors"]) if row["participants"] == n],
    )
    out.print(
        "These errors are for one look, after the closing date. Looks while reports come in have "
        f"intervals that hold at all looks, {report['times_at_all_looks']:.2f} times as wide at"
        f" {n:,} participants."
    )
    if report["uses_delta"]:
        out.tell(likelihood(privacy, "any", "one value", "another"))
    elif "delta" in report["privacy"]:
        out.print("The choice needs no δ: its campaign promises ε alone.")
    out.print(
        "Somebody who finds two values of a person equally likely can become at most this sure of "
        "one of them from the report:"
    )
    for row in report["odds"]:
        apart = f"{row['distance']:,.6g} {privacy.unit} apart"
        if privacy.value_unit is not None:
            apart = away(privacy, row["distance"])
        epsilon = rounded_up(row["epsilon"], 3)
        out.print(f"  {apart} (ε = {epsilon:g}): from even odds to at most {odds_text(row)}")


def _asked(row: Mapping[str, Any], form: str) -> str:
    """Return the soft question in words."""
    wide = "bandwidth" if row["profile"] in ("bell", "smoothed") else "width of the band"
    parts = [f"profile {row['profile']}"]
    parts += [] if row["width"] is None else [f"{wide} {form.format(row['width'])}"]
    parts += [
        f"{'β in parts of the rate' if name == 'beta_fraction' else name} {value:.4g}"
        for name, value in row["parameters"].items()
    ]
    return f"Asked softly: {', '.join(parts)}."


def _crossover(crossover: int | None, m: int) -> str:
    if crossover is None:
        return "Perturbed points cannot answer these questions, or never better than a partition."
    if crossover == 1:
        return "Perturbed points are as good even for one question like these."
    side = "as many" if m == crossover else "more" if m > crossover else "fewer"
    return (
        f"From {crossover} questions like these on, one perturbed point for all of them is better"
        f" than a partition; these are {side}."
    )


def _or_dash(value: float | None, form: str) -> str:
    return "–" if value is None else form.format(value)
