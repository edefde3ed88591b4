"""Statistics of a survey's points: curves, quantiles, histograms, maps, groups, changes.

Every form names a statistic of `geoveil.analyst`. All statistics use the same points, at no further
cost in privacy.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from markupsafe import Markup

from geoveil.analyst import (
    AnalystQuestion,
    Answer,
    ChosenBands,
    Contaminated,
    DensityMap,
    DistributionCurve,
    DistributionFunction,
    Districts,
    Histogram,
    Map,
    Means,
    Nearest,
    Quantiles,
    Result,
    Statistic,
    Top,
    any_numbers_in,
    asked_alike,
    asked_of_points,
    cell_text,
    check_distinct,
    compare,
    hard_shares,
    numbers_in,
    place_in,
    questions_in,
    softness_of_points,
    statistics_in,
)
from geoveil.campaign import AttributeCampaign, ValueCampaign
from geoveil.console.charts import density_map, round_numbers
from geoveil.console.http import PageRequest, RefusedError, Response
from geoveil.console.layer import layer_in
from geoveil.console.point_choices import (
    ADDED,
    BY_FACTORS,
    CHANGED,
    LEVELS,
    PointChoice,
    added_choices,
    choices_of,
)
from geoveil.console.results import code_of, file_of, shown_result
from geoveil.console.survey_head import code_for, standing_of, told_of
from geoveil.gp import GeoVeilError, ParameterError

_Found = TypeVar("_Found")
_TIMEOUT_S = 60.0
_MOST_PERIODS = 60
_MOST_RESULTS = 12


def asked(request: PageRequest) -> Response:
    """Return the page with a statistic's form and results, or one result as a file."""
    campaign_id = request.named["campaign_id"]
    campaign = request.analyst.campaign(campaign_id)
    choices = choices_of(campaign)
    if not isinstance(campaign, ValueCampaign) or not choices:
        raise RefusedError(404, "this survey's reports answer no later questions")
    choices = [*choices, *added_choices(campaign)]
    word = request.text("what", choices[0].word)
    choice = next((offered for offered in choices if offered.word == word), choices[0])
    said = request.text("said", choice.example)
    results: list[tuple[Result, str]] = []
    drawn: Markup | None = None
    problem, geojson = "", ""
    if choice.file:
        geojson = request.files.get("file", b"").decode("utf-8", "replace")
    if _complete(choice, said, geojson) and _has_other(request, campaign, choice):
        try:
            results = [*_found(request, campaign, choice, said, geojson)]
            if choice.word == "map" and geojson:
                drawn = _with_layer(results, _geojson(geojson))
        except GeoVeilError as error:
            problem = str(error)
    wanted = request.text("save")
    if wanted:
        return _saved(request, campaign_id, choice, results, wanted, problem, drawn)
    return request.render(
        "points.html",
        **told_of(campaign),
        **standing_of(request, campaign_id),
        choices=choices,
        choice=choice,
        said=said,
        file_key=request.text("upload:file") if geojson else "",
        name_property=request.text("name_property"),
        period=request.integer("period", 0) or 0,
        begun=_begun(request, campaign),
        contamination=request.number("contamination", 0.0) or 0.0,
        count=request.integer("count", 1) or 1,
        people=request.text("people", "same"),
        against=request.text("against"),
        recurs=campaign.period is not None,
        results=[shown_result(result, code, drawn) for result, code in results[:_MOST_RESULTS]],
        dragged=_dragged(results),
        problem=problem,
        query={
            name: values[-1]
            for name, values in request.query.items()
            if name not in ("save", "what")
        },
    )


def headline(request: PageRequest) -> Response:
    """Return the first result of points: for numbers the median and curve, for places a map.

    With the field `form` = "line" return only the sentence.
    """
    campaign_id = request.named["campaign_id"]
    campaign = request.analyst.campaign(campaign_id)
    choices = choices_of(campaign)
    if not isinstance(campaign, ValueCampaign) or not choices:
        raise RefusedError(404, "this survey's reports have no first result")
    period = None if campaign.period is None else _begun(request, campaign) - 1
    how: dict[str, Any] = {"period": period, "timeout_s": _TIMEOUT_S}
    said: Sequence[Answer] = ()
    if campaign.attribute.coordinates is None:
        medians = request.analyst.ask(campaign_id, Quantiles(levels=[0.5]), **how)
        rest = f"is the median {campaign.attribute.name}"
        said = [replace(answer, rest=rest) for answer in medians.sentences]
    if request.text("form") == "line":
        return Response(" ".join(map(str, said)).encode(), "text/plain; charset=utf-8")
    first: Statistic[Any] = Map() if campaign.attribute.coordinates else DistributionFunction()
    result = request.analyst.ask(campaign_id, first, **how)
    return request.render(
        "headline.html", said=said, result=shown_result(result), reports=result.n,
        campaign_id=campaign_id, word=choices[0].word, period=period or 0,
    )  # fmt: skip


