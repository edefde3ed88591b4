"""Test that a device that releases a value loads neither SciPy nor PROJ nor Matplotlib."""

import os
import subprocess
import sys
import textwrap

import pytest

HEAVY = ("scipy", "matplotlib", "pyproj", "shapely", "grpc", "pandas", "sqlalchemy", "mpmath")


def loaded_after(code: str) -> set[str]:
    """Return which heavy packages a fresh interpreter has loaded after running `code`."""
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
    return set(done.stdout.split())


@pytest.mark.deep(keep=0)
def test_the_probe_sees_scipy():
    """Control: the check below would notice."""
    assert "scipy" in loaded_after("import scipy.special")


@pytest.mark.deep
def test_import_and_release_never_import_scipy():
    code = """
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
    """
    assert loaded_after(code) == set()
