"""Test that every citation in code and documents names a paper's key or a section."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
# A key alone or with a statement: [NRS07], [SGP Lemma 3.3], [LD Def. 3.6–3.8; MATH §3].
KEY = r"(?:[A-Z]{2,}[0-9]*|[A-Z][a-z]+[0-9]{2})"
STATEMENT = r"(?:§|Lemma|Theorem|Thm|Def|Prop|Cor|Algorithm|Figure|Table|App|cases|[0-9])"
CITATION = re.compile(rf"\[([A-Z][A-Za-z]+[0-9]{{2}}|{KEY} {STATEMENT}[^\[\]]*)\](?!\()")
ELSEWHERE = {"ADR", "RFC"}
"""Decisions of the project, which `docs/decisions` numbers, and standards of the Internet."""


def _known_keys() -> set[str]:
    rows = (ROOT / "docs" / "bibliography.md").read_text().splitlines()
    return {row.split("|")[1].strip() for row in rows if row.startswith("| ")} - {"key"}


def _sections(text: str) -> set[str]:
    return set(re.findall(r"^#{2,3} ([0-9]+(?:\.[0-9]+)?)\.? ", text, flags=re.MULTILINE))


def _citations() -> Iterator[tuple[str, str]]:
    listed = subprocess.run(
        ["git", "ls-files", "*.py", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in listed.stdout.split():
        if name == "tests/test_citations.py":
            continue
        text = re.sub(r"\n[ #]*", " ", (ROOT / name).read_text())
        for found in CITATION.findall(text):
            yield from ((name, part.strip()) for part in found.split(";"))


def _missing(citations: Iterator[tuple[str, str]]) -> list[str]:
    keys = _known_keys()
    sections = _sections((ROOT / "docs" / "mathematics.md").read_text())
    missing = []
    for name, citation in citations:
        key = citation.split(" ")[0]
        if key == "MATH":
            wanted = re.findall(r"§([0-9]+(?:\.[0-9]+)?|n$)", citation)  # §n: any section
            if not wanted or not set(wanted) <= sections | {"n"}:
                missing.append(f"{name}: {citation}")
        elif key not in keys | ELSEWHERE:
            missing.append(f"{name}: {citation}")
    return missing


def test_every_citation_is_in_the_bibliography_or_a_section_that_ships() -> None:
    citations = list(_citations())
    assert len(citations) > 100  # the pattern still finds them
    assert _missing(iter(citations)) == []


@pytest.mark.parametrize("dead", ["MATH §99", "MATH §5.9", "XYZ Lemma 2"])
def test_a_citation_that_leads_nowhere_is_found(dead: str) -> None:
    assert _missing(iter([("somewhere.py", dead)])) == [f"somewhere.py: {dead}"]
