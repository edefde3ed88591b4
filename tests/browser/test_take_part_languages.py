"""The page on which people take part, in each language: all it says is of the catalogue."""

import json
import re
from datetime import UTC, datetime, timedelta
from importlib import resources
from typing import Any

import pytest

from geoveil.campaign import (
    Asker,
    Attribute,
    ChoiceField,
    Condition,
    FormCampaign,
    MultipleField,
    NumberField,
    OrdinalField,
    PlaceField,
    PlanarLaplaceSpec,
    Question,
    Readings,
    Translation,
    Wording,
)
from geoveil.gp import GeoPrivacy, Threshold
from geoveil.gp.coordinates import AzimuthalEquidistant
from tests.campaign.test_words import english
from tests.campaigns import above_100k, perturbed_incomes

from .surveys import axe, counted

pytestmark = pytest.mark.deep
NOW = datetime.now(UTC)
DATES: dict[str, Any] = {"opens": NOW - timedelta(hours=1), "closes": NOW + timedelta(days=3)}
PLACE = AzimuthalEquidistant(-73.95, 40.81, 5_000)
MARKED: dict[str, Any] = {
    "title": "@title",
    "attribute": Attribute(name="@name", unit="@unit"),
    "privacy": GeoPrivacy(1.0, 8_000.0, "@unit"),
    **DATES,
}
ASKED = (Question("@label", Threshold(100_000, 24_000, "smoothstep")),)
ASKER = Asker(organisation="@who", purpose="@purpose", contact="@contact")
BOUNDED = Attribute(name="@name", unit="@unit", least=0, most=1e7)
INCOME = above_100k("777", **MARKED | {"attribute": BOUNDED}, questions=ASKED, asker=ASKER)
READ = above_100k(
    "888", **MARKED, questions=ASKED,
    period=timedelta(days=1), readings=Readings(every=timedelta(days=1), cohorts=2),
)  # fmt: skip
POINTS = perturbed_incomes("999", **MARKED, mechanism=PlanarLaplaceSpec(2))
FORM = FormCampaign(
    campaign_id="555",
    title="@title",
    fields=(
        ChoiceField(name="@rents", options=("@yes", "@no"), epsilon=2.0),
        NumberField(
            attribute=Attribute(name="@rent", unit="@unit", least=0, most=5_000),
            privacy=GeoPrivacy(1, 1_000, "@unit"),
            applies=Condition(field="@rents", options=("@yes",)),
        ),
        PlaceField(
            attribute=Attribute(name="@home", unit="metre", coordinates=PLACE),
            privacy=GeoPrivacy(1, 500, "metre"),
        ),
        OrdinalField(name="@mood", options=("@bad", "@fair", "@good"), epsilon=1.0),
        MultipleField(name="@travel", options=("@bus", "@train", "@foot"), epsilon=1.0, most=2),
        ChoiceField(name="@side", options=("@left", "@right")),
    ),
    **DATES,
)
TEXTS = """() => {
  const said = [document.title];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_TEXT);
  const names = ["aria-label", "title", "alt", "placeholder"];
  for (let node = walk.currentNode; node; node = walk.nextNode()) {
    const text = node.nodeType === Node.TEXT_NODE;
    if ((text ? node.parentElement : node).closest("noscript, script, datalist")) continue;
    said.push(...(text ? [node.data] : names.map((name) => node.getAttribute(name) ?? "")));
  }
  return said;
}"""  # noqa: E501
OWN = re.compile(
    r"@\w+|ε|\bm\b|\bkm\b|°|metre|ed25519:\w*|[0-9a-f]{8,}|127\.0\.0\.1:\d+|\b(?:Nov|Dez|Jan)\.?\b|…"
)
"""What surveys, addresses and dates say, and what is written alike everywhere."""


def marked(language):
    """Return the catalogue of a language as the page loads it, each message between two marks."""
    data = resources.files("geoveil.campaign") / "data" / f"{language}.json"
    of = json.loads(data.read_text("utf-8"))
    told = {**of["told"], **of["page"]}

    def mark(message):
        if isinstance(message, dict):
            return {form: mark(text) for form, text in message.items()}
        return f"⟦{message}⟧"

    return f"export default {json.dumps({key: mark(text) for key, text in told.items()})};"


async def unmarked(page):
    """Return what the page says beside the catalogue and the survey."""
    found = []
    for text in await page.evaluate(TEXTS):
        bare, before = text, ""
        while bare != before:
            bare, before = re.sub(r"⟦[^⟦⟧]*⟧", "", bare), bare
        if re.search(r"[^\W\d_]", OWN.sub("", bare.replace("⟦", "").replace("⟧", ""))):
            found.append(text)
    return found


