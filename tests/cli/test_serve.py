"""`serve`: every setting from every source, --check, and the process itself.

The cases of settings are made from their class: one that is added is tested without a word here.
"""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from dataclasses import fields
from pathlib import Path

import pytest
import typer

from geoveil.aggregator import Settings
from geoveil.aggregator.ops.settings import LOG_FORMATS, LOG_LEVELS
from geoveil.aggregator.ops.settings_sources import KNOWN, PREFIX, TYPES, URL_FILE
from geoveil.aggregator.store.database_url import DatabaseURL
from geoveil.campaign import PublicKey
from geoveil.cli.app import app
from geoveil.gp import GeoVeilError, ParameterError

COMMAND = [sys.executable, "-W", "error", "-c", "from geoveil.cli import main; main()"]
PATIENCE_S = 60


@pytest.fixture
def check(geoveil, monkeypatch, tmp_path, without_settings):
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: geoveil("serve", "--check", *arguments, to_server=False)


def test_every_setting_has_a_flag(geoveil):
    shown = geoveil("serve", "--help", to_server=False).output
    flags = set(re.findall(r"--([a-z-]+)", shown))
    assert {name.replace("_", "-") for name in KNOWN} <= flags
    for group in ("Where", "Security", "Limits", "Starting and stopping", "Watching"):
        assert f" {group} " in shown
    for default in ("(7717)", "(geoveil.db)", "(10)"):
        assert default in shown


def test_check_prints_what_holds_and_where_it_is_from(check, tmp_path, monkeypatch):
    (tmp_path / "a.toml").write_text("port = 1\ngrace_s = 3\n")
    monkeypatch.setenv("GEOVEIL_PORT", "2")
    monkeypatch.setenv("GEOVEIL_DATABASE", "postgresql://me:hunter2@db/reports")
    monkeypatch.setenv("GEOVEIL_TOKEN", "of another command")
    monkeypatch.setenv("GEOVEIL_SERVER", "of another command")
    result = check("--config", "a.toml", "--queue-limit", "7", "--reflection")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    for line in (
        "port = 2  # from GEOVEIL_PORT",
        "grace_s = 3  # from a.toml",
        "queue_limit = 7  # from --queue-limit",
        "reflection = true  # from --reflection",
        'database = "postgresql://me:***@db/reports"  # from GEOVEIL_DATABASE',
        'host = "127.0.0.1"',
    ):
        assert line in lines
    assert "hunter2" not in result.output
    assert not (tmp_path / "geoveil.db").exists()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--tls-key", "x.pem", "--tls-cert", "x.pem"], "--tls-certificate must be a file"),
        (["--web", "127.0.0.1:0", "--relay-keys", "absent"], "relay-keys must be"),
        (["--relay-keys", "absent"], "--web must be given, as relay_keys is"),
        (["--database", "postgresql://a:b@c/d"], "without a password"),
    ],
)
def test_check_finds_what_would_stop_a_start(check, arguments, named):
    with pytest.raises(ParameterError, match=named):
        check(*arguments)


def event(process):
    return json.loads(process.stdout.readline())


@pytest.fixture
def environment(without_settings):
    """Return the variables of a process that imports what this one does."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}


@pytest.mark.deep(keep=0)
def test_the_process_logs_json_drains_and_ends_with_status_0(tmp_path, environment):
    database = tmp_path / "a.db"
    arguments = ["serve", "--port", "0", "--database", str(database), "--metrics-port", "0"]
    with subprocess.Popen(
        [*COMMAND, *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
    ) as process:  # fmt: skip
        patience = threading.Timer(PATIENCE_S, process.kill)  # what then is read ends
        patience.start()
        try:
            listening = event(process)
            assert listening["event"] == "listening"
            assert (listening["analysts"], listening["tls"]) == ("anyone", False)
            assert re.fullmatch(r"http://127\.0\.0\.1:\d+/metrics", listening["metrics"])
            address = listening["address"]
            assert re.fullmatch(r"127\.0\.0\.1:\d+", address)
            healthy = subprocess.run(
                [*COMMAND, "health", "--server", address],
                capture_output=True, text=True, env=environment, timeout=PATIENCE_S,
            )  # fmt: skip
            assert (healthy.returncode, healthy.stdout) == (0, "SERVING\n")
            process.send_signal(signal.SIGTERM)
            rest, errors = process.communicate(timeout=PATIENCE_S)
        finally:
            patience.cancel()
            process.kill()
    assert process.returncode == 0
    assert [json.loads(line)["event"] for line in rest.splitlines()] == ["stopping", "stopped"]
    assert errors == ""
    assert database.exists()


NOISE = """
import sys, threading, warnings, logging, os
import grpc

