"""Test the tree experiment: expected accuracies against drawn trees, and costs as printed."""

from functools import partial

import numpy as np
import pytest

from geoveil.gp import SeededSource
from geoveil.selection import LocalDampening, LocalUtilities, PermuteAndFlip
from geoveil.selection.contrib.criteria import CRITERIA, gain_sensitivities, gain_sensitivity
from geoveil.selection.contrib.splitters import splitter
from geoveil.selection.contrib.tree import CodedRecords, PrivateDecisionTree, TreePlan
from geoveil.simulation.experiment import compute_cells
from geoveil.simulation.selection import experiment
from geoveil.simulation.selection.experiment import (
    KEPT,
    OPEN,
    PUBLISHED_NOISE,
    Options,
    published_bound,
    published_law,
)
from geoveil.simulation.selection.tables import ADULT_EDGES, TABLES, Dataset, table
from geoveil.simulation.selection.tree import (
    CONTESTANTS,
    dampened_gain,
    expected_accuracy,
    first_label,
    root,
    rows_of,
)

BY_NAME = {contestant.name: contestant for contestant in CONTESTANTS}
LIBRARY = {
    "permute-and-flip, max operator": ("permute_and_flip", "max_operator"),
    "exponential, max operator": ("exponential", "max_operator"),
    "stability, max operator": ("stability", "max_operator"),
    "smooth noisy max, proved": ("smooth_noisy_max", "max_operator"),
    "permute-and-flip, gini": ("permute_and_flip", "gini"),
    "permute-and-flip, information gain": ("permute_and_flip", "information_gain"),
    "local dampening": ("local_dampening", "information_gain"),
    "local dampening, replaced": ("local_dampening_replaced", "information_gain"),
    "shifted local dampening": ("shifted_local_dampening", "information_gain"),
}


def _made(n: int, seed: int, most_records: int = 600) -> CodedRecords:
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, [2, 3, 2], size=(n, 3))
    labels = (
        (codes[:, 1] == 2) ^ (rng.random(n) < 0.3) ^ ((codes[:, 0] == 1) & (rng.random(n) < 0.3))
    )
    return CodedRecords(codes, labels.astype(np.int64), [2, 3, 2], 2, most_records)


@pytest.mark.parametrize(("name", "size"), [
    ("adult", (45_222, 12, 2)), ("mushroom", (8_124, 22, 2)), ("pen_digits", (10_992, 16, 10)),
    ("wall_sensor", (5_456, 4, 4)), ("wine", (4_898, 11, 7)),
])  # fmt: skip
def test_tables_are_the_papers(name, size):
    assert name in TABLES
    data = table(name)
    assert (*data.records.shape, len(data.classes)) == size
    for column, domain in zip(data.records.T, data.domains, strict=True):
        low, high = (0, domain - 1) if isinstance(domain, int) else domain
        assert low <= column.min()
        assert column.max() <= high


def test_measurements_become_the_intervals_that_they_are_in():
    data = table("adult")
    coded = data.discretised(ADULT_EDGES)
    age = coded.attributes.index("age")
    assert coded.domains[age] == len(ADULT_EDGES["age"]) + 1
    assert set(coded.records[data.records[:, age] == 25, age]) == {1.0}
    assert set(coded.records[data.records[:, age] == 24, age]) == {0.0}


@pytest.mark.parametrize("name", LIBRARY)
def test_a_contestant_is_the_mechanism_of_the_library(name):
    records, part = _made(400, 1), 0.3
    node = records.counts(records.everyone(), np.arange(3))
    mechanism, criterion = LIBRARY[name]
    expected = splitter(
        mechanism,  # type: ignore[arg-type]
        criterion,  # type: ignore[arg-type]
        part,
        attributes=3,
        most_records=600,
    ).probabilities(node)
    got = BY_NAME[name].make(part, 3).choice(root(records, records))
    assert got == pytest.approx(expected, rel=1e-6)


@pytest.mark.deep(keep=5)
@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("n", [0, 3, 400, 30_000])
def test_dampening_all_changes_at_once_is_local_dampening(n, replace):
    records = _made(n, 1, most_records=45_222)
    node = records.counts(records.everyone(), np.arange(3))
    values = CRITERIA["information_gain"].values(node)
    mechanism = LocalDampening(1.0, gain_sensitivity(45_222), replace=replace)
    expected = mechanism.dampened(LocalUtilities(values, gain_sensitivities(node)))
    got = dampened_gain(node, replace=replace)
    assert got == pytest.approx(expected, rel=1e-9)
    assert (np.abs(expected).max() > 1_000) == (n == 30_000)


def test_every_contestant_but_the_printed_ones_is_compared_with_the_library():
    assert {c.name for c in CONTESTANTS if c.standing == KEPT} == set(LIBRARY)


def test_labels_of_two_classes_are_those_of_permute_and_flip():
    tables = np.random.default_rng(1).integers(0, 9, size=(30, 2))
    mechanism = PermuteAndFlip(0.4, 1.0, monotone=True)
    expected = [mechanism.probabilities(row)[0] for row in tables]
    assert first_label(tables[:, 0] - tables[:, 1], 0.4) == pytest.approx(np.array(expected))