@pytest.fixture
async def german(survey, browser):
    """A German page of which every message of the catalogue is marked."""
    context = await browser.new_context(locale="de-DE", service_workers="block")
    page = await context.new_page()
    body = marked("de")
    await page.route(
        "**/pages/geoveil-de.js",
        lambda route: route.fulfill(body=body, content_type="text/javascript"),
    )
    for campaign in (INCOME, READ, POINTS, FORM):
        await survey.create(campaign)
    yield page
    await context.close()


async def opened(page, url):
    await page.goto(url)
    await page.wait_for_selector("#main:not([aria-busy])")
    assert await page.get_attribute("html", "lang") == "de"


async def test_nothing_is_said_outside_the_catalogue(survey, german):
    """Every screen of surveys of all kinds, what goes wrong among them."""
    page = german
    for name in ("", "777", "888", "999", "unknown"):
        await opened(page, survey.url(name))
        assert await unmarked(page) == [], name
    await opened(page, survey.url("777"))
    for typed in ("?", "52,000", "99999999999", "52.000"):
        await page.fill("#value", typed)
        if typed == "52.000":
            await page.wait_for_selector("#dots svg")
        await page.click("#send")
        assert await unmarked(page) == [], typed
    await counted(page)
    await page.reload()
    await counted(page)
    await page.wait_for_selector("#main:not([aria-busy])")  # after which the state stays
    assert await unmarked(page) == []
    # The control: a string of another place is seen.
    await page.evaluate("document.querySelector('#state').append(' Sent.')")
    assert len(await unmarked(page)) == 1


async def test_nothing_of_a_form_is_said_outside_the_catalogue(survey, german):
    page = german
    await opened(page, survey.url("555"))

    async def go(act=None):
        if act is not None:
            await act
        assert await unmarked(page) == []
        await page.click("#send")

    await go()
    await go()  # a choice is missing
    await go(page.click(".option >> text=@yes"))
    await go(page.fill("#value", "70000"))  # likely a slip
    await go(page.fill("#value", "1.250"))
    await page.fill("#latitude", "40,8")
    await go(page.fill("#longitude", "-73,95"))
    await go(page.click(".option >> text=@good"))
    for option in ("@bus", "@train", "@foot"):
        await page.click(f".option >> text={option}")
    await go()  # more than two
    await go(page.click(".option >> text=@foot"))
    await go(page.click(".option >> text=@left"))
    await go()
    await counted(page)
    assert await unmarked(page) == []


@pytest.mark.parametrize(
    ("language", "typed", "shown", "button"),
    [
        ("de", "52.417", "52.417 (rund 52 Tausend)", "Verfremden und senden"),
        ("es", "52.417", "52.417 (unos 52 mil)", "Alterar al azar y enviar"),
        ("fr", "52 417", "52\u202f417 (environ 52 mille)", "Brouiller et envoyer"),
    ],
)
async def test_the_address_chooses_the_language(survey, page, language, typed, shown, button):
    """In an English browser; the page writes and reads numbers as the language writes them."""
    await survey.create(INCOME)
    await page.goto(survey.url("777") + f"?lang={language}")
    await page.wait_for_selector("#survey:not([hidden])")
    assert await page.get_attribute("html", "lang") == language
    await page.fill("#value", typed)
    assert shown in await page.inner_text("#echo")
    assert await page.inner_text("#send") == button
    assert await axe(page) == []
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    await page.click("#send")
    await counted(page)


async def test_an_element_speaks_as_its_page_or_its_own_attribute_says(survey, page):
    await survey.create(INCOME)
    await survey.open(page, "777")
    for of_page, own, button in (
        ("fr-CA", None, "Brouiller et envoyer"),
        ("fr", "es-MX", "Alterar al azar y enviar"),
        ("ja", None, "Perturb and send"),
    ):
        said = await page.evaluate(
            """async ([ofPage, own]) => {
                await import("/pages/geoveil-element.js");
                document.documentElement.lang = ofPage;
                const survey = document.createElement("geoveil-survey");
                survey.setAttribute("campaign", "777");
                if (own) survey.lang = own;
                document.body.replaceChildren(survey);
                while (!survey.shadowRoot.querySelector("button"))
                    await new Promise((done) => setTimeout(done, 10));
                return survey.shadowRoot.textContent;
            }""",
            [of_page, own],
        )
        assert button in said
        if of_page != "ja":
            of_survey = re.sub(r"@\w+|ed25519:\S+", "", said)
            assert english(of_survey, (own or of_page)[:2]) == []


