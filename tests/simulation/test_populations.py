"""Test that shipped populations are the published ones, and files and formulas are read right."""

import sys
from dataclasses import replace

import numpy as np
import pyarrow as arrow
import pyarrow.parquet as parquet
import pytest
from scipy import integrate, stats

from geoveil.gp import ParameterError, TwoWayThreshold, UnsupportedError
from geoveil.simulation import (
    Population,
    collisions,
    household_incomes,
    incomes_and_debts,
)
from geoveil.simulation.people_files import TableFileError
from geoveil.simulation.populations import AliasTable


def test_household_incomes_have_their_published_quantiles():
    """Figures published with the data: 13,797,644 households, weighted shares above thresholds."""
    households = household_incomes()
    assert len(households.values) == 141_199
    assert households.size == 13_797_644
    shares = {10_000: 0.9519, 50_000: 0.7365, 100_000: 0.4868, 500_000: 0.0291, 1_000_000: 0.0030}
    for threshold, share in shares.items():
        assert households.mean(lambda x, t=threshold: x > t) == pytest.approx(share, abs=5e-5)
    assert households.mean(lambda x: x) == pytest.approx(138_542, abs=1)


def test_collisions_lie_in_new_york():
    places = collisions().values
    assert places.shape == (200_000, 2)
    assert places.min(axis=0).tolist() == pytest.approx([-74.255, 40.500], abs=1e-3)
    assert places.max(axis=0).tolist() == pytest.approx([-73.701, 40.913], abs=1e-3)


@pytest.mark.parametrize(
    ("values", "weights"),
    [([], []), ([1.0], [1.0, 2.0]), ([np.nan], [1.0])],
)
def test_unsound_populations_are_refused(values, weights):
    with pytest.raises(ParameterError):
        Population("p", "u", np.array(values), np.array(weights), "")


def chi_square(counts, shares):
    expected = counts.sum() * np.asarray(shares)
    return ((counts - expected) ** 2 / expected).sum()


@pytest.mark.parametrize("rows", [1, 2, 3, 100])
def test_alias_tables_hold_the_weights(rows):
    """Probability of each row, added up from the table, against the weights themselves."""
    weights = np.random.default_rng(rows).pareto(1.0, rows) + 1e-9
    table = AliasTable.of(weights)
    shares = np.zeros(rows)
    np.add.at(shares, np.arange(rows), table.keep / rows)
    np.add.at(shares, table.other, (1 - table.keep) / rows)
    assert shares == pytest.approx(weights / weights.sum(), rel=1e-9, abs=1e-15)
    assert ((table.keep >= 0) & (table.keep <= 1)).all()


def test_alias_tables_stay_in_range_at_the_end_of_the_unit_interval():
    class Last:
        def random(self, n):
            return np.full(n, np.nextafter(1.0, 0))

    for rows in (1, 3, 10, 141_199):
        assert AliasTable.of(np.ones(rows)).draw(5, Last()).tolist() == [rows - 1] * 5


def test_weighted_households_are_drawn_by_weight():
    """n = 400,000, twenty income bands; chi-square, alpha = 1e-6; unweighted draws must fail."""
    households = household_incomes()
    edges = np.quantile(households.values, np.linspace(0.05, 0.95, 19))
    bands = np.searchsorted(edges, households.values)
    shares = np.bincount(bands, weights=households.weights) / households.size
    limit = stats.chi2.isf(1e-6, len(shares) - 1)
    rng = np.random.default_rng(3)
    drawn = np.searchsorted(edges, households.sample(400_000, rng))
    assert chi_square(np.bincount(drawn), shares) < limit
    assert chi_square(np.bincount(rng.choice(bands, 400_000)), shares) > limit


def test_places_are_drawn_whole():
    places = collisions()
    drawn = places.sample(1_000, np.random.default_rng(1))
    assert drawn.shape == (1_000, 2)
    assert {tuple(p) for p in drawn.tolist()} <= {tuple(p) for p in places.values.tolist()}
    assert places.dimension == 2
    assert household_incomes().dimension == 1


def test_mapped_people_keep_their_weights():
    households = household_incomes()
    thousands = households.mapped(lambda income: income / 1_000, "thousand dollars")
    assert thousands.mean(lambda v: v) == pytest.approx(138.542, abs=1e-3)
    assert thousands.unit == "thousand dollars"
    assert thousands.fingerprint() != households.fingerprint()


def test_fingerprints_tell_populations_apart():
    values, weights = np.arange(1.0, 5.0), np.ones(4)
    one = Population("a", "u", values, weights, "s")
    assert one.fingerprint() == Population("b", "u", values.copy(), weights, "t").fingerprint()
    others = [
        Population("a", "u", values, 2 * weights, "s"),
        Population("a", "u", values[::-1].copy(), weights, "s"),
        Population("a", "u", values.reshape(2, 2), weights[:2], "s"),
        incomes_and_debts(),
        replace(incomes_and_debts(), correlation=0.5),
    ]
    assert len({p.fingerprint() for p in [one, *others]}) == 6


