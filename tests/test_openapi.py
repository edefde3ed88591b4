"""Test the description of the gateway's calls against proto/ and the library's JSON."""

import json
import re

import pytest
from google.protobuf import json_format
from google.protobuf.message_factory import GetMessageClass

from geoveil.gateway import calls
from geoveil.proto.v1 import analyst_pb2, campaign_pb2, collector_pb2, report_pb2
from tools.openapi import FILE, described

HELD = json.loads(FILE.read_text("utf-8"))
SCHEMAS = HELD["components"]["schemas"]
MESSAGES = {
    name: GetMessageClass(kind)
    for file in (analyst_pb2, campaign_pb2, collector_pb2, report_pb2)
    for name, kind in file.DESCRIPTOR.message_types_by_name.items()
}


def filled(message, depth=3):
    """Give every field a value, of each choice the last."""
    for field in message.DESCRIPTOR.fields:
        held = getattr(message, field.name)
        if field.message_type is None:
            value = {field.CPPTYPE_STRING: "7", field.CPPTYPE_BOOL: True}.get(field.cpp_type, 1)
            value = b"\xff\xfe\xfd" if field.type == field.TYPE_BYTES else value
            if field.is_repeated:
                held.append(value)
            else:
                setattr(message, field.name, value)
        elif field.message_type.file.package == "google.protobuf":
            held.FromJsonString(
                {"Duration": "1.5s"}.get(field.message_type.name, "2026-01-01T00:00:00Z")
            )
        elif depth:
            filled(held.add() if field.is_repeated else held, depth - 1)
            if not field.is_repeated:
                held.SetInParent()
    return message


def fits(value, schema):
    """Whether a value is as a schema says, by the words that ours have."""
    if "$ref" in schema:
        return fits(value, SCHEMAS[schema["$ref"].rpartition("/")[2]])
    if "oneOf" in schema:
        return sum(fits(value, choice) for choice in schema["oneOf"]) == 1
    if "enum" in schema:
        return value in schema["enum"]
    kind = schema["type"]
    if kind == "object":
        properties = schema["properties"]
        return type(value) is dict and all(
            name in properties and fits(held, properties[name]) for name, held in value.items()
        )
    if kind == "array":
        return type(value) is list and all(fits(held, schema["items"]) for held in value)
    if kind == "string":
        return type(value) is str and re.search(schema.get("pattern", ""), value) is not None
    if kind == "integer":
        return type(value) is int and schema["minimum"] <= value <= schema["maximum"]
    return type(value) in {"number": (int, float), "boolean": (bool,)}[kind]


def test_the_description_is_that_of_proto():
    assert described() == FILE.read_text("utf-8"), "python tools/openapi.py"


def test_a_path_is_a_call_of_one_answer_at_the_gateway():
    of_one = {
        path
        for path, method in calls._METHODS.items()
        if path.startswith("/geoveil.") and not (method.takes_several or method.gives_several)
    }
    assert set(HELD["paths"]) == of_one
    by_get = {path for path, ways in HELD["paths"].items() if "get" in ways}
    assert by_get == {path for path in of_one if calls._METHODS[path].reads}
    text = FILE.read_text("utf-8")
    assert set(re.findall('"#/components/schemas/([^"]+)"', text)) <= set(SCHEMAS)


@pytest.mark.parametrize("name", MESSAGES)
def test_every_message_in_json_fits_its_schema(name):
    value = json_format.MessageToDict(filled(MESSAGES[name]()))
    assert fits(value, SCHEMAS[name]), value
    assert not fits({**value, "other": 1}, SCHEMAS[name])
    for field, held in value.items():
        assert not fits({**value, field: {"other": held}}, SCHEMAS[name])
