"""Test TLS over real connections: permitted callers, and use of new certificates."""

import logging

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from geoveil.aggregator.ops.authority import Issued
from geoveil.aggregator.ops.tls import Certificates
from geoveil.gp import ParameterError

from .refusals import refuses
from .tls_files import for_client, for_server, new_authority, written

HEALTHY = health_pb2.HealthCheckResponse.SERVING


@pytest.fixture
def authority():
    return new_authority("first")


@pytest.fixture
def files(authority, tmp_path):
    certificate, key = written(for_server(authority), tmp_path, "server")
    return {"tls_certificate": certificate, "tls_key": key}


async def call(address: str, roots: bytes, client: Issued | None = None) -> int:
    """Return the status of the server, over a connection of its own."""
    pair = (client.key, client.certificate) if client else (None, None)
    credentials = grpc.ssl_channel_credentials(roots, *pair)
    # A pool of its own: gRPC would share the connection of a channel before.
    options = [("grpc.use_local_subchannel_pool", 1)]
    async with grpc.aio.secure_channel(address, credentials, options) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        answer = await stub.Check(health_pb2.HealthCheckRequest(), timeout=20)
        return int(answer.status)


async def refused(address: str, roots: bytes, client: Issued | None = None) -> None:
    with refuses(grpc.StatusCode.UNAVAILABLE):
        await call(address, roots, client)


async def test_only_clients_of_the_authority_are_let_in(start_server, authority, files, tmp_path):
    clients = new_authority("clients")
    roots = tmp_path / "clients.pem"
    roots.write_bytes(clients.certificate)
    address = (await start_server(**files, tls_client_ca=roots)).address
    assert await call(address, authority.certificate, for_client(clients)) == HEALTHY
    await refused(address, authority.certificate)
    await refused(address, authority.certificate, for_client(new_authority("others")))
    await refused(address, clients.certificate, for_client(clients))


async def test_new_certificates_are_used_without_a_restart(
    start_server, authority, files, tmp_path, caplog
):
    address = (await start_server(**files)).address
    assert await call(address, authority.certificate) == HEALTHY
    second = new_authority("second")
    renewed = for_server(second)
    with caplog.at_level(logging.INFO):
        files["tls_certificate"].write_bytes(renewed.certificate)  # the key is still the old one
        assert await call(address, authority.certificate) == HEALTHY
        assert await call(address, authority.certificate) == HEALTHY
        assert caplog.text.count("tls_files_wrong") == 1
        files["tls_key"].write_bytes(renewed.key)
        assert await call(address, second.certificate) == HEALTHY
    await refused(address, authority.certificate)
    assert "tls_files_replaced" in caplog.text
    assert "PRIVATE KEY" not in caplog.text
    files["tls_key"].unlink()
    assert await call(address, second.certificate) == HEALTHY


def test_files_that_can_not_be_used_are_named(files, tmp_path):
    certificate, key = files["tls_certificate"], files["tls_key"]
    wrong = tmp_path / "wrong.pem"
    wrong.write_bytes(b"nothing")
    other = written(for_server(new_authority("other")), tmp_path, "other")
    absent = tmp_path / "absent.pem"
    for arguments, name in [
        ((absent, key), "tls_certificate"),
        ((certificate, absent), "tls_key"),
        ((certificate, key, absent), "tls_client_ca"),
        ((wrong, key), "tls_certificate"),
        ((certificate, wrong), "tls_key"),
        ((certificate, key, wrong), "tls_client_ca"),
        ((certificate, other[1]), "tls_key"),
    ]:
        with pytest.raises(ParameterError) as caught:
            Certificates(*arguments)
        assert caught.value.name == name
    assert Certificates(certificate, key).expires.tzinfo is not None
