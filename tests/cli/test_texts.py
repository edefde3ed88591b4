"""Test texts in several languages from the file of an analyst to what people read."""

import json
import re

import pytest

from geoveil.analyst import texts_of_toml
from geoveil.campaign import Asker, Translation
from geoveil.gp import ParameterError, PrivateValueError

CITY = Asker(organisation="City", purpose="Buses", contact="x@y.z")
TEXTS = """
language = "en"

[de]
title = "Was verdienen Haushalte?"
organisation = "Stadt"
purpose = "Busse"
attribute = "Haushaltseinkommen"
unit = "Dollar"
labels = ["über 100.000"]

[pt-BR]
title = "Renda"
"""
FORM = """
[[field]]
kind = "choice"
name = "rents"
options = ["yes", "no"]
epsilon = 2
wordings = [
    {language = "en", text = "Do you rent?"},
    {language = "de", text = "Wohnen Sie zur Miete?", options = ["ja", "nein"]},
]
"""
CREATE = (
    *("campaign", "create", "Household income", "--attribute", "household income"),
    *("--unit", "dollar", "--epsilon", "1", "--per", "8000", "--threshold", "100000", "--force"),
    *("--organisation", "City", "--purpose", "Buses", "--contact", "x@y.z"),
)


def test_a_file_says_what_differs():
    language, (german, brazilian) = texts_of_toml(TEXTS, CITY)
    assert language == "en"
    assert german == Translation(
        language="de",
        title="Was verdienen Haushalte?",
        asker=Asker(organisation="Stadt", purpose="Busse", contact="x@y.z"),
        attribute="Haushaltseinkommen",
        unit="Dollar",
        labels=("über 100.000",),
    )
    assert brazilian == Translation(language="pt-BR", title="Renda")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[de", "TOML"),
        ("[de]\ntitel = 'x'", r"\[de\] must be among title, organisation"),
        ('[de]\ntitle = "a\\u202eb"', r"\[de\] translation.title"),
        ("[de]\nlabels = 'x'", r"\[de\] translation.labels"),
        ("[deutsch_bitte]", r"\[deutsch_bitte\] translation.language"),
    ],
)
def test_a_file_that_nobody_should_read_is_refused(text, message):
    with pytest.raises(ParameterError, match=message):
        texts_of_toml(text, CITY)


def test_a_purpose_alone_needs_an_asker():
    with pytest.raises(ParameterError, match=r"\[de\] asker.organisation"):
        texts_of_toml("[de]\npurpose = 'Busse'")


def test_people_read_their_own_language(geoveil, tmp_path):
    texts = tmp_path / "texts.toml"
    texts.write_text(TEXTS, encoding="utf-8")
    made = geoveil(*CREATE, "--id", "several", "--texts", str(texts))
    assert made.exit_code == 0, made.output
    assert "texts also in de, pt-BR" in geoveil("campaign", "show", "several").stdout
    record = json.loads(geoveil("campaign", "show", "several", "--json").stdout)
    assert record["language"] == "en"
    assert [each["language"] for each in record["translations"]] == ["de", "pt-BR"]
    for language, said, own in (
        ("de", "Haushaltseinkommen", "Was verdienen Haushalte?"),
        ("fr", "household income", "Household income"),
    ):
        answered = geoveil(
            *("contribute", "several", "--yes", "--language", language),
            *("--state-dir", str(tmp_path / language)),
            stdin="52000\n",
        )
        assert answered.exit_code == 0, answered.output
        assert answered.output.startswith(own) or own in answered.output
        assert said in answered.output
        english = re.findall("household income|dollar|above 100|City|Buses", answered.output)
        assert bool(english) is (language == "fr")


def test_a_form_is_filled_in_with_the_words_that_were_read(geoveil, tmp_path):
    texts, form = tmp_path / "texts.toml", tmp_path / "form.toml"
    texts.write_text("[de]\ntitle = 'Wohnen'", encoding="utf-8")
    form.write_text(FORM, encoding="utf-8")
    made = geoveil(
        *("campaign", "create", "Housing", "--id", "housing"),
        *("--form", str(form), "--texts", str(texts)),
    )
    assert made.exit_code == 0, made.output
    for language, answer, title in (("de", "ja", "Wohnen"), ("en", "yes", "Housing")):
        answered = geoveil(
            *("contribute", "housing", "--yes", "--language", language),
            *("--state-dir", str(tmp_path / language)),
            stdin=f"rents = {answer}\n",
        )
        assert answered.exit_code == 0, answered.output
        assert title in answered.output
    with pytest.raises(PrivateValueError, match="one of yes, no"):
        geoveil(
            *("contribute", "housing", "--yes", "--state-dir", str(tmp_path / "other")),
            stdin="rents = ja\n",
        )
