"""The planner's choice is within 1.1 × of the best that anything unbiased can do.

Kernels with noise up to twice the bandwidth and bands of at least one noise scale, under uniform,
log-normal and concentrated priors. n is large, so that no biased mechanism is chosen.
"""

import importlib

import numpy as np
import pytest

from geoveil.analyst.planner import HistogramPrior, LogNormalPrior, SamplePrior, plan
from geoveil.analyst.planner.channels import next_to_optimal
from geoveil.gp import DebiasedLaplace, GaussianKernel, GeoPrivacy, Threshold

lower_bound = importlib.import_module("geoveil.analyst.planner.lower_bound")
"""The module; in the package its function has the same name."""
UNIT = GeoPrivacy(1.0, per=1.0)
MANY = 10**7
FAR = 20.0

KERNELS = [GaussianKernel(FAR, h) for h in (0.5, 1.0, 2.0)]
BANDS = [Threshold(FAR, w, step) for w, step in ((1.0, "smoothstep"), (1.0, "linear"))] + [
    Threshold(FAR, 2.0, "smoothstep")
]
PRIORS = {
    "uniform": HistogramPrior([FAR - 6.0, FAR + 6.0], [1000]),
    "log-normal": LogNormalPrior(np.log(FAR), 0.3),
    "concentrated": SamplePrior(FAR + np.random.default_rng(2).normal(0.3, 0.4, 400).round(2)),
}


@pytest.mark.deep(keep=1)
@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS.keys())
@pytest.mark.parametrize("query", KERNELS + BANDS, ids=lambda q: str(q)[:70])
def test_the_choice_is_near_the_bound(query, prior):
    kinds = ("DebiasedLaplace", "LaplacePareto", "PowerLaw", "LinearProgramMechanism")
    found = plan(query, UNIT, prior, MANY, kinds=kinds)
    bound = found.lower_bound(nodes=24 if query in KERNELS else 16)
    noise = found.choice.prediction.noise
    assert bound.value > 0.95 * bound.attained  # the bound is worth something
    assert noise <= 1.1 * bound.value
    assert found.choice.prediction.share_of_bias(MANY) < 0.05


EDGE = SamplePrior(FAR + 5.5 + np.random.default_rng(2).normal(scale=0.4, size=400).round(2))


@pytest.mark.deep
@pytest.mark.parametrize("prior", [*PRIORS.values(), EDGE], ids=[*PRIORS, "at the edge"])
def test_bands_for_which_no_channel_is_solved_have_little_to_win(prior):
    """From 12 noise scales on; the control is a band of four, of which the rule says nothing."""
    usual, wide = ("DebiasedLaplace",), Threshold(FAR, 12.0, "smoothstep")
    found = plan(wide, UNIT, prior, MANY, kinds=usual)
    assert next_to_optimal(found.question, found.choice)
    assert found.choice.prediction.noise <= 1.05 * found.lower_bound(nodes=24).value
    narrow = Threshold(FAR, 4.0, "smoothstep")
    found = plan(narrow, UNIT, prior, MANY, kinds=usual)
    assert not next_to_optimal(found.question, found.choice)


@pytest.mark.deep
def test_four_noise_scales_are_not_so_wide():
    """Control: there something is to be won."""
    found = plan(Threshold(FAR, 4.0, "smoothstep"), UNIT, PRIORS["uniform"], MANY,
                 kinds=("DebiasedLaplace",))  # fmt: skip
    assert found.choice.prediction.noise > 1.05 * found.lower_bound(nodes=24).attained


def test_without_the_channel_it_is_not():
    """Control: DebiasedLaplace at b/h = 2 has more than twice of what is possible."""
    query, prior = KERNELS[0], PRIORS["uniform"]
    found = plan(query, UNIT, prior, MANY, kinds=("DebiasedLaplace",))
    assert isinstance(found.choice.reports, DebiasedLaplace)
    assert found.choice.prediction.noise > 2 * found.lower_bound(nodes=24).value


@pytest.mark.deep(keep=1)
@pytest.mark.parametrize("quick", [False, True])
def test_windows_bound_what_one_programme_bounds(quick, monkeypatch):
    """A band of 14 noise scales, whole and cut in two: the cut may only lower the bound."""
    query, prior = Threshold(FAR, 14.0, "smoothstep"), PRIORS["uniform"]
    search = plan(query, UNIT, prior, MANY, kinds=("DebiasedLaplace",)).search
    effort = {widest: {quick: (2.0, 1, widest)} for widest in (20.0, 10.0)}
    found = {}
    for widest, settings in effort.items():
        monkeypatch.setattr(lower_bound, "_EFFORTS", settings)
        found[widest] = search.lower_bound(query, 16, quick=quick)
    whole, cut = found[20.0], found[10.0]
    assert cut.nodes > whole.nodes
    assert 0.9 * whole.value < cut.value <= whole.attained
