"""Test open pages while the server restarts, a survey is closed and a token revoked.

After each no two sentences of a page contradict each other, and no button is offered that may not
be used. Fails if a page does not recover, counts on, or says that nobody has taken part.
"""

import socket

import pytest
from playwright.async_api import Page, expect

from geoveil.aggregator.ops.tokens import Scope, TokenFile
from tests.console.served import served, survey

pytestmark = pytest.mark.deep
_WITHIN_MS = 10_000


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
    return port


async def _enabled(page: Page) -> int:
    return await page.locator("button:enabled").count()


async def test_a_page_recovers_when_the_server_begins_again(tmp_path, context):
    web, page = f"127.0.0.1:{_free_port()}", await context.new_page()
    state = page.locator("[data-session]")
    async with served(tmp_path, web=web) as made:
        await made.publish(survey())
        await page.goto(f"{made.base}/console/surveys/income")
        await expect(page.locator("main")).to_contain_text("Nobody has taken part yet.")
        await made.report(survey(), 400)
        await expect(page.locator("main")).to_contain_text("Live: as of 400 reports.")
        await expect(page.locator("main")).not_to_contain_text("Nobody has taken part yet.")
        listed = await context.new_page()
        await listed.goto(f"{made.base}/console/")
    await expect(state).to_contain_text("Not connected since", timeout=_WITHIN_MS)
    assert await _enabled(page) == 0
    assert "Live:" not in await page.inner_text("main")
    await expect(listed.locator("[data-session]")).to_be_visible(timeout=2 * _WITHIN_MS)
    async with served(tmp_path, web=web) as made:
        await expect(page.locator("main")).to_contain_text(
            "Live: as of 400", timeout=3 * _WITHIN_MS
        )
        await expect(state).to_be_hidden()
        assert await _enabled(page) > 0
        await expect(listed.locator("[data-session]")).to_be_hidden(timeout=3 * _WITHIN_MS)
        await made.report(survey(), 100)
        await expect(page.locator("main")).to_contain_text("Live: as of 500", timeout=_WITHIN_MS)


async def test_a_closed_survey_and_a_revoked_token_leave_nothing_untrue(tmp_path, context):
    async with served(tmp_path, tokens=True) as made:
        await made.publish(survey())
        await made.report(survey(), 300)
        tokens = TokenFile(tmp_path / "tokens.json")
        bob = tokens.create("bob", [Scope.LIST, Scope.ESTIMATE], None)
        page = await context.new_page()
        await page.goto(f"{made.base}/console/surveys/income")
        await page.fill("#token", bob)
        await page.keyboard.press("Enter")
        await expect(page.locator("main")).to_contain_text("Live: as of 300")
        for words in ("Close it", "Participants that are planned", "Operators"):
            assert await page.locator(f"body :text('{words}')").count() == 0, words
        await made.analyst(lambda one: one.close_campaign("income"))
        await expect(page.locator(".standing .chip")).to_have_text("closed", timeout=_WITHIN_MS)
        said = await page.inner_text("main")
        for words in (" a day", " a second", "Live:", "Nobody has taken part"):
            assert words not in said, words
        await made.publish(survey("second", title="Second"))
        await page.goto(f"{made.base}/console/surveys/second")
        await expect(page.locator("main")).to_contain_text("Live: as of 0")
        tokens.revoke("bob")
        await expect(page.locator("[data-session]")).to_contain_text(
            "You were signed out", timeout=_WITHIN_MS
        )
        assert await _enabled(page) == 0
        await page.click("text=Sign in again")
        await page.wait_for_selector("#token")
