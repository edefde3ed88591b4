"""The people of `benchmarks.relations`, their form, and the truth about them."""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.every_statistic import OPEN, PLANE
from geoveil.analyst import Within
from geoveil.analyst.relations.regression import fit
from geoveil.analyst.relations.scores import Design
from geoveil.campaign import (
    Attribute,
    ChoiceField,
    FormCampaign,
    NumberField,
    OrdinalField,
    PlaceField,
)
from geoveil.gp import GeoPrivacy, SmoothedRegion, Threshold

Array = NDArray[np.float64]
Answers = Mapping[str, NDArray[Any]]
KNOWN = 400_000
"""The number of people in each population."""
MOST = 500_000.0
INCOME_NOISE, _AGE, _HOME = 8_000.0, 4.0, 500.0
"""Noise scales."""
OWNS, RENTS, NEITHER = range(3)
_PARTIES = 0.8 ** np.arange(20) / sum(0.8 ** np.arange(20))
FORM = FormCampaign(
    campaign_id="relations",
    title="A household",
    fields=(
        ChoiceField(name="tenure", options=("owns", "rents", "neither"), epsilon=1.0),
        ChoiceField(name="party", options=tuple(f"p{i}" for i in range(20)), epsilon=1.0),
        OrdinalField(name="mood", options=tuple("12345"), epsilon=2.0),
        NumberField(
            attribute=Attribute(name="income", unit="dollar", least=0.0, most=MOST),
            privacy=GeoPrivacy(1.0, INCOME_NOISE, "dollar"),
        ),
        NumberField(
            attribute=Attribute(name="age", unit="year"), privacy=GeoPrivacy(1.0, _AGE, "year")
        ),
        PlaceField(
            attribute=Attribute(name="home", unit="metre", coordinates=PLANE),
            privacy=GeoPrivacy(1.0, _HOME, "metre"),
        ),
    ),
    **OPEN,
)
_FAR = 15_000.0
DISTRICTS = tuple(
    Within(
        "home",
        SmoothedRegion([(a, -_FAR), (b, -_FAR), (b, _FAR), (a, _FAR)], 3 * _HOME),
        label=name,
    )
    for name, a, b in (("west", -_FAR, 0.0), ("east", 0.0, 4_000.0), ("far east", 4_000.0, _FAR))
)


def _town(rng: np.random.Generator, n: int) -> Answers:
    """Return people whose incomes are log-normal and grow with age; 1.5 % neither own nor rent."""
    age = rng.triangular(18.0, 35.0, 90.0, n)
    tenure = np.where(rng.random(n) < 0.015, NEITHER, rng.random(n) < 1 / (1 + (age / 45) ** 3))
    income = rng.lognormal(10.4, 0.6, n) * (0.6 + age / 90) * np.where(tenure == OWNS, 1.4, 1.0)
    home = rng.normal(0.0, 3_000.0, (n, 2)) + np.where(income > 60_000, 2_500.0, 0.0)[:, None]
    return _people(rng, age, tenure, income, home, 2.4 + np.minimum(income / 80_000, 2.0))


def _tails(rng: np.random.Generator, n: int) -> Answers:
    """Return people, a few of them immensely rich and a few young; 0.5 % neither own nor rent."""
    age = np.where(rng.random(n) < 0.08, rng.normal(24.0, 2.0, n), rng.normal(58.0, 6.0, n))
    tenure = np.where(rng.random(n) < 0.005, NEITHER, rng.random(n) < 0.35 + 0.3 * (age < 30))
    income = 12_000.0 * (1 + rng.pareto(1.8, n)) * np.where(tenure == OWNS, 1.3, 1.0)
    east = np.where(rng.random(n) < 0.06, 8_000.0, -4_000.0)
    home = np.stack([east, np.zeros(n)], axis=1) + rng.normal(0.0, 900.0, (n, 2))
    income = np.where(east > 0, 0.6 * income, income)
    return _people(rng, age, tenure, income, home, 3.0 + (tenure == RENTS))


