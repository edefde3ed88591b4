"""Release that is private on a real computer: lazy bits, balls, one correctly rounded integer."""

from geoveil.gp.exact.bits import RandomSource, SeededSource, SystemSource
from geoveil.gp.exact.pacing import paced

__all__ = ["RandomSource", "SeededSource", "SystemSource", "paced"]
