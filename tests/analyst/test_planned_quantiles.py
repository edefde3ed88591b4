"""Test planned errors of quantiles: closed forms and refusals. The error itself is held against
campaigns in `statistics/test_median_income.py`."""

import numpy as np
import pytest

from geoveil.analyst import LogNormalPrior, PublicPrior, SamplePrior, planned_quantiles
from geoveil.gp import GeoPrivacy, ParameterError, PlanarLaplace, Threshold

INCOMES = PublicPrior.of_numbers(LogNormalPrior(11.0, 0.8), "dollar")
PRIVACY = GeoPrivacy(1.0, per=8_000.0, unit="dollar")


@pytest.mark.deep
def test_of_people_spread_evenly_it_is_the_closed_form() -> None:
    """Uniform in [0, 10^6]: density 10⁻⁶, the share's variance by quadrature over people."""
    x = (np.arange(200_000) + 0.5) * 5.0
    source = PublicPrior.of_numbers(SamplePrior(x), "dollar")
    rows = planned_quantiles(source, PRIVACY, 10_000, (0.25, 0.5), width=40_000.0)
    for row, level in zip(rows, (0.25, 0.5), strict=True):
        assert row["value"] == pytest.approx(level * 1e6, rel=1e-5)
        question = Threshold(level * 1e6, 40_000.0, "smoothstep")
        noise = PlanarLaplace(PRIVACY, 1).estimator(question, debias=True).variance(x).mean()
        variance = noise + question.value(x).var()
        assert row["error_95"] == pytest.approx(1.96e6 * np.sqrt(variance / 10_000), rel=1e-3)


def test_liars_move_a_quantile_to_where_the_prior_has_what_they_add() -> None:
    """Uniform in [0, 10^6], hi − lo = 1 + 12b²/w²; beyond the last person it is anywhere."""
    source = PublicPrior.of_numbers(SamplePrior((np.arange(2_000) + 0.5) * 500.0), "dollar")
    width = 40_000.0
    most = 0.01 * (1 + 12 * (8_000.0 / width) ** 2)
    rows = planned_quantiles(source, PRIVACY, 1_000, (0.01, 0.5), width, contamination=0.01)
    assert rows[0]["moved"] is None
    assert rows[1]["moved"] == pytest.approx(most * 1e6, rel=0.01)
    assert planned_quantiles(source, PRIVACY, 1_000, [0.5], width)[0]["moved"] == 0
    with pytest.raises(ParameterError, match="contamination"):
        planned_quantiles(source, PRIVACY, 1_000, [0.5], contamination=-0.1)


def test_what_has_no_quantile_is_refused() -> None:
    gap = np.concatenate([np.full(500, 0.0), np.full(500, 1e6)])
    for source, participants, levels, named in (
        (INCOMES, 1, [0.5], "participants"),
        (INCOMES, 100, [1.5], "levels"),
        (PublicPrior.of_numbers(SamplePrior(gap), "dollar"), 100, [0.5], "quantile"),
    ):
        with pytest.raises(ParameterError) as caught:
            planned_quantiles(source, PRIVACY, participants, levels)
        assert caught.value.name == named
