"""Common parts of the paper's experiments: panels, modes, cells and a table."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np

from geoveil.analyst import ReportLaw
from geoveil.campaign import MECHANISMS, MechanismSpec
from geoveil.gp import GeoPrivacy, Query, UnsupportedError, validation
from geoveil.simulation.comparison import Contestant, Setting
from geoveil.simulation.experiment import Cell, Experiment, Table
from geoveil.simulation.experiments.own import (
    AS_PUBLISHED,
    MakeReports,
    OwnInput,
    own_mechanisms,
)
from geoveil.simulation.experiments.rows import (
    LOCAL,
    MODES,
    OWN,
    PRIOR,
    SEED_PRIOR,
    ErrorRow,
    compare,
    over,
)
from geoveil.simulation.experiments.sums import drawn_error
from geoveil.simulation.figures.published import draw_ratios, titled
from geoveil.simulation.figures.style import count
from geoveil.simulation.populations import Array


def band(size: float, per: float) -> float:
    """Return the paper's width of the band: a fifth of the threshold, at most 2/ε."""
    return min(0.2 * size, 2 * per)


@dataclass(frozen=True, kw_only=True)
class Panel(ABC):
    """One panel of a figure of the paper.

    Args:
        per: 1/ε for each query, in the unit of the values.
        footing: distance at which the paper puts ε-LDP on an equal footing, in the same unit.
        people: numbers of people, one point of the panel each.
        given: a user's mechanisms and people.
    """

    experiment: ClassVar[str]
    measure: ClassVar[str] = "ASE"
    unit: ClassVar[str] = "dollar"
    of_papers: ClassVar[Mapping[str, Contestant]]
    """The contestants, without those that a user's file adds."""
    repetitions: ClassVar[tuple[int, int]]
    """Repetitions in monte-carlo mode: the paper's number, and a quick run's."""
    quick_people: ClassVar[int] = 20_000
    """The number of people in a quick run."""
    per: float
    footing: float
    people: tuple[int, ...]
    given: OwnInput = field(default=AS_PUBLISHED, repr=False)

    def __post_init__(self) -> None:
        validation.positive("per", self.per)
        validation.positive("footing", self.footing)
        for n in self.people:
            validation.require_count("n", n)

    @property
    @abstractmethod
    def label(self) -> str:
        """The name of the panel: the setting without n."""

    @property
    def questions(self) -> int:
        """The number of questions per person."""
        return 1

    @property
    def key(self) -> str:
        """The name of the panel, with a hash of its files' contents."""
        return f"{self!r}, {self.given.key}"

    @property
    def privacy(self) -> GeoPrivacy:
        """The guarantee for each query."""
        return GeoPrivacy(1.0, per=self.per, unit=self.unit)

    def asked(self, make: Callable[[str], Query]) -> Setting:
        """Return the setting with geoveil's profile and the paper's, for the same band."""
        return Setting(make("smoothstep"), make("linear"), self.privacy, self.footing)

    @property
    def contestants(self) -> Mapping[str, Contestant]:
        """All contestants by name, including a file's; a user's people have none with surveys.

        Raises:
            ParameterError: if the file can't be run, has no mechanism, or reuses a name.
        """
        surveyed = () if self.given.data is None else (SEED_PRIOR, PRIOR)
        published = {name: c for name, c in self.of_papers.items() if c.origin not in surveyed}
        made = own_mechanisms(self.given.module, published)
        own = {name: Contestant(OWN, partial(_own, make)) for name, make in made.items()}
        named = {words: Contestant(OWN, partial(_named, words)) for words in self.given.mechanisms}
        return published | own | named

    @abstractmethod
    def drawn_once(self, name: str, n: int, repetition: int, seed: int) -> Array:
        """Return estimate minus truth per question in one simulated repetition."""

    def row(self, name: str, n: int, **found: Any) -> ErrorRow:
        """Return a row of the results."""
        return ErrorRow(
            experiment=self.experiment,
            panel=found.pop("panel", self.label),
            n=n,
            per=self.per,
            mechanism=name,
            origin=self.contestants[name].origin,
            measure=self.measure,
            **found,
        )


def _own(make: MakeReports, setting: Setting) -> ReportLaw:
    return make(setting.soft, setting.privacy)


def _named(words: str, setting: Setting) -> ReportLaw:
    """Return a campaign's mechanism for the paper's query or, if it refuses that, for ours."""
    spec: MechanismSpec = MECHANISMS.parse(words)
    try:
        return spec.build(setting.seed, setting.privacy)
    except UnsupportedError:
        return spec.build(setting.soft, setting.privacy)


