"""Categories: values and bits with the report that a device sends."""

import math
from collections.abc import Iterator
from random import Random
from typing import Any

from geoveil.gp import (
    CategoryMechanism,
    KaryResponse,
    OrdinalResponse,
    SubsetResponse,
    UnaryEncoding,
    category_mechanism,
)
from tools.vectors.tape import Tape

KINDS: dict[str, type[CategoryMechanism]] = {
    "kary": KaryResponse,
    "unary": UnaryEncoding,
    "ordinal": OrdinalResponse,
    "subset": SubsetResponse,
}
_ONE = 1 << 32
_SEED = "later"
"""The default seed, which vectors do not name."""


def category_vectors() -> list[dict[str, Any]]:
    """Return random reports, and reports for the bits that devices are most likely to get wrong."""
    draw = Random(2026)
    found = [_by_chance(draw, kind, options) for kind, options in _SIZES]
    weight = KaryResponse(3, 0.5).weight
    most = weight + 2 * _ONE
    # The ends of each option's range of integers; and a too large integer, then another.
    drawn = (0, weight - 1, weight, weight + _ONE - 1, weight + _ONE, most - 1)
    size = (most - 1).bit_length()
    tapes = [f"{u:0{size}b}" for u in drawn] + [f"{most:0{size}b}{weight:0{size}b}"]
    found += [_item("kary", 3, 0.5, 1, given=tape) for tape in tapes]
    # Words that leave an event undecided, for the last of two options first.
    for kind, before, part, total in (
        ("subset", "", _ONE, weight + _ONE),
        ("ordinal", f"{7:0{(weight + _ONE - 1).bit_length()}b}", _ONE, weight),
    ):
        digits, rest = divmod(part << 32, total)
        more = (rest << 32) // total
        for last in (more - 1, more + 1):
            tape = f"{before}{digits + 1:032b}{digits:032b}{last:032b}"
            found.append(_item(kind, 2 if kind == "subset" else 4, 0.5, 1, given=tape))
    return found


_SIZES = (("kary", 40), ("unary", 63), ("ordinal", 5), ("ordinal", 100), ("subset", 7))


def category_tuples(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield random reports."""
    draw = Random(seed)
    for i in range(count):
        kind = draw.choice([*KINDS])
        most = 100 if kind == "ordinal" else draw.choice([9, 9, 30, 200])
        yield _by_chance(draw, kind, draw.randint(2, most), f"{seed}/{i}")


def _by_chance(draw: Random, kind: str, options: int, seed: str = _SEED) -> dict[str, Any]:
    epsilon = draw.choice([1.0, draw.uniform(0.01, 16.0), 10 ** draw.uniform(-6, 0), math.log(3)])
    if kind in ("kary", "unary"):
        chosen = type(category_mechanism(options, epsilon))
        kind = next(name for name, made in KINDS.items() if made is chosen)
    value = draw.getrandbits(options) if kind == "subset" else draw.randrange(options)
    return _item(kind, options, epsilon, value, seed)


def _item(
    kind: str, options: int, epsilon: float, value: int, seed: str = _SEED, given: str = ""
) -> dict[str, Any]:
    tape = Tape(seed, given)
    report = KINDS[kind](options, epsilon).release(value, tape)
    return {
        "kind": kind,
        "options": options,
        "epsilon": epsilon,
        "value": str(value),
        **({"given": given} if given else {}),
        **({"seed": seed} if seed != _SEED else {}),
        "drawn": tape.drawn,
        "report": [str(integer) for integer in report],
    }
