"""geoveil campaign: create, list and close campaigns, and make the key that signs them."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from geoveil.analyst import (
    MEAN_MOVES,
    RADIUS_M,
    VOCABULARY,
    AnalystQuestion,
    PublishedCampaign,
    ServerError,
    area_of,
    browsers_refuse,
    campaign_asking,
    campaign_for_points,
    campaign_of,
    campaign_record,
    expected_text,
    id_of,
    mechanism_names,
    numbers_in,
    place_in,
    planned_participants,
    questions_in,
    refuse_unlikely,
)
from geoveil.campaign import (
    COHORT,
    LONGEST,
    MOST_COHORTS,
    Allocation,
    AttributeCampaign,
    Campaign,
    FormCampaign,
    Readings,
    SignatureInvalid,
    SigningKey,
    StatisticCampaign,
    Strata,
    ValueCampaign,
    between,
    decode,
    field_text,
    least_counted,
    open_envelope,
    require_attribute,
    seal,
    signer,
    what_a_form_tells,
)
from geoveil.cli import options
from geoveil.cli.asking import Period, Words, asks
from geoveil.cli.connection import CommandError, Connection, analyst_at, connects
from geoveil.cli.console import err, out, print_json, privacy_text, table_80, write_new
from geoveil.cli.environment import SIGN_KEY
from geoveil.cli.form import fields_in
from geoveil.cli.sources import EXPORTED
from geoveil.gp import (
    Cap,
    GeoPrivacy,
    GeoVeilError,
    LogScale,
    ParameterError,
    needed_for,
    validation,
)
from geoveil.proto.v1.campaign_pb2 import CampaignEnvelope

app = typer.Typer(help="Create, sign, show, list and close campaigns.", no_args_is_help=True)

_LONGEST_DAYS = 1_000_000.0
_PARTICIPANTS = 10_000

_SHOWN_OF_KEY = len("ed25519:") + 16


@app.command()
@connects
@asks
def create(
    title: Annotated[str, typer.Argument(help="One line that people read.")],
    *,
    epsilon: options.Epsilon = None,
    per: options.Per = None,
    delta: options.Delta = 0.0,
    reach: options.Reach = None,
    attribute: Annotated[
        str | None, typer.Option(help="What participants hold, e.g. 'household income'.")
    ] = None,
    plan: Annotated[
        Path | None,
        typer.Option(help="Ask what 'geoveil plan --out' planned, in place of the flags below."),
    ] = None,
    form: Annotated[
        Path | None,
        typer.Option(
            help="Ask for all answers of a form, in TOML as 'geoveil form from' writes it, in place"
            " of one attribute: no other flag says what is asked."
        ),
    ] = None,
    unit: Annotated[
        str | None, typer.Option(help="Unit of PER and of values; of places it is metre.")
    ] = None,
    ratios_from: options.RatiosFrom = None,
    least: Annotated[
        float | None,
        typer.Option(
            help="The least number that anybody holds: devices ask about one below it, which may"
            " be a slip, before anything leaves. With --points and --most it then counts as this."
        ),
    ] = None,
    most: Annotated[
        float | None, typer.Option(help="The greatest number that anybody holds, likewise.")
    ] = None,
    words: Words,
    width: Annotated[
        float | None,
        typer.Option(
            help="Width of the soft band around a threshold or an edge; 3·PER/ε by default, or"
            " what a range or a circle has room for."
        ),
    ] = None,
    bandwidth: Annotated[
        float | None,
        typer.Option(help="Bandwidth of a density's bell, in metres; 3·PER/ε by default."),
    ] = None,
    center: options.Center = None,
    radius: options.Radius = None,
    points: Annotated[
        bool,
        typer.Option(
            "--points",
            help="Everyone sends one perturbed point, of which 'geoveil estimate' asks anything"
            " later: a place if there is a --center, else a number.",
        ),
    ] = False,
    dimension: Annotated[
        int | None,
        typer.Option(help="How many numbers a point has that is no place: 1, the default, to 3."),
    ] = None,
    mechanism: Annotated[
        str | None,
        typer.Option(
            help=f"{', '.join(mechanism_names())}, as 'name' or 'name:a=1'; debiased by default."
            " 'geoveil mechanisms' lists them."
        ),
    ] = None,
    allocation: Annotated[
        Allocation | None,
        typer.Option(
            help="Everyone answers one query, drawn at random, with ε (partition, the default); or"
            " all m queries with ε/m each (split); all with ε each, mε in all (repeat); or all"
            " together with ε, by smooth noise (vector)."
        ),
    ] = None,
    cap: Annotated[
        str | None,
        typer.Option(
            help="Tell no two values apart better than e^(BELOW + ABOVE) to 1, however far apart:"
            " distances from the boundary count up to BELOW·PER/ε outside and ABOVE·PER/ε inside."
            " By default that of the plan, or 4,4, or what the questions need, up to e^10. 'none'"
            " counts all distances."
        ),
    ] = None,
    days: Annotated[float, typer.Option(help="How long it takes reports, from now.")] = 30.0,
    every: Annotated[
        str | None,
        typer.Option(
            help="Everyone answers once in every such period and spends ε each time: 7d, 12h,"
            " 30m, 1w. By default once in all."
        ),
    ] = None,
    read_every: Annotated[
        str | None,
        typer.Option(
            help="Devices read and perturb their value once in so long, as 365d, and answer every"
            " period in between from that: ε is spent once for each reading. Of --points, or"
            " questions about one number with the debiased mechanism."
        ),
    ] = None,
    extrapolated: Annotated[
        bool,
        typer.Option(
            "--extrapolated",
            help="With --read-every: answers go on as two readings did; for means that drift.",
        ),
    ] = False,
    cohorts: Annotated[
        int | None,
        typer.Option(
            min=2,
            max=MOST_COHORTS,
            help="With --read-every: devices whose app permits so many say in which part of that"
            " time theirs begins, so that those who just read can be seen alone. It links reports.",
        ),
    ] = None,
    participants: Annotated[
        int | None,
        typer.Option(
            help="How many are expected, to tell the error; those of the plan, or 10000, by"
            " default."
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Publish what looks like a mistake all the same.")
    ] = False,
    minimum_participants: Annotated[
        int, typer.Option(help="The server shows no estimate of fewer answers.")
    ] = 0,
    strata: Annotated[
        str | None,
        typer.Option(
            help="Groups that devices name beside their value, and their names: 'region: north,"
            " south'. A label is sent as it is, unless there is --strata-epsilon."
        ),
    ] = None,
    strata_epsilon: Annotated[
        float | None,
        typer.Option(
            help="ε between any two labels: each is sent with a lie at times, and devices are"
            " charged for it."
        ),
    ] = None,
    sign_key: Annotated[
        Path | None,
        typer.Option(
            envvar=SIGN_KEY,
            exists=True,
            dir_okay=False,
            help="Sign with the key in this file; see 'geoveil campaign keygen'.",
        ),
    ] = None,
    campaign_id: Annotated[
        str | None, typer.Option("--id", help="Made from the title by default.")
    ] = None,
    connection: Connection,
) -> None:
    """Publish a campaign and print its id.

    Example: geoveil campaign create "Income above 100k" --attribute "household income"
    --unit dollar --epsilon 1 --per 8000 --threshold 100000

    With a plan: geoveil campaign create "Income above 100k" --plan plan.toml
    """
    validation.between("days", days, 0, _LONGEST_DAYS, low_open=True)
    now = datetime.now(UTC)
    later: dict[str, Any] = {
        "campaign_id": campaign_id or id_of(title),
        "title": title,
        "opens": now,
        "closes": now + timedelta(days=days),
        "period": None if every is None else options.parse_period("every", every),
        "minimum_participants": minimum_participants,
        "strata": _cohorts(cohorts, read_every, strata) or _strata(strata, strata_epsilon),
        "readings": _readings(read_every, extrapolated),
    }
    said: dict[str, Any] = {
        "epsilon": epsilon, "per": per, "delta": delta or None, "reach": reach, "unit": unit,
        "ratios_from": ratios_from, **words,
        "width": width, "bandwidth": bandwidth, "center": center,
        "radius": radius, "points": points or None, "dimension": dimension,
        "mechanism": mechanism, "allocation": allocation,
    }  # fmt: skip
    key = None if sign_key is None else SigningKey.from_pem(sign_key.read_bytes())
    if form is not None:
        said |= {"attribute": attribute, "plan": plan, "least": least, "most": most, "cap": cap}
        said |= {name: later.pop(name) for name in ("strata", "readings")}
        options.left_out(said, "left out: the form says it")
        published = FormCampaign(fields=fields_in(form), **later)
        with analyst_at(connection) as analyst, _told_if_taken(published):
            digest = analyst.create(published, key)
        _print_form(published)
        out.tell(f"sha256:{digest.hex()}")
        return
    questions: list[AnalystQuestion] = []
    if plan is None:
        questions = questions_in(words)
        campaign = _asking(attribute, said, questions, later)
    else:
        options.left_out(said, "left out: the plan says it")
        campaign = campaign_of(plan, attribute=attribute, **later)
        participants = participants or planned_participants(plan)
    if least is not None or most is not None:
        held = replace(campaign.attribute, least=least, most=most)
        campaign = replace(campaign, attribute=held)
    if cap is not None:
        campaign = _with_cap(campaign, cap)
    participants = _PARTICIPANTS if participants is None else participants
    validation.between("participants", participants, 1, 10**12)
    if not force:
        try:
            refuse_unlikely(campaign, participants, questions)
        except ParameterError as error:
            expected = f"{error.expected}. Publish it all the same with --force"
            option = ("every", every) if error.name == "period" else (error.name, error.value)
            raise ParameterError(*option, expected) from None
    with analyst_at(connection) as analyst, _told_if_taken(campaign):
        digest = analyst.create(campaign, key)
    out.tell((campaign.campaign_id, "bold"), f"  {privacy_text(campaign)}  sha256:{digest.hex()}")
    out.tell(expected_text(campaign, participants))
    if plan is not None and isinstance(campaign, ValueCampaign):
        how = f"'geoveil estimate {campaign.campaign_id} --plan {plan}'"
        out.tell(f"{how} asks the points what was planned")
    if campaign.readings is not None:
        out.tell(
            f"{campaign.readings} In all, a participant spends at most {campaign.total_privacy}."
        )
    elif campaign.period is not None:
        n = campaign.periods
        once = "once, in its one period" if n == 1 else f"once in each of {n:,} periods"
        out.print(f"each participant spends this {once}")
    out.print(weight_text(campaign))
    if (refused := browsers_refuse(campaign)) is not None:
        err.tell(("warning:", "bold yellow"), f" no browser can answer it: {refused}")
    if key is not None:
        out.tell(f"signed by {key.public}")


@contextmanager
def _told_if_taken(campaign: Campaign) -> Iterator[None]:
    """Say which id is taken, and how another is chosen, where the server has it already."""
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


def _envelope_in(file: Path, content: bytes) -> CampaignEnvelope:
    """Return the campaign of a file, with its signature if it has one."""
    try:
        return open_envelope(content)
    except ParameterError as error:
        if error.name != "envelope":
            raise
        expected = "a campaign that the console, or 'geoveil campaign sign', wrote"
        raise ParameterError("file", str(file), expected) from error


def _strata(said: str | None, epsilon: float | None) -> Strata | None:
    """Return the groups that text like "region: north, south" names."""
    groups = options.strata(said, epsilon)
    return None if groups is None else Strata(name=groups[0], labels=groups[1], epsilon=epsilon)


def _readings(every: str | None, extrapolated: bool) -> Readings | None:
    """Return what --read-every and --extrapolated say."""
    if every is None:
        if extrapolated:
            raise ParameterError("extrapolated", True, "left out unless there is --read-every")
        return None
    length = options.parse_period("read-every", every, LONGEST)
    return Readings(every=length, extrapolated=extrapolated)


def _cohorts(count: int | None, read_every: str | None, strata: str | None) -> Strata | None:
    """Return the strata that --cohorts says."""
    if count is None:
        return None
    if read_every is None or strata is not None:
        expected = "left out unless there is --read-every, and no --strata"
        raise ParameterError("cohorts", count, expected)
    return Strata(name=COHORT, labels=tuple(str(i + 1) for i in range(count)))


def _with_cap(campaign: AttributeCampaign, said: str) -> AttributeCampaign:
    """Return the campaign with what --cap says."""
    if not isinstance(campaign, StatisticCampaign):
        raise ParameterError("cap", said, "left out of points, which have no boundary")
    if said == "none":
        return replace(campaign, cap=None)
    sides = numbers_in("cap", said, 2, "two numbers, BELOW,ABOVE, as 4,4; or none")
    return replace(campaign, cap=Cap(*sides))


def _asking(
    attribute: str | None,
    said: dict[str, Any],
    asked: list[AnalystQuestion],
    later: dict[str, Any],
) -> AttributeCampaign:
    """Return the campaign that options describe, and no plan."""
    options.all_given(
        {"epsilon": said["epsilon"], "per": said["per"], "attribute": attribute},
        unless=", unless there is a --plan",
    )
    radius = RADIUS_M if said["radius"] is None else said["radius"]
    center = None if said["center"] is None else place_in("center", said["center"])
    plane = area_of(asked, center, radius)
    if plane is None:
        of_places = {"radius": said["radius"], "bandwidth": said["bandwidth"]}
        options.left_out(of_places, "left out: nothing here is about places")
    if said["unit"] is None and plane is None:
        raise ParameterError(
            "unit", None, "given, for example dollar: only of places it is metre by default"
        )
    privacy, scale = _privacy(said, "metre" if said["unit"] is None else said["unit"])
    more = {"attribute": attribute, "privacy": privacy, "plane": plane, **later}
    words = ", ".join(f"--{word}" for word in VOCABULARY)
    if said["points"]:
        if asked:
            raise ParameterError("points", True, f"without {words}: they are asked later")
        if said["allocation"] not in (None, Allocation.PARTITION):
            raise ParameterError(
                "allocation", said["allocation"].value, "'partition': there is nothing to divide"
            )
        return campaign_for_points(dimension=said["dimension"], scale=scale, **more)
    if not asked:
        raise ParameterError("questions", "none", f"at least one of {words}, or --points")
    if said["dimension"] is not None:
        raise ParameterError("dimension", said["dimension"], "left out unless there is --points")
    more["mechanism"] = said["mechanism"] or "debiased"
    more["allocation"] = said["allocation"] or Allocation.PARTITION
    more["scale"] = scale
    return campaign_asking(asked, width=said["width"], bandwidth=said["bandwidth"], **more)


def _privacy(said: dict[str, Any], unit: str) -> tuple[GeoPrivacy, LogScale | None]:
    """Return the guarantee that options describe, and the scale of what is compared by ratio."""
    epsilon, per, delta = said["epsilon"], said["per"], said["delta"] or 0.0
    reach = math.inf if said["reach"] is None else said["reach"]
    if said["ratios_from"] is None:
        return GeoPrivacy(epsilon, per, unit, delta, reach), None
    scale = LogScale(said["ratios_from"])
    privacy = GeoPrivacy.per_factor(epsilon, per, unit)
    options.left_out({"reach": said["reach"]}, "left out beside --ratios-from")
    return replace(privacy, delta=delta), scale


@app.command()
@connects
def show(
    campaign_id: options.CampaignId,
    as_json: options.AsJson = False,
    *,
    connection: Connection,
) -> None:
    """Print what a campaign asks, what it costs participants, and what one report counts for."""
    with analyst_at(connection) as analyst:
        campaign = analyst.published(campaign_id)
    if as_json:
        print_json(campaign_record(campaign))
        return
    _print_campaign(campaign)


def _print_form(form: FormCampaign) -> None:
    """Print the fields of a form, and what a report costs participants."""
    out.tell((form.campaign_id, "bold"), f"  {form.title}")
    for field in form.fields:
        out.tell(f"{field_text(form, field)}  {'' if field.text == field.name else field.text}")
    out.tell(f"open from {form.opens:%Y-%m-%d %H:%M} to {form.closes:%Y-%m-%d %H:%M} UTC")
    for sentence in what_a_form_tells(form):
        out.tell(sentence)
    out.tell(f"what its reports say: geoveil form ask {form.campaign_id}")


def _print_campaign(campaign: Campaign) -> None:
    """Print what a campaign asks, what it costs participants, and what one report counts for."""
    if isinstance(campaign, FormCampaign):
        _print_form(campaign)
        return
    campaign = require_attribute(campaign)
    out.tell((campaign.campaign_id, "bold"), f"  {campaign.title}")
    out.tell(f"{campaign.attribute.name}: {privacy_text(campaign)}")
    if (floor := least_counted(campaign)) is not None:
        out.tell(floor)
    attribute = campaign.attribute
    if expected := between(attribute.least, attribute.most):
        out.tell(f"devices ask about a value that is not {expected} {attribute.value_unit}")
    out.tell(f"open from {campaign.opens:%Y-%m-%d %H:%M} to {campaign.closes:%Y-%m-%d %H:%M} UTC")
    if campaign.strata is not None and not campaign.tells_cohorts:
        out.tell(str(campaign.strata))
    if campaign.readings is not None:
        out.tell(str(campaign.readings))
        if campaign.tells_cohorts:
            out.tell(campaign.readings.telling(campaign.groups))
    table = table_80("query", "a report counts from", "to", "beyond", wrapped=range(4))
    for column in campaign_record(campaign)["queries"]:
        beyond = "counts as the end" if column["clamps"] else "is refused"
        named = campaign.words_for(column["label"])
        table.add_row(named, _end(column["low"]), _end(column["high"]), beyond)
    out.print(table)
    out.print(weight_text(campaign))


@app.command()
@connects
def export(
    campaign_id: options.CampaignId,
    file: Annotated[Path, typer.Option("--out", help="Parquet file to write. Must not exist.")],
    period: Period = None,
    timeout: Annotated[float, typer.Option(help="Seconds that it may take.")] = 3600.0,
    *,
    connection: Connection,
) -> None:
    """Write the perturbed reports to a Parquet file, without their ids.

    A row is an answer, or a point with its coordinates. Values are integers on the campaign's grid:
    times 2^step_exponent, which the file's metadata names, they are numbers.
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
    file: Annotated[Path, typer.Argument(help="Where the private key goes. Must not exist.")],
) -> None:
    """Make a key that signs campaigns, and print its public half, which apps are to trust.

    The file is readable by its owner only, and not encrypted. Whoever has it can ask in your name.
    """
    key = SigningKey.generate()
    write_new(file, key.to_pem(), mode=0o600)
    typer.echo(key.public)


