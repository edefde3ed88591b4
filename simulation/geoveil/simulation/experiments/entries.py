"""Who takes part in the experiment on one threshold.

The paper's own answer the linear ramp, at the paper's calibration and reach. Geoveil's answer at
the same ε for each query; those that need a slope without jumps answer a smoothstep over the same
band as the ramp, so that about the same people are blurred.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from geoveil.gp import (
    DebiasedLaplace,
    LipschitzMechanism,
    LocalLaplace,
    LocalPrivacy,
    PlanarLaplace,
    SmoothMechanism,
)
from geoveil.simulation.comparison import Setting
from geoveil.simulation.experiments.aimed import SURVEYS, aimed, aimed_seed
from geoveil.simulation.experiments.contestants import (
    GENERALIZED_CAUCHY,
    STUDENT_T,
    Answer,
    Contestant,
    PointReports,
)
from geoveil.simulation.experiments.rows import LOCAL, OURS, PRIOR, SEED, SEED_PRIOR


def _aimed(survey: int) -> Callable[[Setting], Answer]:
    return lambda s: DebiasedLaplace(aimed(s, survey).soft, s.privacy)


def _aimed_seed(survey: int) -> Callable[[Setting], Answer]:
    return lambda s: STUDENT_T(aimed_seed(s, survey))


_OURS, _SEEDS = (tuple(map(make, range(SURVEYS))) for make in (_aimed, _aimed_seed))

ONE_WAY: Mapping[str, Contestant] = MappingProxyType(
    {
        "GP_loc": Contestant(
            SEED,
            lambda s: PointReports(PlanarLaplace(s.privacy, 1), s.seed, debias=False),
            answers_every_query=True,
        ),
        "GP_Lip": Contestant(SEED, lambda s: LipschitzMechanism(s.seed, s.privacy)),
        "Student-t": Contestant(SEED, STUDENT_T),
        "generalized Cauchy": Contestant(SEED, GENERALIZED_CAUCHY),
        LOCAL: Contestant(
            SEED, lambda s: LocalLaplace(s.seed, LocalPrivacy(s.privacy.at(s.diameter)))
        ),
        "LaplacePareto": Contestant(OURS, lambda s: SmoothMechanism(s.seed, s.privacy)),
        "PowerLaw": Contestant(OURS, lambda s: SmoothMechanism(s.soft, s.privacy)),
        "DebiasedLaplace": Contestant(OURS, lambda s: DebiasedLaplace(s.soft, s.privacy)),
        "deconvolved": Contestant(
            OURS,
            lambda s: PointReports(PlanarLaplace(s.privacy, 1), s.soft, debias=True),
            answers_every_query=True,
        ),
        "aimed Student-t": Contestant(SEED_PRIOR, _SEEDS[0], _SEEDS[1:]),
        "aimed": Contestant(PRIOR, _OURS[0], _OURS[1:]),
    }
)
"""Name → contestant, for one threshold. On a line, "deconvolved" points have the error of
DebiasedLaplace; but they answer every threshold for one ε. "aimed" is DebiasedLaplace about a band
that a public survey chose, "aimed Student-t" the paper's with the same help."""
