"""The list of attacks by a hostile server."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any

from geoveil.campaign import encode, seal
from geoveil.gp import GeoPrivacy
from geoveil.proto.v1 import campaign_pb2 as pb, report_pb2
from tests.interop.attacked import (
    ACCEPTED,
    ANSWER,
    DAY,
    FLUSH_S,
    HONEST,
    INCOME,
    KEY,
    OTHER_KEY,
    PLACE,
    PLACES,
    Attack,
    bomb,
    results,
)

from .hostile import Failure, Hang, Reply, Web, shown


def message(campaign: Any = HONEST) -> pb.Campaign:
    return pb.Campaign.FromString(encode(campaign))


def asking(change: Callable[[pb.Campaign], object], campaign: Any = HONEST) -> Reply:
    """Return what shows a campaign that nobody could make with the library."""
    made = message(campaign)
    change(made)
    return shown(seal(made.SerializeToString(deterministic=True)))


def publishing(campaign: Any) -> Reply:
    return shown(seal(encode(campaign)))


def _named(name: str, text: str) -> Callable[[pb.Campaign], object]:
    def change(made: pb.Campaign) -> None:
        if name in ("name", "unit"):
            setattr(made.attribute, name, text)
        elif name == "label":
            made.queries[0].label = text
        else:
            setattr(made, name, text)

    return change


def _placed(longitude: float, latitude: float, radius: float) -> Callable[[pb.Campaign], object]:
    def change(made: pb.Campaign) -> None:
        plane = made.attribute.azimuthal_equidistant
        plane.longitude_deg, plane.latitude_deg, plane.radius_m = longitude, latitude, radius

    return change


def _numbers(**given: float) -> Callable[[pb.Campaign], object]:
    def change(made: pb.Campaign) -> None:
        for path, number in given.items():
            *parents, name = path.split("__")
            owner: Any = made
            for parent in parents:
                owner = owner[int(parent[1:])] if parent[1:].isdigit() else getattr(owner, parent)
            setattr(owner, name, number)

    return change


GOOD = publishing(HONEST)
OTHER = replace(HONEST, title="Another question")
SECOND = replace(HONEST, campaign_id="income-2")
DAILY = replace(HONEST, period=DAY)
CHEAP = replace(HONEST, period=DAY, privacy=GeoPrivacy(0.375, 8_000, "dollar"))
_SIGNED = seal(encode(HONEST), KEY)
TORN = _SIGNED[:-1] + bytes([_SIGNED[-1] ^ 1])  # the last byte is 0 for one key in 16
BYTES = encode(HONEST)
REJECTED = report_pb2.REPORT_STATUS_REJECTED
JUNK = bytes(range(256)) * 20
CONTROLS = ("\x1b[2J", "\x9b1m", "\r\n", "\u202e", "\u2028", "\u200b", "\ufeff", "\x85", "\x00")


def _texts() -> Iterator[tuple[str, Attack]]:
    for name in ("title", "name", "unit", "label", "campaign_id"):
        yield (
            f"control characters in the {name}",
            Attack(
                tuple(asking(_named(name, f"in{text}come")) for text in CONTROLS),
                lives=(ANSWER * len(CONTROLS),),
            ),
        )
    for place, text in ((b"\xef\xbb\xbf", "a byte order mark"), (b"\xff\xfe!", "no UTF-8")):
        swapped = BYTES.replace(b"dollar", place + b"lar")
        yield f"{text} in the unit", Attack((shown(seal(swapped)),))


def _numbers_that_are_odd() -> Iterator[tuple[str, Attack]]:
    odd: dict[str, list[float]] = {
        "privacy__epsilon": [1 + 2**-52, 2.0, 1e308, 5e-324, 0.0, -1.0, float("nan"), float("inf")],
        "privacy__per": [7_999.999, 5e-324, 1e308, 0.0, -8_000.0, float("nan")],
        "grid__step_exponent": [-(2**31), 2**31 - 1, -201, 201],
        "queries__q0__threshold__at": [float("nan"), float("inf")],
        "queries__q0__threshold__width": [5e-324, 1e308, float("nan"), -1.0],
        "minimum_participants": [2**63 - 1, 2**64 - 1],
        "allocation": [77],
    }
    for path, numbers in odd.items():
        replies = tuple(asking(_numbers(**{path: number})) for number in numbers)
        yield f"odd numbers: {path}", Attack(replies, lives=(ANSWER * len(numbers),))
    dates: dict[str, list[float]] = {
        "opens__seconds": [-(2**63), 2**63 - 1, 253_402_300_800],
        "closes__seconds": [-(2**63), 0, 2**63 - 1, 253_402_300_799],
        "closes__nanos": [-1, 2**31 - 1],
        "period__seconds": [-(2**63), -1, 0, 1, 2**63 - 1],
    }
    for path, numbers in dates.items():
        replies = tuple(asking(_numbers(**{path: number})) for number in numbers)
        yield f"odd dates: {path}", Attack(replies, lives=(ANSWER * len(numbers),))
    many = message()
    many.queries.extend([many.queries[0]] * 10_001)
    yield "ten thousand questions", Attack((shown(seal(many.SerializeToString())),))
    tiny = message()
    del tiny.queries[:]
    for _ in range(200_000):
        tiny.queries.add().threshold.SetInParent()
    empty = shown(seal(tiny.SerializeToString()))
    yield "two hundred thousand empty questions", Attack((empty,), lives=(ANSWER,))


def _places() -> Iterator[tuple[str, Attack]]:
    right = Attack((publishing(PLACES),), 1, lives=(PLACE, PLACE), of=(encode(PLACES),))
    yield "places: none, as a control", right
    planes = {
        "at a pole": (0.0, 90.0, 15_000.0),
        "beyond a pole": (2.35, 90.5, 15_000.0),
        "beside a pole": (2.35, 89.999999999, 100_000.0),
        "a turn of the Earth away": (362.35, 48.86, 15_000.0),
        "a metre larger": (2.35, 48.86, 15_001.0),
        "a metre beside": (2.350014, 48.86, 15_000.0),
        "the whole Earth": (2.35, 48.86, 2e7),
        "no number": (float("nan"), 48.86, 15_000.0),
        "no extent": (2.35, 48.86, 0.0),
        "without bounds": (2.35, 48.86, float("inf")),
    }
    for name, plane in planes.items():
        yield f"places: {name}", Attack((asking(_placed(*plane), PLACES),), lives=(PLACE,))
    stolen = message(PLACES)
    stolen.attribute.ClearField("coordinates")
    plain = shown(seal(stolen.SerializeToString(deterministic=True)))
    yield "places: taken for numbers", Attack((plain,), lives=(PLACE,))


def _answers_to_reports() -> Iterator[tuple[str, Attack]]:
    reasons = tuple(
        results(REJECTED, reason=reason, text="\x1b[2J draw anew") for reason in (0, 2, 4, 6, 77)
    )
    for number, reply in enumerate(reasons):
        yield f"refused for reason {number}", Attack((GOOD,), 1, (reply, ACCEPTED))
    odd: dict[str, Reply] = {
        "no result": results(),
        "two results": results(1, 1),
        "a status that nobody knows": results(77),
        "no status": results(0),
        "garbage": JUNK,
        "five megabytes": bytes(5 << 20),
        "nothing": b"",
        "no answer": Hang(),
        **{
            f"{code}": Failure(code, "\x1b[2J\r\nforged: counted \u202e" + "x" * 9_000)
            for code in ("UNAVAILABLE", "NOT_FOUND", "FAILED_PRECONDITION", "INTERNAL", "ABORTED")
        },
    }
    for name, reply in odd.items():
        attack = Attack((GOOD,), 1, (reply, reply, ACCEPTED))
        yield f"to a report: {name}", attack
        if name not in ("no result", "two results", "no status"):
            yield f"to who asks for a campaign: {name}", Attack((reply, GOOD), 1)


def _of_the_web() -> Iterator[tuple[str, Attack]]:
    proto, gzipped = {"Content-Type": "application/proto"}, {"Content-Encoding": "gzip"}
    replies = {
        "a redirection": Web(307, {"Location": "http://127.0.0.1:9/"}),
        "another type": Web(200, {"Content-Type": "text/html"}, b"<script>"),
        "JSON in JSON": Web(500, {"Content-Type": "application/json"}, b"[" * 100_000),
        "details of no kind": Web(503, {}, b'{"code": 7, "details": [null, 3, {"value": {}}]}'),
        "no end": Web(200, proto, bytes(1 << 20), 300),
        "an error without an end": Web(503, {}, bytes(1 << 20), 300),
        "gigabytes in a gzip": Web(200, {**proto, **gzipped}, bomb()),
        "an error of gigabytes in a gzip": Web(503, gzipped, bomb()),
        "a drop at a time": Web(200, proto, b"\n", 1_000, pause_s=0.05),
        "an error, a drop at a time": Web(503, {}, b"[", 1_000, pause_s=0.05),
    }
    for name, reply in replies.items():
        yield f"web: {name}", Attack((reply, GOOD), 1, web_only=True)
        yield f"web, to a report: {name}", Attack((GOOD,), 1, (reply, ACCEPTED), web_only=True)


def every_attack() -> Iterator[tuple[str, Attack]]:
    """Yield each with its name; those of `due` = 1 show that honest reports arrive meanwhile."""
    yield "none, as a control", Attack((GOOD,), 1)
    dear = replace(HONEST, privacy=GeoPrivacy(3, 8_000, "dollar"))
    yield "a looser price", Attack((publishing(dear),))
    yield "a looser price under the same id", Attack((GOOD, publishing(dear)), 1)
    yield "another unit", Attack((asking(_named("unit", "cent")),))
    yield "another attribute", Attack((asking(_named("name", "age")),))
    yield "another campaign under the same id", Attack((GOOD, publishing(OTHER)), 1)
    yield "another id than was asked for", Attack((publishing(SECOND),))
    again = (("fetch", "income-2"), ("contribute", "income-2", INCOME), ("flush", FLUSH_S))
    yield (
        "the same asked under a second id",
        Attack((GOOD, publishing(SECOND)), 1, lives=(ANSWER, again)),
    )
    first, two = encode(DAILY), encode(CHEAP)
    yield (
        "a second draw in the next period",
        Attack((publishing(DAILY),), 1, lives=(ANSWER,) * 5, later=DAY, of=(first,)),
    )
    yield (
        "as many periods as there is room for",
        Attack((publishing(CHEAP),), 2, lives=(ANSWER,) * 5, later=DAY, of=(two,)),
    )
    yield (
        "a clock that is set back",
        Attack((publishing(CHEAP),), 2, lives=(ANSWER,) * 8, later=-DAY / 4, of=(two,)),
    )
    signed = shown(seal(BYTES, KEY))
    yield "signed as trusted, as a control", Attack((signed,), 1, trusted=KEY.public)
    yield "signed by nobody", Attack((GOOD,), trusted=KEY.public)
    yield "signed by somebody else", Attack((shown(seal(BYTES, OTHER_KEY)),), trusted=KEY.public)
    yield "a signature with other bits", Attack((shown(TORN),), trusted=KEY.public)
    stolen = pb.CampaignEnvelope.FromString(seal(BYTES, KEY))
    stolen.campaign = encode(OTHER)
    forged = shown(stolen.SerializeToString(deterministic=True))
    yield "a signature of other bytes", Attack((forged,), trusted=KEY.public)
    yield "an envelope that is empty", Attack((shown(b""),))
    yield "a state that nobody knows", Attack((shown(seal(BYTES), 77),), 1)
    yield "a field that nobody knows", Attack((shown(seal(BYTES + b"\xfa\x3f\x01x")),))
    yield "an envelope with another field", Attack((shown(seal(BYTES) + b"\xfa\x3f\x01x"),))
    yield "a field twice", Attack((shown(seal(BYTES + BYTES)),))
    yield from _texts()
    yield from _numbers_that_are_odd()
    yield from _places()
    yield from _answers_to_reports()
    yield from _of_the_web()


@cache
def attacks() -> dict[str, Attack]:
    return dict(every_attack())
