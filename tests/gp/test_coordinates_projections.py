"""Test projections over an area: certified distortion, PROJ's numbers, and the true ε."""

import math
import threading
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from pyproj import Geod, Proj

from geoveil.gp import GeoPrivacy, ParameterError, PrivateValueError
from geoveil.gp.coordinates import Area, AzimuthalEquidistant
from geoveil.simulation.mercator import SphericalMercator

GEOD = Geod(ellps="WGS84")
NEW_YORK, FIJI = (-73.95, 40.7), (179.6, -17.5)
MERCATOR = [
    SphericalMercator(Area(*NEW_YORK, radius_m=radius)) for radius in (1e3, 6e4, 1e6, 4.5e6)
] + [
    SphericalMercator(Area(*centre, radius_m=radius))
    for centre, radius in [
        (FIJI, 5e5), ((0.0, 0.0), 3e6), ((20.0, 78.0), 7e5), ((-70.0, -60.0), 2e6)
    ]
]  # fmt: skip
AZIMUTHAL = [
    AzimuthalEquidistant(*NEW_YORK, radius_m=6e4),
    AzimuthalEquidistant(*FIJI, radius_m=6e4),
]
PLANES = [*AZIMUTHAL, *MERCATOR]
WIDE = [
    AzimuthalEquidistant(*centre, radius_m=radius)
    for centre in (NEW_YORK, (12.0, 89.5), (179.9, -45.0), (-60.0, -90.0))
    for radius in (1e3, 5e6)
]
SMALL = [plane for plane in PLANES if plane.area.radius_m <= 6e4]
name = repr


def moved(lon, lat, azimuth, distance):
    return GEOD.fwd(lon, lat, azimuth, distance)[:2]


def around(area, azimuth, distance):
    """Places at azimuths and distances from the centre of an area."""
    n = len(azimuth)
    lon, lat = np.full(n, area.longitude_deg), np.full(n, area.latitude_deg)
    return moved(lon, lat, azimuth, distance)


def stretch(plane, a, b):
    """Plane distance less 10⁻⁷ m (rounding of places and of the oracle), over true distance."""
    _, _, true = GEOD.inv(*a, *b)
    gap = plane.project(np.stack(a, axis=-1)) - plane.project(np.stack(b, axis=-1))
    return (np.linalg.norm(gap, axis=-1) - 1e-7) / true


@pytest.mark.deep(keep=6)
@pytest.mark.parametrize("plane", [*PLANES, *WIDE], ids=name)
def test_no_pair_of_places_is_stretched_beyond_the_distortion(plane):
    """Oracle: geodesic lengths of near and far pairs: inside, at the edge, beyond, antipodal."""
    rng = np.random.default_rng(11)
    n, radius = 12_000, plane.area.radius_m
    near, edge = radius * np.sqrt(rng.random(n)), radius * rng.uniform(0.99, 1.01, n)
    anywhere, antipode = 2e7 * np.sqrt(rng.random(n)), rng.uniform(1.95e7, 2.0003e7, n)
    distance = np.choose(rng.integers(0, 4, n), [near, edge, anywhere, antipode])
    a = around(plane.area, rng.uniform(0, 360, n), distance)
    b = moved(*a, rng.uniform(0, 360, n), 10 ** rng.uniform(0, 7, n))
    assert stretch(plane, a, b).max() <= plane.distortion


@pytest.mark.parametrize("plane", PLANES, ids=name)
def test_the_distortion_is_reached(plane):
    """So κ costs no accuracy: some pair near the edge comes within 0.05 %, for cities 0.01 %."""
    azimuth, radius = np.arange(360.0), plane.area.radius_m
    step = min(100.0, radius / 100)
    a, b = (around(plane.area, azimuth, np.full(360, (1 - 1e-6) * radius - s)) for s in (0, step))
    assert stretch(plane, a, b).max() >= 0.9995 * plane.distortion
    if plane.area.radius_m <= 6e4:
        assert stretch(plane, a, b).max() >= 0.9999 * plane.distortion


@pytest.mark.parametrize("radius", [60_000.0, 1_000_000.0, 5_000_000.0])
def test_distortion_is_above_and_near_the_factors_of_proj(radius):
    proj = Proj(f"+proj=aeqd +lat_0={NEW_YORK[1]} +lon_0={NEW_YORK[0]} +ellps=WGS84")
    plane = AzimuthalEquidistant(*NEW_YORK, radius_m=radius)
    lon, lat = around(plane.area, np.linspace(0, 360, 37), np.full(37, radius * 0.999))
    largest = float(np.max(proj.get_factors(lon, lat).tissot_semimajor))
    assert largest <= plane.distortion
    assert plane.distortion - 1 <= 1.02 * (largest - 1) + 1e-6


