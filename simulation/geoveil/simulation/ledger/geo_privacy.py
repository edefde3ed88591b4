"""Smooth sensitivity for geo-privacy [SGP]: its figures and its table."""

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from geoveil.gp import GaussianKernel, Threshold, TwoWayThreshold
from geoveil.simulation.experiments import kde, oneway, twoway_exact
from geoveil.simulation.experiments.kde_settings import GRID_SIZE, SETTINGS
from geoveil.simulation.experiments.own import AS_PUBLISHED, distinct_values
from geoveil.simulation.experiments.rows import LOCAL
from geoveil.simulation.experiments.settings import (
    ONE_WAY_PANELS,
    TWO_WAY_AXIS,
    TWO_WAY_PANELS,
    OneWayPanel,
)
from geoveil.simulation.ledger.reproduction import Key, Numbers, Own
from geoveil.simulation.selection.experiment import Options

_PEOPLE = 1_600_000
_RATE = 1 / 72_000
_BAND = 16_000.0
_BANDWIDTH = 1_400.0
_RADII = (0.3, 0.6, 1.5, 2.5, 4.0)
_OTHERS = ("GP_loc", "GP_rad", "GP_Lip")


def _bounds(options: Options) -> Mapping[Key, Own]:
    query = Threshold(100_000.0, _BAND, profile="linear")
    points = (20_000.0, 85_000.0, 95_000.0, 100_000.0, 112_000.0, 250_000.0)
    bounds = query.smooth_bound(np.array(points), _RATE, reach=math.inf)
    setting = "T=100000, band 16000, β=1/72000"
    return {
        (setting, f"B at {x:.0f}"): (float(b), 0.0) for x, b in zip(points, bounds, strict=True)
    }


def _two_way_bounds(options: Options) -> Mapping[Key, Own]:
    query = TwoWayThreshold((100_000.0, 200_000.0), _BAND, profile="linear")
    # One of each of the regions outside of the band, and three within.
    points = np.array(
        [
            (20_000, 250_000), (250_000, 50_000), (95_000, 190_000), (140_000, 240_000),
            (101_000, 300_000), (300_000, 199_000), (118_000, 215_000), (400_000, 230_000),
        ],
        dtype=np.float64,
    )  # fmt: skip
    bounds = query.smooth_bound(points, _RATE, reach=math.inf)
    setting = "T=(100000, 200000), band 16000, β=1/72000"
    return {
        (setting, f"B at ({x:.0f}, {y:.0f})"): (float(b), 0.0)
        for (x, y), b in zip(points, bounds, strict=True)
    }


def _steepest(options: Options) -> Mapping[Key, Own]:
    incomes, _ = distinct_values(AS_PUBLISHED)
    largest = 0.0
    for panel in ONE_WAY_PANELS:
        query = panel.setting.seed
        bound = query.smooth_bound(incomes, 1 / (9 * panel.per), reach=math.inf)
        largest = max(largest, float(bound.max()) / query.lipschitz)
    return {("twelve panels of incomes", "largest B over the Lipschitz constant"): (largest, 0.0)}


def _errors(panel: OneWayPanel) -> dict[str, tuple[float, float]]:
    """Return the error and the part of it that is noise, by mechanism."""
    asked = replace(panel, people=(_PEOPLE,))
    rows = [oneway.exact(asked, c)[0] for c in ("Student-t", "GP_Lip", LOCAL)]
    return {row.mechanism: (row.error, row.noise or 0.0) for row in rows}


def _one_way(*thresholds: float) -> Mapping[float, list[OneWayPanel]]:
    return {t: [p for p in ONE_WAY_PANELS if p.threshold == t] for t in thresholds}


def _far_thresholds(options: Options) -> Mapping[Key, Own]:
    found: dict[Key, Own] = {}
    for threshold, panels in _one_way(500_000.0, 1_000_000.0).items():
        noises = []
        for panel in panels:
            errors = _errors(panel)
            found |= _shown(panel, errors)
            ratio = errors["Student-t"][0] / errors["GP_Lip"][0]
            quantity = "error of Student-t over that of GP_Lip, n = 1,600,000"
            found[panel.label, quantity] = (ratio, 0.0)
            noises.append(errors["Student-t"][1])
        quantity = "noise of Student-t, least ε over greatest"
        found[f"T={threshold:.0f}", quantity] = (max(noises) / min(noises), 0.0)
    return found


