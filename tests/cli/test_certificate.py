"""Test geoveil certificate against OpenSSL and gRPC."""

import stat
import subprocess
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509

from geoveil.gp import ParameterError

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