def _complete(choice: PointChoice, said: str, geojson: str) -> bool:
    """Return whether the form has all that its statistic needs."""
    if choice.optional:
        return True
    return bool(geojson) if choice.file else bool(said) or not choice.said


def _has_other(request: PageRequest, campaign: AttributeCampaign, choice: PointChoice) -> bool:
    """Return whether there are reports to compare with, if the statistic is a comparison."""
    compares = choice.word.startswith("changes")
    return not compares or campaign.period is not None or bool(request.text("against"))


def _found(
    request: PageRequest, campaign: ValueCampaign, choice: PointChoice, said: str, geojson: str
) -> Iterator[tuple[Result, str]]:
    """Yield the statistic's results, each with the Python code that computes it."""
    campaign_id, analyst = campaign.campaign_id, request.analyst
    period = None if campaign.period is None else request.integer("period", 0)
    doubt = request.number("contamination", 0.0) or 0.0
    how: dict[str, Any] = {"period": period, "timeout_s": _TIMEOUT_S}
    more = "" if period is None else f", period={period}"
    if choice.word.startswith("changes"):
        yield _changed(request, campaign, choice, said, geojson)
        return
    if choice.word in ("threshold", "range"):
        # A sharp question of numbers: the width of its band is chosen from the reports.
        questions = hard_shares(questions_in({choice.word: [said.replace(" ", "")]}))
        bands = ChosenBands(campaign, questions)
        answered = bands.answered(analyst.ask(campaign_id, bands.questions, **how))
        code = code_for(
            request,
            f"campaign = analyst.campaign({campaign_id!r})",
            f"bands = ChosenBands(campaign, {code_of(questions)})",
            f"answered = analyst.ask({campaign_id!r}, bands.questions{more})",
            f"found = bands.answered(answered){f'.contaminated({doubt!r})' if doubt else ''}",
        )
        yield (answered.contaminated(doubt) if doubt else answered), code
        return
    statistic = _statistic(request, campaign, choice, said, geojson, how)
    text = _code_of(request, statistic, choice, said)
    if doubt:
        statistic, text = Contaminated(statistic, doubt), f"Contaminated({text}, {doubt!r})"
    before = [f"campaign = analyst.campaign({campaign_id!r})"] if "campaign," in text else []
    code = code_for(request, *before, f"found = analyst.ask({campaign_id!r}, {text}{more})")
    yield analyst.ask(campaign_id, statistic, **how), code


def _statistic(
    request: PageRequest,
    campaign: ValueCampaign,
    choice: PointChoice,
    said: str,
    geojson: str,
    how: Mapping[str, Any],
) -> Statistic[Any]:
    """Return the statistic that a form requests.

    Raises:
        ParameterError: if its input is invalid.
    """
    if choice.word == "histogram" and not said:
        curve = request.analyst.ask(campaign.campaign_id, DistributionFunction(), **how)
        low, high = float(curve.at[0]), float(curve.at[-1])
        if campaign.attribute.scale is None:
            return Histogram(edges=round_numbers(low, high))
        edges = np.geomspace(max(low, campaign.attribute.scale.floor), high, BY_FACTORS)
        return Histogram(edges=sorted({float(f"{edge:.1g}") for edge in edges}))
    if choice.word == "districts":
        return _districts(request, geojson)
    if choice.word == "top":
        return Top(request.integer("count", 1) or 1, questions_in({"place": _lines(said)}))
    if choice.word == "top-districts":
        return Top(request.integer("count", 1) or 1, _districts(request, geojson).districts)
    if choice.word == "circle":
        return _means(campaign, _circle(said))
    if choice.word == "nearest":
        return Nearest(_by_name(_lines(said)))
    return _in_words(choice.word.removeprefix(ADDED), said)


def _in_words(word: str, said: str) -> Statistic[Any]:
    """Return the statistic with a given name and numbers."""
    return statistics_in({word: [said]})[0]


def _circle(said: str) -> list[AnalystQuestion]:
    numbers_in("circle", said, 3, "longitude, latitude and radius in metres, with commas")
    return questions_in(
        {"circle": [f"within the circle={','.join(said.replace(',', ' ').split())}"]}
    )


