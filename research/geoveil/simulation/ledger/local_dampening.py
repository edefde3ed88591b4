"""Local dampening [LD]: its examples, influential nodes and decision trees."""

import math
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import product
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from geoveil.selection import ExponentialMechanism, LocalDampening, LocalUtilities
from geoveil.selection.contrib.criteria import CRITERIA, gain_sensitivity
from geoveil.selection.contrib.graphs import Graph, egocentric_betweenness
from geoveil.selection.contrib.influence import Influence, global_sensitivity
from geoveil.simulation.experiment import grouped, mean_and_error
from geoveil.simulation.ledger.given import (
    DEGREES,
    SHIFTED,
    SIZES,
    bisected,
    graphs,
    grown,
    tabled,
)
from geoveil.simulation.ledger.reproduction import Numbers, Told
from geoveil.simulation.selection.experiment import Options, SelectionRow
from geoveil.simulation.selection.influence import chosen_nodes, found

_K = 10
_SAMPLES, _RUNS, _SAMPLE_NODES = 10, 10, 50
_BUDGETS = (0.1, 0.5, 1.0, 5.0, 10.0)
_SMALL_BUDGETS = {"Enron": 0.75, "GitHub": 0.3}
"""Graph → the greatest budget in Figure 5a or 5e."""


def _betweenness(options: Options) -> Iterator[Told]:
    spokes = [(hub, node) for hub in (0, 1) for node in range(2, 8)]
    for what, edges in (("", [*spokes, (0, 1)]), (" without the edge (a, b)", spokes)):
        yield "drawn graph", f"EBC of a{what}", float(egocentric_betweenness(Graph(8, edges))[0])


def _example(values: NDArray[np.float64], first: float, second: float) -> LocalUtilities:
    """Return utilities of sensitivity 3, then 5, then 7.5 for a and b; first, second, … for v."""
    pairs = [(3.0, first), (5.0, second), (7.5, 7.5)]
    return LocalUtilities(values, lambda t: np.repeat(pairs[min(t, 2)], (2, 6)))


def _local(options: Options) -> Iterator[Told]:
    values = np.repeat([6.5, 0.0], (2, 6))
    scores, mechanism = _example(values, 3.0, 5.0), LocalDampening(2.0, 7.5)
    place = "Example 3.9, ε = 2"
    yield place, "dampened EBC of a", float(mechanism.dampened(scores)[0])
    plain = ExponentialMechanism(2.0, 7.5).probabilities(values)
    for name, law in (("local dampening", mechanism.probabilities(scores)), ("exponential", plain)):
        yield place, f"{name}, a", float(law[0])
        yield place, f"{name}, one v", float(law[-1])


def _shifted(options: Options) -> Iterator[Told]:
    values = np.repeat([-0.5, -7.0], (2, 6))
    scores, mechanism = _example(values, 2.0, 5.0), LocalDampening(2.0, 7.5)
    dampened, chances = mechanism.dampened(scores), mechanism.probabilities(scores)
    for node, position in (("a", 0), ("one v", -1)):
        place = "Example 4.2, ε = 2"
        yield place, f"dampened, shifted EBC of {node}", float(dampened[position])
        yield place, f"probability of {node}", float(chances[position])


def _inverted(options: Options) -> Iterator[Told]:
    scores = LocalUtilities(np.array([3.0, 4.0]), lambda t: np.array([1.0 if t == 0 else 2.0, 4.0]))
    dampened = LocalDampening(1.0, 4.0).dampened(scores)
    for name, value in zip(("first", "second"), dampened.tolist(), strict=True):
        yield "Example 4.1", f"dampened utility of the {name}", value


def _nodes(options: Options) -> Iterator[Told]:
    for name, degree in DEGREES.items():
        yield name, "Δ EBC", global_sensitivity(degree)
    rng = np.random.default_rng(options.seed)
    saved = "budget of GlobalPrivTopk over that of ShiftedLocalPrivTopk, powers of ten"
    for name, graph in graphs(options):
        if name == "DBLP":  # large budgets take hours
            continue
        influence = Influence(graph, int(graph.degrees.max()))
        runs = 3 if options.quick else 10
        plain, shifted = (_half(influence, rng, runs, key) for key in ("exponential", SHIFTED))
        for end in ("", ", most"):
            yield name, saved + end, math.log10(plain / shifted), 0.05
        yield from _small_budgets(name, influence, rng, runs)


def _small_budgets(
    name: str, known: Influence, rng: np.random.Generator, runs: int
) -> Iterator[Told]:
    """Yield numbers for the statements on Figures 5a and 5e, at their greatest budget."""
    budget = _SMALL_BUDGETS[name]

    def accuracy(mechanism: str, k: int) -> NDArray[np.float64]:
        return np.array(_shares(known, rng, runs, k, mechanism, budget))

    at = f"{name}, B = {budget:g}"
    whole, local, shifted = (
        accuracy(key, _K) for key in ("exponential", "local dampening", SHIFTED)
    )
    yield at, "accuracy of GlobalPrivTopk, k = 10", *mean_and_error(whole)
    yield at, "LocalPrivTopk less GlobalPrivTopk, k = 10", *mean_and_error(local - whole)
    yield (
        at,
        "ShiftedLocalPrivTopk less the better of the others, k = 10",
        *mean_and_error(shifted - np.maximum(whole, local)),
    )
    more, fewer = (accuracy(SHIFTED, k) for k in (20, 5))
    yield at, "ShiftedLocalPrivTopk, k = 20 less k = 5", *mean_and_error(more - fewer)