def _heaps(rng: np.random.Generator, n: int) -> Answers:
    """Return people with four incomes, three ages and three homes; 3 % neither own nor rent."""
    age = rng.choice([22.0, 45.0, 70.0], n, p=[0.05, 0.5, 0.45])
    tenure = np.where(rng.random(n) < 0.03, NEITHER, rng.random(n) < 0.2 + 0.5 * (age == 22))
    income = rng.choice([0.0, 25_000.0, 50_000.0, 400_000.0], n, p=[0.2, 0.45, 0.34, 0.01])
    income = np.where(age == 22, np.minimum(income, 25_000.0), income)
    home = np.array([[-6_000.0, 0.0], [2_000.0, 0.0], [9_000.0, 0.0]])
    return _people(rng, age, tenure, income, home[rng.choice(3, n, p=[0.6, 0.36, 0.04])], age / 20)


def _people(
    rng: np.random.Generator, age: Array, tenure: Array, income: Array, home: Array, mood: Array
) -> Answers:
    return {
        "tenure": tenure.astype(np.int64),
        "party": rng.choice(20, len(age), p=_PARTIES),
        "mood": np.clip(np.rint(rng.normal(mood, 1.0)), 1, 5).astype(np.int64) - 1,
        "income": np.clip(income, 0.0, MOST),
        "age": age,
        "home": home,
    }


PEOPLE: Mapping[str, Callable[[np.random.Generator, int], Answers]] = {
    "town": _town,
    "tails": _tails,
    "heaps": _heaps,
}


class Population:
    """The truth about people of a kind."""

    def __init__(self, name: str) -> None:
        self.answers = PEOPLE[name](np.random.default_rng(38), KNOWN)
        """The answers of every person."""

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.answers[name]

    def shares(self, name: str) -> Array:
        """Return the share of each option of a choice."""
        return np.bincount(self[name], minlength=3) / KNOWN

    @cached_property
    def cells(self) -> Array:
        """The shares of tenure × mood."""
        return np.bincount(5 * self["tenure"] + self["mood"], minlength=15).reshape(3, 5) / KNOWN

    @cached_property
    def districts(self) -> Array:
        """The mean income of each district."""
        inside = np.stack([of.region.value(self["home"]) for of in DISTRICTS])
        return np.asarray(inside @ self["income"] / inside.sum(axis=1))

    def means(self) -> Array:
        """Return the mean income by tenure."""
        return np.array([self["income"][self["tenure"] == k].mean() for k in range(3)])

    def median(self) -> float:
        """Return the blurred median income of those who own."""
        from scipy.optimize import brentq

        values = self["income"][self["tenure"] == OWNS]

        def too_many(at: float) -> float:
            return float(Threshold(at, 3 * INCOME_NOISE, "smoothstep").value(values).mean() - 0.5)

        root: Any = brentq(too_many, 0, MOST)
        return float(root)

    def correlations(self) -> Array:
        """Return the correlation of income and age, and the same given mood."""
        of = [self["income"], self["age"], self["mood"]]
        inverse = np.linalg.inv(np.cov(of))
        partial = -inverse[0, 1] / np.sqrt(inverse[0, 0] * inverse[1, 1])
        return np.array([np.corrcoef(of)[0, 1], partial])

    def slopes(self) -> Array:
        """Return the coefficients of income on age and tenure, without the constant."""
        return least_squares(self["income"], self["age"], *options_of(self["tenure"]))[0][1:]

    def log_odds(self) -> Array:
        """Return the coefficients of a logistic model of renting on age and mood."""
        return logistic_fit(self["tenure"] == RENTS, self["age"], self["mood"] + 1.0)[0][1:]


def options_of(tenure: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    return tenure == RENTS, tenure == NEITHER


def least_squares(y: NDArray[Any], *covariates: NDArray[Any]) -> tuple[Array, Array]:
    x = np.column_stack([np.ones(len(y)), *covariates])
    inverse = np.linalg.inv(x.T @ x)
    values = inverse @ (x.T @ y)
    scores = x * (y - x @ values)[:, None]
    return values, np.sqrt(np.diag(inverse @ (scores.T @ scores) @ inverse))


def logistic_fit(y: NDArray[Any], *covariates: NDArray[Any]) -> tuple[Array, Array]:
    numbers, none = np.column_stack(covariates), np.zeros(len(covariates))
    clear = Design(y.astype(np.float64), numbers, none, none)
    made = fit(clear, np.ones(len(y)), "logistic", plain=True)
    return made.theta, np.sqrt(np.diag(made.errors.covariance))
