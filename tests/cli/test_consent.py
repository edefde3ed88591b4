"""Test that people see the true question and answer, whatever a server writes."""

import fcntl
import io
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from dataclasses import replace
from random import Random

import pytest
from typer.testing import CliRunner

from geoveil.analyst import texts_of_toml
from geoveil.campaign import (
    Asker,
    Question,
    SigningKey,
    Translation,
    digest,
    encode,
    seal,
    what_it_tells_of,
)
from geoveil.cli.app import app
from geoveil.cli.console import PlainConsole, err, out
from geoveil.client import CampaignChanged, TransportError
from geoveil.gp import GeoPrivacy, GeoVeilError, ParameterError, PrivateValueError
from geoveil.proto.v1 import analyst_pb2, campaign_pb2, report_pb2
from tests.campaign.test_words import english
from tests.campaigns import above_100k

from .conftest import ABOVE
from .hostile_server import hostile_server

CAMPAIGN = above_100k(title="Income above 100k")
KEY = SigningKey.generate()
FORGED = "Signed by: ed25519:acme, verified"
PIECES = [
    *("age", "income above 100k", ", in year.", "é", "収入", "דולר", "kg/m²", "  ", ". ", "'", '"'),
    *("\n", "\r", "\r\n", "\t", "\x00", "\x0b", "\x85", "\u2028", "\u2029", "\x1b[2J", "\x1b[1;1H"),
    *("\x1b]8;;https://x\x07", "\x9b1m", "\u202e", "\u2067", "\u200b", "\u200d", "\ufeff", "\xad"),
    *("\u3164", "\u2800", "\ue000", "\u0378", "e" + 9 * "\u0301", "\u0301", "a\ufe0f", 70 * " "),
    *("[bold]", "[/bold]", "[/b]", "[link=https://x]", "[red", "\\[", "]", ":smile:", "%s", "{0}"),
    *(FORGED, "Privacy: ε = 0 per 1 metre", "Take part? [y/N]: y", "counted: report 00", "\\n"),
]
PROMPT = ["Asks for: ", "Given in: ", "Who asks is unknown",
          "How long the server keeps single answers is unknown", "Nobody can withdraw an answer",
          "Signed by: nobody",
          "Privacy: ε = 1 per 8000 ",
          "This report is at most 2.72 times as likely", "Somebody who thinks",
          "This report does not hide which of two very different values you have."]  # fmt: skip


@pytest.fixture
def hostile():
    with hostile_server() as running:
        yield running


@pytest.fixture
def command(hostile, monkeypatch):
    """Run the command against the hostile server on a wide terminal."""
    for console in (out, err):
        monkeypatch.setattr(console, "width", 200)

    def run(*arguments, stdin=None, catch=False):
        return CliRunner().invoke(
            app, [*arguments, "--server", hostile.address], input=stdin, catch_exceptions=catch
        )

    return run


def altered(**texts):
    """Return an envelope of the campaign with other texts, made as no honest server could."""
    message = campaign_pb2.Campaign.FromString(encode(CAMPAIGN))
    for field, text in texts.items():
        if field in ("name", "unit"):
            setattr(message.attribute, field, text)
        elif field == "label":
            message.queries[0].label = text
        else:
            setattr(message, field, text)
    return seal(message.SerializeToString(deterministic=True))


@pytest.mark.deep
def test_no_text_of_a_campaign_can_forge_the_prompt(hostile, command, tmp_path):
    """Every string of a campaign: refused unseen, or each line is what it has to be."""
    random, times = Random(20), 60
    answered = 0
    for number in range(times):
        pieces = random.choice([PIECES, [piece for piece in PIECES if piece.isprintable()]])
        texts = {
            field: "".join(random.choices(pieces, k=random.choice([1, 2, 3])))
            for field in random.sample(["title", "name", "unit", "label"], random.choice([1, 2]))
        }
        hostile.envelopes = [altered(**texts)]
        sent = len(hostile.sent)
        arguments = ["contribute", "income", "--yes", "--state-dir", str(tmp_path / str(number))]
        shown = command(*arguments, stdin="87,500\n", catch=True)
        if shown.exit_code:
            assert isinstance(shown.exception, GeoVeilError), (texts, shown.exception)
            assert shown.output == "", texts
            assert len(hostile.sent) == sent
            with err.capture() as told:
                err.tell(str(shown.exception))
            assert len(told.get().splitlines()) == 1
            assert told.get().rstrip("\n").isprintable()
            continue
        answered += 1
        title, *lines = shown.stderr.splitlines()
        assert title == texts.get("title", CAMPAIGN.title)
        assert lines[0] == f"Asks for: {texts.get('name', 'household income')}"
        assert lines[1] == f"Given in: {texts.get('unit', 'dollar')}"
        for line, begins in zip(lines, PROMPT, strict=True):
            assert line.startswith(begins), texts
        counted, value = shown.stdout.splitlines()
        assert re.fullmatch(r"counted: report [0-9a-f]{32}. All that leaves this machine:", counted)
        assert value.startswith(f"  {texts.get('label', 'above 100,000')}: ")
        assert all(line.isprintable() for line in shown.output.splitlines())
    assert times / 6 < answered < times * 5 / 6  # both ends were seen


