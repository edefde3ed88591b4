"""What the experiments of private selection give: one row per setting, mechanism and ε."""

import csv
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from geoveil.gp import ParameterError, validation

KEPT = "equal ε"
"""The mechanism keeps the ε of its row, by proof."""
NOMINAL = "paper, nominal"
"""The mechanism as a paper prints it: its ε is what the paper says, whatever it keeps."""
OPEN = "no privacy"
"""What there is without a mechanism, as a level to compare with."""
STANDINGS = (KEPT, NOMINAL, OPEN)
MODES = ("exact", "monte-carlo")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """How well one mechanism does in one setting.

    Raises:
        ParameterError: if a number is out of range.
    """

    application: str
    dataset: str
    setting: str
    """What else is fixed: for example "p=50" or "k=5"."""
    mechanism: str
    standing: str
    """One of `STANDINGS`."""
    epsilon: float
    """The axis of comparison, in nats per changed record."""
    proved_epsilon: float
    """What is proved of the mechanism; infinite if nothing is."""
    delta: float = 0.0
    measure: str
    value: float
    standard_error: float = 0.0
    """Of `value`; 0 if nothing was drawn."""
    mode: str = "exact"
    """One of `MODES`: exact over the noise, or drawn."""

    def __post_init__(self) -> None:
        validation.choice("standing", self.standing, STANDINGS)
        validation.choice("mode", self.mode, MODES)
        validation.positive("epsilon", self.epsilon)
        if not self.proved_epsilon > 0:
            raise ParameterError("proved_epsilon", self.proved_epsilon, "a number > 0")
        # The proofs round up; 1e-9 is far more than that.
        if self.standing == KEPT and self.proved_epsilon > self.epsilon * (1 + 1e-9):
            raise ParameterError("proved_epsilon", self.proved_epsilon, f"at most {self.epsilon:g}")

    @classmethod
    def averaged(cls, values: ArrayLike, **rest: Any) -> Self:
        """Return the row of a mean, with its standard error where there are two values or more.

        Args:
            values: of repetitions, shape (n,), n ≥ 1.
            rest: all else that a row says.

        Raises:
            ParameterError: if a number is out of range.
        """
        found = np.asarray(values, dtype=np.float64)
        spread = float(found.std(ddof=1)) if len(found) > 1 else 0.0
        error = spread / math.sqrt(len(found))
        return cls(value=float(found.mean()), standard_error=error, **rest)


COLUMNS = tuple(field.name for field in fields(Row))


def write_csv(rows: Iterable[Row], file: Path) -> None:
    """Write a table as CSV, with a header."""
    with file.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, COLUMNS)
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)


def write_json(rows: Iterable[Row], file: Path) -> None:
    """Write a table as JSON, a list of objects; what is infinite is null."""
    table = [
        {name: None if value == math.inf else value for name, value in asdict(row).items()}
        for row in rows
    ]
    file.write_text(json.dumps(table, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def panels(rows: Sequence[Row]) -> list[tuple[str, str]]:
    """Return the pairs of dataset and setting, in the order in which they come up."""
    return list(dict.fromkeys((row.dataset, row.setting) for row in rows))


def mechanisms(rows: Sequence[Row]) -> list[tuple[str, str]]:
    """Return the pairs of mechanism and standing, in the order in which they come up."""
    return list(dict.fromkeys((row.mechanism, row.standing) for row in rows))
