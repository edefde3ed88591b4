"""The figures of the kernel experiment, laid out as the paper's: bars of errors, and maps."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from geoveil.simulation.experiments.kde_draws import Map
from geoveil.simulation.experiments.kde_settings import (
    DEFAULT,
    IN_ALL,
    SETTINGS,
    KernelSetting,
)
from geoveil.simulation.experiments.rows import ErrorRow
from geoveil.simulation.figures.style import colour_of, pyplot

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LEVELS = 12


def draw_kernel_errors(rows: Sequence[ErrorRow], file: Path) -> None:
    """Draw the ASE as bars: a row of panels for ε, one for h and one for n, as the paper's fig. 6.

    A full bar is at ε for each centre, as in the paper; the pale one behind it, of rows at ε in
    all, is the error if each person spends ε on the whole grid. Panels that no row belongs to stay
    empty.

    Args:
        rows: of `kde.cells`, in either mode.
        file: where to (PNG, PDF or SVG, by its ending).
    """
    plt = pyplot()
    lines = _panels()
    figure, axes = plt.subplots(
        len(lines), 3, figsize=(13, 11), sharey=True, constrained_layout=True
    )
    for places, settings in zip(axes, lines, strict=True):
        for place, setting in zip(places, settings, strict=True):
            _draw_bars(place, setting, rows)
        places[0].set_ylabel("ASE (log)")
    figure.suptitle(
        "Kernel density of collisions: squared error summed over the grid\n"
        "full bar: ε for each centre, as in the paper; pale: ε for the whole grid"
    )
    figure.savefig(file, dpi=130)
    plt.close(figure)


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
    figure.savefig(file, dpi=110)
    plt.close(figure)


def _panels() -> list[list[KernelSetting]]:
    """Return the paper's three rows: ε varies in the first, h in the second, n in the third."""
    d = DEFAULT
    by_epsilon = [s for s in SETTINGS if (s.n, s.factor) == (d.n, d.factor)]
    by_bandwidth = [s for s in SETTINGS if (s.n, s.per_m) == (d.n, d.per_m)]
    by_people = [s for s in SETTINGS if (s.per_m, s.factor) == (d.per_m, d.factor)]
    return [
        sorted(by_epsilon, key=lambda s: -s.per_m),
        sorted(by_bandwidth, key=lambda s: s.factor),
        sorted(by_people, key=lambda s: s.n),
    ]


def _draw_bars(place: "Axes", setting: KernelSetting, rows: Sequence[ErrorRow]) -> None:
    here = [row for row in rows if row.n == setting.n and row.panel.startswith(setting.label)]
    each = [row for row in here if IN_ALL not in row.panel]
    in_all = {row.mechanism: row.error for row in here if IN_ALL in row.panel}
    for position, row in enumerate(each):
        colour = colour_of(row.mechanism)
        if row.mechanism in in_all:
            place.bar(position, in_all[row.mechanism], color=colour, alpha=0.25, width=0.8)
        bar = place.bar(position, row.error, color=colour, width=0.8, yerr=row.standard_error)
        place.bar_label(bar, [f"{row.error:.1e}"], fontsize=6.5, padding=1)
    place.set_yscale("log")
    place.set_xticks(range(len(each)), [row.mechanism for row in each], rotation=40, ha="right")
    place.tick_params(axis="x", labelsize=8)
    title = f"1/ε = {setting.per_m:g} m, h = {setting.factor:g} diagonals, n = {setting.n:,}"
    place.set_title(title, fontsize=10)