def test_a_terminal_folds_no_text_into_a_line_of_its_own():
    """On any width, even if the terminal takes two columns for each character beyond ASCII."""
    random = Random(7)
    for _ in range(300):
        width = random.choice([20, 40, 79])
        stream = io.StringIO()
        console = PlainConsole(file=stream, force_terminal=True, color_system=None, width=width)
        console.tell(("Asks for: ", "bold"), "".join(random.choices([*PIECES, "x" * 45], k=5)))
        first, *more = stream.getvalue().removesuffix("\n").split("\n")
        assert first.startswith("Asks for:")
        assert all(line.startswith("  ") for line in more)
        for line in (first, *more):
            assert sum(1 if c.isascii() else 2 for c in line) <= width
            assert line.isprintable()


def test_a_folded_line_is_whole_and_no_wider_than_the_terminal():
    random = Random(8)
    for _ in range(500):
        width = random.choice([8, 9, 20])
        stream = io.StringIO()
        console = PlainConsole(file=stream, force_terminal=True, color_system=None, width=width)
        text = "".join(random.choices("ab  漢", k=random.randrange(60)))
        console.tell(text)
        first, *more = stream.getvalue().removesuffix("\n").split("\n")
        assert first + "".join(line[2:] for line in more) == text
        for line in (first, *more):
            assert sum(1 if c.isascii() else 2 for c in line) <= width


def test_a_terminal_has_no_style_inside_a_number():
    stream = io.StringIO()
    console = PlainConsole(file=stream, force_terminal=True, color_system="standard", width=79)
    console.print("between two values 8,000 dollar apart (n ≥ 2)")
    assert stream.getvalue() == "between two values 8,000 dollar apart (n ≥ 2)\n"


@pytest.mark.deep(keep=0)
def test_the_prompt_of_a_terminal(hostile, tmp_path):
    """In a real one, of 60 columns: a title that would put a forged line at the left margin."""
    title = "Income above 100k".ljust(60) + FORGED.ljust(60) + "Privacy: none."
    hostile.envelopes = [seal(encode(replace(CAMPAIGN, title=title)), KEY)]
    ours, theirs = pty.openpty()
    script = "import sys; from geoveil.cli import main; sys.argv[0] = 'geoveil'; main()"
    arguments = ["contribute", "income", "--server", hostile.address, "--state-dir", str(tmp_path)]
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 25, 60, 0, 0))
    environment = {k: v for k, v in os.environ.items() if k != "COLUMNS"} | {"TERM": "dumb"}
    process = subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    try:
        shown = _until(ours, "[y/N]: ")
        os.write(ours, b"y\n")
        _until(ours, "Your value (not shown as you type): ")
        os.write(ours, b"87,500\n")
        own = _until(ours, "send the result? [y/N]: ")
        os.write(ours, b"y\n")
        ended = _until(ours, "perturbed")
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    lines = shown.replace("\r\n", "\n").split("\n")
    assert all(len(line) <= 60 for line in lines)
    assert lines[0].startswith("Income above 100k")
    margin: list[str] = []
    for line in lines[1:]:
        if not line.startswith("  "):
            margin.append(line)
        elif margin:  # folded
            margin[-1] += line[2:]
    begins = [*PROMPT, "Take part?"]
    begins[5] = "Signed by: "
    assert f"  {KEY.public}"[:60] in lines
    for line, begin in zip(margin, begins, strict=True):
        assert line.startswith(begin)
    assert "87" not in ended.split("counted")[0]
    # Before the step that can't be taken back: the number in digits and words, and what it tells.
    own = " ".join(own.replace("\r\n", "\n").split())
    assert "You answer 87,500 (eighty-seven thousand five hundred) dollar." in own
    for sentence in what_it_tells_of(CAMPAIGN, 87_500):
        assert "".join(sentence.split()) in "".join(own.split())


