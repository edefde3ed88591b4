"""Values on logarithmic scales, and their logarithms."""

import math
from random import Random
from typing import Any

from geoveil.gp import LogScale


def logarithm_vectors() -> list[dict[str, Any]]:
    """Return scales and values, with the doubles that devices perturb."""
    draw, floor = Random(35), 0.5
    values = [-5.0, floor, math.nextafter(1.0, 0), 1.0, 2.0, 1e90]
    values += [math.exp(draw.uniform(-5, 20)) for _ in range(2)]
    scale = LogScale(floor)
    coordinates = [scale.coordinate(value) for value in values]
    return [{"floor": floor, "values": values, "coordinates": coordinates}]
