"""geoveil campaign: show, list and close campaigns, and sign them with a key."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from geoveil.analyst import (
    EXPORTED,
    MEAN_MOVES,
    CampaignRequest,
    PublishedCampaign,
    ServerError,
    browsers_refuse,
    campaign_record,
    central_record,
    central_text,
    counted,
    expected_text,
    ways_of,
)
from geoveil.campaign import (
    AttributeCampaign,
    Campaign,
    FormCampaign,
    SignatureInvalid,
    SigningKey,
    ValueCampaign,
    between,
    days_in,
    decode,
    field_text,
    least_counted,
    open_envelope,
    privacy_text,
    require_attribute,
    rounded_up,
    seal,
    signer,
    what_a_form_tells,
    who_asks,
)
from geoveil.cli import options
from geoveil.cli.asking import Period, asks
from geoveil.cli.connection import CommandError, Connection, analyst_at, connects
from geoveil.cli.console import Part, err, out, print_json, print_table, write_new
from geoveil.gp import GeoVeilError, ParameterError, needed_for
from geoveil.proto.v1.campaign_pb2 import CampaignEnvelope

app = typer.Typer(help="Create, sign, show, list and close campaigns.", no_args_is_help=True)


@app.command()
@connects
@asks
@options.takes(
    "request",
    options.options_of(CampaignRequest)
    | {
        "campaign_id": (
            Annotated[
                str | None,
                typer.Option("--id", help="The campaign's id; by default made from the title."),
            ],
            None,
        )
    },
    CampaignRequest,
)
def create(
    *,
    request: CampaignRequest,
    force: Annotated[
        bool, typer.Option("--force", help="Publish in spite of warnings about likely mistakes.")
    ] = False,
    sign_key: Annotated[
        Path | None,
        typer.Option(
            envvar=options.SIGN_KEY,
            exists=True,
            dir_okay=False,
            help="Sign with the key in this file; see 'geoveil campaign keygen'.",
        ),
    ] = None,
    connection: Connection,
) -> None:
    """Publish a campaign and print its id.

    Example: geoveil campaign create "Income above 100k" --attribute "household income"
    --unit dollar --epsilon 1 --per 8000 --threshold 100000

    With a plan: geoveil campaign create "Income above 100k" --plan plan.toml
    """
    key = None if sign_key is None else SigningKey.from_pem(sign_key.read_bytes())
    campaign = request.campaign(datetime.now(UTC))
    if not force:
        _refuse_unlikely(request, campaign)
    with analyst_at(connection) as analyst, explains_taken_id(campaign):
        digest = analyst.create(campaign, key)
    if isinstance(campaign, FormCampaign):
        out.tell_all(*_form_lines(campaign), f"sha256:{digest.hex()}")
        return
    campaign = require_attribute(campaign)
    n, readings = campaign.periods, campaign.readings
    once = "once, in its one period" if n == 1 else f"once in each of {n:,} periods"
    spent = f"each participant spends this {once}" if campaign.period else None
    in_all = (
        f"{readings} In all, a participant spends at most {campaign.total_privacy}, unless an app's"
        " own policy reads more often."
    )
    out.tell_all(
        _headline(campaign, digest),
        expected_text(campaign, request.people),
        f"'geoveil estimate {campaign.campaign_id} --plan {request.plan}' asks the points what was"
        " planned"
        if request.plan and isinstance(campaign, ValueCampaign)
        else None,
        spent if readings is None else in_all,
        weight_text(campaign),
        None if key is None else f"signed by {key.public}",
    )
    if (refused := browsers_refuse(campaign)) is not None:
        err.tell(("warning:", "bold yellow"), f" no browser can answer it: {refused}")


def _headline(campaign: Campaign, digest: bytes) -> tuple[Part, ...]:
    return (campaign.campaign_id, "bold"), f"  {privacy_text(campaign)}  sha256:{digest.hex()}"


def _refuse_unlikely(request: CampaignRequest, campaign: Campaign) -> None:
    """Refuse likely mistakes, and a campaign for a relay that is too long to pass through one."""
    try:
        if campaign.relay_operator is not None:
            from geoveil.relay import require_room  # loaded where there is a relay

            require_room(campaign)
        request.refuse_unlikely(campaign)
    except ParameterError as error:
        raise ParameterError(
            error.name, error.value, f"{error.expected}. Publish it anyway with --force"
        ) from None


@app.command()
@connects
def show(
    campaign_id: options.CampaignId,
    honest: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of honest reports of one question for the central ε of a cap, if they"
            " reach the analyst in uniformly random order; by default the campaign's minimum.",
        ),
    ] = None,
    central_delta: options.CentralDelta = None,
    as_json: options.AsJson = False,
    *,
    connection: Connection,
) -> None:
    """Print what a campaign asks, what it costs participants, and what one report counts for."""
    with analyst_at(connection) as analyst:
        campaign = analyst.published(campaign_id)
    central = None
    if isinstance(campaign, AttributeCampaign):
        central = central_record(campaign, honest or campaign.minimum_participants, central_delta)
    if as_json:
        print_json(campaign_record(campaign) | {"central": central})
        return
    print_campaign(campaign)
    if central is not None:
        out.tell(central_text(central, require_attribute(campaign).report_privacy))


@app.command("list")
@connects
def list_(as_json: options.AsJson = False, *, connection: Connection) -> None:
    """List all campaigns, each with its id, its signer, its cost and its title.

    Titles are indented, so that only this command writes at the margin.
    """
    with analyst_at(connection) as analyst:
        listed = list(analyst.campaigns())
    if as_json:
        print_json([_listed(published) for published in listed])
        return
    err.tell_all(None if listed else "no campaigns")
    for published in listed:
        try:
            campaign = published.campaign
        except GeoVeilError as error:
            out.tell((f"can't be read ({published.state}): {error}", "bold red"))
            continue
        each = f" every {days_in(campaign.period)}" if campaign.period else ""
        out.tell_all(
            (
                (campaign.campaign_id, "bold"),
                f"  {published.state}, {counted(published.reports, 'report')},",
                f" closes {campaign.closes:%Y-%m-%d %H:%M} UTC",
            ),
            ("signed by ", signed_by(published.envelope), f", {privacy_text(campaign)}{each}"),
            f"  {campaign.title}",
        )


def _listed(found: PublishedCampaign) -> dict[str, Any]:
    """Return a campaign's entry in a list, for JSON; `signed_by` is null if it is not signed."""
    record: dict[str, Any] = {"state": found.state, "reports": found.reports}
    try:
        record = campaign_record(found.campaign) | record
        key = signer(found.envelope)
        return {**record, "signed_by": None if key is None else str(key)}
    except GeoVeilError as error:  # it can't be read, or its signature is not valid
        return {**record, "error": str(error)}