MU, SIGMA = 11.49399503, 0.82907095


def test_incomes_and_debts_have_the_moments_of_the_paper():
    """Closed forms of the log-normal: mean exp(μ + σ²/2), the ratio of means, the correlation."""
    people = incomes_and_debts()
    mean = np.exp(MU + SIGMA**2 / 2)
    assert people.mean(lambda v: v[:, 0]) == pytest.approx(mean, rel=1e-9)
    assert people.mean(lambda v: v[:, 1]) == pytest.approx(1.791 * mean, rel=1e-9)
    product = people.mean(lambda v: v[:, 0] * v[:, 1])
    assert product == pytest.approx(1.791 * mean**2 * np.exp(0.4 * SIGMA**2), rel=1e-7)


@pytest.mark.deep
def test_means_over_incomes_and_debts_are_those_of_the_density():
    """Against quadrature in one dimension, of the chance that the debt is above, given income."""
    query = TwoWayThreshold((100_000.0, 150_000.0), 24_000, "smoothstep")
    z = np.linspace(-9, 9, 4_001)
    soft = incomes_and_debts().mean(query.value)

    def given(income_z):
        debt = np.exp(MU + np.log(1.791) + SIGMA * (0.4 * income_z + np.sqrt(0.84) * z))
        income = np.full_like(debt, np.exp(MU + SIGMA * income_z))
        values = query.value(np.stack([income, debt], axis=-1))
        return integrate.trapezoid(values * stats.norm.pdf(z), z)

    expected, _ = integrate.quad(
        lambda x: given(x) * stats.norm.pdf(x), -9, 9, points=[0, 0.02], epsabs=1e-8, limit=200
    )
    assert soft == pytest.approx(expected, abs=1e-6)


def test_draws_of_incomes_and_debts_are_log_normal_and_correlated():
    """n = 50,000: Kolmogorov-Smirnov of both logarithms, and Fisher's z, at alpha = 1e-6."""
    n = 50_000
    drawn = np.log(incomes_and_debts().sample(n, np.random.default_rng(6)))
    for i, mu in enumerate((MU, MU + np.log(1.791))):
        assert stats.kstest(drawn[:, i], "norm", (mu, SIGMA)).pvalue > 1e-6
        assert stats.kstest(drawn[:, i], "norm", (mu + 0.05, SIGMA)).pvalue < 1e-6
    z = np.arctanh(np.corrcoef(drawn.T)[0, 1]) * np.sqrt(n - 3)
    assert abs(z - np.arctanh(0.4) * np.sqrt(n - 3)) < 4.9
    assert abs(z - np.arctanh(0.45) * np.sqrt(n - 3)) > 4.9


@pytest.mark.parametrize(
    "change",
    [{"correlation": 1.0}, {"sigma": (1.0, -1.0)}, {"mu": (np.inf, 1.0)}],
)
def test_unsound_log_normals_are_refused(change):
    with pytest.raises(ParameterError, match=next(iter(change))):
        replace(incomes_and_debts(), **change)


HEADER = "id,income,debt,weight\n"
ROWS = "a,50000,10,2\nb,70000.5,20,0\nc,-3e3,30,1.5\n"


def test_csv_files_become_populations(tmp_path):
    """Columns by name; rows of weight 0 left out; empty lines and a byte order mark passed over."""
    path = tmp_path / "people.csv"
    path.write_text("\ufeff" + HEADER + ROWS + "\n", encoding="utf-8")
    one = Population.from_file(path, values=["income"], weights="weight", unit="dollar")
    assert one.values.tolist() == [50_000, -3_000]
    assert one.weights.tolist() == [2, 1.5]
    assert (one.name, one.unit, one.source) == ("people", "dollar", "people.csv")
    two = Population.from_file(str(path), values=["debt", "income"], name="they")
    assert two.values.tolist() == [[10, 50_000], [20, 70_000.5], [30, -3_000]]
    assert two.weights.tolist() == [1, 1, 1]
    assert two.name == "they"


def test_parquet_files_become_the_same_populations(tmp_path):
    path = tmp_path / "people.parquet"
    columns = {"income": [50_000, 70_000, -3_000], "debt": [1.0, 2.0, 3.0], "weight": [2, 0, 1]}
    parquet.write_table(arrow.table(columns), path)
    read = Population.from_file(path, values=["income", "debt"], weights="weight")
    assert read.values.tolist() == [[50_000, 1], [-3_000, 3]]
    assert read.weights.tolist() == [2, 1]


SECRET = "73219"


