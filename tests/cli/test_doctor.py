"""Test that geoveil doctor names every planted mistake with a remedy, and no false ones."""

import json
import os
import re
import socket
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from geoveil.aggregator import Authority, Scope, TokenFile
from geoveil.campaign import SigningKey, encode, seal
from geoveil.cli import doctor
from geoveil.cli.doctor import CHECKS
from geoveil.gp import ParameterError
from geoveil.relay import GatewayKeys

from .test_card import CAMPAIGNS

ROOT = Path(__file__).parents[2]


def certify(days):
    """Write the certificate of a server, good for so many days, and its key."""
    authority = Authority(Authority.create("example", timedelta(days=900)))
    issued = authority.issue("server", timedelta(days=days), ["collector.example"])
    Path("server.pem").write_bytes(issued.certificate)
    Path("server-key.pem").write_bytes(issued.key)


@pytest.fixture
def ward(tmp_path, monkeypatch, without_settings):
    """A sound configuration with all that can be given, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    key = SigningKey.generate()
    (tmp_path / "key.pem").write_bytes(key.to_pem())
    certify(90)
    for file in tmp_path.iterdir():
        file.chmod(0o600)
    TokenFile(tmp_path / "tokens.json").create("ada", [Scope.ESTIMATE], None)
    return {
        "host": "0.0.0.0", "port": 0, "database": "geoveil.db", "tokens_file": "tokens.json",
        "tls_certificate": "server.pem", "tls_key": "server-key.pem", "web": "0.0.0.0:0",
        "console": True, "trusted_keys": [str(key.public)],
    }  # fmt: skip


def examine(geoveil, settings, *more):
    """Return the names of what is wrong, and the exit status."""
    lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
    Path("geoveil.toml").write_text("\n".join(lines) + "\n")
    said = geoveil("doctor", "--config", "geoveil.toml", "--json", *more, to_server=False)
    wrong = json.loads(said.stdout)
    assert all(row["wrong"] and row["remedy"] for row in wrong)
    assert said.exit_code == (1 if wrong else 0)
    return [row["check"] for row in wrong], said.stdout


NAMED = ("--name", "collector.example", "--sign-key", "key.pem")


def test_a_sound_server_has_nothing_wrong(geoveil, ward):
    assert examine(geoveil, ward, *NAMED)[0] == []
    assert not Path("geoveil.db").exists()


def without_tls(ward, more):
    for name in ("tls_certificate", "tls_key"):
        del ward[name]
    ward |= more


def ended_tokens():
    Path("tokens.json").unlink()
    end = datetime.now(UTC) - timedelta(days=1)
    TokenFile(Path("tokens.json")).create("ada", [Scope.ESTIMATE], end)


def open_analysts(ward):
    del ward["tokens_file"]
    ward |= {"insecure_open_analyst": True, "console": False}


def lack(monkeypatch, library):
    real = doctor.distributions
    monkeypatch.setattr(
        doctor, "distributions", lambda *, name: () if name == library else real(name=name)
    )


def future_files():
    ahead = time.time() + 3_600
    Path("geoveil.db").touch(mode=0o600)
    os.utime("geoveil.db", (ahead, ahead))


MISTAKES = {
    "settings": lambda ward: ward.update(prot=7717),
    "tls": lambda ward: without_tls(ward, {"web_proxies": ["10.0.0.1"]}),
    "certificate": lambda ward: Path("server-key.pem").write_bytes(Path("key.pem").read_bytes()),
    "certificate dates": lambda ward: certify(3),
    "certificate name": lambda ward: None,
    "secret files": lambda ward: Path("tokens.json").chmod(0o644),
    "tokens": lambda ward: ended_tokens(),
    "analysts": open_analysts,
    "extras": lambda ward: None,
    "database": lambda ward: ward.update(database="nowhere/geoveil.db"),
    "disk": lambda ward: ward.update(least_free_bytes=1 << 50),
    "clock": lambda ward: future_files(),
    "ports": lambda ward: ward.update(port=ward.pop("taken")),
    "open files": lambda ward: ward.update(max_connections=1_000_000),
    "web door": lambda ward: without_tls(ward, {"host": "127.0.0.1"}),
    "gateway files": lambda ward: ward.update(web_streets="missing.pmtiles"),
    "aggregator": lambda ward: None,
    "operator key": lambda ward: ward.update(trusted_keys=[str(SigningKey.generate().public)]),
}
OPTIONS = {
    "certificate name": ("--name", "other.example", "--sign-key", "key.pem"),
    "aggregator": (*NAMED, "--aggregator", "127.0.0.1:1"),
}
ALSO = {"tls": {"web door"}, "web door": {"tls"}}


@pytest.mark.parametrize("name", ["settings", *(check.name for check in CHECKS)])
def test_a_planted_mistake_is_named(name, geoveil, ward, monkeypatch):
    with socket.create_server(("0.0.0.0", 0)) as taken:
        if name == "ports":
            ward["taken"] = taken.getsockname()[1]
            monkeypatch.setattr(doctor, "_ANSWER_S", 0.2)
        elif name == "extras":
            lack(monkeypatch, "jinja2")
        MISTAKES[name](ward)
        named, _ = examine(geoveil, ward, *OPTIONS.get(name, NAMED))
    assert name in named
    assert set(named) - {name} <= ALSO.get(name, set())


@pytest.mark.parametrize(("most", "named"), [(6_128, []), (6_127, ["open files"])])
def test_files_are_counted_as_by_the_server_which_raises_its_own_limit(
    most, named, geoveil, ward, monkeypatch
):
    """2,000 connections need 3 each, as new ones come before old ones close, and 128 others."""
    monkeypatch.setattr(doctor.resource, "getrlimit", lambda _: (1_024, most))
    assert examine(geoveil, ward, *NAMED)[0] == named


@pytest.mark.parametrize(
    ("setting", "also"),
    [("relay_keys", []), ("results_token_file", []), ("database_url_file", ["database"])],
)
def test_every_file_of_a_secret_is_looked_at(setting, also, geoveil, ward):
    file = Path("secret")
    if setting == "relay_keys":
        GatewayKeys.rotate(file, SigningKey.generate(), timedelta(days=1))
    else:
        file.touch(mode=0o600)
        file.write_text("postgresql://ada@127.0.0.1:1/reports?connect_timeout=1")
    if also:
        del ward["database"]
    ward[setting] = "secret"
    assert examine(geoveil, ward, *NAMED)[0] == also
    file.chmod(0o644)
    assert examine(geoveil, ward, *NAMED)[0] == ["secret files", *also]


def test_all_secret_files_that_are_open_are_named_at_once(geoveil, ward):
    for file in ("tokens.json", "key.pem"):
        Path(file).chmod(0o604)
    named, said = examine(geoveil, ward, *NAMED)
    assert named == ["secret files"]
    assert "tokens.json, key.pem" in said
    assert "server-key.pem" not in said


@pytest.mark.parametrize("setting", ["relay_keys", "web_streets"])
def test_a_file_that_the_gateway_can_not_read_is_named(setting, geoveil, ward):
    file = Path("file")
    file.touch(mode=0o600)
    file.write_bytes(b"no keys, and no streets")
    ward[setting] = "file"
    named, said = examine(geoveil, ward, *NAMED)
    assert named == ["gateway files"]
    assert setting in said
    with pytest.raises(ParameterError, match=setting):
        geoveil("serve", "--config", "geoveil.toml", "--check", to_server=False)
    file.unlink()
    if setting == "relay_keys":
        GatewayKeys.rotate(file, SigningKey.generate(), timedelta(days=1))
    else:
        file.write_bytes(b"PMTiles\x03")
    assert examine(geoveil, ward, *NAMED)[0] == []


def test_traces_need_their_extra(geoveil, ward, monkeypatch):
    ward["traces"] = 0.5
    assert examine(geoveil, ward, *NAMED)[0] == []
    lack(monkeypatch, "opentelemetry-exporter-otlp-proto-grpc")
    named, said = examine(geoveil, ward, *NAMED)
    assert (named, "geoveil[tracing]" in said) == (["extras"], True)


def test_results_for_everybody_need_what_draws_pages(geoveil, ward, monkeypatch):
    Path("secret").touch(mode=0o600)
    ward |= {"console": False, "results_token_file": "secret"}
    assert examine(geoveil, ward, *NAMED)[0] == []
    lack(monkeypatch, "jinja2")
    assert examine(geoveil, ward, *NAMED)[0] == ["extras"]


@pytest.mark.parametrize("kind", ["no database", "unreachable"])
def test_databases_that_can_not_be_used_are_named(kind, geoveil, ward):
    ward["database"] = "geoveil.db"
    Path("geoveil.db").write_bytes(b"no database at all" * 100)
    if kind == "unreachable":
        ward["database"] = "postgresql://u@127.0.0.1:1/reports?connect_timeout=1"
    named, said = examine(geoveil, ward)
    assert named == ["database"]
    assert "127.0.0.1:1" not in said or kind == "unreachable"


def test_a_campaign_of_another_key_is_named(geoveil, ward, tmp_path):
    file, content = tmp_path / "homes.campaign", encode(CAMPAIGNS["places"])
    for key in (SigningKey.generate(), None):
        file.write_bytes(seal(content, key))
        named, _ = examine(geoveil, ward, "--campaign", str(file), "--sign-key", "key.pem")
        assert named == ["operator key"]
    own = SigningKey.from_pem(Path("key.pem").read_bytes())
    file.write_bytes(seal(content, own))
    assert examine(geoveil, ward, "--campaign", str(file), "--sign-key", "key.pem")[0] == []


def test_a_server_that_runs_has_its_port_by_right(geoveil, ward, server):
    host, port = server.rsplit(":", 1)
    sound = {"host": host, "port": int(port), "database": "geoveil.db"}
    assert examine(geoveil, sound, "--aggregator", server)[0] == []


def test_the_page_for_operators_lists_every_check():
    page = (ROOT / "docs" / "operating.md").read_text("utf-8")
    listed = re.findall(r"^\| `([a-z ]+)` \| .* \|$", page.split("## A doctor", 1)[1], re.MULTILINE)
    assert listed[: len(CHECKS)] == [check.name for check in CHECKS]
