"""The k most influential nodes of a private graph: scores, sensitivities and choice [LD §5.1].

Neighbouring graphs differ in one edge. The egocentric betweenness of a node of degree d then moves
by at most max(d(d−1)/4, d) [LD Lemma 5.2], and
    δ(G, t, v) = max((d + t)(d + t − 1)/4, d + t)
is an admissible bound of its local sensitivity after t changes [LD Lemma 5.4].

A degree bound D is a promise about every possible graph. The private graph's largest degree is no
such bound: a Δ computed from it [LD §6.1] makes ε meaningless. D = n − 1 needs no promise, nor does
δ unless it is shifted. docs/selection.md derives the shifted score [LD Definition 4.3].
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geoveil.gp import (
    PrivateValueError,
    RandomSource,
    chosen_source,
    round_up,
    share,
    validation,
)
from geoveil.selection.base import (
    Guarantee,
    LocalUtilities,
    ScoresLike,
    SmoothUtilities,
    Utilities,
)
from geoveil.selection.contrib.graphs import Graph, egocentric_betweenness
from geoveil.selection.contrib.recipe import SelectionRecipe, by_beta, plain, recipe_named
from geoveil.selection.global_sensitivity import ExponentialMechanism, PermuteAndFlip
from geoveil.selection.local_dampening import LocalDampening
from geoveil.selection.one_sided import ExponentialPareto
from geoveil.selection.smooth import SmoothNoisyMax

Array: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]

_ROUNDING = Fraction(1, 10**9)
"""A bound, relative to Δ, of float64's error in sums of up to 2^53 Δ/10^9."""
_COVER = 1 + float(_ROUNDING)
_MOST_BOUND = 200_000
"""The largest degree bound for which Σ_t Δ stays exact."""


def sensitivity_at(degrees: ArrayLike, changes: int) -> Array:
    """Return δ(G, t, v) after t ≥ 0 changes for nodes of given degrees, any shape.

    Example:
        >>> sensitivity_at([0, 2, 9], 0).tolist()
        [0.0, 2.0, 18.0]
    """
    d = np.asarray(degrees, dtype=np.float64) + changes
    return np.maximum(d * (d - 1) / 4, d)


def global_sensitivity(degree_bound: int) -> float:
    """Return Δ = max(D(D−1)/4, D).

    Raises:
        ParameterError: if the bound is not an integer from 1 to 200,000.

    Example:
        >>> global_sensitivity(9458)
        22361076.5
    """
    validation.require_count("degree_bound", degree_bound, 1, _MOST_BOUND)
    return float(sensitivity_at(degree_bound, 0))


def safe_sensitivity(degree_bound: int) -> float:
    """Return slightly more than Δ, to cover the rounding of the scores."""
    return round_up(Fraction(global_sensitivity(degree_bound)) * (1 + _ROUNDING))


class Influence:
    """The scores of one graph's nodes. Everything except n and D is private.

    Args:
        degree_bound: D ≥ the degrees of every possible graph; n − 1 by default, or 1 for a sole
            node.

    Raises:
        ParameterError: if the bound is out of range.
        PrivateValueError: if the graph exceeds it.

    Example:
        >>> known = Influence(Graph(4, [(0, 1), (0, 2), (0, 3)]))
        >>> known
        Influence(4 nodes, degree_bound=3, edges not shown)
        >>> known.betweenness.tolist()
        [3.0, 0.0, 0.0, 0.0]
    """

    def __init__(self, graph: Graph, degree_bound: int | None = None) -> None:
        bound = max(graph.nodes - 1, 1) if degree_bound is None else degree_bound
        self.sensitivity = global_sensitivity(bound)
        self.degree_bound = bound
        self.outcomes = graph.nodes
        self.degrees = graph.degrees
        if self.degrees.max() > bound:
            raise PrivateValueError(f"a graph without a node of degree above {bound}")
        self._graph = graph

    @cached_property
    def betweenness(self) -> Array:
        """The egocentric betweenness of every node, shape (n,). Private."""
        return egocentric_betweenness(self._graph)

    @cached_property
    def shifted(self) -> Array:
        """Return u − h(d), shape (n,): shifted dampening times Δ, with sensitivity Δ. Private."""
        return self.betweenness - shift(self.degrees, self.degree_bound)

    def as_betweenness(self, among: Integers) -> Utilities:
        """Return the betweenness of some nodes."""
        return Utilities(self.betweenness[among])

    def as_shifted(self, among: Integers) -> Utilities:
        """Return the shifted, dampened betweenness of some nodes, in units of Δ."""
        return Utilities(self.shifted[among])

    def as_degrees(self, among: Integers) -> Utilities:
        """Return the degrees of some nodes; an additional edge raises two degrees by 1."""
        return Utilities(self.degrees[among])

    def as_local(self, among: Integers) -> LocalUtilities:
        """Return the betweenness of some nodes with its admissible sensitivities."""
        degrees = self.degrees[among]
        return LocalUtilities(
            self.betweenness[among], lambda t: _COVER * sensitivity_at(degrees, t)
        )

    def as_smooth(self, among: Integers, beta: float) -> SmoothUtilities:
        """Return the betweenness of some nodes, and S = max_t e^{−βt} max_v δ(G, t, v).

        S uses the largest degree of all nodes, including those already chosen.

        Raises:
            ParameterError: if beta is not > 0.
        """
        bound = smooth_sensitivity(int(self.degrees.max()), self.degree_bound, beta)
        return SmoothUtilities(self.betweenness[among], _COVER * bound, beta=beta)

    def __repr__(self) -> str:
        return (
            f"Influence({self.outcomes} nodes, degree_bound={self.degree_bound}, edges not shown)"
        )


