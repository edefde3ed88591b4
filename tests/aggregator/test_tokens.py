"""Tokens: their file, what each scope permits at every method, and limits to campaigns."""

import json
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

import grpc
import grpc.aio
import pytest

from geoveil.aggregator import Settings
from geoveil.aggregator.ops.authorizer import RULES, Authorizer, Denial, DeniedError
from geoveil.aggregator.ops.tokens import Scope, TokenFile, Tokens
from geoveil.gp import ParameterError
from geoveil.proto.v1 import analyst_pb2

from .refusals import details_of, refuses

EXPIRES = datetime(2030, 1, 1, tzinfo=UTC)
ALL = frozenset(Scope)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "tokens.json"


def test_a_token_is_kept_as_its_hash_for_its_owner_alone(path):
    text = TokenFile(path).create("alice", [Scope.LIST, Scope.CREATE], EXPIRES)
    content = path.read_text()
    assert text not in content
    assert text.startswith("geoveil_")
    assert len(text) >= len("geoveil_") + 43, "256 bits"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    (row,) = json.loads(content)["tokens"]
    assert row == {
        "name": "alice",
        "sha256": sha256(text.encode()).hexdigest(),
        "scopes": ["create", "list"],
        "expires": "2030-01-01T00:00:00+00:00",
        "campaigns": None,
    }
    (token,) = TokenFile(path).read()
    assert (token.scopes, token.expires) == ({Scope.LIST, Scope.CREATE}, EXPIRES)
    assert sha256(text.encode()).hexdigest() not in repr(token)
    assert os.listdir(path.parent) == ["tokens.json"], "no temporary file is left"


def test_tokens_are_found_by_themselves_only(path):
    file = TokenFile(path)
    texts = {name: file.create(name, ALL, None) for name in ("a", "b", "c")}
    tokens = Tokens(path)
    for name, text in texts.items():
        found = tokens.find(text)
        assert found is not None
        assert found.name == name
        for wrong in (text[:-1], text + "x", text.upper(), "", sha256(text.encode()).hexdigest()):
            assert tokens.find(wrong) is None


def test_a_running_server_sees_new_and_revoked_tokens(path):
    file = TokenFile(path)
    first = file.create("first", ALL, None)
    tokens = Tokens(path)
    second = file.create("second", ALL, None)
    assert tokens.find(second) is not None
    file.revoke("first")
    assert tokens.find(first) is None
    assert tokens.find(second) is not None


def test_names_are_of_one_token(path):
    file = TokenFile(path)
    file.create("alice", ALL, None)
    with pytest.raises(ParameterError, match="one that no token has"):
        file.create("alice", ALL, None)
    with pytest.raises(ParameterError, match="the name of a token"):
        file.revoke("bob")
    assert [token.name for token in file.read()] == ["alice"]


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 65])
def test_names_are_printable_and_short(path, name):
    with pytest.raises(ParameterError, match="name must be"):
        TokenFile(path).create(name, ALL, None)
    with pytest.raises(ParameterError, match="scopes must be"):
        TokenFile(path).create("x", [], None)
    with pytest.raises(ParameterError, match="time zone"):
        TokenFile(path).create("x", ALL, datetime(2030, 1, 1))
    assert not path.exists()


def test_changes_at_the_same_time_are_all_kept(path):
    names = [f"n{i}" for i in range(40)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: TokenFile(path).create(name, ALL, None), names))
    assert sorted(token.name for token in TokenFile(path).read()) == sorted(names)


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_may_write_is_refused(path, mode):
    TokenFile(path).create("alice", ALL, None)
    tokens = Tokens(path)
    path.chmod(mode)
    with pytest.raises(ParameterError, match="chmod 600"):
        TokenFile(path).read()
    with pytest.raises(ParameterError, match="chmod 600"):
        Tokens(path)
    os.utime(path, ns=(1, 1))
    with pytest.raises(ParameterError, match="chmod 600"):
        tokens.find("x")


ROW = {"name": "x", "sha256": 64 * "0", "scopes": ["list"], "expires": None, "campaigns": None}


@pytest.mark.parametrize(
    "content",
    [
        *("", "[]", "{}"),
        json.dumps({"version": 1, "tokens": []}),
        json.dumps({"version": 2, "tokens": ["secret-pasted"]}),
        json.dumps({"version": 2, "tokens": [{"name": "secret-pasted"}]}),
        json.dumps({"version": 2, "tokens": [ROW | {"campaigns": "abc"}]}),
        *(
            json.dumps({"version": 2, "tokens": [ROW | {"sha256": s}]})
            for s in ("secret-pasted", "00")
        ),
    ],
)
def test_files_of_something_else_are_refused_without_quoting_them(path, content):
    path.write_text(content)
    path.chmod(0o600)
    with pytest.raises(ParameterError, match="tokens_file must be") as caught:
        TokenFile(path).read()
    assert "secret-pasted" not in str(caught.value)