def test_a_plane_without_contraction_would_break_the_bound():
    """Control: the raw projection stretches places near the antipode without limit."""
    plane = AZIMUTHAL[0]
    _, _, half = GEOD.inv(*NEW_YORK, NEW_YORK[0] + 180, -NEW_YORK[1])
    lon, lat = around(plane.area, [0.0, 90.0], [half - 60_000] * 2)
    _, _, true = GEOD.inv(lon[0], lat[0], lon[1], lat[1])
    assert math.hypot(half - 60_000, half - 60_000) / true > 10 * plane.distortion
    a, b = plane.project(np.stack([lon, lat], axis=-1))
    assert np.linalg.norm(a - b) <= true * plane.distortion * (1 + 1e-9)


def test_distance_and_azimuth_from_the_centre_are_kept():
    place = moved(*NEW_YORK, 30.0, 12_345.0)
    assert AZIMUTHAL[0].project(place) == pytest.approx(
        [12_345 * math.sin(math.pi / 6), 12_345 * math.cos(math.pi / 6)], abs=1e-6
    )


@pytest.mark.parametrize("plane", MERCATOR, ids=name)
def test_the_scale_at_the_centre_is_not_enough(plane):
    """Control: with κ from the centre alone, the brute force finds pairs that are farther apart."""
    area = plane.area
    point = SphericalMercator(Area(area.longitude_deg, area.latitude_deg, 1.0))
    azimuth, radius = np.arange(360.0), area.radius_m
    a, b = (around(area, azimuth, np.full(360, 0.999 * radius - s)) for s in (0, 10))
    if radius >= 6e4:
        assert stretch(plane, a, b).max() > point.distortion
    assert point.distortion <= plane.distortion


@pytest.mark.parametrize("plane", MERCATOR, ids=name)
def test_distortion_is_above_the_factors_of_proj_all_over_the_area(plane):
    """The highest latitude alone is tried for the bound: this looks inside."""
    rng = np.random.default_rng(5)
    n = 20_000
    distance = plane.area.radius_m * np.sqrt(rng.random(n))
    distance[:360] = plane.area.radius_m * (1 - 1e-9)
    azimuth = np.concatenate([np.arange(360.0), rng.uniform(0, 360, n - 360)])
    lon, lat = around(plane.area, azimuth, distance)
    # PROJ's factors would be those of the sphere: differences, on the ellipsoid
    h = 1e-5
    y = [Proj("+proj=merc +R=6371000")(lon, lat + s * h)[1] for s in (-1, 1)]
    _, _, true = GEOD.inv(lon, lat - h, lon, lat + h)
    largest = float(np.max((y[1] - y[0]) / true)) - 1e-7
    assert largest <= plane.distortion
    assert plane.distortion <= 1.0005 * largest


def test_in_new_york_mercator_makes_a_stated_epsilon_1_32_times_weaker():
    plane = SphericalMercator(Area(-73.95, 40.7, radius_m=1.0))
    # Oracle: the closed form, in 30 digits.
    with mp.workdps(30):
        f = 1 / mp.mpf("298.257223563")
        e2, phi = f * (2 - f), mp.radians(mp.mpf("40.7"))
        meridional = 6378137 * (1 - e2) / (1 - e2 * mp.sin(phi) ** 2) ** 1.5
        expected = 6371000 / (meridional * mp.cos(phi))
    assert plane.distortion == pytest.approx(float(expected), rel=1e-6)
    assert plane.distortion >= expected
    assert plane.distortion == pytest.approx(1.32, abs=0.005)


@pytest.mark.parametrize("plane", SMALL, ids=name)
def test_what_privacy_calibrates_holds_in_true_metres_and_wastes_nothing(plane):
    true = GeoPrivacy(epsilon=0.7, per=300.0, unit="metre", delta=1e-9, reach=1234.5)
    used = plane.privacy(true)
    kappa = Fraction(plane.distortion)
    assert used.exact_rate * kappa <= true.exact_rate
    assert used.exact_rate * kappa >= true.exact_rate * (1 - Fraction(1, 2**51))
    assert Fraction(used.reach) >= kappa * Fraction(true.reach)
    assert (used.per, used.unit, used.delta) == (true.per, true.unit, true.delta)
    assert plane.privacy(GeoPrivacy(1.0, 1.0)).reach == math.inf


@pytest.mark.parametrize("plane", MERCATOR, ids=name)
def test_mercator_is_that_of_proj(plane):
    places = inside(plane.area)
    x, y = Proj("+proj=merc +R=6371000")(*places.T)
    # One turn of the sphere, where the area crosses the antimeridian.
    gap = plane.project(places) - np.stack([x, y], axis=-1)
    turns = np.round(gap[:, 0] / (2 * math.pi * 6371000))
    assert np.abs(gap - np.stack([turns * 2 * math.pi * 6371000, 0 * turns], axis=-1)).max() < 1e-7
    assert (turns != 0).any() == (plane.area.longitude_deg == FIJI[0])


def test_the_published_plane_of_new_york_is_met():
    """[SGP §5] clips its data to x ∈ [−8.3, −8.19]·10⁶ and y ∈ [4.91, 5.0]·10⁶."""
    city = SphericalMercator(Area(-73.975, 40.705, radius_m=33_975.0))
    points = city.project([(-74.26, 40.49), (-73.69, 40.92)])
    assert ((points > (-8.3e6, 4.91e6)) & (points < (-8.19e6, 5.0e6))).all()


