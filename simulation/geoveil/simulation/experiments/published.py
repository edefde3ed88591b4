"""What the experiments of the paper have in common: panels, mechanisms, modes and a table."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from geoveil.gp import (
    DebiasedLaplace,
    GeoPrivacy,
    LipschitzMechanism,
    LocalLaplace,
    Query,
    RadialLaplace,
    SmoothMechanism,
    validation,
)
from geoveil.simulation.comparison import (
    GENERALIZED_CAUCHY,
    STUDENT_T,
    Array,
    Contestant,
    Setting,
    perturbed_points,
)
from geoveil.simulation.experiment import Cell, Experiment, Table
from geoveil.simulation.experiments.draws import drawn_error
from geoveil.simulation.experiments.own import AS_PUBLISHED, OwnInput, with_own
from geoveil.simulation.experiments.rows import (
    LOCAL,
    MODES,
    OURS,
    PRIOR,
    SEED,
    SEED_PRIOR,
    ErrorRow,
    compare,
)
from geoveil.simulation.figures.style import count
from geoveil.simulation.figures.thresholds import draw_ratios

MECHANISMS: Mapping[str, Contestant] = MappingProxyType(
    {
        "GP_loc": Contestant(
            SEED,
            lambda s: perturbed_points(s.privacy, s.seed, debias=False),
            answers_every_query=True,
        ),
        "GP_rad": Contestant(SEED, lambda s: RadialLaplace(s.seed, s.privacy)),
        "GP_Lip": Contestant(SEED, lambda s: LipschitzMechanism(s.seed, s.privacy)),
        "Student-t": Contestant(SEED, STUDENT_T),
        "generalized Cauchy": Contestant(SEED, GENERALIZED_CAUCHY),
        LOCAL: Contestant(SEED, lambda s: LocalLaplace(s.seed, s.local)),
        "LaplacePareto": Contestant(OURS, lambda s: SmoothMechanism(s.seed, s.privacy)),
        "PowerLaw": Contestant(OURS, lambda s: SmoothMechanism(s.soft, s.privacy)),
        "DebiasedLaplace": Contestant(OURS, lambda s: DebiasedLaplace(s.soft, s.privacy)),
        "deconvolved": Contestant(
            OURS,
            lambda s: perturbed_points(s.privacy, s.soft, debias=True),
            answers_every_query=True,
        ),
    }
)
"""Name → contestant in the experiments of the paper: its own, then geoveil's. "GP_rad" is for
kernels, "LaplacePareto" for the paper's ramps; it is PowerLaw that takes slopes without jumps."""


def band(size: float, per: float) -> float:
    """Return the paper's width of the band: a fifth of the threshold, at most 2/ε."""
    return min(0.2 * size, 2 * per)


def both_asked(make: Callable[[str], Query], privacy: GeoPrivacy, footing: float) -> Setting:
    """Return the question with geoveil's profile and with the paper's, about the same band."""
    return Setting(make("smoothstep"), make("linear"), privacy, footing)


class Panel(ABC):
    """One panel of a figure of the paper: what is asked, and under which guarantee."""

    experiment: ClassVar[str]
    measure: ClassVar[str] = "ASE"
    known: ClassVar[Mapping[str, Contestant]]
    """Who takes part, but for mechanisms of a file."""
    per: float

    @property
    @abstractmethod
    def label(self) -> str:
        """Names the panel: the setting, but for n."""

    @property
    def privacy(self) -> GeoPrivacy:
        """The guarantee for each query."""
        return GeoPrivacy(1.0, per=self.per, unit="dollar")

    @classmethod
    def contestants(cls, given: OwnInput = AS_PUBLISHED) -> Mapping[str, Contestant]:
        """Return all who take part, by name: those of a file too, and no survey of other people.

        Raises:
            ParameterError: if the file can't be run, has no mechanism, or takes a name.
        """
        surveyed = () if given.data is None else (SEED_PRIOR, PRIOR)
        known = {name: c for name, c in cls.known.items() if c.origin not in surveyed}
        return with_own(known, given)

    @abstractmethod
    def drawn_once(
        self, name: str, n: int, repetition: int, seed: int, given: OwnInput = AS_PUBLISHED
    ) -> Array:
        """Return estimate less truth in one repetition, people and noise drawn, per question."""

    def row(self, name: str, n: int, given: OwnInput, **found: Any) -> ErrorRow:
        """Return a row of the results."""
        return ErrorRow(
            experiment=self.experiment,
            panel=found.pop("panel", self.label),
            n=n,
            per=self.privacy.per,
            mechanism=name,
            origin=self.contestants(given)[name].origin,
            measure=self.measure,
            **found,
        )


def drawn(
    panel: Panel,
    name: str,
    n: int,
    repetitions: int,
    seed: int,
    given: OwnInput = AS_PUBLISHED,
) -> list[ErrorRow]:
    """Return the error of one mechanism in one panel for one n, by drawing people and noise."""
    errors = (panel.drawn_once(name, n, r, seed, given) for r in range(repetitions))
    squares = [float(np.sum(np.square(each))) for each in errors]
    return [panel.row(name, n, given, **drawn_error(squares, seed))]


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

    def cell(
        self, panel: Panel, name: str, n: int, papers: int, quick: int = 10, reports: int = 1
    ) -> Cell[ErrorRow]:
        """Return the cell of a mechanism with people and noise drawn.

        It has the paper's repetitions, or those of a quick run, unless others are asked for;
        `reports` is how many each person gives, for the time left.
        """
        runs = self.repetitions or (quick if self.quick else papers)
        cost = float(n * runs * reports)
        return Cell(drawn, (panel, name, n, runs, self.seed, self.given), cost)


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

    `draw` draws the errors, `more` further figures beside a file.
    """

    def figures(rows: Sequence[ErrorRow], file: Path) -> list[Path]:
        ratios = file.with_stem(f"{file.stem}-ratios")
        draw(rows, file)
        draw_ratios(rows, compare(rows), ratios)
        return [file, ratios, *more(file)]

    return Experiment(
        name=f"{name}-{asked.mode}",
        cells=cells,
        seed=asked.seed,
        draw=figures,
        tables=lambda rows: [ratio_table(rows, count)],
        note=_note,
    )


def _note(rows: Sequence[ErrorRow]) -> str:
    """Return what the columns of `ratio_table` are: those that it has."""
    found = compare(rows)
    own = (
        ", the one after yours over that of the best of yours" if any(c.own for c in found) else ""
    )
    prior = " prior: the ratio if both may let a public survey choose the query."
    return (
        f"ratio: {rows[0].measure} of the paper's best mechanism over that of geoveil's best{own}."
        f" {LOCAL} has another guarantee, equal at one distance only, and is left out."
        f"{prior if any(c.aided for c in found) else ''}"
    )


def ratio_table(
    rows: Sequence[ErrorRow], people: Callable[[int], str] = "{:,}".format, prior: str = "prior"
) -> Table:
    """Return how much better the best of geoveil's is than the best of the seed paper's.

    `prior` heads the ratio if both sides may use a public prior, and is left out where no row does.
    """
    found = compare(rows)
    aided, own = any(c.aided for c in found), any(c.own for c in found)
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
