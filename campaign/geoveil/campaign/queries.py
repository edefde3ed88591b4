"""Questions, and the library's families of queries with their purposes and wire forms."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from types import MappingProxyType
from typing import Any, TypeVar

from geoveil.campaign.families import Example, QueryFamily, Registry, Wire, Work
from geoveil.campaign.text import require_printable
from geoveil.gp import (
    Disc,
    GaussianKernel,
    GeoPrivacy,
    Linear,
    ParameterError,
    Polygon,
    Query,
    Radial,
    Range,
    SmoothedRegion,
    SoftIndicator,
    TabulatedProfile,
    Threshold,
    TwoWayThreshold,
    UnsupportedError,
    require_pieces,
    validation,
)
from geoveil.proto.v1 import campaign_pb2 as pb


@dataclass(frozen=True, slots=True)
class Difference:
    """The soft share minus the hard share.

    Args:
        expected: the known part of the difference.
        bound: the difference is within this of `expected`; ≥ 0.
    """

    expected: float
    bound: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "expected", validation.real("expected", self.expected))
        object.__setattr__(self, "bound", validation.non_negative("bound", self.bound))
        if not self.bound <= validation.MOST:
            raise ParameterError("bound", self.bound, f"at most {validation.MOST:g}")


@dataclass(frozen=True, slots=True)
class Question:
    """A campaign's query and its name in tables."""

    label: str
    query: Query
    softness: Difference | None = None
    """A plan's expected difference of the mean from the hard share, if any."""

    def __post_init__(self) -> None:
        require_printable("query.label", self.label, 100)
        validation.require_kind("query", self.query, Query)
        validation.require_kind("softness", self.softness, Difference | None)


@dataclass(frozen=True, slots=True)
class PointQuestion:
    """A query to perturbed points and its name in tables."""

    label: str
    query: Query | SmoothedRegion

    def __post_init__(self) -> None:
        require_printable("query.label", self.label, 100)
        validation.require_kind("query", self.query, Query | SmoothedRegion)


_PROFILES = MappingProxyType(
    {
        "linear": pb.PROFILE_LINEAR,
        "smoothstep": pb.PROFILE_SMOOTHSTEP,
    }
)


def _band(query: SoftIndicator) -> dict[str, Any]:
    return {"width": query.width, "profile": _PROFILES[query.profile.name]}


def _profile(message: Any) -> str:
    return name_of(_PROFILES, message.profile, "profile")


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


def _table(query: Linear | Radial) -> pb.Table:
    profile = query.profile
    if not isinstance(profile, TabulatedProfile):
        raise UnsupportedError(
            f"{query!r} can't go on the wire, as its profile is code: ask a table of it,"
            " query.tabulated()"
        )
    return pb.Table(at=profile.at, values=profile.values, slopes=profile.slopes)


def _read_table(message: pb.Table) -> TabulatedProfile:
    require_pieces(len(message.at), len(message.values), len(message.slopes))
    return TabulatedProfile(tuple(message.at), tuple(message.values), tuple(message.slopes))


_INCOME = GeoPrivacy(1.0, per=8000.0, unit="dollar")
_PLACE = GeoPrivacy(1.0, per=500.0, unit="metre")
_SQUARE = ((-1000.0, -800.0), (1000.0, -800.0), (1000.0, 800.0), (-1000.0, 800.0))


def _step() -> TabulatedProfile:
    """Return a profile with a flat top and a soft slope."""
    return TabulatedProfile((0.0, 500.0, 2000.0), (1.0, 0.9, 0.0), (0.0, -6e-4, -6e-4, 0.0))


def _income(query: Query) -> tuple[Example, ...]:
    return (Example(query, _INCOME, (100_000.0,)),)


def _place(query: Query) -> tuple[Example, ...]:
    return (Example(query, _PLACE, (0.0,) * query.dimension),)


