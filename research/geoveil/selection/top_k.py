"""Select the k best of m outcomes, one after another, optionally with their leads."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from geoveil.gp import ParameterError, RandomSource, chosen_source, share, validation
from geoveil.selection.base import Guarantee
from geoveil.selection.global_sensitivity import PermuteAndFlip
from geoveil.selection.noisy_max import Lead, ReportNoisyMax
from geoveil.selection.scores import Utilities


@dataclass(frozen=True, slots=True)
class TopOutcomes:
    """Privately chosen outcomes, in the order of choice.

    Attributes:
        outcomes: the outcomes' indices, or keys in a dict of scores.
        leads: each outcome's noisy lead over the best remaining one; empty without `gap`.
        guarantee: covers all choices and leads together.
    """

    outcomes: tuple[Any, ...]
    leads: tuple[Lead, ...]
    guarantee: Guarantee


def top_k(
    scores: Utilities | ArrayLike | Mapping[Any, float],
    k: int,
    *,
    epsilon: float,
    sensitivity: float,
    monotone: bool = False,
    gap: bool = False,
    source: RandomSource | None = None,
) -> TopOutcomes:
    """Return k outcomes that are likely to have the largest utilities: exact and private.

    Each choice takes one of the remaining outcomes with ε/k: by permute-and-flip or, with `gap`, by
    report-noisy-max with exponential noise, which has the same law and adds its lead free of charge
    [PF Theorem 5, §4].

    Args:
        scores: utilities, shape (m,), or a dict of them, whose keys are public.
        k: the number of outcomes, from 1 to m, or to m − 1 with `gap`, since the last has no rival.
        epsilon: ε > 0, nats per changed record, for all choices together.
        sensitivity: Δ > 0, how far any utility may differ between neighbours, in its unit.
        monotone: whether all utilities move the same way between any two neighbours.
        gap: whether to return the leads.

    Raises:
        ParameterError: if a public argument is out of range.
        PrivateValueError: if the utilities are not finite doubles.

    Example:
        >>> from geoveil.gp import SeededSource
        >>> votes = {"bus": 310, "tram": 540, "bicycle": 420}
        >>> found = top_k(votes, 2, epsilon=1.0, sensitivity=1.0, gap=True, source=SeededSource(1))
        >>> found.outcomes, [round(lead.lead) for lead in found.leads]
        (('tram', 'bicycle'), [117, 109])
    """
    if isinstance(scores, Mapping):
        names, utilities = list(scores), Utilities(list(scores.values()))
    else:
        utilities = scores if isinstance(scores, Utilities) else Utilities(scores)
        names = list(range(utilities.outcomes))
    validation.require_count("k", k)
    most = utilities.outcomes - 1 if gap else utilities.outcomes
    if k > most:
        raise ParameterError("k", k, f"an integer from 1 to {most}" + " with gap" * gap)
    part = share("k", validation.positive("epsilon", epsilon), k)
    bits = chosen_source(source)
    leading = ReportNoisyMax(part, sensitivity, monotone=monotone)
    flipping = PermuteAndFlip(part, sensitivity, monotone=monotone)
    among = np.arange(utilities.outcomes)
    outcomes, leads = [], []
    for _ in range(k):
        left = Utilities(utilities.values[among])
        lead = leading.select(left, bits, gap=True) if gap else None
        place = flipping.select(left, bits) if lead is None else int(lead.outcome)
        outcomes.append(names[among[place]])
        if lead is not None:
            leads.append(replace(lead, outcome=outcomes[-1]))
        among = np.delete(among, place)
    kept = (leading if gap else flipping).guarantee
    return TopOutcomes(tuple(outcomes), tuple(leads), kept.of_choices(k, epsilon))
