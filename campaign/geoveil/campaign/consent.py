"""Explain in sentences what a campaign's reports reveal about a participant.

Every number is computed from the campaign's own mechanism and rounded so that it understates no
risk (`geoveil.campaign.saying`). `client/typescript/src/consent.ts` makes exactly the same
sentences; proto/vectors/consent.json tests both.
"""

import math
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import singledispatch
from typing import TypeAlias

from geoveil.campaign.attribute_campaign import (
    Attribute,
    AttributeCampaign,
    Value,
    require_attribute,
)
from geoveil.campaign.model import Campaign, require_campaign
from geoveil.campaign.saying import (
    FARTHEST,
    between,
    both,
    factor_up,
    odds,
    of_far_values,
    on_scale,
    percent,
    ratio,
    right_at_most,
    rounded_up,
    times,
    to_one,
)
from geoveil.campaign.words import digits, say
from geoveil.gp import (
    LOG,
    Array,
    DebiasedLaplace,
    GaussianKernel,
    GeoPrivacy,
    Laplace,
    Query,
    QueryMechanism,
    Radial,
    Range,
    SoftIndicator,
    Threshold,
    TwoWayThreshold,
    np,
    validation,
)

_SHOWN = 3
"""The most questions with a separate sentence each."""
_USUALLY_WITHIN = (3.0, 4.74, 6.3)
"""By number of coordinates: the noise scales within which planar noise stays 95 % of the time."""
_SURE = 0.99
_HARDLY = 0.6
_MOSTLY = 0.5
_FAR = 10.0
"""A number beyond this multiple of the largest threshold is probably a slip."""
_FAR_APART = 100.0
"""The same limit in multiples of the guarantee's distance, if that is larger."""
_Law: TypeAlias = tuple[float, float]


def likelihood(
    privacy: GeoPrivacy,
    subject: str,
    yours: str,
    other: str = "one",
    more: str = "",
    any_two: float = math.inf,
    **names: str,
) -> str:
    """Return a guarantee as a sentence: how much likelier a report is for one value than another.

    With a δ, events may be likelier by a further δ, for values within the guarantee's reach.

    Args:
        subject: "report", "reading", "all", "field" or "any": the messages for the beginning.
        yours: the value in words.
        other: "one" or "another", the message that adds the distance.
        more: the end of the sentence.
        any_two: ε between any two values, which a cap may keep below that at the distance.
        names: the subject's names.

    Example:
        >>> likelihood(GeoPrivacy(1, 8_000, "dollar"), "report", "your income")
        'This report is at most 2.72 times as likely for your income as for one 8,000 dollar away.'
        >>> likelihood(GeoPrivacy.per_factor(1, 2, "dollar"), "any", "one value", "another")
        'A report is at most 2.72 times as likely for one value as for another half or twice as\
 much.'
    """
    apart = min(privacy.per, privacy.reach)
    factor = times(min(privacy.at(apart), any_two))
    other_one = say(other, away=away(privacy, apart))
    if factor is None:
        return say("hidden", subject=say(f"{subject}.hides", **names), yours=yours, other=other_one)
    slack = _slack(privacy.delta) + more
    begins = say(f"{subject}.is", **names)
    return say("likely", subject=begins, factor=factor, yours=yours, other=other_one, slack=slack)


def of_any_two(campaign: AttributeCampaign) -> str:
    """Return a campaign's promise for values far apart as a short clause."""
    return of_far_values(require_attribute(campaign).largest_epsilon)


def _however_far(nats: float, delta: float, subject: str, yours: str, **names: str) -> str:
    """Return the promise for values at any distance, as a sentence."""
    if to_one(nats) is None:
        return say("far.none", subject=say(f"{subject}.hides", **names))
    factor, slack = digits(rounded_up(math.exp(nats), 4)), _slack(delta)
    begins = say(f"{subject}.is", **names)
    return say("far", subject=begins, factor=factor, yours=yours, slack=slack)


def _slack(delta: float) -> str:
    return say("slack", many=digits(math.floor(1 / delta + 1e-6))) if delta > 0 else ""


