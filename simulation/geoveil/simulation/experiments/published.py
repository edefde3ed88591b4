"""What the experiments of the paper have in common: their modes, their figures and their table."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from geoveil.gp import validation
from geoveil.simulation.experiment import Cell, Experiment, Table
from geoveil.simulation.experiments.own import AS_PUBLISHED, OwnInput
from geoveil.simulation.experiments.rows import LOCAL, MODES, ErrorRow, compare
from geoveil.simulation.figures.style import count
from geoveil.simulation.figures.thresholds import draw_ratios


@dataclass(frozen=True, kw_only=True)
class Asked:
    """How an experiment of the paper is run.

    Args:
        mode: one of `MODES`: from moments, or with people and noise drawn.
        repetitions: ≥ 2, of each cell, where they are drawn; the paper's number if None.
        seed: ≥ 0; the same seed gives the same rows.
        quick: whether to compute a small part.
        given: mechanisms, people and a question of one's own.

    Raises:
        ParameterError: naming what is out of range.
    """

    mode: str = "exact"
    repetitions: int | None = None
    seed: int = 1
    quick: bool = False
    given: OwnInput = AS_PUBLISHED

    def __post_init__(self) -> None:
        validation.choice("mode", self.mode, MODES)
        validation.between("seed", self.seed, 0, 2**63)
        if self.drawn and self.repetitions is not None:
            validation.require_count("repetitions", self.repetitions, 2)

    @property
    def drawn(self) -> bool:
        """Whether people and noise are."""
        return self.mode != "exact"

    def runs(self, papers: int, quick: int) -> int:
        """Return how many repetitions there are: those asked for, or else one of two numbers."""
        return self.repetitions or (quick if self.quick else papers)


IN_FULL = Asked()
"""All of it, from moments."""


def published(
    name: str,
    asked: Asked,
    cells: Sequence[Cell[ErrorRow]],
    draw: Callable[[Sequence[ErrorRow], Path], None],
    more: Callable[[Path], Sequence[Path]] = lambda _: (),
) -> Experiment[ErrorRow]:
    """Return an experiment of the paper in one mode, with the comparison of both sides.

    Args:
        name: for the command line.
        asked: how it is run.
        cells: of it.
        draw: draws the errors.
        more: draws further figures beside a file, and returns theirs.
    """

    def drawn(rows: Sequence[ErrorRow], file: Path) -> list[Path]:
        ratios = file.with_stem(f"{file.stem}-ratios")
        draw(rows, file)
        draw_ratios(rows, compare(rows), ratios)
        return [file, ratios, *more(file)]

    return Experiment(
        name=f"{name}-{asked.mode}",
        cells=cells,
        seed=asked.seed,
        draw=drawn,
        tables=lambda rows: [ratio_table(rows, count)],
        note=lambda rows: (
            f"ratio: {rows[0].measure} of the paper's best mechanism over that of geoveil's best."
            f" {LOCAL} has another guarantee, equal at one distance only, and is left out. prior:"
            " the ratio if both may let a public survey choose the query."
        ),
    )


def ratio_table(
    rows: Sequence[ErrorRow], people: Callable[[int], str] = "{:,}".format, prior: str = "prior"
) -> Table:
    """Return how much better the best of geoveil's is than the best of the seed paper's.

    Args:
        rows: of one experiment.
        people: how a number of people is told.
        prior: how the ratio is headed if both sides may use a public prior; left out where no row
            does.
    """
    found = compare(rows)
    aided, own = any(c.prior for c in found), any(c.own for c in found)
    headers = ["setting", "n", "paper's best", "geoveil's best", "ratio"]
    return Table(
        headers=[*headers, *([prior] if aided else []), *(["yours", "ratio"] if own else [])],
        rows=[
            [
                *(c.panel, people(c.n), c.seed.mechanism, c.ours.mechanism, f"{c.ratio:.3g}"),
                *([f"{c.ratio_with_prior:.3g}"] if aided else []),
                *([c.own.mechanism, f"{c.own_ratio:.3g}"] if c.own else []),
            ]
            for c in found
        ],
    )
