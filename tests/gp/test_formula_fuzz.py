"""Test on random formulas that enclosures contain value, slopes and curvature.

The oracle evaluates the same formula at points with 240 to 720 digits and differentiates it by
differences, without jets, wide balls or records of operations. It finds out by itself whether
pieces jump, and whether a number is undefined.
"""

import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any

import mpmath as mp
import pytest
from flint import arb, fmpq

from geoveil.gp import ParameterError, UnsupportedError
from geoveil.gp.arithmetic import Arithmetic
from geoveil.gp.exact import BallArithmetic, working_precision
from geoveil.gp.smooth.jet import BallJets, Jet, enclosure, jet
from geoveil.gp.smooth.tape import Pieces, Tape, recorded

BITS = 64
"""The precision of the enclosures."""
DEPTH = 6

Tree = tuple[Any, ...]


class JumpsError(Exception):
    """The formula has pieces that do not meet, or edges that do not increase."""


class NoOracleError(Exception):
    """Numbers of a size that takes too long, or that are undefined for some and not for others."""


@dataclass(frozen=True)
class Numbers:
    """A library of numbers with many digits."""

    functions: Any
    of: Callable[[Fraction], Any]
    exactly: Callable[[Any], arb]
    bits: int
    step: Fraction
    """Step of differences: their error is this times a higher derivative, where no pieces meet."""


def _of_mpmath(x: Any) -> arb:
    return arb(int(x.man) * (-1) ** x._mpf_[0]) * arb(2) ** int(x.exp) if mp.isfinite(x) else NAN


NAN = arb.nan()
MPMATH = Numbers(
    mp, lambda x: mp.mpf(x.numerator) / x.denominator, _of_mpmath, 2400, Fraction(1, 2**700)
)
ARB = Numbers(
    arb,
    lambda x: arb(fmpq(x.numerator, x.denominator)),
    lambda x: x.mid(),
    800,
    Fraction(1, 2**200),
)


class Points(Arithmetic):
    """Points, one at a time; NaN for what is undefined."""

    def __init__(self, numbers: Numbers) -> None:
        self.functions, self.numbers = numbers.functions, numbers
        self._of = lru_cache(numbers.of)
        self.nan = self._of(Fraction(0)) * math.inf
        self.joining = True
        """Whether to look at what happens at edges."""

    def constant(self, value: Any) -> Any:
        return self._of(Fraction(value))

    def exp(self, x: Any) -> Any:
        if abs(x) > 10_000:
            raise NoOracleError
        return self.functions.exp(x)

    def log(self, x: Any) -> Any:
        return self.functions.log(x) if x > 0 else self.nan

    def expm1(self, x: Any) -> Any:
        if abs(x) > 10_000:
            raise NoOracleError
        return self.functions.expm1(x)

    def log1p(self, x: Any) -> Any:
        return self.functions.log1p(x) if x > -1 else self.nan

    def sqrt(self, x: Any) -> Any:
        return self.functions.sqrt(x) if x >= 0 else self.nan

    def divide(self, x: Any, y: Any) -> Any:
        return x / y if y > 0 or y < 0 else self.nan

    def power(self, base: Any, exponent: Any) -> Any:
        """By multiplication for integers, by logarithms for others."""
        p = Fraction(exponent)
        if p.denominator == 1:
            if abs(p) > 64:
                raise NoOracleError
            power = math.prod([base] * abs(p.numerator), start=self.constant(1))
            return power if p >= 0 else self.divide(self.constant(1), power)
        if base == 0:
            return base if p > 0 else self.nan
        return self.exp(self.constant(p) * self.log(base))

    def varying_power(self, base: Any, exponent: Any) -> Any:
        if base == 0 and exponent > 0:
            return base
        if base <= 0 and exponent == self.functions.floor(exponent):
            raise NoOracleError  # if it is a constant, an integer is one
        return self.exp(exponent * self.log(base))

    def minimum(self, x: Any, y: Any) -> Any:
        return min(x, y) if self.numbers.exactly(x + y).is_finite() else self.nan

    def maximum(self, x: Any, y: Any) -> Any:
        return -self.minimum(-x, -y)

    def sign(self, x: Any) -> Any:
        raise NotImplementedError

    def coordinate(self, x: Any, axis: int) -> Any:
        raise NotImplementedError

    def piecewise(
        self, x: Any, edges: Sequence[Any], branches: Sequence[Callable[[Any], Any]]
    ) -> Any:
        if self.joining:
            if any(not low < high for low, high in pairwise(edges)):
                raise JumpsError
            for edge, (before, after) in zip(edges, pairwise(branches), strict=True):
                value = before(edge)
                if abs(value - after(edge)) > (1 + abs(value)) * self.constant(Fraction(1, 2**300)):
                    raise JumpsError
        if self.numbers.exactly(x).is_finite():
            return branches[sum(1 for edge in edges if x >= edge)](x)
        return self.nan