def least_counted(campaign: AttributeCampaign, *, read: bool = False) -> str | None:
    """Return the range within which values are distinguished, as a sentence; None if unlimited.

    `read`: whether a reading of the app's policy, which is not clamped, answers the campaign.
    """
    attribute = require_attribute(campaign).attribute
    clamped = campaign.clamped and not read
    ends = [] if attribute.scale is None else [attribute.scale.floor]
    if clamped:
        ends.append(attribute.least or 0.0)
    if not ends:
        return None
    least, unit = digits(max(ends)), campaign.texts.unit
    if not clamped:
        return say("floor", least=least, unit=unit)
    most = digits(max(*ends, attribute.most or 0.0))
    return say("clamped", least=least, most=most, unit=unit)


def away(privacy: GeoPrivacy, apart: float) -> str:
    """Return the difference of another value in words, as a distance or factor."""
    if privacy.value_unit is None:
        return say("away", x=digits(apart), unit=privacy.unit)
    factor = ratio(apart)
    return say("away.twice") if factor == "2" else say("away.factor", factor=factor)


def who_asks(campaign: Campaign) -> list[str]:
    """Return the asker and the time of deletion as lines for people who may answer.

    Raises:
        ParameterError: if it is no campaign.
    """
    asker = require_campaign(campaign).texts.asker
    said = [say("tell.unknown")]
    if asker is not None:
        lines = asdict(asker).items()
        said = [say(f"tell.{name}", text=text) for name, text in lines if text]
    return [*said, deletion_text(campaign.delete_after), say("tell.withdrawal")]


def in_unit(privacy: GeoPrivacy, unit: str) -> GeoPrivacy:
    """Return a guarantee whose unit of values is translated."""
    return replace(privacy, unit=unit if privacy.value_unit is None else LOG + unit)


def deletion_text(until: datetime | None) -> str:
    """Return the time of deletion of single answers as a sentence.

    Example:
        >>> deletion_text(datetime(2027, 3, 1, 12, tzinfo=UTC))
        'The server deletes single answers after 2027-03-01 12:00 UTC, and keeps their sums.'
    """
    if until is None:
        return say("tell.keeping")
    return say("tell.deletion", date=f"{until.astimezone(UTC):%Y-%m-%d %H:%M} UTC")


def who_learns(campaign: Campaign) -> list[str]:
    """Return sentences on who learns that somebody takes part; none if only the server does.

    Raises:
        ParameterError: if it is no campaign.
    """
    said = []
    if require_campaign(campaign).relay_operator is not None:
        said += ["relay.hides", "relay.both"]
    if campaign.token_key is not None:
        said += ["issuer.once" if campaign.period is None else "issuer.period", "issuer.both"]
    return list(map(say, said))


