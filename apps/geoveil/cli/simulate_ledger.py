"""geoveil simulate ledger, tuned: the papers' results beside geoveil's, and at their own best."""

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from geoveil.analyst import whole_file
from geoveil.cli.console import bars, err, out, print_json, print_table
from geoveil.cli.simulate_experiments import ProcessCount, Quick, Seed, processes_of, show_table
from geoveil.gp import ParameterError, validation
from geoveil.simulation.experiments.tuned import (
    CAUCHY,
    STUDENT_T,
    densities,
    pairs,
    thresholds,
    tuned_table,
)
from geoveil.simulation.ledger import (
    HEADERS,
    LEDGER,
    UNTESTED,
    VERDICTS,
    Reproduction,
    check_data,
    ledger_page,
    line_of,
    reproduce,
    summary_of,
)
from geoveil.simulation.selection.experiment import Options

_NOISES = {"student-t": STUDENT_T, "generalized-cauchy": CAUCHY}


def ledger(
    row: Annotated[
        list[str] | None,
        typer.Option(help="Only this figure or table, for example sps-table-2; may be repeated."),
    ] = None,
    data: Annotated[
        list[Path] | None,
        typer.Option(help="Data that is not included: graphs, tables; may be repeated."),
    ] = None,
    directory: Annotated[
        Path | None, typer.Option("--out", help="Directory for reproductions.md; none by default.")
    ] = None,
    seed: Seed = 1,
    quick: Quick = False,
    processes: ProcessCount = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
) -> None:
    """Every figure and table of the papers: the published number, geoveil's, the ratio, the reason.

    Without --row all of them: minutes of one processor, or one minute with --quick.

    Example: geoveil simulate ledger --row sps-table-2
    """
    for name in row or ():
        validation.choice("row", name, LEDGER)
    for file in data or ():
        if not file.is_file():
            raise ParameterError("data", str(file), "a file")
        check_data(file)
    options = Options(data=tuple(data or ()), seed=seed, quick=quick)
    names = tuple(dict.fromkeys(row or LEDGER))
    by_name = {}
    with bars() as progress:
        task = progress.add_task("ledger", total=len(names))
        for name, own in processes_of(processes)(partial(reproduce, options=options), names):
            by_name[name] = own
            progress.advance(task)
    done = [by_name[name] for name in names]
    if directory is not None:
        directory.mkdir(parents=True, exist_ok=True)
        page = directory / "reproductions.md"
        text = ledger_page(done, [file.name for file in options.data])
        with whole_file("--out", page) as beside:
            beside.write_text(text, encoding="utf-8")
        err.print(f"written: {page}")
    if as_json:
        print_json([reproduced.as_json() for reproduced in done])
    elif row:
        for reproduced in done:
            _show(reproduced)
    else:
        _show_all(done)
    numbers = (number for reproduced in done for number in reproduced.compared)
    left_out = (number for number in numbers if number.verdict == UNTESTED and not number.why)
    if quick and not as_json and any(left_out):
        out.print(f"{UNTESTED}: it takes data that do not ship, or is left out by --quick.")


def _show_all(done: Sequence[Reproduction]) -> None:
    rows = (
        (of.name, of.what, *(str(of.count(v) or "–") for v in VERDICTS), f"{of.seconds:.1f}")
        for of in done
    )
    print_table(("row", "shows", *VERDICTS, "seconds"), rows, wrapped=[1])
    show_table(summary_of(done))
    out.print("Each row's numbers, and why they differ: geoveil simulate ledger --row NAME")


def _show(row: Reproduction) -> None:
    if row.compared:
        title = f"[{row.paper}] {row.item}: {row.what}"
        how: dict[str, Any] = {"title": title, "title_justify": "left"}
        lines = map(line_of, row.compared)
        print_table(HEADERS, lines, wrapped=[0, 5], right=range(2, 5), **how)
        out.print(
            "agrees: at most 2 standard errors of both together, or what rounding allows, apart;"
            " ≤ and ≥ are bounds. Sources: "
            + "; ".join(dict.fromkeys(compared.source for compared in row.compared))
            + "."
        )
    else:
        out.print(f"[{row.paper}] {row.item}: {row.what}. No numbers.")
    out.print(row.reason)
    for why in row.untested:
        out.print(f"Not tested: {why}")
    if row.needs:
        out.print(f"With --data: {row.needs}.")
    if row.command:
        out.print(f"The whole {row.kind}: {row.command}")


def tuned(
    quick: Quick = False,
    noise: Annotated[
        str, typer.Option(help="The paper's noise: student-t or generalized-cauchy.")
    ] = "student-t",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
) -> None:
    """Print the ratio of the paper's noise to geoveil's, as published and tuned.

    The command tunes the shape of Student-t noise, ν, or of generalized Cauchy noise, γ, and the
    split of ε on the people of the experiment. It takes a threshold on incomes first. Without
    --quick it then compares the whole error of pairs of thresholds and of densities, which takes
    two to three minutes.

    Example: geoveil simulate tuned --quick
    """
    peer = validation.choice("noise", noise, _NOISES)
    settings = {"thresholds": thresholds(noise=_NOISES[peer])}
    if not quick:
        settings["pairs"] = pairs(noise=_NOISES[peer])
        settings["densities"] = densities(noise=_NOISES[peer])
    if as_json:
        print_json({name: [asdict(s) for s in rows] for name, rows in settings.items()})
        return
    for rows in settings.values():
        show_table(tuned_table(rows, "γ" if _NOISES[peer] == CAUCHY else "ν"))
