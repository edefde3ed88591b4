"""Private selection: choose one of m outcomes by private scores, with differential privacy.

Differential privacy is geo-privacy whose points are databases, with the number of differing records
as distance. It suits a trusted curator: an aggregator's operator, or a device with many records.
"""

from geoveil.gp import __version__ as __version__, not_private
from geoveil.selection.base import (
    Array as Array,
    Guarantee,
    LocalUtilities,
    Margin,
    Scores,
    ScoresLike,
    SelectionMechanism,
    SmoothUtilities,
    Utilities,
)
from geoveil.selection.global_sensitivity import ExponentialMechanism, PermuteAndFlip
from geoveil.selection.local_dampening import LocalDampening
from geoveil.selection.noisy_max import Lead, ReportNoisyMax, TopOutcomes, top_k
from geoveil.selection.one_sided import (
    ExponentialPareto,
    HalfGeneralizedCauchy,
    HalfStudentT,
    OneSidedNoise,
)
from geoveil.selection.smooth import (
    PublishedCalibrationWarning,
    SmoothNoisyMax,
    SmoothPrivateSelection,
)
from geoveil.selection.smooth_privacy import (
    scale_price as scale_price,
    shift_cost as shift_cost,
    spent as spent,
)
from geoveil.selection.stability import (
    StabilityMechanism,
    count_margin,
    winners_and_margins as winners_and_margins,
)
from geoveil.selection.two_sided import HeavyGeneralizedCauchy, HeavyStudentT, LaplaceLogNormal

not_private.declare_experiments(__name__)

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
    "SelectionMechanism",
    "SmoothNoisyMax",
    "SmoothPrivateSelection",
    "SmoothUtilities",
    "StabilityMechanism",
    "TopOutcomes",
    "Utilities",
    "count_margin",
    "top_k",
]
