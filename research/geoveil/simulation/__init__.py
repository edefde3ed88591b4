"""Experiments on real and simulated populations."""

from geoveil.gp import __version__ as __version__, not_private
from geoveil.simulation.people_files import TableFileError
from geoveil.simulation.populations import (
    LogNormalPopulation,
    ParticipantSource,
    Population,
    collisions,
    household_incomes,
    incomes_and_debts,
)

not_private.declare_experiments(__name__)

__all__ = [
    "LogNormalPopulation",
    "ParticipantSource",
    "Population",
    "TableFileError",
    "collisions",
    "household_incomes",
    "incomes_and_debts",
]
