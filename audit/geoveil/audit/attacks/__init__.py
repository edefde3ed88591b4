"""Attacks on the computer rather than on the mathematics: three that break naive float noise.

Which outputs are reachable (Mironov 2012), how finely they are spaced (Haney et al. 2022), and how
long a report takes. The first two must succeed on `simulate` and fail on `release` [MATH §10].
"""

from geoveil.audit.attacks.guesses import Guesses, binomial_bounds, permitted_right
from geoveil.audit.attacks.preimages import FloatPath, GridPath
from geoveil.audit.attacks.reachable import Reached, reachable_attack
from geoveil.audit.attacks.report import (
    ALPHA,
    TIMING_SAMPLES,
    attack_outputs,
    attack_times,
)
from geoveil.audit.attacks.rows import Attack, OutputAttack, TimingAttack
from geoveil.audit.attacks.spacing import lowest_bit, spacing_attack
from geoveil.audit.attacks.timing import (
    Subject,
    Timed,
    least_p_value,
    rank_p_value,
    time_releases,
    timing_subjects,
)

__all__ = [
    "ALPHA",
    "TIMING_SAMPLES",
    "Attack",
    "FloatPath",
    "GridPath",
    "Guesses",
    "OutputAttack",
    "Reached",
    "Subject",
    "Timed",
    "TimingAttack",
    "attack_outputs",
    "attack_times",
    "binomial_bounds",
    "least_p_value",
    "lowest_bit",
    "permitted_right",
    "rank_p_value",
    "reachable_attack",
    "spacing_attack",
    "time_releases",
    "timing_subjects",
]