def smooth_sensitivity(degree: int, degree_bound: int, beta: float) -> float:
    """Return max_t e^{−βt} δ(t) for a graph's largest degree (private), with t up to D.

    Example:
        >>> round(smooth_sensitivity(10, 1000, 0.5), 6), smooth_sensitivity(10, 1000, 0.0)
        (22.5, 249750.0)
    """
    changes = np.arange(degree_bound - degree + 1)
    reach = np.exp(-beta * changes) * sensitivity_at(degree + changes, 0)
    return float(reach.max())


def shift(degrees: Integers, degree_bound: int) -> Array:
    """Return h(d) = Σ_{t ≥ 0} (Δ − δ(t))₊, exactly, for degrees up to the bound D, any shape."""
    ladder = sensitivity_at(np.arange(degree_bound + 1), 0)
    missing = ladder[-1] - ladder
    return np.cumsum(missing[::-1])[::-1][degrees]


@dataclass(frozen=True, slots=True)
class NodeSetting:
    """The public facts of a graph: its number of nodes n and its degree bound D."""

    nodes: int
    degree_bound: int


@dataclass(frozen=True, slots=True)
class Remaining:
    """The nodes not yet chosen, and the private scores of all nodes."""

    influence: Influence
    among: NDArray[np.int64]


NodeRecipe: TypeAlias = SelectionRecipe[NodeSetting, Remaining]


def _smooth_noisy_max(epsilon: float, setting: NodeSetting) -> SmoothNoisyMax:
    # Planned for a graph with degrees below half the bound. Light tails suit this many nodes.
    degree, bound = (setting.degree_bound + 1) // 2, setting.degree_bound
    return SmoothNoisyMax.planned(
        epsilon,
        setting.nodes,
        lambda beta: smooth_sensitivity(degree, bound, beta),
        ExponentialPareto(6.0),
    )


def _safe(setting: NodeSetting) -> float:
    return safe_sensitivity(setting.degree_bound)


def _left(score: Callable[[Influence, Integers], ScoresLike]) -> Callable[[Remaining], ScoresLike]:
    """Return how to score the nodes that are left."""
    return lambda left: score(left.influence, left.among)


NODE_RECIPES: Mapping[str, NodeRecipe] = MappingProxyType(
    {
        "exponential": plain(ExponentialMechanism, _left(Influence.as_betweenness), _safe),
        "permute-and-flip": plain(PermuteAndFlip, _left(Influence.as_betweenness), _safe),
        "smooth noisy max": SelectionRecipe(
            _smooth_noisy_max,
            by_beta(lambda left, beta: left.influence.as_smooth(left.among, beta)),
        ),
        "local dampening": plain(LocalDampening, _left(Influence.as_local)),
        "shifted local dampening": plain(ExponentialMechanism, _left(Influence.as_shifted), _safe),
        "shifted permute-and-flip": plain(PermuteAndFlip, _left(Influence.as_shifted), _safe),
        "degree, permute-and-flip": plain(
            PermuteAndFlip, _left(Influence.as_degrees), sensitivity=1.0, monotone=True
        ),
    }
)
"""Name → recipe. The last ranks nodes by degree, which correlates with betweenness."""


@dataclass(frozen=True, slots=True)
class TopNodes:
    """Privately chosen nodes, in order, and the guarantee of all choices together."""

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

    Each choice spends ε/k and takes one of the remaining nodes. The caller is trusted with the
    edges; the nodes are public. The result hides every single edge, but not who is in the graph.

    Args:
        graph: the private graph.
        k: the number of nodes to choose, from 1 to n.
        epsilon: ε > 0, nats per edge added or removed, for all choices together.
        degree_bound: D ≥ the degrees of every possible graph; n − 1 by default. Only mechanisms
            with a global sensitivity use it.
        mechanism: a name in `NODE_RECIPES`.

    Raises:
        ParameterError: if a public argument is out of range.
        PrivateValueError: if the graph exceeds the degree bound.

    Example:
        >>> from geoveil.gp import SeededSource
        >>> star = Graph(9, [(0, leaf) for leaf in range(1, 9)])
        >>> top_k_nodes(star, 1, epsilon=4.0, source=SeededSource(1)).nodes
        (0,)
    """
    recipe = recipe_named(NODE_RECIPES, mechanism)
    validation.require_count("k", k, 1, graph.nodes)
    influence = Influence(graph, degree_bound)
    selection = recipe.build(
        share("k", validation.positive("epsilon", epsilon), k),
        NodeSetting(influence.outcomes, influence.degree_bound),
    )
    bits = chosen_source(source)
    among = np.arange(influence.outcomes)
    nodes = []
    for _ in range(k):
        index = selection.select(recipe.score(Remaining(influence, among), selection), bits)
        nodes.append(int(among[index]))
        among = np.delete(among, index)
    return TopNodes(tuple(nodes), selection.guarantee.of_choices(k, epsilon))
