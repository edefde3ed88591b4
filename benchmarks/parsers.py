"""Time of each parser of the gateway per kilobyte from strangers, compared with `json.loads`.

Inputs are fuzzed from pieces that are costly to parse, at the greatest permitted length and
a quarter of it; the costliest count. A non-linear parser takes longer per kilobyte of the longer
ones. The reference is `json.loads` of JSON reports. Nothing parses multipart forms: their type is
refused. Exits with 1 if a kilobyte takes 20 times the reference, or twice as long in a long input.
"""

import json
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from random import Random
from typing import NamedTuple

from httptools import HttpParserError, HttpRequestParser

from benchmarks.hostile_messages import mutated
from benchmarks.timing import Figure, show
from geoveil.console.app import _cookie
from geoveil.console.http import RefusedError, form_of, query_of
from geoveil.gateway.forms import from_json
from geoveil.gp import GeoVeilError
from geoveil.proto.v1.collector_pb2 import SubmitReportsRequest

MOST_RATIO, MOST_BEND = 20.0, 2.0
_INPUTS, _AGAIN = 30, 5
_REFERENCE = "json.loads"
_FORM = "application/x-www-form-urlencoded"
_REPORT = (
    b'{"reportId": "AAAAAAAAAAAAAAAAAAAAAA==", "answers": [{"value": "1", "queryIndex": 2}]}, '
)
_REPORTS = (b'{"reports": [', b"{}]}")
_DEAR = (b"{}, ", b'{"answers": [{}, {}]}, ', b'{"period": "1"}, ')


class Parser(NamedTuple):
    """A parser, the greatest length of its input, and pieces that are costly to parse."""

    parse: Callable[[bytes], object]
    most_bytes: int
    pieces: tuple[bytes, ...]
    around: tuple[bytes, bytes] = (b"", b"")
    """Bytes before and after the pieces."""


def _head(content: bytes) -> None:
    HttpRequestParser(_Heard()).feed_data(b"GET / HTTP/1.1\r\n" + content)


class _Heard:
    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header, as the gateway does."""


def _read_json(content: bytes) -> None:
    from_json(content, SubmitReportsRequest)


def _loads(content: bytes) -> None:
    json.loads(content)


PARSERS: Mapping[str, Parser] = {
    _REFERENCE: Parser(_loads, 64 << 10, (_REPORT,), _REPORTS),
    "JSON": Parser(
        _read_json,
        64 << 10,
        (_REPORT, *_DEAR, b'"a": {"b": [', b"1e9,", b'"\\u0041",'),
        _REPORTS,
    ),
    "form": Parser(
        lambda content: form_of(_FORM, content), 4 << 10, (b"a=%25&", b"&", b"+", b"%", b"%25")
    ),
    "query": Parser(
        lambda content: query_of(content.decode("latin-1")), 16 << 10, (b"a=b&", b"%", b"%25")
    ),
    "cookie": Parser(
        lambda content: _cookie({b"cookie": content.decode("latin-1")}),
        16 << 10,
        (b"\\", b'a="', b";", b"a=b; ", b"="),
    ),
    "head": Parser(_head, 16 << 10, (b"a:b\r\n", b"x-y: zzzzzzzz\r\n", b":")),
}


class Cost(NamedTuple):
    """Seconds per kilobyte of the costliest long input, and of the costliest short one."""

    long: float
    short: float

    @property
    def bend(self) -> float:
        """How many times as long a kilobyte takes in a long input."""
        return self.long / self.short


def cost(parser: Parser) -> Cost:
    sizes = (parser.most_bytes, parser.most_bytes // 4)
    inputs = range(_INPUTS if len(parser.pieces) > 1 else 1)
    long, short = (max(_of(parser, size, n) for n in inputs) for size in sizes)
    return Cost(long, short)


def table() -> list[Figure]:
    """Print microseconds per kilobyte; exit with 1 on a miss."""
    costs = {name: cost(parser) for name, parser in PARSERS.items()}
    longs = {name: one.long for name, one in costs.items()}
    figures = show("parsers of the gateway", "µs for a kB", 1e6, longs, _REFERENCE)
    bends = ", ".join(f"{name} {one.bend:.2f}" for name, one in costs.items())
    print(f"a kB of a long input, in those of a short one: {bends}")
    if faults := misses(costs):
        sys.exit(f"parsers: {'; '.join(faults)}")
    return figures


def misses(costs: Mapping[str, Cost]) -> list[str]:
    faults = []
    for name, one in costs.items():
        if name != _REFERENCE:
            ratio = one.long / costs[_REFERENCE].long
            faults += [f"{name} takes {ratio:.0f} times {_REFERENCE}"] if ratio > MOST_RATIO else []
            faults += [f"{name} bends by {one.bend:.1f}"] if one.bend > MOST_BEND else []
    return faults


def _of(parser: Parser, size: int, n: int) -> float:
    """Return the least seconds per kilobyte of the nth input."""
    content = _input(parser, size, n)
    least = float("inf")
    for _ in range(_AGAIN):
        started = time.process_time()
        with suppress(GeoVeilError, RefusedError, HttpParserError, ValueError, RecursionError):
            parser.parse(content)
        least = min(least, time.process_time() - started)
    return least / (len(content) / 1024)


def _input(parser: Parser, size: int, n: int) -> bytes:
    """Return the nth piece repeated, or random pieces with some bytes changed."""
    (before, after), rng = parser.around, Random(n)
    room = size - len(before) - len(after)
    if n < len(parser.pieces):
        piece = parser.pieces[n]
        return before + piece * (room // len(piece)) + after
    pieces = rng.choices(parser.pieces, k=room // min(map(len, parser.pieces)))
    return mutated(before + b"".join(pieces)[:room] + after, rng)
