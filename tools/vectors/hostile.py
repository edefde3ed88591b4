"""Changes to valid campaigns: hostile ones, and values on both sides of each limit.

A change is a path of fields and indices with the value to set there; several may be made together.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import chain
from math import nextafter
from typing import Any, TypeAlias

from geoveil.proto.v1 import campaign_pb2 as pb

Change: TypeAlias = Sequence[tuple[str, Any]]

_DAY = 86_400
_OPENS = 1_767_225_600
_TIE = 2.0**-20


def one(path: str, *values: Any) -> list[Change]:
    """Return changes of one field to each of the values."""
    return [((path, value),) for value in values]


def changed(campaign: bytes, change: Change) -> bytes:
    """Return the bytes of a campaign after a change."""
    message = pb.Campaign.FromString(campaign)
    for path, value in change:
        put(message, path, value)
    return message.SerializeToString(deterministic=True)


def put(message: Any, path: str, value: Any) -> None:
    """Set one field of a message; None clears it. Messages missing along the path are added."""
    *way, last = path.split(".")
    for part in way:
        if part.isdigit() and int(part) == len(message):
            message.add()
        message = message[int(part)] if part.isdigit() else getattr(message, part)
    if last.isdigit():
        message[int(last)] = value
    elif last == "parts":
        del message.parts[:]
        for part in value:
            rings = [pb.PolygonRing(coordinates=chain.from_iterable(ring)) for ring in part]
            message.parts.append(pb.PolygonPart(rings=rings))
    elif last == "wordings":
        names = ("language", "text", "options", "unit")
        del message.wordings[:]
        message.wordings.extend(
            pb.Wording(**dict(zip(names, each, strict=False))) for each in value
        )
    elif isinstance(value, list):
        del getattr(message, last)[:]
        getattr(message, last).extend(value)
    elif value is None:
        message.ClearField(last)
    else:
        setattr(message, last, value)


def difference(before: bytes, after: bytes) -> dict[str, Any]:
    """Return which bytes to replace, and with what."""
    start = _same(before, after)
    end = _same(before[start:][::-1], after[start:][::-1])
    put = after[start : len(after) - end].hex()
    return {"from": start, "to": len(before) - end, "put": put}


def _same(a: bytes, b: bytes) -> int:
    """Return the length of the common prefix."""
    least = min(len(a), len(b))
    return next((i for i in range(least) if a[i] != b[i]), least)


def _sides(last: float, beyond: float) -> tuple[float, float]:
    """Return a limit, and the double after it in a direction."""
    return last, nextafter(last, beyond)


_LEAST, _MOST = _sides(1e-50, 0.0), _sides(1e50, math.inf)
_FORGED = ("a\nb", "a\u202eb", "a\u200fb", "a\x07b", "\x1b[1mb", " b", "b\u0301" + 4 * "\u0301")
"""Texts with a line break, direction marks, control characters, a blank, or many accents."""
_RING = [(0.0, 0.0), (8.0, 0.0), (8.0, 8.0), (0.0, 8.0)]
_NOTCHED = [(0.0, 0.0), (8.0, 0.0), (8.0, 8.0), (4.0, 4.0), (0.0, 8.0)]
_INNER = [(2.0, 2.0), (2.0, 6.0), (6.0, 6.0), (6.0, 2.0)]

REGIONS: Mapping[str, list[list[list[tuple[float, float]]]]] = {
    "a part": [[_RING]],
    "a hole": [[_RING, _INNER]],
    "clockwise": [[_RING[::-1], _INNER[::-1]]],
    "a hole touches the exterior in a point": [[_RING, [(0.0, 4.0), (3.0, 3.0), (3.0, 5.0)]]],
    "a hole touches the exterior in a corner": [[_RING, [(0.0, 0.0), (3.0, 1.0), (1.0, 3.0)]]],
    "a hole touches the exterior twice": [[_RING, [(0.0, 4.0), (4.0, 3.0), (8.0, 4.0)]]],
    "a hole shares a side with the exterior": [[_RING, [(0.0, 2.0), (3.0, 3.0), (0.0, 6.0)]]],
    "a hole touches a notch": [[_NOTCHED, [(4.0, 4.0), (3.0, 1.0), (5.0, 1.0)]]],
    "a hole leaves by a notch": [[_NOTCHED, [(4.0, 6.0), (3.0, 1.0), (5.0, 1.0)]]],
    "a hole outside": [[_RING, [(9.0, 1.0), (10.0, 1.0), (10.0, 2.0)]]],
    "a hole outside that touches": [[_RING, [(8.0, 4.0), (10.0, 1.0), (10.0, 2.0)]]],
    "a hole in a hole": [[_RING, _INNER, [(3.0, 3.0), (5.0, 3.0), (4.0, 4.0)]]],
    "a hole in a hole that touches": [[_RING, _INNER, [(2.0, 4.0), (4.0, 3.0), (4.0, 5.0)]]],
    "holes touch in a point": [
        [_RING, [(1.0, 4.0), (4.0, 4.0), (2.0, 6.0)], [(4.0, 4.0), (7.0, 4.0), (6.0, 2.0)]]
    ],
    "three holes around a piece": [
        [
            _RING,
            [(1.0, 1.0), (4.0, 1.0), (2.0, 2.0)],
            [(4.0, 1.0), (7.0, 1.0), (4.0, 6.0)],
            [(2.0, 2.0), (4.0, 6.0), (1.0, 6.0)],
        ]
    ],
    "three holes in one point": [
        [
            _RING,
            [(4.0, 4.0), (1.0, 4.0), (1.0, 3.0)],
            [(4.0, 4.0), (7.0, 4.0), (7.0, 5.0)],
            [(4.0, 4.0), (4.0, 7.0), (3.0, 7.0)],
        ]
    ],
    "holes cross in a corner": [
        [_RING, [(1.0, 1.0), (4.0, 4.0), (1.0, 7.0)], [(3.0, 1.0), (4.0, 4.0), (2.0, 2.5)]]
    ],
    "a ring touches itself": [
        [[(0.0, 0.0), (4.0, 4.0), (8.0, 0.0), (8.0, 8.0), (4.0, 4.0), (0.0, 8.0)]]
    ],
    "a spike": [[[(0.0, 0.0), (8.0, 0.0), (4.0, 0.0), (4.0, 4.0)]]],
    "parts touch in a point": [[_RING], [[(8.0, 8.0), (9.0, 8.0), (9.0, 9.0)]]],
    "parts touch in two points": [[_NOTCHED], [[(0.0, 8.0), (8.0, 8.0), (4.0, 9.0)]]],
    "parts share a side": [[_RING], [[(8.0, 0.0), (9.0, 4.0), (8.0, 8.0)]]],
    "parts share a piece of a side": [[_RING], [[(8.0, 1.0), (9.0, 4.0), (8.0, 7.0)]]],
    "a part in another": [[_RING], [_INNER]],
    "a part in the hole of another": [[_RING, _INNER], [[(3.0, 3.0), (5.0, 3.0), (4.0, 4.0)]]],
    "a part touches the hole it is in": [[_RING, _INNER], [[(2.0, 4.0), (5.0, 3.0), (4.0, 4.0)]]],
    "a part twice": [[_RING], [_RING]],
    "minus zero": [[[(-0.0, 0.0), (8.0, -0.0), (8.0, 8.0)]]],
    "a point twice": [[[(0.0, 0.0), (8.0, 0.0), (8.0, 0.0), (8.0, 8.0)]]],
    "a point twice but for the sign of 0": [[[(0.0, 0.0), (-0.0, 0.0), (8.0, 0.0), (8.0, 8.0)]]],
    "the first point again": [[[(0.0, 0.0), (8.0, 0.0), (8.0, 8.0), (0.0, 0.0)]]],
    "two points": [[[(0.0, 0.0), (8.0, 0.0)]]],
    "a line": [[[(0.0, 0.0), (8.0, 0.0), (16.0, 0.0)]]],
    "a bow": [[[(0.0, 0.0), (8.0, 8.0), (8.0, 0.0), (0.0, 8.0)]]],
    "no ring": [[]],
    "no part": [],
    "the farthest corner": [[[(0.0, 0.0), (1e50, 0.0), (0.0, 8.0)]]],
    "a corner too far": [[[(0.0, 0.0), (nextafter(1e50, math.inf), 0.0), (0.0, 8.0)]]],
    "no number": [[[(math.nan, 0.0), (8.0, 0.0), (0.0, 8.0)]]],
}
"""Parts of polygons, each an exterior ring and holes."""

_RADIUS = "attribute.azimuthal_equidistant.radius_m"
_LONGITUDE = "attribute.azimuthal_equidistant.longitude_deg"
_LATITUDE = "attribute.azimuthal_equidistant.latitude_deg"
_THRESHOLD = "queries.0.threshold"
_LINEAR = "queries.0.linear"
_GRID = "grid.step_exponent"

_SMOOTH = (("mechanism.smooth.growth", 1), ("mechanism.smooth.calibration", 1))

CHANGES: Mapping[str, Sequence[Change]] = {
    "plain": [
        *one("campaign_id", "UPPER", "", "a" * 64, "a" * 65, "-a", "a\n"),
        *one("title", "", " blank", "blank ", "two\nlines", "\u202eright to left", "\u200b"),
        *one("title", "x" * 200, "x" * 201, "\u00e9" * 200, "no\u00a0break", "\u2028"),
        *one("title", "o" + "\u0301" * 4, "o" + "\u0301" * 5, "\u0301o", "\ue000", "\u0378"),
        *one("title", "caf\u00e9 \u2764\ufe0f", "a\ufe0f", "1\ufe0f", "\uac00\u1161", "\u1161"),
        *one("title", "\u034f", "\u2800", "\U0001d159", "a\ufe00", "a\U000e0100", "two  blanks"),
        *one("attribute.name", "", "n" * 64, "n" * 65),
        *one("attribute.unit", "", "\u3164", "\u115f", "\uffa0", "y" * 64, "y" * 65),
        *one("attribute", None),
        *one("attribute.least", -0.0, math.nan, math.inf),
        *one("attribute.most", -5.0),
        (("attribute.least", 5.0), ("attribute.most", 5.0)),
        (("attribute.least", 5.0), ("attribute.most", nextafter(5.0, 6.0))),
        *one("privacy.epsilon", 0.0, -1.0, math.nan, math.inf, 1e60),
        *one("privacy.per", 0.0, math.nan),
        *one("privacy", None),
        (("privacy.per", 2.4e12), (_GRID, 0)),
        (("privacy.per", nextafter(2.4e12, math.inf)), (_GRID, 0)),
        *one("privacy.per", 0.00024, nextafter(0.00024, 0.0)),
        *one("queries", []),
        *one("queries.0.label", "", "l" * 100, "l" * 101),
        *one(f"{_THRESHOLD}.width", 0.0, -1.0, math.nan, 1e60),
        *one(f"{_THRESHOLD}.at", math.nan, math.inf, -0.0, 0.0, 1e300),
        *one(f"{_THRESHOLD}.profile", 0, 1, 4, 5, -1),
        *one("queries.0.softness.bound", 0.5, -0.5, *_MOST, math.inf),
        *one("queries.0.softness.expected_difference", -0.5, math.inf),
        *one("mechanism", None),
        *one("mechanism.planar_laplace.dimension", 1),
        *(
            (*_SMOOTH, ("mechanism.smooth.beta_fraction", share))
            for share in (1e-46, 1e-47, nextafter(1.0, 0.0), 1.0, -0.1)
        ),
        _SMOOTH,
        (*_SMOOTH, ("mechanism.smooth.calibration", 2)),
        (("cap.below", 1.5), ("cap.above", 1.5)),
        (("cap.below", nextafter(1.5, 0.0)), ("cap.above", 4.0)),
        (("cap.below", 4.0), ("cap.above", math.nan)),
        (("cap.below", math.inf), ("cap.above", 4.0)),
        *one("cap.below", 4.0),
        *one("privacy.delta", 1e-6, -0.0),
        *one("privacy.reach", 1e6),
        *one("mechanism.extension.family", "some-package"),
        *one("allocation", 0, 4, 5),
        *one("grid", None),
        *one(_GRID, 0, 1, -60, -61, -62, 300),
        *one("opens", None),
        *one("closes", None),
        *one("closes.seconds", 0, _OPENS, _OPENS + 1, 10**15),
        *one("closes.seconds", _OPENS + 3660 * _DAY, _OPENS + 3660 * _DAY + 1),
        (("closes.seconds", _OPENS + 3660 * _DAY), ("closes.nanos", 1000)),
        (("closes.seconds", _OPENS), ("closes.nanos", 1000)),
        *one("closes.nanos", 1, 1000, 999_999_000, 10**9, -1000),
        *one("opens.nanos", 10**9),
        (("opens.seconds", -62_135_596_800), ("closes.seconds", -62_135_596_799)),
        (("opens.seconds", -62_135_596_801), ("closes.seconds", -62_135_596_799)),
        (("opens.seconds", 253_402_300_798), ("closes.seconds", 253_402_300_799)),
        (("opens.seconds", 253_402_300_798), ("closes.seconds", 253_402_300_800)),
        *one("period.seconds", 59, 0, -60, _DAY, 3660 * _DAY),
        *one("period.seconds", 315_576_000_000, 315_576_000_001, 10**15),
        (("period.seconds", 60), ("closes.seconds", _OPENS + 6_000_000)),
        (("period.seconds", 60), ("closes.seconds", _OPENS + 6_000_001)),
        (("period.seconds", _DAY), ("period.nanos", 1000)),
        (("period.seconds", _DAY), ("period.nanos", 1)),
        (("period.seconds", _DAY), ("period.nanos", -1000)),
        *one("minimum_participants", 10**12, 10**12 + 1),
    ],
    "student": [
        *one("mechanism.smooth.student_t.nu", 2.0, 4.0, 100.5, math.nan),
        *one("mechanism.smooth.generalized_cauchy.gamma", 3.0, 4.0, math.nan),
        *one("mechanism.smooth.beta_fraction", 0.0, 0.3, 0.34, math.nan),
        *one("mechanism.smooth.growth", 0, 2),
        *one("mechanism.smooth.calibration", 0, 1),
        *one("mechanism.smooth.reach", None, 0.0, -1.0, math.nan),
        *one("mechanism.smooth.student_t", None),
        *one("privacy.delta", 1e-6),
    ],
    "laplace": [
        *one("privacy.delta", 0.0, -0.1, 0.5, nextafter(1.0, 0.0), 1.0, 1e-300),
        *one("privacy.reach", 0.0, -1.0, math.inf),
        (("cap.below", 4.0), ("cap.above", 4.0)),
        *one("mechanism.smooth.beta_fraction", 0.07, 0.08),
        *one("mechanism.smooth.growth", 0, 1),
        *one("mechanism.smooth.calibration", 0),
        *one("mechanism.smooth.reach", 0.0, math.inf),
        (("period.seconds", _DAY),),
        (("period.seconds", _DAY), ("privacy.delta", 0.02)),
    ],
    "vector": [
        *one("mechanism.smooth.growth", 2),
        *one("mechanism.smooth.beta_fraction", 0.6, 1.0),
        *one("mechanism.smooth.student_t.nu", 3.0),
        *one("allocation", 3),
    ],
    "split": [
        *(
            (("translations.0.language", "de"), ("translations.0.labels", labels))
            for labels in (["a", "b", "a"], ["a", "b", "c"])
        ),
        *one("allocation", 3),
        *one("queries.1.label", "q0"),
        *one("privacy.epsilon", 1e-50),
    ],
    "range": [
        *one("queries.0.range.high", -30.0, -40.0, math.inf),
        *one("queries.0.range.width", *_sides(60.0, 61.0)),
    ],
    "kernel": [
        (("cap.below", 1e-50), ("cap.above", nextafter(5.575383283274757, 6.0))),
        (("cap.below", 9.0), ("cap.above", 5.57)),
        *one("queries.0.gaussian_kernel.center", [], [0.0, 0.0], [math.inf]),
        *one("queries.0.gaussian_kernel.bandwidth", 0.0, -1.0, math.inf),
        *one(_GRID, -61, -62),
    ],
    "asker": [
        *one("asker.purpose", ""),
        *one("asker.notice", "http://y.z", "https://y.z/a b"),
        *one("delete_after.seconds", _OPENS + 90 * _DAY - 1, _OPENS + 3750 * _DAY),
    ],
    "texts": [
        *one("language", "", "de", "DE", "e", "en_GB", "english-as-spoken-in-the-north", "en-GB"),
        *one("translations.0.language", "", "en", "EN", "d", "de_AT", "deutschland", "de-Latn-AT"),
        *one("translations.1.language", "", "de", "De", "en", "ar", "i-default"),
        *one("translations.0.title", "", *_FORGED, "x" * 200, "x" * 201, "سؤال"),
        *one("translations.0.attribute", "", *_FORGED, "x" * 65),
        *one("translations.0.unit", "", *_FORGED, "x" * 65),
        *one("translations.0.asker.purpose", "", *_FORGED, "x" * 501),
        *one("translations.0.asker.notice", "http://y.z", "https://y.z/de"),
        *one("translations.0.asker", None),
        *one("asker", None),
        *one("translations.0.labels", [], [""], ["a", "b"], ["x" * 101], *([x] for x in _FORGED)),
        *(
            tuple((f"translations.{i}.language", f"aa-{i}") for i in range(1, last))
            for last in (63, 64)
        ),
    ],
    "lipschitz": one(_GRID, 0, 1),
    "steep": [
        # The noise is 0.0123: the query is compared with 2^61 steps.
        *one("privacy.per", *_sides(16.0 * 64 / 210 * 1e8, math.inf)),
    ],
    "level": [
        *(
            ((f"{_LINEAR}.profile.values", [0.0, level]),)
            for level in (0.5, 0.5 + _TIE, 0.5 + _TIE / 2, 0.5 - _TIE, 0.5 - _TIE / 2, 3.5, -7.5)
        ),
    ],
    "table": [
        *one(f"{_LINEAR}.profile.at", [0.0, 0.0], [0.0]),
        *one(f"{_LINEAR}.profile.values", [1.0]),
        *one(f"{_LINEAR}.profile.slopes", [1.0], []),
        *one(f"{_LINEAR}.profile.at.0", math.nan, -1e9),
        *one(f"{_LINEAR}.profile.slopes.0", 0.5, -0.0),
        *one(f"{_LINEAR}.profile.slopes.1", 0.5),
        *one(f"{_LINEAR}.profile.slopes.3", 0.5),
        *one(f"{_LINEAR}.profile", None),
        *one(f"{_LINEAR}.direction", [], [0.0], [1.0, 2.0], [math.nan], [-0.0]),
        *one(f"{_LINEAR}.direction", *([x] for x in (*_LEAST, *_MOST))),
        *one(f"{_LINEAR}.offset", math.inf),
    ],
    "ray": [
        *one("queries.0.radial.profile.at.0", -1.0, 1.0, -0.0),
        *one("queries.0.radial.profile.slopes.0", 0.01),
        *one("queries.0.radial.center", []),
    ],
    "places": [
        *one("attribute.unit", "mile"),
        *one("attribute.least", 0.0),
        *one(_RADIUS, 0.0, *_sides(5e6, 1e7), 5e-324, math.nan),
        *one(_LATITUDE, *_sides(90.0, 91.0), *_sides(-90.0, -91.0)),
        *one(_LONGITUDE, *_sides(180.0, 181.0), *_sides(-180.0, -181.0)),
        *one("queries.0.disc.center", [0.0, 0.0, 0.0], [0.0], []),
        *one("queries.0.disc.width", *_sides(3000.0, 4000.0)),
        *one("queries.0.disc.radius", -1.0),
        (("queries.0.smoothed_disc.radius", 1000.0), ("queries.0.smoothed_disc.bandwidth", 500.0),
         ("queries.0.smoothed_disc.center", [0.0, 0.0])),
    ],
    "points": [
        (("cap.below", 4.0), ("cap.above", 4.0)),
        *one("attribute.most", 5.0),
        *one("mechanism.planar_laplace.dimension", 0, 1, 3, 4),
        *one("allocation", 2),
        (("queries.0.label", "q"), ("queries.0.threshold.width", 16.0),
         ("queries.0.threshold.profile", 1)),
        *one(_GRID, 200, 201, -200, -201),
        *one("privacy.epsilon", *_LEAST, *_MOST),
        *one("privacy.per", *_LEAST, *_MOST),
        (("privacy.epsilon", 1e50), ("period.seconds", 45 * _DAY)),
        (("privacy.epsilon", 5e49), ("period.seconds", 45 * _DAY)),
    ],
    "points-of-places": one("mechanism.planar_laplace.dimension", 1, 3),
}  # fmt: skip
"""Changes by the name of the valid campaign to change."""
