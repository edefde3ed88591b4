"""Envelopes of all kinds, with a device's verdict on them."""

import hashlib
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from google.protobuf.empty_pb2 import Empty
from google.protobuf.unknown_fields import UnknownFieldSet

from geoveil.campaign import (
    Asker,
    Attribute,
    LipschitzLaplaceSpec,
    PlanarLaplaceSpec,
    Question,
    Readings,
    SigningKey,
    SmoothSpec,
    Translation,
    decode,
    digest,
    encode,
    open_envelope,
    seal,
    signer,
)
from geoveil.campaign.signing import SignatureInvalid
from geoveil.client.policy import CampaignCost
from geoveil.gp import (
    GaussianKernel,
    GeoPrivacy,
    GeoVeilError,
    Linear,
    ParameterError,
    Polygon,
    Radial,
    Range,
    TabulatedProfile,
    Threshold,
)
from geoveil.proto.v1 import campaign_pb2 as pb
from tools.vectors.chance import OPENS, PARIS
from tools.vectors.examples import every_campaign, small_campaign
from tools.vectors.hostile import CHANGES, REGIONS, changed, difference, put

_REASONS = {
    "cap": r"^cap",
    "readings": r"^readings",
    "bytes": r"^(campaign|envelope|size of) |canonical form",
    "missing": r"in every campaign$",
    "debiased": r"no bounded debiased form",
    "grid": r"^(step|grid\.step_exponent) ",
    "scale": r"^privacy\.per a distance in \[",
    "kind": r"kind |profile one of|^allocation |some-package",
    "text": r"^(campaign_id|title|asker|language|translation|attribute\.(name|unit)|query\.label)",
    "labels": r"^labels of the queries ",
    "polygon": r"region|parts\[",
    "table": r"number of (at|values|slopes) |\.(at|values|slopes)\[|of the whole|within 1,024"
    r"|numbers up to|numbers that differ|range of the values|\.slope ",
    "count": r"^(number of queries|dimensions? of the queries|mechanism\.dimension"
    r"|minimum_participants) ",
    "date": r"^(opens|closes|period|delete_after) ",
    "number": r"",
}
"""Word for a refusal → pattern of Python's error; the first match counts."""


def reason(error: GeoVeilError | ArithmeticError) -> str:
    """Return the word that docs/protocol.md uses for an envelope's fault."""
    if isinstance(error, SignatureInvalid):
        return "signature"
    told = str(error)
    if isinstance(error, ParameterError):
        told = f"{error.name} {error.expected}"
    return next(word for word, pattern in _REASONS.items() if re.search(pattern, told))


def told_of(name: str, envelope: bytes) -> dict[str, Any]:
    """Return a device's verdict on an envelope."""
    told: dict[str, Any] = {"name": name, "envelope": envelope.hex()}
    try:
        message = open_envelope(envelope)
        signed_by = signer(message)
        campaign = decode(message.campaign)
    except (GeoVeilError, ArithmeticError) as error:
        return told | {"verdict": "refused", "reason": reason(error)}
    price, whole = campaign.report_privacy, campaign.total_privacy
    cost = CampaignCost.of(message.campaign)
    any_two = campaign.largest_epsilon
    return told | {
        "verdict": "sound",
        "campaign_id": campaign.campaign_id,
        "digest": digest(message.campaign).hex(),
        "signer": None if signed_by is None else str(signed_by),
        "price": stated(price),
        "total": stated(whole),
        "work": cost.work,
        "queries": cost.queries,
        "periods": campaign.periods,
        **({"any_two": any_two} if any_two < math.inf else {}),
    }


def stated(privacy: GeoPrivacy) -> dict[str, Any]:
    """Return a guarantee as in vectors, with δ and Λ if it has them."""
    told: dict[str, Any] = {"epsilon": privacy.epsilon, "per": privacy.per, "unit": privacy.unit}
    if privacy.delta:
        told["delta"] = privacy.delta
    if privacy.reach < math.inf:
        told["reach"] = privacy.reach
    return told


def envelopes(items: Sequence[Mapping[str, Any]]) -> list[bytes]:
    """Return the envelope of each item."""
    whole = {one["name"]: bytes.fromhex(one["envelope"]) for one in items if "envelope" in one}
    found = []
    for one in items:
        if "base" in one:
            base = pb.CampaignEnvelope.FromString(whole[one["base"]]).campaign
            put = bytes.fromhex(one["put"])
            found.append(seal(base[: one["from"]] + put + base[one["to"] :]))
        else:
            found.append(bytes.fromhex(one["envelope"]))
    return found