@pytest.mark.parametrize(
    ("text", "where"),
    [
        (f"income\n1\n{SECRET}x\n", "row 2, column 'income'"),
        ("income\nnan\n", "row 1, column 'income'"),
        (f"income\n1\n{SECRET}e304\n", "row 2, column 'income'"),
        (f"{SECRET}\n{SECRET}\n", "column 'income'"),
        (f"income,weight\n{SECRET}\n", "row 1 must be of 2 fields"),
        ("", "column 'income'"),
        (b"income\n\xff73219\n", "UTF-8"),
        (f'income\n"{SECRET}\x00"\n', "row 1"),
    ],
)
def test_faults_of_csv_files_are_named_without_any_value(tmp_path, text, where):
    path = tmp_path / "people.csv"
    if text is not None:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(TableFileError, match=where) as caught:
        Population.from_file(path, values=["income"])
    assert str(path) in str(caught.value)
    assert_nothing_shown(caught.value)


def assert_nothing_shown(error):
    """Neither the message nor what hangs on it holds a value of the file."""
    while error is not None:
        assert SECRET not in f"{error!s} {error!r} {error.args}"
        error = error.__cause__ or error.__context__


@pytest.mark.parametrize(
    ("columns", "where"),
    [
        ({"income": [1.0, None]}, "row 2, column 'income'"),
        ({"income": [1.0, float(f"{SECRET}e304")]}, "row 2, column 'income'"),
        ({"income": [SECRET]}, "type string"),
        ({SECRET: [1.0]}, "column 'income'"),
    ],
)
def test_faults_of_parquet_files_are_named_without_any_value(tmp_path, columns, where):
    path = tmp_path / "people.parquet"
    parquet.write_table(arrow.table(columns), path)
    with pytest.raises(TableFileError, match=where) as caught:
        Population.from_file(path, values=["income"])
    assert_nothing_shown(caught.value)


def test_what_is_no_parquet_file_is_refused(tmp_path):
    path = tmp_path / "people.parquet"
    for text in (None, "", f"income\n{SECRET}\n" * 10):
        if text is not None:
            path.write_text(text)
        with pytest.raises(TableFileError, match="can be read") as caught:
            Population.from_file(path, values=["income"])
        assert_nothing_shown(caught.value)


def test_weights_and_columns_of_files_are_checked(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text(f"income,weight\n1,2\n2,-{SECRET}\n")
    with pytest.raises(TableFileError, match="row 2, column 'weight'") as caught:
        Population.from_file(path, values=["income"], weights="weight")
    assert_nothing_shown(caught.value)
    path.write_text("income,weight\n1,0\n")
    with pytest.raises(TableFileError, match="at least one row"):
        Population.from_file(path, values=["income"], weights="weight")
    for columns in ([], "income"):
        with pytest.raises(ParameterError, match="values"):
            Population.from_file(path, values=columns)
    with pytest.raises(ParameterError, match=r"column must be .* not the same twice"):
        Population.from_file(path, values=["income", "income"])


@pytest.mark.parametrize("ending", ["gpkg", "parquet"])
def test_without_what_reads_a_file_it_says_what_to_install(ending, tmp_path, monkeypatch):
    for package in ("geopandas", "pyarrow"):
        monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UnsupportedError, match=r"pip install 'geoveil\[analyst\]'"):
        Population.from_file(tmp_path / f"people.{ending}", values=["income"])


def geopackage(path, columns, points):
    geopandas = pytest.importorskip("geopandas")
    frame = geopandas.GeoDataFrame(columns, geometry=points, crs="EPSG:4326")
    frame.to_crs("EPSG:3857").to_file(path, driver="GPKG")


def test_points_of_a_map_become_places_in_degrees(tmp_path):
    """Stored in another system of coordinates, they come back within a millimetre."""
    shapely = pytest.importorskip("shapely")
    path = tmp_path / "trees.gpkg"
    places = [[-73.9, 40.7], [-74.0, 40.8], [13.4, 52.5]]
    points = shapely.points(places)
    geopackage(path, {"many": [2, 0, 3], "kind": ["a", "b", "c"]}, points)
    read = Population.from_file(path, weights="many")
    assert read.values == pytest.approx(np.array([places[0], places[2]]), abs=1e-8)
    assert (read.weights.tolist(), read.unit, read.name) == ([2, 3], "degree", "trees")
    for column in ("kind", SECRET):
        with pytest.raises(TableFileError, match="column"):
            Population.from_file(path, weights=column)
    geopackage(path, {"many": [1.0, None, 1.0]}, points)
    with pytest.raises(TableFileError, match="row 2, column 'many'"):
        Population.from_file(path, weights="many")
    geopackage(path, {"many": [1]}, [shapely.Point(*places[0]).buffer(0.1)])
    with pytest.raises(TableFileError, match="points"):
        Population.from_file(path)
    path.write_text(SECRET)
    with pytest.raises(TableFileError, match="can be read") as caught:
        Population.from_file(path)
    assert_nothing_shown(caught.value)


def test_what_a_file_is_its_ending_says(tmp_path):
    with pytest.raises(ParameterError, match=r"\.gpkg"):
        Population.from_file(tmp_path / "people.xlsx", values=["income"])
