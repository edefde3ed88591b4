"""Test a user's mechanism and people, by the page, against a formula."""

import json
import xml.etree.ElementTree as ET
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from geoveil.audit import NoisyAnswer, OwnSelection, audit as audited, mechanisms_in, own_cases
from geoveil.audit.own import checked
from geoveil.cli.app import app
from geoveil.gp import GeoPrivacy, Laplace, ParameterError, StudentT, Threshold
from geoveil.simulation import household_incomes, selection as selections
from geoveil.simulation.distribution import experiment as distributions
from geoveil.simulation.distribution.attributes import MEASURES, attribute_of
from geoveil.simulation.epochs import experiment as over_time
from geoveil.simulation.experiment import compute_cells
from geoveil.simulation.experiments import kde, oneway as one_way, own, twoway
from geoveil.simulation.experiments.kde import KernelSetting, places_of
from geoveil.simulation.experiments.oneway import PANELS, OneWayPanel
from geoveil.simulation.experiments.own import OwnInput, distinct_values
from geoveil.simulation.experiments.published import PaperRun, drawn
from geoveil.simulation.experiments.rows import OWN, compare, over
from geoveil.simulation.experiments.twoway import TwoWayPanel
from geoveil.simulation.selection import Options, influence

runner = CliRunner()
QUERY = Threshold(100_000.0, 16_000.0, "smoothstep")
PRIVACY = GeoPrivacy(1.0, per=8_000.0, unit="dollar")
WIDE = """
from geoveil.audit import NoisyAnswer
from geoveil.gp import DebiasedLaplace, Laplace, UnsupportedError, Threshold

def wide(query, privacy):
    return NoisyAnswer(query, privacy, Laplace(), 1.1 * query.lipschitz / privacy.rate)

def narrow(query, privacy):
    return NoisyAnswer(query, privacy, Laplace(), 0.7 * query.lipschitz / privacy.rate)

def exact(query, privacy):
    if not isinstance(query, Threshold) or query.profile.name == "linear":
        raise UnsupportedError("only smooth thresholds")
    return DebiasedLaplace(query, privacy)

def _hidden(query, privacy):
    raise AssertionError

def helper(x):
    return x
"""


