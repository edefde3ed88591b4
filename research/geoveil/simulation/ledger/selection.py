"""Private selection: local dampening [LD], smooth sensitivity [SNM; SPS], permute-and-flip [PF].

A percentile's figure depends on few numbers of a dataset: how many entries it has and their sum,
the percentile, how often it occurs, and j. So it is computed without the data.
"""

import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import permutations, product
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from geoveil.gp import ParameterError
from geoveil.selection import (
    ExponentialMechanism,
    LocalDampening,
    LocalUtilities,
    PermuteAndFlip,
    ReportNoisyMax,
    SmoothUtilities,
)
from geoveil.selection.contrib.criteria import gain_sensitivity
from geoveil.selection.contrib.graphs import Graph, egocentric_betweenness
from geoveil.selection.contrib.influence import Influence, global_sensitivity
from geoveil.selection.contrib.transmission import VARIANT_RECIPES, StudySetting, Transmission
from geoveil.simulation.experiment import grouped
from geoveil.simulation.ledger.reproduction import Numbers, Told
from geoveil.simulation.selection import forest, transmission, tree
from geoveil.simulation.selection.experiment import (
    NOMINAL,
    OPEN,
    PUBLISHED_NOISE,
    Options,
    SelectionContestant,
    SelectionRow,
    published_mechanism,
)
from geoveil.simulation.selection.influence import chosen_nodes, found, read_graph
from geoveil.simulation.selection.percentile import published_dampening
from geoveil.simulation.selection.tables import ADULT_EDGES, Dataset, read_table, table

_DEGREES = {"Enron": 1_383, "DBLP": 343, "GitHub": 9_458}
_SIZES = {
    "Enron": 36_692, "DBLP": 317_080, "GitHub": 37_700,
    "Adult": 45_222, "NLTCS": 21_574, "ACS": 47_461, "Compas": 4_732,
}  # fmt: skip
"""Nodes of the papers' graphs, and records of their tables."""
_SHIFTED = "shifted local dampening"
_K = 10
_SAMPLES, _RUNS, _SAMPLE_NODES = 10, 10, 50
_BUDGETS = (0.1, 0.5, 1.0, 5.0, 10.0)
Data = TypeVar("Data", Graph, Dataset)


def _given(
    options: Options, endings: tuple[str, ...], read: Callable[[Path], Data], *names: str
) -> Iterator[tuple[str, Data]]:
    """Yield those of the papers' data, by their names, that are among files of several kinds."""
    for file in options.data:
        if file.name.endswith(endings):
            with suppress(ParameterError):
                data = read(file)
                size = data.nodes if isinstance(data, Graph) else len(data)
                yield from ((name, data) for name in names if _SIZES[name] == size)


def bisected(enough: Callable[[float], bool], low: float, high: float, steps: int) -> float:
    """Return the least positive number that is enough, by bisection of its logarithm."""
    below, above = math.log(low), math.log(high)
    for _ in range(steps):
        middle = (below + above) / 2
        if enough(math.exp(middle)):
            above = middle
        else:
            below = middle
    return math.exp(above)


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


def check_data(file: Path) -> None:
    """Raise an error unless a file is of the data that rows take, which are known by their size.

    Raises:
        ParameterError: if it is not.
    """
    given = Options(data=(file,))
    if not any((*_graphs(given), *_tables(given, *_SIZES))):
        sizes = ", ".join(f"{name} {size:,}" for name, size in _SIZES.items())
        expected = f"a file of a paper's data, with as many nodes or records: {sizes}"
        raise ParameterError("data", str(file), expected)


def _inverted(options: Options) -> Iterator[Told]:
    scores = LocalUtilities(np.array([3.0, 4.0]), lambda t: np.array([1.0 if t == 0 else 2.0, 4.0]))
    dampened = LocalDampening(1.0, 4.0).dampened(scores)
    for name, value in zip(("first", "second"), dampened.tolist(), strict=True):
        yield "Example 4.1", f"dampened utility of the {name}", value


def _graphs(options: Options) -> Iterator[tuple[str, Graph]]:
    return _given(options, (".npz", ".txt", ".csv", ".gz"), read_graph, *_DEGREES)


def _nodes(options: Options) -> Iterator[Told]:
    for name, degree in _DEGREES.items():
        yield name, "Δ EBC", global_sensitivity(degree)
    rng = np.random.default_rng(options.seed)
    quantity = "budget of GlobalPrivTopk over that of ShiftedLocalPrivTopk, powers of ten"
    for name, graph in _graphs(options):
        if name == "DBLP":  # stated of all three; its large budgets take hours
            continue
        known = Influence(graph, int(graph.degrees.max()))
        runs = 3 if options.quick else 10
        plain, shifted = (_half(known, rng, runs, key) for key in ("exponential", _SHIFTED))
        yield name, quantity, math.log10(plain / shifted), 0.05


