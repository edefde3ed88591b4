"""`db`, `token` and `certificate`: their output, and the secrets that they never print."""

import re
import sqlite3
import stat
import subprocess
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from cryptography import x509

from geoveil.aggregator.ops.tokens import Scope, TokenFile, Tokens
from geoveil.aggregator.store import open_store
from geoveil.gp import ParameterError

DAY = timedelta(days=1)


@pytest.fixture
def db(geoveil, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    return partial(geoveil, "db", to_server=False)


def test_the_database_is_that_of_serve(db, tmp_path, monkeypatch):
    (tmp_path / "a.toml").write_text('database = "from-file.db"')

    def named(*arguments):
        with pytest.raises(ParameterError, match="a file that exists") as refused:
            db("check", "--config", "a.toml", *arguments)
        return refused.value.value

    assert named() == "from-file.db"
    monkeypatch.setenv("GEOVEIL_DATABASE", "from-environment.db")
    assert named() == "from-environment.db"
    assert named("--database", "from-flag.db") == "from-flag.db"
    (tmp_path / "a.toml").write_text("hots = 1")
    with pytest.raises(ParameterError, match="perhaps host"):
        db("check", "--config", "a.toml")


def test_check_says_by_its_status_whether_a_database_and_its_backup_are_sound(db):
    open_store(Path("a.db")).close()
    sound = db("check", "--database", "a.db")
    assert sound.exit_code == 0
    assert "0 campaigns, 0 reports: sound" in sound.output
    assert db("backup", "copy.db", "--database", "a.db").exit_code == 0
    assert "sound" in db("check", "--database", "copy.db").output
    with pytest.raises(ParameterError, match="a new file"):
        db("backup", "copy.db", "--database", "a.db")
    with sqlite3.connect("a.db") as connection:
        connection.execute(
            "INSERT INTO campaign (campaign_id, published, queries, closed, opens, closes)"
            " VALUES ('x', '', 1, 0, 0, 1)"
        )
        connection.execute("INSERT INTO report_count SELECT campaign_key, 0, 5 FROM campaign")
    connection.close()
    wrong = db("check", "--database", "a.db")
    assert wrong.exit_code == 1
    assert "campaign x: 5 reports are counted, 0 are stored" in wrong.output
    assert "1 campaign, " in wrong.output
    assert "1 fault\n" in wrong.output


@pytest.fixture
def path(tmp_path):
    return tmp_path / "tokens.json"


@pytest.fixture
def token(geoveil, path):
    return lambda *arguments: geoveil("token", *arguments, "--file", path, to_server=False)


def test_create_prints_the_token_alone_on_standard_output(token, path):
    result = token("create", "alice", "--scope", "create, close", "--expires", "90d")
    text = result.stdout.strip()
    assert re.fullmatch(r"geoveil_[\w-]{43}", text)
    kept = Tokens(path).find(text)
    assert kept.name == "alice"
    assert kept.scopes == {Scope.CREATE, Scope.CLOSE}
    assert abs(kept.expires - datetime.now(UTC) - 90 * DAY) < timedelta(minutes=5)


def test_by_default_a_token_reads_and_ends_and_is_of_all_campaigns(token, path):
    token("create", "bob")
    token("create", "alice", "--campaign", "income", "--campaign", "debt")
    kept, limited = TokenFile(path).read()
    assert kept.scopes == {Scope.LIST, Scope.ESTIMATE}
    assert kept.expires is not None
    assert (kept.campaigns, limited.campaigns) == (None, {"income", "debt"})
    shown = token("list").output
    assert "debt, income" in shown
    assert " any " in shown


def test_list_shows_no_secret_and_marks_what_has_ended(token, path):
    text = token("create", "alice", "--scope", "list", "--expires", "never").stdout.strip()
    TokenFile(path).create("old", [Scope.CLOSE], datetime(2020, 1, 1, tzinfo=UTC))
    shown = token("list").output
    assert [line.split() for line in shown.strip().splitlines()[-2:]] == [
        ["alice", "list", "any", "never"],
        ["old", "close", "any", "2020-01-01", "00:00", "UTC", "expired"],
    ]
    assert text not in shown
    for kept in TokenFile(path).read():
        assert kept.digest.hex()[:8] not in shown


def test_revoke_ends_a_token(token, path):
    text = token("create", "alice").stdout.strip()
    tokens = Tokens(path)
    assert token("revoke", "alice").exit_code == 0
    assert tokens.find(text) is None
    with pytest.raises(ParameterError, match="the name of a token"):
        token("revoke", "alice")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--scope", "all"], "scope must be some of create, close, list, estimate, export"),
        (["--expires", "soon"], "expires must be a whole number"),
        (["--campaign", "No Id"], "campaign_id"),
    ],
)
def test_a_token_that_makes_no_sense_is_refused_and_makes_nothing(token, path, arguments, named):
    with pytest.raises(ParameterError, match=named):
        token("create", "alice", *arguments)
    assert not path.exists()


@pytest.fixture
def certificate(geoveil, tmp_path):
    def run(*arguments):
        return geoveil("certificate", *arguments, "--folder", tmp_path, to_server=False)

    return run


def openssl(*arguments):
    done = subprocess.run(["openssl", *map(str, arguments)], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def test_openssl_finds_certificates_sound(certificate, tmp_path):
    certificate("authority", "example")
    certificate("server", "127.0.0.1", "aggregator.example", "::1")
    certificate("client", "alice")
    trusted = ("-x509_strict", "-CAfile", tmp_path / "ca.pem")
    server, client = tmp_path / "server.pem", tmp_path / "alice.pem"
    assert openssl("verify", *trusted, "-purpose", "sslserver", server)[0] == 0
    assert openssl("verify", *trusted, "-purpose", "sslclient", client)[0] == 0
    for name in ("127.0.0.1", "::1"):
        assert openssl("verify", *trusted, "-verify_ip", name, server)[0] == 0
    assert openssl("verify", *trusted, "-verify_hostname", "aggregator.example", server)[0] == 0
    # Controls: the other purpose, another host, and no trust.
    assert openssl("verify", *trusted, "-purpose", "sslclient", server)[0]
    assert openssl("verify", *trusted, "-purpose", "sslserver", client)[0]
    assert openssl("verify", *trusted, "-verify_ip", "127.0.0.2", server)[0]
    assert openssl("verify", server)[0]
    for name in ("ca", "server", "alice"):
        _, text = openssl("x509", "-noout", "-text", "-in", tmp_path / f"{name}.pem")
        assert "NIST CURVE: P-256" in text
        assert stat.S_IMODE((tmp_path / f"{name}-key.pem").stat().st_mode) == 0o600


def test_certificates_last_as_long_as_was_said(certificate, tmp_path):
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
def test_what_can_not_be_certified_is_refused_and_nothing_written(
    certificate, tmp_path, arguments, told
):
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
