"""Try to falsify a mechanism: how distinguishable are two points really?

`exact_rate`, `exact_epsilon` and `black_box_bound` audit whatever has a density or samples. `audit`
runs them on a table of rows: the `catalogue` of the library's mechanisms, or the `faults`.
`attacks` go for the computer: which floats are reachable, how they are spaced, what time tells.
"""

from geoveil.gp.audit.black_box import Bound, black_box_bound
from geoveil.gp.audit.case import Audited, Case, Scene
from geoveil.gp.audit.catalogue import catalogue, named
from geoveil.gp.audit.exact import Density, Finding, exact_rate
from geoveil.gp.audit.faults import faults
from geoveil.gp.audit.report import FAILURE_PROBABILITY, audit, pair_count
from geoveil.gp.audit.slack import exact_epsilon
from geoveil.gp.audit.verdict import BlackBox, Exact, Verdict

__all__ = [
    "FAILURE_PROBABILITY",
    "Audited",
    "BlackBox",
    "Bound",
    "Case",
    "Density",
    "Exact",
    "Finding",
    "Scene",
    "Verdict",
    "audit",
    "black_box_bound",
    "catalogue",
    "exact_epsilon",
    "exact_rate",
    "faults",
    "named",
    "pair_count",
]
