"""The asking organisation with its purpose and contact, shown to people before they answer."""

import re
from dataclasses import dataclass

from geoveil.campaign.text import require_printable
from geoveil.gp import ParameterError

_NOTICE = re.compile(r"https://[A-Za-z0-9.-]+(:[0-9]{1,5})?(/[!-~]*)?", re.ASCII)
_MOST_OF_NOTICE = 500


@dataclass(frozen=True, kw_only=True)
class Asker:
    """The asking organisation. The campaign's signature covers it; nobody checks its truth.

    Raises:
        ParameterError: if a field is out of range.
    """

    organisation: str
    """The organisation responsible for the survey; one line of 1 to 200 visible characters."""
    purpose: str
    """The purpose of the answers; one line of 1 to 500 visible characters."""
    contact: str
    """An e-mail address or other contact for questions and complaints; one line of 1 to 200."""
    notice: str = ""
    """The address, https://..., of the full privacy notice; empty if there is none."""

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
