"""Test that the package for R agrees with Python on the same file, to 1e-9."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from geoveil.analyst import Coordinate, NumberOf, Regression, contributions, form_reports_of
from geoveil.gp import AzimuthalEquidistant
from tests.campaigns import HOME_AND_INCOME

ROOT = Path(__file__).parents[3]
GEOVEIL = Path(sys.executable).with_name("geoveil")
PACKAGES = 'quit(status = !all(sapply(c("survey", "jsonlite"), requireNamespace, quietly = TRUE)))'
N = 500
FORM = f"""{HOME_AND_INCOME}[[field]]
kind = "number"
name = "age"
unit = "year"
least = 0
most = 100
epsilon = 1
per = 2
"""
PROGRAM = """
library(geoveil)
columns <- contributions("masked.csv", products = TRUE, command = commandArgs(TRUE))
people <- read.csv("masked.csv")[c("village", "weight")]
design <- geoveil_design(columns, people, weights = ~weight)
clustered <- geoveil_design(columns, people, ids = ~village, weights = ~weight)
refused <- function(of) tryCatch({ of; "" }, error = conditionMessage)
written <- list(
  columns = columns,
  means = geoveil_means(design, names(columns)),
  clustered = geoveil_means(clustered, c("income", "age")),
  model = geoveil_lm(design, "income", "age"),
  glm = coef(survey::svyglm(income ~ weight, design)),
  refused = c(
    refused(contributions("absent.csv")),
    refused(geoveil_design(columns, people[-1, ])),
    refused(geoveil_design(columns, columns["age"])),
    refused(geoveil_means(design, "rent")),
    refused(geoveil_lm(design, "rent", "age"))
  )
)
writeLines(jsonlite::toJSON(written, digits = NA, dataframe = "columns"), "said.json")
"""


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """Return a folder with a masked file, the weights, and what R says of them."""
    if not (shutil.which("Rscript") and not subprocess.run(["Rscript", "-e", PACKAGES]).returncode):
        pytest.skip("R, or its packages survey and jsonlite, are not installed")
    folder = tmp_path_factory.mktemp("r")
    rng = np.random.default_rng(11)
    plane = AzimuthalEquidistant(2.35, 48.86, 15_000)
    homes = plane.unproject(rng.normal(0, 3_000, (N, 2)))
    ages = rng.uniform(20, 80, N)
    incomes = 20_000 + 800 * ages + rng.normal(0, 5_000, N)
    weights, villages = rng.uniform(0.5, 3.0, N), rng.integers(0, 25, N)
    people = [column.tolist() for column in (incomes, ages, weights, villages)]
    lines = ["village,weight,home,income,age"]
    for (x, y), *rest in zip(homes.tolist(), *people, strict=True):
        lines.append(f"{rest[3]},{rest[2]},{y} {x} 0 0,{rest[0]},{rest[1]}")
    (folder / "people.csv").write_text("\n".join(lines))
    (folder / "form.toml").write_text(FORM)
    (folder / "program.R").write_text(PROGRAM)
    library = folder / "library"
    library.mkdir()
    for command in (
        [GEOVEIL, "mask", "people.csv", "--form", "form.toml", "--out", "masked.csv"],
        ["R", "CMD", "INSTALL", "--no-test-load", f"--library={library}", ROOT / "r" / "geoveil"],
        ["Rscript", "-e", f".libPaths('{library}'); source('program.R')", GEOVEIL],
    ):
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        assert not done.returncode, done.stderr
    return folder, weights, villages, json.loads((folder / "said.json").read_text())


def close(said, expected):
    """Compare to 1e-9 of the greatest, and see that 1e-8 of it would be refused."""
    expected = np.asarray(expected)
    within = 1e-9 * np.abs(expected).max()
    np.testing.assert_allclose(said, expected, rtol=0, atol=within)
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(said, expected + 10 * within, rtol=0, atol=within)


@pytest.mark.deep(rest=0)
def test_r_equals_python(both):
    folder, weights, villages, said = both
    reports = form_reports_of(folder / "masked.csv")
    frame = contributions(reports, products=True)
    assert list(said["columns"]) == list(frame)
    for name, column in said["columns"].items():
        close(column, frame[name])
    terms = {
        "home x": Coordinate("home", 0), "home y": Coordinate("home", 1),
        "income": NumberOf("income"), "age": NumberOf("age"),
    }  # fmt: skip
    assert list(frame)[:4] == [of.text for of in terms.values()]
    joint = reports.joint({name: [of] for name, of in terms.items()}, weights=weights)
    means = np.array(said["means"]["means"])
    close(means[:4], joint.values)
    for i in range(4):
        for j in range(4):
            scale = np.sqrt(joint.covariance[i, i] * joint.covariance[j, j])
            value = said["means"]["covariance"][i][j]
            assert value == pytest.approx(joint.covariance[i, j], abs=1e-9 * scale)
    y = frame[["income", "age"]].to_numpy()
    scores = weights[:, None] * (y - np.average(y, axis=0, weights=weights)) / weights.sum()
    totals = np.stack([scores[villages == v].sum(axis=0) for v in np.unique(villages)])
    close(said["clustered"]["covariance"], len(totals) * np.cov(totals.T))
    fitted = reports.ask(Regression("income", ["age"], errors="HC0"), weights=weights)
    close(said["model"]["coefficients"], fitted.values)
    close(said["model"]["covariance"], fitted.covariance * N / (N - 1))
    open_ones = np.stack([np.ones(N), weights], axis=1)
    gram = open_ones.T @ (weights[:, None] * open_ones)
    beta = np.linalg.solve(gram, open_ones.T @ (weights * y[:, 0]))
    close(said["glm"], beta)


@pytest.mark.deep(rest=0)
def test_the_page_prints_what_r_prints(both):
    folder, *_ = both
    page = (ROOT / "docs" / "r.md").read_text()
    table, program, printed = re.findall(r"^```(?:csv|r|text)\n(.*?)^```$", page, re.M | re.S)
    (folder / "columns.csv").write_text(table)
    (folder / "page.R").write_text(f".libPaths('library')\n{program}")
    done = subprocess.run(["Rscript", "page.R"], cwd=folder, capture_output=True, text=True)
    assert done.stdout == printed, done.stderr


@pytest.mark.deep(rest=0)
def test_r_refuses_with_the_name_of_what_is_wrong(both):
    *_, said = both
    absent, rows, twice, column, product = said["refused"]
    assert "absent.csv is not there" in absent
    assert "has 499 rows, and columns 500" in rows
    assert "columns has as well: age" in twice
    assert "not there: rent" in column
    assert "has no column 'rent'" in product
