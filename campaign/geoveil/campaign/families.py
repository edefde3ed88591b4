"""Families of queries and mechanisms that a campaign can name: `threshold`, `debiased`.

A record says how to make a family and encode it in a campaign, what it costs on a device, and which
examples audits use. `queries` and `mechanisms` have the library's own records; another package adds
one through an entry point in `geoveil.queries` or `geoveil.mechanisms` with the family's name.
"""

import math
import re
import typing
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from inspect import Parameter, signature
from itertools import chain
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from google.protobuf.message import Message

from geoveil.campaign.entry_points import added, foreign, installed, load
from geoveil.gp import (
    GeoPrivacy,
    ParameterError,
    Query,
    QueryMechanism,
    UnsupportedError,
    VectorSmoothMechanism,
    validation,
)
from geoveil.proto.v1 import campaign_pb2 as pb

FAMILY_NAME = re.compile(r"[a-z][a-z0-9-]{0,63}")
_EXTENSION = "extension"
"""The field of a message's `kind` for other packages' families."""
_MOST_PARAMETERS = 64
_KINDS: Mapping[object, type] = MappingProxyType({float: float, int: int, str: str})


def not_together(what: str) -> ParameterError:
    """Return the error for a family that can't answer several questions with one vector."""
    others = "'partition', 'split' or 'repeat'"
    return ParameterError(
        "allocation",
        "vector",
        f"{others} for {what}: a vector has smooth noise, exponential growth and no delta",
    )


class MechanismSpec(ABC):
    """The declaration of a mechanism that perturbs answers, with its public parameters."""

    __slots__ = ()

    @property
    def has_slack(self) -> bool:
        """Whether it requires a guarantee with a δ."""
        return False

    @property
    def profile(self) -> str:
        """The default profile of a band."""
        return "smoothstep"

    def unserved(self, queries: Sequence[Query]) -> str | None:
        """Return why browsers' devices refuse this mechanism for queries; None if they don't."""
        return None

    @abstractmethod
    def build(self, query: Query, privacy: GeoPrivacy, step: float | None = None) -> QueryMechanism:
        """Return the mechanism for one query, whose answer may spend `privacy`.

        `step` is the spacing of the campaign's grid, by default the mechanism's own.

        Raises:
            UnsupportedError: if the query and the mechanism are incompatible.
        """

    def build_together(
        self, queries: Sequence[Query], privacy: GeoPrivacy, step: float | None = None
    ) -> VectorSmoothMechanism:
        """Return one mechanism for several queries of equal dimension, which share the cost.

        Raises:
            ParameterError: if it answers only one query at a time, or a parameter is out of range.
        """
        raise not_together(repr(self))


@dataclass(frozen=True, slots=True)
class Work:
    """A family's cost on a device, in microseconds of processor time at about 3 GHz."""

    read: int
    """The time to read and check a query, besides 1 per 2 bytes."""
    drawn: int
    """The time to draw an answer; for a query, besides the mechanism's and 1 per 10 bytes."""


@dataclass(frozen=True, slots=True)
class Wire:
    """A family's own message of the protocol."""

    field: str
    """The field of the `kind` that holds the family's message."""
    write: Callable[[Any], Message]
    read: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Example:
    """A public query and guarantee for testing a family."""

    query: Query
    privacy: GeoPrivacy
    origin: tuple[float, ...]
    """A point at which the query varies, in the points' unit."""


def _any(query: Query) -> bool:
    """Accept every query."""
    return True


