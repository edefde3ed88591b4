"""Rendering of pages: templates that escape their data, and texts for numbers and dates."""

import math
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from geoveil.analyst import cell_text
from geoveil.campaign import (
    Campaign,
    Translation,
    deletion_text,
    digits,
    likelihood,
    rounded_up,
)
from geoveil.console.http import PREFIX, Response
from geoveil.console.sessions import Session
from geoveil.gp import GeoPrivacy

NAVIGATION = (
    ("/", "Surveys", "list"),
    ("/plan", "Plan", ""),
    ("/operators", "Operators", "operate"),
)
"""The links at the top of every page: paths, names, and the required scopes."""


@cache
def templates() -> Environment:
    """Return the templates of the console."""
    made = Environment(
        loader=PackageLoader("geoveil.console", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "shown": cell_text,
        "count": lambda number: f"{number:,}",
        "date": date_text,
        "percent": percent,
        "significant": significant,
        "heading": lambda key: key.replace("_", " "),
    }
    return made


def page(template: str, session: Session | None, /, *, status: int = 200, **shown: Any) -> Response:
    """Return a page.

    Args:
        session: the reader's session; None if nobody is signed in.
        shown: the data of the template.
    """
    common = {
        "who": None if session is None else session.who,
        "form_token": None if session is None else session.form_token,
        "prefix": PREFIX,
        "rights": frozenset() if session is None else session.rights,
        "navigation": NAVIGATION,
    }
    text = templates().get_template(template).render(common | shown)
    return Response(text.encode(), status=status)


def date_text(date: datetime) -> str:
    """Return a date in words.

    Example:
        >>> date_text(datetime(2026, 5, 4, 9, 30, tzinfo=UTC))
        '4 May 2026, 09:30 UTC'
    """
    there = date.astimezone(UTC)
    return f"{there.day} {there:%B %Y, %H:%M} UTC"


def asker_of(campaign: Campaign) -> dict[str, Any]:
    """Return the asker, the time of deletion and texts in other languages, for `asker.html`."""
    return {
        "asker": campaign.asker,
        "kept": deletion_text(campaign.delete_after),
        "translations": {each.language: _words_of(each) for each in campaign.translations},
    }


def _words_of(translation: Translation) -> str:
    """Return all texts of a translation on one line."""
    of_asker = [] if translation.asker is None else asdict(translation.asker).values()
    given = translation.title, *of_asker, translation.attribute, translation.unit
    return "; ".join(filter(None, (*given, *translation.labels)))


def significant(number: float) -> str:
    """Return a number with three significant digits, without a power of ten.

    Example:
        >>> significant(1234.5), significant(0.0000123)
        ('1,230', '0.0000123')
    """
    return digits(float(f"{number:.3g}"))


def percent(share: float) -> str:
    """Return a share in per cent.

    Example:
        >>> percent(0.73106), percent(0.0004)
        ('73 %', '0.04 %')
    """
    return f"{100 * share:.2g} %" if abs(share) < 0.995 else f"{100 * share:.0f} %"


def span_text(span: timedelta) -> str:
    """Return a length of time in its largest unit.

    Example:
        >>> span_text(timedelta(hours=50)), span_text(timedelta(minutes=1))
        ('2 days', '1 minute')
    """
    seconds = max(span.total_seconds(), 0.0)
    for name, unit in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= unit:
            number = int(seconds // unit)
            return f"{number:,} {name}{'' if number == 1 else 's'}"
    return "less than a minute"


def privacy_words(privacy: GeoPrivacy, any_two: float = math.inf) -> str:
    """Return a guarantee in the words that participants read; `any_two` is ε of any two values.

    Example:
        >>> privacy_words(GeoPrivacy(1.0, 8_000.0, "dollar"))
        'ε = 1 per 8,000 dollar: a report is at most 2.72 times as likely for one value as for\
 another 8,000 dollar away'
        >>> privacy_words(GeoPrivacy.per_factor(1.0, 2, "dollar"))
        'ε = 1 per factor 2 in dollar: a report is at most 2.72 times as likely for one value as\
 for another half or twice as much'
    """
    promise = likelihood(privacy, "any", "one value", "another", any_two=any_two).removesuffix(".")
    promise = promise[0].lower() + promise[1:]
    if privacy.value_unit is not None:
        return f"{privacy}: {promise}"
    return (
        f"ε = {rounded_up(privacy.epsilon, 6):g} per {privacy.per:,.15g} {privacy.unit}: {promise}"
    )
