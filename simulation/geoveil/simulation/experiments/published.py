"""The seed paper's experiments as a whole: what is computed, drawn and written, and the page."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from geoveil.gp import ParameterError, validation
from geoveil.simulation.epochs.experiment import EpochRow
from geoveil.simulation.experiments import kde, oneway, twoway_draws
from geoveil.simulation.experiments.kde_draws import density_maps
from geoveil.simulation.experiments.kde_settings import DEFAULT, SETTINGS, KernelSetting
from geoveil.simulation.experiments.kde_settings import REPETITIONS as KERNEL_REPETITIONS
from geoveil.simulation.experiments.own import AS_PUBLISHED, OwnInput
from geoveil.simulation.experiments.page import Section, results_page
from geoveil.simulation.experiments.rows import MODES, ErrorRow, compare
from geoveil.simulation.experiments.runs import ErrorCell
from geoveil.simulation.experiments.settings import (
    ONE_WAY_PANELS,
    ONE_WAY_REPETITIONS,
    TWO_WAY_AXIS,
    TWO_WAY_PANELS,
    TWO_WAY_REPETITIONS,
    OneWayPanel,
)
from geoveil.simulation.result_tables import read_csv, write_tables

MAPS: Mapping[str, tuple[KernelSetting, ...]] = MappingProxyType(
    {"none": (), "default": (DEFAULT,), "all": SETTINGS}
)
"""What to map → the settings."""
_PEOPLE = 1_600_000
"""The n that the page's tables of thresholds show; the figures and the CSV files have all."""


@dataclass(frozen=True, slots=True)
class PublishedExperiment:
    """One experiment of the paper, in one mode: see `one_way`, `two_way` and `kernels`."""

    name: str
    mode: str
    cells: Sequence[ErrorCell]
    draw: Callable[[Sequence[ErrorRow], Path], None]
    """Draws the errors."""

    def write(self, rows: Sequence[ErrorRow], directory: Path) -> Path:
        """Write tables and figures, and return how the names of all of them begin."""
        from geoveil.simulation.figures.thresholds import draw_ratios

        stem = directory / f"{self.name}-{self.mode}"
        write_tables(rows, stem, rows[0].seed)
        self.draw(rows, stem.with_suffix(".png"))
        draw_ratios(rows, compare(rows), directory / f"{stem.name}-ratios.png")
        return stem


def one_way(
    mode: str,
    repetitions: int | None,
    seed: int,
    quick: bool,
    given: OwnInput = AS_PUBLISHED,
    panel: OneWayPanel | None = None,
) -> PublishedExperiment:
    """Return one threshold on incomes: twelve settings, figures 3 and 8 of the paper.

    Args:
        mode: "exact" or "monte-carlo".
        repetitions: in the latter; the paper's number by default.
        seed: the same seed gives the same rows.
        quick: whether to compute a small part.
        given: mechanisms and people of one's own.
        panel: the only setting; the paper's twelve by default.

    Raises:
        ParameterError: if there is a table of people without a setting of its own.
    """
    from geoveil.simulation.figures.thresholds import draw_lines

    if panel is None and given.data is not None:
        raise ParameterError("threshold", None, "given together with a table, as is per")
    panels = ONE_WAY_PANELS if panel is None else (panel,)
    if quick:
        panels = tuple(
            replace(p, people=(100_000,)) for p in panels[1 if panel is None else 0 :: 3]
        )
    cells = oneway.cells(
        mode=_checked(mode, seed),
        repetitions=_repetitions(repetitions, 10 if quick else ONE_WAY_REPETITIONS),
        seed=seed,
        panels=panels,
        given=given,
    )
    return PublishedExperiment("oneway", mode, cells, draw_lines)


