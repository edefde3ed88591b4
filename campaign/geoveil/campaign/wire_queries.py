"""Queries on the wire and back: one row per kind, in a table for each place they may stand in."""

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import Any

from geoveil.campaign.question import PointQuestion, Question
from geoveil.gp import (
    Disc,
    GaussianKernel,
    Linear,
    ParameterError,
    Polygon,
    Radial,
    Range,
    SmoothedRegion,
    TabulatedProfile,
    Threshold,
    TwoWayThreshold,
    UnsupportedError,
)
from geoveil.gp.queries import SoftIndicator
from geoveil.gp.queries.profiles.tabulated import require_pieces
from geoveil.proto.v1 import campaign_pb2 as pb

Kinds = Mapping[str, tuple[Callable[[object], bool], Callable[[Any], Any], Callable[[Any], Any]]]
"""Name in the `kind` of a message → whether a value is of it, how it is written, how it is read."""

_PROFILES = MappingProxyType({"linear": pb.PROFILE_LINEAR, "smoothstep": pb.PROFILE_SMOOTHSTEP})


def of_type(kind: type) -> Callable[[object], bool]:
    """Return what tells whether a value is of this very type, and of no subtype."""
    return lambda value: type(value) is kind


def _band(query: SoftIndicator) -> dict[str, Any]:
    return {"width": query.width, "profile": _PROFILES[query.profile.name]}


def _profile(message: Any) -> str:
    name: str = name_of(_PROFILES, message.profile, "profile")
    return name


def _parts(query: Polygon) -> list[pb.PolygonPart]:
    return [
        pb.PolygonPart(rings=[pb.PolygonRing(coordinates=chain.from_iterable(r)) for r in part])
        for part in query.region
    ]


def _read_parts(message: Any) -> list[list[list[tuple[float, float]]]]:
    return [
        [_ring(f"parts[{i}].rings[{j}]", ring.coordinates) for j, ring in enumerate(part.rings)]
        for i, part in enumerate(message.parts)
    ]


def _ring(field: str, numbers: Sequence[float]) -> list[tuple[float, float]]:
    if len(numbers) % 2:
        raise ParameterError(f"{field}.coordinates", f"{len(numbers)} numbers", "pairs x, y")
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def _smoothed(kind: type) -> Callable[[object], bool]:
    def is_of_kind(value: object) -> bool:
        return (
            isinstance(value, SmoothedRegion)
            and type(value.region) is kind
            and value.bounds == SmoothedRegion(value.region, value.bandwidth).bounds
        )

    return is_of_kind


def _of_table(kind: type[Linear] | type[Radial]) -> Callable[[object], bool]:
    return lambda value: (
        isinstance(value, kind)
        and (type(value) is kind and isinstance(value.profile, TabulatedProfile))
    )


def _table(query: Linear | Radial) -> pb.Table:
    profile = query.profile
    assert isinstance(profile, TabulatedProfile)  # `_of_table` sees to it
    return pb.Table(at=profile.at, values=profile.values, slopes=profile.slopes)


def _read_table(message: pb.Table) -> TabulatedProfile:
    require_pieces(len(message.at), len(message.values), len(message.slopes))
    return TabulatedProfile(tuple(message.at), tuple(message.values), tuple(message.slopes))


