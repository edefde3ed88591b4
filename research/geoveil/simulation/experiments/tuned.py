"""Tune noise and split of ε of the paper's mechanism on the experiment's own people.

A real analyst could not do so. Calibration, reach and band stay the paper's, except for "aimed
Student-t". [MATH §12.4] has the variances.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from geoveil.gp import StudentT
from geoveil.simulation.comparison import MECHANISMS, Contestant, as_in_the_paper
from geoveil.simulation.experiment import Table
from geoveil.simulation.experiments import kde, oneway, twoway
from geoveil.simulation.experiments.rows import SEED

FRACTIONS = tuple(np.geomspace(0.004, 0.25, 25).tolist())
"""Values of β/ε to try besides the paper's 1/9, each 1.19 times the one before."""
_OURS, _PAIRS = "DebiasedLaplace", "deconvolved"
_STUDENT_T, _USUAL = "Student-t", 1 / 9
"""The paper's mechanism, and its β/ε."""
_PEOPLE = 1_600_000


def best_freedom(fraction: float) -> float:
    """Return the ν > 2 with the least variance at β = fraction · ε, 0 < fraction < 1/2.

    The derivative of the variance vanishes at bν² + (1 + 3b)ν = 5 + 4b, where b is the fraction.

    Example:
        >>> round(best_freedom(1 / 9), 2)
        3.22
    """
    middle, right = 1 + 3 * fraction, 5 + 4 * fraction
    return 2 * right / (middle + math.sqrt(middle**2 + 4 * fraction * right))


def _contestants(*others: str, every: int = 1) -> MappingProxyType[str, Contestant]:
    tuned = {
        f"{fraction:.4f}": Contestant(
            SEED, as_in_the_paper(StudentT(best_freedom(fraction)), fraction)
        )
        for fraction in (*FRACTIONS[::every], _USUAL)
    }
    return MappingProxyType(tuned | {name: MECHANISMS[name] for name in (_STUDENT_T, *others)})


@dataclass(frozen=True, slots=True, kw_only=True)
class TunedSetting:
    """The ratio of the paper's error to geoveil's in one setting."""

    panel: str
    published: float
    """The ratio at ν = 3 and β = ε/9."""
    tuned: float
    """The ratio at the ν and β with the least error."""
    shape: float
    """The best ν."""
    fraction: float
    """The best β/ε."""


def _compared(panel: str, errors: Mapping[str, float], ours: str = _OURS) -> TunedSetting:
    tuned = {name: error for name, error in errors.items() if name[0].isdigit()}
    best = min(tuned, key=tuned.__getitem__)
    return TunedSetting(
        panel=panel,
        published=errors[_STUDENT_T] / errors[ours],
        tuned=tuned[best] / errors[ours],
        shape=best_freedom(float(best)),
        fraction=float(best),
    )


def thresholds() -> list[TunedSetting]:
    """Return the ratios of the noise E[v] at one threshold to `DebiasedLaplace`'s."""
    names = _contestants(_OURS)
    return [
        _compared(
            panel.label,
            {name: oneway.moments(panel, c.build(panel.setting))[1] for name, c in names.items()},
        )
        for panel in oneway.PANELS
    ]


def pairs(panels: Sequence[twoway.TwoWayPanel] = twoway.PANELS) -> list[TunedSetting]:
    """Return the ratios of the ASE of pairs to deconvolved points', at n = 1.6 million.

    The noise costs ε for each pair, points cost it once. Every third fraction is tried as β/ε.
    """

    class _TunedPairs(twoway.TwoWayPanel):
        of_papers = _contestants(every=3)

    comparisons = []
    for panel in panels:
        moments = twoway.moments(_TunedPairs(per=panel.per, axes=panel.axes))
        errors = {name: of.ase(_PEOPLE)["error"] for name, of in moments.items()}
        comparisons.append(_compared(panel.label, errors, _PAIRS))
    return comparisons


def densities() -> list[TunedSetting]:
    """Return the ratios of the ASE of densities to `DebiasedLaplace`'s, with ε for each centre."""

    class _TunedKernel(kde.KernelSetting):
        of_papers = _contestants(_OURS)

    kernels = [
        _TunedKernel(per=s.per, factor=s.factor, size=s.size, subgrid=s.subgrid)
        for s in kde.SETTINGS[:5]
    ]
    errors: dict[str, dict[str, float]] = {s.label: {} for s in kernels}
    for row in kde.exact(*kernels):
        if row.panel in errors:
            errors[row.panel][row.mechanism] = row.error
    return [_compared(panel, by_name) for panel, by_name in errors.items()]


def tuned_table(found: Sequence[TunedSetting]) -> Table:
    """Return the ratios as a table."""
    return Table(
        headers=("setting", "as published", "tuned", "ν", "β/ε"),
        rows=[
            (s.panel, f"{s.published:.3g}", f"{s.tuned:.3g}", f"{s.shape:.2f}", f"{s.fraction:g}")
            for s in found
        ],
    )
