"""Test the page of results: numbers of the tables, their commands, and honest ratios."""

from geoveil.simulation.epochs.experiment import (
    ALONE,
    CARRIED,
    EXTRAPOLATED,
    FRESH,
    SPLIT,
    EpochRow,
)
from geoveil.simulation.experiment import read_csv, write_tables
from geoveil.simulation.experiments.page import epochs_section, section
from geoveil.simulation.experiments.rows import (
    LOCAL,
    OURS,
    PRIOR,
    SEED,
    ErrorRow,
)


def row(mechanism, origin, error, n=1_600_000, panel="T=1"):
    return ErrorRow(
        experiment="oneway", panel=panel, n=n, per=8.0, mechanism=mechanism, origin=origin,
        measure="MSE", error=error, squared_bias=None, noise=error / 2,
    )  # fmt: skip


ROWS = [
    row("GP_Lip", SEED, 4e-5),
    row(LOCAL, SEED, 1e-9),
    row("Student-t", SEED, 3e-5),
    row("DebiasedLaplace", OURS, 1e-6),
    row("aimed", PRIOR, 1e-7),
    row("GP_Lip", SEED, 8e-5, n=500),
    row("DebiasedLaplace", OURS, 2e-6, n=500),
]


def year(strategy, epsilon, error, **known):
    return EpochRow(
        threshold=55_500.0, n=1000, strategy=strategy, epsilon=epsilon, error=error,
        repetitions=7, **known,
    )  # fmt: skip


YEARS = [
    year(ALONE, 0.0, 1e-3),
    year(FRESH, 52.0, 6e-4),
    year(SPLIT, 1.0, 0.3),
    year(CARRIED, 1.0, 3e-3, standard_error=1e-5, after_shock=0.008),
    year(
        EXTRAPOLATED, 1.0, 9e-4, coverage=0.95, after_shock=0.011, delay=13, flagged=0.96,
        false_alarms=0.02,
    ),
]  # fmt: skip


def written(directory, name):
    """Return the section of rows in a table."""
    write_tables(ROWS, directory / f"{name}-exact", seed=1)
    for kind in ("exact", "exact-ratios"):
        (directory / f"{name}-{kind}.png").touch()
    (directory / "images").mkdir()
    return section(directory, name, "Errors", directory / "images")


def cells(text, start):
    line = next(line for line in text.splitlines() if line.startswith(start))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_tables_hold_the_numbers_of_one_n(tmp_path):
    text = written(tmp_path, "oneway")
    assert "geoveil simulate oneway" in text
    assert "![Errors: error ratios](images/oneway-exact-ratios.png)" in text
    assert (tmp_path / "images" / "oneway-exact-ratios.png").exists()
    assert "| 500 |" not in text
    assert cells(text, "| setting | n | GP_Lip")[2:] == [
        "GP_Lip", LOCAL, "Student-t", "DebiasedLaplace", "aimed",
    ]  # fmt: skip
    assert cells(text, "| T=1 | 1,600,000 | 4")[2:] == [
        "4.00e-05", "1.00e-09", "3.00e-05", "1.00e-06", "1.00e-07",
    ]  # fmt: skip


def test_the_ratio_is_of_the_best_and_leaves_local_privacy_out(tmp_path):
    text = written(tmp_path, "kde")
    ratios = text[text.index("left out):") :]
    assert cells(ratios, "| T=1") == [
        "T=1", "1,600,000", "Student-t", "DebiasedLaplace", "30", "300",
    ]  # fmt: skip
    assert cells(ratios, "| T=1 | 500")[-2:] == ["40", "nan"]


def test_rows_come_back_from_their_table(tmp_path):
    for kind, rows in ((ErrorRow, ROWS), (EpochRow, YEARS)):
        write_tables(rows, tmp_path / "rows", seed=1)
        assert read_csv(tmp_path / "rows.csv", kind) == rows


def test_answers_over_time_have_a_section_of_their_own():
    text = epochs_section(YEARS)
    assert cells(text, "| $55,500 | extrapolated") == [
        "$55,500", "extrapolated", "1", "0.00090", "1.5", "95.0%", "0.0110", "13 weeks, 96%",
    ]  # fmt: skip
    assert cells(text, "| $55,500 | carried")[4:] == ["5", "", "0.0080", ""]
    assert cells(text, "| $55,500 | sampling alone")[4:] == ["", "", "", ""]
    assert "1.5 to 1.5 times the" in text
    assert "has 333 times the error" in text
    assert "2.0% were" in text
