"""Test laws of reports of places against people all over the plane."""

import numpy as np
import pytest
from scipy.ndimage import maximum_filter

from geoveil.gp import GaussianKernel, GeoPrivacy, PlanarLaplace, SmoothedRegion
from geoveil.gp.deconvolution.kernel import KernelEstimator, planar_expectation, reach
from geoveil.gp.deconvolution.raster import RasterGrid
from geoveil.gp.report_moments import ReportMoments


@pytest.mark.deep(keep=0, rest=1)
@pytest.mark.parametrize("scale", [40.0, 100.0])
def test_people_between_the_nodes_of_a_raster_are_within_its_bounds(scale):
    """A disc of a third of the bandwidth in a wide square. Control: 4,096 of the nodes miss it."""

    def disc(points):
        return 30 - np.hypot(points[:, 0] - 503, points[:, 1] - 707)

    region = SmoothedRegion(disc, bandwidth=100.0, bounds=(0.0, 0.0, 1_000.0, 1_500.0))
    estimator = PlanarLaplace(GeoPrivacy(1.0, per=scale)).estimator(region, debias=True)
    moments = estimator.limits.moments()
    grid, (x, y) = estimator._grid, estimator._grid.frequencies()
    values = grid.inverse(estimator._spectrum)
    spectra = [grid.transform(values**k) * estimator._noise for k in (1, 2, 3)]
    people = []
    for right, up in ((0, 0), (0.5, 0.5), (0.25, 0.25), (0.3, 0.7)):
        moved = np.exp(1j * grid.cell * (right * x + up * y))
        people.append([grid.inverse(spectrum * moved).ravel() for spectrum in spectra])
    finer = grid.inverse(estimator._variance_spectrum * np.exp(1j * grid.cell * (x + y) / 2))
    assert estimator.variance_limits[1] >= finer.max()
    people = np.concatenate(people, axis=1).T
    size = np.abs(people).max(axis=0)
    few = ReportMoments(people[: len(people) // 4][:: len(people) // 4 // 4_096])
    people = people[people[:, 1] > 1e-6 * size[1]]
    rng = np.random.default_rng(6)
    for _ in range(100):
        raw = (
            rng.dirichlet([0.4] * 3)
            * 10 ** rng.uniform(-3, 0)
            @ people[rng.integers(len(people), size=3)]
        )
        mean = raw[0]
        square, cube = raw[1] - mean**2, raw[2] - 3 * mean * raw[1] + 2 * mean**3
        low, high = moments.third(mean, square)
        assert low - 1e-9 * size[2] <= cube <= high + 1e-9 * size[2]
    # What bounds is attained, but for a hundredth of the largest moments.
    missed = 0
    for direction in rng.normal(size=(100, 3)):
        reach = max((people / size @ direction).max(), 0.0)
        bound = (moments.points / size @ direction).max()
        assert reach <= bound <= reach + 0.01 * np.abs(direction).sum()
        missed += (few.points / size @ direction).max() < reach - 1e-6
    assert missed > 50
    jumps = people[:, 2] / people[:, 1]
    assert moments.jumps(0.0)[1] == pytest.approx(jumps.max(), rel=0.01)


def test_a_function_on_a_raster_is_no_farther_from_its_corners_than_is_proved():
    """Random waves up to twice as fast as moments have. Control: second differences are too few."""
    rng = np.random.default_rng(11)
    grid = RasterGrid((0.0, 0.0), 1.0, (48, 45))
    fast = (0.01 * rng.normal(size=(48, 23)) * (np.hypot(*grid.frequencies()) < 2.0)).astype(
        complex
    )
    values = grid.inverse(fast)
    bound = grid.off_nodes(values, fast)
    fine = RasterGrid((0.0, 0.0), 1 / 8, (384, 360))
    wide = np.zeros((384, 181), complex)
    wide[:24, :23], wide[-24:, :23] = 64 * fast[:24], 64 * fast[24:]
    between = fine.inverse(wide)
    assert between[::8, ::8] == pytest.approx(values, abs=1e-12)
    across = np.linspace(0, 1, 8, endpoint=False)
    corners = [np.roll(values, (-i, -j), (0, 1)) for i in (0, 1) for j in (0, 1)]
    shares = [a[:, None] * b for a in (1 - across, across) for b in (1 - across, across)]
    lines = sum(np.kron(corner, share) for corner, share in zip(corners, shares, strict=True))
    off = np.abs(between - lines).reshape(48, 8, 45, 8).max(axis=(1, 3))
    assert (off <= bound).all()
    bends = sum(
        np.abs(np.roll(values, 1, axis) + np.roll(values, -1, axis) - 2 * values) for axis in (0, 1)
    )
    assert (off > maximum_filter(bends, 3, mode="wrap") / 8).any()


@pytest.mark.deep
@pytest.mark.parametrize("debias", [True, False])
def test_people_at_every_distance_from_a_bell_are_within_its_bounds(debias):
    """Noise a fifth of the bandwidth wide. Control: 61 distances are not all."""
    kernel = KernelEstimator(GaussianKernel((0.0, 0.0), 1.0), 0.2, debias)
    moments = kernel.limits.moments()
    rng = np.random.default_rng(1)

    def laws(r):
        return np.stack(
            [
                planar_expectation(lambda rho, _, k=k: kernel.at(rho) ** k, r, 0.2, 2)
                for k in (1, 2, 3)
            ],
            axis=1,
        )

    few, people = ReportMoments(laws(np.linspace(0, 6, 61))), laws(rng.uniform(0, 8, 150))
    size = np.abs(people).max(axis=0)
    missed = 0
    for direction in rng.normal(size=(100, 3)):
        reach = (people / size @ direction).max()
        bound = (moments.points / size @ direction).max()
        assert reach - 1e-9 <= bound <= max(reach, 0.0) + 0.01 * np.abs(direction).sum()
        missed += (few.points / size @ direction).max() < reach - 1e-6
    assert missed > 0


@pytest.mark.parametrize("c", [0.1, 10.0, 1_000.0])
def test_the_ends_of_what_a_point_counts_for_a_bell_are_reached(c):
    """Control: of noise a thousand bandwidths wide, equidistant places miss a twentieth."""
    kernel = KernelEstimator(GaussianKernel((0.0, 0.0), 1.0), c, True)
    near = np.linspace(0.0, 20.0, 100_001)
    g, h = kernel.at(near), kernel.variance_at(near)
    low, high = kernel.limits.reports
    assert low <= g.min() + 1e-6 * np.ptp(g)
    assert high >= g.max() - 1e-6 * np.ptp(g)
    assert kernel.variance_limits[1] >= h.max() * (1 - 1e-6)
    coarse = kernel.at(np.linspace(0.0, reach(c), 1 << 14)).min()
    assert c < 1_000 or coarse > g.min() + 0.02 * np.ptp(g)
