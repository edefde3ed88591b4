"""Coordinates that devices perturb: points of places on planes, and logarithms of values."""

import math
from random import Random
from typing import Any

from geoveil.gp import AzimuthalEquidistant, LogScale
from tools.vectors.chance import PARIS, WORLD


def projection_vectors() -> list[dict[str, Any]]:
    """Return places, and their points on planes, accurate to 1e-8 m."""
    draw, found = Random(3), []
    for plane in (
        PARIS,
        WORLD,
        AzimuthalEquidistant(179.9, -17.5, 300_000.0),
        AzimuthalEquidistant(0.0, 90.0, 5e6),
        AzimuthalEquidistant(-20.0, 0.0, 1000.0),
    ):
        places = [(plane.longitude_deg, plane.latitude_deg), (plane.longitude_deg, -89.5)]
        for _ in range(10):
            near = draw.random() < 0.7
            spread = plane.radius_m / 80_000.0
            latitude = min(max(plane.latitude_deg + draw.gauss(0, spread), -90.0), 90.0)
            longitude = plane.longitude_deg + draw.gauss(0, spread)
            longitude = (longitude + 180.0) % 360.0 - 180.0
            if not near:
                longitude, latitude = draw.uniform(-180, 180), draw.uniform(-90, 90)
            places.append((longitude, latitude))
        points = [[float(c) for c in plane.project(place)] for place in places]
        found.append(
            {
                "plane": [plane.longitude_deg, plane.latitude_deg, plane.radius_m],
                "distortion": plane.distortion,
                "places": places,
                "points": points,
            }
        )
    return found


def logarithm_vectors() -> list[dict[str, Any]]:
    """Return scales and values, with the doubles that devices perturb."""
    draw, floor = Random(35), 0.5
    values = [-5.0, floor, math.nextafter(1.0, 0), 1.0, 2.0, 1e90]
    values += [math.exp(draw.uniform(-5, 20)) for _ in range(2)]
    scale = LogScale(floor)
    coordinates = [scale.coordinate(value) for value in values]
    return [{"floor": floor, "values": values, "coordinates": coordinates}]
