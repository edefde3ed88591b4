"""Make small changes to the code, one at a time, and list those that no test notices.

`python -m tools.mutants TABLE [PART...]` reads a TOML file: for each part, its files, or functions
(FILE::NAME), the tests that have to notice a change, and the changes that nobody could notice, each
with the reason. Paths count from the current folder. It ends with 1 if the tests of a part notice
less than 95 % of the other changes, or if an entry is stale: it names no change, or one that a test
notices.

A change is made in memory, in a process that is forked for it; the tree stays as it is. The tests
that run the changed lines meet the change, the fastest first; a failure or a time-out notices it.
"""

import ast
import importlib
import math
import os
import resource
import sys
import tempfile
import threading
import time
import tomllib
from collections import Counter, deque
from collections.abc import Generator, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.machinery import SourceFileLoader
from itertools import groupby, islice
from multiprocessing import connection, get_context
from pathlib import Path
from typing import Any

import pytest

from tools.mutations import Mutant, Walk

SHARE = 0.95
PYTEST = ["-x", "-q", "--assert=plain", "-p", "no:cacheprovider"]
"""Arguments of pytest. If it rewrote assertions, it would compile some changed modules itself."""
JOBS = os.cpu_count() or 1
FORK = get_context("fork")
WAITED = 10
"""Seconds that tests may take for each second of a processor: some wait for a lock for ever."""


@dataclass
class Traced:
    """What the tests of a part run, as a plugin of pytest."""

    files: frozenset[str]
    lines: dict[str, set[tuple[str, int]]] = field(default_factory=dict)
    """Test → (file, line)."""
    seconds: dict[str, float] = field(default_factory=dict)
    limit: int = 0
    """Seconds of processor time that all tests may take."""

    def tests_of(self, mutant: Mutant | None) -> list[str]:
        """Return the tests that run a change, by file, the fastest first.

        They are all for None, and for lines that run only while a module is imported.
        """
        tests = list(self.lines)
        if mutant is not None and mutant.lines is not None:
            first, last = mutant.lines
            path = os.path.abspath(mutant.file)
            places = {(path, line) for line in range(first, last + 1)}
            tests = [test for test in tests if places & self.lines[test]] or tests
        of_file: Counter[str] = Counter()
        for test in tests:
            of_file[_file_of(test)] += self.seconds[test]
        return sorted(
            tests, key=lambda test: (of_file[_file_of(test)], _file_of(test), self.seconds[test])
        )

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Note the lines that run while a test does."""
        seen = self.lines[item.nodeid] = set()

        def line(frame: Any, event: str, arg: object) -> Any:
            seen.add((frame.f_code.co_filename, frame.f_lineno))
            return line

        def enter(frame: Any, event: str, arg: object) -> Any:
            return line if frame.f_code.co_filename in self.files else None

        start = time.process_time()
        threading.settrace(enter)
        sys.settrace(enter)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            threading.settrace(None)  # type: ignore[arg-type]
            self.seconds[item.nodeid] = time.process_time() - start


@dataclass
class Chosen:
    """The tests that meet a change, in their order, as a plugin of pytest."""

    tests: Sequence[str]

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep these tests, the fastest first."""
        order = {test: place for place, test in enumerate(self.tests)}
        items[:] = [item for item in items if item.nodeid in order]
        items.sort(key=lambda item: order[item.nodeid])


def _trace(plugin: Traced, tests: Sequence[str], sends: connection.Connection) -> None:
    """Run the tests in this forked process, and send what they ran."""
    os.dup2(2, 1)
    code = pytest.main([*PYTEST, *tests], plugins=[plugin])
    origins = {name: getattr(module, "__file__", None) for name, module in sys.modules.items()}
    sends.send((code, plugin, origins, time.process_time()))


def _meet(mutant: Mutant | None, tests: Sequence[str], seconds: int) -> None:
    """Run tests in this forked process with a change, and exit with pytest's code."""
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    if mutant is not None:
        _import_changed(mutant)
    for file, chosen in groupby(tests, key=_file_of):
        code = pytest.main([*PYTEST, file], plugins=[Chosen(list(chosen))])
        if code != 0:
            os._exit(code)
    os._exit(0)


def _file_of(test: str) -> str:
    return test.partition("::")[0]


def _import_changed(mutant: Mutant) -> None:
    """Let the import of a mutant's file find the change."""
    path = os.path.abspath(mutant.file)
    tree = ast.parse(Path(path).read_bytes())
    next(islice(Walk(mutant.file, tree), mutant.number, None))
    code = compile(ast.fix_missing_locations(tree), path, "exec")
    unchanged = SourceFileLoader.get_code
    SourceFileLoader.get_code = lambda self, name: (  # type: ignore[method-assign]
        code if self.path == path else unchanged(self, name)
    )


