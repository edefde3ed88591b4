"""Test texts of a campaign in several languages: what is read, signed and refused."""

from dataclasses import replace

import pytest

from geoveil.campaign import (
    Asker,
    Attribute,
    ChoiceField,
    FormCampaign,
    NumberField,
    Question,
    SigningKey,
    Translation,
    Wording,
    decode,
    digest,
    open_envelope,
    seal,
    signer,
    speaking,
    what_a_form_tells,
    what_it_tells,
    what_it_tells_of,
    who_asks,
)
from geoveil.gp import GeoPrivacy, ParameterError, Threshold
from tools.vectors.chance import OPENS
from tools.vectors.examples import small_campaign

CITY = Asker(organisation="City", purpose="Buses", contact="x@y.z")
GERMAN = Translation(
    language="de-AT",
    title="Eine Frage",
    asker=Asker(organisation="Stadt", purpose="Busse", contact="x@y.z"),
    attribute="Haushaltseinkommen",
    unit="Dollar",
    labels=("über 100 Tsd.",),
)
ASKED = small_campaign("income", asker=CITY, language="en", translations=(GERMAN,))
RENTS = ChoiceField(
    name="rents",
    options=("yes", "no"),
    epsilon=2.0,
    wordings=(
        Wording(language="en", text="Do you rent?"),
        Wording(language="de", text="Miete?", options=("ja", "nein")),
    ),
)
FORM = FormCampaign(
    campaign_id="form",
    title="Rents",
    fields=(RENTS,),
    opens=OPENS,
    closes=ASKED.closes,
    translations=(Translation(language="de", title="Mieten"),),
)


def test_texts_are_read_in_the_language_that_is_spoken():
    own = ("A question", CITY, "household income", "dollar", ("above 100k",))
    assert ASKED.texts == own
    with speaking("de"):
        assert ASKED.texts == tuple(
            getattr(GERMAN, name) for name in ("title", "asker", "attribute", "unit", "labels")
        )
        told = [*who_asks(ASKED), *what_it_tells(ASKED), *what_it_tells_of(ASKED, 52_000.0)]
        assert FORM.texts.title == "Mieten"
        assert RENTS.wording.options == ("ja", "nein")
    assert any("Haushaltseinkommen" in text for text in told)
    assert any("60.000 Dollar" in text for text in told)
    assert not any("household" in text or "dollar" in text or "City" in text for text in told)
    with speaking("fr"):
        assert ASKED.texts == own
        assert RENTS.wording == Wording(language="en", text="Do you rent?", options=("yes", "no"))


def test_what_a_translation_lacks_is_read_as_the_campaign_has_it():
    partial = replace(ASKED, translations=(Translation(language="de", title="Eine Frage"),))
    own = ASKED.texts
    with speaking("de"):
        assert partial.texts == own._replace(title="Eine Frage")


def test_a_field_is_counted_in_the_unit_of_a_language():
    income = NumberField(
        attribute=Attribute(name="income", unit="dollar"),
        privacy=GeoPrivacy(1.0, 8_000.0, "dollar"),
        wordings=(Wording(language="en"), Wording(language="de", text="Einkommen?", unit="Euro")),
    )
    form = replace(FORM, fields=(income,))
    assert decode(form.encoded) == form
    assert (income.wording.text, income.wording.unit) == ("income", "dollar")
    assert "8,000 dollar" in what_a_form_tells(form)[0]
    with speaking("de"):
        assert income.wording.unit == "Euro"
        assert "8.000 Euro" in what_a_form_tells(form)[0]
    assert form.charges[0].privacy.unit == "dollar"


def test_the_exact_tag_comes_before_a_region():
    both = (GERMAN, Translation(language="DE", title="Frage"))
    with speaking("de"):
        assert replace(ASKED, translations=both).texts.title == "Frage"


def test_the_signature_covers_every_language():
    key = SigningKey.generate()
    envelope = open_envelope(seal(ASKED.encoded, key))
    assert signer(envelope) == key.public
    read = decode(envelope.campaign)
    assert read == ASKED
    assert read.translations == (GERMAN,)
    changed = replace(ASKED, translations=(replace(GERMAN, title="Andere Frage"),))
    assert digest(changed.encoded) != digest(ASKED.encoded)
    envelope.campaign = changed.encoded
    with pytest.raises(Exception, match="signature"):
        signer(envelope)


def test_names_in_ledgers_are_the_campaigns_own():
    with speaking("de"):
        assert [charge.attribute for charge in ASKED.charges] == ["household income"]
        assert ASKED.report_privacy.unit == "dollar"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Translation(language=""), "translation.language"),
        (lambda: Translation(language="German, please"), "translation.language"),
        (lambda: Translation(language=None), "translation.language"),
        (lambda: Translation(language="de", title="a\u202eb"), "translation.title"),
        (lambda: Translation(language="de", title=3), "translation.title"),
        (lambda: Translation(language="de", unit="x" * 65), "translation.unit"),
        (lambda: Translation(language="de", asker="Stadt"), "translation.asker"),
        (lambda: Translation(language="de", labels="ab"), "translation.labels"),
        (lambda: Translation(language="de", labels=("a\n",)), r"translation.labels\[0\]"),
        (lambda: Translation(language="de", labels=("a", "a")), "translation.labels"),
        (lambda: replace(ASKED, translations=GERMAN), "translations"),
        (lambda: replace(ASKED, translations=("de",)), "translations"),
        (lambda: replace(ASKED, language="english?"), "language"),
        (lambda: replace(ASKED, language=None), "language"),
        (lambda: replace(ASKED, language="DE-at"), "languages of texts"),
        (lambda: replace(ASKED, asker=None), "translation.asker"),
        (
            lambda: replace(
                ASKED, translations=[Translation(language=f"aa-{i}") for i in range(64)]
            ),
            "languages of texts",
        ),
        (lambda: replace(ASKED, translations=(replace(GERMAN, labels=("a", "b")),)), "labels"),
        (
            lambda: replace(FORM, translations=(Translation(language="de", unit="Euro"),)),
            "translation.attribute",
        ),
        (
            lambda: replace(FORM, translations=(Translation(language="de", labels=("a",)),)),
            "translation.labels",
        ),
    ],
)
def test_texts_that_nobody_should_read_are_refused(make, message):
    with pytest.raises(ParameterError, match=message):
        make()


def test_labels_are_in_the_order_of_questions():
    questions = tuple(
        Question(f"above {at}k", Threshold(1_000.0 * at, 24_000.0, "smoothstep")) for at in (50, 90)
    )
    german = replace(GERMAN, labels=("über 50 Tsd.", "über 90 Tsd."))
    asked = replace(ASKED, questions=questions, translations=(german,))
    with speaking("de"):
        assert asked.texts.labels == german.labels