NUMBERS = (0, 1, -1, 2, 3, 0.5, -0.5, 0.25, 0.1, -1.7, 1e-3, 1e-20, 40, 2**70, -(2**70), 1 / 3)
EXPONENTS = (0, 1, 2, 3, 4, 5, -1, -2, -3, 2.0, 3.0, 1.0, 0.5, 1.5, 2.5, -0.5, Fraction(4, 3), 1.1)
GRID = tuple(k / 4 for k in range(-8, 9))
UNARY = ("neg", "exp", "log", "expm1", "log1p", "sqrt", "absolute", "square", "norm", "bell")
BINARY = ("add", "add", "sub", "sub", "mul", "mul", "mul", "div", "minimum", "maximum")


def grown(rng: random.Random, depth: int, leaf: float = 0.08) -> Tree:
    """A random formula."""
    if depth == 0 or rng.random() < leaf:
        kind = rng.random()
        if kind < 0.7:
            return ("u",)
        value = rng.choice(NUMBERS) if rng.random() < 0.6 else rng.choice(GRID)
        return ("number" if kind < 0.85 else "constant", value)
    kind = rng.random()
    if kind < 0.2:
        return (rng.choice(UNARY), grown(rng, depth - 1))
    if kind < 0.35:
        exponent = rng.choice(EXPONENTS)
        how = rng.choice(("power", "power", "power of constant", "**"))
        if how == "**":
            exponent = rng.randrange(6)
        return (how, exponent, grown(rng, depth - 1))
    if kind < 0.4:
        return ("to the", grown(rng, depth - 1), grown(rng, depth - 1))
    if kind < 0.5:
        low, high = sorted(rng.sample(GRID, 2))
        return ("clip", low, high, grown(rng, depth - 1))
    if kind < 0.7:
        edges = sorted(rng.sample(GRID, rng.randint(1, 2)))
        joined = rng.random() < 0.93
        if rng.random() < 0.02:
            edges = edges[::-1] * 2
        pieces = tuple(grown(rng, depth - 1) for _ in range(len(edges) + 1))
        return ("piecewise", joined, tuple(edges), grown(rng, rng.randrange(depth)), pieces)
    return (rng.choice(BINARY), grown(rng, depth - 1), grown(rng, depth - 1))


def written(tree: Tree) -> Callable[[Any, Arithmetic], Any]:
    """The tree as a person would write it, in Python."""
    return lambda u, ops: _evaluated(tree, u, ops)


def _evaluated(tree: Tree, u: Any, ops: Any) -> Any:
    kind, rest = tree[0], tree[1:]
    if kind == "u":
        return u
    if kind in ("number", "constant"):
        plain = kind == "number" and not isinstance(ops, Points)
        return rest[0] if plain else ops.constant(rest[0])
    if kind == "piecewise":
        return _pieces(*rest, u, ops)
    if kind == "clip":
        low, high, x = rest
        return ops.clip(_evaluated(x, u, ops), ops.constant(low), ops.constant(high))
    if kind == "to the" and rest[1][0] in ("number", "constant"):
        kind, rest = "power", (rest[1][1], rest[0])
    if kind in ("power", "power of constant", "**"):
        exponent, x = rest[0], _evaluated(rest[1], u, ops)
        if isinstance(x, (int, float)):
            x = ops.constant(x)
        if isinstance(ops, Points) or kind == "power":
            return ops.power(x, exponent)
        return x**exponent if kind == "**" else ops.power(x, ops.constant(exponent))
    x, *others = (_evaluated(one, u, ops) for one in rest)
    return _applied(kind, x, others, ops)