@app.command()
@connects
def close(campaign_id: options.CampaignId, *, connection: Connection) -> None:
    """Stop a campaign from taking reports; its estimate stays."""
    with analyst_at(connection) as analyst:
        analyst.close_campaign(campaign_id)
    out.tell(f"{campaign_id} is closed")


@app.command()
@connects
def export(
    campaign_id: options.CampaignId,
    file: Annotated[Path, typer.Option("--out", help="Parquet file to write. Must not exist.")],
    period: Period = None,
    timeout: Annotated[float, typer.Option(help="Time limit in seconds.")] = 3600.0,
    *,
    connection: Connection,
) -> None:
    """Write the perturbed reports to a Parquet file, without their ids.

    A row is an answer, or a point with its coordinates. Values are integers on the campaign's grid:
    multiply them by 2^step_exponent, which is in the file's metadata, to get numbers.
    """
    with needed_for("an export"):
        import pyarrow  # noqa: F401 - before what a server needs, which is not all that is needed
    from geoveil.simulation.scale import write_reports

    if file.suffix != EXPORTED:
        raise ParameterError("file", str(file), f"a file whose name ends in {EXPORTED}")
    with analyst_at(connection) as analyst:
        count = write_reports(analyst.export(campaign_id, period, timeout_s=timeout), file)
    out.tell(f"{count:,} rows in {file}")


@app.command()
def keygen(
    file: Annotated[Path, typer.Argument(help="File for the private key. It must not exist.")],
) -> None:
    """Make a key to sign campaigns, and print its public half for apps to trust.

    Only its owner can read the file, which is not encrypted. Anybody who has it can sign campaigns
    in your name.
    """
    key = SigningKey.generate()
    write_new(file, key.to_pem(), mode=0o600)
    typer.echo(key.public)


@app.command()
def sign(
    file: Annotated[
        Path,
        typer.Argument(
            exists=True, dir_okay=False, help="An unsigned campaign, as the console makes it."
        ),
    ],
    sign_key: Annotated[
        Path,
        typer.Option(
            envvar=options.SIGN_KEY,
            exists=True,
            dir_okay=False,
            help="The key to sign with. It stays on this machine; see 'geoveil campaign keygen'.",
        ),
    ],
    out_file: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="File for the signed campaign; NAME.signed.campaign by default. It must"
            " not exist.",
        ),
    ] = None,
) -> None:
    """Show what a campaign asks, and sign it with a key that stays on this machine.

    No server is involved. Anybody with permission to publish can publish the signed file, in the
    console or with 'geoveil campaign publish'.

    Example: geoveil campaign sign income.campaign --sign-key key.pem
    """
    envelope = envelope_in(file)
    if signer(envelope) is not None:
        raise ParameterError("file", str(file), "a campaign that nobody has signed yet")
    campaign, key = decode(envelope.campaign), SigningKey.from_pem(sign_key.read_bytes())
    print_campaign(campaign)
    made = out_file or file.with_suffix(".signed.campaign")
    write_new(made, seal(envelope.campaign, key))
    out.tell(f"signed by {key.public}: ", (str(made), "bold"))