@app.command()
def sign(
    file: Annotated[
        Path,
        typer.Argument(
            exists=True, dir_okay=False, help="A campaign that is not signed, as the console makes."
        ),
    ],
    sign_key: Annotated[
        Path,
        typer.Option(
            envvar=SIGN_KEY,
            exists=True,
            dir_okay=False,
            help="The key to sign with, which stays here; see 'geoveil campaign keygen'.",
        ),
    ],
    out_file: Annotated[
        Path | None,
        typer.Option(
            "--out", help="Where it goes, signed; NAME.signed.campaign by default. Must not exist."
        ),
    ] = None,
) -> None:
    """Say what a campaign asks, and sign it with a key that stays on this machine.

    No server is asked. What is written may be published by anybody who may publish: in the
    console, or with 'geoveil campaign publish'.

    Example: geoveil campaign sign income.campaign --sign-key key.pem
    """
    envelope = _envelope_in(file, file.read_bytes())
    if signer(envelope) is not None:
        raise ParameterError("file", str(file), "a campaign that nobody has signed yet")
    campaign, key = (
        decode(envelope.campaign),
        SigningKey.from_pem(sign_key.read_bytes()),
    )
    _print_campaign(campaign)
    made = out_file or file.with_suffix(".signed.campaign")
    write_new(made, seal(envelope.campaign, key))
    out.tell(f"signed by {key.public}: ", (str(made), "bold"))


