"""Try to falsify a mechanism: how distinguishable are two points really?"""

from geoveil.gp.audit.black_box import Bound, black_box_bound
from geoveil.gp.audit.exact import Finding, exact_rate

__all__ = ["Bound", "Finding", "black_box_bound", "exact_rate"]
