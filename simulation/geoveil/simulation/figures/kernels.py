"""Contour maps of densities, laid out as the paper's."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from geoveil.simulation.figures.style import pyplot, save
from geoveil.simulation.populations import Array

_LEVELS = 12


class Map(NamedTuple):
    """Kernel means, or estimates of them, at centres of a square lattice."""

    east: Array
    """Metres, shape (k,)."""
    north: Array
    """Metres, shape (k,)."""
    height: Array
    """Shape (k, k), a row for each northing."""


def map_of(centres: Array, height: Array) -> Map:
    """Return the map of heights at centres, (k², 2), row by row."""
    side = round(len(centres) ** 0.5)
    return Map(centres[:side, 0], centres[::side, 1], height.reshape(side, side))


def draw_density_maps(maps: Mapping[str, Map], file: Path, *, title: str) -> None:
    """Draw contour maps with common levels, those of the first one, the density in the clear."""
    columns = (len(maps) + 1) // 2
    figure, axes = pyplot().subplots(
        2, columns, figsize=(3.7 * columns, 7.6), squeeze=False, constrained_layout=True
    )
    top = float(next(iter(maps.values())).height.max())
    levels = np.linspace(0, top, _LEVELS + 1)[1:] - top / (2 * _LEVELS)
    for place in axes.flat[len(maps) :]:
        place.set_visible(False)
    drawn: Any = None
    for place, (name, each) in zip(axes.flat, maps.items(), strict=False):
        east, north = each.east / 1_000, each.north / 1_000
        drawn = place.contourf(
            east - east[0], north - north[0], each.height, levels, cmap="viridis", extend="both"
        )
        coarse = f", {len(east)}×{len(north)} centres" if len(east) < 61 else ""
        place.set_title(name + coarse, fontsize=10)
        place.set_aspect("equal")
    for place in axes[-1]:
        place.set_xlabel("km east")
    for place in axes[:, 0]:
        place.set_ylabel("km north")
    figure.colorbar(drawn, ax=axes, shrink=0.6, format="%.3f", label="mean of the kernel")
    figure.suptitle(title)
    save(figure, file)