def _half(known: Influence, rng: np.random.Generator, runs: int, mechanism: str) -> float:
    """Return the budget at which half of the nodes are found."""
    shares = partial(_shares, known, rng, runs, _K, mechanism)
    return bisected(lambda budget: float(np.mean(shares(budget))) >= 0.5, 1e-3, 1e6, 12)


def _shares(
    known: Influence, rng: np.random.Generator, runs: int, k: int, mechanism: str, budget: float
) -> list[float]:
    """Return the shares of the true k that runs find."""
    truth = np.argsort(-known.betweenness, kind="stable")[:k]
    choice = chosen_nodes(mechanism, known, rng, budget, k).choice
    return [found(truth, choice(k)) for _ in range(runs)]


def breadth_first(graph: Graph, start: int, nodes: int) -> Graph:
    """Return the graph of the first nodes that a breadth-first search from one reaches."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order

    ends = graph.edges
    matrix = csr_array((np.ones(len(ends)), tuple(ends.T)), shape=(graph.nodes, graph.nodes))
    reached = breadth_first_order(matrix, start, directed=False, return_predecessors=False)[:nodes]
    place = np.full(graph.nodes, -1)
    place[reached] = np.arange(len(reached))
    kept = place[ends]
    return Graph(len(reached), kept[(kept >= 0).all(axis=1)])


def _samples(options: Options) -> Iterator[Told]:
    rng = np.random.default_rng(options.seed)
    samples = 3 if options.quick else _SAMPLES
    for name, graph in _graphs(options):
        starts = rng.choice(np.flatnonzero(graph.degrees > 0), samples, replace=False)
        means = []
        for start in starts.tolist():
            sample = breadth_first(graph, start, _SAMPLE_NODES)
            shares = partial(_shares, Influence(sample, max(int(sample.degrees.max()), 1)), rng)
            each = [shares(_RUNS, k, _SHIFTED, b) for b, k in product(_BUDGETS, (1, 2, 3))]
            means.append(np.reshape(each, (len(_BUDGETS), -1)).mean(axis=1))
        for budget, values in zip(_BUDGETS, np.transpose(means), strict=True):
            error = float(np.std(values, ddof=1)) / len(values) ** 0.5
            yield name, f"PTK, B = {budget:g}", float(np.mean(values)), error


def _grown(options: Options, data: Dataset, names: Collection[str]) -> Iterator[SelectionRow]:
    setting = tree.QUICK if options.quick else {"most_draws": 4}
    chosen = [known for known in tree.CONTESTANTS if known.name in names]
    rows = tree.rows_of(data, options.seed, chosen, **setting)
    return (row for row in rows if row.mechanism in names)


def _trees(options: Options) -> Iterator[Told]:
    for name in ("Adult", "NLTCS", "ACS"):
        for bound in ("least of the range 13 to 17", "most of that range"):
            quantity = f"sensitivity of information gain, bits, {bound}"
            yield name, quantity, gain_sensitivity(_SIZES[name])
    paper = {"local dampening": "Local", "exponential, information gain": "Global"}
    data = table("adult").discretised(ADULT_EDGES)
    rows = grouped(_grown(options, data, (_SHIFTED, *paper)), "setting", "mechanism")
    for (setting, mechanism), theirs in rows.items():
        if mechanism in paper:
            gains = [
                (ours.value - row.value, ours.standard_error)
                for ours, row in zip(rows[setting, _SHIFTED], theirs, strict=True)
            ]
            quantity = f"ShiftedLocalDiffPID3 over {paper[mechanism]}DiffPID3, most of all ε"
            yield f"Adult, {setting}", quantity, *max(gains)


_ENTRIES = 4_096
_FLOOR = 0.01
"""S is the greater of e^{−(2j+1)ε} and this in the authors' code."""
_NEAR = 5.0
"""Absolute expected errors that far apart are alike, as the paper puts it."""
_STORED = (
    0.1, 0.1269, 0.1610, 0.2043, 0.2593, 0.3290, 0.4175, 0.5298, 0.6723, 0.8532, 1.0826, 1.3738,
)  # fmt: skip


