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

from geoveil.aggregator.settings_sources import KNOWN, load
from geoveil.gp import ParameterError

COMMAND = [sys.executable, "-W", "error", "-c", "from geoveil.cli import main; main()"]
PATIENCE_S = 60


@pytest.fixture
def check(geoveil, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("GEOVEIL_")]:
        monkeypatch.delenv(name)
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
        (["--port", "70000"], "port must be"),
        (["--tls-key", "absent.pem", "--tls-cert", "absent.pem"], "tls_certificate must be a file"),
        (["--tokens-file", "absent.json"], "tokens_file must be a file to read"),
        (["--trusted-key", "ed25519:1"], "ed25519"),
        (["--config", "absent.toml"], "config must be a file to read"),
        (["--database", "postgresql://a:b@c/d"], "without a password"),
    ],
)
def test_check_finds_what_would_stop_a_start(check, arguments, named):
    with pytest.raises(ParameterError, match=named):
        check(*arguments)


def test_a_misspelt_variable_is_refused(check, monkeypatch):
    monkeypatch.setenv("GEOVEIL_TOKENS_FIEL", "x")
    with pytest.raises(ParameterError, match="perhaps GEOVEIL_TOKENS_FILE"):
        check()


def event(process):
    return json.loads(process.stdout.readline())


def test_the_process_logs_json_drains_and_ends_with_status_0(tmp_path):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GEOVEIL_")}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    database = tmp_path / "a.db"
    arguments = ["serve", "--port", "0", "--database", str(database), "--metrics-port", "0"]
    with subprocess.Popen(
        [*COMMAND, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        patience = threading.Timer(PATIENCE_S, process.kill)  # what then is read ends
        patience.start()
        try:
            listening = event(process)
            assert re.fullmatch(r"listening on 127\.0\.0\.1:\d+", listening["event"])
            assert event(process)["event"] == "analysts: anyone; TLS: no"
            assert re.fullmatch(
                r"metrics at http://127\.0\.0\.1:\d+/metrics", event(process)["event"]
            )
            address = listening["event"].rpartition(" ")[2]
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
    assert [json.loads(line)["event"] for line in rest.splitlines()] == ["told to stop", "stopped"]
    assert errors == ""
    assert database.exists()


def test_health_of_nothing_is_status_1(geoveil, server):
    assert geoveil("health").exit_code == 0
    assert geoveil("health", "--service", "geoveil.proto.v1.Analyst").output == "SERVING\n"
    assert geoveil("health", "--service", "unknown").exit_code == 1
    gone = geoveil("health", "--server", "127.0.0.1:1", to_server=False)
    assert gone.exit_code == 1
    assert "UNAVAILABLE" in gone.output


def test_samples_are_where_the_document_says():
    docs = Path(__file__).parents[2] / "docs"
    for name in re.findall(r"\]\((samples/[^)]+)\)", (docs / "operating.md").read_text()):
        assert (docs / name).is_file()
