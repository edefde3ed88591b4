"""What every experiment of private selection is given, and what it gives: rows of its measure."""

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geoveil.audit import OwnSelection, selections_in
from geoveil.gp import ParameterError, validation

KEPT = "equal ε"
"""The mechanism keeps the ε of its row, by proof."""
NOMINAL = "paper, nominal"
"""The mechanism as a paper prints it: its ε is what the paper says, whatever it keeps."""
OPEN = "no privacy"
"""What there is without a mechanism, as a level to compare with."""
OWN = "yours"
"""A mechanism that was given, at the ε that it was made for."""
STANDINGS = (KEPT, NOMINAL, OPEN, OWN)
MODES = ("exact", "monte-carlo")


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionRow:
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
    """The standard error of `value`; 0 if nothing was drawn."""
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
    def averaged(
        cls, values: ArrayLike, mechanism: str, standing: str, proved_epsilon: float, **rest: Any
    ) -> Self:
        """Return the row of a mean, with its standard error where there are two values or more.

        Args:
            values: of repetitions, shape (n,), n ≥ 1.
            mechanism: its name.
            standing: one of `STANDINGS`.
            proved_epsilon: what is proved of it.
            rest: all else that a row says.

        Raises:
            ParameterError: if a number is out of range.
        """
        found = np.asarray(values, dtype=np.float64)
        spread = float(found.std(ddof=1)) if len(found) > 1 else 0.0
        error = spread / math.sqrt(len(found))
        return cls(
            value=float(found.mean()),
            standard_error=error,
            mechanism=mechanism,
            standing=standing,
            proved_epsilon=proved_epsilon,
            **rest,
        )


def panels(rows: Sequence[SelectionRow]) -> list[tuple[str, str]]:
    """Return the pairs of dataset and setting, in the order in which they come up."""
    return list(dict.fromkeys((row.dataset, row.setting) for row in rows))


def mechanisms(rows: Sequence[SelectionRow]) -> list[tuple[str, str]]:
    """Return the pairs of mechanism and standing, in the order in which they come up."""
    return list(dict.fromkeys((row.mechanism, row.standing) for row in rows))


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What to run an experiment on.

    Args:
        data: files of the application's own kind; what ships, or is generated, without any.
        seed: of what is drawn, ≥ 0.
        quick: a small part of it.
        module: a Python file of mechanisms, functions of `epsilon` and `sensitivity`; it is run.

    Raises:
        ParameterError: if the seed is out of range.
    """

    data: tuple[Path, ...] = ()
    seed: int = 1
    quick: bool = False
    module: Path | None = None

    def __post_init__(self) -> None:
        validation.between("seed", self.seed, 0, 2**63)

    @property
    def key(self) -> str:
        """Names all that rows depend on; of files their contents."""
        given = self.data if self.module is None else (*self.data, self.module)
        files = [hashlib.sha256(file.read_bytes()).hexdigest()[:12] for file in given]
        return " ".join([f"seed={self.seed} quick={self.quick}", *files])

    @property
    def own(self) -> Mapping[str, OwnSelection]:
        """The functions of the file, by name; none without one.

        Raises:
            ParameterError: if it can't be run, or has none.
        """
        return {} if self.module is None else selections_in(self.module)


Compute = Callable[[], Iterable[SelectionRow]]
"""Makes the rows of a part of an experiment."""


@dataclass(frozen=True, slots=True)
class SelectionExperiment:
    """One application of private selection, as a paper measured it.

    Attributes:
        name: for the command line.
        parts: by name, what is computed in one go.
        title: of its figures.
        unit: of what is measured, for their axes.
        linear_below: where these turn from logarithmic to linear; all of them without.
    """

    name: str
    parts: Callable[[Options], Mapping[str, Compute]]
    title: str = ""
    unit: str = ""
    linear_below: float | None = None

    def run(self, options: Options) -> list[SelectionRow]:
        """Return the rows of all parts.

        Raises:
            ParameterError: if data can't be read, or is none that the application takes.
        """
        return [row for compute in self.parts(options).values() for row in compute()]

    def draw(self, rows: Sequence[SelectionRow], file: Path) -> list[Path]:
        """Draw a figure for each measure, beside a file, and return the files."""
        from geoveil.simulation.figures.selection import draw_selection

        files = []
        measures = list(dict.fromkeys(row.measure for row in rows))
        for measure in measures:
            end = f"-{measure.replace(' ', '-')}" if len(measures) > 1 else ""
            files.append(file.with_stem(f"{file.stem}{end}"))
            draw_selection(
                [row for row in rows if row.measure == measure],
                files[-1],
                title=self.title,
                unit=self.unit,
                linear_below=self.linear_below,
            )
        return files


Array = NDArray[np.float64]
Choice = Callable[[NDArray[Any]], Array]
"""Probabilities of outcomes, by what an experiment knows of them."""


@dataclass(frozen=True, slots=True)
class SelectionContestant:
    """A way to choose one of several outcomes.

    Args:
        name: of the mechanism and its utility.
        choice: from ε and the most outcomes that there are.
        proved: from the same two, what is proved of a choice; None where it is ε.
        standing: one of `STANDINGS`.
        delta: δ of a choice.
    """

    name: str
    choice: Callable[[float, int], Choice]
    proved: Callable[[float, int], float] | None = None
    standing: str = KEPT
    delta: float = 0.0

    def cost(self, epsilon: float, outcomes: int) -> float:
        """Return the ε that is proved of a choice."""
        return epsilon if self.proved is None else self.proved(epsilon, outcomes)

    def row(self, accuracies: Array, proved: float, *, exact: bool, **place: Any) -> SelectionRow:
        """Return the mean of repeated experiments.

        Args:
            accuracies: shape (repetitions,).
            proved: the ε that is proved of all choices together.
            exact: whether they are expected values, and not drawn.
            place: all else that a row says.
        """
        mode = "exact" if exact else "monte-carlo"
        return SelectionRow.averaged(
            accuracies, self.name, self.standing, proved, measure="expected accuracy", mode=mode,
            **place,
        )  # fmt: skip
