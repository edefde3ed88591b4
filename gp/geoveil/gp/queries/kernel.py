"""The Gaussian kernel: density estimates at a place [SGP §4.3]."""

from collections.abc import Iterable
from dataclasses import dataclass

from geoveil.gp import validation
from geoveil.gp.arithmetic import FLOAT, Arithmetic, Real
from geoveil.gp.errors import ParameterError
from geoveil.gp.queries.base import Query
from geoveil.gp.queries.profiles import Gaussian


@dataclass(frozen=True, slots=True)
class GaussianKernel(Query):
    """f(x) = exp(−|x − center|²/(2 bandwidth²)).

    Args:
        center: k coordinates, or one number for k = 1, in the unit of the points.
        bandwidth: h > 0, in the same unit.

    Raises:
        ParameterError: if a coordinate is not finite, none is given, or h is not positive.

    Example:
        >>> q = GaussianKernel(center=(0.0, 0.0), bandwidth=1000.0)
        >>> q.value([[0.0, 0.0], [1000.0, 0.0]]).round(4)
        array([1.    , 0.6065])
    """

    center: tuple[float, ...]
    bandwidth: float

    def __init__(self, center: float | Iterable[float], bandwidth: float) -> None:
        iterable = isinstance(center, Iterable)
        coordinates = validation.numbers("center", center if iterable else (center,))
        if not coordinates:
            raise ParameterError("center", center, "at least one coordinate")
        object.__setattr__(self, "center", coordinates)
        object.__setattr__(self, "bandwidth", validation.positive("bandwidth", bandwidth))

    @property
    def dimension(self) -> int:
        """See `Query.dimension`."""
        return len(self.center)

    @property
    def profile(self) -> Gaussian:
        """See `Query.profile`."""
        return Gaussian(self.bandwidth)

    def signed_distance(self, x: Real, ops: Arithmetic = FLOAT) -> Real:
        """See `Query.signed_distance`: the distance to the centre."""
        if self.dimension == 1:
            return ops.absolute(x - ops.constant(self.center[0]))
        return ops.distance(x, self.center)