def _applied(kind: str, x: Any, others: list[Any], ops: Any) -> Any:
    if isinstance(x, (int, float)):
        x = ops.constant(x)
    match kind:
        case "neg":
            return -x
        case "square":
            return x * x
        case "norm":
            return ops.norm([x, ops.constant(0.5)])
        case "bell":
            return ops.exp(-(x * x))
        case "add":
            return x + others[0]
        case "sub":
            return x - others[0]
        case "mul":
            return x * others[0]
        case "div":
            return ops.divide(x, *others) if isinstance(ops, Points) else x / others[0]
        case "to the":
            return (
                ops.varying_power(x, *others) if isinstance(ops, Points) else ops.power(x, *others)
            )
        case _:
            return getattr(ops, kind)(x, *others)


def _pieces(
    joined: bool, edges: tuple[float, ...], x: Tree, pieces: tuple[Tree, ...], u: Any, ops: Any
) -> Any:
    """Pieces that meet, as each is written to start where the one before ends; or not."""
    constants = [ops.constant(edge) for edge in edges]

    def branch(k: int) -> Callable[[Any], Any]:
        if not joined or k == 0:
            return lambda v: _evaluated(pieces[k], v, ops)
        edge = constants[k - 1]
        return lambda v: (
            _evaluated(pieces[k], v, ops) - _evaluated(pieces[k], edge, ops) + branch(k - 1)(edge)
        )

    at = _evaluated(x, u, ops)
    if isinstance(at, (int, float)):
        at = ops.constant(at)
    return ops.piecewise(at, constants, [branch(k) for k in range(len(pieces))])


def cell(rng: random.Random) -> tuple[float, float]:
    """An interval, often with a dyadic number, where pieces may meet, inside or at an end."""
    middle = rng.choice(GRID) if rng.random() < 0.5 else rng.uniform(-3, 3)
    if rng.random() < 0.15:
        return middle, middle
    below, above = (rng.choice((0.0, 2.0**-40, 1e-10, 1e-3, 0.125, 1.0)) for _ in range(2))
    return middle - below, middle + above


def complaints(seed: int, count: int, seen: Counter[str]) -> Iterator[str]:
    """Try formulas number 0 … count − 1 of a seed; what is wrong, and each hundredth, in mpmath."""
    for index in range(count):
        wrong: list[str] = []
        for numbers in (MPMATH,) if index % 100 == 0 else (ARB, MPMATH):
            rng = random.Random(f"{seed}/{index}")
            tree = grown(rng, rng.randint(1, DEPTH), leaf=0)
            with mp.workprec(MPMATH.bits):
                wrong = examined(tree, rng, numbers, seen)
            if not wrong:
                break
        yield from (f"{seed}/{index}: {complaint}: {tree}" for complaint in wrong)


def examined(tree: Tree, rng: random.Random, numbers: Numbers, seen: Counter[str]) -> list[str]:
    """What is wrong with the enclosures of one formula."""
    formula = written(tree)
    low, high = cell(rng)
    try:
        record = recorded(formula)
        with working_precision(BITS):
            balls, _ = enclosure(record, arb(low).union(arb(high)) if low < high else arb(low))
    except (ParameterError, UnsupportedError) as error:
        seen["refused: " + " ".join(str(error.args[1]).split()[:2])] += 1
        return []
    except (TypeError, ValueError, ArithmeticError) as error:
        return [f"a bare {error!r}"]
    ops, wrong = Points(numbers), []
    for at in {rng.choice((low, high)), rng.uniform(low, high)}:
        side = rng.choice([s for s, end in ((1, high), (-1, low)) if at != end or low == high])
        try:
            wrong += _missed(formula, record, balls, at, side, ops, seen)
        except NoOracleError:
            seen["no oracle"] += 1
        except JumpsError:
            return ["a jump that was not refused"]
    return wrong