@app.command()
@connects
def publish(
    file: Annotated[
        Path,
        typer.Argument(
            exists=True, dir_okay=False, help="That 'geoveil campaign sign' wrote, or the console."
        ),
    ],
    *,
    connection: Connection,
) -> None:
    """Publish a campaign from a file, as it is, with the signature that it has.

    Example: geoveil campaign publish income.signed.campaign
    """
    published = file.read_bytes()
    envelope = _envelope_in(file, published)
    campaign = decode(envelope.campaign)
    with analyst_at(connection) as analyst, _told_if_taken(campaign):
        digest = analyst.publish(published)
    out.tell((campaign.campaign_id, "bold"), f"  {privacy_text(campaign)}  sha256:{digest.hex()}")
    out.tell("signed by ", signed_by(envelope))


@app.command("list")
@connects
def list_(as_json: options.AsJson = False, *, connection: Connection) -> None:
    """List all campaigns, each with its id, who signed it, what it costs, and its title.

    A title is indented: what stands at the margin is said by this command.
    """
    with analyst_at(connection) as analyst:
        listed = list(analyst.campaigns())
    if as_json:
        print_json([_listed(published) for published in listed])
        return
    for published in listed:
        try:
            campaign = published.campaign
        except GeoVeilError as error:
            out.tell((f"can't be read ({published.state}): {error}", "bold red"))
            continue
        each = f" each {options.period_text(campaign.period)}" if campaign.period else ""
        out.tell(
            (campaign.campaign_id, "bold"),
            f"  {published.state}, {published.reports:,} reports,"
            f" closes {campaign.closes:%Y-%m-%d %H:%M} UTC",
        )
        out.tell("signed by ", signed_by(published.envelope), f", {privacy_text(campaign)}{each}")
        out.tell(f"  {campaign.title}")


