"""Planning: which mechanism suits a question, and how good any could be [MATH §8]."""

from geoveil.gp.mechanisms.channel_prior import ScalarPrior
from geoveil.gp.planner.lower_bound import LowerBound, lower_bound

__all__ = ["LowerBound", "ScalarPrior", "lower_bound"]
