"""geoveil compare: compare geoveil with other packages at one task."""

from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from geoveil.audit import mechanisms_in
from geoveil.cli import options
from geoveil.cli.console import err, out, print_json
from geoveil.cli.simulate_experiments import Quick, Seed, show_table, write_text
from geoveil.gp import __version__
from geoveil.simulation.peers import PACKAGES, compare_peers, peers_page, peers_table, version_of


def compare(
    n: Annotated[int, typer.Option("--participants", "-n", help="People, at least 100.")] = 5_000,
    repetitions: Annotated[int, typer.Option(help="Reports of each person, at least 2.")] = 40,
    samples: Annotated[
        int, typer.Option(help="Reports that the audit draws for each income, at least 1,000.")
    ] = 10_000,
    module: Annotated[
        Path | None,
        typer.Option(help="Add the mechanisms of this Python file; it is run."),
    ] = None,
    directory: Annotated[
        Path | None, typer.Option("--out", help="Directory for peers.md; none by default.")
    ] = None,
    seed: Seed = 1,
    quick: Quick = False,
    as_json: options.AsJson = False,
) -> None:
    """Compare geoveil with other packages: the error, the time and the audited ε of each.

    OpenDP, diffprivlib and pure-LDP take part if they are installed, as geoveil's extra "peers"
    does. All learn the share of incomes above $100,000, and the shares above ten thresholds, from
    one report of each person. Two minutes of one processor; seconds with --quick.
    """
    own = {} if module is None else mechanisms_in(module)
    people, times, drawn = (1_000, 5, 1_000) if quick else (n, repetitions, samples)
    sizes = {"n": people, "repetitions": times, "samples": drawn}
    rows = []
    with err.status("comparing") as shown:
        for row in compare_peers(**sizes, seed=seed, own=own):
            rows.append(row)
            shown.update(f"comparing: {row.name} is done")
    if missing := [name for name in PACKAGES if version_of(name) is None]:
        err.print(f"not installed: {', '.join(missing)}; pip install 'geoveil[peers]'")
    if directory is not None:
        about = (
            f"{datetime.now(UTC):%Y-%m-%d}, geoveil {__version__}: {sizes['n']:,} people, each of"
            f" whom reported {sizes['repetitions']} times; the audit saw {sizes['samples']:,}"
            " reports of each income."
        )
        write_text(directory / "peers.md", peers_page(rows, about))
    if as_json:
        print_json([asdict(row) for row in rows])
    else:
        show_table(peers_table(rows))
        out.print(
            "Error: root mean squared error of the hard share of participants above one threshold,"
            " and above each of ten; ±: its standard error. Bias: the mean error above the one. µs:"
            " of a processor for a report. Proven: the part of the promised ε that outputs prove to"
            " be used; above 1 the promise is broken."
        )
