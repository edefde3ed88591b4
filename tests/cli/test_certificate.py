"""Test geoveil certificate against OpenSSL and gRPC."""

import stat
import subprocess
from datetime import UTC, datetime, timedelta

import grpc
import pytest
from cryptography import x509
from grpc_health.v1 import health_pb2, health_pb2_grpc

from geoveil.aggregator import Settings
from geoveil.aggregator.ops.authority import Authority
from geoveil.gp import ParameterError

from .test_connection import running

DAY = timedelta(days=1)


@pytest.fixture
def certificate(geoveil, tmp_path):
    def run(*arguments, status=0):
        return geoveil("certificate", *arguments, "--folder", str(tmp_path), to_server=False)

    return run


@pytest.fixture
def folder(certificate, tmp_path):
    """Return where an authority, a server and two clients are, one of another authority."""
    (tmp_path / "other").mkdir()
    certificate("authority", "example")
    certificate("server", "127.0.0.1", "aggregator.example", "::1")
    certificate("client", "alice")
    return tmp_path


def openssl(*arguments):
    done = subprocess.run(["openssl", *map(str, arguments)], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def test_openssl_finds_them_sound(folder):
    trusted = ("-x509_strict", "-CAfile", folder / "ca.pem")
    assert openssl("verify", *trusted, "-purpose", "sslserver", folder / "server.pem")[0] == 0
    assert openssl("verify", *trusted, "-purpose", "sslclient", folder / "alice.pem")[0] == 0
    for name in ("127.0.0.1", "::1"):
        assert openssl("verify", *trusted, "-verify_ip", name, folder / "server.pem")[0] == 0
    host = ("-verify_hostname", "aggregator.example")
    assert openssl("verify", *trusted, *host, folder / "server.pem")[0] == 0
    # Controls: the other purpose, another host, and no trust.
    assert openssl("verify", *trusted, "-purpose", "sslclient", folder / "server.pem")[0]
    assert openssl("verify", *trusted, "-purpose", "sslserver", folder / "alice.pem")[0]
    assert openssl("verify", *trusted, "-verify_ip", "127.0.0.2", folder / "server.pem")[0]
    assert openssl("verify", folder / "server.pem")[0]
    for name in ("ca", "server", "alice"):
        _, text = openssl("x509", "-noout", "-text", "-in", folder / f"{name}.pem")
        assert "NIST CURVE: P-256" in text
        assert stat.S_IMODE((folder / f"{name}-key.pem").stat().st_mode) == 0o600


def test_a_server_starts_with_them_and_lets_its_clients_in(folder):
    settings = Settings(
        database=folder / "reports.db",
        port=0,
        tls_certificate=folder / "server.pem",
        tls_key=folder / "server-key.pem",
        tls_client_ca=folder / "ca.pem",
    )
    stranger = Authority(Authority.create("other", DAY * 2)).issue("alice", DAY)
    known = tuple((folder / f"alice{end}.pem").read_bytes() for end in ("-key", ""))
    with running(settings) as address:
        assert serving(address, folder, known)
        for pair in ((stranger.key, stranger.certificate), (None, None)):
            with pytest.raises(grpc.RpcError) as caught:
                serving(address, folder, pair)
            assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


def serving(address, folder, pair):
    credentials = grpc.ssl_channel_credentials((folder / "ca.pem").read_bytes(), *pair)
    options = [("grpc.use_local_subchannel_pool", 1)]
    with grpc.secure_channel(address, credentials, options) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        answer = stub.Check(health_pb2.HealthCheckRequest(), timeout=20)
    return answer.status == health_pb2.HealthCheckResponse.SERVING


def test_they_last_as_long_as_was_said(certificate, tmp_path):
    certificate("authority", "--expires", "400d")
    certificate("client", "alice", "--expires", "12h")
    for name, lasts in (("ca", 400 * DAY), ("alice", DAY / 2)):
        found = x509.load_pem_x509_certificate((tmp_path / f"{name}.pem").read_bytes())
        assert abs(found.not_valid_after_utc - datetime.now(UTC) - lasts) < timedelta(minutes=5)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["client", "alice", "--expires", "9y"], "expires must be no later than the authority's"),
        (["client", "alice", "--expires", "never"], "expires must be a whole number"),
        (["client", "a/b"], "name must be a name of a file"),
        (["client", "ca"], "new: a certificate is never overwritten"),
        (["server", "example:443"], "hosts must be a name in ASCII or an IP address"),
    ],
)
def test_what_can_not_be_is_refused_and_nothing_written(certificate, tmp_path, arguments, told):
    certificate("authority", "--expires", "2y")
    before = {file: file.read_bytes() for file in tmp_path.iterdir()}
    with pytest.raises(ParameterError, match=told):
        certificate(*arguments)
    assert {file: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_without_an_authority_its_command_is_named(certificate, tmp_path):
    with pytest.raises(ParameterError, match="geoveil certificate authority makes it"):
        certificate("client", "alice")
    certificate("authority")
    (tmp_path / "ca-key.pem").write_text("nothing")
    with pytest.raises(ParameterError, match="'geoveil certificate authority' wrote") as caught:
        certificate("client", "alice")
    assert caught.value.__cause__ is None