def campaign_vectors() -> list[dict[str, Any]]:
    """Return envelopes of all kinds, with a device's verdict on them."""
    bases = _bases()

    def changed_of(name: str, base: str, made: bytes) -> dict[str, Any]:
        told = told_of(name, seal(made))
        del told["envelope"]
        return told | {"base": base} | difference(bases[base], made)

    found = [told_of(name, seal(campaign)) for name, campaign in bases.items()]
    found += _signatures(bases["plain"], bases["points"])
    for base, changes in CHANGES.items():
        for change in changes:
            name = ", ".join(f"{path} = {str(value)[:40]}" for path, value in change)
            made = changed(bases[base], change)
            found.append(changed_of(f"{base}: {name}", base, made))
    for name, parts in REGIONS.items():
        made = changed(bases["polygon"], (("queries.0.polygon.parts", parts),))
        found.append(changed_of(f"polygon: {name}", "polygon", made))
    for name, table in _tables():
        made = changed(bases["table"], [(f"queries.0.linear.profile.{k}", v) for k, v in table])
        found.append(changed_of(f"table: {name}", "table", made))
    for name, bytes_ in _encodings(bases):
        found.append(told_of(name, pb.CampaignEnvelope(campaign=bytes_).SerializeToString()))
    signed = seal(bases["plain"], SigningKey.from_pem(SIGNER))
    found.append(told_of("an envelope with an unknown field", signed + b"\x98\x06\x01"))
    found.append(told_of("no envelope", b"\x0a\xff"))
    return found


def _bases() -> dict[str, bytes]:
    made = {name: campaign for name, campaign, _ in every_campaign()}
    unit = {"attribute": Attribute(name="value", unit="unit")}
    privacy = {"privacy": GeoPrivacy(1.0, 8.0, "unit")}
    even = TabulatedProfile((0.0, 20.0, 50.0), (1.0, 0.7, 0.2), (0.0, -0.02, -0.02, 0.0))
    bump = TabulatedProfile((0.0, 7.0, 31.0), (0.1, 1.3, 0.2), (0.0, 0.1, 0.1, 0.0))
    ramp = TabulatedProfile((0.0, 1.0), (0.0, 1.0), (1.0, 1.0))
    lipschitz = {"mechanism": LipschitzLaplaceSpec()}
    steps = {
        "range": Range(-30.0, 30.0, 20.0, "smoothstep"),
        "kernel": GaussianKernel((5.0,), 12.0),
        "ray": Radial(even, (0.0,)),
    }
    found = {
        "plain": small_campaign("plain"),
        "asker": small_campaign(
            "asker",
            asker=Asker(
                organisation="City", purpose="Buses", contact="x@y.z", notice="https://y.z/n?a#b"
            ),
            delete_after=OPENS + timedelta(days=120, microseconds=1),
        ),
        "texts": small_campaign(
            "texts",
            asker=Asker(organisation="City", purpose="Buses", contact="x@y.z"),
            language="en",
            translations=(
                Translation(
                    language="de",
                    title="Eine Frage",
                    asker=Asker(organisation="Stadt", purpose="Busse", contact="x@y.z"),
                    attribute="Haushaltseinkommen",
                    unit="Dollar",
                    labels=("über 100 Tsd.",),
                ),
            ),
        ),
        "split": made["split-0"],
        "vector": made["vector-ramps"],
        "readings": replace(
            small_campaign("readings"),
            period=timedelta(days=1),
            readings=Readings(every=timedelta(days=7)),
        ),
        **{
            name: small_campaign(name, **unit, **privacy, questions=(Question("q", query),))
            for name, query in steps.items()
        },
        "lipschitz": small_campaign("lipschitz", **lipschitz),
        "student": small_campaign(
            "student",
            mechanism=SmoothSpec(noise="student-t", calibration="paper", reach=math.inf),
        ),
        "laplace": small_campaign(
            "laplace",
            privacy=GeoPrivacy(1.0, 8_000.0, "dollar", delta=1e-6),
            mechanism=SmoothSpec(noise="laplace", calibration="paper"),
        ),
        "steep": small_campaign(
            "steep",
            **unit,
            **privacy,
            **lipschitz,
            questions=(Question("q", Threshold(0.0, 16.0, "smoothstep")),),
            step_exponent=0,
        ),
        "level": small_campaign(
            "level",
            **unit,
            privacy=GeoPrivacy(1.0, 1.0, "unit"),
            **lipschitz,
            questions=(Question("q", Linear(ramp, (1.0,))),),
            step_exponent=0,
        ),
        "polygon": small_campaign(
            "polygon",
            **unit,
            **privacy,
            **lipschitz,
            questions=(Question("q", Polygon([(0.0, 0.0), (8.0, 0.0), (0.0, 8.0)], 4.0)),),
        ),
        "table": small_campaign(
            "table", **unit, **privacy, questions=(Question("q", Linear(bump, (1.0,))),)
        ),
        "places": made["places-disc"],
        "points": replace(made["points-2"], step_exponent=0),
        "points-of-places": small_campaign(
            "points-of-places",
            attribute=Attribute(name="home", unit="metre", coordinates=PARIS),
            privacy=GeoPrivacy(1.0, 500.0, "metre"),
            mechanism=PlanarLaplaceSpec(2),
        ),
    }
    return {name: encode(campaign) for name, campaign in found.items()}


