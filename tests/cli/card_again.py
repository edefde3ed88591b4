"""A second program that writes a privacy card, from a campaign's bytes and the template alone.

Of geoveil it has only the messages of the wire, and the words of `card.json`. It knows what the
campaigns of its test have: places, numbers, choices, and questions of one attribute with a cap.
"""

import hashlib
import json
import math
from datetime import UTC, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

from geoveil.proto.v1.campaign_pb2 import Campaign, CampaignEnvelope

WORDS = Path(__file__).parents[2] / "analyst" / "geoveil" / "analyst" / "card.json"
POLAR_RADIUS_M = 6_356_752.3
FOOT_M = 0.3048
LAWS = (("the law of California", 1850), ("that of other states of the USA", 1750))
NO = "not stated"
HOUR = timedelta(hours=1)


def up(x: float, figures: int) -> float:
    unit = 10.0 ** (figures - 1 - math.floor(math.log10(x)))
    return math.ceil(x * unit - 1e-9) / unit


def shown(x: float) -> str:
    return f"{x:,.9f}".rstrip("0").rstrip(".") if x else "0"


def times(nats: float, figures: int) -> str:
    return shown(up(math.exp(nats), figures))


def tenths(chance: float) -> str:
    return f"{math.ceil(1000 * chance - 1e-9) / 10:g} %"


def share_within(k: int, x: float) -> float:
    """Return the share of noise within x scales, on a line or in the plane."""
    return 1 - math.exp(-x) * (1 + x if k == 2 else 1)


def quantile(k: int, share: float) -> float:
    low, high = 0.0, 50.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if share_within(k, middle) >= share else (middle, high)
    return high


def central(far: float, near: float, n: int, delta: float) -> float:
    """The least ε at which histories of clones, as of arXiv 2208.04591, differ by δ at most."""
    p = math.exp(near)
    r = 2 * p / ((p + 1) * math.exp(far))
    laws = []
    for c in range(n):
        weight = math.comb(n - 1, c) * r**c * (1 - r) ** (n - 1 - c) / 2.0**c / (p + 1)
        ways = [0, *(math.comb(c, k) for k in range(c + 1)), 0]
        laws += [(weight * (p * a + b), weight * (a + p * b)) for a, b in pairwise(ways)]
    low, high = 0.0, near
    for _ in range(40):
        middle = (low + high) / 2
        excess = math.fsum(max(0.0, a - math.exp(middle) * b) for a, b in laws)
        low, high = (low, middle) if excess <= delta else (middle, high)
    return high


def hidden(nats: float) -> bool:
    return nats <= 10


def far_text(nats: float) -> str:
    return f", any two values {times(nats, 4)} to 1" if hidden(nats) else (
        ", no protection of values far apart"
    )  # fmt: skip


def promise(epsilon: float, per: float, unit: str) -> str:
    return f"ε = {epsilon:g} per {per:g} {unit}"


class Part:
    """One attribute: a number, a place, a choice, or what questions are about."""

    def __init__(self, attribute: Any, privacy: Any, options: Any = None) -> None:
        self.name, self.unit, self.sent_open = attribute.name, attribute.unit, False
        self.place, self.ends, self.k, self.scale, self.far = None, (), 1, math.inf, math.inf
        if options is not None:
            self.unit, self.per, self.how = "option", 1.0, "randomised response or unary encoding"
            self.sent_open = not options.HasField("epsilon")
            self.epsilon = self.far = options.epsilon
            return
        self.epsilon, self.per = privacy.epsilon, privacy.per
        self.how, rate = "Laplace noise on the number", self.epsilon / self.per
        if attribute.WhichOneof("coordinates") == "azimuthal_equidistant":
            self.place, self.k = attribute.azimuthal_equidistant, 2
            self.how = "planar Laplace noise on the place"
            angle = self.place.radius_m / POLAR_RADIUS_M
            rate *= math.sin(angle) / angle
            self.far = 2 * self.place.radius_m * rate
        elif attribute.HasField("least") and attribute.HasField("most"):
            self.ends = attribute.least, attribute.most
            self.far = (attribute.most - attribute.least) * rate
        self.scale = 1 / rate

    def cost(self, periods: int) -> dict[str, Any]:
        row = {
            "attribute": self.name, "unit": self.unit, "per": self.per, "epsilon": self.epsilon,
            "delta": 0.0, "reach": math.inf, "any_two_epsilon": self.far,
            "all_reports_epsilon": periods * self.epsilon, "all_reports_delta": 0.0,
            "all_reports_any_two_epsilon": periods * self.far,
        }  # fmt: skip
        return {name: "infinite" if x == math.inf else x for name, x in row.items()}

    def noise(self) -> str:
        half, most = (shown(up(self.scale * quantile(self.k, p), 4)) for p in (0.5, 0.95))
        what = "values" if self.place is None else "places"
        return (
            f"{self.name}: half of the reported {what} within {half} {self.unit}, 95 % within"
            f" {most} {self.unit}."
        )

    def near(self) -> list[str]:
        return [
            f"{self.name}: {law} calls a place precise within {feet:,} feet ({feet * FOOT_M:.0f}"
            f" metre), where {tenths(share_within(2, feet * FOOT_M / self.scale))} of the reported"
            " places lie."
            for law, feet in LAWS
        ]