@app.command()
@connects
def publish(
    file: Annotated[
        Path,
        typer.Argument(
            exists=True,
            dir_okay=False,
            help="A campaign file from 'geoveil campaign sign' or the console.",
        ),
    ],
    *,
    connection: Connection,
) -> None:
    """Publish a campaign from a file unchanged, with its signature.

    Example: geoveil campaign publish income.signed.campaign
    """
    published, envelope = file.read_bytes(), envelope_in(file)
    campaign = decode(envelope.campaign)
    with analyst_at(connection) as analyst, explains_taken_id(campaign):
        digest = analyst.publish(published)
    out.tell_all(_headline(campaign, digest), ("signed by ", signed_by(envelope)))


@contextmanager
def explains_taken_id(campaign: Campaign) -> Iterator[None]:
    """If the server already has a campaign of this id, state it and how to choose another id."""
    try:
        yield
    except ServerError as error:
        if error.code != "ALREADY_EXISTS":
            raise
        raise CommandError(
            f"the server has another campaign with the id {campaign.campaign_id!r}, or this one"
            " with other dates or another signature: choose another id, with 'geoveil campaign"
            " create --id'"
        ) from error


def print_campaign(campaign: Campaign) -> None:
    """Print what a campaign asks, what it costs participants, and what one report counts for."""
    if isinstance(campaign, FormCampaign):
        out.tell_all(*_form_lines(campaign))
        return
    campaign = require_attribute(campaign)
    attribute, readings = campaign.attribute, campaign.readings
    expected = between(attribute.least, attribute.most)
    doubt = f"devices ask about a value that is not {expected} {attribute.value_unit}"
    out.tell_all(
        ((campaign.campaign_id, "bold"), f"  {campaign.title}"),
        f"{attribute.name}: {privacy_text(campaign)}",
        least_counted(campaign),
        expected and doubt,
        *_when_and_how(campaign),
        None if readings is None else str(readings),
        readings.telling if readings and campaign.cohorts > 1 else None,
    )
    print_table(
        ("query", "a report counts from", "to", "beyond"),
        (
            (
                campaign.words_for(column["label"]),
                _end(column["low"]),
                _end(column["high"]),
                "counts as the end" if column["clamps"] else "is refused",
            )
            for column in campaign_record(campaign)["queries"]
        ),
        wrapped=range(4),
    )
    out.tell(weight_text(campaign))


def _form_lines(form: FormCampaign) -> "Iterator[str | tuple[Part, ...] | None]":
    """Yield the fields of a form, and what a report costs participants."""
    yield (form.campaign_id, "bold"), f"  {form.title}"
    for field in form.fields:
        yield f"{field_text(form, field)}  {'' if field.text == field.name else field.text}"
    yield from _when_and_how(form)
    yield from what_a_form_tells(form)
    yield f"what its reports say: geoveil form ask {form.campaign_id}"


def _when_and_how(campaign: Campaign) -> Iterator[str | None]:
    yield from who_asks(campaign)
    tags = ", ".join(each.language for each in campaign.translations)
    yield tags and f"texts also in {tags}"
    yield f"open from {campaign.opens:%Y-%m-%d %H:%M} to {campaign.closes:%Y-%m-%d %H:%M} UTC"
    yield from ways_of(campaign).values()


def weight_text(campaign: AttributeCampaign) -> str:
    """Return the largest effect of one report on an estimate, in words."""
    most = max(map(campaign.most_from_one, range(campaign.columns)))
    moves = f"One report of n, whatever it says, moves a mean by at most {rounded_up(most, 4):g}/n."
    return MEAN_MOVES if math.isinf(most) else moves


def signed_by(envelope: CampaignEnvelope) -> tuple[str, str]:
    """Return the first characters of the key, which distinguish keys, and their style."""
    try:
        key = signer(envelope)
    except SignatureInvalid:
        return "a signature that is not valid", "bold red"
    return ("nobody" if key is None else f"{str(key)[: len('ed25519:') + 16]}…"), ""


def _end(value: float) -> str:
    return f"{value:,.4g}" if abs(value) >= 1e6 else f"{value:z,.4f}"


def envelope_in(file: Path) -> CampaignEnvelope:
    """Return the campaign of a file, with its signature if it has one."""
    try:
        return open_envelope(file.read_bytes())
    except ParameterError as error:
        if error.name != "envelope":
            raise
        raise ParameterError(
            "file", str(file), "a campaign that the console, or 'geoveil campaign sign', wrote"
        ) from error