def _drawn(
    train: CodedRecords, test: CodedRecords, epsilon: float, draws: int
) -> tuple[float, float]:
    tree = PrivateDecisionTree(
        epsilon, values=[2, 3, 2], classes=[0, 1], depth=2, criterion="max_operator",
        most_records=600,
    )  # fmt: skip
    source = SeededSource(3)
    scores = [
        tree.fit(train.codes, train.labels, source).score(test.codes, test.labels)
        for _ in range(draws)
    ]
    return float(np.mean(scores)), float(np.std(scores) / np.sqrt(draws))


@pytest.mark.deep
def test_the_expected_accuracy_is_that_of_drawn_trees():
    learnt, judged = _made(400, 1), _made(200, 2)
    fold = root(learnt, judged)
    contestant = BY_NAME["permute-and-flip, max operator"]

    def expected(epsilon: float) -> float:
        plan = TreePlan(epsilon, 2, 3, 2)
        return expected_accuracy(fold, plan, contestant.make(plan.part, 3).choice)

    mean, error = _drawn(learnt, judged, 0.6, 600)
    # n = 600; 4.9 standard errors is α = 1e-6. The control is another ε.
    assert abs(mean - expected(0.6)) < 4.9 * error
    assert abs(mean - expected(0.3)) > 4.9 * error


@pytest.mark.deep
def test_drawing_upper_levels_agrees_with_summing_over_them():
    learnt, judged = _made(400, 1), _made(200, 2)
    fold = root(learnt, judged)
    contestant = BY_NAME["permute-and-flip, max operator"]
    plan = TreePlan(0.6, 2, 3, 2)
    choice = contestant.make(plan.part, 3).choice
    exact = expected_accuracy(fold, plan, choice)
    generator = np.random.default_rng(1)
    drawn = [expected_accuracy(fold, plan, choice, generator) for _ in range(800)]
    assert abs(np.mean(drawn) - exact) < 4.9 * np.std(drawn) / np.sqrt(800)
    assert np.std(drawn) > 0


@pytest.mark.deep(keep=3)
@pytest.mark.parametrize("epsilon", [0.02, 0.3])
@pytest.mark.parametrize("outcomes", [2, 12])
def test_smooth_noisy_max_as_printed_costs_more_than_three_times_its_epsilon(epsilon, outcomes):
    noise = PUBLISHED_NOISE["SNM-T"]
    law = published_law(epsilon, noise)
    winner, other = law(1, outcomes)
    tied, beaten = law(0, outcomes)
    # Another winner at leads 0 and 1, and leads k and k + 1, until e^{−εk} = e^{−12}: beyond, the
    # ratio of the tails, e^{3ε}, is all that is left.
    ratios = [winner / other, tied / other, winner / beaten]
    for lead in np.unique(np.linspace(0, 12 / epsilon + 1, 40).astype(int)).tolist():
        ratios += np.divide(law(lead, outcomes), law(lead + 1, outcomes)).tolist()
    cost = np.abs(np.log(ratios)).max()
    assert 3 * epsilon < cost <= published_bound(epsilon, outcomes, noise)


def test_the_exponential_mechanism_as_printed_costs_half_of_what_it_is_given():
    contestant = BY_NAME["exponential, information gain"]
    rng, largest = np.random.default_rng(1), 0.0
    for _ in range(200):
        less = rng.integers(0, 3, size=(rng.integers(0, 12), 4))
        record = rng.integers(0, 2, size=(1, 4))
        ratio = []
        for rows in (less % 2, np.concatenate([less % 2, record])):
            made = CodedRecords(rows[:, :3], rows[:, 3], [2, 2, 2], 2, 12)
            ratio.append(np.log(contestant.make(1.0, 3).choice(root(made, made))))
        largest = max(largest, float(np.abs(ratio[0] - ratio[1]).max()))
    assert 0.2 < largest <= contestant.make(1.0, 3).epsilon == 0.5


def _as_table(records: CodedRecords) -> Dataset:
    return Dataset(
        "made", ["a", "b", "c"], [2, 3, 2], records.codes.astype(float), ["n", "y"], records.labels
    )


@pytest.mark.deep(keep=0)
def test_rows_have_every_mechanism_at_every_epsilon():
    grown = partial(rows_of, seed=1, depths=(1, 3), budgets=(0.5, 2.0), folds=2, most_draws=2)
    rows = list(grown(_as_table(_made(500, 4))))
    assert len(rows) == 2 * 2 * (len(CONTESTANTS) + 2)
    assert {row.mechanism for row in rows if row.standing == OPEN} == {
        "no privacy, information gain",
        "no privacy, max operator",
    }
    assert {row.mode for row in rows if row.setting == "depth 1"} == {"exact"}
    assert {row.mode for row in rows if row.setting == "depth 3"} == {"monte-carlo"}
    assert rows == list(grown(_as_table(_made(500, 4))))
    for row in rows:
        assert 0 <= row.value <= 1
        if row.standing == KEPT:
            assert row.proved_epsilon == row.epsilon


@pytest.mark.deep
def test_the_quick_experiment_runs_and_draws(tmp_path):
    rows = compute_cells(experiment("tree", Options(quick=True)).cells)
    value = {(r.mechanism, r.epsilon): r.value for r in rows}
    majority = 0.7522
    assert value["no privacy, information gain", 1.0] > 0.82
    assert all(majority - 0.03 < v < value["no privacy, information gain", 1.0] + 0.005
               for v in value.values())  # fmt: skip
    for file in experiment("tree", Options(quick=True)).draw(rows, tmp_path / "all.png"):
        assert file.read_bytes()[:4] == b"\x89PNG"
