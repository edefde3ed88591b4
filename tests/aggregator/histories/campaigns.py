"""Uploads: campaigns, and reports that their values identify in every exact sum.

Report number n is one hexadecimal digit of the sum of query n % 2: the digit at place n // 2. The
digit says what was counted: 1 the report, 5 another one with the same id, 9 one with the same id
for the next period. So a report counted twice shows as 2, and what must never be counted as 13.
Where a report has an answer to every query, or is a point of two coordinates, the others are 0.
In the weekly campaign people are in two groups, and the one query is answered by group n % 2.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import cache

import numpy as np

from geoveil.campaign import (
    Allocation,
    Attribute,
    DebiasedLaplaceSpec,
    PlanarLaplaceSpec,
    Question,
    Readings,
    digest,
    encode,
    seal,
)
from geoveil.gp import GaussianKernel, GeoPrivacy, PlanarLaplace, Threshold
from geoveil.proto.v1 import report_pb2 as pb
from tests.campaigns import campaign_of

OPENS = datetime(2030, 1, 1, tzinfo=UTC)
CLOSES = datetime(2030, 2, 1, tzinfo=UTC)
SKEW = timedelta(seconds=60)
WEEK = timedelta(days=7)
PARTITION, SPLIT, WEEKLY, POINTS = NAMES = ("partition", "split", "weekly", "points")
QUERIES = 2
"""Or coordinates; of the weekly campaign, which asks one, groups."""
NUMBERS = 24
_BITS = 4
_PERIODS = 3
"""Reports to the weekly campaign are for the first of its periods."""


class Violation(AssertionError):  # noqa: N818 - it is what happened
    """The service broke a promise."""


def require(condition: object, promise: str, *shown: object) -> None:
    """Raise Violation unless the condition holds."""
    if not condition:
        raise Violation(": ".join([promise, *map(repr, shown)]))


class Kind(Enum):
    """What a report is; the value is the digit that it leaves where it is counted."""

    GOOD = 1
    OTHER = 5
    """The same id with other answers."""
    LATER = 9
    """The same id for the next period."""
    SHORT_ID = 13
    WRONG_ANSWERS = 14
    OUT_OF_RANGE = 15

    def __repr__(self) -> str:
        return str(self)


SOUND = (Kind.GOOD, Kind.OTHER, Kind.LATER)
Key = tuple[int, Kind]
"""Number and kind of a report."""
Sums = Mapping[tuple[int, int], tuple[int, int, int]]
"""(period, query) → number of answers, their sum, the sum of their squares."""
Row = tuple[int, int | None, tuple[int, ...]]
"""Period, query (of a point None), and an answer or the coordinates."""
KERNEL = GaussianKernel((0.0, 0.0), 50_000.0)
"""What is asked of points."""
_PRIVACY = GeoPrivacy(1.0, 8000.0, "dollar")
_POINT_EXPONENT = -34
"""The step of the grid of points: so coarse that most of them lie far apart."""
_FAULTS = {
    Kind.SHORT_ID: pb.REJECTION_REASON_MALFORMED_ID,
    Kind.WRONG_ANSWERS: pb.REJECTION_REASON_WRONG_ANSWERS,
    Kind.OUT_OF_RANGE: pb.REJECTION_REASON_OUT_OF_RANGE,
    Kind.LATER: pb.REJECTION_REASON_WRONG_PERIOD,
}


@dataclass(frozen=True)
class Published:
    """A campaign as it is uploaded."""

    campaign_id: str
    envelope: bytes
    digest: bytes


@cache
def published(name: str, variant: int = 0, tag: str = "") -> Published:
    """Return a campaign; its variants differ but have one id, and other tags make other ids."""
    points = name == POINTS
    campaign = campaign_of(
        campaign_id=name + tag,
        title=f"Variant {variant}",
        attribute=Attribute(name="income", unit="dollar"),
        privacy=_PRIVACY,
        questions=()
        if points
        else tuple(
            Question(f"above {i}", Threshold(1000.0 * i, 16_000.0, "smoothstep"))
            for i in range(1, 2 if name == WEEKLY else QUERIES + 1)
        ),
        readings=Readings(every=WEEK, cohorts=2) if name == WEEKLY else None,
        opens=OPENS,
        closes=CLOSES,
        # Where its range is finite, the grid is so fine that all digits lie in it.
        mechanism=PlanarLaplaceSpec(QUERIES) if points else DebiasedLaplaceSpec(),
        step_exponent=_POINT_EXPONENT if points else -55,
        allocation=Allocation.SPLIT if name == SPLIT else Allocation.PARTITION,
        period=WEEK if name == WEEKLY else None,
    )
    content = encode(campaign)
    return Published(campaign.campaign_id, seal(content), digest(content))


def answers_all(name: str) -> bool:
    """Return whether a report has an answer to every query."""
    return name in (SPLIT, POINTS)


def period_of(name: str, key: Key) -> int:
    """Return the period that a report is for."""
    number, kind = key
    return (number % _PERIODS if name == WEEKLY else 0) + (kind is Kind.LATER)


def is_sound(name: str, key: Key) -> bool:
    """Return whether a report can be counted at some time."""
    return key[1] in SOUND and (key[1] is not Kind.LATER or name == WEEKLY)


def fault(name: str, key: Key) -> pb.RejectionReason:
    """Return why a report that is not sound is rejected."""
    # No integer is out of the range of a point: there, the answers come in the wrong order.
    wrong = name == POINTS and key[1] is Kind.OUT_OF_RANGE
    return _FAULTS[Kind.WRONG_ANSWERS if wrong else key[1]]


def answers(name: str, key: Key) -> dict[int, int]:
    """Return the answers of a sound report by query."""
    number, kind = key
    query, place = number % QUERIES, number // QUERIES
    value = {query: kind.value << _BITS * place}
    return {q: value.get(q, 0) for q in range(QUERIES)} if answers_all(name) else value


def wire_report(name: str, key: Key) -> pb.Report:
    """Return a report as it is sent."""
    number, kind = key
    values = answers(name, key)
    if kind is Kind.OUT_OF_RANGE:
        values[number % QUERIES] = 2**62
    if kind is Kind.WRONG_ANSWERS:
        values[QUERIES] = 1
    pairs = list(values.items())
    if name == POINTS and kind is Kind.OUT_OF_RANGE:
        pairs.reverse()
    return pb.Report(
        report_id=number.to_bytes(15 if kind is Kind.SHORT_ID else 16, "little"),
        answers=[pb.Answer(query_index=q, value=v) for q, v in pairs],
        period=period_of(name, key),
    )


def rows_of(name: str, key: Key) -> list[Row]:
    """Return the rows that a report is exported as."""
    period, values = period_of(name, key), answers(name, key)
    if name == POINTS:
        return [(period, None, tuple(values.values()))]
    return [(period, query, (value,)) for query, value in values.items()]


def sums_of_rows(rows: Iterable[Row], periods: int) -> Sums:
    """Return the sums of rows in so many periods."""
    sums = {(p, q): (0, 0, 0) for p in range(periods) for q in range(QUERIES)}
    for period, query, values in rows:
        for q, value in enumerate(values) if query is None else [(query, values[0])]:
            require((period, q) in sums, "rows of what is asked", period, q)
            n, total, squares = sums[period, q]
            sums[period, q] = (n + 1, total + value, squares + value * value)
    return sums


@cache
def kernel_value(key: Key) -> int:
    """Return what a point counts for `KERNEL`, in units of 2^-30."""
    point = np.ldexp([[float(value) for value in answers(POINTS, key).values()]], _POINT_EXPONENT)
    estimator = PlanarLaplace(_PRIVACY, QUERIES).estimator(KERNEL, debias=True)
    return round(float(np.ldexp(estimator.value(point), 30)[0]))


def counted(name: str, sums: Sums) -> dict[int, Kind]:
    """Return which reports are counted.

    Raises:
        Violation: if any is twice, or there is anything but whole reports.
    """
    found: dict[int, Kind] = {}
    places: dict[tuple[int, int], list[int]] = {}
    for (period, query), (_, total, _) in sums.items():
        values = places[period, query] = []
        rest, place = total, 0
        while rest > 0:
            rest, digit = divmod(rest, 1 << _BITS)
            number = place * QUERIES + query
            if digit:
                require(digit in [k.value for k in SOUND], "whole reports", name, sums)
                kind = Kind(digit)
                require(number < NUMBERS, "reports that were sent", name, sums)
                require(number not in found, "each report once", name, number, sums)
                require(period_of(name, (number, kind)) == period, "in its period", name, sums)
                found[number] = kind
                values.append(digit << _BITS * place)
            place += 1
        require(rest == 0, "sums of reports", name, sums)
    for (period, query), (n, _, squares) in sums.items():
        values = places[period, query]
        whole = len(found) if answers_all(name) else len(values)
        require(n == whole, "n of whole reports", name, sums)
        require(squares == sum(v * v for v in values), "squares of whole reports", name, sums)
    return found
