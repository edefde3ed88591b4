"""Three attacks on computer arithmetic, which break naive float noise.

Reachable outputs (Mironov 2012), their spacing (Haney et al. 2022), and the time of a report. The
first two must succeed on `simulate` and fail on `release` [MATH §10].
"""

from geoveil.audit.attacks.guesses import Guesses, binomial_bounds, permitted_right
from geoveil.audit.attacks.outputs import (
    FloatPath,
    GridPath,
    Reached,
    lowest_bit,
    reachable_attack,
    spacing_attack,
)
from geoveil.audit.attacks.table import (
    ALPHA,
    TIMING_SAMPLES,
    Attack,
    OutputAttack,
    TimingAttack,
    attack_outputs,
    attack_times,
)
from geoveil.audit.attacks.timing import (
    ReleaseTimes,
    TimedMechanism,
    least_p_value,
    rank_p_value,
    time_releases,
    timed_mechanisms,
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
    "ReleaseTimes",
    "TimedMechanism",
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
    "timed_mechanisms",
]