import geoveil.aggregator as aggregator


async def noisy(settings, started=None):
    core = b"E1122 05:59:03.578632    9931 ssl.cc:1884] Handshake failed: ipv4:192.0.2.7:81"
    os.write(2, core + b"\\n")
    os.write(2, b"two words\\nand a line without an end")
    logging.getLogger("grpc._cython.cygrpc").error("call from 192.0.2.8:90 failed")
    warnings.warn("a warning of %d" % 7, stacklevel=1)
    thread = threading.Thread(target=lambda: int("income 4711"))
    thread.start()
    thread.join()

    class Late:
        def __del__(self):
            raise ValueError("income 4711")

    Late()
    import asyncio
    asyncio.get_running_loop().call_soon(lambda: int("income 4711"))
    await asyncio.sleep(0.01)
    raise ValueError("income 4711")


import asyncio
aggregator.run = lambda settings, beside: asyncio.run(noisy(settings))
from geoveil.cli import main
sys.argv = ["geoveil", "serve", "--log-format", "json"]
main()
"""


@pytest.mark.deep(keep=0)
def test_nothing_but_json_is_written_whatever_goes_wrong(tmp_path, environment):
    """Lines of native code, libraries, warnings, threads and the end of the process."""
    done = subprocess.run(
        [sys.executable, "-c", NOISE],
        capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=PATIENCE_S,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, "")
    logged = [json.loads(line) for line in done.stdout.splitlines()]
    assert all({"event", "level", "logger", "timestamp"} <= set(line) for line in logged)
    words = {line["logger"]: line["message"] for line in logged if line["event"] == "library"}
    assert words["native.ssl.cc:1884"] == "Handshake failed: (address)"
    assert words["grpc._cython.cygrpc"] == "call from (address) failed"
    assert "a warning of 7" in words["py.warnings"]
    written = [line["message"] for line in logged if line["logger"] == "native"]
    assert written[0] == "two words"
    assert "and a line without an end" in written[1]
    failures = {line["event"]: line for line in logged if "exception" in line}
    assert {"thread_failed", "not_raised", "failed"} <= set(failures)
    assert "4711" not in "".join(line for line in done.stdout.splitlines() if "native" not in line)


@pytest.mark.deep(keep=0)
@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--database", "notes.txt"], "file is not a database"),
        (["--host", "192.0.2.1", "--database", "a.db"], "address must be free"),
    ],
)
def test_what_keeps_a_server_from_starting_is_an_event(tmp_path, environment, arguments, reason):
    (tmp_path / "notes.txt").write_text("no database at all\n" * 100)
    done = subprocess.run(
        [*COMMAND, "serve", "--port", "0", "--log-format", "json", *arguments],
        capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=PATIENCE_S,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, "")
    *_, last = [json.loads(line) for line in done.stdout.splitlines()]
    assert (last["event"], last["level"]) == ("failed", "critical")
    assert reason in last["reason"]


def test_samples_are_where_the_document_says():
    docs = Path(__file__).parents[2] / "docs"
    for name in re.findall(r"\]\((samples/[^)]+)\)", (docs / "operating.md").read_text()):
        assert (docs / name).is_file()


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
    if name in ("web_origins", "web_proxies", "web_issuer", "web_streets", "relay_keys"):
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
