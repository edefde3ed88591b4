"""Test that messages for people are complete in every language, used, and true."""

import json
import re
from itertools import product
from pathlib import Path
from string import Formatter

import pytest

from geoveil.campaign import (
    say,
    speaking,
    what_a_form_tells,
    what_it_tells,
    what_it_tells_of,
    what_to_ask,
    who_learns,
)
from geoveil.campaign.words import LANGUAGES, digits
from geoveil.gp import ParameterError
from tools.vectors.consent import surveys
from tools.vectors.forms import _forms

ROOT = Path(__file__).parents[2]
DATA = ROOT / "campaign" / "geoveil" / "campaign" / "data"
ENGLISH = re.compile(
    r"\b(the|is|of|you|your|that|this|and|with|for|from|its?|not|are|was|all|at|to|an?|or"
    r"|answers?|reports?|server|survey|nobody|one|per|what|which|here|give|sent|open|choose)\b",
    re.IGNORECASE,
)
OWN = {
    "de": {"server", "was", "an", "all", "to"},
    "es": {"a"},
    "fr": {"a", "is"},
}
"""Words of ENGLISH that the language has too."""


def catalogue(language):
    return json.loads((DATA / f"{language}.json").read_text())


def forms(message):
    return list(message.values()) if isinstance(message, dict) else [message]


def holes(message):
    return {name for text in forms(message) for _, name, *_ in Formatter().parse(text) if name}


def english(text, language):
    """Return English words of a text in another language, but for what it quotes."""
    bare = re.sub(r"\{[^}]*\}|„[^“]*“|«[^»]*»|<[^>]*>|'geoveil[^']*'", " ", text)
    return [w for w in ENGLISH.findall(bare) if w.lower() not in OWN[language]]


def test_every_language_has_every_message_with_the_same_holes():
    of_english = catalogue("en")
    assert {path.stem for path in DATA.glob("??.json")} == set(LANGUAGES)
    for language in LANGUAGES:
        theirs = catalogue(language)
        assert list(theirs) == list(of_english)
        for section, messages in of_english.items():
            assert list(theirs[section]) == list(messages)
            for key, message in messages.items():
                other = theirs[section][key]
                assert holes(other) == holes(message), (language, key)
                assert type(other) is type(message), (language, key)
                assert not isinstance(other, dict) or list(other) == ["one", "other"], key
                for text in forms(other):
                    assert text.strip(), (language, key)
                    assert language == "en" or english(text, language) == [], (language, key)
    assert english("Alle reports sind da", "de") == ["reports"]  # the control
    names = [key for messages in of_english.values() for key in messages]
    assert len(names) == len(set(names))


def sources():
    folders = ("campaign", "apps", "client/geoveil", "client/typescript/src")
    for file in (one for of in folders for one in (ROOT / of).rglob("*")):
        generated = "gen" in file.parts or file.name.startswith("geoveil-")
        if file.suffix in {".py", ".js", ".ts", ".html"} and not generated:
            yield file, file.read_text()


def test_every_message_is_used_and_every_use_has_a_message():
    """Keys with a part that depends stand for all that fit: say(f"plain.{kind}", ...)."""
    used = set()
    for _, text in sources():
        for literal in re.findall(r"""["'`]([a-zA-Z.{}$ ?:"'_=<>-]+?)["'`]""", text):
            used.add(literal)
        used |= set(re.findall(r"""f"([a-z.]*\{[^"]*\}[a-z.]*)\"""", text))
        used |= set(re.findall(r"""`([a-zA-Z.]*\$\{[^`]*\}[a-zA-Z.]*)`""", text))
    exact = {key for key in used if "{" not in key}
    fixed = re.compile(r"\$?\{.*?\}")
    parts = {fixed.sub("\0", key) for key in used if "{" in key}
    parts = {part for part in parts if re.fullmatch("[a-z.-]{3,}", part.replace("\0", ""))}
    patterns = [re.compile(re.escape(part).replace("\0", ".*")) for part in parts]
    keys = {key for messages in catalogue("en").values() for key in messages}
    for key in keys:
        assert key in exact or any(pattern.fullmatch(key) for pattern in patterns), key
    assert "no.such" not in exact


def test_numbers_are_written_as_in_each_language():
    assert [digits(1234.5), digits(52_000)] == ["1,234.5", "52,000"]
    told = {}
    for language in LANGUAGES:
        with speaking(language):
            told[language] = [digits(x) for x in (1234.5, 52_000, -1e6)]
    assert told["de"] == ["1.234,5", "52.000", "-1.000.000"]
    assert told["es"] == ["1234,5", "52.000", "-1.000.000"]  # a mark from five digits on
    assert told["fr"] == ["1\u202f234,5", "52\u202f000", "-1\u202f000\u202f000"]
    assert digits(52_000) == "52,000"  # it ends with its block


def test_a_number_chooses_the_form_of_a_message():
    for language, (n, said) in product(("de", "fr"), ((1, 0), (1.5, 1), (2, 1), (91, 1))):
        with speaking(language):
            plural = {"de": ("Tag", "Tagen"), "fr": ("jour", "jours")}[language]
            of_french = language == "fr" and n < 2  # 1.5 jour
            assert say("days", n=n).endswith(" " + plural[0 if of_french else said]), (language, n)


@pytest.mark.parametrize("language", ["", "it", "english", "de/../en"])
def test_another_language_is_refused(language):
    with pytest.raises(ParameterError, match="one of en, de, es, fr"), speaking(language):
        pass


@pytest.mark.deep(keep=0)
@pytest.mark.parametrize("language", ["de", "es", "fr"])
def test_what_people_are_told_of_their_reports_is_in_their_language(language):
    """All kinds of campaigns; the numbers are those of the English sentences."""

    def told(campaign, value):
        of_form = hasattr(campaign, "fields")
        said = what_a_form_tells(campaign) if of_form else what_it_tells(campaign)
        said += who_learns(campaign)
        return (
            said
            if of_form
            else [*said, *what_it_tells_of(campaign, value), what_to_ask(campaign, value)]
        )

    for campaign in [*(one for _, one in surveys()), *_forms().values()]:
        in_english = told(campaign, 52_000)
        with speaking(language):
            translated = told(campaign, 52_000)
        assert len(translated) == len(in_english)
        for mine, theirs in zip(translated, in_english, strict=True):
            bare = re.sub(r"^[^:]*:|pay|household income", "", mine)  # names of fields, attributes
            assert english(bare, language) == []
            assert numbers(mine, language) == numbers(theirs, "en"), (mine, theirs)


def numbers(text, language):
    """Return the numbers of a sentence, in any order, each as English writes it."""
    with speaking(language):
        group, point = digits(1e5)[3], digits(0.5)[1]
    bare = (
        text.replace(group, "").replace(point, ".") if language != "en" else text.replace(",", "")
    )
    return sorted(re.findall(r"\d+(?:\.\d+)?", bare))
