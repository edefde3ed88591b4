"""geoveil demo: the whole path once, on real data."""

import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from geoveil.analyst import Prediction, whole_file
from geoveil.campaign import rounded_up
from geoveil.cli import options
from geoveil.cli.console import bars, err, number, out, print_json, print_table
from geoveil.cli.results import check_picture
from geoveil.gp import ParameterError, validation
from geoveil.simulation.demo import (
    FOOTINGS,
    WHOLE_CLIENTS,
    DemoRow,
    contribute,
    experiments,
    in_halves,
    rows_of,
    running_demo,
)


def demo(
    devices: Annotated[
        int, typer.Option(help="Simulated devices, half for each question.")
    ] = 20_000,
    figure: Annotated[Path, typer.Option(help="File for the figure (PNG, SVG or PDF).")] = Path(
        "demo.png"
    ),
    seed: Annotated[
        int | None,
        typer.Option(help="Seed of the participants; their noise is always fresh."),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Real incomes and places in, unbiased estimates out, through the real server and SDK.

    Starts an aggregator, creates two campaigns, lets every simulated device perturb the value of a
    real household or collision and submit it, and compares the estimates with the truth.

    400 of the devices run the whole SDK. The others draw their reports with the same code, and a
    thousand of these go in a request.
    """
    validation.between("devices", devices, 40, 10_000_000)
    check_picture("--figure", figure)
    if not figure.parent.is_dir():
        raise ParameterError("figure", str(figure), "in a directory that exists")
    started = time.monotonic()
    every = experiments()
    whole = min(WHOLE_CLIENTS, devices)
    err.paragraphs(
        f"{devices:,} devices; the values are real, and never leave their device in the clear",
        f"{whole:,} of them run the whole SDK; {devices - whole:,} draw their reports with the same"
        " code, which are sent in batches",
    )
    with running_demo(every) as (server, analyst):
        err.print(f"aggregator at {server}, SQLite")
        with bars(counted=True) as progress:
            tasks = {
                experiment.campaign.campaign_id: progress.add_task(
                    experiment.campaign.title, total=count
                )
                for experiment, count in zip(every, in_halves(devices), strict=True)
            }
            contribute(
                server,
                every,
                devices,
                np.random.default_rng(seed),
                lambda of, reports: progress.advance(tasks[of.campaign.campaign_id], reports),
            )
        with err.status("computing what other mechanisms would give"):
            rows = rows_of(analyst, every)
    if as_json:
        print_json({"campaigns": [row.to_dict() for row in rows]})
    else:
        _print_estimates(rows)
        _print_competitors(rows)
        _print_footings([rows[0], rows[1]])
    from geoveil.simulation.figures.demo import draw_demo

    with whole_file("--figure", figure) as beside:
        draw_demo(every[0], every[1], rows, beside)
    err.print(f"figure: {figure}; {time.monotonic() - started:.0f} s in all")


def _print_estimates(rows: Sequence[DemoRow]) -> None:
    epsilon = rows[0].estimate.privacy.epsilon  # the same for both questions
    print_table(
        ("", "soft", "hard", "answer", "95 % interval", "n", f"ε = {epsilon:g} per"),
        (
            (
                row.estimate.label,
                number(row.truth),
                number(row.hard_truth),
                out.styled((number(row.estimate.possible), "bold")),
                f"{number(row.estimate.ci_low)}–{number(row.estimate.ci_high)}",
                f"{row.estimate.n:,}",
                f"{row.estimate.privacy.per:,g} {row.estimate.privacy.unit}",
            )
            for row in rows
        ),
    )
    out.print(
        "Soft: the true value that the interval is for, the mean of the soft query over the "
        "population."
        " Hard: the share that the hard question asks for, in the same population. The difference "
        "between the two is not an error of the estimate, and no interval here shows it. 'geoveil "
        "plan' places the band where the two agree, as far as is publicly known."
    )


def _print_competitors(rows: Sequence[DemoRow]) -> None:
    table = []
    for row in rows:
        n, (ours, *others) = row.estimate.n, row.predictions.values()
        table.append(
            [
                row.estimate.label,
                number(_standard_error(ours, n)),
                *[f"{number(_standard_error(p, n))} {p.noise / ours.noise:4.3g}×" for p in others],
            ]
        )
    print_table(("standard error", *rows[0].predictions), table)
    out.print(
        "DebiasedLaplace ran here;"
        " the Student-t mechanism of Liang and Yi (CCS 2024) and Lipschitz-Laplace would have the"
        " same ε per distance."
        " The table shows the standard error at the same n, noise and sampling together, and the "
        "noise's"
        " variance against DebiasedLaplace."
    )


def _print_footings(rows: Sequence[DemoRow]) -> None:
    """Print the odds and the noise of ε-LDP at each footing."""
    epsilons = [rows[0].estimate.privacy.epsilon * scales for scales in FOOTINGS]  # of both
    headers = ("odds of values apart by", "geo-privacy", *(f"ε-LDP ε={e:g}" for e in epsilons))
    table = []
    for scales, epsilon in zip(FOOTINGS, epsilons, strict=True):
        apart = [
            (f"{scales * row.estimate.privacy.per:,g} {row.estimate.privacy.unit}", odds)
            for row in rows
            for odds in [_odds(min(epsilon, row.any_two))]
        ]
        table += [
            [" or ".join(of for of, its in apart if its == odds), odds, *map(_odds, epsilons)]
            for odds in dict.fromkeys(odds for _, odds in apart)
        ]
    ours = [next(iter(row.predictions.values())) for row in rows]
    table += [
        [f"noise: {row.estimate.label}", "1×", *(_factor(of.noise / own.noise) for of in row.local)]
        for row, own in zip(rows, ours, strict=True)
    ]
    print_table(headers, table, right=range(1, len(headers)))
    out.print(
        "Odds: by how much one report can change the odds of two values, whatever was known before."
        " Noise: the variance that ε-LDP would add, by randomised response or the piecewise"
        " mechanism, whichever adds less, against DebiasedLaplace."
        " Each ε-LDP is on an equal footing with the campaigns at one distance: it hides nearer "
        "pairs less, farther ones more. The campaign about incomes has a cap of 4 noise scales a"
        " side, as by default."
    )


def _standard_error(found: Prediction, n: int) -> float:
    """Return the standard error of the mean of n reports of people drawn at random."""
    return math.sqrt((found.noise + found.varied) / n)


def _odds(log_odds: float) -> str:
    """Return odds to two digits, rounded up."""
    return _factor(rounded_up(math.exp(log_odds), 2))


def _factor(factor: float) -> str:
    """Return a factor to two digits."""
    return f"{float(f'{factor:.2g}'):,g}×"
