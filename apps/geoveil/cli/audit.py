"""geoveil audit: test whether every mechanism keeps its promise."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import Annotated

import typer
from rich.text import Text

from geoveil.audit import (
    ALPHA,
    AUDITED,
    FAILURE_PROBABILITY,
    Attack,
    AuditReport,
    AuditRequest,
    OutputAttack,
    Verdict,
    attacks,
    keeps,
)
from geoveil.cli.console import err, number, out, print_json, print_table
from geoveil.gp import ParameterError

_WIDTHS = (22, 15)
"""The widths of the first two columns, so that the table fits into 80."""

_KEEPS, _EXCEEDS = Text("keeps", "green"), Text("exceeds", "bold red")
_LEAST_P = 1e-99
"""Smaller p-values are shown as this."""


def audit(
    mechanism: Annotated[
        str | None, typer.Option(help="Only the rows of this one, e.g. SmoothMechanism.")
    ] = None,
    module: Annotated[
        Path | None,
        typer.Option(help="Audit the mechanisms of this Python file instead; it is run."),
    ] = None,
    faults: Annotated[
        bool,
        typer.Option("--faults", help="Audit faulty mechanisms and histories: all must be caught."),
    ] = False,
    attack: Annotated[
        bool,
        typer.Option("--attack", help="Attack float noise, exact release and its time."),
    ] = False,
    samples: Annotated[
        int | None,
        typer.Option(
            help="Reports to draw at each point of a pair; 100,000 by default. With --attack:"
            " releases to time at each place, 400 by default."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed draws the same reports.")] = 1,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON instead, with the points and outputs.")
    ] = False,
) -> None:
    """Try to refute the guarantee of every mechanism: from its densities, samples and releases.

    All numbers are fractions of the ε that a mechanism promises; above 1 it is broken. Status 0: no
    promise was refuted (with --faults: every faulty mechanism was caught); otherwise status 1.

    With --attack, three attacks on the computer instead of the mathematics: which outputs can be
    reached, how finely they are spaced, and how long a release takes. Status 0: the first two
    succeed on float noise and fail on release, and a time floor hides all differences in time.

    A file given by --module has functions of (query, privacy), each of which makes a mechanism, or
    of (epsilon, sensitivity), which make a selection mechanism: docs/comparing.md has both.

    Examples: geoveil audit; geoveil audit --mechanism DebiasedLaplace; geoveil audit --faults;
    geoveil audit --attack; geoveil audit --module wide.py
    """
    if attack:
        if faults or mechanism is not None or module is not None:
            raise ParameterError(
                "--attack", True, "alone, without --faults, --mechanism and --module"
            )
        raise typer.Exit(0 if run_attacks(samples, seed, as_json) else 1)
    request = AuditRequest(
        mechanism=mechanism,
        module=module,
        faults=faults,
        samples=100_000 if samples is None else samples,
        seed=seed,
    )
    cases, selecting = request.rows()
    with err.status(f"auditing {len(cases)} rows"):
        report = request.audited(cases, selecting)
    if as_json:
        print_json(report.to_dict())
    else:
        _print_selections(report.selected)
        if report.verdicts:
            _print_table(report)
            _conclude(report)
    if not report.sound:
        raise typer.Exit(1)


def _released(verdicts: Sequence[Verdict]) -> str:
    """Print the numbers of releases compared with their distribution, and of failures."""
    counts = sorted(v.draws.releases for v in verdicts if v.draws is not None)
    if not counts:
        return "No row releases integers with a known law."
    each = f"{counts[0]:,}" if counts[0] == counts[-1] else f"{counts[0]:,} to {counts[-1]:,}"
    return (
        f"Releases: {each} in each of {len(counts)} rows, {sum(counts):,} in all, half with a"
        " seed and half with the system's bits, follow the stated law of integers; any row that "
        f"does is refused with a probability of at most {FAILURE_PROBABILITY:g}."
    )


def _print_selections(selected: Mapping[str, float]) -> None:
    if not selected:
        return
    print_table(
        ("mechanism that selects", "found", "verdict"),
        ((name, _fraction(x), _KEEPS if keeps(x) else _EXCEEDS) for name, x in selected.items()),
        wrapped=[0],
        right=[1],
    )
    out.print(f"Found: {AUDITED}.")


def _name(verdict: Verdict) -> Text:
    variant = fill(verdict.variant.replace("reach ", "reach\N{NO-BREAK SPACE}"), _WIDTHS[0])
    return Text.assemble(verdict.mechanism, (variant and f"\n{variant}", "dim"))


def _print_table(report: AuditReport) -> None:
    print_table(
        ("mechanism", "query", "promise", "exact", "black box", "verdict"),
        (
            (
                _name(verdict),
                Text(fill(verdict.query, _WIDTHS[1])),
                verdict.privacy,
                _fraction(verdict.exact.fraction),
                _fraction(verdict.black_box.fraction),
                _word(verdict, report),
            )
            for verdict in report.verdicts
        ),
        wrapped=[2],
        right=(3, 4, 5),
        padding=0,
        pad_edge=True,
    )
    out.print(
        "1 is all of the promised ε. Exact: the largest log-ratio of densities that was found,"
        " over the ε promised at that distance; with a δ, the ε needed besides it. Black box: at "
        f"least this much is lost, as {report.request.samples:,} reports at each of two points "
        f"prove; all of these bounds, at {report.pairs} pairs of points, hold at once with"
        f" probability 1 − {FAILURE_PROBABILITY:g}. {_released(report.verdicts)} Seed:"
        f" {report.request.seed}."
    )


def _word(verdict: Verdict, report: AuditReport) -> Text:
    if report.request.faults:
        return Text("missed", "bold red") if verdict.keeps else Text("caught", "green")
    if not verdict.releases_agree:
        return Text("releases\nanother law", "bold red")
    if not verdict.keeps:
        return _EXCEEDS
    if comparison := report.disagreement(verdict):
        return Text("no such\ndensity" if comparison.difference else "not\ncompared", "bold red")
    return _KEEPS


def _fraction(value: float) -> str:
    return "∞" if value == math.inf else number(value, 3)


def _conclude(report: AuditReport) -> None:
    verdicts = report.verdicts
    another_law = [verdict for verdict in verdicts if not verdict.releases_agree]
    if report.request.faults:
        caught = sum(not verdict.keeps for verdict in verdicts)
        black_box = sum(verdict.caught for verdict in verdicts)
        out.print(
            f"{caught} of {len(verdicts)} faulty mechanisms were caught, {black_box} from their"
            f" reports alone and {len(another_law)} from what they release. Status 0 means all of"
            " them: this auditor can fail a mechanism."
        )
        _tell_releases(another_law)
        return
    keeping = sum(verdict.keeps and not report.disagreement(verdict) for verdict in verdicts)
    out.print(f"{keeping} of {len(verdicts)} keep their promise.")
    _tell_releases(another_law)
    out.tell_all(
        *(
            (
                (verdict.mechanism, "bold red"),
                f", {verdict.query}: look at output {_numbers(verdict.exact.y)} for"
                f" {_numbers(verdict.exact.x)} and {_numbers(verdict.exact.other)}",
            )
            for verdict in verdicts
            if not verdict.keeps and verdict.releases_agree
        ),
        *(
            (
                (row.mechanism, "bold red"),
                f", {row.query}: its reports are not drawn from its density: {row.difference}.",
            )
            for row in report.compared
            if row.difference
        ),
        *(
            (
                (row.mechanism, "bold"),
                f", {row.query}: at {row.skipped} of {row.points} points, reports were compared"
                f" with each other but not with the density: {' or '.join(row.reasons)}.",
            )
            for row in report.compared
            if row.skipped
        ),
    )
    out.paragraphs(
        "The exact number concerns the density, the black box the draws: where the two disagree, "
        "rely on neither number."
        if report.disagreeing
        else None
    )


def _tell_releases(verdicts: Sequence[Verdict]) -> None:
    out.tell_all(
        *(
            (
                (of.mechanism, "bold red"),
                f", {of.variant or of.query}: {of.draws.difference}",
            )
            for of in verdicts
            if of.draws is not None
        )
    )


def _numbers(point: tuple[float, ...]) -> str:
    text = ", ".join(f"{coordinate:.6g}" for coordinate in point)
    return text if len(point) == 1 else f"({text})"


def run_attacks(timing_samples: int | None, seed: int, as_json: bool) -> bool:
    """Attack outputs and times, print the results, and return whether all are as expected.

    Args:
        timing_samples: releases timed at each place; None for the usual number.
        seed: for outputs and orders.
        as_json: print JSON instead of a table.
    """
    count = attacks.TIMING_SAMPLES if timing_samples is None else timing_samples
    with err.status("attacking outputs and times"):
        rows: list[Attack] = [
            *attacks.attack_outputs(seed=seed),
            *attacks.attack_times(samples=count, seed=seed),
        ]
    if as_json:
        made = {"attack": True, "timing_samples": count, "seed": seed, "failure_probability": ALPHA}
        print_json(made | {"rows": [row.to_dict() for row in rows]})
    else:
        print_table(
            ("attack", "mechanism", "path", "n", "found", "permitted", "verdict"),
            (
                (
                    row.attack,
                    row.mechanism,
                    row.path,
                    f"{row.samples:,}",
                    *_bounds(row),
                    _outcome(row),
                )
                for row in rows
            ),
            wrapped=(0, 1, 2, 6),
            right=(3, 4, 5),
            padding=0,
        )
        _explain(rows)
    return all(row.as_it_must for row in rows)


def _bounds(row: Attack) -> tuple[str, str]:
    if isinstance(row, OutputAttack):
        return f"ε ≥ {number(row.guesses.epsilon, 3)}", f"ε = {number(row.promised, 3)}"
    p_value = f"p = {row.p_value:.0e}" if row.p_value > _LEAST_P else f"p < {_LEAST_P:.0e}"
    return p_value, f"p ≥ {row.threshold:.0e}"


def _outcome(row: Attack) -> Text:
    if not row.as_it_must:
        return Text("succeeds" if row.succeeds else "fails", "bold red")
    if not row.succeeds:
        return Text("fails", "green")
    by_output = isinstance(row, OutputAttack)
    return (
        Text("succeeds, as it must", "green") if by_output else Text("succeeds: pace it", "yellow")
    )


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
        "simulate is for experiments: attacks on it must succeed, those on release must fail. ε: "
        "at least this much is lost, as the guesses prove; n outputs of each of two inputs. "
        "Times: n"
        " releases at each of eight places, in random order, on this machine as busy as it is; the"
        " least p-value of rank tests of seven places against one. A floor (`geoveil.gp.paced`)"
        " must hide what they find; without one, times do not count for the status. By chance"
        f" alone an attack on outputs, or on times, succeeds with probability at most {ALPHA:g}."
    )
    out.print(f"{sum(row.as_it_must for row in rows)} of {len(rows)} attacks ended as they must.")