def what_it_tells(campaign: AttributeCampaign, reading: GeoPrivacy | None = None) -> list[str]:
    """Return what reports to a campaign tell about any participant, as sentences.

    `reading` is the price of one reading under the app's own policy; None if there is none.

    Example:
        >>> from datetime import UTC, datetime
        >>> from geoveil.campaign import Attribute, Question, StatisticCampaign
        >>> asked = StatisticCampaign(
        ...     campaign_id="income",
        ...     title="Household income",
        ...     attribute=Attribute(name="household income", unit="dollar"),
        ...     privacy=GeoPrivacy(1, 8_000, "dollar"),
        ...     questions=(Question("above 100k", Threshold(100_000, 24_000, "smoothstep")),),
        ...     opens=datetime(2026, 1, 1, tzinfo=UTC),
        ...     closes=datetime(2026, 7, 1, tzinfo=UTC),
        ... )
        >>> for sentence in [*what_it_tells(asked), *what_it_tells_of(asked, 52_000)]:
        ...     print(sentence)
        This report is at most 2.72 times as likely for your household income as for one 8,000\
 dollar away.
        Somebody who thinks that both are equally likely, and guesses from it, is right at most\
 73.2 % of the time.
        This report does not hide which of two very different values you have.
        From it nobody can tell 52,000 from 60,000 dollar better than 73.2 to 26.8.
        From it the server can tell that your household income is below 100,000 dollar, almost as\
 surely as if you said so: that guess is right 99.9 % of the time.
        The report is exactly 0, the plain no, 99.5 % of the time.
    """
    texts = require_attribute(campaign).texts
    name, unit = texts.attribute, texts.unit
    privacy = in_unit(campaign.report_privacy if reading is None else reading, unit)
    from_reading = reading is not None or campaign.readings is not None
    most = math.inf if from_reading else campaign.largest_epsilon
    subject, yours = "reading" if from_reading else "report", say("yours", name=name)
    said = [likelihood(privacy, subject, yours, any_two=most)]
    chance = _right_at_most(privacy, min(privacy.per, privacy.reach), most)
    said.append(say("guessed", often=percent(chance)) if odds(chance) else say("guessed.always"))
    said.append(_however_far(most, privacy.delta, subject, yours))
    if privacy.reach < math.inf:
        said.append(say("reach", x=digits(privacy.reach), unit=unit))
    if (least := least_counted(campaign, read=reading is not None)) is not None:
        said.append(least)
    total = in_unit(campaign.total_privacy, unit)
    if reading is None and total != privacy:
        many, far = digits(campaign.periods), most * campaign.periods
        said.append(likelihood(total, "all", yours, any_two=far, many=many))
        if to_one(most):
            said.append(_however_far(far, total.delta, "all", yours, many=many))
    if not campaign.mechanisms:
        # Of true distances: in the plane places are farther apart, and noise is larger.
        scale = 1 / campaign.answer_privacy.rate
        within = _USUALLY_WITHIN[campaign.dimension - 1] * scale
        if campaign.attribute.scale is None:
            within = rounded_up(within, 2)
            near = f"{digits(within)} {unit}"
        else:
            factor = factor_up(within, 2)
            near, within = say("near.factor", factor=digits(factor)), math.log(factor)
        often = percent(_gamma_share(within / scale, campaign.dimension))
        kind = "number" if campaign.dimension == 1 else "point"
        said.append(say(f"near.{kind}", near=near, often=often))
    return said


def what_it_tells_of(campaign: AttributeCampaign, value: Value, *, read: bool = False) -> list[str]:
    """Return what a report reveals about a person, as sentences only for that person.

    They contain the private value, as in `Client.contribute`: keep them out of logs and files.
    `read` says whether a reading of the app's policy answers the campaign. Chances are those of the
    report before it is rounded to the public grid: a coarse one, which only a program can ask for,
    moves them by at most the probability of one step.

    Raises:
        PrivateValueError: unless the value is of the campaign's kind and one that a device sends.
    """
    texts = require_attribute(campaign).texts
    point = campaign.attribute.point(value, campaign.dimension)
    of_points = read or campaign.readings is not None
    privacy = campaign.answer_privacy if read else campaign.report_privacy
    most = math.inf if read else campaign.largest_epsilon
    said = [_near(campaign, privacy, np.asarray(point), most)]
    guesses = []
    for label, mechanism in zip(texts.labels, campaign.mechanisms, strict=False):
        query = mechanism.query.unclipped
        if isinstance(query, SoftIndicator):
            if of_points and isinstance(query, Range):
                law: _Law | None = _of_point(query, float(point), campaign.answer_privacy)
            else:
                answering = mechanism
                if of_points:  # no cap clips a perturbed number
                    privacy = campaign.answer_privacy
                    answering = DebiasedLaplace(query, privacy, step=mechanism.step)
                law = _of_distance(answering, point)
            if law is not None:
                guesses.append((*law, query, label))
        elif isinstance(query, GaussianKernel | Radial):
            at = validation.point(point, campaign.dimension)
            distance = math.dist(at, query.center)
            if distance >= validation.LEAST:
                said.append(_far(campaign, privacy, label, distance, most))
    guesses.sort(key=lambda one: -round(one[0], 6))
    only = campaign.columns == 1
    for right, plain, query, label in guesses[:_SHOWN]:
        inside = bool(np.asarray(query.signed_distance(np.asarray(point))) >= 0)
        where = region(query, label, inside, campaign.attribute, texts.unit)
        begins = "report" if only else "answer" if campaign.answers_all else "if"
        sure = ".sure" if right >= _SURE else "" if right >= _HARDLY else ".hardly"
        names = {"name": texts.attribute, "region": where, "often": percent(right)}
        said.append(say(f"guess{sure}", begins=say(f"begins.{begins}", label=label), **names))
        if plain > _MOSTLY:
            answer = say("plain.yes" if inside else "plain.no")
            kind = "report" if only else "answer"
            said.append(say(f"plain.{kind}", answer=answer, often=percent(plain)))
    if len(guesses) > _SHOWN:
        rest = percent(guesses[_SHOWN][0])
        said.append(say("others", n=len(guesses) - _SHOWN, often=rest))
    if campaign.readings is not None and campaign.readings.extrapolated:
        said.append(say("fresh"))
    return said


