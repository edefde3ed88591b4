"""geoveil campaign create: publish a new campaign, from options, a plan or a form."""

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from geoveil.analyst import (
    RADIUS_M,
    VOCABULARY,
    AnalystQuestion,
    area_of,
    browsers_refuse,
    campaign_asking,
    campaign_for_points,
    campaign_of,
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
    LONGEST,
    MOST_COHORTS,
    Allocation,
    Asker,
    AttributeCampaign,
    Campaign,
    FormCampaign,
    PublicKey,
    Readings,
    SigningKey,
    StatisticCampaign,
    ValueCampaign,
    privacy_text,
)
from geoveil.cli import options
from geoveil.cli.asking import Words, asks
from geoveil.cli.campaign_text import explains_taken_id, print_form, weight_text
from geoveil.cli.connection import Connection, analyst_at, connects
from geoveil.cli.console import err, out
from geoveil.cli.environment import SIGN_KEY
from geoveil.cli.form import fields_in, texts_in
from geoveil.gp import Cap, GeoPrivacy, LogScale, ParameterError, validation

_LONGEST_DAYS = 1_000_000.0
_LONGEST_KEPT_DAYS = 3660
_PARTICIPANTS = 10_000


@connects
@asks
def create(
    title: Annotated[str, typer.Argument(help="The title, one line.")],
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
        typer.Option(
            help="Take the questions from a plan of 'geoveil plan --out' instead of the"
            " flags below."
        ),
    ] = None,
    form: Annotated[
        Path | None,
        typer.Option(
            help="Ask the questions of a form (TOML, as 'geoveil form from' writes it) instead of"
            " questions about one attribute."
        ),
    ] = None,
    unit: Annotated[
        str | None, typer.Option(help="Unit of PER and of the values; metre for places.")
    ] = None,
    ratios_from: options.RatiosFrom = None,
    least: Annotated[
        float | None,
        typer.Option(
            help="The least plausible value. Devices ask before they send a smaller one, which may"
            " be a slip; with --points and --most it then counts as this."
        ),
    ] = None,
    most: Annotated[
        float | None, typer.Option(help="The greatest plausible value, treated in the same way.")
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
            help="Everyone sends one perturbed point, which answers any question of 'geoveil"
            " estimate' later: a place with --center, otherwise a number.",
        ),
    ] = False,
    dimension: Annotated[
        int | None,
        typer.Option(help="Coordinates of a point that is not a place: 1 (default) to 3."),
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
            help="partition (default): everyone answers one random query with ε. split: all m"
            " queries with ε/m each. repeat: all with ε each, mε in total. vector: all together"
            " with ε, by smooth noise."
        ),
    ] = None,
    cap: Annotated[
        str | None,
        typer.Option(
            help="Limit the odds between any two values, however far apart, to e^(BELOW + ABOVE) to"
            " 1: distances from the boundary count up to BELOW·PER/ε outside and ABOVE·PER/ε"
            " inside. The default is the plan's cap, or 4,4, or what the questions need, up to"
            " e^10. 'none': no limit."
        ),
    ] = None,
    days: Annotated[float, typer.Option(help="Days for which it takes reports, from now.")] = 30.0,
    every: Annotated[
        str | None,
        typer.Option(
            help="Everyone answers once in each period of this length, and spends ε each time: 7d,"
            " 12h, 30m, 1w. By default once in total."
        ),
    ] = None,
    read_every: Annotated[
        str | None,
        typer.Option(
            help="Devices read and perturb their value once in this time, for example 365d, and"
            " answer all periods from that reading: ε is spent once for each reading. For"
            " --points, or for questions about one number with the debiased mechanism."
        ),
    ] = None,
    extrapolated: Annotated[
        bool,
        typer.Option(
            "--extrapolated",
            help="With --read-every: extrapolate answers from two readings; for means that drift.",
        ),
    ] = False,
    cohorts: Annotated[
        int | None,
        typer.Option(
            min=2,
            max=MOST_COHORTS,
            help="With --read-every: devices whose app permits it say in which of this many parts"
            " of that time theirs begins, so that recent readings can be seen alone. This links"
            " reports.",
        ),
    ] = None,
    participants: Annotated[
        int | None,
        typer.Option(
            help="Expected number of participants, to predict the error; by default the plan's, or"
            " 10000."
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Publish in spite of warnings about likely mistakes.")
    ] = False,
    minimum_participants: Annotated[
        int, typer.Option(help="The server shows no estimate from fewer answers.")
    ] = 0,
    relay_operator: Annotated[
        str | None,
        typer.Option(
            help="Devices send only through a relay, to the gateway with this key ed25519:...; see"
            " 'geoveil relay rotate'."
        ),
    ] = None,
    token_key: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="Each report needs a token from the issuer whose key is in this file, as printed"
            " by 'geoveil relay key'.",
        ),
    ] = None,
    window: Annotated[
        str | None,
        typer.Option(
            help="Reports leave at random times in this window, for example 2d, at the end of each"
            " period or of the campaign; people answer before it. Behind a relay nobody then"
            " sees the order of answers."
        ),
    ] = None,
    organisation: Annotated[
        str | None,
        typer.Option(
            help="Who asks, as people see it before they answer; with --purpose and --contact. By"
            " default that is unknown."
        ),
    ] = None,
    purpose: Annotated[str | None, typer.Option(help="What the answers are for.")] = None,
    contact: Annotated[
        str | None, typer.Option(help="Where questions and complaints go, as an e-mail address.")
    ] = None,
    notice: Annotated[
        str | None,
        typer.Option(help="Address https://... of all that people are told of their data."),
    ] = None,
    texts: Annotated[
        Path | None,
        typer.Option(
            help="Texts in other languages, signed with the campaign: TOML with a table for each,"
            " named de or pt-BR, of title, organisation, purpose, contact, notice, attribute, unit"
            " and labels, as far as they differ; and language = 'en' for the campaign's own."
        ),
    ] = None,
    delete_after: Annotated[
        int | None,
        typer.Option(
            help="Days after the closing when the server deletes all single reports, and keeps"
            " their sums: exports, and new questions about perturbed points or a form, end then."
            " By default people read that it is unknown how long single answers are kept."
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
        str | None, typer.Option("--id", help="The campaign's id; by default made from the title.")
    ] = None,
    connection: Connection,
) -> None:
    """Publish a campaign and print its id.

    Example: geoveil campaign create "Income above 100k" --attribute "household income"
    --unit dollar --epsilon 1 --per 8000 --threshold 100000

    With a plan: geoveil campaign create "Income above 100k" --plan plan.toml
    """
    validation.between("days", days, 0, _LONGEST_DAYS, low_open=True)
    if delete_after is not None:
        validation.between("delete_after", delete_after, 0, _LONGEST_KEPT_DAYS)
    now = datetime.now(UTC)
    closes = now + timedelta(days=days)
    asker = _asker(organisation, purpose, contact, notice)
    language, translations = ("", ()) if texts is None else texts_in(texts, asker)
    later: dict[str, Any] = {
        "campaign_id": campaign_id or id_of(title),
        "title": title,
        "opens": now,
        "closes": closes,
        "delete_after": None if delete_after is None else closes + timedelta(days=delete_after),
        "period": None if every is None else options.parse_period("every", every),
        "minimum_participants": minimum_participants,
        "window": None if window is None else options.parse_period("window", window),
        "token_key": None if token_key is None else _hexadecimal(token_key),
        "relay_operator": None if relay_operator is None else PublicKey.parse(relay_operator),
        "readings": _readings(read_every, extrapolated, cohorts),
        "asker": asker,
        "language": language,
        "translations": translations,
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
        said["readings"] = later.pop("readings")
        options.left_out(said, "left out: the form says it")
        published = FormCampaign(fields=fields_in(form), **later)
        _require_room(published, force=force)
        with analyst_at(connection) as analyst, explains_taken_id(published):
            digest = analyst.create(published, key)
        print_form(published)
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
    _require_room(campaign, force=force)
    participants = _PARTICIPANTS if participants is None else participants
    validation.between("participants", participants, 1, 10**12)
    if not force:
        try:
            refuse_unlikely(campaign, participants, questions)
        except ParameterError as error:
            expected = f"{error.expected}. Publish it all the same with --force"
            option = ("every", every) if error.name == "period" else (error.name, error.value)
            raise ParameterError(*option, expected) from None
    with analyst_at(connection) as analyst, explains_taken_id(campaign):
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


def _require_room(campaign: Campaign, *, force: bool) -> None:
    """Refuse a campaign that asks for a relay but is too long to pass through one."""
    if campaign.relay_operator is not None and not force:
        from geoveil.relay import require_room  # loaded where there is a relay

        try:
            require_room(campaign)
        except ParameterError as error:
            expected = f"{error.expected}. Publish it all the same with --force"
            raise ParameterError(error.name, error.value, expected) from None


def _asker(*said: str | None) -> Asker | None:
    """Return what --organisation, --purpose, --contact and --notice say; None: nothing."""
    if not any(said):
        return None
    organisation, purpose, contact, notice = (each or "" for each in said)
    try:
        return Asker(organisation=organisation, purpose=purpose, contact=contact, notice=notice)
    except ParameterError as error:
        name = error.name.removeprefix("asker.")
        raise ParameterError(name, error.value or None, error.expected) from None


def _readings(every: str | None, extrapolated: bool, cohorts: int | None) -> Readings | None:
    """Return the readings of --read-every, --extrapolated and --cohorts."""
    if every is None:
        said = {"extrapolated": extrapolated or None, "cohorts": cohorts}
        options.left_out(said, "left out unless there is --read-every")
        return None
    length = options.parse_period("read-every", every, LONGEST)
    return Readings(every=length, extrapolated=extrapolated, cohorts=cohorts or 0)


def _with_cap(campaign: AttributeCampaign, said: str) -> AttributeCampaign:
    """Return the campaign with the cap of --cap."""
    if not isinstance(campaign, StatisticCampaign):
        raise ParameterError("cap", said, "left out of points, which have no boundary")
    if said == "none":
        return replace(campaign, cap=None)
    sides = numbers_in("cap", said, 2, "two numbers, BELOW,ABOVE, as 4,4; or none")
    return replace(campaign, cap=Cap(*sides))


def _asking(
    attribute: str | None, said: dict[str, Any], asked: list[AnalystQuestion], later: dict[str, Any]
) -> AttributeCampaign:
    """Return the campaign that the options describe, without a plan."""
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
    """Return the guarantee that the options describe, and the scale of values compared by ratio."""
    epsilon, per, delta = said["epsilon"], said["per"], said["delta"] or 0.0
    reach = math.inf if said["reach"] is None else said["reach"]
    if said["ratios_from"] is None:
        return GeoPrivacy(epsilon, per, unit, delta, reach), None
    scale = LogScale(said["ratios_from"])
    privacy = GeoPrivacy.per_factor(epsilon, per, unit)
    options.left_out({"reach": said["reach"]}, "left out beside --ratios-from")
    return replace(privacy, delta=delta), scale


def _hexadecimal(file: Path) -> bytes:
    try:
        return bytes.fromhex(file.read_text(encoding="ascii"))
    except (OSError, ValueError):
        raise ParameterError("token-key", str(file), "a file of 'geoveil relay key'") from None
