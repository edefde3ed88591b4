"""geoveil serve: its flags, --check, and the process itself."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from geoveil.aggregator.ops.settings_sources import KNOWN, load
from geoveil.gp import ParameterError

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


def test_what_check_prints_is_a_configuration(check, tmp_path):
    printed = check("--port", "5", "--database", "/a.db", "--peer-rate", "2").stdout
    (tmp_path / "b.toml").write_text(printed)
    settings = load(tmp_path / "b.toml").settings
    assert (settings.port, settings.peer_rate) == (5, 2)


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