QUERIES: Registry[QueryFamily] = Registry(
    "geoveil.queries",
    QueryFamily,
    (
        QueryFamily(
            name="threshold",
            made=Threshold,
            summary="the share of people above a value",
            wire=Wire(
                "threshold",
                lambda q: pb.Threshold(at=q.at, **_band(q)),
                lambda m: Threshold(m.at, m.width, _profile(m)),
            ),
            work=Work(read=60, drawn=0),
            examples=lambda: _income(Threshold(100_000.0, 24_000.0, "smoothstep")),
        ),
        QueryFamily(
            name="range",
            made=Range,
            summary="the share of people between two values",
            wire=Wire(
                "range",
                lambda q: pb.Range(low=q.low, high=q.high, **_band(q)),
                lambda m: Range(m.low, m.high, m.width, _profile(m)),
            ),
            work=Work(read=60, drawn=0),
            examples=lambda: _income(Range(88_000.0, 112_000.0, 16_000.0)),
        ),
        QueryFamily(
            name="two-way-threshold",
            made=TwoWayThreshold,
            summary="the share of people with two values, both above their thresholds",
            wire=Wire(
                "two_way_threshold",
                lambda q: pb.TwoWayThreshold(first=q.at[0], second=q.at[1], **_band(q)),
                lambda m: TwoWayThreshold((m.first, m.second), m.width, _profile(m)),
            ),
            work=Work(read=60, drawn=0),
            examples=lambda: _place(TwoWayThreshold((0.0, 0.0), 1000.0)),
        ),
        QueryFamily(
            name="disc",
            made=Disc,
            summary="the share of people within a distance of a place",
            wire=Wire(
                "disc",
                lambda q: pb.Disc(center=q.center, radius=q.radius, **_band(q)),
                lambda m: Disc(tuple(m.center), m.radius, m.width, _profile(m)),
            ),
            work=Work(read=60, drawn=0),
            examples=lambda: _place(Disc((0.0, 0.0), 1000.0, 1500.0, "smoothstep")),
        ),
        QueryFamily(
            name="polygon",
            made=Polygon,
            summary="the share of people inside polygons of the plane",
            wire=Wire(
                "polygon",
                lambda q: pb.Polygon(parts=_parts(q), **_band(q)),
                lambda m: Polygon(_read_parts(m), m.width, _profile(m)),
            ),
            work=Work(read=310, drawn=100),
            examples=lambda: _place(Polygon(_SQUARE, 1000.0)),
        ),
        QueryFamily(
            name="gaussian-kernel",
            made=GaussianKernel,
            summary="the density of people at a place",
            wire=Wire(
                "gaussian_kernel",
                lambda q: pb.GaussianKernel(center=q.center, bandwidth=q.bandwidth),
                lambda m: GaussianKernel(tuple(m.center), m.bandwidth),
            ),
            work=Work(read=60, drawn=0),
            examples=lambda: _place(GaussianKernel((0.0, 0.0), 750.0)),
        ),
        QueryFamily(
            name="radial",
            made=Radial,
            summary="the mean of a function of the distance to a place, given as a table",
            wire=Wire(
                "radial",
                lambda q: pb.Radial(center=q.center, profile=_table(q)),
                lambda m: Radial(_read_table(m.profile), tuple(m.center)),
            ),
            work=Work(read=700, drawn=1200),
            examples=lambda: _place(Radial(_step(), (0.0, 0.0))),
        ),
        QueryFamily(
            name="linear",
            made=Linear,
            summary="the mean of a function of a number, or of one direction, given as a table",
            wire=Wire(
                "linear",
                lambda q: pb.Linear(direction=q.direction, offset=q.offset, profile=_table(q)),
                lambda m: Linear(_read_table(m.profile), tuple(m.direction), m.offset),
            ),
            work=Work(read=700, drawn=1200),
            examples=lambda: _place(Linear(_step(), (3.0, -4.0))),
        ),
        # The region is where the distance is positive, for any width of its band.
        QueryFamily(
            name="smoothed-disc",
            made=SmoothedRegion,
            summary="the share of perturbed points in a disc, its edge smoothed",
            of_points=True,
            holds=_smoothed(Disc),
            wire=Wire(
                "smoothed_disc",
                lambda q: pb.SmoothedDisc(
                    center=q.region.center, radius=q.region.radius, bandwidth=q.bandwidth
                ),
                lambda m: SmoothedRegion(Disc(tuple(m.center), m.radius, m.radius), m.bandwidth),
            ),
        ),
        QueryFamily(
            name="smoothed-polygon",
            made=SmoothedRegion,
            summary="the share of perturbed points in polygons, their edges smoothed",
            of_points=True,
            holds=_smoothed(Polygon),
            wire=Wire(
                "smoothed_polygon",
                lambda q: pb.SmoothedPolygon(parts=_parts(q.region), bandwidth=q.bandwidth),
                lambda m: SmoothedRegion(Polygon(_read_parts(m), width=1.0), m.bandwidth),
            ),
        ),
    ),
)
"""All families of queries for campaigns."""


def encode_question(question: Question) -> pb.Query:
    """Return a campaign's question in wire form."""
    message = pb.Query(label=question.label, **QUERIES.encode(question.query))
    if question.softness is not None:
        message.softness.expected_difference = question.softness.expected
        message.softness.bound = question.softness.bound
    return message


def decode_question(index: int, message: pb.Query) -> Question:
    """Return a campaign's question at an index."""
    query = within(f"queries[{index}]", lambda: QUERIES.decode(message))
    if not isinstance(query, Query):
        raise ParameterError(
            f"queries[{index}].kind", message.WhichOneof("kind"), "one that devices answer"
        )
    if not message.HasField("softness"):
        return Question(message.label, query)
    given = message.softness
    softness = within(
        f"queries[{index}].softness", lambda: Difference(given.expected_difference, given.bound)
    )
    return Question(message.label, query, softness)


def encode_point_question(question: PointQuestion) -> pb.Query:
    """Return a question to perturbed points in wire form.

    A `SmoothedRegion` must have a `Disc` or a `Polygon` and no bounds of its own.

    Raises:
        UnsupportedError: if the query has no wire form.

    Example:
        >>> asked = PointQuestion("near", GaussianKernel((0.0, 0.0), bandwidth=500.0))
        >>> decode_point_question(0, encode_point_question(asked)) == asked
        True
    """
    return pb.Query(label=question.label, **QUERIES.encode(question.query))


def decode_point_question(index: int, message: pb.Query) -> PointQuestion:
    """Return a request's question to perturbed points at an index.

    Raises:
        ParameterError: if a field is out of range.
    """
    query = within(f"queries[{index}]", lambda: QUERIES.decode(message))
    return PointQuestion(message.label, query)


_Value = TypeVar("_Value")


def name_of(table: Mapping[_Value, int], number: int, field: str) -> _Value:
    """Return the name of an enumeration's value."""
    for name, field_number in table.items():
        if field_number == number:
            return name
    raise ParameterError(field, number, f"one of {sorted(table.values())}")


def within(field: str, read: Callable[[], _Value]) -> _Value:
    """Return read(), with the field's name as a prefix in any ParameterError."""
    try:
        return read()
    except ParameterError as error:
        raise ParameterError(f"{field}.{error.name}", error.value, error.expected) from None
