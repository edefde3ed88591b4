"""The rows of the journal's tables: their content, with checksums."""

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from geoveil.campaign import Charge
from geoveil.client.contributions import (
    MICROSECOND,
    CampaignPoint,
    Contribution,
    DeliveryStatus,
    Entry,
    Reading,
    Rejection,
)
from geoveil.client.errors import JournalError
from geoveil.client.journal_schema import WRITTEN_ONCE
from geoveil.gp import GeoPrivacy, blake2b

price_of = lru_cache(maxsize=1024)(GeoPrivacy)
"""Caches prices, which are few; making one takes as long as reading its row."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
WAITS = 2**63 - 1
"""The settling time of a waiting report."""


def microseconds(when: datetime | None) -> int | None:
    """Return a time in stored form."""
    return None if when is None else (when - _EPOCH) // MICROSECOND


def date_of(stored: int) -> datetime:
    """Return the date for microseconds since 1970."""
    return _EPOCH + timedelta(microseconds=stored)


def _date_if(stored: int | None) -> datetime | None:
    return None if stored is None else date_of(stored)


def checked_row(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a row with its checksum, 7 bytes of BLAKE2b over its values in ASCII."""
    shown = ascii(values).encode()
    return (*values, int.from_bytes(blake2b(shown, digest_size=7).digest()))


def content_of(stored: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a row's values exactly as they were written; JournalError if it has changed."""
    values = tuple(stored[:-1])
    if checked_row(values) != tuple(stored):
        raise JournalError(f"row of {values[0]!r}", "it is damaged")
    return values


def row_of(entry: Entry) -> tuple[Any, ...]:
    """Return an entry as the values of a row."""
    made = entry.contribution
    return checked_row(
        (
            made.campaign_id,
            made.period,
            made.digest,
            made.report,
            made.step_exponent,
            microseconds(made.closes),
            microseconds(entry.drawn),
            microseconds(made.epoch),
            microseconds(made.before),
            microseconds(made.departs),
            int(entry.status),
            microseconds(entry.sent),
            microseconds(entry.settled),
            entry.rejection and entry.rejection.reason,
            entry.rejection and entry.rejection.detail,
            entry.failure,
        )
    )


def charge_rows(made: Contribution) -> list[tuple[Any, ...]]:
    """Return the charges of a report as values of rows."""
    of = (made.campaign_id, made.period)
    return [
        checked_row((*of, name, p.unit, p.epsilon, p.per, p.delta, p.reach, any_two))
        for name, p, any_two in made.charges
    ]


def charge_of(stored: tuple[Any, ...]) -> Charge:
    """Return the charge in a row; JournalError if it has changed."""
    _, _, name, unit, epsilon, per, delta, reach, any_two = content_of(stored)
    return Charge(name, price_of(epsilon, per, unit, delta, reach), any_two)


def reading_row(reading: Reading) -> tuple[Any, ...]:
    """Return a reading as the values of a row."""
    return checked_row(
        (
            reading.attribute,
            reading.privacy.unit,
            reading.space,
            microseconds(reading.begins),
            microseconds(reading.ends),
            reading.privacy.epsilon,
            reading.privacy.per,
            " ".join(map(str, reading.point)),
            microseconds(reading.drawn),
        )
    )


def reading_of(stored: tuple[Any, ...]) -> Reading:
    """Return the reading in a row; JournalError if it has changed."""
    attribute, unit, space, begins, ends, epsilon, per, point, drawn = content_of(stored)
    return Reading(
        attribute=attribute,
        space=space,
        begins=date_of(begins),
        ends=date_of(ends),
        privacy=price_of(epsilon, per, unit),
        point=tuple(map(int, point.split())),
        drawn=date_of(drawn),
    )


def point_row(made: CampaignPoint) -> tuple[Any, ...]:
    """Return a campaign's point as the values of a row, with its reading's price."""
    reading = made.reading
    return checked_row(
        (
            made.campaign_id,
            reading.attribute,
            reading.privacy.unit,
            reading.space,
            microseconds(reading.begins),
            reading.privacy.epsilon,
            reading.privacy.per,
            " ".join(map(str, made.point)),
            microseconds(made.drawn),
        )
    )


def point_of(stored: tuple[Any, ...], reading: Reading) -> CampaignPoint:
    """Return a reading's campaign point in a row; JournalError if it has changed."""
    campaign_id, *_, point, drawn = content_of(stored)
    return CampaignPoint(
        campaign_id=campaign_id,
        reading=reading,
        point=tuple(map(int, point.split())),
        drawn=date_of(drawn),
    )


def entry_of(stored: tuple[Any, ...], charges: tuple[Charge, ...] = ()) -> Entry:
    """Return the entry in a row, with its charges; JournalError if it has changed."""
    values = content_of(stored)
    draw = values[:WRITTEN_ONCE]
    campaign_id, period, digest, report, exponent, closes, drawn, epoch, earlier, departs = draw
    status, sent, settled, reason, detail, failure = values[WRITTEN_ONCE:]
    return Entry(
        contribution=Contribution(
            campaign_id=campaign_id,
            period=period,
            digest=digest,
            report=report,
            charges=charges,
            step_exponent=exponent,
            closes=date_of(closes),
            epoch=_date_if(epoch),
            before=_date_if(earlier),
            departs=_date_if(departs),
        ),
        drawn=date_of(drawn),
        status=DeliveryStatus(status),
        sent=_date_if(sent),
        settled=_date_if(settled),
        rejection=None if reason is None else Rejection(reason, detail),
        failure=failure,
    )