def _means(campaign: ValueCampaign, questions: Sequence[AnalystQuestion]) -> Means:
    return Means(asked_of_points(campaign, questions, softness_of_points(campaign)))


def _districts(request: PageRequest, geojson: str) -> Districts:
    named = request.text("name_property") or None
    return Districts(_geojson(geojson), name_property=named)


def _code_of_districts(request: PageRequest) -> str:
    named = request.text("name_property")
    more = f", name_property={named!r}" if named else ""
    return f'Districts(json.load(open("districts.geojson")){more})'


def _lines(said: str) -> list[str]:
    return [line.strip() for line in said.splitlines() if line.strip()]


def _by_name(lines: Sequence[str]) -> dict[str, tuple[float, float]]:
    named = [_named(line) for line in lines]
    check_distinct([name for name, _ in named], "places", f"{len(named)} places")
    return dict(named)


def _named(line: str) -> tuple[str, tuple[float, float]]:
    name, _, numbers = line.rpartition("=")
    longitude, latitude = place_in("place", numbers)
    return name or numbers, (longitude, latitude)


def _geojson(text: str) -> Any:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        expected = "a GeoJSON file"
        raise ParameterError("file", f"{len(text):,} characters", expected)
    return content


@dataclass(frozen=True, slots=True)
class _Reports:
    """One of the sets of reports to compare."""

    name: str
    campaign: ValueCampaign
    period: int | None


def _compared(request: PageRequest, campaign: ValueCampaign) -> Sequence[_Reports]:
    """Return the sets of reports to compare: another survey's and this one's, or all periods'."""
    other = request.text("against")
    period = None if campaign.period is None else request.integer("period", 0)
    if other:
        published = request.analyst.campaign(other)
        if not isinstance(published, ValueCampaign) or published.dimension != campaign.dimension:
            raise ParameterError("against", other[:40], "a survey with the same kind of reports")
        again = None if published.period is None else period or 0
        return [_Reports(other, published, again), _Reports(campaign.campaign_id, campaign, period)]
    assert campaign.period is not None  # else another is needed
    begun = _begun(request, campaign)
    return [
        _Reports(f"{campaign.opens + period * campaign.period:%Y-%m-%d}", campaign, period)
        for period in range(max(begun - _MOST_PERIODS, 0), begun)
    ]


def _changed(
    request: PageRequest, campaign: ValueCampaign, choice: PointChoice, said: str, geojson: str
) -> tuple[Result, str]:
    """Return how a statistic changed from each period to the next, or from another survey."""
    every = _compared(request, campaign)
    if (word := choice.word.removeprefix("changes-")) in CHANGED:
        every, statistic = _latest(request, every, _in_words(word, said))
        statistics, arguments, lines = (
            [statistic] * len(every),
            "asked",
            [f"asked = {code_of(statistic)}"],
        )
    else:
        questions, written = _questions(request, campaign, choice, said, geojson)
        noisiest = max(
            (reports.campaign for reports in every),
            key=lambda one: 1 / one.point_mechanism.privacy.rate,
        )
        softness = softness_of_points(noisiest)
        statistics = [
            Means(asked_of_points(reports.campaign, questions, softness)) for reports in every
        ]
        arguments = "Means(asked_of_points(analyst.campaign(name), questions, softness))"
        lines = [
            f"questions = {written}",
            f"softness = softness_of_points(analyst.campaign({noisiest.campaign_id!r}))",
        ]
    compared: list[_Reports] = []
    answers: list[Any] = []
    for reports, statistic in zip(every, statistics, strict=True):
        try:
            made = _ask(request, reports, statistic)
        except GeoVeilError:
            if request.text("against"):
                raise
            continue  # too few points to show
        compared.append(reports)
        answers.append(made)
    _two_or_more(answers)
    names = [reports.name for reports in compared]
    people = request.text("people", "same")
    sets = [(reports.campaign.campaign_id, reports.period) for reports in compared]
    lines += [
        f"sets = {sets!r}",
        f"found = [analyst.ask(name, {arguments}, period=period) for name, period in sets]",
    ]
    lines.append(f"found = compare(*found, people={people!r}, names={names!r})")
    return compare(*answers, people=people, names=names), code_for(request, *lines)


def _two_or_more(found: Sequence[_Found]) -> Sequence[_Found]:
    if len(found) < 2:
        raise ParameterError("periods", len(found), "two or more that have enough reports")
    return found


