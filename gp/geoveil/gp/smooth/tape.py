"""Tapes: formulas as data, each a list of its operations.

A Python function could do something else at its next call. So an `Expression` records one call;
bounds, simulation and release use this record. Where pieces meet, the jump must be provably below
2^-3000, and is taken off the next piece.
"""

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from itertools import pairwise
from types import MappingProxyType
from typing import Any, NoReturn, TypeAlias

from flint import arb, ctx

from geoveil.gp.arithmetic import Arithmetic, Exact, OneVariable, Real
from geoveil.gp.errors import ParameterError
from geoveil.gp.exact import BALL, working_precision

Formula: TypeAlias = Callable[[Real, Arithmetic], Real]
"""φ(u), written against an `Arithmetic`."""

_PRECISIONS = (256, 4096, 16384)
"""Precisions at which the pieces of a formula are compared, in turn."""
_NO_JUMP = arb(2) ** -3000
"""Largest difference of two pieces where they meet."""

_OPERATORS: Mapping[str, Callable[..., Real]] = MappingProxyType(
    {
        "add": operator.add,
        "subtract": operator.sub,
        "multiply": operator.mul,
        "divide": operator.truediv,
        "negate": operator.neg,
    }
)


class Expression:
    """One operation on earlier expressions; recorded formulas compute with these.

    `name` is a method of `Arithmetic`, or an operator; `details` are further public arguments: a
    constant, an integer exponent, pieces.
    """

    __slots__ = ("details", "inputs", "name")
    __array_ufunc__ = None  # NumPy leaves number ∘ expression to the expression

    def __init__(self, name: str, *inputs: Any, details: tuple[Any, ...] = ()) -> None:
        self.name, self.details = name, details
        self.inputs = tuple(map(expression, inputs))

    def __neg__(self) -> "Expression":
        return Expression("negate", self)

    def __add__(self, other: Any) -> "Expression":
        return Expression("add", self, other)

    def __radd__(self, other: Any) -> "Expression":
        return Expression("add", other, self)

    def __sub__(self, other: Any) -> "Expression":
        return Expression("subtract", self, other)

    def __rsub__(self, other: Any) -> "Expression":
        return Expression("subtract", other, self)

    def __mul__(self, other: Any) -> "Expression":
        return Expression("multiply", self, other)

    def __rmul__(self, other: Any) -> "Expression":
        return Expression("multiply", other, self)

    def __truediv__(self, other: Any) -> "Expression":
        return Expression("divide", self, other)

    def __rtruediv__(self, other: Any) -> "Expression":
        return Expression("divide", other, self)

    def __pow__(self, exponent: int) -> "Expression":
        if isinstance(exponent, bool) or not isinstance(exponent, int) or exponent < 0:
            raise ParameterError("exponent", exponent, "an integer >= 0; else use ops.power")
        return RECORDER.power(self, exponent)

    def _no_answer(self, *_: object) -> NoReturn:
        raise TypeError(
            "a formula is recorded without numbers, so nothing can be compared or converted:"
            " use ops.piecewise, minimum, maximum or clip"
        )

    __bool__ = __float__ = __int__ = __index__ = _no_answer
    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = _no_answer
    __hash__ = object.__hash__


def expression(x: Any) -> Expression:
    """Return a number as a constant expression, and an expression as it is."""
    if isinstance(x, Expression):
        return x
    if not isinstance(x, (int, float, Fraction)):
        raise TypeError(f"a {type(x).__name__} is not a number of its arithmetic")
    if not math.isfinite(x):
        raise ValueError(f"{x} is not finite")
    return Expression("constant", details=(x,))


class Recorder(OneVariable):
    """The arithmetic of expressions, which records operations instead of computing."""

    def constant(self, value: Exact) -> Expression:
        return expression(value)

    def exp(self, x: Real) -> Expression:
        return Expression("exp", x)

    def log(self, x: Real) -> Expression:
        return Expression("log", x)

    def expm1(self, x: Real) -> Expression:
        return Expression("expm1", x)

    def log1p(self, x: Real) -> Expression:
        return Expression("log1p", x)

    def sqrt(self, x: Real) -> Expression:
        return Expression("sqrt", x)

    def power(self, base: Real, exponent: Real) -> Expression:
        """Return a power; an integer exponent stays an integer in any notation."""
        p = expression(exponent)
        if p.name == "constant" and p.details[0] == math.floor(p.details[0]):
            n = int(p.details[0])
            return expression(1) if n == 0 else Expression("power", base, details=(n,))
        return Expression("power", base, p)

    def minimum(self, x: Real, y: Real) -> Expression:
        return Expression("minimum", x, y)

    def maximum(self, x: Real, y: Real) -> Expression:
        return Expression("maximum", x, y)

    def absolute(self, x: Real) -> Expression:
        return Expression("absolute", x)

    def positive(self, x: Real) -> Expression:
        return Expression("positive", x)

    def piecewise(
        self, x: Real, edges: Sequence[Real], branches: Sequence[Callable[[Real], Real]]
    ) -> Expression:
        """Record a choice between pieces, which must meet."""
        x = expression(x)
        if len(branches) != len(edges) + 1:
            raise ValueError(f"piecewise with {len(edges)} edges and {len(branches)} pieces")
        # A piece is taken down as a function, which no number that is known now may enter.
        v = Expression("variable") if x.name == "constant" else x
        if not edges:
            return expression(branches[0](x))
        pieces = Pieces(
            tuple(_tape(expression(edge), None, "an edge of ops.piecewise") for edge in edges),
            tuple(
                _tape(expression(branch(v)), v, "a piece of ops.piecewise") for branch in branches
            ),
        )
        pieces.require_joined()
        return Expression("piecewise", x, details=(pieces,))


