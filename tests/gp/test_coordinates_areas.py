"""Test areas: the move onto the disc, and discs around boxes and polygons."""

import math

import numpy as np
import pytest
from pyproj import Geod

from geoveil.gp import ParameterError, PrivateValueError
from geoveil.gp.coordinates import Area

GEOD = Geod(ellps="WGS84")
CENTRES = [(-73.95, 40.72), (0.0, 0.0), (12.0, 89.5), (179.9, -45.0), (-60.0, -90.0)]
BOXES = [
    (-74.26, 40.49, -73.69, 40.92), (177.0, -20.0, -178.0, -16.0), (-10.0, -10.0, 30.0, 25.0),
    (-5.0, 60.0, 35.0, 71.5), (-180.0, -90.0, -120.0, -75.0), (100.0, 2.0, 180.0, 40.0),
    (2.35, 48.85, 2.36, 48.86), (-30.0, -85.0, 10.0, -60.0), (170.0, 50.0, -180.0, 51.0),
]  # fmt: skip


def distances(area, places):
    n = len(places)
    centre = np.full(n, area.longitude_deg), np.full(n, area.latitude_deg)
    return np.asarray(GEOD.inv(*centre, places[:, 0], places[:, 1])[2])


def geojson(*rings):
    if len(rings) == 1:
        return {"type": "Polygon", "coordinates": [rings[0]]}
    return {"type": "MultiPolygon", "coordinates": [[ring] for ring in rings]}


class Drawn:
    """Anything that speaks the protocol of shapely and its relatives."""

    def __init__(self, geometry):
        self.__geo_interface__ = geometry


# The move onto the disc -------------------------------------------------------------------------


@pytest.mark.deep(keep=11)
@pytest.mark.parametrize("centre", CENTRES)
@pytest.mark.parametrize("radius", [1e3, 6e4, 2e6, 5e6])
def test_the_move_brings_no_two_places_farther_apart(centre, radius):
    """Oracle: geodesic lengths before and after, of pairs everywhere on the Earth."""
    rng = np.random.default_rng(2)
    n, area = 8_000, Area(*centre, radius_m=radius)
    start = np.full(n, centre[0]), np.full(n, centre[1])
    far = np.choose(rng.integers(0, 3, n), [radius, 1.2 * radius, 20_003_000.0])
    a = GEOD.fwd(*start, rng.uniform(0, 360, n), far * rng.random(n) ** 0.5)[:2]
    b = GEOD.fwd(*a, rng.uniform(0, 360, n), 10 ** rng.uniform(0, 6.5, n))[:2]
    moved_a, moved_b = (area.contract(np.stack(p, axis=-1)) for p in (a, b))
    before = np.asarray(GEOD.inv(*a, *b)[2])
    after = np.asarray(GEOD.inv(*moved_a.T, *moved_b.T)[2])
    assert ((after - 1e-7) / before).max() <= 1
    assert distances(area, moved_a).max() <= radius + 1e-7


def test_a_place_inside_stays_and_one_outside_goes_straight_to_the_edge():
    area = Area(-73.95, 40.72, radius_m=6e4)
    assert (area.contract([-73.9, 40.8]) == [-73.9, 40.8]).all()
    outside, edge = (np.array(GEOD.fwd(-73.95, 40.72, 33.0, d)[:2]) for d in (9e6, 6e4))
    assert area.contract(outside) == pytest.approx(edge, abs=1e-12)
    # Half-way round the Earth every direction is the same: the centre.
    antipode = np.array([106.05, -40.72])
    assert area.contract(antipode) == pytest.approx([-73.95, 40.72], abs=1e-12)


@pytest.mark.parametrize("bad", [[200.0, 77.123], [0.0, -91.0], [math.nan, 0.0], "77.123"])
def test_what_is_no_place_is_refused_without_being_shown(bad):
    with pytest.raises(PrivateValueError) as caught:
        Area(0.0, 0.0, 1e3).contract(bad)
    assert "77.123" not in str(caught.value) + repr(caught.value)


@pytest.mark.parametrize(
    ("name", "bad"),
    [("longitude_deg", math.nan), ("latitude_deg", "0"), ("radius_m", 0), ("radius_m", 6e6)],
)
def test_parameters_out_of_range_are_named(name, bad):
    with pytest.raises(ParameterError) as caught:
        Area(**({"longitude_deg": 0.0, "latitude_deg": 0.0, "radius_m": 1.0} | {name: bad}))
    assert caught.value.name == name


def disc_of_box(west: float, south: float, east: float, north: float) -> Area:
    east += 360 * (east < west)
    return Area.of_polygon(geojson([(west, south), (east, south), (east, north), (west, north)]))


# Boxes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("box", BOXES)
def test_a_box_is_inside_its_disc_which_is_hardly_larger(box):
    west, south, east, north = box
    width = (east - west) % 360
    lon, lat = np.meshgrid(np.linspace(0, width, 150), np.linspace(south, north, 150))
    lon = (west + lon + 180) % 360 - 180
    area = disc_of_box(*box)
    farthest = distances(area, np.stack([lon.ravel(), lat.ravel()], axis=-1)).max()
    assert farthest <= area.radius_m <= farthest * 1.002 + 1
    assert area.latitude_deg == (south + north) / 2
    assert math.remainder(area.longitude_deg - west - width / 2, 360) == pytest.approx(0, abs=1e-9)


# Polygons ---------------------------------------------------------------------------------------