def _listed(found: PublishedCampaign) -> dict[str, Any]:
    """Return what a list says of a campaign, for JSON; `signed_by` is null if it is not signed."""
    record: dict[str, Any] = {}
    try:
        record = campaign_record(found.campaign)
        key = signer(found.envelope)
        record["signed_by"] = None if key is None else str(key)
    except GeoVeilError as error:  # it can't be read, or its signature is not valid
        record["error"] = str(error)
    return record | {"state": found.state, "reports": found.reports}


@app.command()
@connects
def close(
    campaign_id: options.CampaignId,
    *,
    connection: Connection,
) -> None:
    """Stop a campaign from taking reports; its estimate stays."""
    with analyst_at(connection) as analyst:
        analyst.close_campaign(campaign_id)
    out.tell(f"{campaign_id} is closed")


def signed_by(envelope: CampaignEnvelope) -> tuple[str, str]:
    """Return the beginning of the key that signed, enough to tell keys apart, and its style."""
    try:
        key = signer(envelope)
    except SignatureInvalid:
        return "a signature that is not valid", "bold red"
    return ("nobody" if key is None else f"{str(key)[:_SHOWN_OF_KEY]}…"), ""


def weight_text(campaign: AttributeCampaign) -> str:
    """Return by how much one report can move an estimate, in words."""
    most = max(map(campaign.most_from_one, range(campaign.columns)))
    if math.isinf(most):
        return MEAN_MOVES
    return f"One report of n, whatever it says, moves a mean by at most {most:.4g}/n."


def _end(value: float) -> str:
    return f"{value:,.4g}" if abs(value) >= 1e6 else f"{value:z,.4f}"
