"""A mechanism and people of one's own: the page is followed, and what comes out is a formula's."""

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from geoveil.audit import NoisyAnswer, mechanisms_in, own_cases
from geoveil.audit import audit as audited
from geoveil.cli.app import app
from geoveil.gp import (
    GeoPrivacy,
    Laplace,
    ParameterError,
    StudentT,
    Threshold,
)
from geoveil.simulation.computing import computer
from geoveil.simulation.experiment import Run
from geoveil.simulation.experiments import kde, twoway, twoway_exact
from geoveil.simulation.experiments.kde_settings import KernelSetting, collision_places
from geoveil.simulation.experiments.oneway import all_contestants, cells
from geoveil.simulation.experiments.own import OwnInput, distinct_values, with_own
from geoveil.simulation.experiments.rows import OWN, ErrorRow, compare
from geoveil.simulation.experiments.settings import ONE_WAY_PANELS, OneWayPanel, TwoWayPanel
from geoveil.simulation.result_tables import read_csv

runner = CliRunner()
PAGE = Path(__file__).parents[2] / "docs" / "comparing.md"
QUERY = Threshold(100_000.0, 16_000.0, "smoothstep")
PRIVACY = GeoPrivacy(1.0, per=8_000.0, unit="dollar")
MOST_LINES = 10
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


def page_files() -> dict[str, str]:
    found = re.findall(
        r"^\*\*`([^`]+)`\*\*\n\n```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL
    )
    return dict(found)


def page_commands() -> list[str]:
    blocks = re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


@pytest.fixture
def module(tmp_path: Path) -> Path:
    file = tmp_path / "mine.py"
    file.write_text(WIDE)
    return file


