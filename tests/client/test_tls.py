"""Test TLS, mutual TLS, names of servers, and connections without TLS."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import grpc
import pytest

from geoveil.aggregator.ops.authority import Authority, Issued
from geoveil.campaign.connection import is_local
from geoveil.client import (
    TLS,
    GrpcAioTransport,
    GrpcTransport,
    ParameterError,
    PlaintextRefused,
    TransportError,
)
from geoveil.proto.v1 import collector_pb2, collector_pb2_grpc

REQUEST = collector_pb2.GetCampaignRequest(campaign_id="income")
LOCALHOST = ("localhost", "127.0.0.1")
DAY = timedelta(days=1)


@pytest.fixture(scope="module")
def trusted():
    return Authority(Authority.create("trusted", 2 * DAY))


@pytest.fixture(scope="module")
def stranger():
    return Authority(Authority.create("stranger", 2 * DAY))


class Servicer(collector_pb2_grpc.CollectorServicer):
    def GetCampaign(self, request: Any, context: Any) -> Any:
        peer = context.auth_context().get("x509_common_name", [b""])[0]
        answer = collector_pb2.GetCampaignResponse()
        answer.envelope.campaign = peer
        return answer


@contextmanager
def serving(issued: Issued, clients: Authority | None = None) -> Iterator[str]:
    """Serve with a certificate; if `clients` is given, for those it vouches for only."""
    credentials = grpc.ssl_server_credentials(
        [(issued.key, issued.certificate)],
        root_certificates=None if clients is None else clients.certificate,
        require_client_auth=clients is not None,
    )
    with ThreadPoolExecutor(2) as pool:
        server = grpc.server(pool)
        collector_pb2_grpc.add_CollectorServicer_to_server(Servicer(), server)
        port = server.add_secure_port("127.0.0.1:0", credentials)
        server.start()
        try:
            yield f"127.0.0.1:{port}"
        finally:
            server.stop(None).wait()


def blocking(target: str, tls: TLS | None) -> bytes:
    transport = GrpcTransport(target, tls=tls)
    try:
        return transport.get_campaign(REQUEST, 10.0).envelope.campaign
    finally:
        transport.close()


def awaited(target: str, tls: TLS | None) -> bytes:
    async def call() -> bytes:
        transport = GrpcAioTransport(target, tls=tls)
        try:
            return (await transport.get_campaign(REQUEST, 10.0)).envelope.campaign
        finally:
            await transport.aclose()

    return asyncio.run(call())


Call = Callable[[str, TLS | None], bytes]
either = pytest.mark.parametrize("call", [blocking, awaited])


@either
def test_the_roots_given_are_trusted_and_no_others(call, trusted, stranger):
    """Refused: another authority, those that gRPC comes with, and no TLS."""
    with serving(trusted.issue("server", DAY, LOCALHOST)) as target:
        assert call(target, TLS(root_certificates=trusted.certificate)) == b""
        both = TLS(root_certificates=stranger.certificate + trusted.certificate)
        assert call(target, both) == b""
        for tls in (TLS(root_certificates=stranger.certificate), TLS(), None):
            with pytest.raises(TransportError, match="UNAVAILABLE"):
                call(target, tls)


@either
def test_a_certificate_past_its_date_is_refused(call, trusted):
    with (
        serving(trusted.issue("late", -DAY / 48, LOCALHOST)) as target,
        pytest.raises(TransportError, match="UNAVAILABLE"),
    ):
        call(target, TLS(root_certificates=trusted.certificate))


@either
def test_a_certificate_must_be_for_the_server_named(call, trusted):
    with serving(trusted.issue("server", DAY, ["collector.example"])) as target:
        for name in (None, "other.example"):
            with pytest.raises(TransportError, match="UNAVAILABLE"):
                call(target, TLS(root_certificates=trusted.certificate, server_name=name))
        named = TLS(root_certificates=trusted.certificate, server_name="collector.example")
        assert call(target, named) == b""


@either
def test_a_server_that_asks_learns_who_calls(call, trusted, stranger):
    """Served: a client that the server's authority vouches for. Refused: another, and none."""
    known, unknown = trusted.issue("app-7", DAY), stranger.issue("app-7", DAY)
    roots = trusted.certificate
    with serving(trusted.issue("server", DAY, LOCALHOST), clients=trusted) as target:
        as_known = TLS(
            root_certificates=roots, certificate_chain=known.certificate, private_key=known.key
        )
        assert call(target, as_known) == b"app-7"
        as_unknown = TLS(
            root_certificates=roots,
            certificate_chain=unknown.certificate,
            private_key=unknown.key,
        )
        for tls in (as_unknown, TLS(root_certificates=roots)):
            with pytest.raises(TransportError, match="UNAVAILABLE"):
                call(target, tls)


