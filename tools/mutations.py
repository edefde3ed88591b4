"""The changes that `tools/mutants.py` makes, one at a time, in the syntax tree of a file.

A comparison gets or loses its boundary, or is negated; an arithmetic, bitwise or boolean operator
is swapped; a sign or a `not` is dropped; a condition is negated; a number is 1 more or 1 less, a
truth value the other; a returned value is None; a statement that is a call is dropped; neighbouring
arguments are swapped, except of `min` and its like; `axis` is dropped; `break` and `continue`,
`min` and `max`, `any` and `all` are swapped.

Left alone are texts, the content of `raise`, what reprs show, types, decorators, and assertions, to
which `strict` of `zip` belongs.
"""

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

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
