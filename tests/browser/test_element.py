"""Test `<geoveil-survey>` on another site's page, in a real browser, against a real server."""

import json
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from threading import Thread

import pytest

from geoveil.campaign import (
    Attribute,
    ChoiceField,
    Condition,
    FormCampaign,
    NumberField,
    SigningKey,
)
from geoveil.gp import GeoPrivacy
from tests.campaigns import DAY, NOW, above_100k

from .surveys import axe, running

pytestmark = pytest.mark.deep
PRIVATE = "52417"
DOLLARS = GeoPrivacy(1.0, 8_000.0, "dollar")
PAGE = """<!doctype html><html lang="en"><title>Ours</title>
<style>geoveil-survey {{ --geoveil-accent: rgb(0, 80, 0) }} geoveil-survey::part(button) {{ width: 300px }}</style>
<main><h1>Ours</h1><geoveil-survey campaign="{campaign}" server="{server}" key="{key}"></geoveil-survey></main>
<script>
  globalThis.heard = [];
  for (const name of ["geoveil-sent", "geoveil-error"]) addEventListener(name, ({{ detail: {{ receipt, error }} }}) =>
    heard.push([name, receipt?.status ?? error.code]));
</script>
<script type="module" src="/{script}"></script>"""  # noqa: E501


@contextmanager
def serving(files):
    """A server of some files, and of a page wherever there is none."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self):
            name = self.path[1:]
            content = files.get(name, files["page"])
            self.send_response(200)
            self.send_header("content-type", f"text/{'javascript' if name in files else 'html'}")
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
async def survey(tmp_path):
    """A server that pages of another origin may call, with a question and a form."""
    bundled = resources.files("geoveil.gateway") / "files"
    files = {file.name: file.read_bytes() for file in bundled.iterdir() if file.name.endswith("js")}
    rent = Attribute(name="rent", unit="dollar", least=0, most=5_000)
    fields = (
        ChoiceField(name="rents", options=("yes", "no"), epsilon=2.0),
        NumberField(
            attribute=rent, privacy=DOLLARS, applies=Condition(field="rents", options=("yes",))
        ),
    )
    with serving(files) as origin:
        async with running(tmp_path / "reports.db", web_origins=(origin,)) as made:
            await made.create(above_100k(title="<b>Income</b>"))
            dates = {"opens": NOW - DAY, "closes": NOW + DAY}
            form = FormCampaign(campaign_id="form", title="Household", fields=fields, **dates)
            await made.create(form)
            made.origin, made.files = origin, files
            yield made


def show(survey, campaign, key=None, script="geoveil-element.js"):
    server = f"http://{survey.gateway.address}"
    given = {"campaign": campaign, "server": server, "key": key or survey.key, "script": script}
    survey.files["page"] = PAGE.format(**given).encode()
    return survey.origin


async def shown(page):
    return await page.evaluate("document.querySelector('geoveil-survey').shadowRoot.textContent")


async def heard(page):
    return json.loads(await page.evaluate("JSON.stringify(heard)"))


async def test_a_report_of_an_element_on_a_bare_page_is_counted(survey, context):
    page = await context.new_page()
    sent = []
    page.on("request", lambda request: sent.append(request.post_data_buffer or b""))
    await page.goto(show(survey, "income"))
    button = page.get_by_role("button", name="Perturb and send")
    await button.wait_for()
    assert await page.inner_text("geoveil-survey h2") == "<b>Income</b>"
    text = await shown(page)
    assert "at most 2.72 times as likely" in text
    assert "right at most 73.2 %" in text
    assert f"Signed by {survey.key}." in text
    assert "above 100,000" in text
    styles = await button.evaluate("(it) => [getComputedStyle(it).backgroundColor, it.offsetWidth]")
    assert styles == ["rgb(0, 80, 0)", 300]
    assert await axe(page) == []
    await button.click()
    problem = page.get_by_role("alert").filter(has_text="Give a number, in dollar.")
    await problem.wait_for()
    await page.keyboard.type("-5")  # the button leads to what is missing
    await page.keyboard.press("Enter")
    await page.get_by_text("You wrote -5. Is that your household income, in dollar?").wait_for()
    assert await axe(page) == []
    await page.get_by_label("Household income").fill(PRIVATE)
    await page.get_by_text("fifty-two thousand four hundred seventeen").wait_for()
    told = "the server can tell that your household income is below 100,000 dollar"
    assert told in await shown(page)
    await page.keyboard.press("Enter")
    await page.get_by_text("Counted. The server has what is listed below.").wait_for()
    assert await axe(page) == []
    focused = await page.evaluate("document.activeElement.shadowRoot.activeElement.textContent")
    assert focused == "Your receipt"
    assert await survey.counted() == {"income": 1, "form": 0}
    assert await heard(page) == [["geoveil-sent", "acknowledged"]]
    assert PRIVATE not in await page.evaluate(
        "document.querySelector('geoveil-survey').shadowRoot.innerHTML"
    )
    assert all(PRIVATE.encode() not in body for body in sent)
    # Again: the receipt, nothing is asked, and nothing is sent.
    await page.reload()
    await page.get_by_text("Counted.").wait_for()
    assert not await button.is_visible()
    assert await heard(page) == []
    assert await survey.counted() == {"income": 1, "form": 0}


async def test_a_form_shows_the_questions_that_apply(survey, context):
    page = await context.new_page()
    await page.goto(show(survey, "form"))
    rent = page.get_by_label("rent", exact=True)
    await page.get_by_label("yes").wait_for()
    assert not await rent.is_visible()
    await page.get_by_label("yes").check()
    await rent.fill("900")
    assert await axe(page) == []
    await page.get_by_role("button", name="Perturb and send").click()
    await page.get_by_text("Counted. The server has what is listed below.").wait_for()
    assert await page.locator("geoveil-survey tr").count() == 2
    assert await survey.counted() == {"income": 0, "form": 1}


async def test_another_key_is_refused_and_a_server_that_is_gone_is_waited_for(survey, context):
    page = await context.new_page()
    other = str(SigningKey.generate().public)
    await page.goto(show(survey, "income", other))
    await page.get_by_text("the policy permits one of a trusted key").wait_for()
    assert await heard(page) == [["geoveil-error", "policy-refused"]]
    assert await page.locator("geoveil-survey form").count() == 0
    # The right one, without a connection once the question is there.
    await page.evaluate(
        "(key) => document.querySelector('geoveil-survey').setAttribute('key', key)", survey.key
    )
    await page.get_by_label("Household income").fill(PRIVATE)
    await context.set_offline(True)
    await page.keyboard.press("Enter")
    await page.get_by_text("Kept here, and sent as soon as").wait_for()
    assert await survey.counted() == {"income": 0, "form": 0}
    await context.set_offline(False)
    await page.get_by_text("Counted.").wait_for()
    assert await survey.counted() == {"income": 1, "form": 0}
    assert (await heard(page))[-1] == ["geoveil-sent", "acknowledged"]