def test_an_absent_file_is_refused_and_made_by_the_first_token(path):
    for read in (lambda: TokenFile(path).read(), lambda: Tokens(path)):
        with pytest.raises(ParameterError, match="No such file"):
            read()
    with pytest.raises(ParameterError, match="in a folder that exists"):
        TokenFile(path.parent / "absent" / "t.json").create("x", ALL, None)


SERVICE = analyst_pb2.DESCRIPTOR.services_by_name["Analyst"]
ANALYST = [method for method, rule in RULES.items() if rule.scope]
STREAMS = {m.name for m in SERVICE.methods if m.server_streaming}
OPEN = [method for method, rule in RULES.items() if rule.public]


@pytest.fixture
def tokens_file(tmp_path):
    return tmp_path / "tokens.json"


@pytest.fixture
def make(tokens_file, clock):
    """Returns what to send to present a new token."""

    def make(*scopes: Scope, lasts: timedelta | None = timedelta(days=1)) -> list[str]:
        number = len(TokenFile(tokens_file).read()) if tokens_file.exists() else 0
        expires = None if lasts is None else clock.now + lasts
        return [f"Bearer {TokenFile(tokens_file).create(f't{number}', scopes, expires)}"]

    return make


@pytest.fixture
def gate(tokens_file, make, clock):
    make(Scope.LIST)
    return Authorizer(Tokens(tokens_file), open_without_tokens=True, clock=clock)


def why(gate: Authorizer, method: str, authorization: list[str]) -> Denial:
    with pytest.raises(DeniedError) as caught:
        gate.admit(method, authorization)
    return caught.value.denial


@pytest.mark.parametrize("method", ANALYST)
def test_a_token_permits_what_its_scopes_say_and_nothing_else(gate, make, method):
    needed = RULES[method].scope
    assert needed is not None
    assert gate.admit(method, make(needed)) is not None
    assert gate.admit(method, make(*Scope, lasts=None)) is not None
    others = [scope for scope in Scope if scope is not needed]
    assert why(gate, method, make(*others)) is Denial.SCOPE_MISSING


def test_calls_of_devices_need_none(gate):
    for method in OPEN:
        for authorization in ([], ["Bearer wrong"], ["", ""]):
            assert gate.admit(method, authorization) is None


def test_what_is_no_token_is_refused(gate, make):
    method, (good,) = ANALYST[0], make(*Scope)
    text = good.removeprefix("Bearer ")
    assert gate.admit(method, [f"bearer {text}"]) is not None, "the scheme has no case"
    for wrong in ([], [""], ["Bearer"], ["Bearer "], [text], [f"Basic {text}"], [good, good]):
        assert why(gate, method, wrong) is Denial.TOKEN_MISSING
    for wrong in ([good[:-1]], [good + "="], [f"Bearer  {text}"], ["Bearer \udcff"]):
        assert why(gate, method, wrong) is Denial.TOKEN_UNKNOWN


def test_tokens_end(gate, make, clock):
    presented = make(*Scope, lasts=timedelta(hours=1))
    clock.now += timedelta(minutes=59)
    assert gate.admit(ANALYST[0], presented) is not None
    clock.now += timedelta(minutes=1)
    assert why(gate, ANALYST[0], presented) is Denial.TOKEN_EXPIRED


def test_nobody_is_let_in_while_tokens_can_not_be_read(gate, make, tokens_file, caplog):
    presented = make(*Scope)
    content = tokens_file.read_bytes()
    for broken in (b"", b"{}"):
        tokens_file.write_bytes(broken)
        for _ in range(2):
            assert why(gate, ANALYST[0], presented) is Denial.TOKENS_UNREADABLE
    (logged,) = caplog.records  # once, however many ask
    assert logged.message == "tokens_file_wrong"
    assert str(tokens_file) in logged.__dict__["reason"]
    tokens_file.unlink()
    assert why(gate, ANALYST[0], presented) is Denial.TOKENS_UNREADABLE
    tokens_file.write_bytes(content)
    tokens_file.chmod(0o600)
    assert gate.admit(ANALYST[0], presented) is not None


def test_a_method_without_a_row_is_refused(gate, make, clock):
    presented = make(*Scope)
    for gated in (gate, Authorizer(None, open_without_tokens=True, clock=clock)):
        for method in ("/geoveil.proto.v1.Analyst/New", "", "/x", ANALYST[0].lower()):
            assert why(gated, method, presented) is Denial.NO_RULE


