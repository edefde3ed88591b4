"""A request for a campaign: what to ask and what to promise, and the refusal of what conflicts.

Fields say of themselves what the option of `geoveil campaign create` with their name shows as help,
apart from those that several commands have.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from geoveil.analyst.campaigns import (
    campaign_asking,
    campaign_for_points,
    id_of,
    mechanism_names,
    refuse_unlikely,
)
from geoveil.analyst.form_files import fields_of_toml, texts_of_toml
from geoveil.analyst.plan_files import campaign_of, planned_participants
from geoveil.analyst.questions import RADIUS_M, AnalystQuestion, area_of
from geoveil.analyst.vocabulary import (
    VOCABULARY,
    all_given,
    leave_out,
    left_out,
    numbers_in,
    place_in,
    questions_in,
)
from geoveil.campaign import (
    LONGEST,
    Allocation,
    Asker,
    AttributeCampaign,
    Campaign,
    FormCampaign,
    PublicKey,
    Readings,
    StatisticCampaign,
    parse_period,
)
from geoveil.gp import Cap, GeoPrivacy, LogScale, ParameterError, validation

_LONGEST_DAYS = 1_000_000.0
_LONGEST_KEPT_DAYS = 3660
_PARTICIPANTS = 10_000
_ASKED = (
    "epsilon per delta reach unit ratios_from width bandwidth center radius points dimension"
    " mechanism allocation"
)
"""What a plan, or a form, says in place of these."""


@dataclass(frozen=True, kw_only=True)
class CampaignRequest:
    """What `geoveil campaign create` publishes: fields are its options, conflicting ones refused.

    Raises:
        ParameterError: naming the option that is wrong, missing, or in conflict with another.

    Example:
        >>> request = CampaignRequest(title="Rents", attribute="rent", unit="euro", epsilon=1.0,
        ...                           per=100.0, words={"threshold": ["900"]})
        >>> campaign = request.campaign(datetime.fromisoformat("2026-03-01T00:00+00:00"))
        >>> campaign.campaign_id, campaign.labels
        ('rents', ('above 900',))
        >>> replace(request, points=True).campaign(campaign.opens)
        Traceback (most recent call last):
        geoveil.gp.errors.ParameterError: points must be without --threshold, --range, --place, \
