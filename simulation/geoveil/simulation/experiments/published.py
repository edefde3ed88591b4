"""What the experiments of the paper have in common: their modes, their figures and their table."""

from collections.abc import Callable, Sequence
from pathlib import Path

from geoveil.gp import ParameterError, validation
from geoveil.simulation.experiment import Cell, Experiment, Table
from geoveil.simulation.experiments.rows import LOCAL, MODES, ErrorRow, compare
from geoveil.simulation.figures.style import count
from geoveil.simulation.figures.thresholds import draw_ratios


def drawn_mode(mode: str, repetitions: int, seed: int) -> bool:
    """Return whether people and noise are drawn.

    Args:
        mode: one of `MODES`.
        repetitions: ≥ 2 where they are.
        seed: ≥ 0.

    Raises:
        ParameterError: naming what is out of range.
    """
    validation.between("seed", seed, 0, 2**63)
    if validation.choice("mode", mode, MODES) == "exact":
        return False
    if repetitions < 2:
        raise ParameterError("repetitions", repetitions, "an integer >= 2")
    return True


def published(
    name: str,
    mode: str,
    cells: Sequence[Cell[ErrorRow]],
    seed: int,
    draw: Callable[[Sequence[ErrorRow], Path], None],
    more: Callable[[Path], Sequence[Path]] = lambda _: (),
) -> Experiment[ErrorRow]:
    """Return an experiment of the paper in one mode, with the comparison of both sides.

    Args:
        name: for the command line.
        mode: one of `MODES`.
        cells: of it.
        seed: of what they draw.
        draw: draws the errors.
        more: draws further figures beside a file, and returns theirs.
    """

    def drawn(rows: Sequence[ErrorRow], file: Path) -> list[Path]:
        ratios = file.with_stem(f"{file.stem}-ratios")
        draw(rows, file)
        draw_ratios(rows, compare(rows), ratios)
        return [file, ratios, *more(file)]

    return Experiment(
        name=f"{name}-{mode}",
        cells=cells,
        seed=seed,
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
