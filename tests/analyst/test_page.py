"""docs/analyst.md, executed from top to bottom against a real server."""

import asyncio
import re
from pathlib import Path

from geoveil.simulation.local_server import local_server

PAGE = Path(__file__).parents[2] / "docs" / "analyst.md"


def test_the_page_runs(tmp_path, capsys):
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 4
    with local_server(tmp_path / "aggregator.db") as address:
        names = {"address": address}
        for block in blocks:
            exec(compile(block, str(PAGE), "exec"), names)
        assert asyncio.run(names["closed"]()) == "closed"
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
