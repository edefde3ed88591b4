"""Samples for operators: they are read, and name what there is."""

import re
from pathlib import Path

import pytest
import yaml

from geoveil.aggregator import load

ROOT = Path(__file__).parents[1]
SAMPLES = ROOT / "docs" / "samples"


def arguments(text: str) -> dict[str, str]:
    """Return the settings of a command, by name."""
    return dict(re.findall(r"--([a-z][a-z-]*)[=\" ,]+([^\s,\"]+)", text))


@pytest.mark.parametrize("name", ["compose.yml", "kubernetes.yml", "Containerfile"])
def test_commands_of_containers_have_settings_that_there_are(name: str) -> None:
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


def test_rules_name_metrics_that_the_documents_list() -> None:
    rules = yaml.safe_load((SAMPLES / "alerts.yml").read_text("utf-8"))["groups"][0]["rules"]
    page = (ROOT / "docs" / "operating.md").read_text("utf-8")
    listed = set(re.findall(r"^\| `(geoveil_\w+)` \|", page, re.MULTILINE))
    for rule in rules:
        named = {name.removesuffix("_bucket") for name in re.findall(r"geoveil_\w+", rule["expr"])}
        assert named <= listed
        assert rule["annotations"]["summary"].endswith(".")
    assert len({rule["alert"] for rule in rules}) == len(rules) >= 8
