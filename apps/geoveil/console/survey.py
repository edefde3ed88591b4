"""The pages of a survey: its questions, progress, and results."""

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from markupsafe import Markup

from geoveil.analyst import (
    MEAN_MOVES,
    Answer,
    CampaignEstimates,
    LabelledEstimate,
    Result,
    cell_text,
    cells,
    compare,
)
from geoveil.campaign import AttributeCampaign, FormCampaign, ValueCampaign
from geoveil.console.charts import filling, intervals, over_time
from geoveil.console.http import (
    GatewayRequest,
    RefusedError,
    Response,
    Route,
    download,
    seen_at,
)
from geoveil.console.progress import over_time as reports_over_time, plan_participants
from geoveil.console.rendering import date_text
from geoveil.console.results import CSV, csv_text, file_of, json_text, shown_result
from geoveil.console.survey_head import code_for, standing_of, told_of
from geoveil.gp import GeoVeilError, IntervalMethod, UnsupportedError

_MOST_CARDS = 12
"""The most answers shown as sentences; the table shows all."""
_MOST_DRAWN = 100
"""The most questions in a picture."""
_SHARE = (0.0, 1.0)
"""The range of a mean that is a share."""
_MOST_CHANGES = 4
"""The most questions with sentences on their changes."""


@dataclass(frozen=True, slots=True)
class ShownAnswer:
    """The result of one question: a sentence, and its details."""

    label: str
    when: str
    """The period, if the survey recurs."""
    said: Answer
    behind: Sequence[str]


def answers_shown(found: CampaignEstimates | None) -> dict[str, Any]:
    """Return the data of the answers' template.

    Args:
        found: the estimates; None while there are too few answers.
    """
    if found is None:
        return {"answers": None, "result": None, "json": "", "more": 0}
    rows = found.latest
    notes = replace(found, estimates=rows).notes if rows else ()
    return {
        "answers": [*_answers(found, rows[:_MOST_CARDS])],
        "more": max(len(rows) - _MOST_CARDS, 0),
        "warnings": [note for note in notes if note.startswith("WARNING")],
        "trends": [answer for trend in found.trends() for answer in trend.sentences],
        "result": replace(
            shown_result(found, picture=_picture(found)),
            title=f"E{found.axis_label[1:]}",  # the title itself heads the page
        ),
        "json": json_text(found),
    }


def survey(request: GatewayRequest) -> Response:
    """Return the page of a survey."""
    campaign_id = request.named["campaign_id"]
    campaign = request.analyst.published(campaign_id)
    if isinstance(campaign, FormCampaign):
        said = told_of(campaign) | standing_of(request, campaign_id)
        return request.render("form.html", **said)
    if isinstance(campaign, ValueCampaign):
        request.begin_asking()
    filled = reports_over_time(request, campaign_id)
    estimates = request.analyst.estimate_or_none(campaign_id)
    doubt = request.number("contamination", 0.01) or 0.0
    people = request.text("people", "same")
    changes = [] if estimates is None else changes_in(estimates, people)
    return request.render(
        "survey.html",
        **told_of(campaign),
        **standing_of(request, campaign_id),
        **answers_shown(estimates),
        contamination=doubt,
        doubted=None if estimates is None else doubted(estimates, doubt),
        changes=[
            (part, shown_result(part.result, code_for(request, *part.lines))) for part in changes
        ],
        people=people,
        filled=shown_result(filled, picture=filling(filled)),
        planned="" if filled.planned is None else filled.planned // campaign.periods,
        code=code_for(request, f"found = analyst.estimate({campaign_id!r})"),
    )


def saved(request: GatewayRequest) -> Response:
    """Return the estimates of a survey as a file."""
    campaign_id = request.named["campaign_id"]
    estimates = request.analyst.estimate(campaign_id)
    request.note("download", campaign=campaign_id, form=request.named["kind"])
    return estimates_as(estimates, request.named["kind"])