--circle, --region, --query: they are asked later, got points=True
    """

    title: Annotated[str, "The title, one line."]
    epsilon: float | None = None
    per: float | None = None
    delta: float = 0.0
    reach: float | None = None
    attribute: Annotated[str | None, "What participants hold, e.g. 'household income'."] = None
    plan: Annotated[
        Path | None,
        "Take the questions from a plan of 'geoveil plan --out' instead of the flags below.",
    ] = None
    form: Annotated[
        Path | None,
        "Ask the questions of a form (TOML, as 'geoveil form from' writes it) instead of"
        " questions about one attribute.",
    ] = None
    unit: Annotated[str | None, "Unit of PER and of the values; metre for places."] = None
    ratios_from: float | None = None
    least: Annotated[
        float | None,
        "The least plausible value. Devices ask before they send a smaller value, which may"
        " be a slip; with --points and --most it then counts as this.",
    ] = None
    most: Annotated[float | None, "The greatest plausible value, treated in the same way."] = None
    words: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """The words of `questions_in`."""
    width: Annotated[
        float | None,
        "Width of the soft band around a threshold or an edge; 3·PER/ε by default, or"
        " what a range or a circle has room for.",
    ] = None
    bandwidth: Annotated[
        float | None, "Bandwidth of a density's bell, in metres; 3·PER/ε by default."
    ] = None
    center: str | None = None
    radius: float | None = None
    points: Annotated[
        bool,
        "Everyone sends one perturbed point, which answers any question of 'geoveil"
        " estimate' later: a place with --center, otherwise a number.",
    ] = False
    dimension: Annotated[
        int | None, "Coordinates of a point that is not a place: 1 (default) to 3."
    ] = None
    mechanism: Annotated[
        str | None,
        f"{', '.join(mechanism_names())}, as 'name' or 'name:a=1'; debiased by default."
        " 'geoveil mechanisms' lists them.",
    ] = None
    allocation: Annotated[
        Allocation | None,
        "partition (default): everyone answers one random query with ε. split: all m"
        " queries with ε/m each. repeat: all with ε each, mε in total. vector: all together"
        " with ε, by smooth noise.",
    ] = None
    cap: Annotated[
        str | None,
        "Limit the odds between any two values, however far apart, to e^(BELOW + ABOVE) to"
        " 1: distances from the boundary count up to BELOW·PER/ε outside and ABOVE·PER/ε"
        " inside. The default is the plan's cap, or 4,4, or what the questions need, up to"
        " e^10. 'none': no limit.",
    ] = None
    days: Annotated[float, "Days from now for which it takes reports."] = 30.0
    every: Annotated[
        str | None,
        "Everyone answers once in each period of this length, and spends ε each time: 7d,"
        " 12h, 30m, 1w. By default once in total.",
    ] = None
    read_every: Annotated[
        str | None,
        "Devices read and perturb their value once in this time, for example 365d, and"
        " answer all periods from that reading: ε is spent once for each reading. For"
        " --points, or for questions about one number with the debiased mechanism.",
    ] = None
    extrapolated: Annotated[
        bool, "With --read-every: extrapolate answers from two readings; for means that drift."
    ] = False
    cohorts: Annotated[
        int | None,
        "With --read-every: devices whose app permits it say in which of this many parts"
        " of that time theirs begins, so that recent readings can be seen alone. This links"
        " reports.",
    ] = None
    participants: Annotated[
        int | None,
        "Expected number of participants, to predict the error; by default the plan's, or 10000.",
    ] = None
    minimum_participants: Annotated[int, "The server shows no estimate from fewer answers."] = 0
    relay_operator: Annotated[
        str | None,
        "Devices send only through a relay, to the gateway with this key ed25519:...; see"
        " 'geoveil relay rotate'.",
    ] = None
    token_key: Annotated[
        Path | None,
        "Each report needs a token from the issuer whose key is in this file, as printed"
        " by 'geoveil relay key'.",
    ] = None
    window: Annotated[
        str | None,
        "Reports leave at random times in this window, for example 2d, at the end of each"
        " period or of the campaign; people answer before it. Behind a relay nobody then"
        " sees the order of answers.",
    ] = None
    organisation: Annotated[
        str | None,
        "Who asks, as people see it before they answer; with --purpose and --contact. By"
        " default that is unknown.",
    ] = None
    purpose: Annotated[str | None, "What the answers are for."] = None
    contact: Annotated[
        str | None,
        "Where questions and complaints go, as an e-mail address.",
    ] = None
    notice: Annotated[
        str | None, "Address https://... of the notice on what happens to people's data."
    ] = None
    texts: Annotated[
        Path | None,
        "Texts in other languages, signed with the campaign: TOML with a table for each,"
        " named de or pt-BR, with title, organisation, purpose, contact, notice, attribute, unit"
        " and labels, where they differ; and language = 'en' for the campaign's own.",
    ] = None
    delete_after: Annotated[
        int | None,
        "Days after closing until the server deletes all single reports, and keeps only their "
        "sums: exports, and new questions about perturbed points or a form, end then."
        " By default people read that it is unknown how long single answers are kept.",
    ] = None
    campaign_id: Annotated[str | None, "The campaign's id; by default made from the title."] = None

    def __post_init__(self) -> None:
        validation.between("days", self.days, 0, _LONGEST_DAYS, low_open=True)
        if self.participants is not None:
            validation.between("participants", self.participants, 1, 10**12)
        if self.delete_after is not None:
            validation.between("delete_after", self.delete_after, 0, _LONGEST_KEPT_DAYS)
        for source, more in (("form", " attribute plan least most cap"), ("plan", "")):
            if getattr(self, source) is not None:
                leave_out(self, _ASKED + more, f"left out: the {source} says it")
                left_out(self.words, f"left out: the {source} says it")
        if self.read_every is None:
            leave_out(self, "extrapolated cohorts", "left out unless there is --read-every")

    @cached_property
    def questions(self) -> Sequence[AnalystQuestion]:
        """The questions about one attribute, apart from those of a plan."""
        return questions_in(self.words)

    @cached_property
    def people(self) -> int:
        """The expected number of participants."""
        if self.participants is not None:
            return self.participants
        return (self.plan and planned_participants(self.plan)) or _PARTICIPANTS

    def campaign(self, opens: datetime) -> Campaign:
        """Return the campaign."""
        closes = opens + timedelta(days=self.days)
        asker = self._asker()
        later: dict[str, Any] = {
            "campaign_id": self.campaign_id or id_of(self.title),
            "title": self.title,
            "opens": opens,
            "closes": closes,
            "period": _period("every", self.every),
            "minimum_participants": self.minimum_participants,
            "window": _period("window", self.window),
            "asker": asker,
        }
        if self.texts is not None:
            texts = texts_of_toml(_text_of("texts", self.texts), asker)
            later |= dict(zip(("language", "translations"), texts, strict=True))
        if self.delete_after is not None:
            later["delete_after"] = closes + timedelta(days=self.delete_after)
        if self.token_key is not None:
            later["token_key"] = _hexadecimal(self.token_key)
        if self.relay_operator is not None:
            later["relay_operator"] = PublicKey.parse(self.relay_operator)
        if self.form is not None:
            leave_out(self, "read_every", "left out: the form states it")
            return FormCampaign(fields=fields_of_toml(_text_of("form", self.form)), **later)
        return self._about_one_attribute(later | {"readings": self._readings()})

    def refuse_unlikely(self, campaign: Campaign) -> None:
        """Refuse settings that are probably mistakes, as `refuse_unlikely` of the analyst does."""
        if isinstance(campaign, AttributeCampaign):
            try:
                refuse_unlikely(campaign, self.people, self.questions)
            except ParameterError as error:
                if error.name != "period":
                    raise
                raise ParameterError("every", self.every, error.expected) from None

    def _about_one_attribute(self, later: dict[str, Any]) -> AttributeCampaign:
        if self.plan is None:
            campaign = self._without_plan(later)
        else:
            campaign = campaign_of(self.plan, attribute=self.attribute, **later)
        if self.least is not None or self.most is not None:
            held = replace(campaign.attribute, least=self.least, most=self.most)
            campaign = replace(campaign, attribute=held)
        if self.cap is None:
            return campaign
        if not isinstance(campaign, StatisticCampaign):
            raise ParameterError("cap", self.cap, "left out for points, which have no boundary")
        if self.cap == "none":
            return replace(campaign, cap=None)
        sides = numbers_in("cap", self.cap, 2, "two numbers BELOW,ABOVE, such as 4,4; or none")
        return replace(campaign, cap=Cap(*sides))

    def _without_plan(self, later: dict[str, Any]) -> AttributeCampaign:
        """Return the campaign that the options describe."""
        needed = {name: getattr(self, name) for name in ("epsilon", "per", "attribute")}
        all_given(needed, unless=", unless there is a --plan")
        center = None if self.center is None else place_in("center", self.center)
        plane = area_of(self.questions, center, RADIUS_M if self.radius is None else self.radius)
        if plane is None:
            leave_out(self, "radius bandwidth", "left out: nothing here is about places")
            if self.unit is None:
                expected = "given, for example dollar: only of places it is metre by default"
                raise ParameterError("unit", None, expected)
        privacy, scale = self._promise()
        more: dict[str, Any] = {
            "attribute": self.attribute,
            "privacy": privacy,
            "plane": plane,
            "scale": scale,
        }
        if self.points:
            self._refuse_beside_points()
            return campaign_for_points(dimension=self.dimension, **more, **later)
        if not self.questions:
            expected = f"at least one of {_options_of_words()}, or --points"
            raise ParameterError("questions", "none", expected)
        leave_out(self, "dimension", "left out unless there is --points")
        return campaign_asking(
            self.questions,
            width=self.width,
            bandwidth=self.bandwidth,
            mechanism=self.mechanism or "debiased",
            allocation=self.allocation or Allocation.PARTITION,
            **more,
            **later,
        )

    def _refuse_beside_points(self) -> None:
        if self.questions:
            raise ParameterError(
                "points", True, f"without {_options_of_words()}: they are asked later"
            )
        if self.allocation not in (None, Allocation.PARTITION):
            expected = "'partition': there is nothing to divide"
            raise ParameterError("allocation", self.allocation, expected)

    def _promise(self) -> tuple[GeoPrivacy, LogScale | None]:
        """Return the guarantee, and the scale of values that are compared by ratio."""
        assert self.epsilon is not None
        assert self.per is not None
        unit = "metre" if self.unit is None else self.unit
        if self.ratios_from is None:
            reach = math.inf if self.reach is None else self.reach
            return GeoPrivacy(self.epsilon, self.per, unit, self.delta, reach), None
        scale = LogScale(self.ratios_from)
        privacy = GeoPrivacy.per_factor(self.epsilon, self.per, unit)
        leave_out(self, "reach", "left out with --ratios-from")
        return replace(privacy, delta=self.delta), scale

    def _asker(self) -> Asker | None:
        names = ("organisation", "purpose", "contact", "notice")
        given = {name: getattr(self, name) or "" for name in names}
        try:
            return Asker(**given) if any(given.values()) else None
        except ParameterError as error:
            name = error.name.removeprefix("asker.")
            raise ParameterError(name, error.value or None, error.expected) from None

    def _readings(self) -> Readings | None:
        length = _period("read-every", self.read_every, LONGEST)
        if length is None:
            return None
        return Readings(every=length, extrapolated=self.extrapolated, cohorts=self.cohorts or 0)


def _options_of_words() -> str:
    return ", ".join(f"--{word}" for word in VOCABULARY)


def _period(name: str, text: str | None, most: timedelta = timedelta.max) -> timedelta | None:
    return None if text is None else parse_period(name, text, most)


def _text_of(option: str, file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, ValueError):
        raise ParameterError(option, str(file), "a file that can be read") from None


def _hexadecimal(file: Path) -> bytes:
    try:
        return bytes.fromhex(file.read_text(encoding="ascii"))
    except (OSError, ValueError):
        raise ParameterError(
            "token-key", str(file), "a file that 'geoveil relay key' wrote"
        ) from None
