"""The table of `geoveil audit --attack`."""

import json
from collections.abc import Sequence

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from geoveil.audit import attacks
from geoveil.audit.attacks import ALPHA, Attack, OutputAttack
from geoveil.cli.console import err, number, out

_LEAST_P = 1e-99
"""Smaller p-values are shown as this."""


def run_attacks(timing_samples: int | None, seed: int, as_json: bool) -> bool:
    """Attack outputs and times, print what was found, and return whether all ended as they must.

    Args:
        timing_samples: releases timed at each place; None for the usual number.
        seed: for outputs and orders.
        as_json: print JSON instead of a table.
    """
    count = attacks.TIMING_SAMPLES if timing_samples is None else timing_samples
    with err.status("attacking outputs and times"):
        times = attacks.attack_times(samples=count, seed=seed)
        rows: list[Attack] = [*attacks.attack_outputs(seed=seed), *times]
    if as_json:
        report = {
            "attack": True,
            "timing_samples": count,
            "seed": seed,
            "failure_probability": ALPHA,
            "rows": [row.to_json() for row in rows],
        }
        typer.echo(json.dumps(report, indent=2, allow_nan=False))
    else:
        _print_table(rows)
        _explain(rows)
    return all(row.as_it_must for row in rows)


def _print_table(rows: Sequence[Attack]) -> None:
    headers = ("attack", "mechanism", "path", "n", "found", "permitted", "verdict")
    table = Table(*headers, box=SIMPLE_HEAD, padding=0, pad_edge=False)
    for column in (table.columns[3], *table.columns[4:6]):
        column.justify = "right"
        column.no_wrap = True
    for row in rows:
        found, permitted = _numbers(row)
        table.add_row(
            row.attack,
            row.mechanism,
            row.path,
            f"{row.samples:,}",
            found,
            permitted,
            _word(row),
        )
    out.print(table)


def _numbers(row: Attack) -> tuple[str, str]:
    if isinstance(row, OutputAttack):
        return f"ε ≥ {number(row.guesses.epsilon, 3)}", f"ε = {number(row.promised, 3)}"
    found = f"p = {row.p_value:.0e}" if row.p_value > _LEAST_P else f"p < {_LEAST_P:.0e}"
    return found, f"p ≥ {row.threshold:.0e}"


def _word(row: Attack) -> Text:
    word = "succeeds" if row.succeeds else "fails"
    if not row.as_it_must:
        return Text(word, "bold red")
    if not row.succeeds:
        return Text(word, "green")
    if isinstance(row, OutputAttack):
        return Text(f"{word}, as it must", "green")
    return Text(f"{word}: pace it", "yellow")


def _explain(rows: Sequence[Attack]) -> None:
    for row in rows:
        if isinstance(row, OutputAttack) and row.unreachable is not None:
            out.print(
                f"{row.mechanism}, {row.path}: {row.guesses.right:.1%} of guesses from one"
                f" output are right, {row.permitted_right:.1%} are permitted;"
                f" {row.unreachable:.0%} of outputs are impossible for the other input."
            )
        elif not isinstance(row, OutputAttack) and row.succeeds:
            floor = "" if row.floor is None else f" with a floor of {row.floor * 1e6:,.0f} µs"
            out.print(
                f"{row.mechanism}{floor}: medians from"
                f" {min(row.medians.values()) * 1e6:.1f} to"
                f" {max(row.medians.values()) * 1e6:.1f} µs by place."
            )
    out.print(
        "simulate is for experiments: attacks on it must succeed, those on release must fail. ε: at"
        " least so much is lost, as the guesses prove; n outputs of each of two inputs. Times: n"
        " releases at each of eight places, in random order, on this machine as busy as it is; the"
        " least p-value of rank tests of seven places against one. A floor (`geoveil.gp.paced`)"
        " must hide what they find; without one, times do not count for the status. By chance"
        f" alone an attack on outputs, or on times, succeeds with probability at most {ALPHA:g}."
    )
    good = sum(row.as_it_must for row in rows)
    out.print(f"{good} of {len(rows)} attacks ended as they must.")
