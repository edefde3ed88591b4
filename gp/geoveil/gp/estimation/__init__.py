"""From reports to estimates: exact integer sums, then one division."""

from geoveil.gp.estimation.accumulator import Accumulator
from geoveil.gp.estimation.estimate import Estimate, estimate

__all__ = ["Accumulator", "Estimate", "estimate"]
