"""The mechanisms with which a tree chooses the attribute to split by."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Literal, TypeAlias

import numpy as np

from geoveil.gp import RandomSource, validation
from geoveil.selection.base import Array, LocalUtilities, ScoresLike, SelectionMechanism
from geoveil.selection.contrib.criteria import (
    CRITERIA,
    CriterionName,
    NodeCounts,
    gain_sensitivities,
    gain_sensitivity_rows,
)
from geoveil.selection.global_sensitivity import ExponentialMechanism, PermuteAndFlip
from geoveil.selection.local_dampening import LocalDampening
from geoveil.selection.smooth import SmoothNoisyMax
from geoveil.selection.stability import StabilityMechanism, count_margin, indicator_utilities

SplitName: TypeAlias = Literal[
    "exponential",
    "local_dampening",
    "local_dampening_replaced",
    "permute_and_flip",
    "shifted_local_dampening",
    "smooth_noisy_max",
    "stability",
]

REACH = 4096
"""The number of changes after which shifted local dampening uses the global sensitivity."""
_ROUNDED = 1 + 2.0**-30
"""A bound on the rounding error of a sum of that many sensitivities."""


@dataclass(frozen=True, slots=True)
class Splitter:
    """A mechanism that selects among a node's attributes, and the function that scores them."""

    mechanism: SelectionMechanism
    scores: Callable[[NodeCounts], ScoresLike]

    def probabilities(self, node: NodeCounts) -> Array:
        """Return the probability of each attribute, shape (attributes,): private."""
        return self.mechanism.probabilities(self.scores(node))

    def select(self, node: NodeCounts, source: RandomSource) -> int:
        """Return the position of one of the node's attributes."""
        return self.mechanism.select(self.scores(node), source)


def splitter(
    mechanism: SplitName,
    criterion: CriterionName | None,
    epsilon: float,
    *,
    attributes: int,
    most_records: int,
) -> Splitter:
    """Return the splitter that chooses an attribute at a node.

    Args:
        mechanism: one of `SPLITTERS`.
        criterion: the criterion of a good split; None for the mechanism's default.
        epsilon: ε > 0 of one choice, in nats.
        attributes: the largest number of attributes to choose from.
        most_records: the public bound on the number of records, for `gain_sensitivity`.

    Raises:
        ParameterError: if an argument is out of range, or the mechanism can't use the criterion.

    Example:
        >>> table = np.array([[9, 1], [0, 9], [5, 5], [4, 5]])
        >>> node = NodeCounts(table=table, starts=np.array([0, 2]), most_records=100)
        >>> stable = splitter("stability", None, 1.0, attributes=2, most_records=100)
        >>> stable.probabilities(node).round(4).tolist()
        [0.9999, 0.0001]
    """
    build, permitted = SPLITTERS[validation.choice("mechanism", mechanism, SPLITTERS)]
    name = permitted[0] if criterion is None else criterion
    validation.choice("criterion", name, permitted)
    return build(name, epsilon, attributes, most_records)


def shifted_gain(node: NodeCounts, sensitivity: float, reach: int = REACH) -> Array:
    """Return u_A − Σ_t (Δ − δ(x, t, A)), t < reach, for `information_gain`: Δ > 0, in bits.

    It is Δ times shifted dampening; the exponential mechanism on it is shifted local dampening
    [LD Def. 4.3]. Between neighbours it moves by at most Δ, since the sum moves by at most
    Δ − δ(x, 0).
    """
    delta = np.minimum(gain_sensitivity_rows(node)(0, reach), sensitivity)
    values = CRITERIA["information_gain"].values(node)
    return np.asarray(values - (sensitivity - delta).sum(axis=0))


def _monotone(
    kind: type[ExponentialMechanism | PermuteAndFlip],
    name: str,
    epsilon: float,
    attributes: int,
    most_records: int,
) -> Splitter:
    criterion = CRITERIA[name]
    mechanism = kind(epsilon, criterion.sensitivity(most_records), monotone=True)
    return Splitter(mechanism, criterion.values)


def _local_dampening(
    name: str, epsilon: float, attributes: int, most_records: int, *, replace: bool = False
) -> Splitter:
    def scores(node: NodeCounts) -> LocalUtilities:
        return LocalUtilities(CRITERIA[name].values(node), gain_sensitivities(node))

    sensitivity = CRITERIA[name].sensitivity(most_records)
    return Splitter(LocalDampening(epsilon, sensitivity, replace=replace), scores)


def _shifted(name: str, epsilon: float, attributes: int, most_records: int) -> Splitter:
    sensitivity = CRITERIA[name].sensitivity(most_records)
    mechanism = ExponentialMechanism(epsilon, sensitivity * _ROUNDED)
    return Splitter(mechanism, lambda node: shifted_gain(node, sensitivity))


def _stability(name: str, epsilon: float, attributes: int, most_records: int) -> Splitter:
    values = CRITERIA[name].values
    return Splitter(StabilityMechanism(epsilon), lambda node: count_margin(values(node)))


def _smooth(name: str, epsilon: float, attributes: int, most_records: int) -> Splitter:
    mechanism = SmoothNoisyMax(epsilon, max(attributes, 2))

    def scores(node: NodeCounts) -> ScoresLike:
        return indicator_utilities(count_margin(CRITERIA[name].values(node)), mechanism.beta)

    return Splitter(mechanism, scores)


_Build: TypeAlias = Callable[[str, float, int, int], Splitter]
_ANY = ("max_operator", "information_gain", "gini")

SPLITTERS: Mapping[str, tuple[_Build, Sequence[str]]] = MappingProxyType(
    {
        "exponential": (partial(_monotone, ExponentialMechanism), _ANY),
        "local_dampening": (_local_dampening, ("information_gain",)),
        "local_dampening_replaced": (
            partial(_local_dampening, replace=True),
            ("information_gain",),
        ),
        "permute_and_flip": (partial(_monotone, PermuteAndFlip), _ANY),
        "shifted_local_dampening": (_shifted, ("information_gain",)),
        "smooth_noisy_max": (_smooth, ("max_operator",)),
        "stability": (_stability, ("max_operator",)),
    }
)
"""Name → the mechanism's constructor, and its criteria with the default first."""
