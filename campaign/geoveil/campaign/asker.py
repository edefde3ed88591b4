"""The organisation that asks, with its purpose and contact, for people who may answer."""

import re
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from geoveil.campaign.text import require_printable
from geoveil.campaign.words import say
from geoveil.gp import ParameterError

if TYPE_CHECKING:
    from geoveil.campaign.model import Campaign

_NOTICE = re.compile(r"https://[A-Za-z0-9.-]+(:[0-9]{1,5})?(/[!-~]*)?", re.ASCII)
_MOST_OF_NOTICE = 500


@dataclass(frozen=True, kw_only=True)
class Asker:
    """The organisation that asks. The campaign is signed with it; nobody checks its truth.

    Raises:
        ParameterError: naming the field, its value and the permitted range.
    """

    organisation: str
    """The organisation responsible for the survey; one line of 1 to 200 visible characters."""
    purpose: str
    """The purpose of the answers; one line of 1 to 500."""
    contact: str
    """Where questions and complaints go, such as an address of e-mail; one line of 1 to 200."""
    notice: str = ""
    """Address, https://..., of the whole notice on the use of people's data; empty: none."""

    def __post_init__(self) -> None:
        for name, most in (("organisation", 200), ("purpose", 500), ("contact", 200)):
            require_printable(f"asker.{name}", getattr(self, name), most)
        notice = self.notice
        if (
            not isinstance(notice, str)
            or len(notice) > _MOST_OF_NOTICE
            or not (notice == "" or _NOTICE.fullmatch(notice))
        ):
            expected = f"empty, or https://HOST/... of at most {_MOST_OF_NOTICE} ASCII characters"
            raise ParameterError("asker.notice", notice, expected)


def who_asks(campaign: "Campaign") -> list[str]:
    """Return the asker and the time of deletion as lines for people who may answer.

    Example:
        >>> from types import SimpleNamespace
        >>> who_asks(SimpleNamespace(asker=None, delete_after=None))[0]
        'Who asks is unknown: the survey does not say.'
        >>> asker = Asker(organisation="City of Bergen", purpose="bus stops", contact="a@b.example")
        >>> who_asks(SimpleNamespace(asker=asker, delete_after=None))[:3]
        ['Who asks: City of Bergen', 'Purpose: bus stops', 'Contact: a@b.example']
    """
    asker, said = campaign.asker, [say("tell.unknown")]
    if asker is not None:
        lines = asdict(asker).items()
        said = [say(f"tell.{name}", text=text) for name, text in lines if text]
    return [*said, deletion_text(campaign.delete_after), say("tell.withdrawal")]


def deletion_text(until: datetime | None) -> str:
    """Return the time of deletion of single answers as a sentence.

    Example:
        >>> deletion_text(datetime(2027, 3, 1, 12, tzinfo=UTC))
        'The server deletes single answers after 2027-03-01 12:00 UTC, and keeps their sums.'
    """
    if until is None:
        return say("tell.keeping")
    return say("tell.deletion", date=f"{until.astimezone(UTC):%Y-%m-%d %H:%M} UTC")