def estimates_as(found: CampaignEstimates, kind: str) -> Response:
    """Return estimates as a file, with their sentences and notes on the method."""
    campaign_id, how = found.campaign.campaign_id, " ".join(found.notes)
    if kind == "csv":
        rows = [
            {"answer": str(found.answer_of(row)), **columns, "method": how}
            for row, columns in zip(found.estimates, found.rows(), strict=True)
        ]
        return download(csv_text(rows).encode(), CSV, f"{campaign_id}.csv")
    drawn = _picture(found)
    if drawn is not None:
        note = Markup("</title><desc>{}</desc>").format(how)
        drawn = Markup(drawn.replace("</title>", note, 1))  # noqa: S704 - both are escaped
    return file_of(found, kind, campaign_id, drawn)


def saved_reports(request: GatewayRequest) -> Response:
    """Return the progress of a survey as a file."""
    campaign_id, kind = request.named["campaign_id"], request.named["kind"]
    filled = reports_over_time(request, campaign_id)
    request.note("download", campaign=campaign_id, form=kind, what="reports")
    return file_of(filled, kind, f"{campaign_id}-reports", filling(filled))


def planned(request: GatewayRequest) -> Response:
    """Store the planned number of participants."""
    campaign_id = request.named["campaign_id"]
    plan_participants(request, campaign_id, request.integer("planned"))
    return seen_at(f"/surveys/{campaign_id}")


def _answers(found: CampaignEstimates, rows: Sequence[LabelledEstimate]) -> Iterator[ShownAnswer]:
    """Yield one answer per question, or one for the two coordinates of a place."""
    whole = found.place
    if whole is not None:
        behind = [sentence for row in rows for sentence in _sentences(row)]
        yield ShownAnswer(found.campaign.title, "", whole, behind)
        return
    for row in rows:
        when = ""
        if found.campaign.period is not None:
            when = f"from {date_text(found.campaign.opens + row.period * found.campaign.period)}"
        yield ShownAnswer(
            found.campaign.words_for(row.label),
            when,
            found.answer_of(row),
            [*_sentences(row)],
        )


def _sentences(row: LabelledEstimate) -> Iterator[str]:
    """Yield sentences on the estimates of the three targets and on the price of privacy."""
    fields: Any = row.to_dict()
    often = f"{100 * row.confidence:g} %"
    is_share = row.limits.estimates == _SHARE

    def sized(error: float) -> str:
        return f"{100 * error:.2g} % points" if is_share else cell_text(error)

    looks = ", at all looks at once" if row.method is IntervalMethod.SEQUENCE else ""
    yield f"From {row.n:,} answers."
    if row.standard_error is None:
        yield "An error and an interval need two answers."
        return
    yield (
        f"The population, of which the participants are a random sample: the standard error is"
        f" {sized(row.standard_error)}, noise and sampling together, and the interval holds its"
        f" mean at {often}{looks}."
    )
    own = fields["targets"]["participants"]
    if own["standard_error"] is not None:
        how = {"exact": "", "estimated": "about "}.get(str(own["basis"]), "")
        yield (
            "The participants themselves: what they would have answered in the clear is off by"
            f" noise alone, with a standard error of {how}{sized(own['standard_error'])}."
        )
    elif own["standard_error_at_most"] is not None:
        yield (
            "The participants themselves: noise alone has a standard error of at most"
            f" {sized(own['standard_error_at_most'])}."
        )
    hard = fields["targets"]["hard_question"]
    if hard is not None:
        yield (
            f"The question with a sharp edge: {100 * hard['value']:.2f} %, within"
            f" {100 * hard['ci_low']:.2f} to {100 * hard['ci_high']:.2f} % at {often}, including "
            "the softness of the question."
        )
    elif row.mechanism is not None:
        yield (
            "The question with a sharp edge: no plan was signed with this survey, so how far the"
            " soft edge is from a sharp one is not known."
        )
    price = fields["price_of_privacy"]
    if price is None:
        return
    ratio, people = price["variance_ratio"], price["participants_in_the_clear"]
    if ratio is not None:
        yield (
            f"Privacy multiplies the variance by {ratio:.3g}: this is as precise as {people:,}"
            f" answer{'' if people == 1 else 's'} in the clear."
        )
    elif price["variance_ratio_at_most"] is not None:
        yield (
            f"Privacy multiplies the variance by {price['variance_ratio_at_least']:.3g} to"
            f" {price['variance_ratio_at_most']:.3g}."
        )


