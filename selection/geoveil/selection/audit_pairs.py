"""Scores of neighbouring databases, for an auditor to go through. All of them are synthetic."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from typing import TypeVar

import numpy as np

from geoveil.gp import validation
from geoveil.gp.errors import ParameterError
from geoveil.selection.base import Array
from geoveil.selection.scores import LocalUtilities, Margin, Scores, Utilities

_Some = TypeVar("_Some", bound=Scores)

LEVELS = (0.0, 0.5, 1.0, 2.0, 5.0, 40.0)
"""Utilities in units of their sensitivity: equal, near, and far apart."""


def utility_pairs(
    outcomes: int,
    sensitivity: float,
    *,
    monotone: bool = False,
    levels: Sequence[float] = LEVELS,
) -> Iterator[tuple[Utilities, Utilities]]:
    """Yield u and u' with every u'_r − u_r in {−Δ, 0, Δ}, or in {0, Δ} for monotone utilities.

    Args:
        outcomes: m ≥ 1.
        sensitivity: Δ > 0.
        monotone: whether all utilities move the same way.
        levels: what each u_r may be, in units of Δ.

    Raises:
        ParameterError: if an argument is out of range.
    """
    _require_count("outcomes", outcomes)
    unit = validation.positive("sensitivity", sensitivity)
    steps = (0, 1) if monotone else (-1, 0, 1)
    grid = validation.numbers("levels", levels)
    for values in product(grid, repeat=outcomes):
        base = np.asarray(values) * unit
        first = Utilities(base)
        for change in product(steps, repeat=outcomes):
            yield first, Utilities(base + unit * np.asarray(change))


def margin_pairs(outcomes: int, most: int) -> Iterator[tuple[Margin, Margin]]:
    """Yield margins of neighbours: one winner and j, j + 1; and two winners, j and j' in {0, 1}.

    Args:
        outcomes: m ≥ 1.
        most: the largest j, ≥ 1.

    Raises:
        ParameterError: if an argument is out of range.
    """
    _require_count("outcomes", outcomes)
    _require_count("most", most)
    for margin in range(most):
        yield Margin(0, margin, outcomes), Margin(0, margin + 1, outcomes)
    if outcomes > 1:
        for first, second in product((0, 1), repeat=2):
            yield Margin(0, first, outcomes), Margin(1, second, outcomes)


def database_pairs(
    values: int, records: int, scores: Callable[[tuple[int, ...]], _Some]
) -> Iterator[tuple[_Some, _Some]]:
    """Yield the scores of all pairs of small databases that differ in one record.

    Args:
        values: how many values a record may have, ≥ 2.
        records: n ≥ 1; there are values^n databases.
        scores: what is known of a database, a tuple of n integers from 0.

    Raises:
        ParameterError: if an argument is out of range.

    Example:
        >>> len(list(database_pairs(2, 3, lambda records: Utilities([sum(records)]))))
        12
    """
    _require_count("values", values, least=2)
    _require_count("records", records)
    known = {records: scores(records) for records in product(range(values), repeat=records)}
    for database, own in known.items():
        for place, old in enumerate(database):
            for new in range(old + 1, values):
                yield own, known[(*database[:place], new, *database[place + 1 :])]


def admissible(pairs: Iterable[tuple[LocalUtilities, LocalUtilities]], changes: int) -> bool:
    """Return whether sensitivities are admissible between all of these neighbours [LD Def. 3.3].

    Both conditions, both ways round, with δ(x, t, ·) for t from 0 to `changes`; a table has to be
    that long.

    Args:
        pairs: neighbours.
        changes: the largest t, ≥ 1.

    Raises:
        ParameterError: if `changes` is out of range, or a table ends before.
    """
    _require_count("changes", changes)
    for pair in pairs:
        moved = np.abs(pair[0].values - pair[1].values)
        tables = [[_row(scores, t) for t in range(changes + 1)] for scores in pair]
        for own, other in (tables, tables[::-1]):
            if (own[0] < moved).any():
                return False
            if any((own[t + 1] < other[t]).any() for t in range(changes)):
                return False
    return True


def _row(scores: LocalUtilities, changes: int) -> Array:
    row = scores.sensitivity(changes)
    if row is None:
        raise ParameterError("changes", changes, "within every table of sensitivities")
    return row


def _require_count(name: str, value: object, least: int = 1) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ParameterError(name, value, f"an integer >= {least}")
