"""JSON of requests against the reader of Protocol Buffers itself."""

import json
from random import Random
from typing import Any

import pytest
from google.protobuf import json_format
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from geoveil.gateway.forms import from_json
from geoveil.gp import ParameterError
from geoveil.proto.v1 import analyst_pb2, collector_pb2

REQUESTS: list[type[Message]] = [
    GetMessageClass(method.input_type)
    for file in (collector_pb2, analyst_pb2)
    for service in file.DESCRIPTOR.services_by_name.values()
    for method in service.methods
]
SCALARS: list[Any] = [
    *(0, 1, -1, 7, 1 << 31, 1 << 63, -(1 << 63), 1 << 64, 10**400, 1.0, 1.5, -2.0, 1e30),
    *("", "1", "-1", " 1", "1.0", "1e2", "1.5", "x", "NaN", "-Infinity", "AAA=", "AA", "A", "-_"),
    *("PROFILE_SMOOTHSTEP", "nöne", "\ud800", "3s", "-1.5s", None, [], {}, [1], {"a": 1}),
]


def drawn(kind: Any, rng: Random) -> dict[str, Any]:
    """Return an object that is a message of a kind, nearly."""
    read: dict[str, Any] = {}
    for field in rng.sample([*kind.fields], rng.randint(0, min(3, len(kind.fields)))):
        message = field.message_type

        def one(message: Any = message) -> Any:
            if message is None or message.file.package == "google.protobuf" or not rng.randrange(9):
                return rng.choice(SCALARS)
            return drawn(message, rng)

        name = field.json_name if rng.randrange(4) else field.name
        several = field.is_repeated if rng.randrange(9) else not field.is_repeated
        read[name] = [one() for _ in range(rng.randrange(3))] if several else one()
    if not rng.randrange(20):
        read["unknown"] = 1
    return read


def expected(text: str, kind: type[Message]) -> bytes | None:
    try:
        return json_format.Parse(text, kind()).SerializeToString(deterministic=True)
    except (json_format.ParseError, ValueError, RecursionError):
        return None


def found(text: str, kind: type[Message]) -> bytes | None:
    try:
        content = from_json(text.encode(), kind)
    except ParameterError:
        return None
    return kind.FromString(content).SerializeToString(deterministic=True)


REFUSED_HERE_ONLY = (': ""', ": []", "n\\u00f6ne")


def test_json_is_read_as_the_library_reads_it():
    """And refused alike, but for what `from_json` tells."""
    rng, read = Random(1), 0
    for _ in range(1_200):
        kind = rng.choice(REQUESTS)
        text = json.dumps(drawn(kind.DESCRIPTOR, rng))
        wanted = expected(text, kind)
        content = found(text, kind)
        if content != wanted:
            told = REFUSED_HERE_ONLY if content is None else ('"joint": ',)
            assert any(one in text for one in told), text
        read += content == wanted is not None
    assert read > 240


@pytest.mark.parametrize(
    "text",
    [
        '{"campaignId": "a", "campaignId": "a"}',
        *("[1]", "1", "", '{"reports": {}}', '{"reports": [null]}', '{"reports": ["a"]}'),
        '{"reports": [{"answers": [{"value": NaN}]}]}',
        '{"reports": [{"period": true}]}',
        '{"reports": ' + "[" * 9_000 + "]" * 9_000 + "}",
    ],
)
def test_what_is_no_request_is_refused(text):
    kind = collector_pb2.SubmitReportsRequest
    assert expected(text, kind) is None
    with pytest.raises(ParameterError, match="SubmitReportsRequest in JSON"):
        from_json(text.encode(), kind)


def test_a_field_or_one_of_a_choice_is_given_once():
    text = b'{"queries": [{"disc": {}, "range": {}}]}'
    assert expected(text.decode(), analyst_pb2.EstimateQueriesRequest) is None
    with pytest.raises(ParameterError, match="has kind twice"):
        from_json(text, analyst_pb2.EstimateQueriesRequest)
    with pytest.raises(ParameterError, match="has campaign_id twice"):
        from_json(b'{"campaignId": "a", "campaign_id": "a"}', collector_pb2.SubmitReportsRequest)
