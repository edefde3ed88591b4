"""Test the list of surveys: its sentences, sorting, filters, and readers."""

import re
from datetime import timedelta

import pytest

from geoveil.aggregator.ops.tokens import Scope, TokenFile
from geoveil.analyst import Quantiles
from tests.campaigns import NOW

from .served import numbers, places, served, survey

pytestmark = pytest.mark.deep


async def test_each_row_says_the_answer_and_only_to_whom_it_may_be_said(tmp_path):
    async with served(tmp_path, tokens=True) as made:
        for number, count in enumerate((40, 300, 120)):
            one = survey(f"s{number}", title=f"Survey {number}")
            await made.publish(one)
            await made.report(one, count)
        few = survey("few", title="Few", minimum_participants=50)
        await made.publish(few, survey("soon", title="Soon", opens=NOW + timedelta(days=3)))
        await made.report(few, 7)
        async with made.signed_in() as client:
            page = (await client.get("/console/")).text
            for number in range(3):
                found = await made.analyst(lambda one, n=number: one.estimate(f"s{n}"))
                assert str(found.sentences[0]) in page
            assert "Hidden until 50 have answered." in page
            page = (await client.get("/console/?sort=-answers")).text
            titles = re.findall(r'scope="row" title="([^"]+)"', page)
            assert titles == ["Survey 1", "Survey 2", "Survey 0", "Few", "Soon"]
            assert 'aria-sort="descending"' in page
            page = (await client.get("/console/?state=pending&sort=title")).text
            assert re.findall(r'scope="row" title="([^"]+)"', page) == ["Soon"]
        lists = TokenFile(tmp_path / "tokens.json").create("lister", [Scope.LIST], None)
        async with made.signed_in(lists) as client:
            page = (await client.get("/console/")).text
            assert "Survey 1" in page
            assert "of people" not in page


async def test_points_say_their_median_first_and_places_a_map(tmp_path):
    async with served(tmp_path) as made, made.signed_in() as client:
        await made.publish(numbers(), places())
        await made.report(numbers(), 1_500)
        await made.report(places(), 1_500)
        found = await made.analyst(lambda one: one.ask("incomes", Quantiles(levels=[0.5])))
        (said,) = found.sentences
        sentence = str(said).replace("the median.", "the median household income.")
        assert "is the mean household income." in (await client.get("/console/")).text
        line = await client.get("/console/surveys/incomes/headline?form=line")
        assert line.text == sentence
        page = (await client.get("/console/")).text
        assert sentence in page
        assert "is the mean household income." not in page
        fragment = (await client.get("/console/surveys/incomes/headline")).text
        assert said.interval in fragment
        assert "<polyline" in fragment
        fragment = (await client.get("/console/surveys/places/headline")).text
        assert 'id="area"' in fragment  # outlines within a map
        await made.publish(survey())
        assert (await client.get("/console/surveys/income/headline")).status_code == 404