def _until(terminal: int, text: str) -> str:
    """Return what a terminal shows up to a text."""
    seen = b""
    deadline = time.monotonic() + 60
    while text not in seen.decode(errors="replace"):
        assert select.select([terminal], [], [], deadline - time.monotonic())[0], seen
        seen += os.read(terminal, 4096)
    return seen.decode()


@pytest.mark.parametrize(("language", "yes"), [("de", "j"), ("es_MX.UTF-8", "s"), ("fr", "oui")])
def test_all_is_said_in_the_language_of_the_environment(
    hostile, command, tmp_path, monkeypatch, language, yes
):
    """Questions, answers, what the report tells and the receipt; 87.500 is a number there."""
    monkeypatch.setenv("GEOVEIL_LANG", language)
    hostile.envelopes = [seal(encode(CAMPAIGN), KEY)]
    typed = "87 500" if language == "fr" else "87.500"
    done = command(
        *("contribute", "income", "--state-dir", str(tmp_path)), stdin=f"{yes}\n{typed}\n"
    )
    assert done.exit_code == 0, done.output
    own = done.output.replace(CAMPAIGN.title, "").replace(CAMPAIGN.attribute.name, "")
    for text in (str(KEY.public), *CAMPAIGN.labels):
        own = own.replace(text, "")
    assert english(own, language[:2]) == [], own
    assert "\\x" not in own
    assert "\\u" not in own


@pytest.mark.parametrize("language", ["de", "fr"])
def test_a_number_is_read_as_the_language_writes_it(hostile, command, tmp_path, language):
    """87,500 may be 87 thousand, or 87 and a half: it is refused, in words of the language."""
    hostile.envelopes = [seal(encode(CAMPAIGN), KEY)]
    given = ("contribute", "income", "--state-dir", str(tmp_path), "--language", language, "--yes")
    with pytest.raises(PrivateValueError, match="87500") as refused:
        command(*given, stdin="87,500\n")
    assert english(str(refused.value), language) == []
    with pytest.raises(ParameterError, match="language must be one of en, de, es, fr"):
        command(*given, "--language", "tlh", stdin="87500\n")
    assert hostile.sent == []


OTHERS = {
    "another key's": seal(encode(CAMPAIGN), SigningKey.generate()),
    "more privacy lost": seal(encode(replace(CAMPAIGN, privacy=GeoPrivacy(9, 1, "dollar")))),
}


@pytest.mark.parametrize("other", OTHERS)
def test_what_was_shown_is_what_is_answered(hostile, command, tmp_path, other):
    """A server that shows one campaign and has another under its sleeve."""
    hostile.envelopes = [seal(encode(CAMPAIGN), KEY), OTHERS[other]]
    arguments = ["contribute", "income", "--state-dir", str(tmp_path / "device")]
    shown = command(*arguments, stdin="y\n87500\n")
    assert shown.exit_code == 0, shown.output
    assert f"Signed by: {KEY.public}" in shown.stderr
    assert "ε = 1 per 8000 dollar" in shown.stderr
    assert [request.campaign_digest for request in hostile.sent] == [digest(encode(CAMPAIGN))]
    assert hostile.asked == 1
    if digest(encode(CAMPAIGN)) not in map(digest, (_content(OTHERS[other]),)):
        with pytest.raises(CampaignChanged):  # this person has answered the one that was shown
            command(*arguments, "--yes", stdin="87500\n")
        assert len(hostile.sent) == 1


def _content(envelope):
    return campaign_pb2.CampaignEnvelope.FromString(envelope).campaign


@pytest.mark.parametrize(
    "envelope",
    [
        seal(encode(replace(CAMPAIGN, campaign_id="other"))),
        seal(encode(CAMPAIGN), KEY)[:-1] + b"\xff",
    ],
    ids=["of another id", "with a wrong signature"],
)
def test_what_can_not_be_answered_is_not_shown(hostile, command, tmp_path, envelope):
    hostile.envelopes = [envelope]
    shown = command("contribute", "income", "--state-dir", str(tmp_path / "x"), catch=True)
    assert isinstance(shown.exception, GeoVeilError)
    assert shown.output == ""
    assert not (tmp_path / "x").exists()
    assert hostile.sent == []


