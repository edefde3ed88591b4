"""The noise of several reports together; `geoveil.gp.smooth.frontier` has its scale."""

import math

from geoveil.gp.noise import LaplacePareto, Noise, PowerLaw


def best_vector_noise(size: int, beta_fraction: float) -> Noise:
    """Return the default noise for m = `size` queries at β/ε = `beta_fraction`.

    `LaplacePareto(1, φ)` has the score min(1, (1 + 1/φ)/u), so that η = 1 − mβ/φ is exact; φ is
    the one of 0.01, 0.02, …, 0.49, the last with a variance, that makes Var/η² least.
    """
    if size == 1:
        return PowerLaw(1.0, beta_fraction)
    best, least = LaplacePareto(1.0, 0.49), math.inf
    for hundredth in range(1, 50):
        phi = hundredth / 100
        eta = 1 - size * beta_fraction / phi
        if eta <= 0:
            continue
        noise = LaplacePareto(1.0, phi)
        if noise.variance / eta**2 < least:
            best, least = noise, noise.variance / eta**2
    return best