AnyPanel = TypeVar("AnyPanel", bound=Panel)


def drawn(panel: Panel, name: str, n: int, repetitions: int, seed: int) -> list[ErrorRow]:
    """Return the error of one mechanism in one panel for one n, by drawing people and noise."""
    errors = (panel.drawn_once(name, n, r, seed) for r in range(repetitions))
    squares = [float(np.sum(np.square(each))) for each in errors]
    return [panel.row(name, n, **drawn_error(squares, seed))]


@dataclass(frozen=True, kw_only=True)
class PaperRun:
    """Options of a run of the paper's experiments.

    Args:
        mode: one of `MODES`: from moments, or with people and noise drawn.
        repetitions: ≥ 2, for each drawn cell; the paper's number if None.
        seed: ≥ 0; the same seed gives the same rows.
        quick: whether to compute only a small part.
        given: a user's mechanisms, people and question.

    Raises:
        ParameterError: if an argument is out of range.
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
        """Whether people and noise are drawn."""
        return self.mode != "exact"


def published(
    asked: PaperRun,
    panels: Sequence[AnyPanel],
    exact: Callable[[Sequence[AnyPanel], Sequence[str]], Sequence[Cell[ErrorRow]]],
    draw: Callable[[Sequence[ErrorRow], Path], None],
    more: Callable[[Path], Sequence[Path]] = lambda _: (),
) -> Experiment[ErrorRow]:
    """Return an experiment of the paper in one mode, with the comparison of the paper and geoveil.

    In exact mode `exact` makes cells from panels and names; `more` draws figures beside a file.

    Raises:
        ParameterError: if a file has no mechanisms.
    """
    panels = [replace(panel, given=asked.given) for panel in panels]
    if asked.quick:
        panels = [replace(panel, people=(panel.quick_people,)) for panel in panels]
    contestants = panels[0].contestants
    runs = asked.repetitions or panels[0].repetitions[asked.quick]

    def cell(panel: Panel, n: int, name: str) -> Cell[ErrorRow]:
        # Perturbed points answer all questions, in about the time of four reports.
        reports = min(panel.questions, 4 if contestants[name].answers_every_query else math.inf)
        return Cell(drawn, (panel, name, n, runs, asked.seed), float(n * runs * reports))

    # A table does not state the unit of its amounts; places are always in metres.
    unit = panels[0].unit
    unit = "" if asked.given.data is not None and unit == "dollar" else unit

    def figures(found: Sequence[ErrorRow], file: Path) -> list[Path]:
        rows = [replace(row, panel=titled(row.panel, unit)) for row in found]
        ratios = file.with_stem(f"{file.stem}-ratios")
        draw(rows, file)
        draw_ratios(rows, compare(rows), ratios)
        return [file, ratios, *more(file)]

    return Experiment(
        name=f"{panels[0].experiment}-{asked.mode}",
        cells=[cell(p, n, name) for p in panels for n in p.people for name in contestants]
        if asked.drawn
        else exact(panels, tuple(contestants)),
        seed=asked.seed,
        draw=figures,
        tables=lambda rows: [ratio_table(rows, count)],
        note=_note,
    )


def _note(rows: Sequence[ErrorRow]) -> str:
    """Return a note that explains the columns of `ratio_table`."""
    comparisons = compare(rows)
    own = (
        ", the one after yours over that of the best of yours"
        if any(c.own for c in comparisons)
        else ""
    )
    prior = " prior: the ratio if both may let a public survey choose the query."
    return (
        f"ratio: {rows[0].measure} of the paper's best mechanism over that of geoveil's best{own}."
        f" {LOCAL} has another guarantee, equal at one distance only, and is left out."
        f"{prior if any(c.aided for c in comparisons) else ''}"
    )


def ratio_table(
    rows: Sequence[ErrorRow], people: Callable[[int], str] = "{:,}".format, prior: str = "prior"
) -> Table:
    """Return a table of the seed paper's best over geoveil's; `prior` heads ratios with priors."""
    comparisons = compare(rows)
    aided, own = any(c.aided for c in comparisons), any(c.own for c in comparisons)
    headers = ["setting", "n", "paper's best", "geoveil's best", "ratio"]
    return Table(
        headers=[*headers, *([prior] if aided else []), *(["yours", "ratio"] if own else [])],
        rows=[
            [
                *(c.panel, people(c.n), c.seed.mechanism, c.ours.mechanism, f"{c.ratio:.3g}"),
                *([f"{c.ratio_with_prior:.3g}"] if aided else []),
                *([c.own.mechanism, f"{over(c.seed, c.own):.3g}"] if c.own else []),
            ]
            for c in comparisons
        ],
    )