def _near_thresholds(options: Options) -> Mapping[Key, Own]:
    found: dict[Key, Own] = {}
    for threshold, panels in _one_way(10_000.0, 100_000.0).items():
        for panel in panels:
            errors = _errors(panel)
            found |= _shown(panel, errors)
            if threshold == 100_000.0:
                ratio = errors["Student-t"][0] / errors["GP_Lip"][0]
                quantity = "error of Student-t over that of GP_Lip, n = 1,600,000"
                found[panel.label, quantity] = (ratio, 0.0)
    return found


def _shown(panel: OneWayPanel, errors: Mapping[str, tuple[float, float]]) -> dict[Key, Own]:
    return {
        (panel.label, f"MSE of {name}, n = 1,600,000"): (error, 0.0)
        for name, (error, _) in errors.items()
    }


def _pairs(options: Options) -> Mapping[Key, Own]:
    found: dict[Key, Own] = {}
    for whole in TWO_WAY_PANELS:
        panel = replace(whole, axis=TWO_WAY_AXIS[::4]) if options.quick else whole
        rows = {(row.mechanism, row.n): row.error for row in twoway_exact.exact(panel)}
        for other in ("GP_loc", "GP_Lip", LOCAL):
            quantity = f"ASE of Student-t over that of {other}, n = 1,600,000"
            ratio = rows["Student-t", _PEOPLE] / rows[other, _PEOPLE]
            found[whole.label, quantity] = (ratio, 0.0)
        stays = rows["GP_loc", 6_400_000] / rows["GP_loc", 400_000]
        found[whole.label, "ASE of GP_loc, n = 6,400,000 over n = 400,000"] = (stays, 0.0)
    return found


def _kernels(options: Options) -> Mapping[Key, Own]:
    found: dict[Key, Own] = {}
    query = GaussianKernel((0.0, 0.0), _BANDWIDTH)
    for per in (500.0, 1_000.0, 2_000.0):
        points = np.array([(radius * _BANDWIDTH, 0.0) for radius in _RADII])
        bounds = 1_000 * query.smooth_bound(points, 1 / (9 * per), reach=math.inf)
        for radius, bound in zip(_RADII, bounds, strict=True):
            key = f"h = 1,400 m, 1/ε={per:.0f}", f"B at {radius:g} h, 1/km"
            found[key] = (float(bound), 0.0)
    side = 13 if options.quick else GRID_SIZE
    errors = kde.exact(SETTINGS, ("Student-t", *_OTHERS), subgrid=side)
    rows = {
        (row.panel.split(" cell diagonals")[0], row.n, row.mechanism): row.error
        for row in errors
        if "in all" not in row.panel
    }
    for setting in SETTINGS:
        panel = setting.label.removesuffix(" cell diagonals"), setting.n
        for other in _OTHERS:
            ratio = rows[*panel, "Student-t"] / rows[*panel, other]
            place = f"{setting.label}, n = {setting.n:,}"
            found[place, f"ASE of Student-t over that of {other}"] = (ratio, 0.0)
    label = "1/ε=1000, h=1 cell diagonals"
    for name in ("GP_loc", "GP_rad"):
        short = label.removesuffix(" cell diagonals")
        stays = rows[short, 400_000, name] / rows[short, 100_000, name]
        found[label, f"ASE of {name}, n = 400,000 over n = 100,000"] = (stays, 0.0)
    return found


_MAP = (
    "A map of one run: no number is printed, and the noise of another run differs. The command"
    " draws it; the errors of the same settings are Figure 6."
)


NUMBERS: Mapping[str, Numbers] = {
    "sgp-table-1": _steepest,
    "sgp-figure-1": _bounds,
    "sgp-figure-2": _two_way_bounds,
    "sgp-figure-3": _far_thresholds,
    "sgp-figure-4": _pairs,
    "sgp-figure-6": _kernels,
    "sgp-figure-8": _near_thresholds,
}
"""Row of the ledger → what computes its numbers."""
