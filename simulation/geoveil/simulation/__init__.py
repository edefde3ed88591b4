"""Experiments on real populations."""

from geoveil.simulation.populations import Population, collisions, household_incomes

__all__ = ["Population", "collisions", "household_incomes"]
