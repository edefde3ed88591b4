"""Means, over people, of functions of their distance to many centres, all in one pass.

Whatever a mechanism does about a Gaussian kernel depends on the distance r = |x − t| alone. So the
points are binned by distance once for each centre, and every function is summed from the bins.
"""

from dataclasses import dataclass

import numpy as np

from geoveil.gp import validation
from geoveil.simulation.experiments.draws import at_nodes
from geoveil.simulation.populations import Array, Population

_CENTRES = 64
"""Centres whose histograms are held at a time."""
_NEGLIGIBLE = 1e-250
_PER_NEAR = 400
"""Nodes per unit length near the centre."""
_BEND = 10.0
"""Unit lengths from the centre at which nodes are four times as far apart as next to it."""


def places_at(points: Array, counts: Array) -> Population:
    """Return people at points of a plane, (n, 2) in metres, so many at each."""
    return Population("places", "metre", points, counts, "experiment")


def gathered(points: Array, weights: Array) -> Population:
    """Return people at points of a plane, (n, 2) in metres, those at equal points together.

    Collisions are reported at junctions: 200,000 of them at 76,663 places.

    Example:
        >>> places = gathered(np.array([[0.0, 0.0], [3.0, 4.0], [0.0, 0.0]]), np.ones(3))
        >>> places.values.tolist(), places.weights.tolist()
        ([[0.0, 0.0], [3.0, 4.0]], [2.0, 1.0])
    """
    distinct, row = np.unique(points, axis=0, return_inverse=True)
    return places_at(distinct, np.bincount(row.ravel(), weights).astype(np.float64))


@dataclass(frozen=True, slots=True)
class DistanceNodes:
    """The distances at which functions are tabulated: dense near the centre, sparse far away.

    They are equidistant in u = r/(r + R), R ten times `near`: `near`/400 apart at the centre, and
    (1 + r/R)² times that at r.

    Args:
        near: the shortest length > 0 over which a function varies, in metres.
        reach: the largest distance of interest, > 0, in metres.
    """

    near: float
    reach: float

    def __post_init__(self) -> None:
        validation.positive("near", self.near)
        validation.positive("reach", self.reach)

    @property
    def count(self) -> int:
        """Number of nodes."""
        return int(self.positions(np.array(self.reach))) + 2

    @property
    def distances(self) -> Array:
        """Where they are, in metres, from 0 to past the reach."""
        u = np.arange(self.count) / (_BEND * _PER_NEAR)
        return np.asarray(_BEND * self.near * u / (1 - u))

    @property
    def ray(self) -> Array:
        """Points so far from the centre of a plane, shape (count, 2)."""
        return np.stack([self.distances, np.zeros(self.count)], axis=1)

    def positions(self, r: Array) -> Array:
        """Return the number of the node at each distance, a fraction between nodes."""
        bend = _BEND * self.near
        return np.asarray(r / (r + bend) * (_BEND * _PER_NEAR))


def radial_means(places: Population, centres: Array, table: Array, nodes: DistanceNodes) -> Array:
    """Return, per centre, the mean over the people of each tabulated function of their distance.

    Between nodes the functions are interpolated linearly in u; beyond the last they keep its value.
    Apart from that nothing is approximated. The error of a function is at most Δ²/8 times its
    largest second derivative in u, Δ = 1/4000. Measured for variances of the experiment: 7e-6 of
    a mean where people are near, 6e-5 where the nearest are twenty lengths away and the mean has
    fallen by 1e-9. The cost per pair of a point and a centre does not depend on how many functions
    there are.

    Args:
        places: the people.
        centres: metres, shape (m, 2).
        table: the functions at `nodes.distances`, shape (nodes, functions).
        nodes: where they are tabulated.

    Returns:
        An array of shape (m, functions).

    Example:
        >>> places = places_at(np.array([[3.0, 4.0], [0.0, 1.0]]), np.ones(2))
        >>> nodes = DistanceNodes(near=1.0, reach=10.0)
        >>> r = nodes.distances
        >>> means = radial_means(places, np.zeros((1, 2)), np.stack([r**0, r], axis=1), nodes)
        >>> means.round(5).tolist()
        [[1.0, 3.0]]
    """
    # Products with subnormal numbers take fifty times as long.
    table = np.where(np.abs(table) < _NEGLIGIBLE, 0.0, table)
    x, y = (np.ascontiguousarray(c) for c in places.values.T)
    counts = None if (places.weights == 1).all() else places.weights

    def weights(east: float, north: float) -> Array:
        """Return how many people count for each node."""
        r = np.square(x - east)
        r += np.square(y - north)
        return at_nodes(nodes.positions(np.sqrt(r, out=r)), nodes.count, counts)

    blocks = [centres[start : start + _CENTRES] for start in range(0, len(centres), _CENTRES)]
    means = [np.array([weights(*centre) for centre in block]) @ table for block in blocks]
    return np.concatenate(means) / places.size
