"""Test the kernel experiment: sums over distances and exact errors against drawn reports."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from geoveil.analyst import new_york_boroughs
from geoveil.analyst.outlines import lines_of
from geoveil.gp import GaussianKernel, ParameterError
from geoveil.simulation.experiment import Cell
from geoveil.simulation.experiments import kde
from geoveil.simulation.experiments.kde import (
    DEFAULT,
    IN_ALL,
    SETTINGS,
    KernelSetting,
    centre_errors,
    density_maps,
    exact,
)
from geoveil.simulation.experiments.own import OwnInput
from geoveil.simulation.experiments.published import PaperRun, drawn
from geoveil.simulation.experiments.sums import (
    DistanceNodes,
    places_at,
    radial_means,
)
from geoveil.simulation.figures.published import draw_density_maps
from geoveil.simulation.figures.style import spread

ALPHA = 1e-6
KERNEL = KernelSetting.of_papers
PER_CENTRE = [name for name, c in KERNEL.items() if not c.answers_every_query]


def made_places():
    """400 places in a box of 6 × 4 km, up to five people at each."""
    rng = np.random.default_rng(7)
    points = rng.normal(size=(400, 2)) @ [[1_500.0, 300.0], [0.0, 900.0]]
    inside = np.clip(points, [-3_000, -2_000], [3_000, 2_000])
    return places_at(inside, rng.integers(1, 6, 400) * 1.0)


class SmallSetting(KernelSetting):
    """A setting whose people are made up."""

    places = made_places()


PLACES = SmallSetting.places
SMALL = SmallSetting(people=(2_000,), per=700.0, size=5, subgrid=5)


def at(centre, bandwidth):
    return GaussianKernel(centre.tolist(), bandwidth)


# Sums


def test_radial_means_are_the_sums_over_all_pairs():
    """Brute force, within the bound of linear interpolation: Δ²/8 sup |F''| in u.

    Nodes twenty times as far apart must miss it.
    """
    nodes = DistanceNodes(near=500.0, reach=SMALL.diagonal)
    distance = np.linalg.norm(PLACES.values[:, None] - SMALL.centres, axis=-1)
    assert distance.max() <= SMALL.diagonal
    functions = [
        np.ones_like,
        lambda r: np.exp(-((r / 500) ** 2) / 2),
        lambda r: np.exp(-r / 500),
        lambda r: np.exp(-r / 3_000) * (r / 3_000) ** 2,
    ]
    expected = [PLACES.weights @ f(distance) / PLACES.size for f in functions]

    def table(nodes):
        return np.stack([f(nodes.distances) for f in functions], axis=1)

    def worst(nodes):
        got = radial_means(PLACES, SMALL.centres, table(nodes), nodes)
        return np.abs(got.T - expected).max(axis=1)

    bound = np.abs(np.diff(table(nodes), 2, axis=0)).max(axis=0) / 8
    assert (worst(nodes) <= 1.001 * bound + 1e-14).all()
    assert (bound[1:] < 1e-6).all()
    coarse = DistanceNodes(near=20 * 500.0, reach=nodes.reach)
    assert (worst(coarse)[1:] > bound[1:]).all()


# Exact errors


@pytest.mark.deep(keep=3)
@pytest.mark.parametrize("name", KERNEL)
def test_errors_are_those_of_the_mechanism_at_every_point(name):
    """The mechanism's own moments in the plane, at each person, without any table."""
    setting = replace(SMALL, people=(1_000,), factor=0.9)
    got = centre_errors([setting], [name])[0][name]
    share = PLACES.weights / PLACES.size
    for i in (0, 12, 23):
        kernel = at(setting.centres[i], setting.bandwidth)
        answer = KERNEL[name].build(setting.question(kernel))
        bias = answer.mean(PLACES.values) - kernel.value(PLACES.values)
        noise = share @ answer.variance(PLACES.values)
        law = got.per_centre
        assert law.bias[i] == pytest.approx(share @ bias, rel=1e-5, abs=1e-15)
        assert law.noise[i] * 1_000 == pytest.approx(noise, rel=1e-5)
        spread = share @ np.square(bias - share @ bias)
        assert law.variance[i] * 1_000 == pytest.approx(noise + spread, rel=1e-5)
    assert got.per_centre.ase()["error"] == pytest.approx(
        np.sum(got.per_centre.bias**2 + got.per_centre.variance)
    )


