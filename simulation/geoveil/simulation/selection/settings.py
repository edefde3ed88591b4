"""What every experiment of private selection is given, and what it consists of."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from geoveil.gp import ParameterError, validation
from geoveil.simulation.selection.rows import Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What to run an experiment on.

    Args:
        data: files of the application's own kind; what ships, or is generated, without any.
        seed: of what is drawn, ≥ 0.
        quick: a small part of it.

    Raises:
        ParameterError: if the seed is out of range.
    """

    data: tuple[Path, ...] = ()
    seed: int = 1
    quick: bool = False

    def __post_init__(self) -> None:
        validation.between("seed", self.seed, 0, 2**63)

    def refuse_data(self) -> None:
        """Say that an application has data of its own.

        Raises:
            ParameterError: if it is given any.
        """
        if self.data:
            raise ParameterError("data", str(self.data[0]), "absent: this application takes none")


@dataclass(frozen=True, slots=True)
class Experiment:
    """One application of private selection, as a paper measured it.

    Attributes:
        name: for the command line.
        run: makes the rows.
        draw: draws figures of rows into a directory, and returns their files.
    """

    name: str
    run: Callable[[Options], list[Row]]
    draw: Callable[[Sequence[Row], Path], list[Path]]