def star(seed):
    """A polygon with dents, as wide as a country, and places inside it."""
    rng = np.random.default_rng(seed)
    middle = np.array([rng.uniform(-180, 180), rng.uniform(-55, 65)])
    size = rng.uniform(0.1, 12, 2)
    angle = np.sort(rng.uniform(0, 2 * np.pi, 15))
    spokes = rng.uniform(0.2, 1, 15)[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    # Between a vertex and its next, all the way to the middle.
    along, out = rng.random((2, 3_000, 15, 1))
    out[:1_000] = 1
    within = out * (spokes + along * (np.roll(spokes, -1, axis=0) - spokes))
    return middle + size * spokes, (middle + size * within).reshape(-1, 2)


@pytest.mark.parametrize("seed", range(12))
def test_a_polygon_is_inside_its_disc_which_is_hardly_larger(seed):
    vertices, places = star(seed)
    area = Area.of_polygon(Drawn(geojson(vertices.tolist())))
    farthest = distances(area, places).max()
    assert farthest <= area.radius_m
    assert area.radius_m <= distances(area, vertices).max() * 1.004 + 1


def test_the_vertices_alone_are_not_enough():
    """Control: the farthest place of this polygon lies 13 km beyond its vertices, on an edge."""
    corners = np.array([(179, 71), (135, 51), (170, 83), (20, 81), (4, 87)], dtype=float)
    edge = corners[0] + np.linspace(0, 1, 1001)[:, None] * (corners[1] - corners[0])
    area = Area.of_polygon(geojson(corners))
    assert distances(area, corners).max() < distances(area, edge).max() - 13_000
    assert distances(area, edge).max() <= area.radius_m


def test_a_box_and_its_polygon_have_the_same_disc():
    west, south, east, north = BOXES[0]
    ring = [(west, south), (east, south), (east, north), (west, north), (west, south)]
    expected = disc_of_box(*BOXES[0])
    assert Area.of_polygon(geojson(ring)) == expected
    assert Area.of_polygon(geojson([(*vertex, 12.5) for vertex in ring])) == expected  # heights
    hole = [(-74.0, 40.6), (-73.9, 40.6), (-73.9, 40.7)]
    assert Area.of_polygon({"type": "Polygon", "coordinates": [ring, hole]}) == expected


def test_across_the_antimeridian_cut_in_two_and_counted_on_are_the_same():
    viti = [(177.0, -19.0), (180.0, -19.0), (180.0, -16.0), (177.0, -16.0)]
    lau = [(-180.0, -19.0), (-178.0, -19.0), (-178.0, -16.0), (-180.0, -16.0)]
    whole = [(177.0, -19.0), (182.0, -19.0), (182.0, -16.0), (177.0, -16.0)]
    behind = [(longitude - 360, latitude) for longitude, latitude in whole]
    expected = disc_of_box(177.0, -19.0, -178.0, -16.0)
    assert expected.longitude_deg == 179.5
    assert expected.radius_m < 330_000
    for drawn in (geojson(viti, lau), geojson(lau, viti), geojson(whole), geojson(behind)):
        assert Area.of_polygon(drawn) == expected


def test_many_parts_are_taken_together_the_short_way_round():
    rng = np.random.default_rng(4)
    for _ in range(50):
        west = rng.uniform(-180, 180) + rng.uniform(0, 40, 6)
        turns = 360 * np.round((rng.uniform(-180, 180, 6) - west) / 360)  # any turn will do
        rings = [[(lon, 0.0), (lon + 1, 0.0), (lon + 1, 1.0), (lon, 1.0)] for lon in west + turns]
        area = Area.of_polygon(geojson(*rings))
        middle = (west.min() + west.max() + 1) / 2
        assert math.remainder(area.longitude_deg - middle, 360) == pytest.approx(0, abs=1e-9)
        assert area.radius_m < 0.6 * 111_400 * (np.ptp(west) + 1)


def test_polygons_of_shapely_are_taken():
    shapely = pytest.importorskip("shapely")
    box = shapely.box(*BOXES[0])
    assert Area.of_polygon(box) == disc_of_box(*BOXES[0])
    both = shapely.MultiPolygon([shapely.box(178, -1, 180, 1), shapely.box(-180, -1, -179, 1)])
    assert Area.of_polygon(both) == disc_of_box(178, -1, -179, 1)
    for empty in (shapely.Polygon(), shapely.MultiPolygon(), shapely.Point(0, 0)):
        with pytest.raises(ParameterError, match="polygon"):
            Area.of_polygon(empty)


SQUARE = [(0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0)]


@pytest.mark.parametrize(
    "bad",
    [SQUARE, {"type": "Point", "coordinates": (0, 0)}, {"type": "Polygon"},
     {"type": "Polygon", "coordinates": []}, {"type": "MultiPolygon", "coordinates": [SQUARE]},
     geojson(SQUARE[:2]), geojson([(0.0,), (1.0,), (2.0,)]),
     geojson([(0.0, 0.0), (1.0, 0.0), (2.0, 0.0)]), geojson([*SQUARE, (math.nan, 0.0)]),
     geojson([*SQUARE, (0.0, 91.0)]), geojson([*SQUARE, "ab"]),
     geojson([(-179.0, 0.0), (179.0, 0.0), (179.0, 1.0)]),
     geojson([(0.0, 0.0), (1.0, 0.0), (0.0, 1.0)], [(120.0, 0.0), (121.0, 0.0), (121.0, 1.0)],
             [(-120.0, 0.0), (-121.0, 0.0), (-121.0, 1.0)])],
)  # fmt: skip
def test_what_is_no_polygon_is_refused(bad):
    with pytest.raises(ParameterError) as caught:
        Area.of_polygon(bad)
    assert caught.value.name == "polygon"


def test_a_polygon_too_large_is_refused():
    with pytest.raises(ParameterError) as caught:
        Area.of_polygon(geojson([(-80.0, -60.0), (80.0, -60.0), (80.0, 60.0), (-80.0, 60.0)]))
    assert caught.value.name == "radius_m"
