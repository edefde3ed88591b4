"""Wire formats of calls over HTTP: Connect and gRPC-Web, with messages in binary or JSON.

Connect (https://connectrpc.com/docs/protocol) makes a unary call by a plain POST, and uses frames
for other calls. gRPC-Web (https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-WEB.md) always uses
frames. A frame has a byte of flags, four bytes of length, and a message.
"""

import base64
import json
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from types import MappingProxyType
from typing import Any, TypeAlias
from urllib.parse import parse_qsl, quote

import grpc
from google.protobuf import descriptor_pool, json_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from google.rpc.status_pb2 import Status

from geoveil.gp import ParameterError

Metadata: TypeAlias = Sequence[tuple[str, str | bytes]]
DETAILS_KEY = "grpc-status-details-bin"
"""The key under which gRPC's libraries look for google.rpc.Status."""
FRAME_HEADER = struct.Struct(">BI")
"""Flags and length."""
PACKED, _END_OF_CONNECT, _END_OF_GRPC_WEB = 0x01, 0x02, 0x80
_LONGEST_JSON_ERROR = 200
"""The most characters of a message about an unreadable request."""
_HTTP_STATUS = MappingProxyType(
    {
        grpc.StatusCode.OK: 200,
        grpc.StatusCode.CANCELLED: 499,
        grpc.StatusCode.UNKNOWN: 500,
        grpc.StatusCode.INVALID_ARGUMENT: 400,
        grpc.StatusCode.DEADLINE_EXCEEDED: 504,
        grpc.StatusCode.NOT_FOUND: 404,
        grpc.StatusCode.ALREADY_EXISTS: 409,
        grpc.StatusCode.PERMISSION_DENIED: 403,
        grpc.StatusCode.RESOURCE_EXHAUSTED: 429,
        grpc.StatusCode.FAILED_PRECONDITION: 400,
        grpc.StatusCode.ABORTED: 409,
        grpc.StatusCode.OUT_OF_RANGE: 400,
        grpc.StatusCode.UNIMPLEMENTED: 501,
        grpc.StatusCode.INTERNAL: 500,
        grpc.StatusCode.UNAVAILABLE: 503,
        grpc.StatusCode.DATA_LOSS: 500,
        grpc.StatusCode.UNAUTHENTICATED: 401,
    }
)


@dataclass(frozen=True, slots=True)
class WireFormat:
    """The wire format of a content type."""

    content_type: str
    in_json: bool
    framed: bool
    grpc_web: bool = False

    def start(self, code: grpc.StatusCode) -> int:
        """Return the HTTP status."""
        return 200 if self.framed else _HTTP_STATUS[code]

    def message(self, content: bytes) -> bytes:
        """Return a response in wire format."""
        return FRAME_HEADER.pack(0, len(content)) + content if self.framed else content

    def end(self, code: grpc.StatusCode, text: str, trailing: Metadata) -> bytes:
        """Return the bytes that end a call, none for a successful plain POST."""
        if self.grpc_web:
            fields = [("grpc-status", str(code.value[0]))]
            if text:
                fields.append(("grpc-message", quote(text, safe=" !#$&'()*+,-./:;<=>?@[]^_`{|}~")))
            fields += [(key, _as_header(value)) for key, value in trailing]
            lines = "".join(f"{key}: {value}\r\n" for key, value in fields).encode()
            return FRAME_HEADER.pack(_END_OF_GRPC_WEB, len(lines)) + lines
        error = None if code is grpc.StatusCode.OK else _error(code, text, trailing)
        if not self.framed:
            return b"" if error is None else _json(error)
        message: dict[str, Any] = {} if error is None else {"error": error}
        if shown := dict(shown_metadata(trailing)):
            message["metadata"] = {key: [value] for key, value in shown.items()}
        content = _json(message)
        return FRAME_HEADER.pack(_END_OF_CONNECT, len(content)) + content


