"""geoveil contribute: take part in a campaign with your own value."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from geoveil.campaign import (
    Answers,
    AttributeCampaign,
    Campaign,
    CategoryField,
    Field,
    FormCampaign,
    MultipleField,
    NumberField,
    Value,
    between,
    both,
    days_in,
    decode,
    digits,
    parse_period,
    price_text,
    privacy_text,
    require_attribute,
    say,
    speaking,
    what_a_form_tells,
    what_it_tells,
    what_it_tells_of,
    what_to_ask,
    who_asks,
    who_learns,
    written,
)
from geoveil.cli import options
from geoveil.cli.client import DeviceWay, by_ways, default_state, waits_until
from geoveil.cli.connection import TIMEOUT_S, CommandError, Connection, connects
from geoveil.cli.console import BLANKS, err, out
from geoveil.cli.numbers import parse, spelled
from geoveil.client import (
    LONGEST,
    Client,
    DeliveryStatus,
    Epoch,
    Policy,
    Receipt,
    ReportBuilder,
    Transport,
)
from geoveil.gp import GeoPrivacy, ParameterError, PrivateValueError
from geoveil.proto.v1 import collector_pb2

_OUTCOMES = {
    DeliveryStatus.PENDING: "kept",
    DeliveryStatus.EXPIRED: "expired",
    DeliveryStatus.REJECTED: "rejected",
    DeliveryStatus.ACKNOWLEDGED: "counted",
}


@connects
@by_ways
def contribute(
    *,
    campaign_id: options.CampaignId,
    yes: Annotated[
        bool,
        typer.Option(
            "--yes",
            "-y",
            help="Accept the privacy shown and send without a question. A value that is probably "
            "a slip is still asked about.",
        ),
    ] = False,
    state_dir: Annotated[
        Path | None,
        typer.Option(
            help="Directory in which this device keeps its reports and spending; one per person."
        ),
    ] = None,
    read_every: Annotated[
        str | None,
        typer.Option(
            help="Perturb the value once in this time, for example 365d, and answer from it every"
            " campaign about this value that also gets this option."
        ),
    ] = None,
    reading_epsilon: Annotated[
        float | None,
        typer.Option(
            help="With --read-every: ε of that perturbed value, over the campaign's PER; the"
            " campaign's own ε by default. Until the next reading no campaign may ask for more."
        ),
    ] = None,
    language: Annotated[
        str,
        typer.Option(
            envvar=options.LANGUAGE,
            help="Language of all texts and of numbers: en, de, es or fr.",
        ),
    ] = "en",
    way: DeviceWay,
    connection: Connection,
) -> None:
    """Perturb a value on this machine and send the result, once per campaign.

    The value is read from standard input or asked for without echo; it is not an argument, because
    the shell's history and the list of processes would keep it. Places: 'longitude,latitude'. A
    terminal shows the value before it is perturbed, and what the report will reveal about it. A
    form asks for one answer after another, or reads lines NAME=ANSWER, such as 'income=52000'.
    """
    of_campaign = partial(_epoch, read_every, reading_epsilon)
    folder = state_dir or default_state()
    with speaking(language), way.transport(connection, folder) as transport:
        _take_part(transport, campaign_id, yes, folder, of_campaign)


class _WronglyTypedError(PrivateValueError):
    """States the expected value in the person's language."""

    def __init__(self, key: str, **values: str | float) -> None:
        super().__init__(say(key, **values))
        self._said = say("wrong.value", expected=say(key, **values)).translate(BLANKS)

    def __str__(self) -> str:
        return self._said


def _price(text: str) -> str:
    """Return a price with its "per" in the person's language: the first, as a unit may have one."""
    return text.replace(" per ", say("tell.per"), 1)