def two_way(mode: str, repetitions: int | None, seed: int, quick: bool) -> PublishedExperiment:
    """Return pairs of thresholds on incomes and debts, a grid of 34 × 34: figure 4 of the paper.

    Args:
        mode: "exact" or "monte-carlo".
        repetitions: in the latter; the paper's number by default.
        seed: the same seed gives the same rows.
        quick: whether to compute a grid of 5 × 5.
    """
    from geoveil.simulation.figures.thresholds import draw_bars

    panels = TWO_WAY_PANELS
    if quick:
        panels = tuple(replace(p, axis=TWO_WAY_AXIS[1::7], people=(20_000,)) for p in panels)
    cells = twoway_draws.cells(
        mode=_checked(mode, seed),
        repetitions=_repetitions(repetitions, 10 if quick else TWO_WAY_REPETITIONS),
        seed=seed,
        panels=panels,
    )
    return PublishedExperiment("twoway", mode, cells, draw_bars)


def kernels(mode: str, repetitions: int | None, seed: int, quick: bool) -> PublishedExperiment:
    """Return densities of collisions in New York, a grid of 61 × 61: figure 6 of the paper.

    Args:
        mode: "exact" or "monte-carlo".
        repetitions: in the latter; the paper's number by default.
        seed: the same seed gives the same rows.
        quick: whether to compute a grid of 5 × 5.
    """
    from geoveil.simulation.figures.kernels import draw_kernel_errors

    cells = kde.cells(
        mode=_checked(mode, seed),
        repetitions=_repetitions(repetitions, 2 if quick else KERNEL_REPETITIONS),
        seed=seed,
        settings=(replace(DEFAULT, n=20_000),) if quick else SETTINGS,
        subgrid=5 if quick else None,
    )
    return PublishedExperiment("kde", mode, cells, draw_kernel_errors)


def draw_map(setting: KernelSetting, seed: int, directory: Path) -> None:
    """Draw what densities one run of each mechanism finds: figures 5 and 9 to 11 of the paper."""
    from geoveil.simulation.figures.kernels import draw_density_maps

    name = f"kde-map-n{setting.n}-per{setting.per_m:g}-h{setting.factor:g}.png"
    draw_density_maps(density_maps(setting, seed=seed), setting, directory / name)


def write_page(work: Path, directory: Path) -> Path:
    """Put the experiments on one page with figures.

    Args:
        work: where all three have been written, in exact mode, and the tables of distributions
            and of answers over time.
        directory: for results.md and, below it, images/.
    """
    images = directory / "images"
    images.mkdir(parents=True, exist_ok=True)
    sections = [
        _section(work, "oneway", "One threshold on incomes", images, _PEOPLE),
        _section(work, "twoway", "Pairs of thresholds on incomes and debts", images, _PEOPLE),
        _section(work, "kde", "Densities of collisions in New York", images, None),
    ]
    page = directory / "results.md"
    distributions = read_csv(work / "distribution.csv", ErrorRow)
    epochs = read_csv(work / "epochs.csv", EpochRow)
    shutil.copyfile(work / "epochs.png", images / "epochs.png")
    page.write_text(results_page(sections, distributions, epochs), encoding="utf-8")
    return page


def _section(work: Path, name: str, title: str, images: Path, people: int | None) -> Section:
    figures = {}
    for suffix, text in (("", "error of every mechanism"), ("-ratios", "error ratios")):
        file = f"{name}-exact{suffix}.png"
        shutil.copyfile(work / file, images / file)
        figures[f"images/{file}"] = f"{title}: {text}"
    maps = sorted(work.glob(f"{name}-map-*.png"))
    for drawn in maps:
        shutil.copyfile(drawn, images / drawn.name)
        figures[f"images/{drawn.name}"] = f"{title}: one run of each mechanism, every report drawn"
    return Section(
        title=title,
        command=f"geoveil simulate {name}" + (" --maps default" if maps else ""),
        figures=figures,
        rows=read_csv(work / f"{name}-exact.csv", ErrorRow),
        keep=lambda row: people is None or row.n == people,
    )


def _checked(mode: str, seed: int) -> str:
    validation.between("seed", seed, 0, 2**63)
    return validation.choice("mode", mode, MODES)


def _repetitions(asked: int | None, default: int) -> int:
    return default if asked is None else asked
