"""Groups and weights: what samplics says, brute force, and populations that are known."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from geoveil.analyst.statistics.groups import GroupEstimates
from geoveil.analyst.statistics.raking import margins_from_csv, raking_weights
from geoveil.analyst.statistics.small_areas import small_areas
from geoveil.analyst.statistics.weighting import WeightedSample
from geoveil.gp import ParameterError, TableFileError, UnsupportedError
from geoveil.gp.intervals import Limits
from tests.analyst.statistics.surveys import CENSUS, GOLDEN, areas, survey

SAID = json.loads(GOLDEN.read_text())
S = survey()
LABELS = {name: S[name] for name in CENSUS}


def sample(*columns: str) -> WeightedSample:
    return WeightedSample(
        design_weights=S["weight"],
        strata=S["stratum"] if "stratum" in columns else None,
        clusters=S["cluster"] if "cluster" in columns else None,
    )


def same(found, said) -> None:
    np.testing.assert_allclose(found, said, rtol=1e-9)


@pytest.mark.parametrize(
    ("design", "columns"),
    [("simple", ()), ("strata", ("stratum",)), ("clusters", ("stratum", "cluster"))],
)
def test_totals_and_means_and_their_errors_are_those_of_samplics(design, columns):
    for name in ("total", "mean"):
        found = getattr(sample(*columns), name)(S["y"])
        said = SAID[f"{name}, {design}"]
        same([found.value, found.standard_error], said[:2])
        if design == "clusters":  # without clusters samplics counts degrees of freedom otherwise
            same([found.ci_low, found.ci_high], said[2:])


def test_ratios_and_groups_and_their_errors_are_those_of_samplics():
    clustered = sample("stratum", "cluster")
    ratio = clustered.ratio(S["y"], S["x"])
    same([ratio.value, ratio.standard_error, ratio.ci_low, ratio.ci_high], SAID["ratio, clusters"])
    regions = clustered.means(S["y"], S["region"])
    for label, *found in zip(regions.labels, regions.values, regions.standard_errors, strict=True):
        same(found, SAID["means by region"][label])


def test_weights_are_those_of_samplics():
    one = {"region": S["region"]}, {"region": CENSUS["region"]}
    same(raking_weights(*one, S["weight"]), SAID["post-stratified weights"])
    same(raking_weights(LABELS, CENSUS, S["weight"]), SAID["raked weights"])


def test_a_post_stratified_mean_and_its_error_are_those_of_samplics():
    """Its error takes weights for fixed; within groups of even weights that changes nothing."""
    one = {"region": S["region"]}, {"region": CENSUS["region"]}
    said = SAID["mean, post-stratified"]
    weights = raking_weights(*one, S["weight"])
    found = WeightedSample(design_weights=weights, strata=S["region"]).mean(S["y"])
    same([found.value, found.standard_error], said[:2])
    said = SAID["mean, post-stratified, even"]
    within = WeightedSample(design_weights=np.ones(len(S["y"])), strata=S["region"])
    fitted = within.fitted(*one).mean(S["y"])
    same([fitted.value, fitted.standard_error], said[:2])
    whole = within.means(S["y"], S["region"]).post_stratify(CENSUS["region"])
    same([whole.value, whole.standard_error], said[:2])


def test_a_jackknife_and_its_error_are_those_of_samplics():
    found = sample("stratum", "cluster").replicated(
        lambda w: float(w @ S["y"] / (w @ S["x"])), "jackknife"
    )
    same([found.value, found.standard_error], SAID["ratio, jackknife"])


def test_small_areas_and_their_errors_are_those_of_samplics():
    a = areas()
    names = [str(i) for i in range(30)]
    direct = GroupEstimates.independent(
        dict(zip(names, a["values"], strict=True)), dict(zip(names, a["errors"], strict=True))
    )
    found = small_areas(direct, {"first": a["known"][:, 0], "second": a["known"][:, 1]})
    same(found.effect_variance, SAID["small areas, variance"])
    same(found.coefficients, SAID["small areas, slopes"])
    same(found.values, SAID["small areas"])
    same(found.mean_squared_errors, SAID["small areas, errors"])


def test_the_band_of_groups_holds_all_means_at_once():
    """Against Šidák for different people; narrower where errors go together."""
    apart = GroupEstimates.independent(
        dict.fromkeys("abcd", 0.5), dict.fromkeys("abcd", 0.01), limits=Limits((0, 1), (0, 1))
    )
    low, high = apart.band()
    sidak = norm.ppf((1 + 0.95 ** (1 / 4)) / 2)
    assert (high - low) / 2 == pytest.approx(np.full(4, sidak * 0.01), rel=0.01)
    alike = replace(apart, covariance=np.full((4, 4), 1e-4))
    assert alike.band()[1] == pytest.approx(np.full(4, 0.5 + 1.96 * 0.01), rel=1e-4)
    row = apart.rows()[0]
    assert row["band_low"] < row["ci_low"] < row["ci_high"] < row["band_high"]


def population(seed: int = 5, people: int = 40_000):
    """Return a population: two labels of each person and their answer, which depends on both."""
    rng = np.random.default_rng(seed)
    region = rng.choice(["n", "s", "w"], people, p=[0.5, 0.3, 0.2])
    sex = np.where(rng.random(people) < 0.3 + 0.4 * (region == "n"), "f", "m")
    chance = 0.04 + 0.5 * (region == "s") + 0.4 * (sex == "f")
    return region, sex, (rng.random(people) < chance).astype(float)


def sizes(labels: np.ndarray) -> dict[str, int]:
    names, counts = np.unique(labels, return_counts=True)
    return dict(zip(names.tolist(), counts.tolist(), strict=True))


@pytest.mark.deep(keep=0)
@pytest.mark.parametrize("seed", range(1))
def test_raked_means_err_as_they_say_and_fixed_weights_would_not(seed):
    """2,000 samples of 600: both ways of raking state the spread that there is, within 4 %.

    The sampling error of a standard deviation of 2,000 is 1.6 %. People of one region take part
    more often, so that the plain mean is biased. Control: an error that takes the weights for fixed
    is 10 % off.
    """
    region, sex, answers = population()
    known = {"region": sizes(region), "sex": sizes(sex)}
    truth = answers.mean()
    rng = np.random.default_rng(100 + seed)
    joins = np.where(region == "n", 0.4, 1.0)
    found, stated, by_cells, cells_stated, fixed = [], [], [], [], []
    for _ in range(2_000):
        chosen = rng.choice(len(region), 600, replace=True, p=joins / joins.sum())
        y = answers[chosen] + rng.laplace(scale=0.1, size=600)
        labels = {"region": region[chosen], "sex": sex[chosen]}
        sample = WeightedSample(design_weights=np.ones(600))
        fitted = sample.fitted(labels, known)
        raked = fitted.mean(y)
        found.append(raked.value)
        stated.append(raked.standard_error)
        cells = np.char.add(labels["region"], labels["sex"])
        groups = sample.means(y, cells)
        whole = groups.rake(
            {"region": [c[0] for c in groups.labels], "sex": [c[1] for c in groups.labels]}, known
        )
        by_cells.append(whole.value)
        cells_stated.append(whole.standard_error)
        fixed.append(WeightedSample(design_weights=fitted.weights).mean(y).standard_error)
    np.testing.assert_allclose(by_cells, found, rtol=1e-9)
    spread = np.std(found)
    assert abs(np.mean(found) - truth) < 4 * spread / math.sqrt(2_000)
    assert abs(np.mean(stated) / spread - 1) < 0.05
    assert abs(np.mean(cells_stated) / spread - 1) < 0.05
    assert np.mean(fixed) / spread - 1 > 0.1


TRUE_MEANS = np.array([0.02, 0.3, 0.3, 0.5, 0.5])
NAMES = ("a", "b", "c", "d", "e")


def drawn_groups(rng: np.random.Generator, people: int) -> GroupEstimates:
    """Return groups of unlike sizes, of 0 and 1 with the noise of randomised response."""
    n = np.array([1.0, 0.5, 2.0, 1.0, 0.3]) * people
    values, errors = [], []
    for mean, size in zip(TRUE_MEANS, n.astype(int), strict=True):
        y = np.where(rng.random(size) < 0.2 + 0.6 * mean, 0.8, -0.2) / 0.6
        values.append(y.mean())
        errors.append(y.std(ddof=1) / math.sqrt(size))
    return GroupEstimates(
        labels=NAMES,
        values=np.array(values),
        covariance=np.diag(np.square(errors)),
        n=tuple(n.astype(int).tolist()),
        limits=Limits((-1 / 3, 4 / 3), (0.0, 1.0)),
    )


@pytest.mark.deep(keep=0)
@pytest.mark.parametrize("against", [None, "b"])
def test_differences_hold_all_at_once_and_single_ones_do_not(against):
    """300 tables of groups, α = 0.05: 95 % ± 1.3 % of sampling error; bounds at 2.5 of them.

    Control: intervals that hold one by one hold all at once far less often.
    """
    rng = np.random.default_rng(7)
    held = {"simultaneous": 0, "bonferroni": 0, "single": 0}
    wrong = 0
    equal = {("c", "b"), ("e", "d")}
    for _ in range(300):
        groups = drawn_groups(rng, 1_000)
        for rule in held:
            d = groups.differences(against, rule)
            truth = np.array(
                [TRUE_MEANS[NAMES.index(i)] - TRUE_MEANS[NAMES.index(j)] for i, j in d.pairs]
            )
            held[rule] += bool(((d.ci_low <= truth) & (truth <= d.ci_high)).all())
            if rule == "simultaneous":
                same = [pair in equal for pair in d.pairs]
                wrong += bool((d.p_values[same] < 0.05).any())
    assert 0.917 <= held["simultaneous"] / 300 <= 0.983
    assert held["bonferroni"] >= held["simultaneous"] - 1
    assert held["single"] / 300 < 0.88
    assert wrong / 300 < 0.083


@pytest.mark.parametrize("rule", ["single", "bonferroni", "simultaneous"])
def test_a_p_value_is_below_a_level_where_the_interval_leaves_zero(rule):
    """Three groups of 10 alike, yes or no: p < 0.05 in at most 5.5 % of 100 campaigns.

    Normal p values of the same differences, the control, say so more often.
    """
    rng, raised, normal = np.random.default_rng(4), 0, 0
    for _ in range(100):
        answers = (rng.random((3, 10)) < 0.2).astype(float)
        errors = answers.std(axis=1, ddof=1) / math.sqrt(10)
        groups = GroupEstimates(
            labels=("a", "b", "c"),
            values=answers.mean(axis=1),
            covariance=np.diag(errors**2),
            n=(10,) * 3,
            limits=Limits((0.0, 1.0), (0.0, 1.0)),
        )
        d = groups.differences("a", rule=rule)
        np.testing.assert_array_equal(d.p_values < 0.05, (d.ci_low > 0) | (d.ci_high < 0))
        raised += bool(d.p_values.min() < 0.05)
        spread = np.hypot(errors[1:], errors[0])
        normal += bool((np.abs(d.values) > 1.96 * spread).any())
    assert raised <= 5
    assert normal > 10


def test_the_simultaneous_rule_is_tukeys_and_dunnetts():
    """For five groups with one error the published critical values are 2.728 and 2.442."""
    groups = GroupEstimates.independent(dict.fromkeys(NAMES, 0.0), dict.fromkeys(NAMES, 1.0))
    named = GroupEstimates.independent({"a": 0.0}, {"a": 1.0}, question="above 100,000")
    assert named.title == "Estimates by group: above 100,000"
    for against, critical in ((None, 3.858 / math.sqrt(2)), ("a", 2.442)):
        d = groups.differences(against)
        assert d.ci_high[0] / d.standard_errors[0] == pytest.approx(critical, rel=0.004)
    shifted = GroupEstimates.independent(
        dict(zip(NAMES, [0, 0, 0, 0, 2.728 * math.sqrt(2)], strict=True)), dict.fromkeys(NAMES, 1.0)
    )
    assert shifted.differences().p_values.min() == pytest.approx(0.05, rel=0.05)


def test_covariance_between_groups_counts():
    """Two estimates of one variance: their difference by brute force over correlated draws."""
    covariance = np.array([[0.04, 0.03], [0.03, 0.04]])
    groups = GroupEstimates(labels=("a", "b"), values=np.zeros(2), covariance=covariance)
    drawn = np.random.default_rng(3).multivariate_normal(np.zeros(2), covariance, 200_000)
    spread = (drawn[:, 1] - drawn[:, 0]).std()
    d = groups.differences()
    assert d.standard_errors[0] == pytest.approx(spread, rel=0.01)
    assert d.ci_high[0] == pytest.approx(1.96 * spread, rel=0.01)
    whole = groups.post_stratify({"a": 1, "b": 1})
    assert whole.standard_error == pytest.approx(drawn.mean(axis=1).std(), rel=0.01)


def test_a_group_where_nobody_differs_has_a_width():
    limits = Limits((-0.2, 1.2), (0.0, 1.0))
    groups = GroupEstimates.independent(
        {"none": 0.0, "some": 0.4},
        {"none": 0.0, "some": 0.01},
        {"none": 40, "some": 2_000},
        limits=limits,
    )
    assert groups.rows()[0]["ci_high"] > 0.05
    d = groups.differences(rule="single")
    assert d.ci_low[0] < 0.4 - 0.05
    assert groups.post_stratify({"none": 9, "some": 1}).ci_high > 0.04 + 0.05


@pytest.mark.deep
def test_a_bootstrap_agrees_with_the_formula_after_raking():
    rng = np.random.default_rng(11)
    region, sex, answers = population()
    chosen = rng.choice(len(region), 400)
    labels = {"region": region[chosen], "sex": sex[chosen]}
    fitted = WeightedSample(design_weights=np.ones(400)).fitted(
        labels, {"region": sizes(region), "sex": sizes(sex)}
    )
    y = answers[chosen]
    formula = fitted.mean(y)
    found = fitted.replicated(lambda w: float(w @ y / w.sum()), replicates=1_000, seed=1)
    assert found.value == formula.value
    assert found.standard_error == pytest.approx(formula.standard_error, rel=0.08)
    jackknife = fitted.replicated(lambda w: float(w @ y / w.sum()), "jackknife")
    assert jackknife.standard_error == pytest.approx(formula.standard_error, rel=0.02)


@pytest.mark.deep(keep=0)
@pytest.mark.parametrize("seed", [13])
def test_small_areas_err_less_than_direct_ones_and_as_they_say(seed):
    """1,000 sets of 60 areas: the stated mean squared error is the real one within 4 %.

    It is right up to terms below 1/areas. Control: direct estimates err more than twice as much.
    """
    rng = np.random.default_rng(seed)
    x = np.linspace(0, 1, 60)
    errors = rng.permutation(np.linspace(0.1, 0.4, 60))
    names = [str(i) for i in range(60)]
    squared, stated, direct_squared = np.zeros(60), np.zeros(60), np.zeros(60)
    for _ in range(1_000):
        truth = 0.2 + 0.5 * x + 0.15 * rng.normal(size=60)
        values = truth + errors * rng.normal(size=60)
        direct = GroupEstimates(labels=tuple(names), values=values, covariance=np.diag(errors**2))
        found = small_areas(direct, {"x": x})
        squared += (found.values - truth) ** 2
        direct_squared += (values - truth) ** 2
        stated += found.mean_squared_errors
    assert stated.sum() / squared.sum() == pytest.approx(1, abs=0.04)
    assert squared.sum() < 0.5 * direct_squared.sum()


def test_without_effects_an_area_is_its_regression():
    a = np.arange(8.0)
    direct = GroupEstimates(labels=tuple("abcdefgh"), values=1 + 2 * a, covariance=np.eye(8))
    found = small_areas(direct, {"x": a})
    assert found.effect_variance == 0
    assert found.values == pytest.approx(1 + 2 * a)
    assert found.rows()[0]["own_share"] == 0


def test_margins_are_read_from_files(tmp_path):
    file = tmp_path / "census.csv"
    file.write_text("region,share\nnorth,0.3\n\n south , 0.7 \n", encoding="utf-8-sig")
    assert margins_from_csv(file) == {"region": {"north": 0.3, "south": 0.7}}
    file.write_text("variable,label,people\nregion,north,30\nsex,f,20\nregion,south,70\n")
    assert margins_from_csv(str(file)) == {"region": {"north": 30, "south": 70}, "sex": {"f": 20}}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", "line 1, the header, must be two names"),
        ("a,b,c,d\n", "line 1, the header, must be two names"),
        ("region,share\n", "line 2 must be the size of a group"),
        ("region,share\nnorth\n", "line 2 must be of 2 fields"),
        ("region,share\nnorth,1\nsouth,many\n", "line 3, column 'share' must be a finite number"),
        ("region,share\nnorth,-1\n", "line 2, column 'share' must be a finite number > 0"),
        ("region,share\nnorth,inf\n", "line 2, column 'share' must be a finite number > 0"),
        ("region,share\n,1\n", "line 2, column 'region' must be a name"),
        ("region,share\nnorth,1\nnorth,2\n", "line 3, column 'region' must be another label"),
        ("variable,label,n\nsex,f,1\nsex,f,2\n", "line 3, column 'label' must be another label"),
        ('region,share\n"north,1\n', "it must be text in UTF-8"),
        ('region,share\n"nor\nth",1\nsouth,-1\n', "line 4, column 'share' must be a finite number"),
    ],
)
def test_a_wrong_file_names_file_row_and_column(tmp_path, content, expected):
    file = tmp_path / "census.csv"
    file.write_text(content)
    with pytest.raises(TableFileError, match=expected) as raised:
        margins_from_csv(file)
    assert raised.value.path == file
    assert str(raised.value).startswith(str(file))


def test_a_file_that_is_not_there_says_so(tmp_path):
    with pytest.raises(TableFileError, match="No such file"):
        margins_from_csv(tmp_path / "none.csv")
    (tmp_path / "bytes.csv").write_bytes(b"region,share\n\xff,1\n")
    with pytest.raises(TableFileError, match="UTF-8"):
        margins_from_csv(tmp_path / "bytes.csv")


TWO = {"region": ["n", "n", "s"]}


@pytest.mark.parametrize(
    ("labels", "margins", "expected"),
    [
        (TWO, {"sex": {"f": 1}}, "variables of the margins must be"),
        (TWO, {"region": {"n": 1}}, "must be with 's'"),
        (TWO, {"region": {"n": 1, "s": 1, "w": 1}}, "nobody is 'w'"),
        (TWO, {"region": {"n": 1, "s": 0}}, r"margins\['region'\]\['s'\] must be"),
        (TWO, {"region": {"n": 1, "s": math.nan}}, r"margins\['region'\]\['s'\] must be"),
        (
            TWO | {"sex": ["f", "m", "f"]},
            {"region": {"n": 1, "s": 1}, "sex": {"f": 1, "m": 2}},
            r"sum of margins\['sex'\] must be 2",
        ),
        (TWO | {"sex": ["f"]}, {"region": {"n": 1, "s": 1}, "sex": {"f": 2}}, "one for each of 3"),
    ],
)
def test_margins_that_do_not_fit_are_refused(labels, margins, expected):
    with pytest.raises(ParameterError, match=expected):
        raking_weights(labels, margins)


def test_margins_that_contradict_each_other_have_no_weights():
    people = {"region": ["n", "s"], "sex": ["f", "m"]}
    with pytest.raises(UnsupportedError, match="no weights fit"):
        raking_weights(people, {"region": {"n": 3, "s": 1}, "sex": {"f": 1, "m": 3}})


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"design_weights": []}, "weights must be at least one"),
        ({"design_weights": [1, -1]}, "weights must be at least one, all finite"),
        ({"design_weights": ["a", "b"]}, "weights must be one-dimensional numbers"),
        ({"design_weights": [1, 1, 1], "strata": ["a", "a", "b"]}, "at least 2 in every stratum"),
        ({"design_weights": [1, 1], "strata": ["a"]}, "strata must be one for each of 2"),
        ({"design_weights": [1, 1], "margins": {"sex": {"f": 1}}}, "variables of the margins"),
        ({"design_weights": [1, 1], "confidence": 1.0}, "confidence must be"),
    ],
)
def test_a_sample_that_is_none_is_refused(arguments, expected):
    with pytest.raises(ParameterError, match=expected):
        WeightedSample(**arguments)


def test_numbers_that_do_not_fit_the_sample_are_refused_and_not_shown():
    two = WeightedSample(design_weights=[1, 1])
    for reports in ([1.5], [1.5, math.nan], ["4711", "1"]):
        with pytest.raises(ParameterError, match="reports must be 2 finite numbers") as raised:
            two.mean(reports)
        assert "1.5" not in str(raised.value)
        assert "4711" not in str(raised.value)
    with pytest.raises(ParameterError, match="total of per must be > 0"):
        two.ratio([1, 2], [-1, 1])
    with pytest.raises(ParameterError, match="method must be one of"):
        two.replicated(lambda w: 0.0, "delete")
    with pytest.raises(UnsupportedError, match="take the bootstrap"):
        WeightedSample(design_weights=np.ones(6_000)).replicated(lambda w: 0.0, "jackknife")


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda g: g.post_stratify({"a": 1}), "groups of the sizes must be"),
        (lambda g: g.post_stratify({"a": 1, "b": 0}), r"sizes\['b'\] must be"),
        (lambda g: g.differences("c"), "against must be one of 'a', 'b'"),
        (lambda g: g.differences(rule="none"), "rule must be one of"),
        (lambda g: g.rake({}, {}), "n must be the number of reports"),
        (lambda g: small_areas(g), "groups must be at least 3"),
    ],
)
def test_what_groups_can_not_do_is_refused(call, expected):
    with pytest.raises(ParameterError, match=expected):
        call(GroupEstimates.independent({"a": 0.1, "b": 0.2}, {"a": 0.1, "b": 0.1}))


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"labels": ("a", "a")}, "labels must be distinct"),
        ({"values": np.array([0.1])}, "values must be 2 finite numbers"),
        ({"covariance": np.array([[1.0, 2.0], [2.0, 1.0]])}, "covariance must be a covariance"),
        ({"covariance": np.array([[1.0, 0.5], [0.1, 1.0]])}, "covariance must be a covariance"),
        ({"n": (1, 0)}, "n must be 2 integers"),
        ({"confidence": 0.0}, "confidence must be"),
    ],
)
def test_groups_that_are_none_are_refused(changed, expected):
    with pytest.raises(ParameterError, match=expected):
        GroupEstimates(
            **{"labels": ("a", "b"), "values": np.zeros(2), "covariance": np.eye(2)} | changed
        )


def test_results_are_rows():
    groups = GroupEstimates.independent({"a": 0.1, "b": 0.2}, {"a": 0.1, "b": 0.1})
    for result in (groups, groups.differences(), groups.post_stratify({"a": 1, "b": 2})):
        told = json.loads(json.dumps(result.to_dict(), allow_nan=False))
        assert told["rows"]
        assert told["notes"]
    assert "hold at once" in groups.differences().notes[0]
    assert "by itself" in groups.differences(rule="single").notes[0]
