"""Waiting times for a plan and a demonstration on the command line, and for a plan in a process.

Times are processor times. The floor is a process that only imports what every plan needs: NumPy,
python-flint and the parser of commands. For a session, which answers as sliders
move, the time is the longest of five changes after the first.
"""

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence

from benchmarks.timing import Figure, show

ROUNDS = 3
_NEEDED = "import numpy, flint, typer"
_WITHIN = """
import time
from geoveil.analyst.planner import (
    KINDS, HardThreshold, LogNormalPrior, PlanningProblem, Search, planned
)
from geoveil.gp import GeoPrivacy
start = time.process_time()
question, incomes = HardThreshold(1e5), LogNormalPrior(11.5, 0.8)
problem = PlanningProblem.of(question, GeoPrivacy(1.0, per=8e3), incomes)
planned(Search(problem), 50_000, tuple(KINDS))
print(time.process_time() - start)
"""
_SESSION = """
import time
from statistics import median
from geoveil.analyst import PlanningSession, questions_in
from geoveil.simulation.priors import public_prior
session = PlanningSession(public_prior({prior!r}))
costs = dict(ε=[], participants=[], plan=[])
for step in range(6):
    for name, wish in (("ε", (1 + step / 10, 50_000)), ("participants", (1 + step / 10, 20_000))):
        start = time.process_time()
        request = session.request(
            questions_in({asked!r}), epsilon=wish[0], participants=wish[1], per={per}
        )
        session.forecast(request).planned.report()
        costs[name].append(time.process_time() - start)
    start = time.process_time()
    session.plan(request).report()
    costs["plan"].append(time.process_time() - start)
print(*(max(seconds[1:]) for seconds in costs.values()))
"""
_SLIDERS = {
    "one threshold": ("incomes", {"threshold": ["100000"]}, 8_000),
    "a range": ("incomes", {"range": ["50000,100000"]}, 8_000),
    "a circle": ("collisions", {"circle": ["-73.9855,40.758,2000"]}, 500),
    "a density": ("collisions", {"place": ["-73.98,40.75"]}, 500),
}
_COMMON = ("--participants", "50000", "--epsilon", "1", "--per")
_COMMANDS = {
    "one threshold": ("--threshold", "100000", *_COMMON, "8000", "--prior", "incomes"),
    "a circle": ("--circle", "-73.9855,40.758,2000", *_COMMON, "500", "--prior", "collisions"),
}


def table() -> list[Figure]:
    """Print seconds of processor time, and their ratio to the floor."""
    python = [sys.executable, "-c"]
    rows = {f"{_NEEDED}, a process": _seconds([*python, _NEEDED])}
    for name, options in _COMMANDS.items():
        command = "from geoveil.cli import main; main()"
        rows[f"geoveil plan, {name}"] = _seconds([*python, command, "plan", *options])
    with tempfile.TemporaryDirectory() as folder:
        command = f"import os; os.chdir({folder!r}); from geoveil.cli import main; main()"
        rows["geoveil demo, 20,000 devices"] = _seconds([*python, command, "demo"], rounds=1)
    runs = [
        subprocess.run([*python, _WITHIN], check=True, capture_output=True) for _ in range(ROUNDS)
    ]
    rows["plan of one threshold, all imported"] = statistics.median(float(r.stdout) for r in runs)
    for name, (prior, asked, per) in _SLIDERS.items():
        code = _SESSION.format(prior=prior, asked=asked, per=per)
        run = subprocess.run([*python, code], check=True, capture_output=True)
        changed = ("forecast, ε moved", "forecast, participants moved", "the plan then")
        for what, seconds in zip(changed, map(float, run.stdout.split()), strict=True):
            rows[f"session, {name}: {what}"] = seconds
    return show("a plan", "s", 1.0, rows, next(iter(rows)))


def _seconds(command: Sequence[str], rounds: int = ROUNDS) -> float:
    """Return the median processor time of a command, including system calls."""
    costs = []
    for _ in range(rounds):
        before = os.times()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        after = os.times()
        spent = after.children_user - before.children_user
        costs.append(spent + after.children_system - before.children_system)
    return statistics.median(costs)
