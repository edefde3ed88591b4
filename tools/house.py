"""Count the size of the project, and compare it with budgets: `python tools/house.py [FOLDER]`.

A statement is an `ast.stmt` that is not a docstring. Generated code does not count. With another
checkout as FOLDER, each top-level folder with Python counts as a part, so that projects are
compared by one rule.
"""

import ast
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

FORMS, FORMS_OF_DEVICE, PAGES = 2_500, 1_200, 600
"""Statements that budgets allow for forms with relations, their device code, and pages."""
BUDGETS = {
    "statements of gp, campaign, client, aggregator and analyst": 17_000 + FORMS,
    "statements of the device: gp, campaign and client": 9_500 + FORMS_OF_DEVICE,
    "statements of gateway": 1_000 + PAGES,
    "statements of cli": 2_500,
    "lines of gp": 11_500,
    "lines of analyst": 10_500,
    "lines of aggregator": 8_500,
    "lines without tests": 76_000,
    "lines of tests": 55_000,
    "per cent of lines that are docstrings": 18,
    "files above 500 lines": 0,
    "imports past the front door of another part": 60,
    "class names that mean two things": 0,
    "names that say nothing": 0,
}
MISSION = ("gp", "campaign", "client", "aggregator", "analyst")
DEVICE = ("gp", "campaign", "client")
VAGUE = {"asked", "found", "known", "one", "some", "told"}
LONGEST = 500


@dataclass
class Part:
    """Counts over the files of one part."""

    files: int = 0
    lines: int = 0
    statements: int = 0
    docstring_lines: int = 0
    classes: Counter[str] = field(default_factory=Counter)
    """Public name → number of classes with that name."""


@dataclass
class House:
    """Counts of a checkout."""

    parts: dict[str, Part]
    long_files: dict[str, int]
    past_doors: Counter[str]
    """Importing part → imports of modules inside other parts, past their front doors."""
    vague: Counter[str]

    def measured(self) -> dict[str, float]:
        """Return a number for each of `BUDGETS`."""

        def total(names: Iterator[str] | tuple[str, ...], what: str) -> int:
            return sum(getattr(self.parts[name], what) for name in names if name in self.parts)

        code = tuple(name for name in self.parts if name != "tests")
        lines = total(code, "lines")
        owners: Counter[str] = Counter()
        for part in code:
            owners.update(self.parts[part].classes)
        return {
            "statements of gp, campaign, client, aggregator and analyst": total(
                MISSION, "statements"
            ),
            "statements of the device: gp, campaign and client": total(DEVICE, "statements"),
            "statements of gateway": total(("gateway",), "statements"),
            "statements of cli": total(("cli",), "statements"),
            "lines of gp": total(("gp",), "lines"),
            "lines of analyst": total(("analyst",), "lines"),
            "lines of aggregator": total(("aggregator",), "lines"),
            "lines without tests": lines,
            "lines of tests": total(("tests",), "lines"),
            "per cent of lines that are docstrings": round(
                100 * total(code, "docstring_lines") / max(lines, 1), 1
            ),
            "files above 500 lines": len(self.long_files),
            "imports past the front door of another part": self.past_doors.total(),
            "class names that mean two things": sum(count > 1 for count in owners.values()),
            "names that say nothing": self.vague.total(),
        }


def count(root: Path) -> House:
    """Return counts of the Python files that git tracks in a checkout."""
    parts: defaultdict[str, Part] = defaultdict(Part)
    house = House(parts, {}, Counter(), Counter())
    listed = subprocess.run(
        ["git", "ls-files", "*.py"],  # noqa: S607
        cwd=root, check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    for name in listed.split():
        if "_pb2" in name:
            continue
        text = (root / name).read_text(encoding="utf-8")
        _count_file(house, name, text)
    return house


def _count_file(house: House, name: str, text: str) -> None:
    part_name = part_of(name)
    part, tree = house.parts[part_name], ast.parse(text)
    lines = text.count("\n")
    part.files += 1
    part.lines += lines
    shipped = "/geoveil/" in name and part_name != "tests"
    if lines > LONGEST and part_name != "tests":
        house.long_files[name] = lines
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt):
            docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            if docstring:
                part.docstring_lines += (node.end_lineno or node.lineno) - node.lineno + 1
            else:
                part.statements += 1
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and shipped:
            part.classes[node.name] += 1
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and shipped:
            house.vague.update([node.id] if node.id in VAGUE else [])
        if isinstance(node, ast.ImportFrom) and node.module and shipped:
            way = node.module.split(".")
            if way[0] == "geoveil" and len(way) > 2 and way[1] not in (part_name, "proto"):
                house.past_doors[part_name] += 1


def part_of(name: str) -> str:
    """Return the part of a file: the folder below geoveil/, or else the first one.

    >>> part_of("apps/geoveil/cli/plan.py"), part_of("tests/gp/test_exact.py"), part_of("setup.py")
    ('cli', 'tests', 'setup.py')
    """
    folders = name.split("/")
    if "geoveil" in folders[:-2] and folders[0] != "tests":
        return folders[folders.index("geoveil") + 1]
    return folders[0]


def main(root: Path) -> None:
    """Print a row for each part, then each budget beside its count."""
    house = count(root)
    print(f"{'part':<14}{'files':>7}{'lines':>9}{'statements':>12}")
    for name, part in sorted(house.parts.items(), key=lambda row: -row[1].statements):
        print(f"{name:<14}{part.files:>7,}{part.lines:>9,}{part.statements:>12,}")
    if not (root / "gp").exists():
        return
    print()
    for what, number in house.measured().items():
        over = "  over" if number > BUDGETS[what] else ""
        print(f"{what:<62}{number:>8,} of {BUDGETS[what]:>6,}{over}")
    for name, lines in sorted(house.long_files.items(), key=lambda row: -row[1]):
        print(f"  {lines:>5} lines  {name}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