async def test_words_of_a_survey_run_from_right_to_left(survey, browser):
    """The browser's language has no catalogue: the page is English, the survey Arabic."""
    wording = Wording(language="ar", text="هل تسكن بالإيجار؟", options=("نعم", "لا"))
    rents = ChoiceField(name="rents", options=("yes", "no"), epsilon=2.0, wordings=(wording,))
    await survey.create(
        FormCampaign(campaign_id="arabic", title="استطلاع السكن", fields=(rents,), **DATES)
    )
    context = await browser.new_context(locale="ar-EG", viewport={"width": 320, "height": 800})
    page = await context.new_page()
    await survey.open(page, "arabic")
    assert await page.get_attribute("html", "lang") == "en"
    for selector in ("#title", "#inputs fieldset", "#inputs .option"):
        told = f"getComputedStyle(document.querySelector('{selector}')).direction"
        assert await page.evaluate(told) == "rtl"
    first = page.locator("#inputs .option").first
    tick, text = [await first.locator(what).bounding_box() for what in ("input", "span")]
    assert tick["x"] > text["x"]  # the tick stands first, which is at the right
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert await axe(page) == []
    await context.close()


BERGEN = above_100k(
    "bergen",
    title="What do households in Bergen earn?",
    attribute=Attribute(name="household income", unit="dollar", least=0, most=1e7),
    asker=Asker(
        organisation="City of Bergen, Department of Housing",
        purpose="To decide how many flats are built in the next five years, and where",
        contact="housing@bergen.example",
        notice="https://bergen.example/privacy",
    ),
    language="en",
    translations=(
        Translation(
            language="de",
            title="Was verdienen Haushalte in Bergen?",
            asker=Asker(
                organisation="Stadt Bergen, Wohnungsamt",
                purpose="Damit entschieden werden kann, wie viele Wohnungen gebaut werden",
                contact="wohnen@bergen.example",
                notice="https://bergen.example/datenschutz",
            ),
            attribute="Haushaltseinkommen",
            unit="Dollar",
            labels=("über 100.000",),
        ),
        Translation(language="ar", title="كم تكسب الأسر في برغن؟", attribute="دخل الأسرة"),
    ),
    **DATES,
)


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_a_survey_in_the_readers_language_asks_on_the_first_screen(survey, browser, scheme):
    """A phone shows who asks and the input without scrolling, in the survey's German texts."""
    await survey.create(BERGEN)
    context = await browser.new_context(
        locale="de-CH", viewport={"width": 390, "height": 844}, color_scheme=scheme
    )
    page = await context.new_page()
    await survey.open(page, "bergen")
    (german, _) = BERGEN.translations
    assert await page.inner_text("#title") == german.title
    assert await page.inner_text("#organisation") == german.asker.organisation
    assert not await page.is_visible("#purpose")
    for selector in ("#organisation", "#value"):
        box = await page.locator(selector).bounding_box()
        assert box["y"] + box["height"] <= 844
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    await page.focus("#more summary")
    await page.keyboard.press("Enter")
    assert await page.inner_text("#purpose") == german.asker.purpose
    assert await page.get_attribute("#notice", "href") == german.asker.notice
    assert german.labels[0] in await page.inner_text("#questions")
    assert "Dollar bei „Haushaltseinkommen“" in await page.inner_text("#spent")
    assert await axe(page) == []
    await page.fill("#value", "52417")
    await page.wait_for_selector("#dots svg")
    said = await page.evaluate("document.body.innerText")
    assert "Haushaltseinkommen" in said
    for own in ("household income", "dollar", "above 100,000", "City of"):
        assert own not in said
    await page.click("#send")
    await counted(page)
    assert (await survey.counted()) == {"bergen": 1}
    assert german.labels[0] in await page.inner_text("#answers")
    await context.close()


@pytest.mark.parametrize(("browsers", "address"), [("ar-EG", ""), ("en-US", "?lang=ar")])
async def test_a_survey_is_read_in_a_language_that_only_it_has(survey, browser, browsers, address):
    await survey.create(BERGEN)
    context = await browser.new_context(locale=browsers)
    page = await context.new_page()
    await page.goto(survey.url("bergen") + address)
    await page.wait_for_selector("#survey:not([hidden])")
    assert await page.get_attribute("html", "lang") == "en"
    assert await page.inner_text("#title") == BERGEN.translations[1].title
    assert await page.inner_text("#organisation") == BERGEN.asker.organisation
    assert await page.evaluate("getComputedStyle(document.querySelector('#title')).direction") == (
        "rtl"
    )
    assert await axe(page) == []
    await context.close()


def test_styles_know_no_left_or_right():
    """But for maps, whose corners are those of the world."""
    physical = re.compile(
        r"(?:margin|padding|border)-(?:left|right)|text-align: *(?:left|right)|float:"
    )
    files = resources.files("geoveil.gateway") / "files"
    assert physical.search("padding-left: 1rem")
    for name in ("take-part.css", "geoveil-element.js"):
        assert not physical.search((files / name).read_text())
