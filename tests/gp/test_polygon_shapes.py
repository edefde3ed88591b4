"""Test ways to write a polygon, and what is refused as one."""

import math
from typing import Any

import numpy as np
import pytest
import shapely

from geoveil.gp import ParameterError, PrivateValueError
from geoveil.gp.queries.polygon import Polygon
from tests.gp.test_polygon import INFINITY, box, make

OUTER, HOLE, OTHER = box(0, 0, 10, 10), box(3, 3, 7, 6), box(20, 0, 24, 4)


def closed(ring: list[Any]) -> list[Any]:
    return [*ring, ring[0]]


SAME: dict[str, list[Any]] = {
    "one ring": [
        OUTER,
        tuple(OUTER),
        closed(OUTER),
        [OUTER[0], *closed(OUTER)],
        np.array(OUTER),
        [OUTER],
        (OUTER, []),
        [(OUTER, [])],
        [[OUTER]],
        shapely.Polygon(OUTER),
        shapely.MultiPolygon([shapely.Polygon(OUTER)]),
        {"type": "Polygon", "coordinates": [closed(OUTER)]},
    ],
    "a hole": [
        [OUTER, HOLE],
        (OUTER, [HOLE]),
        [(OUTER, [HOLE])],
        [[OUTER, HOLE]],
        [np.array(OUTER), np.array(closed(HOLE))],
        shapely.Polygon(OUTER, [HOLE]),
        {"type": "Polygon", "coordinates": [closed(OUTER), closed(HOLE)]},
    ],
    "two parts": [
        [(OUTER, [HOLE]), (OTHER, [])],
        [[OUTER, HOLE], [OTHER]],
        [(OUTER, [HOLE]), OTHER],
        shapely.MultiPolygon([shapely.Polygon(OUTER, [HOLE]), shapely.Polygon(OTHER)]),
        {"type": "MultiPolygon", "coordinates": [[closed(OUTER), closed(HOLE)], [closed(OTHER)]]},
    ],
}


@pytest.mark.parametrize("region", SAME)
def test_ways_to_write_a_region(region):
    queries = [Polygon(shape, 2, "smoothstep") for shape in SAME[region]]
    rings = {
        "one ring": [[OUTER]],
        "a hole": [[OUTER, HOLE]],
        "two parts": [[OUTER, HOLE], [OTHER]],
    }
    expected = tuple(tuple(tuple(ring) for ring in part) for part in rings[region])
    for query in queries:
        assert query.region == expected
        assert query == queries[0]
        assert hash(query) == hash(queries[0])
        numbers = [c for part in query.region for ring in part for p in ring for c in p]
        assert {type(c) for c in numbers} == {float}
    assert queries[0].width == 2.0
    assert Polygon(queries[0].region, 2.0, "smoothstep") == queries[0]
    assert Polygon(OUTER, 2.0) != queries[0]
    assert Polygon(OTHER, 2.0, "smoothstep") != queries[0]


def test_parts_may_touch_at_a_point():
    query = Polygon([[box(0, 0, 4, 4)], [box(4, 4, 8, 8)]], width=1.0)
    np.testing.assert_array_equal(query.value([[4, 4], [3, 3], [5, 5], [3, 5]]), [0.5, 1, 1, 0])


def test_a_width_beyond_the_polygon_is_permitted():
    query = Polygon(box(0, 0, 2, 2), width=40.0)
    assert float(query.value((1.0, 1.0))) == 0.5 + 1 / 40
    assert query.lipschitz == 1 / 40


NO_REGIONS = (
    None, 5, "square", [], [[]], [1, 2, 3], [[[[[OUTER]]]]], {"type": "Polygon"},
    {"type": "Feature", "geometry": None}, shapely.Point(0, 0), shapely.Polygon(),
    np.zeros((0, 2)), iter(OUTER), OUTER[:2], [(1, 1)] * 5, np.zeros((4, 3)),
    [(0, 0), (1, 0), (1,)], [(0, 0), (1, 0), "ab"], [OUTER, [HOLE, HOLE[:2]]],
    [[OUTER, HOLE], None],
)  # fmt: skip
NUMBERS = (math.nan, 1e51, 10**400, True, "1")
INVALID = (
    [(0, 0), (1, 0), (2, 0)], [(0, 0), (2, 2), (2, 0), (0, 2)], [OUTER, box(20, 20, 21, 21)],
    [OUTER, box(8, 8, 12, 9)], [OUTER, HOLE, HOLE], [[OUTER], [HOLE]],
    [[OUTER], [box(10, 0, 12, 10)]],
)  # fmt: skip


@pytest.mark.parametrize("region", NO_REGIONS, ids=range(len(NO_REGIONS)))
def test_what_is_no_region_is_refused(region):
    with pytest.raises(ParameterError) as caught:
        Polygon(region, 1.0)
    assert caught.value.name.startswith("region")


@pytest.mark.parametrize("number", NUMBERS, ids=repr)
def test_what_is_no_coordinate_is_refused_and_named(number):
    hole = [(3, 3), (7, number), (7, 6)]
    for region, name in (
        ([*OUTER, (number, 4.0)], "region[4][0]"),
        ([OUTER, hole], "region[1][1][1]"),
        ((OUTER, [hole]), "region[1][0][1][1]"),
        ([[OTHER], [OUTER, hole]], "region[1][1][1][1]"),
    ):
        with pytest.raises(ParameterError) as caught:
            Polygon(region, 1.0)
        assert caught.value.name == name


@pytest.mark.parametrize("region", INVALID, ids=range(len(INVALID)))
def test_what_is_no_valid_polygon_is_refused(region):
    with pytest.raises(ParameterError, match="region must be a valid polygon"):
        Polygon(region, 1.0)


def test_other_parameters_are_refused():
    for width in (0.0, math.nan, "5", 1e-51):
        with pytest.raises(ParameterError, match="width"):
            Polygon(OUTER, width)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="profile"):
        Polygon(OUTER, 1.0, "cubic")  # type: ignore[arg-type]


def test_points_and_shapes():
    query = make("islands")
    assert query.dimension == 2
    assert query.value((0.0, 1.0)).shape == ()
    assert query.value(np.zeros((3, 4, 2))).shape == (3, 4)
    assert query.value(np.zeros((0, 2))).shape == (0,)
    assert query.smooth_bound(np.zeros((5, 2)), 1.0).shape == (5,)
    assert query.smooth_bound((0.0, 1.0), 1.0, reach=INFINITY).shape == ()
    for bad in (1.0, [1.0, 2.0, 3.0], [[math.nan, 0.0]], "here"):
        with pytest.raises(PrivateValueError):
            query.value(bad)
