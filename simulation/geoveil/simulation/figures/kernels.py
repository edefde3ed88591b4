"""The figures of the kernel experiment, laid out as the paper's: bars of errors, and maps."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from geoveil.simulation.experiments.kde_draws import Map
from geoveil.simulation.experiments.kde_settings import IN_ALL, KernelSetting
from geoveil.simulation.experiments.rows import ErrorRow
from geoveil.simulation.figures.style import pyplot, save
from geoveil.simulation.figures.thresholds import draw_settings

_LEVELS = 12


def draw_kernel_errors(rows: Sequence[ErrorRow], file: Path) -> None:
    """Draw the ASE as dots, a panel for each setting of the paper's figure 6.

    A full dot is at ε for each centre, as in the paper; the hollow one, of rows at ε in all, is the
    error if each person spends ε on the whole grid.

    Args:
        rows: of `kde.cells`, in either mode.
        file: where to (PNG, PDF or SVG, by its ending).
    """
    draw_settings(
        rows,
        file,
        title="Kernel density of collisions: squared error summed over the grid",
        note="full: ε for each centre, as in the paper; hollow: ε for the whole grid",
        hollow=IN_ALL,
    )


def draw_density_maps(maps: Mapping[str, Map], setting: KernelSetting, file: Path) -> None:
    """Draw contour maps with common levels: the density without privacy, and the estimates.

    Args:
        maps: of `density_maps`; the first sets the levels.
        setting: what was drawn, for the title.
        file: where to (PNG, PDF or SVG, by its ending).
    """
    plt = pyplot()
    columns = (len(maps) + 1) // 2
    figure, axes = plt.subplots(
        2, columns, figsize=(3.7 * columns, 7.6), squeeze=False, constrained_layout=True
    )
    top = float(next(iter(maps.values())).height.max())
    levels = np.linspace(0, top, _LEVELS + 1)[1:] - top / (2 * _LEVELS)
    for place in axes.flat:
        place.set_visible(False)
    drawn: Any = None
    for place, (name, each) in zip(axes.flat, maps.items(), strict=False):
        place.set_visible(True)
        east, north = each.east / 1_000, each.north / 1_000
        origin = float(east[0]), float(north[0])
        drawn = place.contourf(
            east - origin[0], north - origin[1], each.height, levels, cmap="viridis", extend="both"
        )
        coarse = f", {len(east)}×{len(north)} centres" if len(east) < 61 else ""
        place.set_title(name + coarse, fontsize=10)
        place.set_aspect("equal")
    for place in axes[-1]:
        place.set_xlabel("km east")
    for place in axes[:, 0]:
        place.set_ylabel("km north")
    figure.colorbar(drawn, ax=axes, shrink=0.6, format="%.3f", label="mean of the kernel")
    figure.suptitle(
        f"One run: n = {setting.n:,}, 1/ε = {setting.per_m:g} m for each centre,"
        f" h = {setting.factor:g} cell diagonals (metres of the Mercator plane)"
    )
    save(figure, file)
