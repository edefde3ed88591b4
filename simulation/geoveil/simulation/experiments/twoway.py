"""The paper's experiment on pairs of thresholds: income above T₁ and debt above T₂ [SGP §5].

As with one threshold, the error at a threshold T is taken against the share of the repetition's own
sample above it, h(x) = 1[x₁ > T₁ and x₂ > T₂], so that with D = Y − h(X)

    E[error²] = (E D)² + Var D/n,    E D = E[m − h],    Var D = E[v] + Var[m − h],

and the ASE is the sum over the grid of thresholds. Whatever the thresholds share (people, and for
perturbed points the noise) does not change that sum.

Here each threshold costs ε, as in the paper, so the paper's grid costs 1156 ε. The exceptions
perturb a person's point once and answer every threshold from it: GP_loc, and "deconvolved" points.
GP_loc and ε-LDP answer the hard threshold, as in the public code of the paper's authors.

"deconvolved": both coordinates get independent Laplace noise of scale √2/ε. As
|x₁−x₁'| + |x₂−x₂'| ≤ √2 |x−x'|, that is ε-GP. Then g(x̃₁−T₁) g(x̃₂−T₂), with g the debiased
smoothstep [MATH §5.1], has the mean φ(x₁−T₁) φ(x₂−T₂): the noises are independent. Its band is
`POINT_BAND` scales of that noise wide.
"""

import math
from collections.abc import Mapping
from types import MappingProxyType

from geoveil.gp import (
    DebiasedLaplace,
    GeoPrivacy,
    LipschitzMechanism,
    SmoothMechanism,
    Threshold,
    TwoWayThreshold,
)
from geoveil.simulation.comparison import (
    GENERALIZED_CAUCHY,
    STUDENT_T,
    Contestant,
    Setting,
)
from geoveil.simulation.experiments.own import AS_PUBLISHED, OwnInput, with_own
from geoveil.simulation.experiments.rows import LOCAL, OURS, SEED
from geoveil.simulation.experiments.settings import TwoWayPanel

POINT_BAND = 1.5
"""Width of the band of deconvolved points, in noise scales of a coordinate."""

SCALAR: Mapping[str, Contestant] = MappingProxyType(
    {
        "GP_Lip": Contestant(SEED, lambda s: LipschitzMechanism(s.seed, s.privacy)),
        "Student-t": Contestant(SEED, STUDENT_T),
        "generalized Cauchy": Contestant(SEED, GENERALIZED_CAUCHY),
        "LaplacePareto": Contestant(OURS, lambda s: SmoothMechanism(s.seed, s.privacy)),
        "PowerLaw": Contestant(OURS, lambda s: SmoothMechanism(s.soft, s.privacy)),
        "DebiasedLaplace": Contestant(OURS, lambda s: DebiasedLaplace(s.soft, s.privacy)),
    }
)
"""Name → mechanism whose report depends on the signed distance to the boundary alone."""


def scalar(given: OwnInput = AS_PUBLISHED) -> Mapping[str, Contestant]:
    """Return those of `SCALAR` and of a file, which are taken to depend on that alone too."""
    return with_own(SCALAR, given)


def origins(given: OwnInput = AS_PUBLISHED) -> Mapping[str, str]:
    """Return name → where it comes from, for every contestant."""
    of = {name: contestant.origin for name, contestant in scalar(given).items()}
    first = ("GP_Lip", "Student-t", "generalized Cauchy")
    paper = {"GP_loc": SEED, **{name: of.pop(name) for name in first}, LOCAL: SEED}
    ours = {name: of.pop(name) for name in [*of] if of[name] == OURS}
    return {**paper, **ours, "deconvolved": OURS, **of}


def setting(panel: TwoWayPanel, at: tuple[float, float]) -> Setting:
    """Return the question at thresholds (T₁, T₂)."""
    width = panel.width(at)
    return Setting(
        soft=TwoWayThreshold(at, width, profile="smoothstep"),
        seed=TwoWayThreshold(at, width, profile="linear"),
        privacy=panel.privacy,
        footing=panel.footing,
    )


def on_the_line(panel: TwoWayPanel, width: float) -> Setting:
    """Return the question of which the signed distance is the value itself.

    A mechanism for f = φ(s(x)) knows of x only s(x): its moments at x are those at s of the
    mechanism for φ(s).
    """
    return Setting(
        soft=Threshold(0.0, width, profile="smoothstep"),
        seed=Threshold(0.0, width, profile="linear"),
        privacy=panel.privacy,
        footing=panel.footing,
    )


def coordinate_reports(panel: TwoWayPanel) -> DebiasedLaplace:
    """Return the mechanism of deconvolved points on one coordinate, about the threshold 0."""
    scale = math.sqrt(2) * panel.per
    query = Threshold(0.0, POINT_BAND * scale, profile="smoothstep")
    return DebiasedLaplace(query, GeoPrivacy(1.0, per=scale, unit="dollar"))
