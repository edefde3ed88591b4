"""Test public results: only those of the operator's choice, to the digit."""

import csv
import io
from pathlib import Path
from typing import Any

import pytest

from geoveil.aggregator.ops.tokens import Scope, TokenFile
from geoveil.campaign import Asker

from .served import served, survey

pytestmark = pytest.mark.deep


def chosen(folder: Path, *campaigns: str) -> dict[str, Any]:
    """Return settings by which the results of these campaigns are public."""
    token = TokenFile(folder / "tokens.json").create("public", [Scope.ESTIMATE], None, campaigns)
    (folder / "public").write_text(f"{token}\n")
    return {"tokens": True, "results_token_file": folder / "public"}


async def test_only_chosen_results_are_public_and_equal_the_estimate(tmp_path):
    asker = Asker(organisation="City of Bergen", purpose="buses", contact="a@bergen.example")
    few = survey("few", minimum_participants=50, asker=asker)
    async with served(tmp_path, **chosen(tmp_path, "income", "few")) as made:
        await made.publish(survey(), few, survey("secret"))
        await made.report(survey(), 300)
        await made.report(survey("secret"), 300)
        await made.report(few, 49)
        found = await made.analyst(lambda one: one.estimate("income"))
        async with made.browser() as anybody:
            page = await anybody.get("/results/income")
            assert page.status_code == 200
            assert "set-cookie" not in page.headers
            assert f'og:description" content="{found.sentences[0]}"' in page.text
            assert f'value="{found.estimates[0].possible!r}"' in page.text
            assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
            told = (await anybody.get("/results/income.json")).json()
            assert told == found.to_dict()
            (row,) = csv.DictReader(io.StringIO((await anybody.get("/results/income.csv")).text))
            assert row["answer"] == str(found.sentences[0])
            assert float(row["ci_low"]) == found.estimates[0].ci_low
            assert row["method"].startswith(found.notes[0])
            picture = (await anybody.get("/results/income.svg")).text
            assert "<desc>" in picture
            assert str(found.sentences[0]) in picture
            assert "Who asks</dt><dd>unknown" in page.text
            assert "keeps single answers is unknown" in page.text
            shown = (await anybody.get("/results/few")).text
            assert "before 50 have answered" in shown
            assert "Who asks</dt><dd><bdi>City of Bergen" in shown
            assert (await anybody.get("/results/few.csv")).status_code == 409
            for path in ("secret", "none", "", "income.txt", "../console/", "files/nothing"):
                assert (await anybody.get(f"/results/{path}")).status_code in (303, 404), path
            for path, status in (("/pages/results", 200), ("/results/secret", 404)):
                assert (await anybody.head(path)).status_code == status
            assert (await anybody.post("/results/income")).status_code in (404, 413)
            TokenFile(tmp_path / "tokens.json").revoke("public")
            made.gateway._site._mounts["/results/"].application._kept.clear()
            assert (await anybody.get("/results/income")).status_code == 404


async def test_frames_are_of_listed_origins_and_nothing_is_public_unless_chosen(tmp_path):
    frames = ("https://news.example.org",)
    async with served(tmp_path, **chosen(tmp_path, "income"), results_frames=frames) as made:
        await made.publish(survey())
        async with made.browser() as anybody:
            headers = (await anybody.get("/results/income")).headers
            assert "frame-ancestors https://news.example.org;" in headers["content-security-policy"]
            assert "x-frame-options" not in headers
            console = (await anybody.get("/console/sign-in")).headers
            assert "frame-ancestors 'none'" in console["content-security-policy"]
            assert console["x-frame-options"] == "DENY"
    (tmp_path / "other").mkdir()
    async with served(tmp_path / "other") as made:
        await made.publish(survey())
        async with made.browser() as anybody:
            assert (await anybody.get("/results/income")).status_code == 404
            assert (await anybody.head("/pages/results")).status_code == 204
