"""The organisation that asks, with its purpose and contact, for people who may answer."""

import re
from dataclasses import dataclass

from geoveil.campaign.text import require_printable
from geoveil.gp import ParameterError

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
