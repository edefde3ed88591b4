"""Re-run the code of papers' authors, from a clone, and compare the results with the ledger.

    python tools/authors_code.py CLONE

The clone is one of the three repositories that the ledger of reproductions names, at its commit:
github.com/PublicRepo2024/SmoothGP, iagocc/smooth-noisy-max, ay0408/Smooth-Private-Selection. This
runs their Python: numbers marked "re-run" in the ledger are computed again, and numbers marked
"stored" are read from the authors' files. None of their code is shipped or kept.
"""

import argparse
import csv
import importlib
import json
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from geoveil.simulation.experiments import oneway
from geoveil.simulation.experiments.own import AS_PUBLISHED, distinct_values
from geoveil.simulation.experiments.published import band
from geoveil.simulation.ledger.reproduction import published_numbers
from geoveil.simulation.selection import transmission

Key = tuple[str, str, str]
Found = Iterator[tuple[Key, float]]
_PEOPLE = 1_600_000


def smooth_gp(clone: Path) -> Found:
    """Yield bounds B, and errors of one threshold on the bundled incomes."""
    utils = importlib.import_module("smooth.utils")
    ramp, rate = 16_000.0, 1 / 72_000
    for name, setting, quantity in _keys("sgp-figure-1"):
        distance = float(quantity.split()[-1]) - 100_000.0
        bound = utils.get_threshold_smooth_analytic(distance, rate, ramp)
        yield (name, setting, quantity), bound
    for name, setting, quantity in _keys("sgp-figure-2"):
        point = np.array([float(n) for n in re.findall(r"\d+", quantity)])
        bound = utils.get_twthreshold_smooth_analytic2(point, rate, 1e5, 2e5, ramp)
        yield (name, setting, quantity), bound
    for name, setting, quantity in _keys("sgp-figure-6"):
        if quantity.startswith("B at"):
            beta = 1 / (9 * float(setting.rpartition("=")[2]))
            place = np.array([float(quantity.split()[2]) * 1_400.0, 0.0])
            bound = utils.get_kde_smooth_analytic(place, beta, 1_400.0)
            yield (name, setting, quantity), 1_000 * bound
    incomes, shares = distinct_values(AS_PUBLISHED)
    for panel in oneway.PANELS:
        row = "sgp-figure-3" if panel.threshold > 1e5 else "sgp-figure-8"
        at, per = panel.threshold, panel.per
        width = band(at, per)
        of = utils.get_threshold_smooth_analytic
        soft = np.array([utils.func_theta(x, at, width) for x in incomes])
        bounds = np.array([of(x - at, 1 / (9 * per), width) for x in incomes])
        # The scales that smooth/algo.py, test_1waythres.py and ldp/algo.py set: ν = 3, a third of ε
        # for β, and Laplace noise of variance 2.
        noises = {
            "Student-t": 3 * np.square(bounds * per * 1.5 * 2 / np.sqrt(3)),
            "GP_Lip": 2 * (per / width) ** 2,
            "ε-LDP": 2 * (per / panel.footing) ** 2,
        }
        off = soft - (incomes > at)
        for name, noise in noises.items():
            bias = np.sum(shares * off)
            spread = np.sum(shares * (np.square(off - bias) + noise))
            key = row, panel.label, f"MSE of {name}, n = 1,600,000"
            yield key, float(bias**2 + spread / _PEOPLE)


