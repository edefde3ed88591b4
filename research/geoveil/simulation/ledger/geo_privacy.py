"""Smooth sensitivity for geo-privacy [SGP]: its figures and its table."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from geoveil.gp import GaussianKernel, Query, Threshold, TwoWayThreshold
from geoveil.simulation.experiments import kde, oneway, twoway
from geoveil.simulation.experiments.own import AS_PUBLISHED, distinct_values
from geoveil.simulation.experiments.rows import LOCAL
from geoveil.simulation.ledger.reproduction import Numbers, Told
from geoveil.simulation.selection.experiment import Options

_PEOPLE = 1_600_000
_RATE = 1 / 72_000
_BAND = 16_000.0
_BANDWIDTH = 1_400.0
_RADII = (0.3, 0.6, 1.5, 2.5, 4.0)
_OTHERS = ("GP_loc", "GP_rad", "GP_Lip")


def _bounds(options: Options) -> Iterator[Told]:
    query = Threshold(100_000.0, _BAND, profile="linear")
    points = [20_000.0, 85_000.0, 95_000.0, 100_000.0, 112_000.0, 250_000.0]
    for x, bound in zip(points, _smooth_bounds(query, points, _RATE), strict=True):
        yield "T=100000, band 16000, β=1/72000", f"B at {x:.0f}", bound


def _two_way_bounds(options: Options) -> Iterator[Told]:
    query = TwoWayThreshold((100_000.0, 200_000.0), _BAND, profile="linear")
    # One point in each region outside the band, and three inside it.
    points = [
        (20_000.0, 250_000.0), (250_000.0, 50_000.0), (95_000.0, 190_000.0),
        (140_000.0, 240_000.0), (101_000.0, 300_000.0), (300_000.0, 199_000.0),
        (118_000.0, 215_000.0), (400_000.0, 230_000.0),
    ]  # fmt: skip
    for (x, y), bound in zip(points, _smooth_bounds(query, points, _RATE), strict=True):
        yield "T=(100000, 200000), band 16000, β=1/72000", f"B at ({x:.0f}, {y:.0f})", bound


def _smooth_bounds(query: Query, points: ArrayLike, rate: float) -> list[float]:
    bounds: list[float] = query.smooth_bound(np.array(points), rate, reach=math.inf).tolist()
    return bounds


def _steepest(options: Options) -> Iterator[Told]:
    incomes, _ = distinct_values(AS_PUBLISHED)
    shares = []
    for panel in oneway.PANELS:
        query = panel.setting.seed
        bounds = _smooth_bounds(query, incomes, 1 / (9 * panel.per))
        shares.append(max(bounds) / query.lipschitz)
    yield "twelve panels of incomes", "largest B over the Lipschitz constant", max(shares)
    for panel in (panel for panel in oneway.PANELS if panel.threshold == 100_000.0):
        ours, theirs = (_error(panel, name) for name in ("Student-t", "GP_Lip"))
        yield panel.label, _OVER_LIPSCHITZ, ours / theirs


_OVER_LIPSCHITZ = "error of Student-t over that of GP_Lip, n = 1,600,000"
_ONE_WAY = ("Student-t", "GP_loc", "GP_Lip", LOCAL)


def _error(panel: oneway.OneWayPanel, name: str, people: int = _PEOPLE) -> float:
    return oneway.exact(replace(panel, people=(people,)), name)[0].error


def _thresholds(far: bool, options: Options) -> Iterator[Told]:
    for threshold in (500_000.0, 1_000_000.0) if far else (10_000.0, 100_000.0):
        panels = [panel for panel in oneway.PANELS if panel.threshold == threshold]
        errors = {(panel, name): _error(panel, name) for panel in panels for name in _ONE_WAY}
        for panel in panels:
            for name in ("Student-t", "GP_Lip", LOCAL):
                yield panel.label, f"MSE of {name}, n = 1,600,000", errors[panel, name]
            yield panel.label, _OVER_LIPSCHITZ, errors[panel, "Student-t"] / errors[panel, "GP_Lip"]
            if far:
                stays = _error(panel, "GP_loc", 6_400_000) / _error(panel, "GP_loc", 400_000)
                yield panel.label, "MSE of GP_loc, n = 6,400,000 over n = 400,000", stays
        if far:
            for name in _ONE_WAY:
                quantity = f"MSE of {name}, greatest ε over least"
                falls = errors[panels[0], name] / errors[panels[-1], name]
                yield f"T={threshold:.0f}", quantity, falls
            gain = errors[panels[-1], "Student-t"] / errors[panels[0], "Student-t"]
            yield f"T={threshold:.0f}", "MSE of Student-t, least ε over greatest", gain


def _pairs(options: Options) -> Iterator[Told]:
    every = {}
    for whole in twoway.PANELS:
        panel = replace(whole, axes=(twoway.AXIS[::4],) * 2) if options.quick else whole
        errors = {(row.mechanism, row.n): row.error for row in twoway.exact(panel)}
        every[whole.per] = errors
        for other in ("GP_loc", "GP_Lip", LOCAL):
            quantity = f"ASE of Student-t over that of {other}, n = 1,600,000"
            yield whole.label, quantity, errors["Student-t", _PEOPLE] / errors[other, _PEOPLE]
        for name in ("GP_loc", "Student-t", "GP_Lip"):
            stays = errors[name, 6_400_000] / errors[name, 400_000]
            yield whole.label, f"ASE of {name}, n = 6,400,000 over n = 400,000", stays
    for name in _ONE_WAY:
        falls = every[min(every)][name, _PEOPLE] / every[max(every)][name, _PEOPLE]
        yield "n = 1,600,000", f"ASE of {name}, greatest ε over least", falls


def _kernels(options: Options) -> Iterator[Told]:
    query = GaussianKernel((0.0, 0.0), _BANDWIDTH)
    points = [(radius * _BANDWIDTH, 0.0) for radius in _RADII]
    for per in (500.0, 1_000.0, 2_000.0):
        bounds = _smooth_bounds(query, points, 1 / (9 * per))
        for radius, bound in zip(_RADII, bounds, strict=True):
            yield f"h = 1,400 m, 1/ε={per:.0f}", f"B at {radius:g} h, 1/km", 1_000 * bound
    side = 13 if options.quick else kde.GRID_SIZE
    settings = tuple(replace(s, subgrid=side) for s in kde.SETTINGS)
    errors = {
        (row.panel.split(" cell diagonals")[0], row.n, row.mechanism): row.error
        for row in kde.exact(*settings, names=("Student-t", *_OTHERS))
        if "in all" not in row.panel
    }
    for setting in kde.SETTINGS:
        panel = setting.label.removesuffix(" cell diagonals"), setting.n
        for other in _OTHERS:
            ratio = errors[*panel, "Student-t"] / errors[*panel, other]
            place = f"{setting.label}, n = {setting.n:,}"
            yield place, f"ASE of Student-t over that of {other}", ratio
    label = "1/ε=1000, h=1"
    for name in ("Student-t", *_OTHERS):
        more = errors[label, 400_000, name] / errors[label, 100_000, name]
        quantity = f"ASE of {name}, n = 400,000 over n = 100,000"
        yield f"{label} cell diagonals", quantity, more
        private, open_ = (errors[f"1/ε={per}, h=1", 200_000, name] for per in (2_000, 500))
        yield "h=1 cell diagonals", f"ASE of {name}, greatest ε over least", open_ / private
        wide, narrow = (errors[f"1/ε=1000, h={h}", 200_000, name] for h in ("1.2", "0.8"))
        yield "1/ε=1000", f"ASE of {name}, h=1.2 over h=0.8 cell diagonals", wide / narrow


NUMBERS: Mapping[str, Numbers] = {
    "sgp-table-1": _steepest,
    "sgp-figure-1": _bounds,
    "sgp-figure-2": _two_way_bounds,
    "sgp-figure-3": partial(_thresholds, True),
    "sgp-figure-4": _pairs,
    "sgp-figure-6": _kernels,
    "sgp-figure-8": partial(_thresholds, False),
}
"""Row of the ledger → the function that computes its numbers."""
