"""Try to falsify a mechanism: measure how distinguishable two points really are.

`audit` checks densities, samples and releases on a table of rows: the `catalogue` of the library's
mechanisms, the `faults`, or a user's own (`own_cases`). `attacks` target the computer: reachable
floats, their spacing, and time.
"""

from geoveil.audit.attacks import ALPHA as ALPHA, Attack as Attack, OutputAttack as OutputAttack
from geoveil.audit.black_box import Bound, black_box_bound
from geoveil.audit.case import Audited, Case, Scene
from geoveil.audit.catalogue import catalogue, named
from geoveil.audit.draws import Draws
from geoveil.audit.exact import Finding, HasDensity, exact_delta, exact_epsilon, exact_rate
from geoveil.audit.families import missing
from geoveil.audit.faults import faults
from geoveil.audit.histories import History, NestedHistory, worst_history
from geoveil.audit.own import (
    AUDITED as AUDITED,
    MakeMechanism as MakeMechanism,
    NoisyAnswer,
    OwnSelection,
    checked as checked,
    keeps as keeps,
    mechanisms_in,
    own_cases,
    selections_in,
    source_files as source_files,
)
from geoveil.audit.report import AuditReport as AuditReport, AuditRequest as AuditRequest
from geoveil.audit.selection import (
    SelectionFinding,
    Selects,
    admissible,
    database_pairs,
    margin_pairs,
    utility_pairs,
    worst_pair,
    worst_utilities,
)
from geoveil.audit.verdict import FAILURE_PROBABILITY, BlackBox, Exact, Verdict, audit, pair_count
from geoveil.gp import __version__ as __version__, not_private

not_private.declare_experiments(__name__)

__all__ = [
    "FAILURE_PROBABILITY",
    "Audited",
    "BlackBox",
    "Bound",
    "Case",
    "Draws",
    "Exact",
    "Finding",
    "HasDensity",
    "History",
    "NestedHistory",
    "NoisyAnswer",
    "OwnSelection",
    "Scene",
    "SelectionFinding",
    "Selects",
    "Verdict",
    "admissible",
    "audit",
    "black_box_bound",
    "catalogue",
    "database_pairs",
    "exact_delta",
    "exact_epsilon",
    "exact_rate",
    "faults",
    "margin_pairs",
    "mechanisms_in",
    "missing",
    "named",
    "own_cases",
    "pair_count",
    "selections_in",
    "utility_pairs",
    "worst_history",
    "worst_pair",
    "worst_utilities",
]
