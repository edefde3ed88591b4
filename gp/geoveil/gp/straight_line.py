"""Formulas taken down as straight lines of ball operations, for who releases often.

Of a release in balls a tenth is what balls compute; the rest is Python, which finds its way through
a formula and looks up what it knows. A formula does the same whatever the point. So it is called
once with symbols in place of the point and of the uniform numbers: what it does to constants is
done then, and what it does to symbols becomes a line of a function that does nothing else. Each
line is an operation that `BALL` would make, but for constant factors, divisors and signs, which are
drawn together; so the function encloses what the formula does [MATH §10]. A formula that looks at
its numbers can't be taken down.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

from flint import arb

from geoveil.gp.arithmetic import Arithmetic, Real
from geoveil.gp.enclosed import Undecided
from geoveil.gp.exact import BALL, BallArithmetic, working_precision

StraightLine: TypeAlias = Callable[..., tuple[arb, ...]]
"""Balls in, in the order of the symbols, and balls out; at the precision it was taken down for."""


_OUTER = "    "


class _Code:
    """The lines of one function, and the constants in them."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[str, Any] = {"power": BALL.power, "sqrt": BALL.sqrt, "turn": BALL.turn}
        self.names["piecewise"] = BALL.piecewise
        self._indent = _OUTER

    def written(self, value: Any) -> str:
        """Return how a number is written: a symbol by its name, a constant by a new one."""
        if not isinstance(value, Symbol):
            return self.named(_number(value))
        if value.factor is None:
            return value.name
        scaled = self.line(f"{value.name} * {self.named(value.factor)}")
        if self._indent == _OUTER:  # what a piece computes is known in it alone
            value.name, value.factor = scaled.name, None
        return scaled.name

    def named(self, value: Any) -> str:
        name = f"c{len(self.names)}"
        self.names[name] = value
        return name

    def line(self, operation: str, *operands: Any) -> "Symbol":
        """Add a line, and return the symbol of its result."""
        written = operation.format(*map(self.written, operands))
        name = f"t{len(self.lines)}"
        self.lines.append(f"{self._indent}{name} = {written}")
        return Symbol(name, self)

    def function(self, body: Callable[[], Any]) -> str:
        """Add a function of one ball, which it does not need, and return its name."""
        name = f"t{len(self.lines)}"
        self.lines.append(f"{self._indent}def {name}(_):")
        outer, self._indent = self._indent, self._indent + "    "
        self.lines.append(f"{self._indent}return {self.written(body())}")
        self._indent = outer
        return name


def _number(value: Any) -> arb:
    """Return a constant as a ball."""
    if not isinstance(value, (arb, int, float)):
        raise Undecided
    return value if isinstance(value, arb) else arb(value)


class Symbol:
    """A number that is not known yet; every operation on it is taken down.

    Args:
        name: in the code.
        code: where operations are taken down.
        factor: what the number is the product of, beside what has that name; None for 1. So a
            chain of constant factors becomes one, when the product is used for something else.
    """

    __slots__ = ("code", "factor", "name")
    __array_ufunc__ = None  # NumPy leaves mixed operations to this class

    def __init__(self, name: str, code: _Code, factor: arb | None = None) -> None:
        self.name = name
        self.code = code
        self.factor = factor

    def _times(self, factor: arb | None) -> "Symbol":
        both = factor if self.factor is None or factor is None else self.factor * factor
        return Symbol(self.name, self.code, self.factor if factor is None else both)

    def __neg__(self) -> "Symbol":
        return self._times(arb(-1))

    def __abs__(self) -> "Symbol":
        return self.code.line("abs({})", self)

    def __add__(self, other: Real) -> "Symbol":
        return self.code.line("{} + {}", self, other)

    def __radd__(self, other: Real) -> "Symbol":
        return self.code.line("{} + {}", other, self)

    def __sub__(self, other: Real) -> "Symbol":
        return self.code.line("{} - {}", self, other)

    def __rsub__(self, other: Real) -> "Symbol":
        return self.code.line("{} - {}", other, self)

    def __mul__(self, other: Real) -> "Symbol":
        if not isinstance(other, Symbol):
            return self._times(_number(other))
        product = self.code.line(f"{self.name} * {other.name}")
        return product._times(self.factor)._times(other.factor)

    __rmul__ = __mul__

    def __truediv__(self, other: Real) -> "Symbol":
        if not isinstance(other, Symbol):
            return self._times(1 / _number(other))
        return self.code.line(f"{self.name} / {{}}", other)._times(self.factor)

    def __rtruediv__(self, other: Real) -> "Symbol":
        return self.code.line("{} / {}", other, self)

    def _undecided(self, *_: object) -> bool:
        raise Undecided

    __lt__ = __le__ = __gt__ = __ge__ = __bool__ = __float__ = __int__ = _undecided
    __eq__ = __ne__ = __pow__ = __rpow__ = __iter__ = _undecided
    __hash__ = None  # type: ignore[assignment]  # not hashable
    __array__ = _undecided


