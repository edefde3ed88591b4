"""The k most influential nodes of a private graph, one private choice after the other."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from geoveil.gp import validation
from geoveil.gp.errors import ParameterError
from geoveil.gp.exact.bits import RandomSource, chosen_source
from geoveil.gp.privacy.rounding import require_count, share
from geoveil.selection.base import Guarantee, SelectionMechanism
from geoveil.selection.contrib.betweenness import Graph
from geoveil.selection.contrib.influence import (
    Influence,
    safe_sensitivity,
    smooth_sensitivity,
)
from geoveil.selection.contrib.method import Method, chosen
from geoveil.selection.exponential import ExponentialMechanism
from geoveil.selection.local_dampening import LocalDampening
from geoveil.selection.one_sided_pareto import ExponentialPareto
from geoveil.selection.permute_and_flip import PermuteAndFlip
from geoveil.selection.scores import SmoothUtilities
from geoveil.selection.smooth_noisy_max import SmoothNoisyMax
from geoveil.selection.smooth_selection import SmoothSelection


@dataclass(frozen=True, slots=True)
class NodeSetting:
    """What is public of a graph.

    Attributes:
        nodes: n.
        degree_bound: D; see `Influence`.
    """

    nodes: int
    degree_bound: int


@dataclass(frozen=True, slots=True)
class Remaining:
    """The nodes that have not been chosen yet.

    Attributes:
        known: what is known of all nodes. Private.
        among: their numbers, shape (m,).
    """

    known: Influence
    among: NDArray[np.int64]


NodeMethod: TypeAlias = Method[NodeSetting, Remaining]


def _smooth_noisy_max(epsilon: float, setting: NodeSetting) -> SmoothNoisyMax:
    # Planned for a graph whose degrees stay below half of the bound. So many nodes ask for light
    # tails.
    degree, bound = (setting.degree_bound + 1) // 2, setting.degree_bound
    return SmoothNoisyMax.planned(
        epsilon,
        setting.nodes,
        lambda beta: smooth_sensitivity(degree, bound, beta),
        ExponentialPareto(6.0),
    )


def _smooth(left: Remaining, mechanism: SelectionMechanism) -> SmoothUtilities:
    assert isinstance(mechanism, SmoothSelection)
    return left.known.as_smooth(left.among, mechanism.beta)


NODE_METHODS: Mapping[str, NodeMethod] = MappingProxyType(
    {
        "exponential": Method(
            lambda epsilon, s: ExponentialMechanism(epsilon, safe_sensitivity(s.degree_bound)),
            lambda left, _: left.known.as_betweenness(left.among),
        ),
        "permute-and-flip": Method(
            lambda epsilon, s: PermuteAndFlip(epsilon, safe_sensitivity(s.degree_bound)),
            lambda left, _: left.known.as_betweenness(left.among),
        ),
        "smooth noisy max": Method(_smooth_noisy_max, _smooth),
        "local dampening": Method(
            lambda epsilon, _: LocalDampening(epsilon),
            lambda left, _: left.known.as_local(left.among),
        ),
        "shifted local dampening": Method(
            lambda epsilon, s: ExponentialMechanism(epsilon, safe_sensitivity(s.degree_bound)),
            lambda left, _: left.known.as_shifted(left.among),
        ),
        "shifted permute-and-flip": Method(
            lambda epsilon, s: PermuteAndFlip(epsilon, safe_sensitivity(s.degree_bound)),
            lambda left, _: left.known.as_shifted(left.among),
        ),
        "degree, permute-and-flip": Method(
            lambda epsilon, _: PermuteAndFlip(epsilon, 1.0, monotone=True),
            lambda left, _: left.known.as_degrees(left.among),
        ),
    }
)
"""Name → what it is. The last ranks degrees instead, which go along with the betweenness."""


@dataclass(frozen=True, slots=True)
class TopNodes:
    """Nodes that were chosen in private.

    Attributes:
        nodes: their numbers, in the order of the choices.
        guarantee: of all choices together, for one edge more or less.
    """

    nodes: tuple[int, ...]
    guarantee: Guarantee


def top_k_nodes(
    graph: Graph,
    k: int,
    *,
    epsilon: float,
    degree_bound: int | None = None,
    mechanism: str = "degree, permute-and-flip",
    source: RandomSource | None = None,
) -> TopNodes:
    """Return k nodes that are likely to have the largest egocentric betweenness [LD Algorithm 1].

    Each is chosen among those that are left, with ε/k. The curator, who runs this, sees the graph
    and is trusted with its edges; the nodes are public. The result hides every single edge, not
    whether somebody is in the graph.

    Args:
        graph: the private graph.
        k: how many nodes, from 1 to n.
        epsilon: ε > 0, nats per edge added or removed, for all choices together.
        degree_bound: D; see `Influence`. Only the mechanisms with a global sensitivity use it.
        mechanism: a name in `NODE_METHODS`.
        source: random bits; the operating system's by default.

    Raises:
        ParameterError: if a public argument is out of range.
        PrivateValueError: if the graph exceeds the degree bound.

    Example:
        >>> from geoveil.gp import SeededSource
        >>> star = Graph(9, [(0, leaf) for leaf in range(1, 9)])
        >>> top_k_nodes(star, 1, epsilon=4.0, source=SeededSource(1)).nodes
        (0,)
    """
    method = chosen(NODE_METHODS, mechanism)
    require_count("k", k)
    if k > graph.nodes:
        raise ParameterError("k", k, f"an integer from 1 to {graph.nodes}, the number of nodes")
    known = Influence(graph, degree_bound)
    selection = method.set_up(
        share("k", validation.positive("epsilon", epsilon), k),
        NodeSetting(known.outcomes, known.degree_bound),
    )
    bits = chosen_source(source)
    among = np.arange(known.outcomes)
    nodes = []
    for _ in range(k):
        index = selection.select(method.tell(Remaining(known, among), selection), bits)
        nodes.append(int(among[index]))
        among = np.delete(among, index)
    guarantee = replace(
        selection.guarantee,
        epsilon=epsilon,
        statement=f"{k} choices at ε/{k} each, for: {selection.guarantee.statement}",
    )
    return TopNodes(tuple(nodes), guarantee)