@dataclass(frozen=True, kw_only=True)
class Family:
    """The common part of query and mechanism families."""

    name: str
    """Its name in campaigns and commands: lower-case letters, digits and "-"."""
    made: type
    """The class of the query or declaration, which takes the family's parameters by name."""
    summary: str
    """Its purpose in a phrase, for the documents' table."""
    wire: Wire | None = None
    """Its own message; None encodes its name and a dataclass of numbers, texts and tuples."""
    work: Work = Work(read=700, drawn=1200)
    """Its cost on a device, by default that of the library's most expensive family."""
    holds: Callable[[Any], bool] | None = None
    """Returns whether a value belongs to the family, if its class does not decide."""
    examples: Callable[[], Sequence[Example]] = tuple
    """Makes the family's examples for tests and audits."""

    def is_of(self, value: object) -> bool:
        """Return whether a value belongs to this family, by its exact class or by `holds`."""
        return type(value) is self.made if self.holds is None else self.holds(value)

    def encode(self, value: Any) -> dict[str, Any]:
        """Return the field of `kind` that encodes a value."""
        if self.wire is not None:
            return {self.wire.field: self.wire.write(value)}
        return {_EXTENSION: pb.Extension(family=self.name, parameters=_written(value))}

    def decode(self, message: Any) -> Any:
        """Return the value in a message of `encode`."""
        if self.wire is not None:
            return self.wire.read(getattr(message, self.wire.field))
        return self.make(_read(message.extension.parameters))

    def make(self, parameters: Mapping[str, Any]) -> Any:
        """Return an object from its parameters.

        Raises:
            ParameterError: if a parameter is missing, unknown or out of range.
        """
        own = self.parameters
        required = {name for name, p in own.items() if p.default is p.empty}
        if not required <= set(parameters) <= set(own):
            raise ParameterError(f"parameters of {self.name}", sorted(parameters), self.usage)
        for name, value in parameters.items():
            kind = _KINDS.get(hint := own[name].annotation, object)
            if not isinstance(value, tuple if typing.get_origin(hint) is tuple else kind):
                raise ParameterError(f"{self.name}.{name}", value, f"a {hint}")
        with foreign(self.name):
            return self.made(**parameters)

    def parse(self, text: str) -> Any:
        """Return the object for 'name=value,name=value'; blanks separate a tuple's numbers.

        Raises:
            ParameterError: if a parameter is unreadable, missing, unknown or out of range.
        """
        return self.make(self.read(text))

    def read(self, text: str) -> dict[str, Any]:
        """Return the parameters in a text, as `parse` does."""
        own = self.parameters
        given = {}
        for part in filter(None, text.split(",")):
            name, equals, value = (piece.strip() for piece in part.partition("="))
            if not equals or name in given:
                raise ParameterError(self.name, text, self.usage)
            hint = own[name].annotation if name in own else None
            given[name] = _typed(f"{self.name}.{name}", value, hint)
        return given

    @property
    def parameters(self) -> Mapping[str, Parameter]:
        """The parameters of its class, without texts in their annotations."""
        return {
            name: parameter.replace(annotation=_kind_and_text(parameter)[0])
            for name, parameter in self._stated.items()
        }

    @property
    def _stated(self) -> Mapping[str, Parameter]:
        with foreign(self.name):
            return signature(self.made, eval_str=True).parameters

    @property
    def usage(self) -> str:
        """How `parse` takes the parameters, as the end of an error's message.

        A parameter annotated `Annotated[float, "the lower value"]` stands there with that text.
        """
        own = {f"{name}{_kind_and_text(p)[1]}": p for name, p in self._stated.items()}.items()
        needed = ", ".join(name for name, p in own if p.default is p.empty)
        free = ", ".join(name for name, p in own if p.default is not p.empty)
        wanted = f"{needed}, and for {free} if wanted" if needed and free else needed or free
        return f"name=value for {wanted}" if wanted else "left out"


@dataclass(frozen=True, kw_only=True)
class QueryFamily(Family):
    """A family of queries."""

    of_points: bool = False
    """Whether only perturbed points, not devices, answer it."""


@dataclass(frozen=True, kw_only=True)
class Planned:
    """A mechanism for the planner to compare, with the parameters to try."""

    name: str
    options: tuple[Mapping[str, float], ...] = (MappingProxyType({}),)
    serves: Callable[[Query], bool] = _any
    """Returns whether the row applies to a query; the mechanism may still refuse the query."""


@dataclass(frozen=True, kw_only=True)
class MechanismFamily(Family):
    """A family of mechanisms; makes the mechanism declared by a campaign."""

    default: Any = None
    """The meaning of the name alone; None if it needs parameters."""
    planned: tuple[Planned, ...] = ()
    work: Work = Work(read=0, drawn=300)
    dearer: Callable[[Any], int] | None = None
    """Returns an answer's additional time for the family's message; None for no addition."""

    def drawn(self, mechanism: pb.Mechanism) -> int:
        """Return the time to draw an answer, in microseconds; see `Work`."""
        if self.wire is None or self.dearer is None:
            return self.work.drawn
        return self.work.drawn + self.dearer(getattr(mechanism, self.wire.field))

    def parse(self, text: str) -> Any:
        """Return the mechanism declared by 'name=value,name=value'; no text means the default."""
        return self.default if not text and self.default is not None else super().parse(text)


F = TypeVar("F", bound=Family)


