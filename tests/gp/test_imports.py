"""Test that a device loads no heavy package before it needs it, each in a fresh interpreter."""

import os
import subprocess
import sys
import textwrap

import pytest

HEAVY = ("scipy", "matplotlib", "pyproj", "shapely", "grpc", "pandas", "sqlalchemy", "mpmath")
CASES: dict[str, tuple[str, set[str]]] = {
    "control: the probe sees what is loaded": ("import scipy.special", {"scipy"}),
    "releases": (
        """
        from geoveil.gp import *
        privacy = GeoPrivacy(epsilon=1.0, per=2.0)
        ramp, step = Threshold(0.0, 4.0), Threshold(0.0, 4.0, "smoothstep")
        bell = GaussianKernel((0.0, 1.0), 4.0)
        ring = Disc((0.0, 0.0), 5.0, 2.0, "smoothstep")
        corner, band = TwoWayThreshold((0.0, 0.0), 2.0), Range(0.0, 9.0, 4.0, "smoothstep")
        line, plane = 1.5, (1.5, 2.0)
        points = [(ramp, line), (step, line), (band, line), (bell, plane), (ring, plane)]
        for query, x in [*points, (corner, plane)]:
            SmoothMechanism(query, privacy).release(x)
            LipschitzMechanism(query, privacy).release(x)
            LocalLaplace(query, LocalPrivacy(1.0)).release(x)
        SmoothMechanism(bell, privacy, noise=LaplacePareto(1.0, 0.4), beta=0.05).release(plane)
        for query, x in points[1:]:
            DebiasedLaplace(query, privacy).release(x)
        """,
        set(),
    ),
    "estimates of kernels and thresholds": (
        """
        from geoveil.gp import *
        step = Threshold(0.0, 4.0, "smoothstep")
        PlanarLaplace(GeoPrivacy(1.0, per=2.0), 1).estimator(step, debias=True).value([1.0])
        for k in (2, 3):
            bell = GaussianKernel((0.0,) * k, 4.0)
            e = PlanarLaplace(GeoPrivacy(1.0, per=2.0), k).estimator(bell, debias=True)
            e.value([[1.0] * k])
            e.variance([[1.0] * k])
        """,
        set(),
    ),
    "no polygon": ("from geoveil.gp.queries.polygon import Polygon", set()),
    "a polygon": ("from geoveil.gp import *; Polygon([(0, 0), (1, 0), (1, 1)], 1.0)", {"shapely"}),
    "a distortion": (
        """
        from geoveil.gp.coordinates import *
        AzimuthalEquidistant(-73.95, 40.7, 60_000).distortion
        """,
        set(),
    ),
    "a projection": (
        """
        from geoveil.gp.coordinates import *
        AzimuthalEquidistant(-73.95, 40.7, 60_000).project([0.0, 0.0])
        """,
        {"pyproj"},
    ),
}


@pytest.mark.deep(keep=2)
@pytest.mark.parametrize("case", CASES)
def test_what_is_loaded(case):
    code, expected = CASES[case]
    report = f"""
        import sys
        print(*sorted(set(name.partition(".")[0] for name in sys.modules) & set({HEAVY!r})))
    """
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(code) + textwrap.dedent(report)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
    )
    assert set(done.stdout.split()) == expected