class _SymbolArithmetic(BallArithmetic):
    """Balls where all is known, and lines of code where a symbol is among the operands."""

    def exp(self, x: Real) -> Real:
        return x.code.line("{}.exp()", x) if isinstance(x, Symbol) else super().exp(x)

    def log(self, x: Real) -> Real:
        return x.code.line("{}.log()", x) if isinstance(x, Symbol) else super().log(x)

    def expm1(self, x: Real) -> Real:
        return x.code.line("{}.expm1()", x) if isinstance(x, Symbol) else super().expm1(x)

    def log1p(self, x: Real) -> Real:
        return x.code.line("{}.log1p()", x) if isinstance(x, Symbol) else super().log1p(x)

    def sqrt(self, x: Real) -> Real:
        return x.code.line("sqrt({})", x) if isinstance(x, Symbol) else super().sqrt(x)

    def sign(self, x: Real) -> Real:
        return x.code.line("{}.sgn()", x) if isinstance(x, Symbol) else super().sign(x)

    def turn(self, u: Real) -> tuple[Real, Real]:
        if not isinstance(u, Symbol):
            return super().turn(u)
        both = u.code.line("turn({})", u)
        return u.code.line("{}[0]", both), u.code.line("{}[1]", both)

    def power(self, base: Real, exponent: Real) -> Real:
        code = _code_of(base, exponent)
        return code.line("power({}, {})", base, exponent) if code else super().power(base, exponent)

    def minimum(self, x: Real, y: Real) -> Real:
        code = _code_of(x, y)
        return code.line("{}.min({})", x, y) if code else super().minimum(x, y)

    def maximum(self, x: Real, y: Real) -> Real:
        code = _code_of(x, y)
        return code.line("{}.max({})", x, y) if code else super().maximum(x, y)

    def piecewise(
        self, x: Real, edges: Sequence[Real], branches: Sequence[Callable[[Real], Real]]
    ) -> Real:
        if not isinstance(x, Symbol):
            return super().piecewise(x, edges, branches)
        code = x.code
        at = "".join(f"{code.written(edge)}, " for edge in edges)
        pieces = "".join(f"{code.function(partial(b, x))}, " for b in branches)
        return code.line(f"piecewise({{}}, ({at}), ({pieces}))", x)


def _code_of(*operands: Real) -> _Code | None:
    return next((x.code for x in operands if isinstance(x, Symbol)), None)


_SYMBOLS = _SymbolArithmetic()


_OFTEN = 32
"""Releases after which a formula is taken down: that takes about as long as they lose without."""


class Often:
    """Counts how often a formula was needed, and holds its straight line when that is often."""

    __slots__ = ("left", "line")

    def __init__(self, left: int = _OFTEN) -> None:
        self.left = left
        self.line: StraightLine | None = None

    def counted(self, take_down: Callable[[], StraightLine | None]) -> StraightLine | None:
        """Count one more; return the line if there is one by now."""
        self.left -= 1
        if self.left <= 0:
            self.line = take_down()
        return self.line

    def __repr__(self) -> str:
        return "Often()"  # nobody's business is how often

    def __reduce__(self) -> tuple[type["Often"], tuple[()]]:
        return Often, ()  # code does not travel


NEVER = Often(left=0)
"""The count for a mechanism whose formula can't be taken down."""


def straight_line(
    formula: Callable[[Sequence[Real], Arithmetic], Sequence[Real]], symbols: int, precision: int
) -> StraightLine | None:
    """Return what a formula does, as a function of balls; None if it looks at them.

    Args:
        formula: written against `Arithmetic`, of a sequence of numbers.
        symbols: how many numbers that is.
        precision: the working precision that the function will be called with.

    Example:
        >>> square = straight_line(lambda x, ops: [x[0] * x[0] + ops.constant(1)], 1, 64)
        >>> [float(y.mid()) for y in square(arb(3))]
        [10.0]
        >>> straight_line(lambda x, ops: [x[0] if x[0] > 0 else -x[0]], 1, 64) is None
        True
    """
    code = _Code()
    arguments = [Symbol(f"x{i}", code) for i in range(symbols)]
    try:
        with working_precision(precision):
            results = formula(arguments, _SYMBOLS)
            returned = "".join(f"{code.written(y)}, " for y in results)
    except (Undecided, AttributeError, TypeError):  # a symbol has nothing else that balls have
        return None
    head = f"def line({', '.join(x.name for x in arguments)}):"
    body = [head, *code.lines, f"    return ({returned})"]
    # Nothing of this text comes from outside: names are counted, operations those above.
    exec("\n".join(body), code.names)  # noqa: S102
    line: StraightLine = code.names["line"]
    return line