def _epoch(every: str | None, epsilon: float | None, campaign: AttributeCampaign) -> Epoch | None:
    """Return the epoch that --read-every and --reading-epsilon set for a campaign's value."""
    if every is None:
        if epsilon is not None:
            raise ParameterError(
                "reading-epsilon", epsilon, "left out unless there is --read-every"
            )
        return None
    length, stated = parse_period("read-every", every, LONGEST), campaign.answer_privacy
    if not campaign.nests:
        raise ParameterError(
            "read-every", every, "left out: such questions are not answered from one reading"
        )
    privacy = stated if epsilon is None else GeoPrivacy(epsilon, stated.per, stated.unit)
    if privacy.epsilon < stated.epsilon:
        raise ParameterError(
            "reading-epsilon",
            epsilon,
            f"at least {stated.epsilon:g}, which this campaign asks for",
        )
    return Epoch(privacy=privacy, length=length)


def _take_part(
    transport: Transport,
    campaign_id: str,
    yes: bool,
    state_dir: Path,
    epoch_of: Callable[[AttributeCampaign], Epoch | None],
) -> None:
    """Show what a report reveals, draw it if the person agrees, and send and show it."""
    response = transport.get_campaign(
        collector_pb2.GetCampaignRequest(campaign_id=campaign_id), TIMEOUT_S
    )
    campaign = decode(response.envelope.campaign)
    of_form = isinstance(campaign, FormCampaign)
    epoch = None if of_form else epoch_of(require_attribute(campaign))
    policy = Policy.permitting(campaign, epoch)
    # The checks of the SDK come before anything is shown: what is shown can be answered.
    shown = ReportBuilder(policy=policy).accept(campaign_id, response.envelope.SerializeToString())
    asks = campaign if isinstance(campaign, FormCampaign) else shown.asks
    err.tell_all(
        ((asks.texts.title, "bold"),),
        *_what_it_asks(asks),
        *who_asks(campaign),
        say("tell.signer", text=str(shown.signer or say("tell.nobody"))),
        *_what_it_costs(asks, epoch),
        *_when_it_leaves(shown.campaign),
    )
    if not yes:
        _agree(say("tell.take"), say("tell.unsaid"))
    with Client(
        policy=policy,
        state_dir=state_dir,
        transport=_AsShown(response, transport),
        background=False,
    ) as client:
        client.fetch(campaign_id)  # stored before anything is drawn
        if isinstance(asks, FormCampaign):
            value: Value | Answers = read_answers(asks, _ask_unseen)
        else:
            value = read_value(asks, _ask_unseen)
            _confirm(asks, value, yes, read=epoch is not None)
        drawn = client.contribute(campaign_id, value)
        client.flush(TIMEOUT_S)
        (receipt,) = (r for r in client.history() if r.report_id == drawn.report_id)
    _show(asks, receipt, fresh=drawn.fresh)


def _what_it_asks(campaign: AttributeCampaign | FormCampaign) -> Iterator[str]:
    if isinstance(campaign, FormCampaign):
        yield from (say("tell.asks", name=field.wording.text) for field in campaign.fields)
        return
    yield say("tell.asks", name=campaign.texts.attribute)
    attribute, places = campaign.attribute, campaign.attribute.coordinates
    if places is None:
        numbers = filter(None, (campaign.texts.unit, between(attribute.least, attribute.most)))
        yield say("tell.given", unit=", ".join(numbers))
        return
    # The person reads the area before giving any place.
    yield say("tell.given", unit=say("tell.degrees"))
    yield say(
        "tell.area",
        radius=digits(round(places.area.radius_m)),
        place=f"{places.area.longitude_deg:.7g},{places.area.latitude_deg:.7g}",
    )


