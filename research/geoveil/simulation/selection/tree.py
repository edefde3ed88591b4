"""ID3 on Adult: Figure 6 of [LD] and Figure 4 of [SNM], at an equal ε that every mechanism keeps.

There are ten folds and depths 2 and 5. Mechanisms differ only in how they choose attributes, with
the share ε' of ε that a paper claims, and at the real cost. Since a node's utilities do not depend
on ε, they are computed once.

The accuracy is an expectation over the trees' randomness. Depth 2 is summed exactly; for deeper
trees the upper levels' attributes and rare splits are drawn, which adds variance but no bias.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geoveil.gp import ParameterError
from geoveil.selection import ExponentialMechanism, PermuteAndFlip, StabilityMechanism
from geoveil.selection.contrib.criteria import (
    CRITERIA,
    CriterionName,
    NodeCounts,
    gain_sensitivity,
    gain_sensitivity_rows,
)
from geoveil.selection.contrib.splitters import shifted_gain
from geoveil.selection.contrib.tree import CodedRecords, TreePlan
from geoveil.simulation.selection.experiment import (
    NOMINAL,
    OPEN,
    PUBLISHED,
    Array,
    Choice,
    Compute,
    Made,
    Make,
    Options,
    SelectionContestant,
    SelectionRow,
    brought,
    by_margin,
    by_rows,
    compared,
    directly,
    openly,
)
from geoveil.simulation.selection.tables import ADULT_EDGES, Dataset, read_table, table

Utilities = Callable[[NodeCounts], Array]
"""A node's counts → its attributes' utilities, (attributes,), in units of their sensitivity."""


def dampened_gain(node: NodeCounts, *, replace: bool = False) -> Array:
    """Return Σ_t clip((|u| − b(t))/δ_t, 0, 1), like `LocalDampening.dampened`, vectorised."""
    rows, sensitivity = gain_sensitivity_rows(node), gain_sensitivity(node.most_records)
    values = CRITERIA["information_gain"].values(node)
    far, reach = np.abs(values), 32  # the first changes, which suffice for most nodes
    while True:
        delta = np.minimum(rows(0, reach), sensitivity)
        if replace:
            delta = np.broadcast_to(delta.max(axis=1, keepdims=True), delta.shape)
        ends = delta.cumsum(axis=0)
        if (ends[-1] >= far).all():
            steps = np.clip((far - ends + delta) / delta, 0, 1)
            return np.asarray(np.sign(values) * steps.sum(axis=0))
        reach *= 4


def shifted_dampened_gain(node: NodeCounts) -> Array:
    """Return the shifted locally dampened information gain."""
    sensitivity = gain_sensitivity(node.most_records)
    return shifted_gain(node, sensitivity) / sensitivity


def in_units(criterion: CriterionName) -> Utilities:
    """Return a criterion's utilities divided by its sensitivity."""
    rule = CRITERIA[criterion]
    return lambda node: rule.values(node) / rule.sensitivity(node.most_records)


Index = NDArray[np.intp]


@dataclass(eq=False)
class CountedNode:
    """A node that all trees on the same records share, so that it is counted once.

    It has the rows `train` of the records `learnt`, and `test` of `judged`; `nodes` has all nodes
    by their path of attributes and values in any order.
    """

    learnt: CodedRecords
    judged: CodedRecords
    unused: Index
    train: Index
    test: Index
    path: frozenset[tuple[int, int]] = frozenset()
    nodes: "dict[frozenset[tuple[int, int]], CountedNode]" = field(default_factory=dict)
    _utilities: dict[Utilities, Array] = field(default_factory=dict)
    _children: "dict[int, Sequence[CountedNode]]" = field(default_factory=dict)

    @cached_property
    def labels(self) -> tuple[int, Index]:
        """The excess of training records of the first class, and test records by class, (2,)."""
        first, second = self.learnt.label_counts(self.train).tolist()
        return first - second, self.judged.label_counts(self.test)

    @cached_property
    def counts(self) -> NodeCounts:
        """Contingency tables of the unused attributes."""
        return self.learnt.counts(self.train, self.unused)

    @cached_property
    def cells(self) -> tuple[Index, Index]:
        """The `labels` of each cell of these tables, shapes (cells,) and (cells, 2)."""
        first, second = self.counts.table.T
        return first - second, self.judged.counts(self.test, self.unused).table

    def utilities(self, of: Utilities) -> Array:
        """Return the utilities of the unused attributes."""
        if of not in self._utilities:
            self._utilities[of] = of(self.counts)
        return self._utilities[of]

    def children(self, place: int) -> "Sequence[CountedNode]":
        """Return the children by one of the unused attributes, if they have test records."""
        if place not in self._children:
            attribute = int(self.unused[place])
            rest = np.delete(self.unused, place)
            parts = (
                records.parts(rows, attribute)
                for records, rows in ((self.learnt, self.train), (self.judged, self.test))
            )
            self._children[place] = [
                self._at(self.path | {(attribute, value)}, rest, train, test)
                for value, (train, test) in enumerate(zip(*parts, strict=True))
                if len(test)
            ]
        return self._children[place]

    def _at(
        self, path: frozenset[tuple[int, int]], unused: Index, train: Index, test: Index
    ) -> "CountedNode":
        if path not in self.nodes:
            held = unused, train, test, path, self.nodes
            self.nodes[path] = CountedNode(self.learnt, self.judged, *held)
        return self.nodes[path]


