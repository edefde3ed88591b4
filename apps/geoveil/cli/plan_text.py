"""Plans as people read them: tables, and privacy in words."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from rich.text import Text

from geoveil.analyst import Record, central_text
from geoveil.campaign import away, likelihood
from geoveil.cli.console import out, print_table
from geoveil.gp import LOG, GeoPrivacy

_ALLOCATIONS: Mapping[str, str] = MappingProxyType(
    {
        "partition": "each person answers one question, drawn at random",
        "split": "each answers all of them, each with a part of ε",
        "repeat": "each answers all of them with all of ε: a weaker promise",
        "vector": "each answers all of them, which vary apart, with ε together",
        "points": "each sends one perturbed point, which answers all of them",
    }
)


def print_planned(report: Record, privacy: GeoPrivacy, *, only_quantiles: bool) -> None:
    """Print a whole plan.

    Args:
        only_quantiles: whether only quantiles were asked for.
    """
    _print_quantiles(report)
    if only_quantiles:
        out.tell("How well the share of people above it is known follows.")
    (print_plan if "alternatives" in report else _print_comparison)(report)
    if report.get("central") is not None:
        out.tell(central_text(report["central"], privacy))
    if "cap" in report:
        cap = report["cap"]
        out.tell(
            f"The cap for that is {cap['below']:g} noise scales outside and {cap['above']:g}"
            f" inside, and bands fit within it: 95 % errors are up to ±{cap['error_95']:.3g}, at"
            f" most {cap['times']:.3f} times those of a plan without --central."
        )
    _print_periods(report)
    _print_liars(report)


def print_plan(report: Record) -> None:
    """Print the result of `plan_report`."""
    _print_heading(report, report["question"])
    form = "{:,.6g}" if "ratios_from" not in report else "factor {:.3g}"
    rows = (
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
    )
    headers = ("mechanism", "profile", "centre", "width", "95 % ±", "bias", "×")
    print_table(headers, rows, wrapped=[0], right=range(2, 7), bold=[0])
    out.print(
        "95 % ±: of the interval for what was asked. bias: part of the squared error that more"
        f" people do not remove. ×: {_TIMES_MEAN}",
        style="dim",
    )
    out.print(report["reason"])
    out.print(_asked(report["alternatives"][0], form))
    if report["from_prior"] > 0:
        out.print(
            f"{report['from_prior']:.0%} of what is asked is taken from the prior, by where the"
            " band lies; the rest from people."
        )
    _print_targets(report)
    _print_scenarios(report)
    _print_errors(report)
    _print_odds(report)


def _print_comparison(report: Record) -> None:
    """Print the result of `comparison_report`."""
    m = len(report["questions"])
    _print_heading(report, f"{m} questions")
    rows = (
        (
            Text.assemble(row["allocation"], "\n", (_ALLOCATIONS[row["allocation"]], "dim")),
            ", ".join(row["mechanisms"]),
            f"{row['epsilon']:.4g}",
            f"±{row['typical_error_95']:.3g}",
            f"±{row['worst_error_95']:.3g}",
            f"{row['times']:.3g}",
        )
        for row in report["allocations"]
    )
    headers = ("allocation", "mechanism", "ε in all", "95 % error", "worst", "× error²")
    chosen = [row["allocation"] for row in report["allocations"]].index(report["choice"])
    print_table(headers, rows, wrapped=(0, 1), right=range(2, 6), bold=[chosen])
    out.print(
        "95 % error: half the interval for what was asked, typical of the questions, and the worst."
        f" × error²: {_TIMES_MEAN}",
        style="dim",
    )
    why = (
        "is what was asked for"
        if report["asked_for"]
        else "has the least error of those that promise the same in all"
    )
    out.print(f"{report['choice']} {why}: {_ALLOCATIONS[report['choice']]}.")
    out.print(_crossover(report["crossover"], m))
    answers = (
        (
            row["question"],
            *(_error_of(row["targets"][name]) for name in _TARGETS),
            _or_dash((row["price_of_privacy"] or {}).get("variance_ratio"), "{:.3g}×"),
        )
        for row in report["questions"]
    )
    of_each = ("question", "participants", "population", "hard question", "price")
    print_table(of_each, answers, wrapped=(0, 1), right=range(1, 5))
    out.print(
        f"{_TARGETS_MEAN} Price: of privacy, the variance in multiples of what the same people"
        " would give in the clear.",
        style="dim",
    )
    for row in report["questions"]:
        if row["scenarios"] is not None:
            scenarios = row["scenarios"]
            worst = next(r for r in scenarios["rows"] if r["scenario"] == scenarios["worst"])
            out.print(
                f"{row['question']}: the worst scenario is {worst['scenario']},"
                f" {_error_of(worst['hard_question'])}."
            )
    _print_errors(report)
    _print_odds(report)


def _print_quantiles(report: Record) -> None:
    """Print the expected errors of quantiles, if requested."""
    unit, times = report["privacy"]["unit"], "ratios_from" in report
    unit = unit.removeprefix(LOG)
    for row in report.get("quantiles", ()):
        error, width = f"±{row['error_95']:,.4g} {unit}", f"{row['width']:,.6g}"
        if times:
            error, width = f"a factor of {row['error_95']:.5g}", f"a factor of {width}"
        out.tell(
            f"Quantile {row['level']:g}: {row['value']:,.6g} {unit} by the prior, known to"
            f" {error} at 95 %, of the population's values blurred over {width}."
        )


def _print_liars(report: Record) -> None:
    """Print the effect of false reports on the estimates, if requested."""
    doubted = report.get("contamination", ())
    for row in report.get("quantiles", ()) if doubted else ():
        by = "a factor of at most" if "ratios_from" in report else "at most"
        moved = "anywhere" if row["moved"] is None else f"by {by} {row['moved']:,.4g}"
        out.tell(f"Liars, quantile {row['level']:g}: whatever they send, it moves {moved}.")
    for row in doubted:
        out.tell(
            f"Liars, {row['question']}: if {100 * row['fraction_of_participants']:g} % of the"
            f" participants send anything, the estimate moves by at most {row['moved']:.3g}; if"
            " they only hand a false value to an honest app, by at most"
            f" {row['moved_by_false_values']:.3g}."
        )


def _print_periods(report: Record) -> None:
    """Print the best way to ask a question in many periods, if requested."""
    periods = report.get("periods")
    if periods is None:
        return
    count = periods["periods"]
    ways = "; ".join(
        f"{way['way']} ±{1.96 * way['error']:.3g} for ε = {way['epsilon']:g}"
        for way in periods["ways"]
    )
    out.tell(
        f"In {count:,} periods, the 95 % error of each answer for the participants themselves and"
        f" the ε of all of them: {ways}. While the share moves by less than"
        f" {periods['drift_split']:.2g} a period, a reading that is carried errs less than noise"
        f" split over the periods; by less than {periods['drift_carried']:.2g}, also less than one"
        " that goes on as the last two did (geoveil campaign create --read-every, --extrapolated)."
        " A reading's ε is for any so many periods on end; a campaign of just these may meet two,"
        " as devices draw when they begin."
    )


def odds_text(row: Mapping[str, Any]) -> str:
    """Return two probabilities in per cent, the smaller with two digits.

    Example:
        >>> odds_text({"probability": 0.7310585786, "other_probability": 0.2689414214})
        '73:27'
        >>> odds_text({"probability": 0.9933071491, "other_probability": 0.0066928509})
        '99.33:0.67'
    """
    other = 100 * row["other_probability"]

    def shown(digits: int) -> bool:
        """Return whether the smaller one, and its difference from even odds, keep two digits."""
        off = abs(round(other, digits) - other)
        return bool(off <= 0.03 * min(other, 50 - other))

    if other < 1e-5:
        return "certainty"
    digits = next((d for d in range(9) if shown(d)), 9)
    return f"{100 - round(other, digits):.{digits}f}:{other:.{digits}f}"


def _print_heading(report: Record, what: str) -> None:
    p = report["privacy"]
    worth = report["prior"]["worth_people"]
    worth_in_words = "taken as exact" if worth is None else f"worth {worth:,.0f} people"
    out.print(
        out.styled(
            (what, "bold"),
            f"  {report['participants']:,} participants,"
            f" {GeoPrivacy(**p)},"
            f" prior: {report['prior']['name']}, {worth_in_words}",
        )
    )
    if report["prior"]["caution"]:
        out.print(report["prior"]["caution"])


def print_form(report: Record) -> None:
    """Print the result of `form_plan`."""
    shared = report["epsilon_sum"]
    how = "as the form states" if shared is None else f"shared out of a sum of {shared:g}"
    fields = ((of["name"], of["privacy"] or "open, sent as it is") for of in report["fields"])
    print_table(("field", f"ε, {how}"), fields)
    people = report["participants"]
    if people is not None:
        rows = (
            (of["statistic"], row["row"], f"{row['expected']:.4g}", _error_of(row))
            for of in report["statistics"]
            for row in of["rows"]
        )
        headers = ("statistic", "row", "expected", "95 % error")
        print_table(headers, rows, wrapped=[0, 1], right=(2, 3))
        out.print(
            f"Of {people:,} participants like the {report['sample']:,} of the sample: simulated"
            " reports were asked as real ones will be. 95 % error: how far the farther end of an"
            " interval is; –: the reports would set none."
        )
    for of in report["statistics"]:
        if of["target_error"] is not None:
            out.print(
                f"{of['statistic']}: ±{of['target_error']:g} takes {of['participants']:,}"
                " participants."
            )


_TIMES_MEAN = (
    "squared error in multiples of the first row's, without what sampling people adds. (A wider"
    " band may err less, since it takes more of the answer from the prior: that is no reason to"
    " choose it.)"
)
_TARGETS = ("participants", "population", "hard_question")
_TARGETS_MEAN = (
    "Participants: their own mean of the soft query. Population: that of all of whom they are a"
    " random sample. Hard question: what was asked, in the population; the interval is longer by"
    " what the bias of asking softly may be. ±: half of a normal interval at 95 %, or of the"
    " bias-aware one for the hard question. An estimate prints the intervals of the last two, and"
    " of the first the standard error, ± over 1.96."
)


def _error_of(target: Mapping[str, Any] | None) -> str:
    return "–" if target is None else _or_dash(target["error_95"], "±{:.3g}")


def _print_targets(report: Record) -> None:
    """Print the three errors of the choice, and the price of privacy."""
    rows = ((name.replace("_", " "), _error_of(report["targets"][name])) for name in _TARGETS)
    print_table(("of", "95 % error"), rows, right=[1])
    out.print(_TARGETS_MEAN, style="dim")
    price = report["price_of_privacy"]
    if price is not None:
        out.print(
            f"Price of privacy: {price['variance_ratio']:.3g} × the variance. In the clear,"
            f" {price['participants_in_the_clear']:,} participants instead of"
            f" {report['participants']:,} would have the same error in the population."
        )


def _print_scenarios(report: Record) -> None:
    """Print the errors of the choice if the prior is wrong."""
    scenarios = report["scenarios"]
    if scenarios is None:
        return
    worst = next(row for row in scenarios["rows"] if row["scenario"] == scenarios["worst"])
    if not scenarios["stated"]:
        off = abs(worst["bias"] - scenarios["rows"][0]["bias"])
        out.print(
            f"With {worst['scenario']} than the prior says, the answer would be off by {off:.2g},"
            " which none of these errors counts: --scenario-scale 0.1 plans for that."
        )
        return
    rows = (
        (
            row["scenario"],
            f"{row['bias']:z.4f}",
            _error_of(row["population"]),
            _error_of(row["hard_question"]),
            f"{row['participants']:,}",
        )
        for row in scenarios["rows"]
    )
    headers = ("if people are", "soft − hard", "population", "hard question", "participants")
    bold = [scenarios["rows"].index(worst)]
    print_table(headers, rows, wrapped=[0], right=range(1, 5), bold=bold)
    out.print(
        "Hard question: how far its interval has to reach there, once the middle of the differences"
        f" is taken from the estimate. The worst scenario is {worst['scenario']},"
        f" {_error_of(worst['hard_question'])}: it is planned for, so that one interval holds in"
        " each. Participants: so many have the same error of the population."
    )


def _print_errors(report: Record) -> None:
    people = [row["participants"] for row in report["errors"]]
    bold = [place for place, n in enumerate(people) if n == report["participants"]]
    rows = ((f"{row['participants']:,}", f"±{row['error_95']:.3g}") for row in report["errors"])
    print_table(("participants", "95 % error of what is asked"), rows, right=(0, 1), bold=bold)
    out.print(
        "These errors are of one look, after the closing date. Who looks while reports come in gets"
        f" intervals that hold at all looks, {report['times_at_all_looks']:.2f} times as wide at"
        f" {report['participants']:,} participants."
    )


def _print_odds(report: Record) -> None:
    privacy = GeoPrivacy(**report["privacy"])
    if report["uses_delta"]:
        out.tell(likelihood(privacy, "any", "one value", "another"))
    elif "delta" in report["privacy"]:
        out.print("The choice needs no δ: its campaign promises ε alone.")
    out.print(
        "To somebody who finds two values of a person equally likely, the report can make one of"
        " them at most so likely:"
    )
    for row in report["odds"]:
        apart = f"{row['distance']:,.6g} {privacy.unit} apart"
        if privacy.value_unit is not None:
            apart = away(privacy, row["distance"])
        out.print(
            f"  {apart} (ε = {row['epsilon']:.3g}): from even odds to at most {odds_text(row)}"
        )


def _asked(row: Mapping[str, Any], form: str) -> str:
    """Return the soft question in words."""
    parts = [f"profile {row['profile']}"]
    if row["width"] is not None:
        parts.append(
            f"{_WIDTHS.get(row['profile'], 'width of the band')} {form.format(row['width'])}"
        )
    parts += [f"{_NAMES.get(name, name)} {value:.4g}" for name, value in row["parameters"].items()]
    return f"Asked softly: {', '.join(parts)}."


_WIDTHS: Mapping[str, str] = MappingProxyType({"bell": "bandwidth", "smoothed": "bandwidth"})
_NAMES: Mapping[str, str] = MappingProxyType({"beta_fraction": "β in parts of the rate"})


def _crossover(crossover: int | None, m: int) -> str:
    if crossover is None:
        return "Perturbed points cannot answer these questions, or never better than a partition."
    side = "these are more" if m >= crossover else "these are fewer"
    if crossover == 1:
        return "Perturbed points are as good even for one question like these."
    return (
        f"From {crossover} questions like these on, one perturbed point for all of them is better"
        f" than a partition; {side if m != crossover else 'these are as many'}."
    )


def _or_dash(value: float | None, form: str) -> str:
    return "–" if value is None else form.format(value)