def _what_it_costs(
    campaign: AttributeCampaign | FormCampaign, epoch: Epoch | None
) -> Iterator[str]:
    """Yield what a report costs and tells."""
    if isinstance(campaign, FormCampaign):
        yield from (*what_a_form_tells(campaign), *who_learns(campaign))
        return
    unit, spent = campaign.texts.unit, privacy_text(campaign)
    if epoch is not None:
        spent = price_text(campaign.answer_privacy, unit)
    yield say("tell.privacy", text=_price(spent))
    yield from what_it_tells(campaign, None if epoch is None else epoch.privacy)
    yield from who_learns(campaign)
    if epoch is not None:
        yield say("tell.epoch", name=campaign.texts.attribute, epoch=str(epoch))
    elif campaign.readings is not None:
        total = _price(price_text(campaign.total_privacy, unit))
        yield say("tell.total", readings=str(campaign.readings), privacy=total)
    if campaign.readings is not None and campaign.cohorts > 1:
        yield campaign.readings.telling


def _when_it_leaves(campaign: Campaign) -> Iterator[str]:
    if campaign.window is not None:
        kind = "" if campaign.period is None else ".period"
        yield say(f"tell.window{kind}", length=days_in(campaign.window))


def _confirm(
    campaign: AttributeCampaign, value: float | list[float], yes: bool, *, read: bool
) -> None:
    """Ask for confirmation before sending; show the value only on a terminal."""
    doubt, seen = what_to_ask(campaign, value), sys.stdin.isatty() and sys.stderr.isatty()
    if seen:
        err.tell_all(_echo(campaign, value), *what_it_tells_of(campaign, value, read=read))
    if doubt or (seen and not yes):
        question = (doubt or say("tell.send")) if seen else say("tell.slip")
        _agree(question, say("tell.unsaid.value", yes=say("tell.yes")[0]))


def _echo(campaign: AttributeCampaign, value: float | list[float]) -> str:
    numbers = value if isinstance(value, list) else [value]
    if campaign.attribute.coordinates is not None:
        longitude, latitude = map(digits, numbers)
        return say("tell.answer", value=say("tell.place", longitude=longitude, latitude=latitude))
    in_english = written() == (",", ".")
    pairs = zip(map(digits, numbers), [in_english and spelled(x) for x in numbers], strict=True)
    shown = both([f"{x} ({word})" if word else x for x, word in pairs])
    return say("tell.answer", value=f"{shown} {campaign.texts.unit}")


def _agree(question: str, unsaid: str) -> None:
    yes = say("tell.yes").split()
    prompt = f"{question} [{yes[0]}/N]".translate(BLANKS)
    try:
        answer = typer.prompt(prompt, default="", show_default=False, err=True).strip().lower()
    except typer.Abort:  # nobody is there to answer
        answer = "?"
    if answer in yes:
        return
    if not answer or answer[0] == "n":  # no, nein, non
        raise typer.Exit(1)
    raise CommandError(unsaid)


@dataclass(frozen=True, slots=True)
class _AsShown:
    """A `Transport` with the campaign that was shown: the server can't exchange it for another."""

    response: collector_pb2.GetCampaignResponse
    transport: Transport

    def get_campaign(
        self, request: collector_pb2.GetCampaignRequest, timeout_s: float
    ) -> collector_pb2.GetCampaignResponse:
        """Return the campaign that was shown."""
        return self.response

    def submit_reports(
        self, request: collector_pb2.SubmitReportsRequest, timeout_s: float
    ) -> collector_pb2.SubmitReportsResponse:
        """Send reports to the server."""
        return self.transport.submit_reports(request, timeout_s)

    def __getattr__(self, name: str) -> Any:
        """Return the other attributes that the client reads from a transport."""
        return getattr(self.transport, name)