# A new kind is a new row.
_QUERIES: Kinds = {
    "threshold": (
        of_type(Threshold),
        lambda q: pb.Threshold(at=q.at, **_band(q)),
        lambda m: Threshold(m.at, m.width, _profile(m)),
    ),
    "range": (
        of_type(Range),
        lambda q: pb.Range(low=q.low, high=q.high, **_band(q)),
        lambda m: Range(m.low, m.high, m.width, _profile(m)),
    ),
    "two_way_threshold": (
        of_type(TwoWayThreshold),
        lambda q: pb.TwoWayThreshold(first=q.at[0], second=q.at[1], **_band(q)),
        lambda m: TwoWayThreshold((m.first, m.second), m.width, _profile(m)),
    ),
    "disc": (
        of_type(Disc),
        lambda q: pb.Disc(center=q.center, radius=q.radius, **_band(q)),
        lambda m: Disc(tuple(m.center), m.radius, m.width, _profile(m)),
    ),
    "polygon": (
        of_type(Polygon),
        lambda q: pb.Polygon(parts=_parts(q), **_band(q)),
        lambda m: Polygon(_read_parts(m), m.width, _profile(m)),
    ),
    "gaussian_kernel": (
        of_type(GaussianKernel),
        lambda q: pb.GaussianKernel(center=q.center, bandwidth=q.bandwidth),
        lambda m: GaussianKernel(tuple(m.center), m.bandwidth),
    ),
    "radial": (
        _of_table(Radial),
        lambda q: pb.Radial(center=q.center, profile=_table(q)),
        lambda m: Radial(_read_table(m.profile), tuple(m.center)),
    ),
    "linear": (
        _of_table(Linear),
        lambda q: pb.Linear(direction=q.direction, offset=q.offset, profile=_table(q)),
        lambda m: Linear(_read_table(m.profile), tuple(m.direction), m.offset),
    ),
}
_POINT_QUERIES: Kinds = {
    **_QUERIES,
    # The region is where the distance is positive, whatever the width of its band.
    "smoothed_disc": (
        _smoothed(Disc),
        lambda q: pb.SmoothedDisc(
            center=q.region.center, radius=q.region.radius, bandwidth=q.bandwidth
        ),
        lambda m: SmoothedRegion(Disc(tuple(m.center), m.radius, m.radius), m.bandwidth),
    ),
    "smoothed_polygon": (
        _smoothed(Polygon),
        lambda q: pb.SmoothedPolygon(parts=_parts(q.region), bandwidth=q.bandwidth),
        lambda m: SmoothedRegion(Polygon(_read_parts(m), width=1.0), m.bandwidth),
    ),
}


def encode_question(question: Question) -> pb.Query:
    """Return a question of a campaign as it is written there."""
    return pb.Query(label=question.label, **encode_kind(_QUERIES, question.query))


def decode_question(index: int, message: pb.Query) -> Question:
    """Return the question that stands at an index of a campaign's queries."""
    query = within(f"queries[{index}]", lambda: decode_kind(_QUERIES, message))
    return Question(message.label, query)


def encode_point_question(question: PointQuestion) -> pb.Query:
    """Return a question to perturbed points as it is written on the wire.

    A `SmoothedRegion` is to be that of a `Disc` or a `Polygon`, without bounds of its own.

    Raises:
        UnsupportedError: if the query has no form on the wire.

    Example:
        >>> asked = PointQuestion("near", GaussianKernel((0.0, 0.0), bandwidth=500.0))
        >>> decode_point_question(0, encode_point_question(asked)) == asked
        True
    """
    return pb.Query(label=question.label, **encode_kind(_POINT_QUERIES, question.query))


def decode_point_question(index: int, message: pb.Query) -> PointQuestion:
    """Return the question to perturbed points that stands at an index of a request.

    Raises:
        ParameterError: naming the field, its value and what is permitted.
    """
    query = within(f"queries[{index}]", lambda: decode_kind(_POINT_QUERIES, message))
    return PointQuestion(message.label, query)


def encode_kind(table: Kinds, value: object) -> dict[str, Any]:
    """Return the field of a `kind` that a value is written as."""
    for name, (is_of_kind, write, _) in table.items():
        if is_of_kind(value):
            return {name: write(value)}
    if isinstance(value, (Linear, Radial)):
        raise UnsupportedError(
            f"{value!r} can't go on the wire, as its profile is code: ask a table of it,"
            " query.tabulated()"
        )
    raise UnsupportedError(f"{value!r} can't go on the wire; known are {', '.join(table)}")


def decode_kind(table: Kinds, message: Any) -> Any:
    """Return the value of the `kind` of a message."""
    name = message.WhichOneof("kind")
    if name not in table:
        raise ParameterError("kind", name, "one of " + ", ".join(table))
    return table[name][2](getattr(message, name))


def name_of(table: Mapping[Any, int], number: int, field: str) -> Any:
    """Return the name of a number of an enumeration."""
    for name, known in table.items():
        if known == number:
            return name
    raise ParameterError(field, number, f"one of {sorted(table.values())}")


def within(field: str, read: Callable[[], Any]) -> Any:
    """Return read(), with the field's name before that of a parameter at fault."""
    try:
        return read()
    except ParameterError as error:
        raise ParameterError(f"{field}.{error.name}", error.value, error.expected) from None
