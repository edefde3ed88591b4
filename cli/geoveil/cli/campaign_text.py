"""What people type and read about campaigns: places, periods, names and keys."""

import re
from datetime import timedelta

from geoveil.campaign import SignatureInvalid, signer
from geoveil.gp import ParameterError, validation
from geoveil.proto.v1.campaign_pb2 import CampaignEnvelope

_UNITS = {
    "w": timedelta(weeks=1),
    "d": timedelta(days=1),
    "h": timedelta(hours=1),
    "m": timedelta(minutes=1),
}
_SHOWN_OF_KEY = len("ed25519:") + 16


def parse_place(text: str) -> tuple[str, tuple[float, float]]:
    """Return the label and coordinates of 'label=longitude,latitude'.

    Example:
        >>> parse_place("Times Square=-73.9855,40.758")
        ('Times Square', (-73.9855, 40.758))
    """
    label, _, numbers = text.rpartition("=")
    return (label or numbers), coordinates("place", numbers)


def coordinates(name: str, text: str) -> tuple[float, float]:
    """Return the two numbers of 'longitude,latitude'.

    Raises:
        ParameterError: naming `name` if they are no two numbers.
    """
    try:
        longitude, latitude = (float(part) for part in text.split(","))
    except ValueError:
        raise ParameterError(name, text, "'longitude,latitude' in degrees") from None
    if abs(latitude) > 90:
        raise ParameterError(name, text, "'longitude,latitude' in degrees, the longitude first")
    return longitude, latitude


def listed(name: str, text: str, count: int, expected: str) -> tuple[float, ...]:
    """Return so many numbers, between commas or spaces.

    Raises:
        ParameterError: naming `name`, and what is expected, if it is anything else.

    Example:
        >>> listed("--between", "50000, 100000", 2, "LOW,HIGH")
        (50000.0, 100000.0)
    """
    try:
        numbers = [float(part) for part in text.replace(",", " ").split()]
    except ValueError:
        raise ParameterError(name, text, expected) from None
    if len(numbers) != count:
        raise ParameterError(name, text, expected)
    return validation.numbers(name, numbers)


def slug(title: str) -> str:
    """Return an id made from a title.

    Example:
        >>> slug("Income above $100k")
        'income-above-100k'
    """
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:64].rstrip("-") or "campaign"


def parse_period(text: str) -> timedelta:
    """Return the time that text like "7d" is.

    Example:
        >>> parse_period("36h")
        datetime.timedelta(days=1, seconds=43200)
    """
    match = re.fullmatch(r"([0-9]{1,6})([mhdw])", text)
    if match is None:
        raise ParameterError("every", text, "a whole number and m, h, d or w, for example 7d")
    return int(match[1]) * _UNITS[match[2]]


def period_text(period: timedelta) -> str:
    """Return a time as `parse_period` reads it, or as Python writes it if that is finer.

    Example:
        >>> period_text(timedelta(hours=36)), period_text(timedelta(seconds=90))
        ('36h', '0:01:30')
    """
    for name, unit in _UNITS.items():
        if not period % unit:
            return f"{period // unit}{name}"
    return str(period)


def signed_by(envelope: CampaignEnvelope) -> tuple[str, str]:
    """Return the beginning of the key that signed, enough to tell keys apart, and its style."""
    try:
        key = signer(envelope)
    except SignatureInvalid:
        return "a signature that is not valid", "bold red"
    return ("nobody" if key is None else f"{str(key)[:_SHOWN_OF_KEY]}…"), ""
