"""Contour maps of densities, laid out as the paper's."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from geoveil.simulation.figures.style import pyplot, save
from geoveil.simulation.populations import Array

_LEVELS = 12


def draw_density_maps(maps: Mapping[str, tuple[Array, Array]], file: Path, *, title: str) -> None:
    """Draw contour maps with common levels, those of the first one, the density in the clear.

    Each is centres of a square lattice, (k², 2) in metres, row by row, and heights there, (k²,).
    """
    columns = (len(maps) + 1) // 2
    figure, axes = pyplot().subplots(
        2, columns, figsize=(3.7 * columns, 7.6), squeeze=False, constrained_layout=True
    )
    top = float(next(iter(maps.values()))[1].max())
    levels = np.linspace(0, top, _LEVELS + 1)[1:] - top / (2 * _LEVELS)
    for place in axes.flat[len(maps) :]:
        place.set_visible(False)
    drawn: Any = None
    for place, (name, (centres, heights)) in zip(axes.flat, maps.items(), strict=False):
        side = round(len(centres) ** 0.5)
        km = centres / 1_000
        drawn = place.contourf(
            *(km - km[0]).T.reshape(2, side, side), heights.reshape(side, side), levels,
            cmap="viridis", extend="both",
        )  # fmt: skip
        coarse = f", {side}×{side} centres" if side < 61 else ""
        place.set_title(name + coarse, fontsize=10)
        place.set_aspect("equal")
    for place in axes[-1]:
        place.set_xlabel("km east")
    for place in axes[:, 0]:
        place.set_ylabel("km north")
    figure.colorbar(drawn, ax=axes, shrink=0.6, format="%.3f", label="mean of the kernel")
    figure.suptitle(title)
    save(figure, file)