@pytest.mark.parametrize("name", ["GP_rad", "DebiasedLaplace"])
def test_one_centre_each_has_the_error_that_the_formula_gives(name):
    """Partition drawn: 20,000 campaigns of 60 people, each answers one of 4 centres.

    Answers are bounded, so that the mean square is normal within z = 5.3 (alpha = 1e-6 over 4
    centres and two sides); an expectation 1.2 times as large or small must fail.
    """
    repetitions, n = 20_000, 60
    rng = np.random.default_rng(3)
    setting = SmallSetting(people=(n,), per=600.0, factor=0.3, size=2, subgrid=2)
    law = centre_errors([setting], [name])[0][name]
    bandwidth = setting.bandwidth
    answer = KERNEL[name].build(setting.question(GaussianKernel(0.0, bandwidth)))
    distance = np.linalg.norm(PLACES.values[:, None] - setting.centres, axis=-1)
    who = rng.choice(len(distance), size=(repetitions, n), p=PLACES.weights / PLACES.size)
    which = rng.integers(0, 4, size=who.shape)
    y = answer.simulate(distance[who, which], rng)
    f = np.exp(-np.square(distance / bandwidth) / 2)
    expected = np.square(law.whole_grid.bias) + law.whole_grid.variance
    for t in range(4):
        here = which == t
        some = here.any(axis=1)
        estimate = (y * here).sum(axis=1)[some] / here.sum(axis=1)[some]
        square = np.square(estimate - f[who, t].mean(axis=1)[some])
        error = square.std() / np.sqrt(len(square))
        z = [(square.mean() - factor * expected[t]) / error for factor in (1.0, 1.2, 1 / 1.2)]
        print(name, t, z)
        assert abs(z[0]) < 5.3 < min(abs(z[1]), abs(z[2]))


@pytest.mark.deep(keep=0)
def test_perturbed_points_pay_once():
    errors = centre_errors([SMALL], tuple(KERNEL))[0]
    for name in KERNEL:
        same = errors[name].whole_grid.ase()["error"] == errors[name].per_centre.ase()["error"]
        assert same == (name in ("GP_loc", "deconvolved"))
    ase = {name: e.whole_grid.ase()["error"] for name, e in errors.items()}
    assert min(ase, key=ase.get) == "deconvolved"


# Reports drawn


@pytest.mark.parametrize("name", PER_CENTRE)
def test_distances_are_points_enough(name):
    """The same random numbers give the same reports in the plane and on the distances."""
    rng = np.random.default_rng(5)
    points, centre = rng.normal(scale=2_000.0, size=(500, 2)), np.array([300.0, -800.0])
    in_plane, on_line = (
        KERNEL[name].build(SMALL.question(kernel))
        for kernel in (at(centre, 900.0), GaussianKernel(0.0, 900.0))
    )
    distance = np.hypot(*(points - centre).T)
    expected = in_plane.simulate(points, np.random.default_rng(1))
    assert on_line.simulate(distance, np.random.default_rng(1)) == pytest.approx(expected)


@pytest.mark.deep(keep=0)
@pytest.mark.parametrize("name", KERNEL)
def test_drawn_errors_have_the_exact_law(name):
    """400 campaigns of 2,000 people: how often |e_t − bias| stays below its median, at 4 centres.

    Errors are sums of thousands, normal in their middle even for heavy tails; the count is compared
    with a binomial at alpha = 1e-6 over 4 centres. A deviation 1.6 times as large, or as small,
    must fail at some centre.
    """
    repetitions, setting = 400, replace(SMALL, subgrid=2)
    errors = np.array([setting.drawn_once(name, SMALL.n, i, seed=11) for i in range(repetitions)])
    law = centre_errors([setting], [name])[0][name].per_centre
    median = stats.norm.ppf(0.75) * np.sqrt(law.variance)

    def p_values(scale):
        below = (np.abs(errors - law.bias) < scale * median).sum(axis=0)
        return [stats.binomtest(int(k), repetitions, 0.5).pvalue for k in below]

    print(name, p_values(1.0))
    assert min(p_values(1.0)) > ALPHA / errors.shape[1]
    assert min(p_values(1.6)) < ALPHA / errors.shape[1]
    assert min(p_values(1 / 1.6)) < ALPHA / errors.shape[1]