class _Percentile(NamedTuple):
    """What the error depends on: the sum of the entries, the value, how often it occurs, and j."""

    total: int
    value: int
    repeats: int
    j: int

    def error(self, mechanism: str, epsilon: float) -> float:
        """Return |x_k − E[A]| of LD as printed, or of SNM-T as in the authors' code."""
        indicator = (np.arange(_ENTRIES) < self.repeats).astype(np.float64)
        if mechanism == "LD":
            law = published_dampening(epsilon, indicator, self.j)
        else:
            known = published_mechanism(epsilon, _ENTRIES, PUBLISHED_NOISE["SNM-T"])
            bound = max(math.exp(-(2 * self.j + 1) * epsilon), _FLOOR)
            law = known.probabilities(SmoothUtilities(indicator, bound, beta=known.beta))
        hit = float(law[: self.repeats].sum())
        rest = (self.total - self.repeats * self.value) / (_ENTRIES - self.repeats)
        return (1 - hit) * abs(rest - self.value)

    def budget(self, mechanism: str) -> float:
        """Return the ε from which on the error is small."""
        return bisected(lambda epsilon: self.error(mechanism, epsilon) <= _NEAR, 0.01, 200.0, 30)


_PERCENTILES: Mapping[tuple[str, int], _Percentile] = {
    ("HEPTH", 50): _Percentile(347_414, 41, 12, 2),
    ("HEPTH", 90): _Percentile(347_414, 236, 7, 0),
    ("HEPTH", 99): _Percentile(347_414, 409, 2, 0),
    ("PATENT", 50): _Percentile(27_948_226, 7_761, 2, 0),
    ("PATENT", 90): _Percentile(27_948_226, 10_776, 2, 0),
    ("PATENT", 99): _Percentile(27_948_226, 13_835, 2, 0),
}


def _percentiles(options: Options) -> Iterator[Told]:
    for epsilon in _STORED[::4] if options.quick else _STORED:
        quantity = f"SNM-T as in the authors' code, ε = {epsilon:.4f}"
        yield "HEPTH, p = 50", quantity, _PERCENTILES["HEPTH", 50].error("SNM-T", epsilon)
    for (name, p), known in list(_PERCENTILES.items())[: 1 if options.quick else None]:
        saved = 1 - known.budget("SNM-T") / known.budget("LD")
        yield f"{name}, p = {p}", "budget that SNM-T saves against LD", saved


def _tables(options: Options, *names: str) -> Iterator[tuple[str, Dataset]]:
    return _given(options, (".csv", ".parquet", ".csv.gz"), read_table, *names)


def _published_trees(options: Options) -> Iterator[Told]:
    given = [(name, data.coded()) for name, data in _tables(options, "NLTCS", "ACS")]
    for name, data in [("Adult", table("adult").discretised(ADULT_EDGES)), *given]:
        for row in _grown(options, data, PUBLISHED_NOISE):
            quantity = f"{row.mechanism}, ε = {row.epsilon:g}"
            yield f"{name}, {row.setting}", quantity, row.value, row.standard_error


def _forests(options: Options) -> Iterator[Told]:
    setting = forest.QUICK if options.quick else {"executions": 5, "draws": 4}
    given = [(replace(data, name=name), forest.DEPTH) for name, data in _tables(options, "Compas")]
    for data, depth in [*forest.shipped(options.quick), *given]:
        known = forest.one_margin(data)
        for row in forest.rows_of(data, depth, options.seed, known, **setting):
            level = row.standing == OPEN
            quantity = "WDP" if level else f"{row.mechanism}, ε = {row.epsilon:g}"
            yield data.name, quantity, row.value, row.standard_error


_OUTCOMES, _SCORES = 6, 100
_EPSILON = 1.0


def flipped(scores: NDArray[np.float64], epsilon: float) -> NDArray[np.float64]:
    """Return the law of [PF Algorithm 2] by going through all orders, sensitivity 1."""
    heads = np.exp(epsilon / 2 * (scores - scores.max()))
    result = np.zeros(len(scores))
    orders = list(permutations(range(len(scores))))
    for order in orders:
        left = 1.0
        for outcome in order:
            result[outcome] += left * heads[outcome]
            left *= 1 - heads[outcome]
    return result / len(orders)


def noisy(scores: NDArray[np.float64], epsilon: float) -> NDArray[np.float64]:
    """Return the law of [PF Algorithm 1] by quadrature over the winner's noisy score."""
    from scipy.integrate import quad

    rate = epsilon / 2

    def density(v: float, score: float, others: NDArray[np.float64]) -> float:
        below = -np.expm1(-rate * np.maximum(v - others, 0.0))
        return float(rate * np.exp(-rate * (v - score)) * below.prod())

    # Below any of the scores, with noise that is not negative, it can't win.
    ends = scores.max(), scores.max() + 80 / rate
    others = [np.delete(scores, k) for k in range(len(scores))]
    exactly = partial(quad, density, *ends, epsabs=1e-13, limit=400)
    return np.array([exactly(args=pair)[0] for pair in zip(scores, others, strict=True)])