def what_to_ask(campaign: AttributeCampaign, value: Value) -> str:
    """Return a question to ask first about a value that is probably a slip; otherwise "".

    A slip is a place outside the campaign's area, or a number beyond its range. Without a range it
    is a number below 0 if no threshold is, or one beyond both ten times the largest threshold and
    a hundred times the guarantee's distance. The text contains the private value.

    Raises:
        PrivateValueError: unless the value is finite and of the campaign's kind.

    Example:
        >>> from geoveil.campaign import Attribute, PlanarLaplaceSpec, ValueCampaign
        >>> from datetime import UTC, datetime
        >>> asked = ValueCampaign(
        ...     campaign_id="income",
        ...     title="Household income",
        ...     attribute=Attribute(name="household income", unit="dollar"),
        ...     privacy=GeoPrivacy(1, 8_000, "dollar"),
        ...     mechanism=PlanarLaplaceSpec(1),
        ...     opens=datetime(2026, 1, 1, tzinfo=UTC),
        ...     closes=datetime(2026, 7, 1, tzinfo=UTC),
        ... )
        >>> what_to_ask(asked, -5), what_to_ask(asked, 52_000)
        ('You wrote -5. Is that your household income, in dollar?', '')
    """
    name, plane = require_attribute(campaign).texts.attribute, campaign.attribute.coordinates
    point = campaign.attribute.point(value, campaign.dimension)
    if plane is not None:
        if plane.area.holds(value):
            return ""
        return say("asks.outside", name=name)
    edges = [
        edge for mechanism in campaign.mechanisms for edge in _edges(mechanism.query.unclipped)
    ]
    numbers, apart = np.atleast_1d(point).tolist(), _FAR_APART * campaign.privacy.per
    if campaign.attribute.scale is not None:  # in the unit of values, without a distance
        apart = 0.0 if edges else math.inf
        edges = [math.exp(min(edge, FARTHEST)) for edge in edges]
        numbers = np.atleast_1d(np.asarray(value, np.float64)).tolist()
    ends = campaign.attribute.least, campaign.attribute.most
    edges += [end for end in ends if end is not None]
    lowest = min(edges, default=0.0 if campaign.dimension == 1 else -math.inf)
    most = max(_FAR * max(map(abs, edges), default=0.0), apart)
    likely = (0.0 if lowest >= 0 else -most, most)
    low, high = (guess if end is None else end for end, guess in zip(ends, likely, strict=True))
    if all(low <= x <= high for x in numbers):
        return ""
    wrote, unit = both(list(map(digits, numbers))), campaign.texts.unit
    stated = between(*ends)
    expects = say("asks.expects", range=stated) if stated else ""
    return say("asks.number", numbers=wrote, name=name, unit=unit) + expects


@singledispatch
def region(query: Query, label: str, inside: bool, attribute: Attribute, unit: str) -> str:
    """Return one side of a question in words; inside, the query's hard form is 1."""
    return say("region.inside" if inside else "region.outside", label=label)


@region.register
def _(query: Threshold, label: str, inside: bool, attribute: Attribute, unit: str) -> str:
    x = _value(attribute, query.at)
    return say("region.above" if inside else "region.below", x=x, unit=unit)


