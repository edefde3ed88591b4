"""The texts of a campaign and its fields in several languages, covered by its signature."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from geoveil.campaign.text import require_language, require_printable
from geoveil.gp import ParameterError, validation

_MOST_LANGUAGES = 64
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


@dataclass(frozen=True, kw_only=True)
class Translation:
    """A campaign's texts in another language; absent texts default to the campaign's own.

    Ledgers and tables keep the campaign's names.

    Raises:
        ParameterError: if a field is out of range.
    """

    language: str
    """A BCP 47 tag such as "de"."""
    title: str = ""
    asker: Asker | None = None
    """The asker in this language, only if the campaign has one."""
    attribute: str = ""
    """The attribute's name; "" for forms, whose fields have wordings."""
    unit: str = ""
    """The unit of the attribute's values; "" for forms."""
    labels: tuple[str, ...] = ()
    """Distinct texts for the questions, in order; () for the labels themselves."""

    def __post_init__(self) -> None:
        require_language("translation.language", self.language)
        for name, most in (("title", 200), ("attribute", 64), ("unit", 64)):
            if getattr(self, name) != "":
                require_printable(f"translation.{name}", getattr(self, name), most)
        validation.require_kind("translation.asker", self.asker, Asker | None)
        labels = validation.items("translation.labels", self.labels, str)
        object.__setattr__(self, "labels", labels)
        for i, label in enumerate(labels):
            require_printable(f"translation.labels[{i}]", label, 100)
        if len(set(labels)) != len(labels):
            raise ParameterError("translation.labels", labels, "distinct")


@dataclass(frozen=True, kw_only=True)
class Wording:
    """A field's texts in one language."""

    language: str = ""
    """A BCP 47 tag such as "de"; "" if not stated."""
    text: str = ""
    """The question; "" for the name of the field."""
    options: tuple[str, ...] = ()
    """The texts for the options, in order; () for the options themselves."""
    unit: str = ""
    """The unit of a number or place; "" for the attribute's own and for options."""

    def __post_init__(self) -> None:
        if self.language != "":
            require_language("wording.language", self.language)
        if self.text != "":
            require_printable("wording.text", self.text, 500)
        object.__setattr__(self, "options", validation.items("wording.options", self.options, str))
        for i, option in enumerate(self.options):
            require_printable(f"wording.options[{i}]", option, 200)
        if self.unit != "":
            require_printable("wording.unit", self.unit, 64)


class Texts(NamedTuple):
    """A campaign's texts in the current language."""

    title: str
    asker: Asker | None
    attribute: str
    """The attribute's name; "" for forms."""
    unit: str
    """The unit of the attribute's values; "" for forms."""
    labels: tuple[str, ...]
    """The name of each column."""


def check_languages(name: str, languages: Sequence[str]) -> None:
    """Refuse more than 64 languages, and repeated ones, regardless of case."""
    if (
        len({tag.lower() for tag in languages}) != len(languages)
        or len(languages) > _MOST_LANGUAGES
    ):
        raise ParameterError(name, languages, f"at most {_MOST_LANGUAGES}, distinct")


def check_translations(
    own: str,
    translations: Sequence[Translation],
    *,
    asker: Asker | None,
    attribute: bool,
    questions: int,
) -> None:
    """Refuse invalid languages, and translations of texts that the campaign does not have."""
    if own != "":
        require_language("language", own)
    check_languages("languages of texts", [own, *(each.language for each in translations)])
    for each in translations:
        if each.asker is not None and asker is None:
            raise ParameterError("translation.asker", each.asker, "None: the campaign has none")
        if not attribute and (each.attribute or each.unit):
            expected = "'': the fields of a form have wordings"
            raise ParameterError("translation.attribute", each.attribute or each.unit, expected)
        if each.labels and len(each.labels) != questions:
            expected = f"{questions}, one for each question, or none"
            raise ParameterError("translation.labels", each.labels, expected)