@pytest.mark.parametrize("name", ["Student-t", "deconvolved"])
def test_estimates_do_not_depend_on_how_the_work_is_cut(name):
    people, part = SMALL.drawn_people(SMALL.n, 3, seed=2), replace(SMALL, subgrid=3)
    whole = SMALL.estimates(name, people, 3, seed=2)[part.chosen]
    # A product of matrices may round differently for few rows than for many.
    assert whole == pytest.approx(part.estimates(name, people, 3, seed=2), rel=1e-13, abs=0)
    assert (part.estimates(name, SMALL.drawn_people(SMALL.n, 4, seed=2), 4, seed=2) != whole).all()


def test_kernel_means_are_those_of_the_people():
    people = SMALL.drawn_people(SMALL.n, 0, seed=1)
    assert people.size == SMALL.n
    expected = [
        people.weights @ at(c, SMALL.bandwidth).value(people.values) / SMALL.n
        for c in SMALL.centres
    ]
    assert SMALL.kernel_means(people) == pytest.approx(expected, rel=1e-5)


# Settings and cells


@pytest.mark.deep
def test_the_settings_are_the_papers():
    places = DEFAULT.places
    assert places.size == 200_000  # all lie in the paper's window
    assert len(DEFAULT.centres) == 3_721
    assert [replace(DEFAULT, factor=f).bandwidth for f in (0.8, 1.0, 1.2)] == [1_151, 1_439, 1_727]
    corners = replace(DEFAULT, subgrid=2).centres
    assert corners.min(axis=0).tolist() == places.values.min(axis=0).tolist()
    assert corners.max(axis=0).tolist() == places.values.max(axis=0).tolist()
    assert {(s.n, s.per, s.factor) for s in SETTINGS} == {
        (200_000, 500.0, 1.0),
        (200_000, 1_000.0, 1.0),
        (200_000, 2_000.0, 1.0),
        (200_000, 1_000.0, 0.8),
        (200_000, 1_000.0, 1.2),
        (100_000, 1_000.0, 1.0),
        (400_000, 1_000.0, 1.0),
    }


@pytest.mark.deep
def test_geoveil_beats_the_paper_on_collisions():
    """On 8 × 8 of the centres: about 30 times for each centre, and thousands at ε in all."""
    settings = tuple(replace(s, subgrid=8) for s in SETTINGS[:5])
    rows = exact(*settings, names=("Student-t", "DebiasedLaplace"))
    for setting in settings:
        student, debiased = (r.error for r in rows if r.panel == setting.label)
        assert 20 < student / debiased < 40
    (points,) = exact(replace(DEFAULT, subgrid=8), names=("deconvolved",))[1:]
    (student,) = (r for r in rows if r.panel == points.panel and r.mechanism == "Student-t")
    assert points.panel == f"{DEFAULT.label}, 8×8 of 61×61 centres, {IN_ALL}"
    assert student.error / points.error > 10_000


@pytest.mark.deep
def test_monte_carlo_cells_give_the_same_rows_in_any_process():
    setting = KernelSetting(people=(2_000,), subgrid=2)
    cell, other = (Cell(drawn, (setting, "GP_Lip", 2_000, 2, seed)) for seed in (1, 2))
    (row,) = cell.rows()
    assert pickle.loads(pickle.dumps(cell)).rows() == [row]
    assert row.panel == "1/ε=1000, h=1 cell diagonals, 2×2 of 61×61 centres"
    assert other.key != cell.key
    assert other.rows()[0].error != row.error
    errors = [setting.drawn_once("GP_Lip", 2_000, number, 1) for number in range(2)]
    squares = [np.sum(np.square(error)) for error in errors]
    assert row.error == pytest.approx(np.mean(squares))
    assert row.standard_error == pytest.approx(abs(squares[0] - squares[1]) / 2)