@pytest.mark.parametrize(
    ("host", "insecure", "expected"),
    [
        ("::1", False, "anyone"),
        ("0.0.0.0", False, "nobody"),
        ("localhost.example.com", False, "nobody"),
        ("0.0.0.0", True, "anyone"),
    ],
)
def test_without_tokens_analysts_are_let_in_on_the_loopback(clock, host, insecure, expected):
    gate = Authorizer.of(Settings(host=host, insecure_open_analyst=insecure), clock)
    assert gate.analysts == expected
    if expected == "anyone":
        assert gate.admit(ANALYST[0], []) is None
    else:
        assert why(gate, ANALYST[0], []) is Denial.ANALYST_CLOSED
    assert gate.admit(OPEN[0], []) is None


async def test_every_method_of_every_service_has_a_row(start_server, monkeypatch):
    """The methods are those that the server registers, not those of a list."""
    registered: set[str] = set()
    make_server = grpc.aio.server

    def spying(*arguments: Any, **more: Any) -> Any:
        server = make_server(*arguments, **more)
        register = server.add_registered_method_handlers

        def record(service: str, methods: Any) -> None:
            registered.update(f"/{service}/{method}" for method in methods)
            register(service, methods)

        monkeypatch.setattr(server, "add_registered_method_handlers", record)
        return server

    monkeypatch.setattr(grpc.aio, "server", spying)
    await start_server(reflection=True)
    assert len(registered) >= 12
    assert registered == {*RULES, "//"}


async def call(channel: grpc.aio.Channel, method: str, token: list[str]) -> tuple[Any, Any]:
    """Return the status and the details of a refused call of bytes that are no request."""
    metadata = [("authorization", value) for value in token]
    stream = method.rpartition("/")[2] in STREAMS
    if stream:
        ended = channel.unary_stream(method)(b"\xff", metadata=metadata, timeout=20).read()
    else:
        ended = channel.unary_unary(method)(b"\xff", metadata=metadata, timeout=20)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await ended
    return caught.value.code(), details_of(caught.value)[0]


@pytest.mark.parametrize("method", ANALYST)
async def test_refusals_come_before_the_request_is_parsed(start_server, make, tokens_file, method):
    needed = RULES[method].scope
    assert needed is not None
    good, bad = make(needed), make(*[scope for scope in Scope if scope is not needed])
    channel = (await start_server(tokens_file=tokens_file)).wire.channel
    refusals = [(await call(channel, method, token)) for token in ([], ["Bearer x"], bad)]
    unauthenticated = grpc.StatusCode.UNAUTHENTICATED
    assert [(code, info.reason) for code, info in refusals] == [
        (unauthenticated, "TOKEN_MISSING"),
        (unauthenticated, "TOKEN_UNKNOWN"),
        (grpc.StatusCode.PERMISSION_DENIED, "SCOPE_MISSING"),
    ]
    assert {info.domain for _, info in refusals} == {"geoveil"}
    assert dict(refusals[2][1].metadata) == {"scope": needed.value}
    # Let in, these bytes are no request.
    code, info = await call(channel, method, good)
    assert code not in (unauthenticated, grpc.StatusCode.PERMISSION_DENIED)
    assert info.reason not in Denial.__members__


async def test_devices_are_served_while_analysts_are_not(start_server, publish):
    wire = (await start_server(host="0.0.0.0")).wire
    code, info = await call(wire.channel, ANALYST[0], [])
    assert code is grpc.StatusCode.PERMISSION_DENIED
    assert info.reason == "ANALYST_CLOSED"
    for method in OPEN:
        if "SubmitReports" in method or "GetCampaign" in method:
            assert (await call(wire.channel, method, []))[0] is grpc.StatusCode.INVALID_ARGUMENT


async def test_reflection_is_served_only_when_asked_for(start_server):
    method = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
    from grpc_reflection.v1alpha import reflection_pb2 as pb

    request = pb.ServerReflectionRequest(list_services="").SerializeToString()
    for asked in (False, True):
        channel = (await start_server(reflection=asked)).wire.channel
        stream = channel.stream_stream(method)(iter([request]), timeout=20)
        if asked:
            answer = pb.ServerReflectionResponse.FromString(await stream.read())
            names = {service.name for service in answer.list_services_response.service}
            assert {"geoveil.proto.v1.Collector", "geoveil.proto.v1.Analyst"} <= names
        else:
            with refuses(grpc.StatusCode.UNIMPLEMENTED):
                await stream.read()