def _half(known: Influence, rng: np.random.Generator, runs: int, mechanism: str) -> float:
    """Return the least budget at which the mechanism finds half of the nodes."""
    shares = partial(_shares, known, rng, runs, _K, mechanism)
    return bisected(lambda budget: float(np.mean(shares(budget))) >= 0.5, 1e-3, 1e6, 12)


def _shares(
    known: Influence, rng: np.random.Generator, runs: int, k: int, mechanism: str, budget: float
) -> list[float]:
    """Return the share of the true top k that each run finds."""
    truth = np.argsort(-known.betweenness, kind="stable")[:k]
    choice = chosen_nodes(mechanism, known, rng, budget, k).choice
    return [found(truth, choice(k)) for _ in range(runs)]


def breadth_first(graph: Graph, start: int, nodes: int) -> Graph | None:
    """Return the graph of the first nodes of a breadth-first search; None if there are fewer."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order

    ends = graph.edges
    matrix = csr_array((np.ones(len(ends)), tuple(ends.T)), shape=(graph.nodes, graph.nodes))
    reached = breadth_first_order(matrix, start, directed=False, return_predecessors=False)[:nodes]
    if len(reached) < nodes:
        return None
    place = np.full(graph.nodes, -1)
    place[reached] = np.arange(len(reached))
    kept = place[ends]
    return Graph(len(reached), kept[(kept >= 0).all(axis=1)])


def _samples(options: Options) -> Iterator[Told]:
    rng = np.random.default_rng(options.seed)
    many = 3 if options.quick else _SAMPLES
    for name, graph in graphs(options):
        starts = rng.permutation(np.flatnonzero(graph.degrees > 0)).tolist()
        drawn = (breadth_first(graph, start, _SAMPLE_NODES) for start in starts)
        samples = [s for _, s in zip(range(many), filter(None, drawn), strict=False)]
        shares = []
        for sample in samples:
            of = partial(_shares, Influence(sample, int(sample.degrees.max())), rng)
            each = [of(_RUNS, k, SHIFTED, b) for b, k in product(_BUDGETS, (1, 2, 3))]
            shares.append(np.reshape(each, (len(_BUDGETS), 3, _RUNS)).mean(axis=2))
        found_of = np.array(shares)  # (samples, budgets, k)
        for place, budget in enumerate(_BUDGETS):
            yield name, f"PTK, B = {budget:g}", *mean_and_error(found_of[:, place].mean(axis=1))
        most = found_of.mean(axis=1)
        yield name, "PTK, k = 3 less k = 1, mean of all B", *mean_and_error(most[:, 2] - most[:, 0])


_TREES = {"Local": "local dampening", "Global": "exponential, information gain"}


def _trees(options: Options) -> Iterator[Told]:
    for name in ("Adult", "NLTCS", "ACS"):
        for bound in ("least of the range 13 to 17", "most of that range"):
            quantity = f"sensitivity of information gain, bits, {bound}"
            yield name, quantity, gain_sensitivity(SIZES[name])
        yield name, "sensitivity of Gini", CRITERIA["gini"].sensitivity(SIZES[name])
    every: dict[str, list[tuple[float, float]]] = {}
    tables = 0
    for name, data in tabled(options):
        tables += 1
        rows = grouped(grown(options, data, (SHIFTED, *_TREES.values())), "setting", "mechanism")
        for setting in dict.fromkeys(setting for setting, _ in rows):
            shifted, local, plain = (
                rows[setting, key] for key in (SHIFTED, _TREES["Local"], _TREES["Global"])
            )
            gains = {
                "ShiftedLocalDiffPID3 over LocalDiffPID3": _gains(shifted, local),
                "ShiftedLocalDiffPID3 over GlobalDiffPID3": _gains(shifted, plain),
                "LocalDiffPID3 over GlobalDiffPID3": _gains(local, plain),
            }
            for what, values in gains.items():
                yield f"{name}, {setting}", f"{what}, most of all ε", *max(values)
                every.setdefault(what, []).extend(values)
            least = min(gains["ShiftedLocalDiffPID3 over LocalDiffPID3"])
            yield f"{name}, {setting}", "ShiftedLocalDiffPID3 over LocalDiffPID3, least", *least
            label = "LocalDiffPID3 ahead of GlobalDiffPID3, share of all ε"
            yield f"{name}, {setting}", label, *_ahead(gains["LocalDiffPID3 over GlobalDiffPID3"])
    if tables == 3 and not options.quick:
        for what, values in every.items():
            yield "all tables and depths", f"{what}, most", *max(values)


def _gains(ours: list[SelectionRow], theirs: list[SelectionRow]) -> list[tuple[float, float]]:
    """Return the gain in accuracy at each ε, with an upper bound of its standard error."""
    return [(a.value - b.value, a.standard_error) for a, b in zip(ours, theirs, strict=True)]


def _ahead(gains: list[tuple[float, float]]) -> tuple[float, float]:
    """Return the share of positive gains, and its standard error from the gains' own."""
    sure = [NormalDist().cdf(gain / error) if error else 0.5 for gain, error in gains]
    spread = math.sqrt(sum(p * (1 - p) for p in sure))
    return sum(gain > 0 for gain, _ in gains) / len(gains), spread / len(gains)


NUMBERS: Mapping[str, Numbers] = {
    "ld-figure-1": _betweenness,
    "ld-figure-2": _local,
    "ld-figure-3": _shifted,
    "ld-figure-4": _inverted,
    "ld-figure-5": _nodes,
    "ld-table-2": _samples,
    "ld-figure-6": _trees,
}
"""Row of the ledger → the function that computes its numbers."""
