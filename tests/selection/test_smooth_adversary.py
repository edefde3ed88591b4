"""Test by an adversary that searches for neighbours where a smooth mechanism breaks its promise."""

import json
import math

import pytest

from geoveil.selection import SmoothNoisyMax, SmoothUtilities

from .adversary import GOLDEN, MAKERS, Neighbours, cases, row

ROWS = json.loads(GOLDEN.read_text())
NAMES = [f"{r['name']}, share {r['share']}, {r['outcomes']}, size {r['size']}" for r in ROWS]


def test_every_case_has_its_row():
    assert [(r["name"], r["share"], r["outcomes"], r["size"]) for r in ROWS] == cases()


@pytest.mark.deep(keep=0)
@pytest.mark.parametrize("expected", ROWS[5::12], ids=NAMES[5::12])
def test_the_search_finds_what_the_file_says(expected):
    found = row(expected["name"], expected["share"], expected["outcomes"], expected["size"])
    assert found["loss"] == pytest.approx(expected["loss"], rel=1e-3)


@pytest.mark.parametrize("worst", ROWS, ids=NAMES)
def test_the_worst_neighbours_lose_what_is_promised_and_more_with_too_little_noise(worst):
    m = MAKERS[worst["name"]](worst["outcomes"], worst["share"])
    neighbours = Neighbours(tuple(worst["leads"]), worst["split"], worst["sign"])
    loss = neighbours.loss(m, worst["size"])
    assert loss == pytest.approx(worst["loss"], rel=1e-6)
    if worst["size"] == 1:
        assert loss <= m.guarantee.epsilon
    else:
        assert loss > m.guarantee.epsilon


def test_a_change_of_scale_beyond_beta_is_found_out():
    m = SmoothNoisyMax(1.0, 2, share=0.9)
    x = SmoothUtilities([0.0, 1e6], 1.0, beta=m.beta)
    y = SmoothUtilities([0.0, 1e6], math.exp(-m.beta), beta=m.beta)
    z = SmoothUtilities([0.0, 1e6], math.exp(-1.2 * m.beta), beta=m.beta)
    p, q, r = (m.probabilities(s)[0] for s in (x, y, z))
    assert math.log(p / q) == pytest.approx(0.9, rel=1e-3)
    assert math.log(p / r) > 1