RECORDER = Recorder()


@dataclass(frozen=True, slots=True)
class Tape:
    """A function of one variable, the same in every arithmetic; equal if its operations are.

    Example:
        >>> from geoveil.gp.arithmetic import FLOAT
        >>> square = recorded(lambda u, ops: u * u)
        >>> square
        Tape(steps=(('multiply', (0, 0), ()),))
        >>> square(3.0, FLOAT)
        9.0
    """

    steps: tuple[tuple[str, tuple[int, ...], tuple[Any, ...]], ...]
    """(name, inputs, details): number k is the result of step k, number 0 the variable."""

    def __call__(self, u: Real, ops: Arithmetic) -> Real:
        """Return φ(u)."""
        numbers = [u]
        for name, inputs, details in self.steps:
            arguments = [numbers[i] for i in inputs]
            apply = _OPERATORS.get(name)
            if apply is not None:
                numbers.append(apply(*arguments))
            elif name == "piecewise":
                numbers.append(details[0].at(*arguments, ops))
            else:
                numbers.append(getattr(ops, name)(*arguments, *details))
        return numbers[-1]

    @property
    def cost(self) -> int:
        """The most operations that one evaluation takes."""
        return sum(
            1 + (details[0].cost if name == "piecewise" else 0) for name, _, details in self.steps
        )


@dataclass(frozen=True, slots=True)
class Pieces:
    """The pieces of a `piecewise`, with the edges at which they meet."""

    edges: tuple[Tape, ...]
    """The increasing edges; they do not depend on their variable."""
    branches: tuple[Tape, ...]
    """One more than edges."""

    def at(self, x: Real, ops: Arithmetic) -> Real:
        """Return the value of the piece that contains x."""
        edges = self.edges_in(ops)
        if not isinstance(edges[0], arb):  # floats are rounded anyway
            return ops.piecewise(x, edges, [partial(b, ops=ops) for b in self.branches])
        raised = zip(self.branches, _raises(self, ctx.prec), strict=True)
        return ops.piecewise(x, edges, [partial(_raised, b, by, ops) for b, by in raised])

    @property
    def cost(self) -> int:
        """The operations of the longest piece."""
        return max(branch.cost for branch in self.branches)

    def edges_in(self, ops: Arithmetic) -> list[Real]:
        """Return the edges as numbers."""
        return [edge(None, ops) for edge in self.edges]

    def jumps(self) -> list[arb]:
        """Return how far, at each edge, the next piece lies below."""
        ends = zip(self.edges_in(BALL), pairwise(self.branches), strict=True)
        return [before(edge, BALL) - after(edge, BALL) for edge, (before, after) in ends]

    def require_joined(self) -> None:
        """Refuse edges that do not increase, and pieces that do not provably meet there."""
        doubt = ""
        for bits in _PRECISIONS:
            with working_precision(bits):
                doubt = self._doubt()
            if not doubt:
                return
        raise ParameterError("formula", doubt, "one whose edges increase, and whose pieces meet")

    def _doubt(self) -> str:
        """Return the reason for a doubt of continuity at the working precision."""
        edges = self.edges_in(BALL)
        for low, high in pairwise(edges):
            if not low < high:
                return f"one with edges at {_shown(low)} and then {_shown(high)}"
        for edge, jump in zip(edges, self.jumps(), strict=True):
            if jump < 0 or jump > 0:
                return f"a jump of {_shown(-jump)} at {_shown(edge)}"
            if not abs(jump) <= _NO_JUMP:
                return f"one whose pieces can't be shown to meet at {_shown(edge)}"
        return ""


@lru_cache(maxsize=1024)
def _raises(pieces: Pieces, precision: int) -> list[arb]:
    """Return the offsets of the pieces; `precision` keys the cache."""
    raises = [BALL.constant(0)]
    for jump in pieces.jumps():
        raises.append(raises[-1] + jump)
    return raises


def _raised(branch: Tape, by: arb, ops: Arithmetic, x: Real) -> Real:
    return branch(x, ops) + by


def _shown(x: arb) -> str:
    return f"{float(x.mid()):g}"


def recorded(formula: Formula) -> Tape:
    """Return the tape of a formula, from one call of it.

    Raises:
        ParameterError: if its pieces do not meet, or its edges do not increase.
        TypeError, ValueError: if it uses an operation that `Arithmetic` lacks, or fails itself.
    """
    if isinstance(formula, Tape):
        return formula
    u = Expression("variable")
    return _tape(expression(formula(u, RECORDER)), u, "the formula")


def _tape(result: Expression, variable: Expression | None, what: str) -> Tape:
    """Return the operations from a variable to a result, each once."""
    number = {} if variable is None else {variable: 0}
    steps: dict[Any, int] = {}
    pending = [result]
    while pending:
        node = pending.pop()
        if node in number:
            continue
        missing = [source for source in node.inputs if source not in number]
        if node.name == "variable":
            raise ParameterError(
                "formula",
                f"one in which {what} depends on a number outside",
                "one whose edges are constants, and whose pieces use only their own argument",
            )
        if missing:
            pending += [node, *missing]
        else:
            step = (node.name, tuple(number[source] for source in node.inputs), node.details)
            number[node] = steps.setdefault(step, len(steps) + 1)
    return Tape(tuple(steps))