@pytest.mark.deep(keep=0)
def test_the_page_is_followed_in_ten_lines_each(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in page_files().items():
        assert len(text.splitlines()) <= MOST_LINES, name
        Path(name).write_text(text)
    commands = page_commands()
    assert len(commands) == 5
    for command in commands:
        tool, *arguments = command.split()
        if tool == "python":
            subprocess.run([sys.executable, *arguments], check=True)
            continue
        one = ["--quick"] if arguments[0] == "compare" else ["--quick", "--processes", "1"]
        quick = ["--samples", "20000"] if arguments[0] == "audit" else one
        result = runner.invoke(app, [*arguments, *quick])
        assert result.exit_code == 0, result.output
        assert "wide" in result.output
    rows = read_csv(tmp_path / "results" / "oneway-exact.csv", ErrorRow)
    assert {row.mechanism for row in rows if row.origin == OWN} == {"wide"}
    assert (tmp_path / "results" / "oneway-exact.parquet").exists()


def test_the_functions_of_a_file_are_found_and_others_left_out(module):
    assert list(mechanisms_in(module)) == ["wide", "narrow", "exact"]


@pytest.mark.parametrize(
    "text", ["x = 1\n", "raise ValueError\n", "def f(x):\n    return x\n", "not python\n"]
)
def test_a_file_without_mechanisms_is_refused(text, tmp_path):
    file = tmp_path / "bad.py"
    file.write_text(text)
    with pytest.raises(ParameterError, match="module"):
        mechanisms_in(file)
    with pytest.raises(ParameterError, match="module"):
        mechanisms_in(tmp_path / "absent.py")


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


def test_the_command_fails_where_one_is_refuted(module):
    arguments = ["audit", "--module", str(module), "--samples", "2000"]
    assert runner.invoke(app, [*arguments, "--mechanism", "wide"]).exit_code == 0
    assert runner.invoke(app, [*arguments, "--mechanism", "narrow"]).exit_code == 1
    with pytest.raises(ParameterError, match="--faults"):
        runner.invoke(app, [*arguments, "--faults"], catch_exceptions=False)


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
    assert "aimed" not in all_contestants(given)
    panel = OneWayPanel(180.0, 2.0, 2.0, people=(1_000,))
    rows = [row for cell in cells(panels=[panel], given=given) for row in cell.rows()]
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
    assert found.own_ratio == pytest.approx(found.seed.error / found.own.error)


def test_a_changed_file_is_computed_again(module):
    before, after = OwnInput(module).key, None
    module.write_text(WIDE.replace("1.1", "1.2"))
    after = OwnInput(module).key
    assert before != after
    assert {OwnInput(module).key, OwnInput().key} == {after, "as published"}


def test_half_of_an_input_is_refused(tmp_path):
    with pytest.raises(ParameterError, match="column"):
        OwnInput(columns=("cm",))
    for arguments in (["--per", "2"], ["--data", "a.csv", "--column", "b"]):
        result = runner.invoke(app, ["simulate", "oneway", *arguments, "--out", str(tmp_path)])
        assert result.exit_code != 0


def test_a_name_that_is_taken_is_refused(tmp_path):
    file = tmp_path / "taken.py"
    file.write_text(WIDE.replace("def wide", "def PowerLaw"))
    with pytest.raises(ParameterError, match="PowerLaw"):
        all_contestants(OwnInput(file))


def test_a_mechanism_of_ones_own_is_asked_pairs_and_densities_too(module):
    """The variance of Laplace noise grows with the square of its scale; GP_Lip's is known."""
    given = OwnInput(module)
    panel = TwoWayPanel(12_000.0, axis=(100_000.0,), people=(1_000,))
    pairs = {row.mechanism: row for row in twoway_exact.exact(panel, points=64, given=given)}
    assert {pairs[name].origin for name in ("wide", "narrow", "exact")} == {OWN}
    assert pairs["wide"].noise == pytest.approx(pairs["narrow"].noise * (1.1 / 0.7) ** 2)
    assert pairs["exact"].error == pytest.approx(pairs["DebiasedLaplace"].error)
    setting = KernelSetting(n=1_000)
    names = ("wide", "narrow", "GP_Lip")
    rows = kde.exact((setting,), names, subgrid=2, given=given)
    noise = {row.mechanism: row.noise for row in rows if not row.panel.endswith("in all")}
    # 1.1 × the Lipschitz constant, over the rate: GP_Lip has that constant itself.
    assert noise["wide"] == pytest.approx(1.1**2 * noise["GP_Lip"])
    assert noise["narrow"] == pytest.approx(0.7**2 * noise["GP_Lip"])
    (drawn,) = kde.drawn(setting, "wide", 2, 1, subgrid=2, given=given)
    assert drawn.origin == OWN
    with pytest.raises(ParameterError, match="wide"):
        with_own({"wide": twoway.scalar()["GP_Lip"]}, given)


def test_places_of_ones_own_are_in_a_plane_of_their_own(tmp_path):
    """Oracle: a degree of latitude is 111 km, one of longitude half of that at 60 degrees."""
    file = tmp_path / "places.csv"
    file.write_text("lon,lat,many\n10,60,1\n10.1,60,2\n10,60.1,1\n10,60,1\n")
    given = OwnInput(data=file, columns=("lon", "lat"), weight="many")
    places = collision_places(given)
    assert sorted(places.counts.tolist()) == [1, 2, 2]
    apart = np.linalg.norm(places.points[:, None] - places.points, axis=-1)
    assert sorted(apart[np.triu_indices(3, 1)]) == pytest.approx([5_580, 11_140, 12_460], rel=5e-3)
    rows = kde.exact((KernelSetting(n=100),), ("GP_Lip",), size=3, subgrid=3, given=given)
    assert all(row.error > 0 for row in rows)
    with pytest.raises(ParameterError, match="column"):
        collision_places(OwnInput(data=file, columns=("lon",)))


def test_cells_are_computed_on_a_cluster():
    distributed = pytest.importorskip("distributed")
    panel = replace(ONE_WAY_PANELS[0], people=(1_000,))
    asked = cells(
        mode="monte-carlo", repetitions=2, panels=[panel], contestants=["GP_Lip", "aimed"]
    )
    options = {"n_workers": 1, "processes": False, "dashboard_address": "127.0.0.1:0"}
    with (
        distributed.LocalCluster(**options) as cluster,
        computer(cluster.scheduler_address, None) as compute,
    ):
        assert Run(compute=compute).rows(asked) == Run().rows(asked)
