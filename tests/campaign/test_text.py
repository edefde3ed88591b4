"""Test that texts of a campaign are single lines of visible characters."""

import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from unicodedata import category, normalize

import pytest

from geoveil.campaign import (
    Attribute,
    PointQuestion,
    Question,
    SigningKey,
    StatisticCampaign,
    decode,
    encode,
    seal,
    signer,
)
from geoveil.campaign.text import require_printable, visible
from geoveil.gp import GeoPrivacy, ParameterError, Threshold
from geoveil.proto.v1 import campaign_pb2

NOW = datetime(2026, 1, 1, tzinfo=UTC)
QUERY = Threshold(1e5, 2.4e4, "smoothstep")
CAMPAIGN = StatisticCampaign(
    campaign_id="income",
    title="@title",
    attribute=Attribute(name="@name", unit="@unit"),
    privacy=GeoPrivacy(1, 8_000, "@unit"),
    questions=(Question("@label", QUERY),),
    opens=NOW,
    closes=NOW + timedelta(days=1),
)
HOSTILE = {
    "newline": "a\nSigned by: ed25519:acme, verified",
    "carriage return": "a\rb",
    "escape": "a\x1b[2Jb",
    "C1 escape": "a\x9b2Jb",
    "tab": "a\tb",
    "nothing": "",
    "null": "a\x00b",
    "delete": "a\x7fb",
    "line separator": "a\u2028b",
    "paragraph separator": "a\u2029b",
    "from right to left": "a\u202eb",
    "isolate": "a\u2067b\u2069",
    "mark of direction": "a\u200fb",
    "Arabic mark of direction": "a\u061cb",
    "no width": "a\u200bb",
    "joiner": "a\u200db",
    "byte order": "\ufeffa",
    "soft hyphen": "a\u00adb",
    "tag": "a\U000e0041b",
    "filler": "a\u3164b",
    "half-width filler": "a\uffa0b",
    "Hangul filler": "a\u115fb",
    "Braille blank": "a\u2800b",
    "grapheme joiner": "a\u034fb",
    "variation of a letter": "a\ufe0fb",
    "variation": "a\U000e0100b",
    "private": "a\ue000b",
    "private, far": "a\U0010fffdb",
    "unassigned": "a\u0378b",
    "no character": "a\ufffeb",
    "half of a pair": "a\ud800b",
    "tower": "a" + 5 * "\u0301",
    "rings": "a" + 5 * "\u20dd",
    "vowel without a syllable": "a \u1161b",
    "final of the line": "\ud7cba",
    "accent of the line": "\u0301a",
    "accent of a blank": "a \u0301b",
    "blank before": " a",
    "blank after": "a ",
    "other blank": "a\u00a0",
    "only blanks": "  ",
}
HONEST = [
    "Income above $100k",
    "[bold]not bold[/bold] [link=https://x]:smile:",
    "kg/m²",
    "µg/m³",
    "Einkommen über 100.000 €",
    "Доход выше 100 000",
    "収入は十万ドル以上",
    "الدخل السنوي",
    "הַכְנָסָה",
    "लोगों की आय",
    "လျှို့ဝှက်",
    "Thu nhập hộ gia đình",
    normalize("NFD", "가구 소득 값"),
    normalize("NFD", "Thu nhập hộ gia đình ế"),
    "Health ❤️ 1️⃣ ✅",
]


def with_text(field: str, text: str) -> bytes:
    """Return a campaign's bytes with a text in a field, as a hostile server would write them."""
    message = campaign_pb2.Campaign.FromString(encode(CAMPAIGN))
    if field == "title":
        message.title = text
    elif field == "label":
        message.queries[0].label = text
    else:
        setattr(message.attribute, field, text)
    return message.SerializeToString(deterministic=True)


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_text_makes_no_campaign(what):
    text = HOSTILE[what]
    for field in ("title", "name", "unit", "label"):
        if text.isascii() or what != "half of a pair":  # which protobuf refuses first
            with pytest.raises(ParameterError, match=field):
                decode(with_text(field, text))
    for make in (lambda: Question(text, QUERY), lambda: PointQuestion(text, QUERY),
                 lambda: replace(CAMPAIGN, title=text), lambda: Attribute(name=text, unit="dollar"),
                 lambda: Attribute(name="income", unit=text)):  # fmt: skip
        with pytest.raises(ParameterError):
            make()
    assert visible(text) == text.strip() or visible(text).isprintable()


@pytest.mark.parametrize("text", HONEST)
def test_honest_text_of_any_script_is_signed_and_verified(text):
    key = SigningKey.generate()
    for field in ("title", "name", "unit", "label"):
        published = with_text(field, text)
        envelope = campaign_pb2.CampaignEnvelope.FromString(seal(published, key))
        assert signer(envelope) == key.public
        assert encode(decode(envelope.campaign)) == published
    assert visible(text) == text


def test_code_points_that_can_not_be_seen_are_refused_and_escaped():
    """All controls, formats and separators; of the 950,000 without a character every 997th."""
    of_kind = {kind: [] for kind in ("Cc", "Cf", "Zl", "Zp", "Cs", "Co", "Cn")}
    for c in map(chr, range(sys.maxunicode + 1)):
        of_kind.get(category(c), []).append(c)
    assert len(of_kind["Cf"]) > 150
    for kind, found in of_kind.items():
        for c in found[:: 997 if len(found) > 1_000 else 1]:
            with pytest.raises(ParameterError):
                require_printable("text", f"a{c}b", 3)
            assert visible(f"a{c}b") == f"a{ascii(c)[1:-1]}b", kind


@pytest.mark.parametrize(("text", "most"), [("abc", 2), (7, 9), (None, 9), (b"abc", 9)])
def test_what_is_too_long_or_no_text_is_refused(text, most):
    with pytest.raises(ParameterError, match=f"1 to {most} visible"):
        require_printable("text", text, most)
