"""What is uploaded: campaigns, and reports whose values name them in every exact sum.

Report number n is one hexadecimal digit of the sum of query n % 2: the digit at place n // 2. The
digit says what was counted: 1 the report, 5 another one with the same id, 9 one with the same id
for the next period. So a report counted twice shows as 2, and what must never be counted as 13.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import cache

from geoveil.campaign import (
    Allocation,
    Attribute,
    Campaign,
    DebiasedLaplaceSpec,
    Question,
    digest,
    encode,
    seal,
)
from geoveil.gp import GeoPrivacy, Threshold
from geoveil.proto.v1 import report_pb2

OPENS = datetime(2030, 1, 1, tzinfo=UTC)
CLOSES = datetime(2030, 2, 1, tzinfo=UTC)
SKEW = timedelta(seconds=60)
WEEK = timedelta(days=7)
PARTITION, SPLIT, WEEKLY = NAMES = ("partition", "split", "weekly")
QUERIES = 2
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


@dataclass(frozen=True)
class Published:
    """A campaign as it is uploaded."""

    campaign_id: str
    envelope: bytes
    digest: bytes


@cache
def published(name: str, variant: int = 0, tag: str = "") -> Published:
    """Return a campaign; its variants differ but have one id, and other tags make other ids."""
    campaign = Campaign(
        campaign_id=name + tag,
        title=f"Variant {variant}",
        attribute=Attribute(name="income", unit="dollar"),
        privacy=GeoPrivacy(1.0, 8000.0, "dollar"),
        questions=tuple(
            Question(f"above {i}", Threshold(1000.0 * i, 16_000.0, "smoothstep"))
            for i in range(1, QUERIES + 1)
        ),
        opens=OPENS,
        closes=CLOSES,
        # Its range is finite; the grid is so fine that all digits lie in it.
        mechanism=DebiasedLaplaceSpec(),
        step_exponent=-55,
        allocation=Allocation.SPLIT if name == SPLIT else Allocation.PARTITION,
        period=WEEK if name == WEEKLY else None,
    )
    content = encode(campaign)
    return Published(campaign.campaign_id, seal(content), digest(content))


def period_of(name: str, key: Key) -> int:
    """Return the period that a report is for."""
    number, kind = key
    return (number % _PERIODS if name == WEEKLY else 0) + (kind is Kind.LATER)


def is_sound(name: str, key: Key) -> bool:
    """Return whether a report can be counted at some time."""
    return key[1] in SOUND and (key[1] is not Kind.LATER or name == WEEKLY)


def wire_report(name: str, key: Key) -> report_pb2.Report:
    """Return a report as it is sent."""
    number, kind = key
    query, place = number % QUERIES, number // QUERIES
    values = {query: kind.value << _BITS * place}
    if kind is Kind.OUT_OF_RANGE:
        values[query] = 2**62
    if name == SPLIT:
        values = {q: values.get(q, 0) for q in range(QUERIES)}
    if kind is Kind.WRONG_ANSWERS:
        values[QUERIES] = 1
    return report_pb2.Report(
        report_id=number.to_bytes(15 if kind is Kind.SHORT_ID else 16, "little"),
        answers=[report_pb2.Answer(query_index=q, value=v) for q, v in values.items()],
        period=period_of(name, key),
    )


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
        require(n == (len(found) if name == SPLIT else len(values)), "n of whole reports", sums)
        require(squares == sum(v * v for v in values), "squares of whole reports", name, sums)
    return found
