"""Run the commands of ARTIFACT.md and compare their output with the ranges: `make artifact`."""

import json
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
_FAILED = 1


class Claim(NamedTuple):
    """A row of the page: a claim, with the permitted range of its number."""

    text: str
    command: str
    least: float
    most: float


class Output(NamedTuple):
    """The output of a command."""

    status: int
    printed: str


def claims(page: str) -> list[Claim]:
    """Return the rows of ARTIFACT.md's table, in order."""
    cells = [
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for line in page.splitlines()
        if line.startswith("| ") and "`" in line
    ]
    return [
        Claim(text, command.strip("`"), float(least), float(most))
        for text, command, _, least, most in cells
    ]


def _numbers(output: Output) -> list[dict[str, Any]]:
    return [number for row in json.loads(output.printed) for number in row["numbers"]]


def _agreeing(output: Output) -> float:
    again = [n["verdict"] == "agrees" for n in _numbers(output) if n["kind"] == "re-run"]
    return sum(again) / len(again) if len(again) >= 16 else 0.0


def _of_ledger(quantity: str) -> Callable[[Output], float]:
    return lambda output: max(n["ours"] for n in _numbers(output) if quantity in n["quantity"])


def _tuned(part: str, number: str, end: Callable[..., float]) -> Callable[[Output], float]:
    return lambda output: end(row[number] for row in json.loads(output.printed)[part])


def _used(output: Output) -> float:
    return max(row["exact"]["fraction"] for row in json.loads(output.printed)["rows"])


def _caught(output: Output) -> float:
    rows = json.loads(output.printed)["rows"]
    return sum(not row["keeps"] for row in rows) / len(rows)


def _off(output: Output) -> float:
    found = json.loads(output.printed)
    rows = found if isinstance(found, list) else found["campaigns"]
    return max(abs(row["estimate"] - row["truth"]) / row["standard_error"] for row in rows)


MEASURED: Mapping[str, Callable[[Output], float]] = {
    "Errors of [SGP] Figures 3 and 8": _agreeing,
    "Smooth sensitivity is not always better": _of_ledger("over that of GP_Lip"),
    **{
        f"{part.capitalize()}, {told}, {word}": _tuned(part, number, end)
        for part in ("thresholds", "pairs", "densities")
        for told, number in (("as published", "published"), ("tuned", "tuned"))
        for word, end in (("least", min), ("most", max))
    },
    "Permute-and-flip is report-noisy-max": _of_ledger("largest difference"),
    "DebiasedLaplace keeps its promise": _used,
    "The auditor catches every faulty mechanism": _caught,
    "A million simulated devices": _off,
    "Five papers state what is false": lambda output: float(output.status),
    "Whole devices against a real server": _off,
}
"""Beginning of a claim → function that finds its number in the command's output."""


def measure_of(claim: Claim) -> Callable[[Output], float]:
    """Return the function whose text the claim begins with.

    Raises:
        ValueError: if there is no such function, or several.
    """
    (measure,) = (how for start, how in MEASURED.items() if claim.text.startswith(start))
    return measure


@cache
def _run(command: str) -> Output:
    program, *rest = shlex.split(command)
    # The program beside this Python, wherever that is installed.
    words = [str(Path(sys.executable).parent / program), *rest]
    with tempfile.TemporaryDirectory() as folder:
        if program == "geoveil" and rest[0] == "demo":
            words += ["--figure", f"{folder}/demo.png"]
        done = subprocess.run(  # noqa: S603 - the commands of our own page
            words, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False
        )
    return Output(done.returncode, done.stdout)


def results() -> Iterator[tuple[Claim, float, float]]:
    """Yield each claim, its number (NaN if the command failed), and the command's seconds."""
    for claim in claims((ROOT / "ARTIFACT.md").read_text(encoding="utf-8")):
        start, number = time.monotonic(), float("nan")
        try:
            number = measure_of(claim)(_run(claim.command))
        except (ValueError, KeyError, TypeError) as error:
            print(f"{claim.command}: {type(error).__name__}: {error}", file=sys.stderr)
        yield claim, number, time.monotonic() - start


def main() -> int:
    """Print the table as it grows; return 0 if every number is in its range, else 1."""
    failed = 0
    start = time.monotonic()
    for claim, number, seconds in results():
        kept = claim.least <= number <= claim.most
        failed += not kept
        print(
            f"{'pass' if kept else 'FAIL'}  {number:10.4g}  [{claim.least:g}, {claim.most:g}]"
            f"  {seconds:4.0f} s  {claim.text}",
            flush=True,
        )
    print(f"{failed} failed; {(time.monotonic() - start) / 60:.1f} minutes")
    return _FAILED if failed else 0


if __name__ == "__main__":
    sys.exit(main())
