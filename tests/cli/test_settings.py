"""Every setting of `geoveil serve`, from every source, through the command itself.

The cases are made from the class of the settings: one that is added is tested without a word here.
"""

import json
from dataclasses import fields
from pathlib import Path

import pytest
import typer

from geoveil.aggregator import Settings
from geoveil.aggregator.ops.settings import LOG_FORMATS, LOG_LEVELS
from geoveil.aggregator.ops.settings_sources import PREFIX, TYPES, URL_FILE
from geoveil.aggregator.store.database_url import DatabaseURL
from geoveil.campaign import PublicKey
from geoveil.cli.app import app
from geoveil.gp import GeoVeilError

DEFAULTS = {field.name: field.default for field in fields(Settings)}
NUMBERS = (1, 2, 1 << 16, 1 << 17)
WEB = ("127.0.0.1:1", "[::1]:2", "https://a.example", "https://b.example")
CANDIDATES = {
    bool: (True, False),
    int: NUMBERS,
    float: (*NUMBERS, 0.5),
    str: (*LOG_LEVELS, *LOG_FORMATS, *WEB, "192.0.2.1", "2001:db8::1"),
    Path: tuple(Path(f"/{name}/file") for name in "abc"),
    Path | DatabaseURL: (Path("/a.db"), DatabaseURL("postgresql:///b"), Path("/c.db")),
    PublicKey: tuple(PublicKey.parse("ed25519:" + 32 * f"{n:02x}") for n in (1, 2, 3)),
}
"""Type of a setting → values of it. A setting of a new type needs a row here."""
OPTIONS = typer.main.get_command(app).get_command(None, "serve").params
SOURCES = ("file", "environment", "flag")


def companions(name):
    """Return settings without which this one is refused."""
    if name.startswith("tls_"):
        pair = {"tls_certificate": Path("/pair.pem"), "tls_key": Path("/pair-key.pem")}
        return {other: path for other, path in pair.items() if other != name}
    if name in ("web_origins", "web_proxies", "web_issuer", "relay_keys"):
        return {"web": WEB[0]}
    if name.startswith("results_"):
        needed = {"web": WEB[0], "tokens_file": Path("/tokens"), "results_token_file": Path("/one")}
        return {other: value for other, value in needed.items() if other != name}
    return {name.replace("_burst", "_rate"): 5} if name.endswith("_burst") else {}


def values(name):
    """Return two values of a setting, the first of which is not the default."""
    kind, several = TYPES[name]
    found = []
    for candidate in CANDIDATES[kind]:
        value = (candidate,) if several else candidate
        try:
            Settings(**{name: value, **companions(name)})
        except GeoVeilError:
            continue
        found.append(value)
    found.sort(key=lambda value: value == DEFAULTS[name])
    assert len(found) > 1, f"{name}: too few values to try, add some to CANDIDATES"
    return found[:2]


def texts(value):
    items = value if isinstance(value, tuple) else (value,)
    return [item.reveal() if isinstance(item, DatabaseURL) else str(item) for item in items]


def toml(name, value):
    if isinstance(value, (bool, int, float)):
        return f"{name} = {json.dumps(value)}\n"
    shown = texts(value)
    return f"{name} = {json.dumps(shown if isinstance(value, tuple) else shown[0])}\n"


def flags(name, value):
    option = next(option for option in OPTIONS if option.name == name)
    if isinstance(value, bool):
        return (option.opts if value else option.secondary_opts)[:1]
    return [part for text in texts(value) for part in (option.opts[0], text)]


@pytest.fixture
def settings_of(geoveil, monkeypatch, tmp_path, without_settings):
    """Run `serve` with settings from each source; return those that the server would get."""
    monkeypatch.chdir(tmp_path)
    got = []
    monkeypatch.setattr("geoveil.cli.serve.run", lambda settings, **how: got.append(settings))
    monkeypatch.setattr("geoveil.cli.serve.configure", lambda *_: False)
    monkeypatch.setattr("geoveil.cli.serve.log_what_nobody_catches", lambda: None)

    def run(**by_source):
        config = tmp_path / "geoveil.toml"
        config.write_text("".join(toml(*s) for s in by_source.get("file", {}).items()))
        arguments = [part for s in by_source.get("flag", {}).items() for part in flags(*s)]
        with monkeypatch.context() as scoped:
            for name, value in by_source.get("environment", {}).items():
                scoped.setenv(PREFIX + name.upper(), ", ".join(texts(value)))
            geoveil("serve", "--config", str(config), *arguments, to_server=False)
        return got.pop()

    return run


@pytest.mark.parametrize("name", TYPES)
def test_every_source_sets_it(settings_of, name):
    value = values(name)[0]
    for source in SOURCES:
        asked = {name: value, **companions(name)}
        assert getattr(settings_of(**{source: asked}), name) == value, source


@pytest.mark.deep(keep=12)
@pytest.mark.parametrize("name", TYPES)
def test_flags_beat_the_environment_which_beats_the_file(settings_of, name):
    first, second = values(name)
    asked = {
        source: {name: value, **companions(name)}
        for source, value in zip(SOURCES, (first, second, first), strict=True)
    }
    assert getattr(settings_of(**asked), name) == asked["flag"][name]
    del asked["flag"]
    assert getattr(settings_of(**asked), name) == asked["environment"][name]


def test_what_no_source_sets_is_the_default(settings_of):
    assert settings_of() == Settings()


def test_the_file_of_the_url_comes_from_every_source(settings_of, tmp_path):
    secret = tmp_path / "url"
    secret.write_text("postgresql://me:hunter2@db/reports\n")
    for source in SOURCES:
        settings = settings_of(**{source: {URL_FILE: secret}})
        assert settings.database == DatabaseURL("postgresql://me:hunter2@db/reports"), source


def test_several_keys_come_from_every_source(settings_of):
    keys = CANDIDATES[PublicKey]
    for source in SOURCES:
        assert settings_of(**{source: {"trusted_keys": keys}}).trusted_keys == keys, source