class Registry(Generic[F]):
    """The families of a kind: the library's own, with reserved names, and other packages'.

    It looks up packages once, and imports one only when a campaign uses one of its families by
    name, so that a device pays only for its own campaigns.
    """

    def __init__(self, group: str, kind: type[F], built_in: Sequence[F]) -> None:
        self.group = group
        self._kind = kind
        self.built_in: Mapping[str, F] = MappingProxyType({f.name: f for f in built_in})
        self._by_field = {f.wire.field: f for f in built_in if f.wire is not None}
        self._by_class = {f.made: f for f in built_in if f.holds is None}
        self._loaded: dict[str, F] = {}

    @property
    def added(self) -> list[str]:
        """The names that other packages claim, unchecked and without imports."""
        return [point.name for point in installed(self.group)]

    @property
    def names(self) -> tuple[str, ...]:
        """All names, without imports."""
        return (*self.built_in, *added(self.group, frozenset(self.built_in)))

    def __getitem__(self, name: str) -> F:
        """Return the family with a name, importing its package if necessary.

        Raises:
            NotInstalled: if there is no such family.
            UnsupportedError: if its package does not provide it.
        """
        if (family := self.built_in.get(name) or self._loaded.get(name)) is not None:
            return family
        record = load(self.group, name, self.built_in)
        if (
            not isinstance(record, self._kind)
            or record.name != name
            or not FAMILY_NAME.fullmatch(name)
        ):
            point = added(self.group, frozenset(self.built_in))[name].value
            raise UnsupportedError(
                f"{point} is no {self._kind.__name__} of the name {name!r}, which an entry point in"
                f" {self.group!r} promises"
            )
        return self._loaded.setdefault(name, record)

    def __iter__(self) -> Iterator[F]:
        """Yield all families, the library's own first; this imports every package that adds one."""
        return iter([self[name] for name in self.names])

    def is_built_in(self, value: object) -> bool:
        """Return whether a value belongs to one of the library's own families."""
        return type(value) in self._by_class or any(
            family.is_of(value) for family in self.built_in.values()
        )

    def of(self, value: object) -> F | None:
        """Return a value's family, or None."""
        if (match := self._by_class.get(type(value))) is not None:
            return match
        # All families, which imports packages, only if none of those at hand matches.
        families = chain(self.built_in.values(), self._loaded.values(), self)
        return next((family for family in families if family.is_of(value)), None)

    def encode(self, value: object) -> dict[str, Any]:
        """Return the field of `kind` for a value; UnsupportedError if it has no family."""
        family = self.of(value)
        if family is None:
            raise UnsupportedError(
                f"{value!r} can't go on the wire; known: {', '.join(self.names)}"
            )
        return family.encode(value)

    def named_by(self, message: Any) -> F:
        """Return the family that the `kind` of a message names.

        Raises:
            ParameterError: if it names no family.
            NotInstalled: if no installed package has it.
        """
        field = message.WhichOneof("kind")
        if (family := self._by_field.get(field)) is not None:
            return family
        if field != _EXTENSION:
            raise ParameterError("kind", field, "one of " + ", ".join(self._by_field))
        name = message.extension.family
        if not FAMILY_NAME.fullmatch(name) or name in self.built_in:
            raise ParameterError("extension.family", name, "the name of another package's")
        return self[name]

    def decode(self, message: Any) -> Any:
        """Return the value in the `kind` of a message.

        Raises:
            ParameterError: if a field is out of range.
            NotInstalled: if no installed package has the family.
        """
        return self.named_by(message).decode(message)

    def parse(self, text: str) -> Any:
        """Return the object described by 'family:name=value,name=value'.

        Raises:
            NotInstalled: if there is no such family.
            ParameterError: if a parameter is unreadable or out of range.
        """
        name, _, parameters = text.partition(":")
        return self[name.strip()].parse(parameters)


def _kind_and_text(parameter: Parameter) -> tuple[Any, str]:
    """Return the type of a parameter, and the text in its annotation, in brackets."""
    kind = parameter.annotation
    if typing.get_origin(kind) is not typing.Annotated:
        return kind, ""
    return kind.__origin__, f" ({kind.__metadata__[0]})"


def _written(value: Any) -> list[pb.Parameter]:
    names = sorted(each.name for each in fields(value) if each.init)
    return [pb.Parameter(name=name, **_parameter(name, getattr(value, name))) for name in names]


def _parameter(name: str, value: object) -> dict[str, Any]:
    if isinstance(value, str):
        return {"text": value}
    if isinstance(value, int) and not isinstance(value, bool):
        return {"integer": value}
    if isinstance(value, float) and math.isfinite(value):
        return {"number": value}
    if isinstance(value, tuple) and all(isinstance(v, float) and math.isfinite(v) for v in value):
        return {"numbers": pb.Numbers(values=value)}
    raise ParameterError(name, value, "a finite number, a text or a tuple of finite floats")


def _read(parameters: Sequence[pb.Parameter]) -> dict[str, Any]:
    validation.require_count("number of parameters", len(parameters), 0, _MOST_PARAMETERS)
    values: dict[str, Any] = {}
    for parameter in parameters:
        kind = parameter.WhichOneof("value")
        if kind is None:
            raise ParameterError(parameter.name, None, "a number, a text or numbers")
        value = getattr(parameter, kind)
        values[parameter.name] = tuple(value.values) if kind == "numbers" else value
        _parameter(parameter.name, values[parameter.name])
    return values


def _typed(name: str, text: str, hint: Any) -> Any:
    try:
        if hint is str:
            return text
        if hint is int:
            return int(text)
        if typing.get_origin(hint) is tuple or " " in text:
            return tuple(float(part) for part in text.split())
        return float(text)
    except ValueError:
        if hint is None or str in typing.get_args(hint):
            return text
        raise ParameterError(name, text, "a number") from None