def _traced(files: Sequence[str], tests: Sequence[str]) -> Traced:
    """Run the tests without a change, and import here what they need from other projects."""
    plugin = Traced(frozenset(os.path.abspath(file) for file in files))
    receives, sends = FORK.Pipe(duplex=False)
    process = FORK.Process(target=_trace, args=(plugin, tests, sends))
    process.start()
    code, plugin, origins, seconds = receives.recv()
    process.join()
    if code != 0:
        sys.exit("the tests fail without a change")
    here = Path.cwd()
    for name, origin in origins.items():
        path = Path(origin or here)
        if not path.is_relative_to(here) or path.is_relative_to(sys.prefix):
            with suppress(ImportError):
                importlib.import_module(name)
    plugin.limit = 2 + 2 * math.ceil(seconds)
    if _noticed([None], plugin)[None]:
        sys.exit("the tests fail in another order")
    return plugin


def _noticed(mutants: Iterable[Mutant | None], traced: Traced) -> dict[Mutant | None, bool]:
    """Return for each change whether a test notices it, as many at a time as there are cores."""
    result: dict[Mutant | None, bool] = {}
    waiting = deque(mutants)
    running: dict[Any, tuple[Mutant | None, float]] = {}
    while waiting or running:
        while waiting and len(running) < JOBS:
            mutant = waiting.popleft()
            tests = traced.tests_of(mutant)
            process = FORK.Process(target=_meet, args=(mutant, tests, traced.limit))
            process.start()
            running[process] = (mutant, time.monotonic() + WAITED * traced.limit)
        connection.wait([process.sentinel for process in running], timeout=1)
        for process, (mutant, end) in list(running.items()):
            if time.monotonic() > end:
                process.kill()
                process.join()
            if process.exitcode is not None:
                result[mutant] = process.exitcode != 0
                del running[process]
    return result


def mutants_of(place: str) -> list[Mutant]:
    """Return the mutants of a file, or of the functions whose names begin as FILE::NAME says."""
    file, _, name = place.partition("::")
    changes = Walk(file, ast.parse(Path(file).read_bytes()))
    return [mutant for mutant in changes if mutant.change.startswith(name)]


def check(name: str, part: dict[str, Any], equivalent: dict[str, dict[str, str]]) -> bool:
    """Print how many changes of a part the tests notice, and which not; return whether enough."""
    began = time.monotonic()
    files = [place.partition("::")[0] for place in part["files"]]
    traced = _traced(files, part["tests"])
    mutants = [mutant for place in part["files"] for mutant in mutants_of(place)]
    noticed = _noticed(mutants, traced)
    excused = {(file, change) for file in files for change in equivalent.get(file, {})}
    caught = [mutant for mutant in mutants if noticed[mutant]]
    left = [mutant for mutant in mutants if not noticed[mutant]]
    survivors = [mutant for mutant in left if (mutant.file, mutant.change) not in excused]
    stale = sorted(excused - {(mutant.file, mutant.change) for mutant in left})
    share = len(caught) / max(len(caught) + len(survivors), 1)
    print(
        f"{name}: {len(mutants)} mutants, {len(caught)} caught,"
        f" {len(left) - len(survivors)} equivalent, {len(survivors)} survive:"
        f" {share:.1%} caught in {(time.monotonic() - began) / 60:.1f} min"
    )
    for mutant in survivors:
        print(f"  {mutant.file}:{mutant.line}: {mutant.change}")
    for file, change in stale:
        print(f"  stale: {file}: {change}")
    sys.stdout.flush()
    return share >= SHARE and not stale


def main(table: str, *names: str) -> None:
    """Check the named parts of a table, or all."""
    sys.dont_write_bytecode = True
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {
            "TMPDIR": folder,
            "HYPOTHESIS_STORAGE_DIRECTORY": folder,
            "PYTHONDONTWRITEBYTECODE": "1",
            "OPENBLAS_NUM_THREADS": "1",
        }
        tempfile.tempdir = folder
        stated = tomllib.loads(Path(table).read_text())
        parts, equivalent = stated["part"], stated.get("equivalent", {})
        if unknown := [name for name in names if name not in parts]:
            sys.exit(f"there is no part {', '.join(unknown)}: choose from {', '.join(parts)}")
        enough = [check(name, parts[name], equivalent) for name in names or parts]
    sys.exit(0 if all(enough) else 1)


if __name__ == "__main__":
    main(*sys.argv[1:])
