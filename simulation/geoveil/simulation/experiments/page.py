"""docs/results.md: the tables of all experiments, each with the command that makes it."""

import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from geoveil.simulation.distribution.page import distribution_section
from geoveil.simulation.epochs.experiment import EpochRow
from geoveil.simulation.epochs.page import epochs_section
from geoveil.simulation.experiments.published import ratio_table
from geoveil.simulation.experiments.rows import LOCAL, ORIGINS, ErrorRow
from geoveil.simulation.result_tables import read_csv

_HEAD = """# Results

The experiments of Liang and Yi, *Smooth Sensitivity for Geo-Privacy* (CCS 2024), with their
mechanisms and with geoveil's, at the same ε. This page is written by

```sh
geoveil simulate results --out docs
```

and every table says which command makes it alone. The paper's are followed by a comparison with
ε-LDP on whole distributions. All numbers of the paper's experiments are expectations over people
and noise, computed from the exact mean and variance of each mechanism at each value, not simulated;
`--mode monte-carlo` draws everything instead, and agrees within its sampling error (that is a
test). Numbers of n and of ε are those of the paper; the figures and the CSV files beside them
have all of them.
"""

_NOTES = """## How to read them

* **One threshold.** The error is taken against the *hard* threshold, as in the paper. All soft
  thresholds share a bias: people in the band count in part, and one household in a hundred has
  exactly 100,000 dollars, which is not above it. At T = 100,000 that bias is 89 to 98 % of the
  error of the paper's Student-t mechanism at n = 1.6 million, and no noise, however small,
  removes it; the noise itself is 6 to 40 times less with LaplacePareto and 4 to 77 times less
  with DebiasedLaplace. At T = 10,000 GP_loc is the most accurate without a prior, because two
  biases cancel there. "aimed" lets a public survey choose centre and width, for the paper's
  Student-t as for geoveil; the survey is simulated, 100,000 households from the same census.
* **Pairs of thresholds.** "deconvolved" spends ε once, where all others but GP_loc spend it at
  each of 1,156 thresholds. The width of its band was chosen on this population.
* **Densities.** ε for each centre means 3,721 ε for each person. If everybody spends ε once, the
  best of the paper's is plain perturbed points, whose bias stays however many people take part;
  the same points with the noise undone have no bias, so that the factor grows with n.
* **ε-LDP** has another guarantee: a report changes the odds of any two values by at most e^ε,
  however far apart they are. It is shown, as in the paper, on an
  [equal footing](guarantees.md#against-ε-ldp-an-equal-footing) at one distance Δ, with ε·Δ:
  $1,200, $12,000, $24,000 and $48,000 for the four thresholds in turn, $12,000 for pairs and
  1,000 m for densities. Pairs of values nearer than Δ it hides less than the others do, farther
  ones more, so it takes part in no ratio.

## A billion devices

```sh
geoveil simulate scale --devices 1000000000
```

One campaign about incomes with 10⁹ simulated participants, on two cores shared with other work:
128 s, of which 86 s of the workers' processor time, and 0.31 GB for all processes together. The
estimate was 0.491834 ± 0.000017, the truth is 0.491841. The integer sums have the same bits on any
number of workers of one kind of processor. Extrapolated from measured costs (77 ns for a device,
2.6 ms for handing out a group), 100 workers need 1 to 2 seconds for 10⁹ devices and about 80
seconds for 10¹¹, without the network; `python -m benchmarks scale` measures it where you are.

## What does not match the paper, and why

* **The incomes** are the Census Bureau's ACS 2024 PUMS, not the IPUMS extract of 2022, which may
  not be redistributed: shapes agree, digits do not.
* **People.** Each repetition draws its own people, with replacement; the paper draws once for
  each n. The kernels' grid lies over the population's box, not each sample's, and n = 400,000
  repeats collisions.
* **Mercator metres.** The kernels use spherical Mercator metres, as the paper does; in New York
  they are 1.32 times true metres, so ε is 1.32 times what it says per true metre. geoveil's own
  campaigns calibrate in true metres.
* **The kernel's smooth bound.** The published list of candidates misses the maximum, and the
  published code is up to 10 % too low at these settings; here the paper's mechanisms run with the
  correct bound, which raises their error by 1 to 6 % and is what their guarantee needs.
* **Monte Carlo** draws every report, so for grids it covers a part of the centres; the tables are
  the exact mode. The two-way grid is exact over the noise, and a lattice over people (standard
  errors of 2 to 4 % in the CSV).
"""