def promises_of_one(part: Part, periods: int, sent: bool) -> list[str]:
    def like(what: str, times_of: int) -> str:
        return (
            f"{what} at most {times(times_of * part.epsilon, 3)} times as likely for your"
            f" {part.name} as for one {shown(part.per)} {part.unit} away."
        )

    def far(what: str, does: str, nats: float) -> str:
        if not hidden(nats):
            return f"{does} not hide which of two very different values you have."
        return (
            f"{what} at most {times(nats, 4)} times as likely for your {part.name} as for any"
            " other, however far away."
        )

    said = [
        like("This report is", 1),
        "Somebody who thinks that both are equally likely, and guesses from it, is right at most"
        f" {tenths(1 / (1 + math.exp(-part.epsilon)))} of the time.",
        far("This report is", "This report does", part.far),
    ]
    if periods > 1:
        together = f"All {periods:,} reports of this survey are together"
        said.append(like(together, periods))
        if hidden(part.far):
            said.append(far(together, together.replace("are together", "do"), periods * part.far))
    if part.ends:
        least, most = map(shown, part.ends)
        said.append(
            f"Less than {least} {part.unit} counts as {least} {part.unit}, and more than {most} as"
            f" {most}."
        )
    if sent:
        within = up({1: 3.0, 2: 4.74}[part.k] * part.scale, 2)
        kind = "A number" if part.k == 1 else "A point"
        often = tenths(share_within(part.k, within / part.scale))
        said.append(
            f"{kind} is sent that is within {shown(within)} {part.unit} of yours {often} of the"
            " time."
        )
    return said


def promise_of_field(part: Part, periods: int) -> str:
    name, likely = part.name, times(periods * part.epsilon, 3)
    if part.sent_open:
        return f"{name}: your answer is sent as it is."
    if part.unit == "option":
        sent = f"{name}: what is sent is at most"
        return f"{sent} {likely} times as likely for your answer as for any other."
    said = (
        f"{name}: what is sent is at most {likely} times as likely for yours as for one"
        f" {shown(part.per)} {part.unit} away"
    )
    if periods * part.far > math.log(1e6):
        return f"{said}. It does not hide which of two very different values you have."
    return (
        f"{said}, and at most {times(periods * part.far, 3)} times as for any other, however"
        " far away."
    )


def der(tag: int, *parts: bytes) -> bytes:
    body = b"".join(parts)
    size = bytes([len(body)]) if len(body) < 128 else b"\x82" + len(body).to_bytes(2, "big")
    return bytes([tag]) + size + body


def spki_of(modulus: bytes) -> bytes:
    """An RSA key for PSS with SHA-384 and 48 bytes of salt, as RFC 9578, 8.2.2, writes it."""
    sha384, mgf1, pss = (
        der(6, bytes.fromhex(oid))
        for oid in ("608648016503040202", "2a864886f70d010108", "2a864886f70d01010a")
    )
    hashed = der(0x30, sha384)
    masked = der(0x30, mgf1, hashed)
    salt = der(2, b"\x30")
    algorithm = der(0x30, pss, der(0x30, der(0xA0, hashed), der(0xA1, masked), der(0xA2, salt)))
    key = der(0x30, der(2, b"\0" + modulus), der(2, b"\1\0\1"))
    return der(0x30, algorithm, der(3, b"\0" + key))


