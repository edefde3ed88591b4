"""Experiments on real populations."""

from geoveil.gp.version import __version__ as __version__
from geoveil.simulation.populations import (
    LogNormalPopulation,
    People,
    Population,
    PopulationFileError,
    collisions,
    household_incomes,
    incomes_and_debts,
)

__all__ = [
    "LogNormalPopulation",
    "People",
    "Population",
    "PopulationFileError",
    "collisions",
    "household_incomes",
    "incomes_and_debts",
]