@pytest.fixture
def module(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(WIDE)
    return file


def test_a_table_has_a_column_and_places_have_an_extent(tmp_path):
    file = tmp_path / "people.csv"
    with pytest.raises(ParameterError, match="the column of the table"):
        OwnInput(data=file)
    with pytest.raises(ParameterError, match=r"data must be a file: .csv, .parquet, .gpkg"):
        OwnInput(data=file.with_suffix(".txt"), columns=("cm",))
    for text in ("lon,lat\n13.4,52.5\n", "lon,lat\n52.5,113.4\n52.6,113.5\n"):
        file.write_text(text)
        with pytest.raises(ParameterError, match="longitudes and latitudes, in this order"):
            kde.places_of(OwnInput(data=file, columns=("lon", "lat")))


def test_a_distribution_is_of_numbers_that_differ_in_the_range(tmp_path):
    file = tmp_path / "people.csv"
    file.write_text("cm\n170\n180\n")
    beyond = OwnInput(data=file, columns=("cm",), per=2.0, ends=(200.0, 250.0))
    with pytest.raises(ParameterError, match="two or more numbers that people hold"):
        attribute_of("cm", beyond)
    assert attribute_of("cm", replace(beyond, ends=(175.0, 250.0))).name == "cm"


@pytest.mark.parametrize("ends", [(5.0, 1.0), (float("nan"), 1.0)])
def test_a_range_has_two_ends_in_their_order(ends):
    with pytest.raises(ParameterError, match="range"):
        OwnInput(ends=ends)


@pytest.mark.parametrize("wrong", [{"epsilon": float("nan")}, {"sensitivity": -1}])
def test_a_mechanism_that_selects_has_a_positive_epsilon_and_sensitivity(wrong):
    with pytest.raises(ParameterError, match=next(iter(wrong))):
        OwnSelection("flip", SimpleNamespace, **wrong)


class _Answers:
    """A mechanism whose answers are given."""

    def __init__(self, **answers):
        self.privacy, self._answers = PRIVACY, answers

    def mean(self, x):
        return self._answers["mean"]

    def variance(self, x):
        return self._answers["variance"]

    def simulate(self, x, rng):
        return self._answers["simulate"]

    def log_density(self, y, x):
        return self._answers["log_density"]


@pytest.mark.parametrize(
    ("method", "answer", "told"),
    [
        ("simulate", np.zeros(2), "simulate.x, rng. is of shape .3,., not .2,."),
        ("simulate", [0.0, float("nan"), 0.0], "simulate.x, rng. is finite, not nan"),
        ("variance", -1.0, "variance.x. is 0 or more, not -1"),
    ],
)
def test_what_a_mechanism_answers_is_a_number_for_each_point(method, answer, told):
    x = np.arange(3.0)
    mechanism = checked("mine", _Answers(**{method: answer}), QUERY)
    given = {"simulate": (x, np.random.default_rng(1)), "log_density": (x, x)}.get(method, (x,))
    with pytest.raises(ParameterError, match=rf"mine.query, privacy. .* {told}"):
        getattr(mechanism, method)(*given)


def test_the_promise_of_a_mechanism_is_a_guarantee():
    mechanism = _Answers()
    mechanism.privacy = 1.0
    with pytest.raises(ParameterError, match=r"privacy is a GeoPrivacy .* not a float"):
        _ = checked("mine", mechanism, QUERY).privacy


def test_a_function_that_needs_more_than_a_query_and_a_guarantee_is_refused(tmp_path):
    file = tmp_path / "more.py"
    file.write_text("def mine(query, privacy, scale):\n    return None\n")
    with pytest.raises(ParameterError, match=r"mine.query, privacy. needs nothing else; .*'scale'"):
        mechanisms_in(file)
    file.write_text("def mine(query, privacy, scale=1.0):\n    return None\n")
    assert list(mechanisms_in(file)) == ["mine"]


@pytest.mark.deep
def test_the_audit_keeps_the_wide_one_and_refutes_the_narrow_one(module):
    cases = own_cases(mechanisms_in(module))
    assert [case.name for case in cases] == ["wide"] * 3 + ["narrow"] * 3 + ["exact"]
    assert cases[-1].variant == "exact release"
    assert cases[0].variant == "floats, no release"
    verdicts = {v.mechanism: v for v in audited(cases, samples=20_000, seed=1)}
    # Fractions of the ε that is promised: 1/1.1 and, the control, 1/0.7.
    assert verdicts["wide"].exact.fraction == pytest.approx(1 / 1.1, abs=0.01)
    assert verdicts["narrow"].exact.fraction == pytest.approx(1 / 0.7, abs=0.01)
    assert verdicts["wide"].keeps
    assert not verdicts["narrow"].keeps


@pytest.mark.parametrize("scale", [0.2, lambda x: 0.1 + 1e-6 * np.abs(x)])
def test_noisy_answers_have_the_moments_and_the_density_of_their_formula(scale):
    own = NoisyAnswer(QUERY, PRIVACY, StudentT(5.0), scale)
    x = np.array([90_000.0, 101_000.0])
    expected = np.broadcast_to(scale(x) if callable(scale) else scale, 2)
    assert own.mean(x) == pytest.approx(QUERY.value(x))
    assert own.variance(x) == pytest.approx(expected**2 * 5 / 3)
    y = np.linspace(-80, 80, 400_001)
    for point in x:
        density = np.exp(own.log_density(y, np.array([point])))
        assert density.sum() * (y[1] - y[0]) == pytest.approx(1, abs=1e-4)
    drawn = own.simulate(np.full(200_000, x[0]), np.random.default_rng(1))
    # n = 200,000, 5 standard errors: α = 6e-7.
    error = np.sqrt(own.variance(x)[0] / len(drawn))
    assert abs(drawn.mean() - own.mean(x)[0]) < 5 * error
    with pytest.raises(ParameterError, match="scale"):
        NoisyAnswer(QUERY, PRIVACY, Laplace(), -1.0).variance(x)


def test_an_experiment_has_mechanisms_and_people_of_ones_own(module, tmp_path):
    table = tmp_path / "people.csv"
    table.write_text("cm,many\n170,3\n185,1\n181,1\n")
    given = OwnInput(module, table, ("cm",), "many")
    values, shares = distinct_values(given)
    assert values.tolist() == [170.0, 181.0, 185.0]
    assert shares == pytest.approx([0.6, 0.2, 0.2])
    panel = OneWayPanel(threshold=180.0, per=2.0, footing=2.0, people=(1_000,), given=given)
    assert "aimed" not in panel.contestants
    rows = [row for name in panel.contestants for row in one_way.exact(panel, name)]
    own = {row.mechanism: row for row in rows if row.origin == OWN}
    assert set(own) == {"wide", "narrow", "exact"}
    query = panel.setting.soft
    f, hard = query.value(values), values > 180
    noise = 2 * (1.1 * query.lipschitz * 2.0) ** 2
    bias = float(shares @ (f - hard))
    spread = float(shares @ (f - hard - bias) ** 2)
    assert own["wide"].error == pytest.approx(bias**2 + (noise + spread) / 1_000)
    ours = next(row for row in rows if row.mechanism == "DebiasedLaplace")
    assert own["exact"].error == pytest.approx(ours.error)
    (found,) = compare(rows)
    assert found.own is not None
    assert over(found.seed, found.own) == pytest.approx(found.seed.error / found.own.error)


def test_the_note_tells_of_the_columns_that_a_table_has(module, tmp_path):
    table = tmp_path / "people.csv"
    table.write_text("cm\n170\n185\n181\n")
    given = OwnInput(data=table, columns=("cm",), thresholds=(180.0,), per=2.0)
    for own_too in (None, module):
        asked = one_way.experiment(PaperRun(given=replace(given, module=own_too)))
        rows = compute_cells(asked.cells)
        (told,) = asked.tables(rows)
        note = asked.note(rows)
        assert ("prior" in told.headers) == ("prior:" in note)
        assert ("yours" in told.headers) == ("after yours" in note)


def test_a_changed_file_is_computed_again(module):
    before, after = OwnInput(module).key, None
    module.write_text(WIDE.replace("1.1", "1.2"))
    after = OwnInput(module).key
    assert before != after
    assert {OwnInput(module).key, OwnInput().key} == {after, "as published"}


@pytest.mark.parametrize("made", [3, lambda scores: scores])
def test_what_is_no_mechanism_that_selects_is_refused(made):
    own = OwnSelection("bad", lambda epsilon, sensitivity: SimpleNamespace(probabilities=made))
    with pytest.raises(ParameterError, match="bad"):
        own.audited()


def test_a_name_that_is_taken_is_refused(tmp_path):
    file = tmp_path / "taken.py"
    file.write_text(WIDE.replace("def wide", "def PowerLaw"))
    with pytest.raises(ParameterError, match="PowerLaw"):
        _ = replace(PANELS[0], given=OwnInput(file)).contestants


@pytest.mark.deep
def test_a_mechanism_of_ones_own_is_asked_pairs_and_densities_too(module):
    """The variance of Laplace noise grows with the square of its scale; GP_Lip's is known."""
    given = OwnInput(module)
    axes = ((100_000.0,), (100_000.0,))
    panel = TwoWayPanel(per=12_000.0, axes=axes, people=(1_000,), given=given)
    pairs = {row.mechanism: row for row in twoway.exact(panel, points=64)}
    assert {pairs[name].origin for name in ("wide", "narrow", "exact")} == {OWN}
    assert pairs["wide"].noise == pytest.approx(pairs["narrow"].noise * (1.1 / 0.7) ** 2)
    assert pairs["exact"].error == pytest.approx(pairs["DebiasedLaplace"].error)
    setting = KernelSetting(people=(1_000,), subgrid=2, given=given)
    rows = kde.exact(setting, names=("wide", "narrow", "GP_Lip"))
    noise = {row.mechanism: row.noise for row in rows if not row.panel.endswith("in all")}
    # 1.1 × the Lipschitz constant, over the rate: GP_Lip has that constant itself.
    assert noise["wide"] == pytest.approx(1.1**2 * noise["GP_Lip"])
    assert noise["narrow"] == pytest.approx(0.7**2 * noise["GP_Lip"])
    (of_own,) = drawn(setting, "wide", 1_000, 2, 1)
    assert of_own.origin == OWN


def test_places_of_ones_own_are_in_a_plane_of_their_own(tmp_path):
    """Oracle: a degree of latitude is 111 km, one of longitude half of that at 60 degrees."""
    file = tmp_path / "places.csv"
    file.write_text("lon,lat,many\n10,60,1\n10.1,60,2\n10,60.1,1\n10,60,1\n")
    given = OwnInput(data=file, columns=("lon", "lat"), weight="many")
    places, _ = places_of(given)
    assert sorted(places.weights.tolist()) == [1, 2, 2]
    apart = np.linalg.norm(places.values[:, None] - places.values, axis=-1)
    assert sorted(apart[np.triu_indices(3, 1)]) == pytest.approx([5_580, 11_140, 12_460], rel=5e-3)
    setting = KernelSetting(people=(100,), size=3, subgrid=3, given=given)
    rows = kde.exact(setting, names=("GP_Lip",))
    assert all(row.error > 0 for row in rows)
    with pytest.raises(ParameterError, match="column"):
        places_of(OwnInput(data=file, columns=("lon",)))


def test_pairs_of_a_table_have_the_moments_of_its_rows(tmp_path):
    """Oracle: the formula of the module over all rows; the lattice has 5 standard errors to it."""
    table = tmp_path / "pairs.csv"
    rng = np.random.default_rng(1)
    held = np.stack([rng.normal(170, 10, 400), rng.normal(75, 8, 400)], axis=1).round(1)
    weight = rng.integers(1, 4, 400)
    lines = (f"{a},{b},{w}\n" for (a, b), w in zip(held.tolist(), weight.tolist(), strict=True))
    table.write_text("cm,kg,many\n" + "".join(lines))
    given = OwnInput(
        data=table, columns=("cm", "kg"), weight="many", thresholds=(175.0, 80.0), per=2.0
    )
    experiment = twoway.experiment(PaperRun(given=given))
    rows = {row.mechanism: row for row in compute_cells(experiment.cells) if row.n == 400_000}
    assert rows["GP_Lip"].panel == "T=(175, 80), 1/ε=2"
    panel = TwoWayPanel(per=2.0, axes=((175.0,), (80.0,)), footing=2.0)
    answer = TwoWayPanel.of_papers["GP_Lip"].build(panel.setting((175.0, 80.0)))
    shares = weight / weight.sum()
    off = answer.mean(held) - (held > (175.0, 80.0)).all(axis=1)
    bias = shares @ off
    error = bias**2 + (shares @ answer.variance(held) + shares @ (off - bias) ** 2) / 400_000
    found = rows["GP_Lip"]
    assert 0 < found.standard_error < 0.2 * error
    assert abs(found.error - error) < 5 * found.standard_error
    found = drawn(replace(panel, given=given), "GP_Lip", 2_000, 40, 1)[0]
    error = bias**2 + (shares @ answer.variance(held) + shares @ (off - bias) ** 2) / 2_000
    assert abs(found.error - error) < 5 * found.standard_error
    for wrong in ({"thresholds": (175.0,)}, {"per": None}, {"columns": ("cm",)}):
        with pytest.raises(ParameterError, match=r"threshold|per|column"):
            compute_cells(twoway.experiment(PaperRun(given=replace(given, **wrong))).cells)


@pytest.mark.deep
def test_a_distribution_is_told_by_a_mechanism_that_answers_one_question(tmp_path):
    """With next to no noise the bars' shares are those of the sample; a name is not taken twice."""
    file = tmp_path / "mine.py"
    file.write_text(
        "from geoveil.gp import DebiasedLaplace\n"
        "def sharp(query, privacy):\n    return DebiasedLaplace(query, privacy)\n"
    )
    table = tmp_path / "people.csv"
    values = np.random.default_rng(2).uniform(0, 100, 500).round(3)
    table.write_text("x\n" + "".join(f"{v}\n" for v in values))
    given = OwnInput(file, table, ("x",), per=1.0, ends=(0.0, 100.0))
    asked = distributions.experiment((), [50.0], [20_000], repetitions=2, given=given)
    rows = {row.measure: row for row in compute_cells(asked.cells) if row.origin == OWN}
    assert set(rows) == set(MEASURES)
    # 20,000 people at 31 edges: 0.5/√645 of a share is 0.02, of which the largest of 31 is 0.05.
    assert rows["largest"].error ** 0.5 < 0.08
    assert rows["median"].error ** 0.5 < 8
    for lacking in ({"per": None}, {"ends": None}):
        with pytest.raises(ParameterError, match="range"):
            distributions.experiment(given=replace(given, **lacking))
    file.write_text(file.read_text().replace("sharp", "hybrid"))
    own.in_file.cache_clear()
    with pytest.raises(ParameterError, match="hybrid"):
        distributions.experiment(given=OwnInput(file))


@pytest.mark.deep
def test_answers_over_time_are_of_a_table_too(tmp_path):
    """Incomes as a table give what shipped incomes give; and half of an input is refused."""
    people = household_incomes()
    kept = people.values >= 0
    table = tmp_path / "incomes.parquet"
    pq.write_table(pa.table({"x": people.values[kept], "w": people.weights[kept]}), table)
    given = OwnInput(data=table, columns=("x",), weight="w", thresholds=(100_000.0,), per=8_000.0)
    rows = over_time.computed(100_000.0, 1_000, 2, replace(given, thresholds=()))
    shipped = over_time.computed(100_000.0, 1_000, 2)
    for row, known in zip(rows, shipped, strict=True):
        assert row.error == pytest.approx(known.error, rel=2e-3)
    for wrong in ({"per": None}, {"thresholds": ()}, {"columns": ()}):
        with pytest.raises(ParameterError, match=r"^(per|threshold|column) must"):
            over_time.experiment(given=replace(given, **wrong))
    table.with_suffix(".csv").write_text("x\n-1\n5\n")
    with pytest.raises(ParameterError, match="column"):
        over_time.experiment(
            given=OwnInput(data=table.with_suffix(".csv"), columns=("x",), per=1.0)
        )


SELECTING = """
from geoveil.selection import ExponentialMechanism, PermuteAndFlip

def mine(epsilon, sensitivity):
    return PermuteAndFlip(epsilon, sensitivity)

def greedy(epsilon, sensitivity):
    return ExponentialMechanism(3 * epsilon, sensitivity)
"""


@pytest.mark.deep(rest=0)
@pytest.mark.parametrize(
    ("application", "same"),
    [("tdt", "permute-and-flip, nearness"), ("tree", None)],
)
def test_a_mechanism_that_selects_is_beside_all_others(application, same, tmp_path, monkeypatch):
    """The same mechanism by another name has the same values; what exceeds its ε is told."""
    generated = influence.generated_graph
    monkeypatch.setattr(influence, "generated_graph", lambda nodes, rng: generated(50, rng))
    file = tmp_path / "mine.py"
    file.write_text(SELECTING)
    asked = selections.experiment(application, Options(quick=True, module=file))
    rows = compute_cells(asked.cells[:1])
    value = {(r.measure, r.setting, r.epsilon, r.mechanism): r.value for r in rows}
    own = [r for r in rows if r.standing == "yours"]
    assert {row.mechanism for row in own} == {"mine", "greedy"}
    for row in own:
        if same is not None and row.mechanism == "mine":
            place = row.measure, row.setting, row.epsilon
            assert row.value == pytest.approx(value[*place, same], rel=1e-9)
    if application != "tdt":
        return
    result = runner.invoke(app, ["audit", "--module", str(file), "--json"])
    assert result.exit_code == 1
    found = json.loads(result.stdout)["selections"]
    assert [(row["mechanism"], row["keeps"]) for row in found] == [
        ("mine", True),
        ("greedy", False),
    ]
    one = ["audit", "--module", str(file), "--mechanism", "mine"]
    assert runner.invoke(app, one).exit_code == 0
    (proved,) = {row[2] for told in asked.tables(rows) for row in told.rows if row[0] == "mine"}
    assert proved == "nothing"
    note = asked.note(rows)
    assert "mine 1 (keeps)" in note
    assert "greedy 3 (exceeds)" in note


@pytest.mark.deep(keep=0)
@pytest.mark.parametrize("ending", [".svg", ".pdf"])
def test_figures_are_vectors_whose_text_is_text(ending, tmp_path):
    panel = replace(PANELS[0], people=(1_000, 2_000))
    names = "GP_Lip", "DebiasedLaplace"
    rows = [row for name in names for row in one_way.exact(panel, name)]
    asked = one_way.experiment(PaperRun())
    files = asked.write(rows, tmp_path / f"figure{ending}")
    assert [file.name for file in files] == [
        "figure.csv", "figure.parquet", f"figure{ending}", f"figure-ratios{ending}"
    ]  # fmt: skip
    content = files[2].read_bytes()
    if ending == ".svg":
        assert ET.fromstring(content).tag.endswith("svg")
        assert b">DebiasedLaplace</text>" in content
    else:
        assert content.startswith(b"%PDF")
        assert b"/FontFile2" in content  # TrueType, letter by letter, and no Type 3 outlines
        assert b"/Type3" not in content.replace(b" ", b"")
    assert asked.write(rows, tmp_path)[2] == tmp_path / "oneway-exact.png"