def ways_again(asked: Any, periods: int) -> tuple[dict[str, str], list[str]]:
    """When and how reports leave, and who learns of participants."""
    hours, recurs = asked.window.ToTimedelta() // HOUR, asked.HasField("period")
    ways = {
        "window": "Reports leave at once.",
        "relay": "No relay: the server sees the address that a report comes from.",
        "tokens": "No tokens: the server can't tell whether one person sends several reports.",
    }
    learns = []
    if hours:
        length = f"{hours / 24:g} days"
        ways["window"] = (
            f"Reports leave at random times in the last {length} of"
            f" {'each period' if recurs else 'the campaign'}, and answers are taken before."
        )
    if asked.relay_operator:
        gateway = f"ed25519:{asked.relay_operator.hex()}"
        ways["relay"] = f"Reports come through a relay, to the gateway of {gateway}."
        learns += [
            "Reports leave through a relay: it learns that your address takes part in something,"
            " and when, but neither in which survey nor what a report says.",
            "The server learns what a report says, and not your address; both together could match"
            " them.",
        ]
    if key := asked.token_key:
        named = f"a key for each of {periods:,} periods"
        if not recurs:
            named = f"the key {hashlib.sha256(spki_of(key)).hexdigest()}"
        ways["tokens"] = f"Each report needs a token from the issuer with {named}."
        learns += [
            f"An issuer lets each person send one report{' in each period' * recurs}: it learns who"
            " you are, your address, that you take part in this survey, and when, but neither which"
            " report is yours nor what it says.",
            "The server learns that the issuer knows whoever sent a report, and not who that is;"
            " both together could compare times.",
        ]
    alone = "The server alone: that somebody takes part, when, and from which address."
    return ways, learns or [alone]


