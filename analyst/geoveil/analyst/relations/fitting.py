"""Fit a regression on arrays: units, starting points, parameter regions, and errors in words."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from geoveil.analyst.relations.products import FarthestOfProducts, score_of_products
from geoveil.analyst.relations.scores import Design, Farthest, IndexScore, LinearScore, Model
from geoveil.analyst.relations.solving import (
    LARGE,
    Errors,
    EstimatingEquation,
    Root,
    sandwich,
    solve,
)
from geoveil.gp import Array

LARGEST_GROWTH, DOUBTFUL_GROWTH = 0.5, 0.25
"""|β|b of a Poisson model from which on scores have no variance, and above which its standard
errors are unreliable [MATH §16]."""
_FARTHEST = 50.0
"""The largest coefficients of numbers, in standard deviations, at which a root is sought."""
_PILOT = 50_000
"""Reports from which a large regression computes its starting point."""


@dataclass(frozen=True, eq=False)
class Fit:
    """Coefficients in the units of the design."""

    theta: Array
    errors: Errors
    farthest: Farthest | FarthestOfProducts | None
    """For linear models only."""
    growth: float
    """The largest |β|b of a number."""


def fit(
    design: Design, weights: Array, model: Model, width: float = 0.0, *, plain: bool = False
) -> Fit:
    """Return the coefficients of a regression, those of the constant first.

    Args:
        design: covariates and response.
        weights: of reports.
        model: "linear", "logistic", "poisson" or "median".
        width: of the logistic step that medians are smoothed by, in the response's unit.
        plain: whether errors are those of HC0.

    Raises:
        UnsupportedError: if there is no root.
    """
    m = design.numbers.shape[1]
    center = np.average(design.numbers, axis=0, weights=weights)
    scale = np.maximum(design.numbers.std(axis=0), np.finfo(float).tiny)
    unit = 1.0
    if model in ("linear", "median"):
        unit = max(float(design.response.std()), np.finfo(float).tiny)
    scaled = replace(
        design,
        response=design.response / unit,
        response_noise=design.response_noise / unit,
        numbers=(design.numbers - center) / scale,
        ends=(design.ends - center[:, None]) / scale[:, None],
        response_ends=design.response_ends / unit,
        noise=design.noise / scale,
        variances=design.variances / scale**2,
    )
    root = _root(scaled, weights, model, width / unit)
    # Coefficients of numbers in their own units, and the constant where they are 0.
    turn = np.eye(len(root.theta))
    turn[len(turn) - m :, len(turn) - m :] = np.diag(1 / scale)
    turn[0, len(turn) - m :] = -center / scale
    turn *= unit
    theta = turn @ root.theta
    growth = np.abs(theta[len(theta) - m :]) * design.noise
    errors = sandwich(root.influence @ turn.T, weights, None if plain else scaled.pseudo)
    farthest = None
    if model == "linear":
        pull, codes = weights.sum() * turn @ root.pull, [c.codes for c in design.categories]
        farthest = Farthest(root.theta, pull, codes, scaled.ends, scaled.response_ends)
    return Fit(theta, errors, farthest, growth.max(initial=0.0))


def fit_products(
    design: Design,
    products: Sequence[tuple[int, ...]],
    weights: Array,
    model: Model,
    width: float = 0.0,
    *,
    plain: bool = False,
) -> Fit:
    """Return the coefficients of a regression on products of the design's covariates.

    Args:
        design: covariates and response.
        products: of each coefficient but the constant's, places of covariates from 0.
        weights: of reports.
        model: see `fit`.
        width: see `fit`.
        plain: whether errors are those of HC0.

    Raises:
        UnsupportedError: if the model does not take such covariates, or there is no root.
    """
    score, units = score_of_products(design, products, weights, model, width)
    start = np.zeros(len(units))
    if model == "median":
        line = replace(score, model="linear")
        start = solve(line, start, _anywhere, weights, _ASK[model]).theta
    elif model == "poisson":
        start[0] = np.log(max(np.average(design.response, weights=weights), 1e-3))

    def inside(theta: Array) -> bool:
        return model != "poisson" or score.growth(theta) < LARGEST_GROWTH

    root = solve(score, start, inside, weights, _ASK[model])
    errors = sandwich(root.influence * units, weights, None if plain else score.pseudo)
    pull = weights.sum() * units[:, None] * root.pull
    farthest = FarthestOfProducts.of(score, root.theta, pull) if model == "linear" else None
    return Fit(root.theta * units, errors, farthest, score.growth(root.theta))


def _root(design: Design, weights: Array, model: Model, width: float) -> Root:
    score: EstimatingEquation
    linear = LinearScore(design, weights) if model in ("linear", "median") else None
    start = np.zeros(design.pseudo.shape[1])
    if linear is not None and model == "linear":
        score = linear
    else:
        score = IndexScore(design, weights, model, width)
        every = len(weights) // _PILOT
        if len(weights) >= LARGE:
            start = _root(design.every(every), weights[::every], model, width).theta
        elif linear is not None:
            start = solve(linear, start, _anywhere, weights, _ASK[model]).theta
        elif model == "poisson":
            start[0] = np.log(max(np.average(design.response, weights=weights), 1e-3))
    numbers = slice(len(start) - design.numbers.shape[1], None)
    most = np.full(design.numbers.shape[1], _FARTHEST)
    if model == "poisson":
        most = np.minimum(most, LARGEST_GROWTH / np.maximum(design.noise, 1e-300))

    def inside(theta: Array) -> bool:
        return bool((np.abs(theta[numbers]) < most).all())

    region = inside if model != "linear" else _anywhere
    return solve(score, start, region, weights, _ASK[model])


def _anywhere(_: Array) -> bool:
    return True


_FEWER = "use fewer covariates, or fields with less noise, or more reports"
_ASK: dict[Model, str] = {
    "linear": _FEWER,
    "logistic": _FEWER,
    "poisson": "the coefficient times the noise scale of each number must be below 1/2: ask for"
    " numbers with less noise, or fit a linear model to their logarithms",
    "median": f"{_FEWER}, or a wider step",
}