_CONNECT = [
    WireFormat("application/proto", in_json=False, framed=False),
    WireFormat("application/json", in_json=True, framed=False),
]
_CONNECT_FRAMED = [
    WireFormat("application/connect+proto", in_json=False, framed=True),
    WireFormat("application/connect+json", in_json=True, framed=True),
]
_GRPC_WEB = [
    WireFormat("application/grpc-web", in_json=False, framed=True, grpc_web=True),
    WireFormat("application/grpc-web+proto", in_json=False, framed=True, grpc_web=True),
    WireFormat("application/grpc-web+json", in_json=True, framed=True, grpc_web=True),
]


def _by_type(forms: Iterable[WireFormat]) -> Mapping[str, WireFormat]:
    return MappingProxyType({form.content_type: form for form in forms})


OF_ONE = _by_type(_CONNECT + _GRPC_WEB)
"""Content type → wire format of a unary call."""
OF_STREAMS = _by_type(_CONNECT_FRAMED + _GRPC_WEB)


def shown_metadata(trailing: Metadata) -> Iterable[tuple[str, str]]:
    """Yield trailing metadata without error details, which are sent separately."""
    return ((key, _as_header(value)) for key, value in trailing if key != DETAILS_KEY)


def timeout_s(headers: Mapping[str, str]) -> float | None:
    """Return the caller's timeout in seconds; None without one.

    Raises:
        ParameterError: if it is unreadable.

    Example:
        >>> timeout_s({"connect-timeout-ms": "1500"}), timeout_s({"grpc-timeout": "2M"})
        (1.5, 120.0)
    """
    for name, most, units in (
        ("connect-timeout-ms", 10, {"": 1e-3}),
        ("grpc-timeout", 8, {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}),
    ):
        text = headers.get(name)
        if text is None:
            continue
        digits = text if "" in units else text[:-1]
        unit = units.get(text[len(digits) :])
        if not (digits.isascii() and digits.isdigit() and len(digits) <= most) or unit is None:
            raise ParameterError(name, text[:20], f"at most {most} digits, and a unit of gRPC's")
        return int(digits) * unit
    return None


def of_query(query: bytes) -> tuple[str, bytes]:
    """Return content type and request of a GET call: "encoding=json&message={}".

    Raises:
        ParameterError: if it is not such a call.

    Example:
        >>> of_query(b"connect=v1&encoding=json&message=%7B%7D")
        ('application/json', b'{}')
    """
    given = dict(parse_qsl(query.decode("latin-1"), keep_blank_values=True, encoding="latin-1"))
    encoding = given.get("encoding", "")
    if encoding not in ("json", "proto"):
        raise ParameterError("encoding", encoding[:20], "json or proto")
    if given.get("compression", "identity") != "identity":
        raise ParameterError("compression", given["compression"][:20], "identity")
    if "message" not in given:
        raise ParameterError("message", "none", "the request")
    content = given["message"].encode("latin-1")
    if given.get("base64") == "1":
        try:
            content = base64.b64decode(content + b"=" * (-len(content) % 4), b"-_", validate=True)
        except ValueError:
            raise ParameterError("message", f"{len(content)} bytes", "base64") from None
    return f"application/{encoding}", content


def from_json(content: bytes, kind: type[Message]) -> bytes:
    """Convert a JSON message to serialised Protocol Buffers.

    The library's own reader takes 13 µs for each "{}"; this one leaves as much as possible to C. It
    refuses fields given under both names, other values instead of objects, and base64 outside
    ASCII, but accepts numbers instead of true and false.

    Raises:
        ParameterError: if it is invalid; only the sender sees the text.
    """
    try:
        read = json.loads(content.decode(), object_pairs_hook=_once, parse_constant=_refuse)
        return kind(**_fields(kind.DESCRIPTOR, read)).SerializeToString()
    except (
        json_format.ParseError,
        ValueError,
        TypeError,
        ArithmeticError,
        RecursionError,
    ) as error:
        said = " ".join(str(error).split())[:_LONGEST_JSON_ERROR]
        expected = f"a {kind.DESCRIPTOR.name} in JSON ({said})"
        raise ParameterError("request", f"{len(content)} bytes", expected) from None