_PEOPLE = 1_600_000
"""The n that the page's tables of thresholds show; the figures and the CSV files have all."""


@dataclass(frozen=True, slots=True)
class Section:
    """One experiment on the page."""

    title: str
    command: str
    figures: Mapping[str, str]
    """Path from the page → what it shows."""
    rows: Sequence[ErrorRow]
    keep: Callable[[ErrorRow], bool]
    """Which rows the table shows; the CSV has all."""


def results_page(
    sections: Sequence[Section],
    distributions: Sequence[ErrorRow] = (),
    epochs: Sequence[EpochRow] = (),
) -> str:
    """Return the page as Markdown.

    Args:
        sections: on the paper's experiments.
        distributions: the rows of `geoveil simulate distribution`, for a section of their own.
        epochs: those of `geoveil simulate epochs`, likewise.
    """
    parts = [_HEAD, *(_section(section) for section in sections), _NOTES]
    if distributions:
        parts.append(distribution_section(distributions))
    if epochs:
        parts.append(epochs_section(epochs))
    return "\n".join(parts)


def _section(section: Section) -> str:
    lines = [f"## {section.title}", "", "```sh", section.command, "```", ""]
    for path, text in section.figures.items():
        lines += [f"![{text}]({path})", ""]
    shown = [row for row in section.rows if section.keep(row)]
    ratios = ratio_table(shown, prior="with a prior").markdown()
    said = f"The best of the paper's mechanisms over the best of geoveil's ({LOCAL} left out):"
    return "\n".join([*lines, *_errors(shown), "", said, "", ratios, ""])


def _errors(rows: Sequence[ErrorRow]) -> list[str]:
    """Return the error of every mechanism in every setting."""
    order = {origin: place for place, origin in enumerate(ORIGINS)}
    names = sorted({(order[row.origin], row.mechanism) for row in rows})
    # In the order in which they first come up, the seed paper's before geoveil's.
    first = {row.mechanism: place for place, row in reversed(list(enumerate(rows)))}
    mechanisms = [name for _, name in sorted(names, key=lambda pair: (pair[0], first[pair[1]]))]
    found = {(row.panel, row.n, row.mechanism): row.error for row in rows}
    settings = list(dict.fromkeys((row.panel, row.n) for row in rows))
    lines = [
        f"{rows[0].measure}:",
        "",
        "| setting | n | " + " | ".join(mechanisms) + " |",
        "|---|---|" + "---|" * len(mechanisms),
    ]
    for panel, n in settings:
        values = (found.get((panel, n, name), math.nan) for name in mechanisms)
        cells = " | ".join("–" if math.isnan(value) else f"{value:.2e}" for value in values)
        lines.append(f"| {panel} | {n:,} | {cells} |")
    return lines


def write_page(work: Path, directory: Path) -> Path:
    """Put the experiments on one page with figures.

    Args:
        work: where all three have been written, in exact mode, and the tables of distributions
            and of answers over time.
        directory: for results.md and, below it, images/.
    """
    images = directory / "images"
    images.mkdir(parents=True, exist_ok=True)
    sections = [
        _read(work, "oneway", "One threshold on incomes", images, _PEOPLE),
        _read(work, "twoway", "Pairs of thresholds on incomes and debts", images, _PEOPLE),
        _read(work, "kde", "Densities of collisions in New York", images, None),
    ]
    page = directory / "results.md"
    distributions = read_csv(work / "distribution.csv", ErrorRow)
    epochs = read_csv(work / "epochs.csv", EpochRow)
    shutil.copyfile(work / "epochs.png", images / "epochs.png")
    page.write_text(results_page(sections, distributions, epochs), encoding="utf-8")
    return page


def _read(work: Path, name: str, title: str, images: Path, people: int | None) -> Section:
    figures = {}
    for suffix, text in (("", "error of every mechanism"), ("-ratios", "error ratios")):
        file = f"{name}-exact{suffix}.png"
        shutil.copyfile(work / file, images / file)
        figures[f"images/{file}"] = f"{title}: {text}"
    maps = sorted(work.glob(f"{name}-map-*.png"))
    for drawn in maps:
        shutil.copyfile(drawn, images / drawn.name)
        figures[f"images/{drawn.name}"] = f"{title}: one run of each mechanism, every report drawn"
    return Section(
        title=title,
        command=f"geoveil simulate {name}" + (" --maps default" if maps else ""),
        figures=figures,
        rows=read_csv(work / f"{name}-exact.csv", ErrorRow),
        keep=lambda row: people is None or row.n == people,
    )
