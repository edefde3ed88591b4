"""Write the description of the gateway's calls in JSON, OpenAPI 3.1: `python tools/openapi.py`.

It is derived from proto/ alone, including comments. OpenAPI cannot express calls with several
messages, so only calls with one request and one response are described.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
    MethodOptions,
)

from geoveil.proto import __version__

ROOT = Path(__file__).parents[1]
FILE = ROOT / "docs" / "openapi.json"
_PARTS = ("analyst", "campaign", "collector", "report")
_PACKAGE = ".geoveil.proto.v1."
_INTEGER = {"type": "integer", "minimum": 0, "maximum": 2**32 - 1}
_DECIMAL = {"type": "string", "pattern": "^-?[0-9]{1,20}$", "description": "An integer, as text."}
_SCALARS: Mapping[int, dict[str, Any]] = {
    FieldDescriptorProto.TYPE_STRING: {"type": "string"},
    FieldDescriptorProto.TYPE_BYTES: {"type": "string", "contentEncoding": "base64"},
    FieldDescriptorProto.TYPE_BOOL: {"type": "boolean"},
    FieldDescriptorProto.TYPE_UINT32: _INTEGER,
    FieldDescriptorProto.TYPE_SINT32: {"type": "integer", "minimum": -(2**31), "maximum": 2**31},
    FieldDescriptorProto.TYPE_INT32: {"type": "integer", "minimum": -(2**31), "maximum": 2**31},
    FieldDescriptorProto.TYPE_UINT64: _DECIMAL,
    FieldDescriptorProto.TYPE_INT64: _DECIMAL,
    FieldDescriptorProto.TYPE_SINT64: _DECIMAL,
    FieldDescriptorProto.TYPE_DOUBLE: {
        "oneOf": [{"type": "number"}, {"enum": ["NaN", "Infinity", "-Infinity"]}]
    },
}
_WELL_KNOWN = {
    ".google.protobuf.Timestamp": {"type": "string", "format": "date-time"},
    ".google.protobuf.Duration": {"type": "string", "pattern": r"^-?[0-9]+(\.[0-9]{1,9})?s$"},
}
_ABOUT = (
    "What browsers and curl call at the gateway of geoveil, by Connect with messages in JSON. Calls"
    " of several messages, which proto/ has as well, are left out. Fields that hold their default"
    " are left out of answers. A campaign stands in its envelope as the bytes that were signed."
)
_ERROR = {
    "description": "The call failed: an error of Connect.",
    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
}
_ENCODING = {"name": "encoding", "in": "query", "required": True, "schema": {"enum": ["json"]}}
_ERROR_SCHEMA = {
    "type": "object",
    "required": ["code"],
    "properties": {
        "code": {"type": "string", "description": "A code of Connect, such as not_found."},
        "message": {"type": "string"},
        "details": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["type", "value"],
                "properties": {
                    "type": {"type": "string"},
                    "value": {"type": "string", "contentEncoding": "base64"},
                    "debug": {"type": "object"},
                },
            },
        },
    },
}


def described() -> str:
    """Return the description as JSON."""
    schemas: dict[str, Any] = {"Error": _ERROR_SCHEMA}
    paths: dict[str, Any] = {}
    for file in _files():
        said = {
            tuple(at.path): " ".join(at.leading_comments.split())
            for at in file.source_code_info.location
        }
        for i, message in enumerate(file.message_type):
            schemas |= _messages("", message, (4, i), said)
        for i, kind in enumerate(file.enum_type):
            schemas[kind.name] = _enum(kind, (5, i), said)
        for i, service in enumerate(file.service):
            for j, method in enumerate(service.method):
                if method.client_streaming or method.server_streaming:
                    continue
                answer = {"schema": _reference(method.output_type)}
                request = {"schema": _reference(method.input_type)}
                name = f"{service.name}_{method.name}"
                made = {
                    "tags": [service.name],
                    "description": said.get((6, i, 2, j), ""),
                    "responses": {
                        "200": {
                            "description": "It went well.",
                            "content": {"application/json": answer},
                        },
                        "default": _ERROR,
                    },
                }
                body = {"required": True, "content": {"application/json": request}}
                path = paths[f"/{file.package}.{service.name}/{method.name}"] = {
                    "post": {"operationId": name, **made, "requestBody": body}
                }
                if method.options.idempotency_level == MethodOptions.NO_SIDE_EFFECTS:
                    message = {"name": "message", "in": "query", "required": True}
                    given = [_ENCODING, {**message, "content": {"application/json": request}}]
                    path["get"] = {"operationId": f"{name}_get", **made, "parameters": given}
    record = {
        "openapi": "3.1.0",
        "info": {
            "title": "geoveil",
            "version": __version__,
            "description": _ABOUT,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "http://127.0.0.1:7718"}],
        "security": [{}, {"token": []}],
        "paths": paths,
        "components": {
            "schemas": dict(sorted(schemas.items())),
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A token of an analyst; participants need none.",
                }
            },
        },
    }
    return json.dumps(record, indent=1, ensure_ascii=False) + "\n"


def _files() -> Iterator[FileDescriptorProto]:
    """Yield the files of proto/ with their comments, which generated code omits."""
    with TemporaryDirectory() as folder:
        made = Path(folder) / "set"
        names = [f"geoveil/proto/v1/{part}.proto" for part in _PARTS]
        how = ("-I", ROOT / "proto", "--include_source_info", f"--descriptor_set_out={made}")
        subprocess.run(  # noqa: S603 - our own files
            [sys.executable, "-m", "grpc_tools.protoc", *how, *names], check=True
        )
        yield from FileDescriptorSet.FromString(made.read_bytes()).file


def _messages(
    outside: str, message: DescriptorProto, path: tuple[int, ...], said: Mapping[Any, str]
) -> dict[str, Any]:
    name = f"{outside}{message.name}"
    schemas = {}
    for i, inner in enumerate(message.nested_type):
        schemas |= _messages(f"{name}.", inner, (*path, 3, i), said)
    for i, kind in enumerate(message.enum_type):
        schemas[f"{name}.{kind.name}"] = _enum(kind, (*path, 4, i), said)
    fields = {
        field.json_name: _field(field, said.get((*path, 2, i), ""))
        for i, field in enumerate(message.field)
    }
    schema = {"type": "object", "additionalProperties": False, "properties": fields}
    return {**schemas, name: _with(schema, said.get(path, ""))}


def _field(field: FieldDescriptorProto, comment: str) -> dict[str, Any]:
    if field.type in (FieldDescriptorProto.TYPE_MESSAGE, FieldDescriptorProto.TYPE_ENUM):
        schema = _WELL_KNOWN.get(field.type_name) or _reference(field.type_name)
    else:
        schema = _SCALARS[field.type]
    if field.label == FieldDescriptorProto.LABEL_REPEATED:
        schema = {"type": "array", "items": schema}
    return _with(schema, comment)


def _enum(kind: EnumDescriptorProto, path: tuple[int, ...], said: Mapping[Any, str]) -> Any:
    values = [
        f"{value.name}: {comment}"
        for i, value in enumerate(kind.value)
        if (comment := said.get((*path, 2, i)))
    ]
    whole = " ".join(filter(None, (said.get(path, ""), *values)))
    return _with({"type": "string", "enum": [value.name for value in kind.value]}, whole)


def _with(schema: Mapping[str, Any], comment: str) -> dict[str, Any]:
    return {**schema, "description": comment} if comment else {**schema}


def _reference(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name.removeprefix(_PACKAGE)}"}


if __name__ == "__main__":
    FILE.write_text(described(), "utf-8")