def _fields(kind: Any, read: Any) -> dict[str, Any]:
    """Return the fields of a message, by their proto names, from a JSON object."""
    if type(read) is not dict:
        raise ValueError(f"a {kind.name} must be an object")
    if not read:  # fast, since 20,000 of them fit in a request
        return read
    fields: dict[str, Any] = {}
    choices, by_name = set(), _fields_by_name(kind)
    for name, value in read.items():
        if name not in by_name:
            raise ValueError(f"a {kind.name} has no field {name!r}")
        own, choice, change = by_name[name]
        if value is not None:
            if choice in choices:
                raise ValueError(f"a {kind.name} has {choice} twice")
            choices.add(choice)
            fields[own] = change(value)
    return fields


@cache
def _fields_by_name(kind: Any) -> Mapping[str, tuple[str, str, Callable[[Any], Any]]]:
    """Return each field name → the proto name, its oneof's name, and a conversion."""
    by_name = {}
    for field in kind.fields:
        change = _change(field)
        if field.is_repeated:
            change = partial(_each, change)
        choice = (field.containing_oneof or field).name
        by_name[field.name] = by_name[field.json_name] = (field.name, choice, change)
    return by_name


def _change(field: Any) -> Callable[[Any], Any]:
    """Return a converter from a JSON value to a field's value; the message checks the rest."""
    message = field.message_type
    if message is None:
        return _SCALARS.get(field.type, lambda value: value)
    if message.file.package == "google.protobuf":  # such as durations, which are texts in JSON
        return lambda value: json_format.ParseDict(value, GetMessageClass(message)())
    return partial(_fields, message)


def _each(change: Callable[[Any], Any], values: Any) -> list[Any]:
    if type(values) is not list:
        raise ValueError("a list is expected")
    return [change(value) for value in values]


def _integer(value: Any) -> Any:
    if type(value) is str and " " not in value:
        try:
            return int(value)
        except ValueError:
            value = float(value)
    return int(value) if type(value) is float and value.is_integer() else value


_SCALARS: Mapping[int, Callable[[Any], Any]] = MappingProxyType(
    {
        **dict.fromkeys((FieldDescriptor.TYPE_INT32, FieldDescriptor.TYPE_INT64), _integer),
        **dict.fromkeys((FieldDescriptor.TYPE_UINT32, FieldDescriptor.TYPE_UINT64), _integer),
        **dict.fromkeys((FieldDescriptor.TYPE_SINT32, FieldDescriptor.TYPE_SINT64), _integer),
        FieldDescriptor.TYPE_DOUBLE: float,
        FieldDescriptor.TYPE_BYTES: lambda text: base64.urlsafe_b64decode(
            text + "=" * (-len(text) % 4)
        ),
    }
)
"""Field type → conversion."""


def _once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    read = dict(pairs)
    if len(read) < len(pairs):
        raise ValueError("an object has a name twice")
    return read


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} must be text")


def to_json(content: bytes, kind: type[Message]) -> bytes:
    """Return a serialised message in JSON."""
    return json_format.MessageToJson(kind.FromString(content), indent=None).encode()


def _error(code: grpc.StatusCode, text: str, trailing: Metadata) -> dict[str, Any]:
    """Return an error in Connect's form."""
    name = "canceled" if code is grpc.StatusCode.CANCELLED else code.name.lower()
    fields: dict[str, Any] = {"code": name, "message": text}
    details = []
    for key, value in trailing:
        if key == DETAILS_KEY and isinstance(value, bytes):
            for packed in Status.FromString(value).details:
                kind = packed.TypeName()
                descriptor = descriptor_pool.Default().FindMessageTypeByName(kind)
                message = GetMessageClass(descriptor).FromString(packed.value)
                shown = json_format.MessageToDict(message)
                details.append({"type": kind, "value": _base64(packed.value), "debug": shown})
    if details:
        fields["details"] = details
    return fields


def _as_header(value: str | bytes) -> str:
    return _base64(value) if isinstance(value, bytes) else value


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode().rstrip("=")


def _json(told: object) -> bytes:
    return json.dumps(told, ensure_ascii=False).encode()
