"""Populations to draw simulated participants from: real rows with weights, files, a formula."""

from geoveil.simulation.populations.base import People
from geoveil.simulation.populations.lognormal import LogNormalPopulation, incomes_and_debts
from geoveil.simulation.populations.table import Population, collisions, household_incomes

__all__ = [
    "LogNormalPopulation",
    "People",
    "Population",
    "collisions",
    "household_incomes",
    "incomes_and_debts",
]
