"""Test that no proxy of the environment sees a token or a report."""

import asyncio
import socket
import threading
from contextlib import suppress

import grpc
import pytest

from geoveil.analyst import Analyst, ServerError
from geoveil.cli.options import TOKEN
from geoveil.client import (
    TLS,
    AsyncClient,
    Client,
    GrpcAioTransport,
    GrpcTransport,
    Policy,
    TransportError,
)
from geoveil.gp import GeoPrivacy
from geoveil.proto.v1.collector_pb2 import GetCampaignRequest

VARIABLES = ["http_proxy", "https_proxy", "grpc_proxy", "all_proxy"]
INCOME = [
    "--attribute", "household income", "--unit", "dollar", "--epsilon", "1", "--per", "8000",
    "--threshold", "100000",
]  # fmt: skip
POLICY = Policy({"household income": GeoPrivacy(1, 8_000, "dollar")})
ELSEWHERE = "aggregator.invalid:7717"
"""A proxy would be asked to find it."""


@pytest.fixture
def proxy(monkeypatch):
    """Name a proxy in every variable that gRPC may read; yield the first bytes that it is sent."""
    seen = []
    with socket.create_server(("127.0.0.1", 0)) as listening:
        host, port = listening.getsockname()

        def record():
            with suppress(OSError):  # closed below
                while True:
                    connection, _ = listening.accept()
                    with connection:
                        connection.settimeout(5)
                        seen.append(connection.recv(100))

        thread = threading.Thread(target=record)
        thread.start()
        for name in VARIABLES:
            for variable in (name, name.upper()):
                monkeypatch.setenv(variable, f"http://{host}:{port}")
        monkeypatch.setenv("GRPC_ADDRESS_HTTP_PROXY", f"{host}:{port}")
        monkeypatch.setenv("GRPC_ADDRESS_HTTP_PROXY_ENABLED_ADDRESSES", "0.0.0.0/0")
        for name in ("no_proxy", "no_grpc_proxy", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv(TOKEN, "a-token-that-nobody-sees")
        yield seen
        listening.shutdown(socket.SHUT_RDWR)
        thread.join(10)


@pytest.mark.parametrize("off", [[], [("grpc.enable_http_proxy", 0)]])
def test_a_channel_of_grpcs_own_goes_through_the_proxy(proxy, server, off):
    """The control: the recorder works; and the option alone leaves one variable open."""
    with grpc.insecure_channel(server, options=off) as channel, pytest.raises(grpc.RpcError):
        channel.unary_unary("/x/y")(b"", timeout=5)
    assert proxy[0].startswith(b"CONNECT")


def test_no_command_goes_through_a_proxy(proxy, geoveil, tmp_path):
    commands = [
        ["health"],
        ["campaign", "create", "Straight", *INCOME],
        ["campaign", "list"],
        ["contribute", "straight", "--yes", "--state-dir", str(tmp_path / "device")],
        ["simulate", "fleet", "--devices", "5", "--campaign", "straight"],
        ["estimate", "straight"],
        ["campaign", "export", "straight", "--out", str(tmp_path / "rows.parquet")],
        ["campaign", "close", "straight"],
        ["estimate", "straight", "--watch"],
    ]
    for command in commands:
        done = geoveil(*command, stdin="87500\n")
        assert done.exit_code == 0, (command, done.output)
    assert proxy == []


@pytest.mark.parametrize("tls", [TLS(insecure=True), TLS()])
def test_an_analyst_of_another_machine_does_not_either(proxy, tls):
    with Analyst(ELSEWHERE, tls=tls, timeout_s=2.0) as analyst, pytest.raises(ServerError):
        list(analyst.campaigns())
    assert proxy == []


def test_the_sdk_does_not_either(proxy, geoveil, server):
    geoveil("campaign", "create", "Straight too", *INCOME)
    with Client(server, policy=POLICY, background=False) as client:
        client.fetch("straight-too")
        client.contribute("straight-too", 87_500)
        assert client.flush().acknowledged == 1

    async def contributed():
        async with AsyncClient(server, policy=POLICY, background=False) as client:
            await client.fetch("straight-too")
            await client.contribute("straight-too", 87_500)
            return (await client.flush()).acknowledged

    assert asyncio.run(contributed()) == 1
    assert proxy == []


@pytest.mark.parametrize("tls", [TLS(), TLS(insecure=True)])
def test_the_sdk_of_another_machine_does_not_either(proxy, tls):
    request = GetCampaignRequest(campaign_id="x")
    blocking = GrpcTransport(ELSEWHERE, tls=tls)
    with pytest.raises(TransportError):
        blocking.get_campaign(request, 2.0)
    blocking.close()

    async def asked():
        transport = GrpcAioTransport(ELSEWHERE, tls=tls)
        try:
            with pytest.raises(TransportError):
                await transport.get_campaign(request, 2.0)
        finally:
            await transport.aclose()

    asyncio.run(asked())
    assert proxy == []
