"""Draw docs/architecture.svg: the path of one report, each step with the file that does it.

Files are located through the functions, and sentences about the parts come from their packages, so
the picture changes when the code does; a test compares the two.
"""

import importlib
import inspect
import sys
import textwrap
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "architecture.svg"
WIDTH, MARGIN, GAP = 1320, 24, 28
COLUMN = (WIDTH - 2 * MARGIN - 2 * GAP) / 3
STEP, TOP, BETWEEN = 62, 84, 14


class Step(NamedTuple):
    """One step in the path of a report."""

    does: str
    by: str
    """The function that does the step, as `module:name`."""


WAY: dict[str, tuple[str, tuple[Step, ...]]] = {
    "The asker": (
        "#e8f1fb",
        (
            Step("plans: which mechanism, how many people", "geoveil.analyst:plan_for"),
            Step("states the question", "geoveil.campaign:StatisticCampaign"),
            Step("signs it", "geoveil.campaign.signing:seal"),
            Step("asks the server for estimates", "geoveil.analyst:Analyst"),
        ),
    ),
    "The device": (
        "#e9f6ec",
        (
            Step("checks the signature and its own policy", "geoveil.client:Policy.check"),
            Step("is given a private value", "geoveil.client:Client.contribute"),
            Step("draws the noise, exactly", "geoveil.gp.exact:release_integers"),
            Step(
                "writes the report to disk before it leaves",
                "geoveil.client.journal:Journal.record",
            ),
            Step(
                "sends it until it is acknowledged",
                "geoveil.client.report_sender:ReportSender.flush",
            ),
        ),
    ),
    "The server, which nobody has to trust": (
        "#fdf1e3",
        (
            Step("reads the request", "geoveil.aggregator.grpc.submissions:read_batch"),
            Step("classifies the report", "geoveil.campaign.admission:Admission.fault"),
            Step("gathers reports that wait", "geoveil.aggregator.domain.threads:Writer"),
            Step(
                "writes and counts them in one transaction",
                "geoveil.aggregator.store.sql:SQLStore.commit",
            ),
            Step("computes the estimate", "geoveil.gp.estimation:estimate"),
            Step("computes its interval", "geoveil.gp.intervals:interval_of_mean"),
            Step(
                "discloses it if enough people took part",
                "geoveil.aggregator.domain.estimates:disclose",
            ),
        ),
    ),
}
PARTS = (
    *("gp", "campaign", "client", "aggregator", "analyst"),
    *("console", "gateway", "relay", "simulation", "audit", "selection"),
)


def file_of(by: str) -> str:
    """Return the path of the file that defines a function, from the root of the project."""
    module, _, name = by.partition(":")
    found = importlib.import_module(module)
    for part in filter(None, name.split(".")):
        found = getattr(found, part)
    return Path(inspect.getsourcefile(found) or "").resolve().relative_to(ROOT).as_posix()


def sentence_of(part: str) -> str:
    """Return the purpose of a part: the first sentence of its package."""
    documentation = importlib.import_module(f"geoveil.{part}").__doc__ or ""
    return documentation.split("\n\n")[0].replace("\n", " ")


def text(x: float, y: float, words: str, style: str = "") -> str:
    """Return a line of text."""
    return f'<text x="{x:g}" y="{y:g}" {style}>{escape(words)}</text>'


def box(x: float, y: float, width: float, height: float, colour: str) -> str:
    """Return a rectangle with round corners."""
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="8" '
        f'fill="{colour}" stroke="#8795a1"/>'
    )


def column(index: int, title: str, colour: str, steps: Sequence[Step]) -> Iterator[str]:
    """Yield the shapes of one column of steps."""
    x = MARGIN + index * (COLUMN + GAP)
    yield text(x, TOP - 16, title, 'class="title"')
    for row, step in enumerate(steps):
        y = TOP + row * (STEP + BETWEEN)
        yield box(x, y, COLUMN, STEP, colour)
        yield text(x + 14, y + 25, step.does, 'class="does"')
        yield text(x + 14, y + 47, file_of(step.by), 'class="file"')
        if row:
            middle = x + COLUMN / 2
            yield f'<path d="M{middle:g} {y - BETWEEN + 1:g} v{BETWEEN - 3:g}" class="arrow"/>'


def picture() -> str:
    """Return the picture as SVG."""
    most = max(len(steps) for _, steps in WAY.values())
    below = TOP + most * (STEP + BETWEEN) + 34
    shapes = [text(MARGIN, 34, "The way of one report", 'class="heading"')]
    for index, (title, (colour, steps)) in enumerate(WAY.items()):
        shapes += column(index, title, colour, steps)
    shapes.append(text(MARGIN, below, "The parts", 'class="title"'))
    y = below + 12.0
    for part in PARTS:
        lines = textwrap.wrap(sentence_of(part), 118)
        shapes.append(text(MARGIN, y + 20, f"geoveil.{part}", 'class="file"'))
        for line in lines:
            y += 20
            shapes.append(text(MARGIN + 190, y, line, 'class="says"'))
        y += 6
    body = "\n".join(shapes)
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + 24:g}" \
font-family="Helvetica, Arial, sans-serif">
<title>The way of one report through geoveil</title>
<style>
.heading {{ font-size: 22px; font-weight: bold }}
.title {{ font-size: 17px; font-weight: bold }}
.does {{ font-size: 16px }}
.says {{ font-size: 15px }}
.file {{ font-size: 13px; font-family: monospace; fill: #34495e }}
.arrow {{ stroke: #8795a1; stroke-width: 2; marker-end: url(#head); fill: none }}
</style>
<defs><marker id="head" viewBox="0 0 6 6" refX="5" refY="3" markerWidth="6" markerHeight="6" \
orient="auto"><path d="M0 0 L6 3 L0 6 z" fill="#8795a1"/></marker></defs>
<rect width="100%" height="100%" fill="white"/>
{body}
</svg>
"""


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
    sys.stdout.write(f"{PICTURE.relative_to(ROOT)}\n")