def _scores(options: Options) -> list[NDArray[np.float64]]:
    rng = np.random.default_rng(options.seed)
    return [rng.uniform(0, 10, _OUTCOMES) for _ in range(10 if options.quick else _SCORES)]


_SETTING = f"{_SCORES} random scores of {_OUTCOMES} outcomes"


def _equal_laws(options: Options) -> Iterator[Told]:
    apart = [flipped(s, _EPSILON) - noisy(s, _EPSILON) for s in _scores(options)]
    yield _SETTING, "largest difference of Algorithms 1 and 2", float(np.abs(apart).max())


def _compared(options: Options) -> Iterator[Told]:
    ratios = []
    for scores in _scores(options):
        flip, exponential = (
            float(mechanism(_EPSILON, 1.0).probabilities(scores) @ (scores.max() - scores))
            for mechanism in (PermuteAndFlip, ExponentialMechanism)
        )
        ratios.append(flip / exponential)
    quantity = "expected error over that of the exponential mechanism, the largest"
    yield _SETTING, quantity, max(ratios)
    lead = ReportNoisyMax(_EPSILON, 1.0, noise="exponential").guarantee.epsilon
    yield "ε = 1", "ε of a choice that comes with its lead", lead


_TIMED = (20, 50, 100, 200, 500, 1_000)
_OURS = {
    "EM": "exponential",
    "PF": "permute-and-flip",
    # The authors' two-sided cases are geoveil's: the same k, l and noise.
    "SPS (I)": "two-sided, theorem 4",
    "SPS (II)": "SPS (II)",
    "SPS (III)": "two-sided, theorem 5",
    "SPS (IV)": "SPS (IV)",
}
_CASES = [
    replace(known, name=name)
    for name, ours in _OURS.items()
    for known in transmission.CONTESTANTS
    if known.name == ours
]
_GAMMAS = [
    SelectionContestant(f"γ = {g:g}", partial(transmission.published_one_sided, gamma=g), NOMINAL)
    for g in (2.0, 4.0, 6.0, 10.0)
]


def _over_studies(gammas: bool, options: Options) -> Iterator[Told]:
    rng = np.random.default_rng(options.seed)
    many = 10 if options.quick else 100
    for variants in (5, 20) if options.quick else (5, 10, 15, 20):
        studies = [transmission.simulated(variants, rng) for _ in range(many)]
        cases = _GAMMAS if gammas else _CASES
        yield from _chances(f"m = {variants}", studies, cases, options)


def _chances(
    setting: str,
    studies: Sequence[Transmission],
    cases: Sequence[SelectionContestant],
    options: Options,
) -> Iterator[Told]:
    epsilons = transmission.EPSILONS[::3] if options.quick else transmission.EPSILONS
    for row in transmission.rows_of("", studies, epsilons, cases):
        yield setting, f"{row.mechanism}, ε = {row.epsilon:.0f}", row.value, row.standard_error


def _real(options: Options) -> Iterator[Told]:
    return _chances("six variants, 215 families", [transmission.metopic()], _CASES, options)


def _seconds(options: Options) -> Iterator[Told]:
    named = {
        "EM": "exponential",
        "PF": "permute-and-flip",
        "SPS, Theorem 4": "one-sided, theorem 4",
        "SPS, Theorem 5": "one-sided, theorem 5",
    }
    for variants in (20, 1_000) if options.quick else _TIMED:
        setting = StudySetting(variants, transmission.FAMILIES)
        for name, key in named.items():
            recipe, taken = VARIANT_RECIPES[key], []
            for _ in range(3):
                fresh = transmission.simulated(variants, np.random.default_rng(options.seed))
                started = time.process_time()
                mechanism = recipe.build(10.0, setting)
                mechanism.select(recipe.score(fresh, mechanism))
                taken.append(time.process_time() - started)
            yield f"m = {variants}", f"{name}, seconds", min(taken)


NUMBERS: Mapping[str, Numbers] = {
    "ld-figure-1": _betweenness,
    "ld-figure-2": _local,
    "ld-figure-3": _shifted,
    "ld-figure-4": _inverted,
    "ld-figure-5": _nodes,
    "ld-table-2": _samples,
    "ld-figure-6": _trees,
    "pf-theorem-5": _equal_laws,
    "pf-section-4": _compared,
    "snm-figure-2": _percentiles,
    "snm-figure-4": _published_trees,
    "snm-figure-5": _forests,
    "sps-figure-1": partial(_over_studies, False),
    "sps-figure-2": partial(_over_studies, True),
    "sps-table-1": _seconds,
    "sps-table-2": _real,
}
"""Row of the ledger → what computes its numbers."""