def root(learnt: CodedRecords, judged: CodedRecords) -> CountedNode:
    """Return the node that holds all records."""
    unused = np.arange(len(learnt.values))
    return CountedNode(learnt, judged, unused, learnt.everyone(), judged.everyone())


_NEGLIGIBLE = 1e-9
"""The probability below which a branch is left out."""
_RARE = 0.01
"""The probability below which a split is drawn instead of summed over."""


def expected_accuracy(
    root: CountedNode,
    plan: TreePlan,
    choice: Choice,
    generator: np.random.Generator | None = None,
) -> float:
    """Return the expected share of correctly labelled test records.

    The generator draws the attributes of all levels except the last, and rare decisions to split;
    without it everything is summed over.
    """

    def right(node: CountedNode, level: int) -> float:
        """Return the expected number of correctly labelled test records of a node."""
        stop = float(_right(*node.labels, plan.left(level)))
        split = _split_probability(plan, len(node.train))
        if generator is not None and split < _RARE:
            split = float(generator.random() < split)
        if split < _NEGLIGIBLE:
            return stop
        probabilities = choice(node)
        if level == plan.depth - 1:
            cells = _right(*node.cells, plan.left(plan.depth))
            below = float(probabilities @ np.add.reduceat(cells, node.counts.starts))
        elif generator is None:
            below = sum(
                float(probability) * right_below(node, level, place)
                for place, probability in enumerate(probabilities)
                if probability > _NEGLIGIBLE
            )
        else:
            upto = probabilities.cumsum()
            drawn = (upto / upto[-1]).searchsorted(generator.random(), side="right")
            below = right_below(node, level, int(drawn))
        return (1 - split) * stop + split * below

    def right_below(node: CountedNode, level: int, place: int) -> float:
        return sum(right(child, level + 1) for child in node.children(place))

    return right(root, 0) / len(root.test)


def first_label(lead: ArrayLike, epsilon: float) -> Array:
    """Return permute-and-flip's probability of the first of two labels from its lead in records."""
    return np.asarray((1 - np.sign(lead) * np.expm1(-epsilon * np.abs(lead))) / 2)


@lru_cache(maxsize=1 << 16)
def _split_probability(plan: TreePlan, records: int) -> float:
    return float(StabilityMechanism(plan.part).probabilities(plan.split(records))[1])


def _right(lead: ArrayLike, judged: Index, epsilon: float) -> Array:
    """Return the expected number of judged records that a private label matches."""
    first = first_label(lead, epsilon)
    return np.asarray(first * judged[..., 0] + (1 - first) * judged[..., 1])


def on(utilities: Utilities, known: SelectionContestant) -> SelectionContestant:
    """Return a mechanism on the utilities of a node's attributes, which the node caches."""

    def make(epsilon: float, attributes: int) -> Made:
        plain = known.make(epsilon, attributes)
        return replace(plain, choice=lambda node: plain.choice(node.utilities(utilities)[None])[0])

    return replace(known, make=make)


def _half(epsilon: float, attributes: int) -> Made:
    return replace(_exponential(epsilon, attributes), epsilon=epsilon / 2)