@either
def test_certificates_that_can_not_be_used_are_a_transport_error(call, trusted):
    """Not of PEM inside, and a key of another certificate."""
    rubbish = b"-----BEGIN CERTIFICATE-----\nrubbish\n-----END CERTIFICATE-----\n"
    first, second = trusted.issue("first", DAY), trusted.issue("second", DAY)
    with serving(trusted.issue("server", DAY, LOCALHOST), clients=trusted) as target:
        for tls in (
            TLS(root_certificates=rubbish),
            TLS(
                root_certificates=trusted.certificate,
                certificate_chain=first.certificate,
                private_key=second.key,
            ),
        ):
            with pytest.raises(TransportError):
                call(target, tls)


PEM = b"-----BEGIN SOMETHING-----"


@pytest.mark.parametrize(
    ("settings", "wrong"),
    [
        ({"root_certificates": "-----BEGIN CERTIFICATE-----"}, "root_certificates.*PEM.*'str'"),
        ({"root_certificates": b""}, "root_certificates.*PEM"),
        ({"certificate_chain": "chain.pem", "private_key": PEM}, "certificate_chain.*PEM"),
        ({"certificate_chain": PEM, "private_key": bytearray(PEM)}, "private_key.*PEM"),
        ({"certificate_chain": PEM}, "private_key.*together with certificate_chain"),
        ({"private_key": PEM}, "certificate_chain.*together with private_key"),
        ({"server_name": ""}, "server_name"),
        ({"server_name": b"collector.example"}, "server_name"),
        ({"root_certificates": PEM, "insecure": True}, "insecure.*root_certificates"),
        ({"certificate_chain": PEM, "private_key": PEM, "insecure": True}, "insecure"),
        ({"server_name": "collector.example", "insecure": True}, "insecure.*server_name"),
    ],
)
def test_settings_are_checked(settings, wrong):
    with pytest.raises(ParameterError, match=wrong):
        TLS(**settings)


def test_a_private_key_is_shown_nowhere(trusted):
    key = trusted.issue("app-7", DAY).key
    tls = TLS(certificate_chain=trusted.certificate, private_key=key)
    secret = key.splitlines()[1].decode()
    assert secret not in repr(tls) + str(tls)
    for wrong in (key.decode(), bytearray(key), key.replace(b"-----BEGIN ", b"")):
        settings: dict[str, Any] = {"certificate_chain": trusted.certificate, "private_key": wrong}
        with pytest.raises(ParameterError) as raised:
            TLS(**settings)
        assert secret not in repr(raised.value) + str(raised.value) + repr(raised.value.value)


LOCAL = [
    "localhost:1",
    "127.0.0.1:1",
    "127.8.9.10:1",
    "[::1]:1",
    "unix:/run/collector.sock",
    "unix:///run/collector.sock",
    "unix-abstract:collector",
    "dns:localhost:1",
    "dns:///localhost:1",
    "ipv4:127.0.0.1:1",
    "ipv4:127.0.0.1:1,127.0.0.2:1",
    "ipv6:[::1]:1",
]
ELSEWHERE = [
    "collector.example:443",
    "10.0.0.1:1",
    "0.0.0.0:1",
    "[::]:1",
    "[2001:db8::1]:1",
    "localhost.example:1",
    "127.0.0.1.example:1",
    "dns:collector.example",
    "dns:///collector.example:1",
    "dns://10.0.0.1/localhost:1",
    "ipv4:127.0.0.1:1,10.0.0.1:1",
    "xds:///localhost",
    ":1",
]


@pytest.mark.parametrize("target", LOCAL)
def test_this_machine_needs_no_tls(target):
    assert is_local(target)
    GrpcTransport(target)
    GrpcTransport(target, tls=TLS())


@pytest.mark.parametrize("target", ELSEWHERE)
@pytest.mark.parametrize("transport", [GrpcTransport, GrpcAioTransport])
def test_elsewhere_needs_tls_or_a_clear_word(target, transport):
    assert not is_local(target)
    with pytest.raises(PlaintextRefused, match=r"tls=TLS\(insecure=True\) sends in the clear"):
        transport(target)
    transport(target, tls=TLS())
    transport(target, tls=TLS(insecure=True))


@pytest.mark.parametrize(
    "target",
    [
        *("", " ", None, 50051, "http://localhost:1", "https://localhost", "localhost", "::1"),
        *("127.0.0.1:1,10.0.0.1:1", "localhost:1@collector.example:1"),
    ],
)
def test_a_target_is_an_address(target):
    with pytest.raises(ParameterError, match="target"):
        GrpcTransport(target)


@pytest.mark.parametrize(
    "target",
    ["127.0.0.1:99999", "localhost:0", "localhost:", "localhost:x", "[::1]:65536", "localhost:٤٢"],
)
@pytest.mark.parametrize("tls", [None, TLS()])
def test_a_port_is_one(target, tls):
    with pytest.raises(ParameterError, match="target must be HOST:PORT with a port from 1 to"):
        GrpcTransport(target, tls=tls)


@pytest.mark.parametrize("tls", [True, "roots.pem", b"-----BEGIN "])
def test_what_is_no_tls_is_refused_at_once(tls):
    with pytest.raises(ParameterError, match="tls must be a TLS, or None"):
        GrpcTransport("localhost:1", tls=tls)