def doubted(found: CampaignEstimates, fraction: float) -> Sequence[Sequence[str]] | str:
    """Return label, estimate and widened interval of each answer, or why there are none.

    Args:
        fraction: the share of answers that may be false.
    """
    if math.isinf(found.campaign.most_from_one(0)):
        return MEAN_MOVES
    rows = []
    try:
        for row in found.latest[:_MOST_CARDS]:
            widened = row.contaminated(fraction)
            ends = "–"
            if widened.ci_low is not None and widened.ci_high is not None:
                ends = f"{_at_error(widened.ci_low, row)} – {_at_error(widened.ci_high, row)}"
            rows.append((row.label, _at_error(row.possible, row), ends))
    except GeoVeilError as error:
        return str(error)
    return rows


@dataclass(frozen=True, slots=True)
class Part:
    """A result computed from the estimates of a survey."""

    name: str
    """The name of its files, without the survey's id."""
    result: Result
    lines: Sequence[str]
    """Python code that computes it with `analyst`."""


def changes_in(found: CampaignEstimates, people: str) -> Iterator[Part]:
    """Yield the change of each question's answer from period to period.

    Args:
        people: whether two periods have "different" participants or may have the "same".

    Raises:
        ParameterError: if `people` is neither.
    """
    periods = sorted({row.period for row in found.estimates})
    if len(periods) < 2 or found.campaign.period is None:
        return
    for number, label in enumerate(found.campaign.labels[:_MOST_CHANGES]):
        joints = {}
        for period in periods:
            with suppress(UnsupportedError):  # too few answers
                joints[period] = found.joint([label], period)
        if len(joints) < 2:
            continue
        names = [_begins(found.campaign, period) for period in joints]
        lines = [
            f"estimates = analyst.estimate({found.campaign.campaign_id!r})",
            f"joints = [estimates.joint([{label!r}], p) for p in {[*joints]}]",
            f"found = compare(*joints, people={people!r}, names={names!r})",
        ]
        changed = compare(*joints.values(), people=people, names=names)
        yield Part(f"change{number}", changed, lines)


def saved_part(request: GatewayRequest) -> Response:
    """Return a result computed from the estimates of a survey, as a file."""
    campaign_id, name = request.named["campaign_id"], request.named["name"]
    estimates = request.analyst.estimate(campaign_id)
    for part in changes_in(estimates, request.text("people", "same")):
        if part.name == name:
            request.note("download", campaign=campaign_id, form=request.named["kind"], what=name)
            return file_of(part.result, request.named["kind"], f"{campaign_id}-{name}")
    raise RefusedError(404, "there is no such result")


def _picture(found: CampaignEstimates) -> Markup | None:
    """Return a picture of shares or, for a recurring survey, of its first question over time."""
    shares = {row.limits.estimates for row in found.estimates} == {_SHARE}
    said = [*found.sentences]
    if found.campaign.period is None or len(found.estimates) < 2:
        if not shares or len(found.estimates) > _MOST_DRAWN:
            return None
        head = str(said[0]) if len(said) == 1 else found.campaign.title
        return intervals(found.title, found.rows(), found.axis_label, head=head, percent=True)
    label = found.estimates[0].label
    rows = [row for row in found.estimates if row.label == label]
    names = [_begins(found.campaign, row.period) for row in rows]
    points = [
        {"estimate": row.possible, "ci_low": row.ci_low, "ci_high": row.ci_high} for row in rows
    ]
    return over_time(str(said[0]), points, names, percent=shares)


def _begins(campaign: AttributeCampaign, period: int) -> str:
    assert campaign.period is not None  # asked of those that recur
    return f"{campaign.opens + period * campaign.period:%Y-%m-%d}"


def _at_error(value: float | None, row: LabelledEstimate) -> str:
    """Return a number with as many decimals as its standard error justifies."""
    shown_cells = cells({"estimate": value, "standard_error": row.standard_error})
    return shown_cells["estimate"]


ROUTES = (
    Route("GET", "/surveys/{campaign_id}", survey),
    Route("GET", "/surveys/{campaign_id}/estimate.{kind}", saved),
    Route("GET", "/surveys/{campaign_id}/reports.{kind}", saved_reports),
    Route("POST", "/surveys/{campaign_id}/planned", planned),
    Route("GET", "/surveys/{campaign_id}/parts/{name}.{kind}", saved_part),
)