def _signatures(plain: bytes, other: bytes) -> Iterator[dict[str, Any]]:
    """Yield signed envelopes; some are odd ones that only the owner of the key could make."""
    key = SigningKey.from_pem(SIGNER)
    signed = seal(plain, key)
    yield told_of("signed", signed)
    signature, public = key.sign(plain), key.public.data
    identity = b"\x01" + bytes(31)
    above = int.from_bytes(signature[32:], "little") + _ORDER
    odd = {
        "signature of other bytes": (("campaign", other),),
        "signature with a bit turned": (("signature.signature", _turned(signature, 5)),),
        "key with a bit turned": (("signature.public_key", _turned(public, 5)),),
        "short signature": (("signature.signature", b"x"),),
        "key of small order": (("signature.public_key", identity),),
        "key of small order, not canonical": (
            ("signature.public_key", b"\xee" + b"\xff" * 30 + b"\x7f"),
        ),
        "S not below the order": (
            ("signature.signature", signature[:32] + above.to_bytes(32, "little")),
        ),
        "R of small order": (("signature.signature", _signed_with(identity, plain, public)),),
        "R not canonical": (
            ("signature.signature", _signed_with(b"\xee" + b"\xff" * 30 + b"\x7f", plain, public)),
        ),
        "right but for the cofactor": (
            ("signature.signature", _signed_with(bytes(32), plain, public)),
        ),
    }
    for name, change in odd.items():
        envelope = pb.CampaignEnvelope.FromString(signed)
        for path, value in change:
            put(envelope, path, value)
        yield told_of(name, envelope.SerializeToString(deterministic=True))
    envelope = pb.CampaignEnvelope.FromString(signed)
    envelope.signature.Clear()
    envelope.signature.SetInParent()
    yield told_of("empty signature", envelope.SerializeToString(deterministic=True))


_ORDER = 2**252 + 27742317777372353535851937790883648493
"""The order of the group of Ed25519."""
_SEED = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
SIGNER = b"""-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g
-----END PRIVATE KEY-----
"""
"""The first key of RFC 8032 §7.1, whose seed is above."""


def _signed_with(r: bytes, campaign: bytes, public: bytes) -> bytes:
    """Return the signature for an R with 8R = 0: S = h·a solves the equation times 8."""
    secret = bytearray(hashlib.sha512(_SEED).digest()[:32])
    secret[0] &= 248
    secret[31] = secret[31] & 127 | 64
    message = b"geoveil campaign v1\n" + campaign
    hashed = int.from_bytes(hashlib.sha512(r + public + message).digest(), "little")
    s = hashed * int.from_bytes(secret, "little") % _ORDER
    return r + s.to_bytes(32, "little")


def _turned(data: bytes, bit: int) -> bytes:
    return bytes([data[0] ^ 1 << bit]) + data[1:]


