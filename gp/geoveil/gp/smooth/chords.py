"""Steepest chords between cells: an upper bound of L_Λ on each of them."""

from __future__ import annotations

import math

from geoveil.gp.arrays import Array, np
from geoveil.gp.smooth.cells import SlopeCells

_MERGE_RELATIVE, _MERGE_ABSOLUTE = 0.01, 1e-7
"""Largest spread of slopes in joined neighbours."""
_LONGEST = 1 / 32
"""The greatest length of cells at home, the place nearest to 0 from which φ varies."""
_FAR = 1e145
"""A distance from 0 greater than that of any point of a campaign, in any unit."""
_BLOCK = 8
"""Cells compared with all others at once, few enough for a processor's cache."""


def reached(cells: SlopeCells, reach: float, *, everywhere: bool) -> tuple[Array, Array]:
    """Return edges (m + 1,) and upper bounds of L_Λ (m,) between them, for the reach Λ ≥ 0.

    φ is constant beyond the cells; `everywhere` continues to all of the line.
    """
    if reach == 0 and not everywhere:
        return cells.edges, cells.steepest
    edges, slope = outspread(cells, math.inf if everywhere else reach)
    return edges, local_lipschitz_constants(edges, slope, reach)


def outspread(cells: SlopeCells, reach: float) -> tuple[Array, Array]:
    """Return the edges (m + 1,) and slopes (2, m) of merged cells, plus cells beyond the ends.

    The reach of chords says how far out cells are needed; ∞ for all the line.
    """
    slope, edges = _merged(cells)
    flat = int(np.argmax(slope.any(axis=0))) if cells.ray else 0  # cells from 0 to where φ varies
    slope, edges = slope[:, flat:], edges[flat:]
    low, high = float(edges[0]), float(edges[-1])
    right = _outwards(high - low, reach)
    left = _outwards(high - low, low if cells.ray else reach)
    flat_left, flat_right = np.zeros((2, len(left))), np.zeros((2, len(right)))
    return (
        np.concatenate([low - left[::-1], edges, high + right]),
        np.concatenate([flat_left, slope, flat_right], axis=1),
    )


def local_lipschitz_constants(edges: Array, slope: Array, reach: float) -> Array:
    """Return the largest slope of a chord of length ≤ reach from each cell, shape (n,).

    A chord rises by at most the integral of the bounds of φ' between its ends. Per length that is a
    quotient of linear functions of the ends, greatest at a corner of the permitted pairs.
    """
    low, high = slope
    length = np.diff(edges)
    best = np.abs(slope).max(axis=0)
    if reach == 0:
        return np.asarray(best)
    for bound in (high, -low):
        rise = np.concatenate([[0.0], np.cumsum(bound * length)])
        varied = np.concatenate([[0], np.cumsum(bound != 0)])
        # Each sum is rounded by at most 2^-53 of it, each product likewise.
        slack = 2.0**-51 * float(np.abs(rise).max())
        for start in range(0, len(length), _BLOCK):
            i = np.arange(start, min(start + _BLOCK, len(length)))[:, None]
            j = np.arange(start + 1, len(length))[None, :]
            gap = edges[j] - edges[i + 1]
            near = (j > i) & (gap <= reach)
            # Where φ is constant there is nothing to round, and it must count as nothing.
            between = rise[j] - rise[i + 1] + slack * (varied[j] - varied[i + 1])
            left = np.maximum(reach - gap, 0.0)
            first, last = np.minimum(length[i], left), np.minimum(length[j], left)
            corners = (
                (0.0, 0.0),
                (first, 0.0),
                (0.0, last),
                (first, np.minimum(last, left - first)),
                (np.minimum(first, left - last), last),
            )
            chord = np.zeros(near.shape)
            for a, b in corners[: 4 if reach == math.inf else 5]:
                span = gap + a + b
                total = between + a * bound[i] + b * bound[j]
                with np.errstate(divide="ignore", invalid="ignore"):
                    quotient = np.where(near & (span > 0), total / span, 0.0)
                chord = np.maximum(chord, quotient)
            best[i[:, 0]] = np.maximum(best[i[:, 0]], chord.max(axis=1, initial=0.0))
            best[j[0]] = np.maximum(best[j[0]], chord.max(axis=0, initial=0.0))
    return np.asarray(best * (1 + 1e-12))


def _merged(cells: SlopeCells) -> tuple[Array, Array]:
    """Return slopes (2, m) and edges (m + 1,) of cells neither long nor needlessly short."""
    tolerance = _MERGE_ABSOLUTE * cells.lipschitz
    slopes: list[tuple[float, float]] = []
    edges = [float(cells.edges[0])]
    start = edges[0]
    varied = float(cells.edges[np.argmax(cells.steepest > 0)])
    home = min(max(0.0, varied), float(cells.edges[-1]))
    for low, high, end in zip(*cells.slope.tolist(), cells.edges[1:].tolist(), strict=True):
        # Measured at the end farther from home: a cell that ends at home would be cut without end.
        longest = _LONGEST * max(1.0, abs(start - home) / 4, abs(end - home) / 4)
        if slopes and end - start <= longest:
            joined = min(low, slopes[-1][0]), max(high, slopes[-1][1])
            if joined[1] - joined[0] <= _MERGE_RELATIVE * max(map(abs, joined)) + tolerance:
                slopes[-1], edges[-1] = joined, end
                continue
        start = edges[-1]
        parts = math.ceil((end - start) / longest)
        edges += np.linspace(start, end, parts + 1)[1:].tolist()
        slopes += [(low, high)] * parts
        start = edges[-2]
    return np.array(slopes).T, np.array(edges)


def _outwards(size: float, most: float) -> Array:
    """Return increasing distances from an end, up to the most; none if that is 0."""
    near = size * 2.0**-12 * np.power(1.02, np.arange(640.0))
    far = near[-1] * np.power(1.2, np.arange(1.0, 30.0))
    distances = np.concatenate([near, far, far[-1] * np.exp2(np.arange(1.0, 480.0))])
    end = min(most, _FAR)
    return np.append(distances[distances < end], end) if end else distances[:0]
