"""Make small changes to the code, one at a time, and list those that no test notices.

`python -m tools.mutants TABLE [PART...]` reads a TOML file: for each part, its files, or functions
(FILE::NAME), the tests that have to notice a change, and the changes that nobody could notice, each
with the reason. Paths count from the current folder. It ends with 1 if the tests of a part notice
less than 95 % of the other changes, or if an entry is stale: it names no change, or one that a test
notices.

A change is made in memory, in a process that is forked for it; the tree stays as it is. The tests
that run the changed lines meet the change, the fastest first; a failure or a time-out notices it.

A comparison gets or loses its boundary, or is negated; an arithmetic, bitwise or boolean operator
is swapped; a sign or a `not` is dropped; a condition is negated; a number is 1 more or 1 less, a
truth value the other; a returned value is None; a statement that is a call is dropped; neighbouring
arguments are swapped, except of `min` and its like; `axis` is dropped; `break` and `continue`,
`min` and `max`, `any` and `all` are swapped.

Left alone are texts, the content of `raise`, what reprs show, types, decorators, and assertions, to
which `strict` of `zip` belongs.
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
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.machinery import SourceFileLoader
from itertools import groupby, islice
from multiprocessing import connection, get_context
from pathlib import Path
from typing import Any

import pytest

OPERATORS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.And: ast.Or, ast.Or: ast.And, ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div,
    ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult, ast.Pow: ast.Mult,
    ast.LShift: ast.RShift, ast.RShift: ast.LShift, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitAnd, ast.Break: ast.Continue, ast.Continue: ast.Break,
}  # fmt: skip
NAMES = {"min": "max", "max": "min", "any": "all", "all": "any"}
COMMUTE = {"min", "max", "minimum", "maximum", "hypot", "array_equal"}
NEGATED = (ast.Eq, ast.NotEq, ast.Is, ast.IsNot, ast.In, ast.NotIn)
"""Comparisons that `OPERATORS` negates."""
LEFT_ALONE = (ast.Raise, ast.Assert, ast.JoinedStr)
FIELDS_LEFT_ALONE = {"annotation", "returns", "decorator_list", "bases"}
REPRS = {"__repr__", "__str__", "_arguments"}
LONGEST = 90
"""Characters of an expression that is shown with what is changed in it."""


@dataclass(frozen=True)
class Mutant:
    """One change."""

    file: str
    number: int
    """Its place among the changes of the file."""
    line: int
    lines: tuple[int, int] | None
    """First and last line of the code that it is in; None if that runs when it is imported."""
    change: str
    """The function, and the code before and after."""


@dataclass
class Walk:
    """All changes to the syntax tree of a file, each in the tree while it is the current one."""

    file: str
    tree: ast.Module
    seen: Counter[str] = field(default_factory=Counter)
    number: int = 0

    def __iter__(self) -> Iterator[Mutant]:
        return self._within(self.tree, (), None, 1)

    def _within(
        self, owner: ast.AST, scope: tuple[str, ...], start: int | None, line: int
    ) -> Iterator[Mutant]:
        """Yield the changes below a node; `start` is the line of its statement in a function."""
        for name, value in ast.iter_fields(owner):
            if name in FIELDS_LEFT_ALONE:
                continue
            children = value if isinstance(value, list) else [value]
            for at, child in enumerate(children):
                if not isinstance(child, ast.AST) or _left_alone(child):
                    continue
                begins, below = start, scope
                of_function = isinstance(owner, ast.FunctionDef | ast.AsyncFunctionDef)
                if isinstance(child, ast.stmt) and (of_function or start is not None):
                    begins = child.lineno
                if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                    below = (*scope, child.name)
                here = getattr(child, "lineno", line)
                for new in _replacements(owner, name, child):
                    yield from self._replaced(owner, name, at, child, new, scope, begins, here)
                yield from self._within(child, below, begins, here)

    def _replaced(
        self, owner: Any, name: str, at: int, child: Any, new: ast.AST,
        scope: tuple[str, ...], begins: int | None, line: int,
    ) -> Iterator[Mutant]:  # fmt: skip
        """Yield one change while it is in the tree."""
        small = isinstance(owner, ast.expr | ast.keyword | ast.Return | ast.Assign | ast.AugAssign)
        whole = small and len(ast.unparse(owner)) <= LONGEST
        before = _text(owner if whole else child)
        _put(owner, name, at, new)
        change = f"{'.'.join(scope)}: {before} → {_text(owner if whole else new)}"
        self.seen[change] += 1
        if self.seen[change] > 1:
            change += f" ({self.seen[change]})"
        end = getattr(child, "end_lineno", None) or getattr(owner, "end_lineno", line)
        lines = None if begins is None else (begins, max(end, begins))
        yield Mutant(self.file, self.number, line, lines, change)
        self.number += 1
        _put(owner, name, at, child)


def _text(node: ast.AST) -> str:
    """Return a node on one line; the name of an operator, which has no text of its own."""
    return ast.unparse(node).replace("\n", " ") or type(node).__name__


def _put(owner: ast.AST, name: str, at: int, node: ast.AST) -> None:
    value = getattr(owner, name)
    if isinstance(value, list):
        value[at] = node
    else:
        setattr(owner, name, node)


def _left_alone(node: ast.AST) -> bool:
    if isinstance(node, ast.FunctionDef):
        overload = any(ast.unparse(mark) == "overload" for mark in node.decorator_list)
        return overload or node.name in REPRS
    if isinstance(node, ast.AnnAssign):
        return ast.unparse(node.annotation) == "TypeAlias"
    if isinstance(node, ast.keyword):
        return node.arg == "strict"
    return isinstance(node, LEFT_ALONE)


def _replacements(owner: ast.AST, name: str, node: ast.AST) -> Iterator[ast.AST]:
    """Yield what can stand in the place of a node."""
    if type(node) in OPERATORS:
        yield OPERATORS[type(node)]()
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield ast.Constant(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        others = [node.value + 1, node.value - 1]
        yield from (ast.Constant(other) for other in others if other != node.value)
    elif isinstance(node, ast.UnaryOp):
        yield node.operand
    elif isinstance(node, ast.Name) and node.id in NAMES:
        yield ast.Name(NAMES[node.id], node.ctx)
    elif isinstance(node, ast.Attribute) and node.attr in NAMES:
        yield ast.Attribute(node.value, NAMES[node.attr], node.ctx)
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield ast.Pass()
    elif isinstance(node, ast.Call):
        yield from _other_calls(node)
    negated = isinstance(node, ast.UnaryOp) or (
        isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], NEGATED)
    )
    if name in ("test", "ifs") and not negated:
        yield ast.UnaryOp(ast.Not(), node)
    if isinstance(owner, ast.Return) and not (
        isinstance(node, ast.Constant) and node.value is None
    ):
        yield ast.Constant(None)


def _other_calls(call: ast.Call) -> Iterator[ast.Call]:
    """Yield a call with neighbouring arguments swapped, or without its axis."""
    name = ast.unparse(call.func).rpartition(".")[2]
    pairs = [] if name in COMMUTE else zip(call.args, call.args[1:], strict=False)
    for at, (first, second) in enumerate(pairs):
        starred = isinstance(first, ast.Starred) or isinstance(second, ast.Starred)
        if not starred and ast.dump(first) != ast.dump(second):
            args = [*call.args[:at], second, first, *call.args[at + 2 :]]
            yield ast.Call(call.func, args, call.keywords)
    rest = [keyword for keyword in call.keywords if keyword.arg != "axis"]
    if len(rest) < len(call.keywords):
        yield ast.Call(call.func, call.args, rest)


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