def noisy_max(clone: Path) -> Found:
    """Yield stored accuracies of trees and forests; errors of a percentile, stored and re-run."""
    trees = clone / "greedy_decision_tree" / "experiments_log"
    tables = {"adult_clean": "Adult", "nltcs": "NLTCS", "acs": "ACS"}
    methods = {"TStudentRLNM": "SNM-T", "LlnRLNM": "SNM-LLN", "SmoothLaplaceRLNM": "SNM-LAP"}
    for file, mark in (("new_ones.csv", ""), ("lln.csv", ", the other log")):
        found = defaultdict(list)
        for run in _rows(trees / file):
            setting = f"{tables[run['dataset']]}, depth {run['depth']}"
            quantity = f"{methods[run['method']]}, ε = {float(run['eps']):g}{mark}"
            found[setting, quantity].append(float(run["acc"]))
        for key, runs in found.items():
            yield ("snm-figure-4", *key), float(np.mean(runs))
    csv.field_size_limit(1 << 30)
    for number in published_numbers()["snm-figure-5"]:
        if number.kind == "stored":
            logged = _rows(clone / number.source.partition(":")[2])
            accuracies = [float(run["accuracy"]) for run in logged]
            yield ("snm-figure-5", *number.key), float(np.mean(accuracies))
    # The median of HEPTH is 41; the file has the mean of the chosen values.
    stored = _rows(clone / "percentile_selection/results/tstudent_hepth_50.dat", delimiter="\t")
    for line in stored:
        quantity = f"SNM-T as in the authors' code, ε = {line['eps']}"
        yield ("snm-figure-2", "HEPTH, p = 50", quantity), float(line["err_tdist"]) - 41
    yield from _percentile_again(clone)


def _percentile_again(clone: Path) -> Found:
    """Run the authors' quadrature for the first, a middle and the last ε; it takes a minute."""
    for name in ("numba", "mpmath"):
        try:
            importlib.import_module(name)
        except ImportError:
            sys.modules[name] = ModuleType(name)
            sys.modules[name].njit = lambda *f, **_: f[0] if f else (lambda g: g)  # type: ignore[attr-defined]
    sys.path.insert(0, str(clone / "percentile_selection"))
    code: Any = importlib.import_module("mechanims")
    utility = importlib.import_module("utility")
    code.prod_step_rlnm = _product  # the same product in one expression: a hundred times as fast
    x = np.sort(np.load(clone / "percentile_selection/data/1D/HEPTH.n4096.npy").astype(float))
    u = utility.utility(x, 50)
    from scipy.integrate import quad_vec

    for epsilon in (0.1, 0.5298, 1.3738):
        bound = min(utility.calc_smooth_sens(u, epsilon), 1)
        alpha = 2 * np.sqrt(3) * (epsilon - abs(epsilon / 8) * 4) / 4
        args = partial(_arguments, code, u, 2 * bound / alpha)
        chances = [
            quad_vec(code.int_step, -np.inf, np.inf, args=args(int(np.flatnonzero(u == v)[0])))[0]
            for v in (0.0, 1.0)
        ]
        chosen = float(np.where(u == 1, chances[1], chances[0]) @ x)
        quantity = f"SNM-T as in the authors' code, ε = {epsilon:.4f}"
        yield ("snm-figure-2", "HEPTH, p = 50", quantity), chosen - 41


def _arguments(code: Any, u: np.ndarray, scale: float, r: int) -> tuple[Any, ...]:
    return u, r, scale, u.size, _product, code.t3_cdf, code.t3_pdf


def _product(r: int, u: Any, x: float, n: int, scale: float, cdf: Callable[[Any], Any]) -> float:
    return float(np.delete(cdf((u[r] - u + scale * x) / scale), r).prod())


def private_selection(clone: Path) -> Found:
    """Yield shares stored in the notebooks; and case (IV) on the real study, re-run."""
    cases = {
        "sps-figure-1": ("Comparison with existing methods/Accuracy/Accuracy_m={}.ipynb",
                         ("EM", "PF", "SPS (I)", "SPS (II)", "SPS (III)", "SPS (IV)")),
        "sps-figure-2": ("Effects of gamma/Accuracy/Accuracy_gamma_m={}.ipynb",
                         ("γ = 2", "γ = 4", "γ = 6", "γ = 10")),
    }  # fmt: skip
    for row, (file, names) in cases.items():
        for m in (5, 10, 15, 20):
            cells = json.loads((clone / file.format(m)).read_text(encoding="utf-8"))["cells"]
            printed = "".join(
                "".join(out.get("text", ())) for cell in cells for out in cell.get("outputs", ())
            )
            blocks = re.findall(r"\[\[.*?\]\]", printed, flags=re.DOTALL)
            means = np.array([float(n) for n in re.findall(r"[\d.]+", blocks[-1])])
            for i, line in enumerate(means.reshape(7, len(names))):
                for name, value in zip(names, line.tolist(), strict=True):
                    yield (row, f"m = {m}", f"{name}, ε = {3 * (i + 1)}"), value
    yield from _real_study(clone)