def card(sealed: bytes, version: str) -> dict[str, Any]:
    """Return the card of a campaign."""
    envelope = CampaignEnvelope.FromString(sealed)
    asked = Campaign.FromString(envelope.campaign)
    opens, closes = asked.opens.ToDatetime(UTC), asked.closes.ToDatetime(UTC)
    until = asked.delete_after.ToDatetime(UTC)
    length = asked.period.ToTimedelta()
    periods = -((opens - closes) // length) if length else 1
    if asked.fields:
        parts = [
            Part(f.attribute, f.point.privacy) if f.WhichOneof("kind") == "point" else
            Part(f.attribute, None, f.choice) for f in asked.fields
        ]  # fmt: skip
        promises = [promise_of_field(part, periods) for part in parts]
        if periods > 1:
            promises.append(f"That holds for all {periods:,} reports of this survey together.")
        if len(parts) > 1:
            promises.append(
                "What the answers reveal adds up: somebody who knows how two of them are usually "
                "related learns about each from both."
            )
        costs = "; ".join(
            f"{p.name}: sent as it is" if p.sent_open else
            f"{p.name}: {promise(p.epsilon, p.per, p.unit)}{far_text(p.far)}" for p in parts
        )  # fmt: skip
        held = "an answer to each of: " + ", ".join(part.name for part in parts)
        mechanism = "; ".join(
            f"{p.name}: {'sent as it is' if p.sent_open else p.how}" for p in parts
        )
        points = [part for part in parts if part.scale < math.inf]
    else:
        part = Part(asked.attribute, asked.privacy)
        if asked.queries:  # one question; beyond its cap no distance counts
            part.far, points = asked.cap.below + asked.cap.above, []
            held = "a perturbed answer to one of: " + asked.queries[0].label
            mechanism = (
                "debiased: noise on the point, its bias undone: the least noise for smooth queries"
            )
        else:
            points = [part]
            held = "one perturbed value, from which any statistic is estimated"
            mechanism = "points: noise on the point itself, which answers any query later"
        parts, promises = [part], promises_of_one(part, periods, not asked.queries)
        costs = promise(part.epsilon, part.per, part.unit) + far_text(part.far)
    kept = [part for part in parts if not part.sent_open]
    plain = ", ".join(part.name for part in parts if part.sent_open)
    of_all = "; ".join(f"{p.name}: {promise(periods * p.epsilon, p.per, p.unit)}" for p in kept)
    far = math.inf if plain else periods * math.fsum(part.far for part in kept)
    alone = kept[0] if len(parts) == 1 else None
    schedule = "A participant answers once."
    if periods > 1:
        schedule = (
            f"A participant answers at most once in each of {periods:,} periods of"
            f" {length.days} days. All these reports cost {of_all}."
        )
    told = None
    least = asked.minimum_participants
    if alone is not None and least and hidden(alone.far):
        near, most = (up(central(alone.far, e, least, 1e-6), 3) for e in (alone.epsilon, alone.far))
        how = "which takes a relay and a campaign with a window"
        if asked.HasField("window"):
            how = "as the campaign's window has it behind a relay for devices connected all"
            how += " through it"
        told = (
            f"If {least:,} honest reports reach the analyst in uniformly random order with no"
            f" sender, {how}, their central ε is"
            f" {near:g} between two values {shown(alone.per)} {alone.unit} apart and {most:g}"
            " between any two, at δ = 1e-06."
        )
    key = None
    if envelope.HasField("signature"):
        key = f"ed25519:{envelope.signature.public_key.hex()}"
    ways, learns = ways_again(asked, periods)
    places = [part for part in points if part.place is not None]
    facts = {
        "organisation": asked.asker.organisation or None,
        "purpose": asked.asker.purpose or None,
        "contact": asked.asker.contact or None,
        "notice": asked.asker.notice or None,
        "kept": f"The server deletes single answers after {until:%Y-%m-%d %H:%M} UTC, and keeps"
        " their sums."
        if asked.HasField("delete_after")
        else None,
        "title": asked.title,
        "campaign_id": asked.campaign_id,
        "sha256": hashlib.sha256(envelope.campaign).hexdigest(),
        "signed_by": key,
        "signature": f"signed with {key}" if key else "signed by nobody",
        "open": f"{opens:%Y-%m-%d %H:%M} to {closes:%Y-%m-%d %H:%M} UTC",
        "version": version,
        "costs": costs,
        "minimum": f"The server shows no estimate from fewer than {least:,} answers."
        if least
        else None,
        "release_type": "Many releases" if length else "One release",
        "source_type": "Dynamic" if length else "Static",
        "promises": promises,
        "learns": learns,
        **ways,
        "central": told,
        "mechanism": mechanism,
        "released": f"A report holds {held}.",
        "unprotected": (f"Sent as they are: {plain}." if plain else "None of the answers.")
        + " That a person took part, and when, is not protected.",
        "subject": ", ".join([*(p.name for p in kept), *([plain] if plain else [])]),
        "attributes": [p.cost(periods) for p in kept] or None,
        "schedule": schedule,
        "any_two": "infinite" if far == math.inf else far,
        "variant_name": "Pure DP" if hidden(far) else "Custom",
        "registry_epsilon": far if hidden(far) else alone and periods * alone.epsilon,
        "registry_delta": 0.0 if hidden(far) or alone else None,
        "registry_details": "All reports of a participant together: "
        + (
            f"ε holds between any two sets of answers. At a distance it is {of_all}."
            if hidden(far)
            else f"ε holds at a distance, {of_all or NO}."
        ),
        "noise": [part.noise() for part in points] or None,
        "places": [part.noise() for part in places] or None,
        "area": "; ".join(
            f"{shown(p.place.radius_m)} metre around longitude {p.place.longitude_deg:g}, latitude"
            f" {p.place.latitude_deg:g}"
            for p in places
        )
        or None,
        "precise": [line for part in places for line in part.near()] or None,
    }
    written: dict[str, Any] = filled(json.loads(WORDS.read_text("utf-8")), facts)
    return written


def filled(words: Any, facts: dict[str, Any]) -> Any:
    if isinstance(words, dict):
        return {name: filled(part, facts) for name, part in words.items()}
    if isinstance(words, list):
        return [filled(part, facts) for part in words]
    if not isinstance(words, str):
        return words
    for name, fact in facts.items():
        if words == f"{{{name}}}":
            return NO if fact is None else fact
        if f"{{{name}}}" in words:
            words = words.replace(f"{{{name}}}", NO if fact is None else str(fact))
    return words