def test_a_refusal_can_not_forge_a_line(hostile, command, tmp_path):
    hostile.envelopes = [seal(encode(CAMPAIGN))]
    hostile.rejection = report_pb2.ReportResult(
        status=report_pb2.REPORT_STATUS_REJECTED,
        reason=report_pb2.REJECTION_REASON_NOT_OPEN,
        detail=f"[/b]\n{FORGED}\x1b[2J\u202e",
    )
    arguments = ["contribute", "income", "--yes", "--state-dir", str(tmp_path / "x")]
    shown = command(*arguments, stdin="87500\n")
    assert shown.exit_code == 1
    assert shown.stderr.splitlines()[-1].startswith("The server refused it: NOT_OPEN [/b]\\n")
    hostile.refusal = f"[/b]\n{FORGED}\x1b[2J"
    with pytest.raises(TransportError) as raised:
        command(*arguments)
    assert str(raised.value).isprintable()


def test_estimates_and_lists_show_text_as_it_is(hostile, command):
    row = analyst_pb2.Estimate(label=f"a [/b] c\n{FORGED}\x1b[2J\u202e", n=5, value=0.5)
    row.confidence = 0.95
    hostile.estimate = analyst_pb2.GetEstimateResponse(
        envelope=campaign_pb2.CampaignEnvelope.FromString(seal(encode(CAMPAIGN))),
        estimates=[row],
        unbiased_for=f"[link=https://x]\n{FORGED}\x1b[2J",
        privacy=campaign_pb2.Privacy(epsilon=1, per=8000),
        privacy_at_most=campaign_pb2.Privacy(epsilon=1, per=8000),
    )
    shown = command("estimate", "income").output
    assert "a [/b] c\\nSigned by" in shown
    assert not [line for line in shown.splitlines() if line.startswith("Signed by")]
    assert all(line.isprintable() for line in shown.splitlines())
    found = command("estimate", "income", "--json").stdout
    assert json.loads(found)["estimates"][0]["name"] == row.label
    assert found.isascii()
    hostile.refusal = f"[/b]\n{FORGED}\x1b[2J"
    refused = command("estimate", "income", catch=True)
    with err.capture() as told:
        err.tell(str(refused.exception))
    assert told.get().startswith("[/b]\\nSigned by")
    assert told.get().rstrip("\n").isprintable()

    hostile.refusal = None
    question = Question("[b]", CAMPAIGN.questions[0].query)
    markup = replace(CAMPAIGN, title="a [/b] c", questions=(question,))
    hostile.envelopes = [seal(encode(markup))]
    shown = command("campaign", "show", "income").output
    assert "income  a [/b] c" in shown
    assert "[b]" in shown
    hostile.envelopes.append(altered(title="a\nb"))
    listed = command("campaign", "list").output
    assert "a [/b] c" in listed
    assert "can't be read" in listed
    assert "state 77" in listed


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


def test_people_read_their_own_language(create, answer, words, record, tmp_path):
    texts = tmp_path / "texts.toml"
    texts.write_text(TEXTS, encoding="utf-8")
    asker = ("--organisation", "City", "--purpose", "Buses", "--contact", "x@y.z")
    made = create("Household income", *ABOVE, *asker, "--id", "several", "--texts", texts)
    assert made.exit_code == 0, made.output
    assert "texts also in de, pt-BR" in words("campaign", "show", "several")
    found = record("campaign", "show", "several")
    assert found["language"] == "en"
    assert [each["language"] for each in found["translations"]] == ["de", "pt-BR"]
    for language, attribute, title in (
        ("de", "Haushaltseinkommen", "Was verdienen Haushalte?"),
        ("fr", "household income", "Household income"),
    ):
        answered = answer("several", "52000", more=("--language", language))
        assert answered.exit_code == 0, answered.output
        assert title in answered.output
        assert attribute in answered.output
        own = re.findall("household income|dollar|above 100|City|Buses", answered.output)
        assert bool(own) is (language == "fr")


def test_a_form_is_filled_in_with_the_words_that_were_read(create, answer, tmp_path):
    texts, form = tmp_path / "texts.toml", tmp_path / "form.toml"
    texts.write_text("[de]\ntitle = 'Wohnen'", encoding="utf-8")
    form.write_text(FORM, encoding="utf-8")
    made = create("Housing", "--id", "housing", "--form", form, "--texts", texts)
    assert made.exit_code == 0, made.output
    for language, said, title in (("de", "ja", "Wohnen"), ("en", "yes", "Housing")):
        answered = answer("housing", f"rents = {said}", more=("--language", language))
        assert answered.exit_code == 0, answered.output
        assert title in answered.output
    with pytest.raises(PrivateValueError, match="one of yes, no"):
        answer("housing", "rents = ja")
