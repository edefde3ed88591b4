"""Every person sends one perturbed place, once; kernels and a district are asked of it later.

Run: python examples/one_report_many_questions.py
"""

import numpy as np

from geoveil.gp import Disc, GaussianKernel, GeoPrivacy, PlanarLaplace, SmoothedRegion
from geoveil.gp.coordinates import AzimuthalEquidistant
from geoveil.simulation import collisions

PEOPLE = 2_000
PRIVACY = GeoPrivacy(epsilon=1.0, per=200.0, unit="metre")

plane = AzimuthalEquidistant(longitude_deg=-73.98, latitude_deg=40.72, radius_m=60_000)
places = plane.project(collisions().sample(PEOPLE, np.random.default_rng(1)))

# On each device: one release, calibrated so that the promise holds in true metres.
mechanism = PlanarLaplace(plane.privacy(PRIVACY), dimension=2)
points = np.array([mechanism.release(place) for place in places]) * mechanism.step

# At the analyst's, afterwards: any number of questions, at no further cost in privacy.
midtown, brooklyn = plane.project([[-73.985, 40.755], [-73.98, 40.69]])
questions = {
    "density around Midtown": GaussianKernel(tuple(midtown), bandwidth=1_000.0),
    "density around Downtown Brooklyn": GaussianKernel(tuple(brooklyn), bandwidth=1_500.0),
    "share within 4 km of Midtown": SmoothedRegion(Disc(tuple(midtown), 4e3, 1.0), bandwidth=500.0),
}
print(f"{PEOPLE:,} places, {PRIVACY} each\n")
for name, question in questions.items():
    reports = mechanism.estimator(question, debias=True).value(points)
    error = reports.std(ddof=1) / np.sqrt(PEOPLE)
    truth = question.value(places).mean()
    print(f"{name:<34} {reports.mean():.3f} ± {1.96 * error:.3f}   (truth {truth:.3f})")
