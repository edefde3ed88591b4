"""Test the plane of places: distances, certified distortion, and places outside."""

import math

import numpy as np
import pytest
from pyproj import Geod, Proj

from geoveil.gp import ParameterError, PrivateValueError
from geoveil.gp.coordinates import AzimuthalEquidistant

CENTRES = [(-73.95, 40.72), (0.0, 0.0), (12.0, 89.5), (179.9, -45.0), (-60.0, -90.0)]
GEOD = Geod(ellps="WGS84")


def plane(centre=(-73.95, 40.72), radius=60_000.0):
    return AzimuthalEquidistant(*centre, radius_m=radius)


@pytest.mark.parametrize("centre", CENTRES)
@pytest.mark.parametrize("radius", [1_000.0, 60_000.0, 2_000_000.0, 5_000_000.0])
def test_no_pair_of_places_is_stretched_beyond_the_distortion(centre, radius):
    """Oracle: geodesic lengths of near and far pairs, inside, across the edge and beyond."""
    rng = np.random.default_rng(7)
    n = 4_000
    lon, lat = np.full(n, centre[0]), np.full(n, centre[1])
    far = np.where(rng.random(n) < 0.7, radius * 1.5, 20_003_000.0)
    lon, lat, _ = GEOD.fwd(lon, lat, rng.uniform(0, 360, n), far * np.sqrt(rng.random(n)))
    step = 10 ** rng.uniform(0, 6.5, n)
    lon2, lat2, _ = GEOD.fwd(lon, lat, rng.uniform(0, 360, n), step)
    _, _, true = GEOD.inv(lon, lat, lon2, lat2)
    p = plane(centre, radius)
    a = p.project(np.stack([lon, lat], axis=-1))
    b = p.project(np.stack([lon2, lat2], axis=-1))
    stretch = np.linalg.norm(a - b, axis=-1) / np.maximum(true, 1e-3)
    assert stretch.max() <= p.distortion * (1 + 1e-7)  # a metre has 1e-8 m of rounding
    # The bound is no luxury: without the contraction, far places would be stretched more.
    assert np.hypot(*a.T).max() <= radius * (1 + 1e-12)


@pytest.mark.parametrize("radius", [60_000.0, 1_000_000.0, 5_000_000.0])
def test_distortion_is_above_and_near_the_factors_of_proj(radius):
    proj = Proj("+proj=aeqd +lat_0=40.72 +lon_0=-73.95 +ellps=WGS84")
    azimuth = np.linspace(0, 360, 37)
    lon, lat, _ = GEOD.fwd(
        np.full(37, -73.95), np.full(37, 40.72), azimuth, np.full(37, radius * 0.999)
    )
    largest = float(np.max(proj.get_factors(lon, lat).tissot_semimajor))
    kappa = plane(radius=radius).distortion
    assert largest <= kappa
    assert kappa - 1 <= 1.02 * (largest - 1) + 1e-6


def test_a_plane_without_contraction_would_break_the_bound():
    """Control: the raw projection stretches places near the antipode without limit."""
    p = plane(radius=60_000.0)
    _, _, half = GEOD.inv(-73.95, 40.72, 106.05, -40.72)
    lon, lat, _ = GEOD.fwd([-73.95, -73.95], [40.72, 40.72], [0.0, 90.0], [half - 60_000] * 2)
    _, _, true = GEOD.inv(lon[0], lat[0], lon[1], lat[1])
    raw = math.hypot(half - 60_000, half - 60_000)
    assert raw / true > 10 * p.distortion
    a, b = p.project(np.stack([lon, lat], axis=-1))
    assert np.linalg.norm(a - b) <= true * p.distortion * (1 + 1e-9)


def test_distance_and_azimuth_from_the_centre_are_kept():
    p = plane()
    lon, lat, _ = GEOD.fwd(-73.95, 40.72, 30.0, 12_345.0)
    assert p.project([lon, lat]) == pytest.approx(
        [12_345 * math.sin(math.pi / 6), 12_345 * math.cos(math.pi / 6)], abs=1e-6
    )


def test_unproject_inverts_project_inside_the_area():
    rng = np.random.default_rng(1)
    places = np.stack([rng.uniform(-74.3, -73.6, 100), rng.uniform(40.5, 40.95, 100)], axis=-1)
    p = plane()
    assert np.abs(p.unproject(p.project(places)) - places).max() < 1e-11


def test_a_place_outside_lands_on_the_edge_in_its_direction():
    p = plane(radius=1_000.0)
    lon, lat, _ = GEOD.fwd(-73.95, 40.72, 90.0, 50_000.0)
    assert p.project([lon, lat]) == pytest.approx([1_000.0, 0.0], abs=1e-6)


@pytest.mark.parametrize(
    ("name", "bad"),
    [("longitude_deg", 181), ("longitude_deg", math.nan), ("latitude_deg", -90.5),
     ("radius_m", 0), ("radius_m", -1), ("radius_m", 6e6), ("radius_m", math.inf)],
)  # fmt: skip
def test_parameters_out_of_range_are_named(name, bad):
    good = {"longitude_deg": 0.0, "latitude_deg": 0.0, "radius_m": 1.0}
    with pytest.raises(ParameterError) as caught:
        AzimuthalEquidistant(**(good | {name: bad}))
    assert caught.value.name == name


@pytest.mark.parametrize(
    "bad", [[200.0, 77.123], [0.0, 91.125], [math.nan, 0.0], [1.0], 77.123, "77.123,1", None, []]
)
def test_what_is_no_place_is_refused_without_being_shown(bad):
    with pytest.raises(PrivateValueError) as caught:
        plane().project(bad)
    assert "77.123" not in str(caught.value) + repr(caught.value)
    assert caught.value.__context__ is None