_IMPORTS = """
import math
import random
import numpy as np
from scipy import integrate
oo = float("inf")
"""


def _real_study(clone: Path, runs: int = 2_000) -> Found:
    file = clone / "Comparison with existing methods/Accuracy/Accuracy_m=5.ipynb"
    space: dict[str, Any] = {}
    cells = json.loads(file.read_text(encoding="utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    for source in code:
        if source.lstrip().startswith("def "):
            exec(_IMPORTS + source, space)  # noqa: S102 - their functions, which the user names
    exact, ends = space["ud"], {}

    def distance(x: Any, families: int) -> Any:
        key = float(x[0]), float(x[1]), families
        if key not in ends:
            ends[key] = exact(x, families)
        return ends[key]

    space["ud"], space["LS"] = distance, cache(space["LS"])
    table = np.array([space["cdf"]((i - 1_000) / 100, space["h4_OS"])[0] for i in range(2_001)])
    pairs = sorted(
        zip(transmission.METOPIC_B, transmission.METOPIC_C, strict=True),
        key=lambda bc: -space["TDT"](*bc),
    )
    np.random.seed(1)  # noqa: NPY002 - their functions draw from the global generator
    for epsilon in (3, 6, 9, 12, 15, 18, 21):
        args = np.array(pairs, dtype=float), epsilon, 150, 6, 4, table
        hits = sum(space["SPS_u_OS"](*args) == 0 for _ in range(runs))
        quantity = f"SPS (IV), ε = {epsilon}, the authors' functions"
        yield ("sps-table-2", "six variants, 215 families", quantity), hits / runs


def _keys(row: str) -> list[Key]:
    return [(row, n.setting, n.quantity) for n in published_numbers()[row]]


def _rows(file: Path, **dialect: Any) -> list[dict[str, str]]:
    with file.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream, **dialect))


REPOSITORIES: dict[str, Callable[[Path], Found]] = {
    "PublicRepo2024/SmoothGP@f0905af": smooth_gp,
    "iagocc/smooth-noisy-max@e1d1f9b": noisy_max,
    "ay0408/Smooth-Private-Selection@323e23b": private_selection,
}


def compare(clone: Path, commit: str) -> list[str]:
    """Return the differences from the ledger, one line each.

    Raises:
        ValueError: if the ledger names no repository at this commit.
    """
    named = [name for name in REPOSITORIES if commit.startswith(name.rpartition("@")[2])]
    if not named:
        commits = ", ".join(REPOSITORIES)
        raise ValueError(f"commit is {commit[:7]}, must be that of one of {commits}")
    ledger = {
        (row, *number.key): number
        for row, numbers in published_numbers().items()
        for number in numbers
        if number.source.startswith(named[0])
    }
    sys.path.insert(0, str(clone))
    off, missing = [], ledger.keys() - set()
    for key, value in REPOSITORIES[named[0]](clone):
        number = ledger[key]
        missing -= {key}
        # The ledger rounds numbers to a few digits; random ones have a standard error.
        if abs(value - number.value) > 3 * number.error + 6e-5 * abs(number.value):
            off.append(f"{': '.join(key)}: {value:.6g}, in the ledger {number.value:.6g}")
    print(f"{named[0]}: {len(ledger) - len(missing)} of {len(ledger)} numbers computed")
    return off + [f"{': '.join(key)}: not computed" for key in sorted(missing)]


def main() -> None:
    """Compare one clone; exit with 1 if a number differs."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("clone", type=Path, help="directory of the clone")
    clone = parser.parse_args().clone.resolve()
    asked = ["git", "-C", str(clone), "rev-parse", "HEAD"]
    commit = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()  # noqa: S603
    off = compare(clone, commit)
    print("\n".join(off) or "all as in the ledger")
    sys.exit(bool(off))


if __name__ == "__main__":
    main()