def _show(campaign: Campaign, receipt: Receipt, *, fresh: bool) -> None:
    out.tell_all(
        None if fresh else say("tell.again"),
        say("tell.report", outcome=say(f"tell.{_OUTCOMES[receipt.status]}"), id=receipt.report_id),
    )
    for answer, perturbed in zip(receipt.answers, receipt.perturbed, strict=True):
        cohort, column = divmod(answer.query_index, campaign.columns)
        label = campaign.words_for(campaign.texts.labels[column])
        if campaign.cohorts > 1:
            label = say("tell.cohort", cohort=str(cohort), label=label)
        of_form = isinstance(campaign, FormCampaign)  # whose fields have grids of their own
        value = str(answer.value) if of_form else f"{perturbed:.6f}"
        key = "tell.sent" if of_form else "tell.perturbed"
        out.tell(f"  {say(key, label=label, value=value)}")
    if receipt.rejection is not None:
        err.tell(
            say("tell.refused", reason=f"{receipt.rejection.reason} {receipt.rejection.detail}")
        )
    elif receipt.failure is not None:
        err.tell(say("tell.failed", reason=receipt.failure))
    if leaves := waits_until(receipt):
        out.tell(say("tell.then", leaves=leaves))
    elif not receipt.acknowledged:
        raise typer.Exit(1)


def _ask_unseen(prompt: str) -> str:
    return str(typer.prompt(prompt.translate(BLANKS), hide_input=True, err=True))


def read_value(campaign: AttributeCampaign, ask: Callable[[str], str]) -> float | list[float]:
    """Return the numbers that were typed, or piped in; no error repeats them, or holds them.

    Args:
        campaign: which asks.
        ask: shows a prompt, if there is a terminal, and returns a line that nobody sees.

    Raises:
        PrivateValueError: if they are not the numbers that the campaign asks for; it says only
            what is expected.
    """
    places = campaign.attribute.coordinates is not None
    count, unit = 2 if places else campaign.dimension, campaign.texts.unit
    try:
        text = ask(say("tell.type")) if sys.stdin.isatty() else sys.stdin.readline()
    except UnicodeDecodeError:
        text = ""
    numbers = parse(text, count)
    if numbers is not None:
        return numbers if count > 1 else numbers[0]
    key = "wrong.place" if places else "wrong.number" if count == 1 else "wrong.numbers"
    raise _WronglyTypedError(key, count=digits(count), unit=unit)


def read_answers(form: FormCampaign, ask: Callable[[str], str]) -> dict[str, Any]:
    """Return the answers that were typed, or piped in as lines NAME=ANSWER; no error repeats them.

    Args:
        form: which asks.
        ask: shows a prompt, if there is a terminal, and returns a line that nobody sees.

    Raises:
        PrivateValueError: if one can't be read, or names no field; it says only what is expected.
    """
    answers: dict[str, Any] = {}
    if sys.stdin.isatty():
        for field in form.fields:
            if field in form.applying(answers):
                wording = field.wording
                of = ", ".join(wording.options) or wording.unit
                answers[field.name] = _answer(
                    field, ask(say("tell.field", question=wording.text, of=of))
                )
        return answers
    by_name = {field.name: field for field in form.fields}
    try:
        lines = [line for line in sys.stdin.read().splitlines() if line.strip()]
    except UnicodeDecodeError:
        lines = ["="]
    for line in lines:
        name, _, text = line.partition("=")
        if name.strip() not in by_name:
            raise _WronglyTypedError("wrong.lines", names=", ".join(by_name))
        answers[name.strip()] = _answer(by_name[name.strip()], text)
    return answers


def _answer(field: Field, text: str) -> Any:
    if isinstance(field, MultipleField):
        return [_option(field, option) for option in text.split(",") if option.strip()]
    if isinstance(field, CategoryField):
        return _option(field, text)
    numbers = parse(text, 1 if isinstance(field, NumberField) else 2)
    if numbers is None:
        kind = "" if isinstance(field, NumberField) else ".place"
        raise _WronglyTypedError(f"wrong.field{kind}", name=field.name)
    return numbers if len(numbers) > 1 else numbers[0]


def _option(field: CategoryField, text: str) -> str:
    """Return the option that was typed as itself, or as its text in the person's language."""
    wording, typed = field.wording.options, text.strip()
    return field.options[wording.index(typed)] if typed in wording else typed