@pytest.mark.parametrize("plane", PLANES, ids=name)
def test_unproject_inverts_project_inside_the_area(plane):
    places = inside(plane.area)
    back = plane.unproject(plane.project(places))
    _, _, gap = GEOD.inv(*places.T, *back.T)
    assert np.max(gap) < 1e-7
    assert (np.abs(back) <= (180, 90)).all()


@pytest.mark.parametrize("plane", PLANES, ids=name)
def test_one_place_and_many_have_the_same_points(plane):
    places = inside(plane.area)[:3]
    points = plane.project(places)
    assert plane.dimension == 2
    assert points.shape == (3, 2)
    assert plane.project(places[1]).shape == plane.unproject(points[1]).shape == (2,)
    assert plane.project(places[1]) == pytest.approx(points[1], abs=1e-9)
    assert plane.project(places.reshape(1, 3, 2)).shape == (1, 3, 2)


def test_the_plane_has_no_seam_at_the_antimeridian():
    plane = SphericalMercator(Area(*FIJI, 5e5))
    west, east = plane.project([(179.999, -17.0), (-179.999, -17.0)])
    assert 0 < east[0] - west[0] < 300
    assert abs(east[1] - west[1]) < 10


def test_a_place_outside_takes_part_and_stands_on_the_edge():
    for plane in (MERCATOR[1], AZIMUTHAL[0]):
        area = plane.area
        outside, edge = (around(area, np.arange(0.0, 360, 30), np.full(12, d)) for d in (3e6, 6e4))
        expected = plane.project(np.stack(edge, axis=-1))
        assert np.abs(plane.project(np.stack(outside, axis=-1)) - expected).max() < 1e-6
    # Control: left where they are, they would be stretched more than κ.
    a, b = (0.0, 80.0), (1.0, 80.0)
    raw = np.subtract(Proj("+proj=merc +R=6371000")(*a), Proj("+proj=merc +R=6371000")(*b))
    assert np.hypot(*raw) / GEOD.inv(*a, *b)[2] > 4 * MERCATOR[1].distortion


@pytest.mark.parametrize(
    "area", [(0, 85, 1), (0, 80, 6e5), (0, -84.99, 2e3), (0, 90, 1), (0, 60, 4e6)]
)
def test_mercator_refuses_areas_near_a_pole(area):
    with pytest.raises(ParameterError, match="±85") as caught:
        SphericalMercator(Area(*area))
    assert caught.value.name == "area"


@pytest.mark.parametrize("bad", [None, (0.0, 0.0, 1e3), AZIMUTHAL[0]])
def test_what_is_no_area_is_refused(bad):
    with pytest.raises(ParameterError, match="an Area"):
        SphericalMercator(bad)


@pytest.mark.parametrize(
    ("parameter", "bad"),
    [("longitude_deg", 181), ("latitude_deg", math.nan), ("radius_m", 0), ("radius_m", 6e6)],
)
def test_parameters_out_of_range_are_named(parameter, bad):
    good = {"longitude_deg": 0.0, "latitude_deg": 0.0, "radius_m": 1.0}
    with pytest.raises(ParameterError) as caught:
        AzimuthalEquidistant(**(good | {parameter: bad}))
    assert caught.value.name == parameter


@pytest.mark.parametrize("plane", [MERCATOR[1], AZIMUTHAL[0]], ids=name)
@pytest.mark.parametrize(
    "bad", [[200.0, 77.123], [0.0, 91.125], [math.nan, 0.0], [1.0], "77.123,1", None]
)
def test_what_is_no_place_is_refused_without_being_shown(plane, bad):
    with pytest.raises(PrivateValueError) as caught:
        plane.project(bad)
    assert "77.123" not in str(caught.value) + repr(caught.value)
    assert caught.value.__context__ is None


@pytest.mark.parametrize("plane", PLANES, ids=name)
def test_what_is_no_point_is_refused(plane):
    for bad in ([math.inf, 0.0], [math.nan, 0.0], [1.0], 77.123, "1,2", []):
        with pytest.raises(PrivateValueError) as caught:
            plane.unproject(bad)
        assert "77.123" not in str(caught.value), bad


def test_a_point_far_off_goes_round_the_earth():
    for plane in (AZIMUTHAL[0], MERCATOR[1]):
        assert (np.abs(plane.unproject([[1e9, -1e9], [1e30, 1e30]])) <= (180, 90)).all()


def test_threads_may_share_a_projection():
    plane, places = AZIMUTHAL[0], inside(AZIMUTHAL[0].area)
    expected, seen = plane.project(places), []
    threads = [
        threading.Thread(target=lambda: seen.extend(plane.project(places) for _ in range(20)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 80
    assert all((points == expected).all() for points in seen)


def inside(area, n=200):
    """Places of the area, away from its edge."""
    rng = np.random.default_rng(1)
    distance = 0.999 * area.radius_m * np.sqrt(rng.random(n))
    return np.stack(around(area, rng.uniform(0, 360, n), distance), axis=-1)
