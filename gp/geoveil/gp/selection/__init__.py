"""Private selection: one of m outcomes, chosen by private scores. Differential privacy.

Geo-privacy whose points are databases, apart by the records in which they differ. For whoever holds
a database in trust: an aggregator's operator, or a device with many records.
"""

from geoveil.gp.selection.applications.gain_margin import count_margin
from geoveil.gp.selection.audit import (
    SelectionFinding,
    Selects,
    worst_pair,
    worst_utilities,
)
from geoveil.gp.selection.audit_pairs import (
    admissible,
    database_pairs,
    margin_pairs,
    utility_pairs,
)
from geoveil.gp.selection.base import Guarantee, ScoresLike, SelectionMechanism
from geoveil.gp.selection.exponential import ExponentialMechanism
from geoveil.gp.selection.laplace_log_normal import LaplaceLogNormal
from geoveil.gp.selection.local_dampening import LocalDampening
from geoveil.gp.selection.noisy_max import Lead, ReportNoisyMax
from geoveil.gp.selection.one_sided import OneSidedNoise
from geoveil.gp.selection.one_sided_half import HalfGeneralizedCauchy, HalfStudentT
from geoveil.gp.selection.one_sided_pareto import ExponentialPareto
from geoveil.gp.selection.permute_and_flip import PermuteAndFlip
from geoveil.gp.selection.scores import (
    LocalUtilities,
    Margin,
    Scores,
    SmoothUtilities,
    Utilities,
)
from geoveil.gp.selection.smooth_noise import HeavyGeneralizedCauchy, HeavyStudentT
from geoveil.gp.selection.smooth_noisy_max import PublishedCalibrationWarning, SmoothNoisyMax
from geoveil.gp.selection.smooth_private_selection import SmoothPrivateSelection
from geoveil.gp.selection.stability import StabilityMechanism

__all__ = [
    "ExponentialMechanism",
    "ExponentialPareto",
    "Guarantee",
    "HalfGeneralizedCauchy",
    "HalfStudentT",
    "HeavyGeneralizedCauchy",
    "HeavyStudentT",
    "LaplaceLogNormal",
    "Lead",
    "LocalDampening",
    "LocalUtilities",
    "Margin",
    "OneSidedNoise",
    "PermuteAndFlip",
    "PublishedCalibrationWarning",
    "ReportNoisyMax",
    "Scores",
    "ScoresLike",
    "SelectionFinding",
    "SelectionMechanism",
    "Selects",
    "SmoothNoisyMax",
    "SmoothPrivateSelection",
    "SmoothUtilities",
    "StabilityMechanism",
    "Utilities",
    "admissible",
    "count_margin",
    "database_pairs",
    "margin_pairs",
    "utility_pairs",
    "worst_pair",
    "worst_utilities",
]
