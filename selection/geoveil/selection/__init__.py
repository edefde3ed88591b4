"""Private selection: one of m outcomes, chosen by private scores. Differential privacy.

Geo-privacy whose points are databases, apart by the records in which they differ. For whoever holds
a database in trust: an aggregator's operator, or a device with many records.
"""

from geoveil.gp.version import __version__ as __version__
from geoveil.selection.audit import (
    SelectionFinding,
    Selects,
    worst_pair,
    worst_utilities,
)
from geoveil.selection.audit_pairs import (
    admissible,
    database_pairs,
    margin_pairs,
    utility_pairs,
)
from geoveil.selection.base import Guarantee, ScoresLike, SelectionMechanism
from geoveil.selection.contrib.gain_margin import count_margin
from geoveil.selection.exponential import ExponentialMechanism
from geoveil.selection.laplace_log_normal import LaplaceLogNormal
from geoveil.selection.local_dampening import LocalDampening
from geoveil.selection.noisy_max import Lead, ReportNoisyMax
from geoveil.selection.one_sided import OneSidedNoise
from geoveil.selection.one_sided_half import HalfGeneralizedCauchy, HalfStudentT
from geoveil.selection.one_sided_pareto import ExponentialPareto
from geoveil.selection.permute_and_flip import PermuteAndFlip
from geoveil.selection.scores import (
    LocalUtilities,
    Margin,
    Scores,
    SmoothUtilities,
    Utilities,
)
from geoveil.selection.smooth_noise import HeavyGeneralizedCauchy, HeavyStudentT
from geoveil.selection.smooth_noisy_max import PublishedCalibrationWarning, SmoothNoisyMax
from geoveil.selection.smooth_private_selection import SmoothPrivateSelection
from geoveil.selection.stability import StabilityMechanism

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
