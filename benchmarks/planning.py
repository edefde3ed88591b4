"""What an analyst waits for: a plan, in a process of its own and within one that has imported it.

Time is that of processors. The floor of a process is one that imports the solver of linear
programmes, without which there is no plan where an optimal channel may win.
"""

import os
import statistics
import subprocess
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

ROUNDS = 3
_WITHIN = """
import time
from geoveil.analyst.planner import HardThreshold, LogNormalPrior, plan
from geoveil.gp import GeoPrivacy
import scipy.optimize, scipy.sparse
start = time.process_time()
plan(HardThreshold(1e5), GeoPrivacy(1.0, per=8e3), LogNormalPrior(11.5, 0.8), n=50_000)
print(time.process_time() - start)
"""
_COMMON = ("--participants", "50000", "--epsilon", "1", "--per")
_COMMANDS = {
    "one threshold": ("--threshold", "100000", *_COMMON, "8000", "--prior", "incomes"),
    "a circle": ("--circle", "-73.9855,40.758,2000", *_COMMON, "500", "--prior", "collisions"),
}


def table() -> None:
    """Print seconds of processors, and their ratio to the floor."""
    python = [sys.executable, "-c"]
    rows = {"import of the solver, a process": _seconds([*python, "import scipy.optimize"])}
    for name, options in _COMMANDS.items():
        command = "from geoveil.cli import main; main()"
        rows[f"geoveil plan, {name}"] = _seconds([*python, command, "plan", *options])
    runs = [
        subprocess.run([*python, _WITHIN], check=True, capture_output=True) for _ in range(ROUNDS)
    ]
    rows["plan of one threshold, all imported"] = statistics.median(float(r.stdout) for r in runs)
    floor = next(iter(rows.values()))
    shown = Table("", "s", "ratio to the floor", title="a plan", title_justify="left")
    for name, seconds in rows.items():
        shown.add_row(name, f"{seconds:.2f}", f"{seconds / floor:.1f}")
    Console().print(shown)


def _seconds(command: Sequence[str]) -> float:
    """Return the median time of processors of a command, system calls included."""
    costs = []
    for _ in range(ROUNDS):
        before = os.times()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        after = os.times()
        spent = after.children_user - before.children_user
        costs.append(spent + after.children_system - before.children_system)
    return statistics.median(costs)
