"""Reports of one mechanism, without campaign or server."""

import numpy as np
import pytest

from geoveil.analyst import Nearest, Quantiles, estimate
from geoveil.gp import GeoPrivacy, ParameterError, PlanarLaplace
from geoveil.gp.coordinates import AzimuthalEquidistant

from .populations import PRIVACY, campaigns, incomes, reports


def test_reports_of_a_mechanism_need_no_campaign():
    asked = Quantiles(levels=[0.5])
    mechanism = PlanarLaplace(PRIVACY, 1)
    (points,) = campaigns(incomes(), 500, 1)
    integers = np.rint(points / mechanism.step).astype(np.int64)
    found = estimate(integers, mechanism, asked, confidence=0.9)
    assert found.to_dict() == reports(points).ask(asked, 0.9).to_dict()
    with pytest.raises(ParameterError, match="for points"):
        estimate(integers, mechanism)


def test_places_at_hand_have_coordinates():
    plane = AzimuthalEquidistant(-73.95, 40.7, radius_m=20_000)
    mechanism = PlanarLaplace(plane.privacy(GeoPrivacy(1.0, per=300.0, unit="metre")), 2)
    people = np.repeat(plane.project([(-73.99, 40.7), (-73.91, 40.7)]), [600, 200], axis=0)
    points = np.asarray(mechanism.simulate(people, np.random.default_rng(1)))
    found = estimate(
        np.rint(points / mechanism.step).astype(np.int64),
        mechanism,
        Nearest({"west": (-73.99, 40.7), "east": (-73.91, 40.7)}),
        coordinates=plane,
    )
    west, _ = (row for row in found.rows() if row["name"] in {"west", "east"})
    assert west["ci_low"] < 0.75 < west["ci_high"]
    assert found.privacy.rate == pytest.approx(1 / 300)