@region.register
def _(query: Range, label: str, inside: bool, attribute: Attribute, unit: str) -> str:
    low, high = (_value(attribute, end) for end in (query.low, query.high))
    key = "region.between" if inside else "region.beyond"
    return say(key, low=low, high=high, unit=unit)


def _value(attribute: Attribute, coordinate: float) -> str:
    """Return a coordinate as a participant's value, in its own unit."""
    return digits(coordinate) if attribute.scale is None else on_scale(coordinate)


@singledispatch
def _edges(query: Query) -> tuple[float, ...]:
    return ()


@_edges.register(Threshold)
@_edges.register(TwoWayThreshold)
def _(query: Threshold | TwoWayThreshold) -> tuple[float, ...]:
    return query.at if isinstance(query.at, tuple) else (query.at,)


@_edges.register
def _(query: Range) -> tuple[float, ...]:
    return query.low, query.high


def _near(campaign: AttributeCampaign, promised: GeoPrivacy, point: Array, most: float) -> str:
    """Return a sentence on how distinguishable near values are; `most` is ε between any two."""
    attribute, texts = campaign.attribute, campaign.texts
    privacy = in_unit(promised, texts.unit)
    apart = min(privacy.per, privacy.reach)
    if campaign.dimension == 1:
        near, far = (_value(attribute, x) for x in (float(point), float(point) + apart))
        pair = say("pair.numbers", one=near, other=far, unit=texts.unit)
    else:
        other = say("one", away=away(privacy, apart))
        pair = say("pair.values", name=texts.attribute, other=other)
    any_two = to_one(most) if privacy.delta == 0 else None
    more = say("better.far", odds=any_two) if any_two else ""
    return _better(pair, _right_at_most(privacy, apart, most), more)


def _far(
    campaign: AttributeCampaign, privacy: GeoPrivacy, label: str, distance: float, most: float
) -> str:
    texts = campaign.texts
    # Places are no nearer in the plane than in truth, so this bounds both.
    chance = _right_at_most(privacy, distance, most)
    if distance > privacy.reach:
        chance = 1.0
    shown = digits(rounded_up(distance, 3))
    pair = say("pair.centre", name=texts.attribute, label=label, x=shown, unit=texts.unit)
    return _better(pair, chance)


def _right_at_most(privacy: GeoPrivacy, apart: float, most: float) -> float:
    """Return how often a guess between two values is right; `most` is ε between any two."""
    return right_at_most(min(privacy.at(apart), most), privacy.delta)


def _better(pair: str, chance: float, far: str = "") -> str:
    begins, sure = say("begins.report"), odds(chance)
    if sure is None:
        return say("better.none", begins=begins, pair=pair)
    return say("better", begins=begins, pair=pair, odds=sure, far=far)


def _of_distance(mechanism: QueryMechanism, point: float | Array) -> _Law | None:
    """Return the probabilities that a report is on a value's side of 1/2, and at 0 or 1 there."""
    at = np.asarray(point)[None]
    right = mechanism.own_side(at)
    if right is None:
        return None
    plain = 0.0
    if mechanism.atoms:
        inside = float(mechanism.query.signed_distance(at)[0] >= 0)
        plain = math.exp(float(mechanism.log_density(inside, at)[0]))
    return float(right[0]), plain


def _of_point(query: Range, x: float, privacy: GeoPrivacy) -> _Law:
    """Return the same if the value itself is perturbed, so that noise can cross a range."""
    noise, half = Laplace(1 / privacy.rate), query.width / 2

    def between(low: float, high: float) -> float:
        return float(noise.cdf(high - x) - noise.cdf(low - x))

    if query.low <= x <= query.high:
        return between(query.low, query.high), between(query.low + half, query.high - half)
    return 1 - between(query.low, query.high), 1 - between(query.low - half, query.high + half)


def _gamma_share(x: float, shape: int) -> float:
    """Return P[X <= x] for a gamma variable of integer shape, the length of planar noise."""
    return 1 - math.exp(-x) * math.fsum(x**j / math.factorial(j) for j in range(shape))
