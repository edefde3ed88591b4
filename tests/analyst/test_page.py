"""docs/analyst.md, executed from top to bottom against a real server."""

import asyncio
import re
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from geoveil.analyst import ReportRows, campaign_for_points
from geoveil.campaign import PointQuestion, encode
from geoveil.gp import GeoPrivacy, Threshold
from geoveil.simulation.local_server import local_server
from geoveil.simulation.scale import write_reports

PAGE = Path(__file__).parents[2] / "docs" / "analyst.md"


def written(file):
    """Write the export of 2,000 incomes."""
    asked = campaign_for_points(
        attribute="household income",
        privacy=GeoPrivacy(1.0, per=8_000.0, unit="dollar"),
        campaign_id="later",
        title="Asked later",
        opens=datetime(2026, 1, 1, tzinfo=UTC),
        closes=datetime(2026, 2, 1, tzinfo=UTC),
    )
    rng = np.random.default_rng(1)
    points = rng.lognormal(11, 0.8, 2_000) + rng.laplace(0, 8_000, 2_000)
    integers = np.rint(points / asked.point_mechanism.step).astype(np.int64)
    rows = ReportRows(np.zeros(2_000, np.uint32), None, (integers,))
    write_reports(iter([encode(asked), rows]), file)


@pytest.mark.deep
def test_the_page_runs(tmp_path, monkeypatch, capsys):
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 8
    monkeypatch.chdir(tmp_path)
    written(Path("reports.parquet"))
    with local_server(tmp_path / "aggregator.db") as address:
        names = {"address": address}
        for block in blocks:
            exec(compile(block, str(PAGE), "exec"), names)
        assert asyncio.run(names["closed"]()) == "closed"
        wave = names["Means"]([PointQuestion("poor", Threshold(30_000.0, 24_000.0, "smoothstep"))])
        names["changed"](*(names["held"].ask(wave) for _ in range(3)))
    assert "Income above 100k open 0" in (printed := capsys.readouterr().out)
    assert "NOT_FOUND False None" in printed
    error = names["planned"].report()["alternatives"][0]["error_95"]
    assert 0 < error < 0.01


def test_the_table_says_the_same_in_both_languages(tmp_path, monkeypatch):
    from geoveil import analyst

    square = [[[-74.0, 40.7], [-73.9, 40.7], [-73.9, 40.8], [-74.0, 40.8], [-74.0, 40.7]]]
    monkeypatch.chdir(tmp_path)
    Path("district.geojson").write_text(
        str({"type": "Polygon", "coordinates": square}).replace("'", '"')
    )
    rows = re.findall(
        r"^\|[^|]*\| `([A-Z].*?)` \| `--(\w+) (.*?)` \|$", PAGE.read_text(), re.MULTILINE
    )
    assert len(rows) == 5
    for in_python, word, text in rows:
        made = eval(in_python, vars(analyst) | {"parts": [square]})
        (read,) = analyst.questions_in({word: [text]})
        if word != "circle" and word != "place":  # places are named by how they are written
            assert made == read
        assert type(made) is type(read)
        assert made.place == read.place