def _missed(
    formula: Any, record: Tape, balls: Jet, at: float, side: int, ops: Points, seen: Counter[str]
) -> list[str]:
    """Which of value, slope and curvature at a point are not in the balls."""
    step, bits, f = side * ops.numbers.step, ops.numbers.bits, []
    with working_precision(bits):
        h = ARB.of(step)
        for k in range(3):
            u = ops.constant(at) + k * ops.constant(step)
            f.append(ops.numbers.exactly(formula(u, ops)))
            ops.joining = False
        if f[0].is_finite():
            found = {"value": _holds(balls.value, f[0], arb(0))}
            first, second = (f[1] - f[0]) / h, (f[2] - 2 * f[1] + f[0]) / (h * h)
            if second.is_finite():
                # The error of the one is the other; and that of the other is not known.
                error = (1 + abs(f[0])) * arb(2) ** (50 - bits) / (h * h) + abs(h) * 1e6
                found["slope"] = _holds(balls.slope, first, 32 * abs(h * second) + error)
                found["curvature"] = _holds(balls.curvature, second, abs(second) * 1e-20 + error)
    if not f[0].is_finite():
        seen["undefined"] += 1
        try:
            with working_precision(bits):
                j, _ = enclosure(record, arb(at))
        except ParameterError:
            return []
        finite = j.value.is_finite() and j.slope.is_finite()
        return [f"finite where undefined, at {at!r}"] if finite else []
    for part in found:
        seen[f"{part}s"] += 1
        seen[f"{part}s enclosed"] += bool(getattr(balls, part).is_finite())
    missed = [part for part, holds in found.items() if not holds]
    if missed and missed != ["value"]:
        with working_precision(bits):
            around, _ = enclosure(record, arb(at).union(arb(at) + 2 * h))
        if not around.curvature.is_finite():  # a step spans what is not smooth
            raise NoOracleError
    return [f"{part} outside at {at!r} ({side:+d})" for part in missed]


def _holds(ball: arb, number: arb, error: arb) -> bool:
    if not ball.is_finite():
        return True
    slack = error + abs(number) * arb(2) ** -300 + arb(2) ** -300
    return not abs(number - ball.mid()) > ball.rad() + slack


def old_power(self: Any, base: Any, exponent: Any) -> Any:
    """A base is taken for ≥ 0, whatever the exponent."""
    if exponent > 0 and base.contains(0) and base.is_finite():
        return arb(0).union(arb(base.upper()) ** exponent)
    return base**exponent


def half_a_product(x: Jet, other: Any) -> Jet:
    o = jet(other)
    return Jet(x.value * o.value, x.slope * o.value, x.curvature * o.value)


def ties_decided(self: BallJets, x: Jet, y: Jet) -> Jet:
    return x if x.value <= y.value else y if y.value < x.value else CHOOSE(self, x, y)


CHOOSE = BallJets._choose
FAULTS: dict[str, tuple[Any, str, Any, str]] = {
    "power": (BallJets, "_power", old_power, "outside"),
    "product": (Jet, "__mul__", half_a_product, "outside"),
    "one piece": (BallJets, "_second", lambda self: False, "outside"),
    "ties": (BallJets, "_choose", ties_decided, "outside"),
    "jumps": (Pieces, "require_joined", lambda self: None, "jump"),
    "roots": (BallArithmetic, "sqrt", lambda self, x: abs(x).sqrt(), "undefined"),
}


@pytest.mark.deep(keep=0)
def test_every_enclosure_contains_what_it_encloses():
    seen: Counter[str] = Counter()
    assert list(complaints(1, 1200, seen)) == []
    assert seen["values"] > 1200
    for part in ("values", "slopes", "curvatures"):  # finite, or nothing would be shown
        assert seen[f"{part} enclosed"] > 0.9 * seen[part]
    assert seen["undefined"] > 100
    assert seen["refused: a jump"] > 30


def test_a_power_that_leaves_a_clip_within_a_step_has_no_oracle():
    """u^0.001 is above 0.5 from u = 2^-1000 on: differences over a longer step tell of no slope."""
    tree = ("clip", 0.5, 1.75, ("power", Fraction(1, 1000), ("u",)))
    record = recorded(written(tree))
    with working_precision(BITS):
        balls, _ = enclosure(record, arb(0))
    with pytest.raises(NoOracleError):
        _missed(written(tree), record, balls, 0.0, 1, Points(ARB), Counter())


@pytest.mark.deep(keep=3)
@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_found(monkeypatch, fault):
    """The control: with a wrong operation, a few hundred formulas are enough."""
    owner, name, wrong, words = FAULTS[fault]
    monkeypatch.setattr(owner, name, wrong)
    assert words in next(complaints(2, 700, Counter()), "")
