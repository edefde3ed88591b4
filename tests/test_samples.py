"""Test that samples for operators can be read, and name real settings."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from geoveil.aggregator import load
from geoveil.aggregator.ops.metrics import Metrics

ROOT = Path(__file__).parents[1]
SAMPLES = ROOT / "docs" / "samples"


needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool is not installed (Debian: prometheus)"
)
AGGREGATOR = {"instance": "a:9717"}
COMMITS = 'geoveil_commit_seconds_bucket{instance="a:9717",le="%s"}'
CERTIFICATE = 'geoveil_tls_certificate_expires_timestamp_seconds{instance="a:9717"}'
WHEN = {
    "GeoveilNotReady": (
        [
            {'geoveil_ready{instance="a:9717"}': "1x60"},
            {'geoveil_ready{instance="a:9717"}': "0x60"},
        ],
        AGGREGATOR,
    ),
    "GeoveilGone": ([{'geoveil_build_info{version="1"}': "1x60"}, {"up": "0x60"}], {}),
    "GeoveilStoreErrors": (
        [
            {'geoveil_store_errors_total{instance="a:9717",operation="commit"}': "0x60"},
            {'geoveil_store_errors_total{instance="a:9717",operation="commit"}': "0+1x60"},
        ],
        AGGREGATOR | {"operation": "commit"},
    ),
    "GeoveilQueueFull": (
        [
            {'geoveil_queue_weight{instance="a:9717"}': "79999x60"},
            {'geoveil_queue_weight{instance="a:9717"}': "80001x60"},
        ],
        AGGREGATOR,
    ),
    "GeoveilCommitsSlow": (
        [
            {COMMITS % "1.0": "0+99x60", COMMITS % "+Inf": "0+100x60"},
            {COMMITS % "1.0": "0+98x60", COMMITS % "2.5": "0+100x60", COMMITS % "+Inf": "0+100x60"},
        ],
        AGGREGATOR,
    ),
    "GeoveilReportsRejected": (
        [
            {
                'geoveil_reports_total{instance="a:9717",outcome="accepted"}': "0+100x60",
                'geoveil_reports_rejected_total{instance="a:9717",reason="closed"}': "0+9x60",
            },
            {
                'geoveil_reports_total{instance="a:9717",outcome="accepted"}': "0+100x60",
                'geoveil_reports_rejected_total{instance="a:9717",reason="closed"}': "0+11x60",
            },
        ],
        AGGREGATOR,
    ),
    "GeoveilCallsDenied": (
        [
            {'geoveil_rpcs_denied_total{instance="a:9717",reason="role"}': "0+59x60"},
            {'geoveil_rpcs_denied_total{instance="a:9717",reason="role"}': "0+61x60"},
        ],
        AGGREGATOR | {"reason": "role"},
    ),
    "GeoveilCertificateEnds": (
        [
            {CERTIFICATE: f"{3600 + 15 * 86400}x60"},
            {CERTIFICATE: f"{3600 + 13 * 86400}x60"},
        ],
        AGGREGATOR,
    ),
}
"""Alert → the series of an hour without it and of one with it, and its labels."""


def promtool(*arguments):
    """Return the exit status of Prometheus's checker."""
    return subprocess.run(["promtool", *map(str, arguments)], capture_output=True).returncode


def arguments(text):
    """Return the settings of a command, by name."""
    return dict(re.findall(r"--([a-z][a-z-]*)[=\" ,]+([^\s,\"]+)", text))


@pytest.mark.parametrize("name", ["compose.yml", "kubernetes.yml", "Containerfile"])
def test_commands_of_containers_have_settings_that_there_are(name):
    text = (SAMPLES / name).read_text("utf-8")
    assert "Not exercised" in text
    begins = next(text.index(word) for word in ("args:", "command:", "CMD") if word in text)
    given = arguments(re.split("secrets:|ports:", text[begins:])[0])
    assert given["host"] == "0.0.0.0"
    settings = {key.replace("-", "_"): value for key, value in given.items()}
    settings.pop("database_url_file", None)  # there is none here
    effective = load(None, {f"GEOVEIL_{key.upper()}": v for key, v in settings.items()}, {})
    assert effective.settings.host == "0.0.0.0"
    if name != "Containerfile":
        assert effective.settings.tokens_file is not None
        assert list(yaml.safe_load_all(text))


def rules_of_alerts():
    """Return the rules for Prometheus."""
    return yaml.safe_load((SAMPLES / "alerts.yml").read_text("utf-8"))["groups"][0]["rules"]


def expressions_of_rules():
    """Return what the rules ask of Prometheus."""
    rules = rules_of_alerts()
    assert all(rule["annotations"]["summary"].endswith(".") for rule in rules)
    assert len({rule["alert"] for rule in rules}) == len(rules) >= 8
    return [rule["expr"] for rule in rules]


def test_every_alert_has_an_hour_in_which_it_is_raised():
    assert {rule["alert"] for rule in rules_of_alerts()} == set(WHEN)


def expressions_of_panels():
    """Return what the panels of the dashboard ask of Prometheus."""
    panels = json.loads((SAMPLES / "grafana.json").read_text("utf-8"))["panels"]
    return [target["expr"] for panel in panels for target in panel["targets"]]


def exported():
    """Return the names of all samples that an aggregator exports."""
    metrics = Metrics()
    metrics.observe_call("geoveil.v1.Reports/Submit", "OK", 0.1)
    families = list(metrics.registry.collect())
    return {sample.name for family in families for sample in family.samples}


@pytest.mark.parametrize("of", [expressions_of_rules, expressions_of_panels])
def test_rules_and_panels_name_metrics_that_are_exported(of):
    for expression in of():
        named = set(re.findall(r"(?:geoveil|process)_\w+", expression))
        assert named
        assert named <= exported()
    assert "geoveil_reports" not in exported()  # counters end in _total


@needs_promtool
def test_promtool_accepts_the_rules_and_what_the_panels_ask(tmp_path):
    rules = [
        {"record": f"panel:{number}", "expr": expression}
        for number, expression in enumerate(expressions_of_panels())
    ]
    panels = tmp_path / "panels.yml"
    panels.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    assert promtool("check", "rules", SAMPLES / "alerts.yml", panels) == 0
    rules[0]["expr"] = "sum by (geoveil_ready"
    panels.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    assert promtool("check", "rules", panels) != 0


@needs_promtool
def test_alerts_are_raised_when_they_should_be_and_not_before(tmp_path):
    hours = [
        {
            "interval": "1m",
            "input_series": [{"series": key, "values": value} for key, value in values.items()],
            "alert_rule_test": [
                {"eval_time": "1h", "alertname": rule["alert"], "exp_alerts": expected}
            ],
        }
        for rule in rules_of_alerts()
        for values, expected in zip(
            WHEN[rule["alert"]][0], ([], [raised(rule, WHEN[rule["alert"]][1])]), strict=True
        )
    ]
    path = tmp_path / "hours.yml"
    for expected in (0, 1):
        path.write_text(
            yaml.safe_dump({"rule_files": [str(SAMPLES / "alerts.yml")], "tests": hours})
        )
        assert promtool("test", "rules", path) == expected
        hours[0]["input_series"] = hours[1]["input_series"]  # a control: raised in a silent hour


def raised(rule, labels):
    """Return an alert as promtool expects it."""
    summary = rule["annotations"]["summary"]
    for name, value in labels.items():
        summary = summary.replace("{{ $labels." + name + " }}", value)
    return {"exp_labels": rule["labels"] | labels, "exp_annotations": {"summary": summary}}