def _tables() -> Iterator[tuple[str, Sequence[tuple[str, list[float]]]]]:
    """Yield tables on both sides of each limit; all slopes are 0 at the ends."""

    def table(at: list[float], values: list[float]) -> Sequence[tuple[str, list[float]]]:
        return (("at", at), ("values", values), ("slopes", [0.0] * (2 * (len(at) - 1))))

    at = [float(i) for i in range(257)]
    yield "256 pieces", table(at, [float(i % 2) for i in range(257)])
    yield "257 pieces", (("at", [float(i) for i in range(258)]), ("values", []))
    shortest = 50.0 * 2.0**-30
    for length in (shortest, math.nextafter(shortest, 0.0)):
        yield f"a piece of {length}", table([0.0, length, 50.0], [0.0, 0.0, 1.0])
    for far in (1024 * 32.0, 1024 * 32.0 + 1):
        yield f"at {far}", table([far - 32.0, far], [0.0, 1.0])
    for most in (1e50, math.nextafter(1e50, math.inf)):
        yield f"values up to {most}", table([0.0, 50.0], [0.0, most])
    yield "all values the same", table([0.0, 50.0], [1.0, 1.0])
    yield "values that differ by 1e-51", table([0.0, 50.0], [0.0, 1e-51])
    waves = (("at", [0.0, 25.0, 50.0]), ("values", [0.0, 0.0, 1e-15]))
    yield "values that hardly differ", (*waves, ("slopes", [0.0, 0.04, 0.04, 0.0]))


def _encodings(bases: Mapping[str, bytes]) -> Iterator[tuple[str, bytes]]:
    """Yield encodings of a campaign that no writer produces, or that are not campaigns."""
    plain = bases["plain"]
    yield "unknown field at the end", plain + b"\x98\x06\x01"
    yield "unknown field within a message", _within(plain, (3,), lambda b: b + b"\x98\x06\x01")
    yield "not canonical: a field twice", plain + plain[:7]
    yield "not canonical: a default is written", plain + b"\x60\x00"
    yield "not canonical: the order of two fields", plain[7:] + plain[:7]
    yield "cut", plain[:-1]
    yield "nothing", b""
    yield "no message", b"\xff" * 20
    yield "not UTF-8", plain.replace(b"A question", b"A questi\xff\xfe")
    yield "a longer varint", plain.replace(b"\x38\x01", b"\x38\x81\x00")
    yield "a longer length", plain.replace(b"\x0a\x05plain", b"\x0a\x85\x00plain")
    yield "two kinds of a query", _within(plain, (5,), lambda b: b + b"\x3a\x00")
    yield "a kind of a query twice", _within(plain, (5,), lambda b: b + b[-22:])
    yield "two kinds of a mechanism", _within(plain, (6,), lambda b: b + b"\x12\x00")
    yield "an empty packed field", _within(bases["kernel"], (5, 3), lambda b: b"\x0a\x00" + b[10:])
    yield "a number that is not packed", _within(bases["kernel"], (5, 3), lambda b: b"\x09" + b[2:])
    yield "a truth value of 2", _within(bases["readings"], (14,), lambda b: _inserted(b, 2, 2))
    yield (
        "an enumeration beyond 32 bits",
        _within(plain, (5, 2), lambda b: b[:-1] + _varint(2**32 + 2)),
    )
    yield (
        "a dimension beyond 32 bits",
        _within(bases["points"], (6, 4), lambda b: b"\x08" + _varint(2**32 + 2)),
    )
    yield (
        "an exponent beyond 32 bits",
        _within(plain, (8,), lambda b: b"\x08" + _varint(2**32 + 49)),
    )
    yield (
        "the farthest exponent of 32 bits",
        _within(plain, (8,), lambda b: b"\x08" + _varint(2**32 - 1)),
    )


def _varint(number: int) -> bytes:
    found = b""
    while number >= 128:
        found += bytes([number & 127 | 128])
        number >>= 7
    return found + bytes([number])


def _fields(message: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield number, wire type and content of each field of a message."""
    for field in UnknownFieldSet(Empty.FromString(message)):
        data = field.data
        if field.wire_type != 2:
            data = _varint(data) if field.wire_type == 0 else data.to_bytes(8, "little")
        yield field.field_number, field.wire_type, data


def _joined(fields: Sequence[tuple[int, int, bytes]]) -> bytes:
    return b"".join(
        _varint(number << 3 | wire) + (_varint(len(content)) if wire == 2 else b"") + content
        for number, wire, content in fields
    )


def _within(message: bytes, path: tuple[int, ...], change: Callable[[bytes], bytes]) -> bytes:
    """Return a message with a change to the content of a nested field, found by field numbers."""
    if not path:
        return change(message)
    return _joined(
        [
            (number, wire, _within(content, path[1:], change) if number == path[0] else content)
            for number, wire, content in _fields(message)
        ]
    )


def _inserted(message: bytes, number: int, value: int) -> bytes:
    fields = [*_fields(message), (number, 0, _varint(value))]
    return _joined(sorted(fields, key=lambda field: field[0]))