_flip = directly(PermuteAndFlip, monotone=True)
_exponential = directly(ExponentialMechanism, monotone=False)
_gain, _majority = in_units("information_gain"), in_units("max_operator")
_KEPT: Mapping[str, tuple[Utilities, Make]] = {
    "permute-and-flip, max operator": (_majority, _flip),
    "exponential, max operator": (_majority, directly(ExponentialMechanism, monotone=True)),
    "stability, max operator": (_majority, by_margin("stability")),
    "smooth noisy max, proved": (_majority, by_margin("smooth_noisy_max")),
    "permute-and-flip, gini": (in_units("gini"), _flip),
    "permute-and-flip, information gain": (_gain, _flip),
    "local dampening": (dampened_gain, _exponential),
    "local dampening, replaced": (partial(dampened_gain, replace=True), _exponential),
    "shifted local dampening": (shifted_dampened_gain, _exponential),
}
CONTESTANTS: Sequence[SelectionContestant] = (
    *(on(of, SelectionContestant(name, make)) for name, (of, make) in _KEPT.items()),
    # Utilities that move in one direction cost half of those that may move apart.
    on(_gain, SelectionContestant("exponential, information gain", _half, NOMINAL)),
    *(on(_majority, contestant) for contestant in PUBLISHED),
)
_NO_PRIVACY = (
    on(_gain, openly("no privacy, information gain")),
    on(_majority, openly("no privacy, max operator")),
)
_NOTHING_LEFT_TO_CHANCE = 1e6
"""The ε that stands for trees without privacy."""
EXACT_DEPTH = 2
"""The depth up to which the experiment sums over all trees; deeper trees are drawn."""
_CALM = 2.0
"""Below this ε proportionally more trees are drawn, because they vary more."""


QUICK: Mapping[str, Any] = {"depths": (2,), "budgets": (0.1, 1.0), "folds": 2}


def parts(options: Options) -> Mapping[str, Compute]:
    """Return parts by table: those in `data`, with two classes each, or Adult."""
    tables = []
    for file in options.data:
        tables.append(read_table(file).coded())
        if len(tables[-1].classes) != 2:
            raise ParameterError("data", str(file), "a table whose last column has two classes")
    tables = tables or [table("adult").discretised(ADULT_EDGES)]
    own = (on(_majority, contestant) for contestant in brought(options.own, by_rows))
    everyone, setting = (*CONTESTANTS, *own), QUICK if options.quick else {}
    return {d.name: partial(rows_of, d, options.seed, everyone, **setting) for d in tables}


def rows_of(
    data: Dataset,
    seed: int,
    contestants: Sequence[SelectionContestant] = CONTESTANTS,
    *,
    depths: Sequence[int] = (2, 5),
    budgets: Sequence[float] = (0.01, 0.05, 0.1, 0.5, 1.0, 2.0),
    folds: int = 10,
    most_draws: int = 12,
) -> Iterator[SelectionRow]:
    """Yield the rows of a coded table of two classes: by depth, mechanism and ε.

    Trees learn from all but one of `folds` ≥ 2 folds and label that one; at most `most_draws` trees
    are drawn per fold.
    """
    for depth in depths:
        yield from compared(
            [
                replace(contestant, make=partial(_grown, data, contestant, most_draws))
                for contestant in (*contestants, *_NO_PRIVACY)
            ],
            budgets,
            depth,
            _folds(data, folds, seed),
            lambda accuracy, fold: {"expected accuracy": accuracy(fold)},
            application="tree",
            dataset=data.name,
            setting=f"depth {depth}",
            mode="exact" if depth <= EXACT_DEPTH else "monte-carlo",
        )


def _grown(
    data: Dataset, known: SelectionContestant, most_draws: int, epsilon: float, depth: int
) -> Made:
    """Return a mechanism's trees: fold and seed → accuracy, with their total budget."""
    budget = _NOTHING_LEFT_TO_CHANCE if known.standing == OPEN else epsilon
    plan = TreePlan(budget, depth, max(_values(data)), len(data.classes))
    made = known.make(plan.part, len(data.domains))
    draws = 1 if known.standing == OPEN else max(1, min(most_draws, math.ceil(_CALM / epsilon)))

    def accuracy(seeded: tuple[Sequence[int], CountedNode]) -> float:
        seed, fold = seeded
        if depth <= EXACT_DEPTH:
            return expected_accuracy(fold, plan, made.choice)
        # The same draws for all mechanisms, so that only their behaviour differs.
        generator = np.random.default_rng(seed)
        accuracies = [expected_accuracy(fold, plan, made.choice, generator) for _ in range(draws)]
        return float(np.mean(accuracies))

    return Made(accuracy, epsilon + depth * (made.epsilon - plan.part), depth * made.delta)


def _values(data: Dataset) -> list[int]:
    return [domain for domain in data.domains if isinstance(domain, int)]


def _folds(data: Dataset, folds: int, seed: int) -> Iterator[tuple[Sequence[int], CountedNode]]:
    codes, values = data.records.astype(np.int64), _values(data)
    part = np.random.default_rng(seed).permutation(len(data)) % folds
    for number in range(folds):
        learnt, judged = (
            CodedRecords(codes[rows], data.labels[rows], values, len(data.classes), len(data))
            for rows in (part != number, part == number)
        )
        yield [seed, number], root(learnt, judged)