@pytest.mark.parametrize(
    ("build", "name"),
    [
        (lambda: KernelSetting(people=(0,)), "n"),
        (lambda: DistanceNodes(near=0.0, reach=1.0), "near"),
        (lambda: places_at(np.zeros((2, 2)), np.array([1.0, 0.0])), "weights, values"),
        (lambda: KernelSetting(size=4, subgrid=5), "subgrid"),
        (lambda: PaperRun(mode="guess"), "mode"),
    ],
)
def test_unsound_settings_are_refused(build, name):
    with pytest.raises(ParameterError) as refused:
        build()
    assert refused.value.name == name


# Maps and figures


@pytest.mark.deep
def test_maps_show_each_centre_where_it_is(tmp_path, monkeypatch):
    """A map's value at (east, north) is the kernel mean there, not its mirror image."""
    setting = KernelSetting(people=(3_000,))
    monkeypatch.setattr(kde, "FINE", 3)
    maps = density_maps(setting, seed=4)
    sides = {name: len(heights) ** 0.5 for name, (_, heights) in maps.items()}
    assert sides == {
        "without privacy": 61, "GP_loc": 61, "GP_rad": 3, "GP_Lip": 3, "Student-t": 3,
        "PowerLaw": 3, "DebiasedLaplace": 3, "deconvolved": 61,
    }  # fmt: skip
    centres, truth = (each.reshape(61, 61, -1) for each in maps["without privacy"])
    people = setting.drawn_people(3_000, 0, seed=4)
    for row, column in ((37, 30), (20, 40)):
        f = at(centres[row, column], 1_439.0).value(people.values)
        assert truth[row, column] == pytest.approx(people.weights @ f / 3_000, rel=1e-4)
    assert truth[37, 30] > 2 * truth[30, 37]
    assert maps["GP_Lip"][0].tolist() == centres[::30, ::30].reshape(9, 2).tolist()
    axes = DEFAULT.box.T
    assert centres[0, :, 0].tolist() == np.linspace(*axes[0], 61).tolist()
    assert centres[:, 0, 1].tolist() == np.linspace(*axes[1], 61).tolist()
    file = tmp_path / "maps.png"
    draw_density_maps(maps, file, "one run", setting.outlines[0])
    assert file.read_bytes().startswith(b"\x89PNG")


def test_outlines_lie_in_the_plane_of_the_people(tmp_path):
    """A corner of a borough is where Mercator has it on a sphere; others have the coast near."""
    lines, source = DEFAULT.outlines
    (first, *_) = lines_of(new_york_boroughs())
    longitude, latitude = np.radians(first[0][:2])
    mercator = 6_371_000.0 * np.array([longitude, np.arctanh(np.sin(latitude))])
    assert np.abs(lines[0][0] - mercator).max() < 1
    assert "Census" in source
    file = tmp_path / "west.csv"
    file.write_text("x,y\n-123.0,37.0\n-121.0,38.5\n-122.0,38.0\n")
    own = replace(DEFAULT, given=OwnInput(data=file, columns=("x", "y")))
    lines, source = own.outlines
    low, high = own.box
    assert "Natural Earth" in source
    assert any(((line > low) & (line < high)).all(axis=1).any() for line in lines)


def test_names_of_lines_stand_apart_and_stay_in_the_panel():
    rng = np.random.default_rng(6)
    for _ in range(200):
        places = sorted(rng.random(rng.integers(1, 12)).tolist())
        told = spread(places, 0.07)
        assert min(np.diff(told), default=1.0) > 0.07 - 1e-9
        assert told[0] > -1e-9
        assert told[-1] < 1 + 1e-9
    assert spread([0.2, 0.6], 0.07) == [0.2, 0.6]