def _latest(
    request: PageRequest, every: Sequence[_Reports], statistic: Statistic[Any]
) -> tuple[Sequence[_Reports], Statistic[Any]]:
    """Return the sets of reports to compare, and the statistic to compute for each.

    For distribution functions, these are the latest two periods with enough reports.
    """

    def asking(one: _Reports) -> Callable[[Statistic[Any]], Any]:
        return lambda asked: _ask(request, one, asked)

    if isinstance(statistic, DistributionFunction) and not request.text("against"):
        enough = []
        for reports in reversed(every):
            try:
                asked_alike([asking(reports)], statistic, [reports.campaign])
            except GeoVeilError:
                continue  # too few points to show
            enough.append(reports)
            if len(enough) == 2:
                break
        every = _two_or_more(enough[::-1])
    campaigns = [reports.campaign for reports in every]
    return every, asked_alike([asking(reports) for reports in every], statistic, campaigns)


def _questions(
    request: PageRequest, campaign: ValueCampaign, choice: PointChoice, said: str, geojson: str
) -> tuple[Sequence[AnalystQuestion], str]:
    """Return the questions to compare, and the Python code that makes them."""
    if choice.file:
        districts = _districts(request, geojson).districts
        return districts, f"{_code_of_districts(request)}.districts"
    if choice.word == "changes-places":
        questions = questions_in({"place": _lines(said)})
    elif choice.word == "changes-range":
        questions = questions_in({"range": [said.replace(" ", "")]})
    elif campaign.attribute.coordinates is not None:
        questions = _circle(said)
    else:
        values = any_numbers_in("values", said)
        questions = questions_in({"threshold": [f"{value:.15g}" for value in values]})
    return questions, code_of(questions)


def _ask(request: PageRequest, one: _Reports, statistic: Statistic[Any]) -> Any:
    return request.analyst.ask(
        one.campaign.campaign_id, statistic, period=one.period, timeout_s=_TIMEOUT_S
    )


def _code_of(
    request: PageRequest, statistic: Statistic[Any], choice: PointChoice, said: str
) -> str:
    if choice.word == "districts":
        return _code_of_districts(request)
    if isinstance(statistic, Top) and choice.file:
        return f"Top({statistic.count}, {_code_of_districts(request)}.districts)"
    if choice.word == "circle":
        questions = code_of(_circle(said))
        return f"Means(asked_of_points(campaign, {questions}, softness_of_points(campaign)))"
    if choice.word.startswith(ADDED):
        return f"statistics_in({{{choice.word.removeprefix(ADDED)!r}: [{said!r}]}})[0]"
    return code_of(statistic)


def _begun(request: PageRequest, campaign: AttributeCampaign) -> int:
    """Return the number of periods begun."""
    return campaign.period_at(request.now) + 1


def _with_layer(results: Sequence[tuple[Result, str]], content: Any) -> Markup | None:
    """Return the map with a file's shapes drawn on it; None unless the only result is a map."""
    layer = layer_in(content)
    maps = [result for result, _ in results if isinstance(result, DensityMap)]
    return density_map(maps[0], layer) if len(results) == 1 and maps else None


def _dragged(results: Sequence[tuple[Result, str]]) -> Sequence[Sequence[Any]]:
    """Return level, value and its text at every hundredth of a curve's quantiles."""
    if not results or not isinstance(results[0][0], DistributionCurve):
        return []
    quantiles = results[0][0].quantiles(LEVELS)
    rows = []
    for level, value, low, high in zip(
        quantiles.at.tolist(),
        quantiles.values.tolist(),
        quantiles.low.tolist(),
        quantiles.high.tolist(),
        strict=True,
    ):
        finite = bool(np.isfinite(value))
        rows.append([level, value if finite else None, *map(cell_text, (value, low, high))])
    return rows


def _saved(
    request: PageRequest,
    campaign_id: str,
    choice: PointChoice,
    results: Sequence[tuple[Result, str]],
    wanted: str,
    problem: str,
    drawn: Markup | None,
) -> Response:
    """Return a result as a file; `wanted` is its number and the file type, such as "0.csv"."""
    number, _, kind = wanted.partition(".")
    if problem:
        raise RefusedError(400, problem)
    if not number.isascii() or not number.isdigit() or int(number) >= len(results):
        raise RefusedError(404, "there is no such result")
    request.note("download", campaign=campaign_id, form=kind[:20], what=choice.word)
    return file_of(results[int(number)][0], kind, f"{campaign_id}-{choice.word}", drawn)
