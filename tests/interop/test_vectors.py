"""Test that Python's device meets the published vectors, and that they are current."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from geoveil.campaign import FormCampaign, decode
from geoveil.gp import LogScale
from geoveil.gp.coordinates import AzimuthalEquidistant
from tools.vectors import VERSION, text
from tools.vectors.categories import KINDS
from tools.vectors.tape import Tape, answers_of

FOLDER = Path(__file__).parents[2] / "proto" / "vectors"


def _items(name: str) -> list[dict[str, Any]]:
    found = json.loads((FOLDER / name).read_text())
    assert found.pop("version") == VERSION
    (items,) = found.values()
    return items


def _bits(hexadecimal: str) -> str:
    return "".join(f"{int(digit, 16):04b}" for digit in hexadecimal)


def test_released_vectors_are_met_with_exactly_their_bits():
    cases = 0
    for item in _items("release.json"):
        campaign = decode(bytes.fromhex(item["campaign"]))
        for case in item["cases"]:
            tape = Tape("others", _bits(case["bits"]))
            found = answers_of(campaign, case["point"], tape)
            assert found == (case["id"], case["answers"]), item["name"]
            assert tape.hexadecimal == case["bits"], item["name"]
            cases += 1
    assert cases > 250


def test_a_device_with_another_bit_answers_something_else():
    noticed = 0
    items = _items("release.json")
    for item in items:
        campaign, case = decode(bytes.fromhex(item["campaign"])), item["cases"][0]
        bits = _bits(case["bits"])
        columns = 0 if campaign.answers_all else (campaign.columns - 1).bit_length()
        at = columns + 128  # the first bit of the first uniform number
        changed = bits[:at] + str(1 - int(bits[at])) + bits[at + 1 :]
        tape = Tape("others", changed)
        _, answers = answers_of(campaign, case["point"], tape)
        noticed += answers != case["answers"]
    assert noticed > len(items) / 2  # the others are on plateaus, far away


def test_campaigns_are_refused_for_reasons_that_the_page_names():
    told = _items("campaigns.json")
    refused = [item["reason"] for item in told if item["verdict"] == "refused"]
    page = (FOLDER.parents[1] / "docs" / "protocol.md").read_text()
    assert set(refused) == set(re.findall(r"^\* \*\*[^*]+\*\* \(`(\w+)`\)", page, re.MULTILINE))
    assert len(refused) > 200
    assert len(told) - len(refused) > 100


def test_the_page_describes_every_file():
    page = (FOLDER.parents[1] / "docs" / "protocol.md").read_text()
    described = re.findall(r"^\* \*\*(\w+\.json)\.\*\*", page, re.MULTILINE)
    assert sorted(described) == sorted(file.name for file in FOLDER.glob("*.json"))


def test_logarithms_are_the_nearest_doubles():
    told = _items("logarithms.json")
    assert sum(len(item["values"]) for item in told) == 8
    for item in told:
        scale = LogScale(item["floor"])
        assert list(map(scale.coordinate, item["values"])) == item["coordinates"]


def test_places_are_projected_to_1e_8_m():
    for item in _items("projection.json"):
        plane = AzimuthalEquidistant(*item["plane"])
        assert plane.distortion == item["distortion"]
        assert np.abs(plane.project(item["places"]) - item["points"]).max() <= 1e-8


@pytest.mark.deep(keep=3)
@pytest.mark.parametrize(
    "name",
    [
        *("release", "campaigns", "ledger", "epochs", "consent", "numbers", "categories", "forms"),
        "relay",
    ],
)
def test_vectors_are_what_the_tool_writes(name):
    assert text(name) == (FOLDER / f"{name}.json").read_text()


def test_categories_are_met_with_exactly_their_bits():
    told = _items("categories.json")
    assert {item["kind"] for item in told} == set(KINDS)
    for item in told:
        tape = Tape("later", item.get("given", ""))
        mechanism = KINDS[item["kind"]](item["options"], item["epsilon"])
        report = mechanism.release(int(item["value"]), tape)
        assert list(map(str, report)) == item["report"]
        assert tape.drawn == item["drawn"]


def test_forms_are_met_with_exactly_their_bits():
    told = _items("forms.json")
    assert sum("base" in item for item in told) > 80
    for item in told:
        for case in item.get("cases", ()):
            form, tape = decode(bytes.fromhex(item["form"])), Tape(case["seed"])
            assert isinstance(form, FormCampaign)
            prepared = form.prepare(case["answers"])
            assert f"{tape.bits(128):032x}" == case["id"]
            assert list(map(str, form.release(prepared, tape))) == case["report"]
            assert tape.drawn == case["drawn"]


def test_vectors_are_small():
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 500_000
