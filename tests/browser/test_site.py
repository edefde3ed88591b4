"""Test the site's animated page from a disk, and the links of `make site`."""

import re
from pathlib import Path

import pytest

from tools import site

from .surveys import axe

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "metric-privacy.md"


def written(folder):
    """Write what moves as a page of its own, which needs no Sphinx."""
    (body,) = re.findall(r'^<div id="moving".*?^</div>$', PAGE.read_text(), re.S | re.M)
    (folder / "moving.js").write_text(site.moving())
    page = folder / "page.html"
    page.write_text(
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Odds</title>'
        f'<main><h1>Odds</h1>{body}</main><script src="moving.js"></script></html>'
    )
    return page


@pytest.mark.deep
async def test_what_moves_is_true_of_the_numbers_shown(context, tmp_path):
    """Without a server, by keys alone, and as the page says where there is no JavaScript."""
    page = await context.new_page()
    complaints = []
    asked = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    await page.goto(written(tmp_path).as_uri())
    said = page.locator("#odds-said")
    assert await page.locator("#dots circle").count() == 120
    assert "at most 2.72 times as likely" in await said.inner_text()
    assert "at most 73.2 % of the time" in await said.inner_text()
    assert "at most 2.72 times as likely for your income" in await page.inner_text("#consent")
    first = await page.inner_html("#dots")
    await page.focus("#apart")
    for keys, percent in (("ArrowLeft", 8), ("ArrowRight", 24)):
        for _ in range(percent):
            await page.keyboard.press(keys)
        await page.wait_for_timeout(300)
        right = "62.3 %" if keys == "ArrowLeft" else "88.1 %"
        assert right in await said.inner_text()
        assert right in " ".join(PAGE.read_text().split())
    dots = await page.locator("#dots circle").evaluate_all(
        "all => all.slice(0, 60).map((dot) => dot.outerHTML)"
    )
    assert all(dot in first for dot in dots)  # Ada's keep their luck while Bob moves
    await page.fill("#apart", "0")
    await page.wait_for_timeout(300)
    assert "nobody can tell" in await said.inner_text()
    await page.fill("#people", "12")  # 8,000·√2/√10⁶
    await page.wait_for_timeout(300)
    assert "less than about 11 dollar" in await page.inner_text("#price-said")
    assert await axe(page) == []
    assert complaints == []
    assert all(url.startswith("file:") for url in asked)


def test_links_that_lead_nowhere_are_named(tmp_path):
    (tmp_path / "a.html").write_text(
        '<p id="here"><a href="#here"></a><a href="b.html#there"></a><a href="c.html"></a>'
        '<a href="https://example.org/x"></a><img src="d%20e.png">'
    )
    (tmp_path / "b.html").write_text("<p>")
    assert site.broken(tmp_path) == [
        "a.html: b.html#there leads nowhere",
        "a.html: c.html leads nowhere",
        "a.html: d%20e.png leads nowhere",
    ]
