"""Test the artifact: every claim is measured, and every range can fail."""

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "ARTIFACT.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def artifact() -> ModuleType:
    """tools/artifact.py, which is no part of the package."""
    spec = importlib.util.spec_from_file_location("artifact", ROOT / "tools" / "artifact.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_claim_is_measured_and_every_measure_is_claimed(artifact) -> None:
    claims = artifact.claims(PAGE)
    assert len(claims) == PAGE.count("\n| ") - 1 == len(artifact.MEASURED)
    assert len({artifact.measure_of(claim) for claim in claims}) >= len(claims) - 2
    assert all(claim.least <= claim.most for claim in claims)
    minutes = [float(m) for m in re.findall(r"` \| ([\d.]+) \|", PAGE)]
    assert sum(minutes) < 10


@pytest.mark.parametrize(
    ("printed", "status"),
    [
        ({"published": 4.2, "tuned": 2.5}, 0),
        ({"published": 4.2, "tuned": 9.0}, 1),
        ({"published": 4.2}, 1),
    ],
)
def test_a_number_out_of_range_or_missing_is_a_failure(
    artifact, monkeypatch, capsys, tmp_path, printed, status
) -> None:
    rows = [
        line for line in PAGE.splitlines() if line.startswith("| Thresholds") and "least" in line
    ]
    assert len(rows) == 2
    (tmp_path / "ARTIFACT.md").write_text("\n".join(rows), encoding="utf-8")
    monkeypatch.setattr(artifact, "ROOT", tmp_path)
    output = artifact.Output(0, json.dumps({"thresholds": [printed]}))
    monkeypatch.setattr(artifact, "_run", lambda _: output)
    assert artifact.main() == status
    assert ("FAIL" in capsys.readouterr().out) == bool(status)


def test_zenodo_and_citation_say_the_same() -> None:
    zenodo = json.loads((ROOT / ".zenodo.json").read_text(encoding="utf-8"))
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {zenodo['version']}\n" in citation
    assert f'\ntitle: "{zenodo["title"]}"\n' in citation
    (creator,) = zenodo["creators"]
    assert f"- name: {creator['name']}\n" in citation
