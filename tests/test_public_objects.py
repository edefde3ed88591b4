"""Test that every public object has a reproducing repr, equality by value, and can be pickled.

All public classes of all parts are walked. One whose making, repr or equality is written by hand
must be made here, or excused in a word.
"""

import copy
import dataclasses
import datetime
import importlib
import inspect
import math
import pickle
import pkgutil
from collections.abc import Iterator
from datetime import UTC, timedelta
from functools import cache
from typing import Any

import numpy as np
import pytest

import geoveil.campaign as campaigns
from geoveil import analyst, audit, client, gp, selection
from geoveil.aggregator import Code, store
from geoveil.analyst import CentralWish, planner
from geoveil.audit import attacks
from geoveil.gp import coordinates, deconvolution, estimation, intervals
from geoveil.gp.queries import SoftIndicator
from geoveil.gp.smooth.frontier import Frontier
from tests.campaigns import asked_for_points

PARTS = (
    "gp",
    "selection",
    "audit",
    "campaign",
    "client",
    "aggregator",
    "analyst",
    "simulation",
    "cli",
    "proto",
)


def walk(u: Any, ops: Any) -> Any:
    return ops.exp(-u)


def slow(u: Any, ops: Any) -> Any:
    return u / (1 + u * u)


PRIVACY = gp.GeoPrivacy(1.0, per=0.3, unit="metre")
LOCAL = gp.LocalPrivacy(0.7)
RAMP, STEP = gp.Threshold(0.1, 2.5), gp.Threshold(0.1, 2.5, "smoothstep")
SQUARE = [(0.0, 0.0), (9.0, 0.0), (9.0, 6.0), (0.0, 6.0)]
OUTLINE = gp.Polygon([SQUARE, [(3.0, 2.0), (6.0, 2.0), (6.0, 4.0)]], 0.7)
DISC = gp.Disc((0.0, 1.0), radius=3.0, width=0.5)
BELL = gp.GaussianKernel((0.0, 1.0), 0.3)
AREA = coordinates.Area(longitude_deg=2.35, latitude_deg=48.86, radius_m=15_000)
KEY = campaigns.PublicKey.parse("ed25519:" + 32 * "0a")
WHEN = datetime.datetime(2026, 3, 1, tzinfo=UTC)
GUARANTEE = selection.Guarantee(epsilon=math.inf, delta=0.1, statement="x", source="y")
LIMIT = client.Limit(
    campaign=PRIVACY,
    lifetime=PRIVACY.repeated(3),
    windows=(client.Window(limit=PRIVACY, length=timedelta(days=3)),),
    epoch=client.Epoch(privacy=PRIVACY, length=timedelta(days=7)),
    value=client.Place(AREA),
)
QUESTION = campaigns.Question("above", RAMP)
CAMPAIGN = campaigns.StatisticCampaign(
    campaign_id="heights",
    title="Heights",
    attribute=campaigns.Attribute(name="height", unit="metre"),
    privacy=PRIVACY,
    questions=(QUESTION,),
    mechanism=campaigns.LipschitzLaplaceSpec(),
    opens=WHEN,
    closes=WHEN + timedelta(days=9),
)

FORM = campaigns.FormCampaign(
    campaign_id="household",
    title="Household",
    fields=(
        campaigns.NumberField(attribute=CAMPAIGN.attribute, privacy=PRIVACY),
        campaigns.PlaceField(
            attribute=campaigns.Attribute(
                name="home", unit="metre", coordinates=gp.AzimuthalEquidistant(2.35, 48.86, 15_000)
            ),
            privacy=gp.GeoPrivacy(1.0, per=500.0, unit="metre"),
        ),
        campaigns.ChoiceField(name="rents", options=("yes", "no"), epsilon=1.0),
        campaigns.OrdinalField(name="mood", options=("bad", "good"), epsilon=1.0),
        campaigns.MultipleField(name="goes by", options=("bus", "train"), epsilon=1.0),
    ),
    opens=WHEN,
    closes=WHEN + timedelta(days=9),
)


@cache
def made() -> list[Any]:
    """Return an object of every class, several where their form differs."""
    decay = gp.FormulaProfile(walk, scale=1 / 3)
    return [
        gp.ApproximateLaplace(RAMP, gp.GeoPrivacy(1.0, per=0.3, delta=1e-6)),
        gp.ApproximateLaplace(
            RAMP, gp.GeoPrivacy(1, per=0.3, delta=1e-6, reach=2), beta=0.1, calibration="paper"
        ),
        gp.DebiasedLaplace(STEP, PRIVACY),
        gp.DebiasedLaplace(STEP, PRIVACY, step=2.0**-9),
        CentralWish(epsilon=0.4, honest=100_000),
        gp.LipschitzMechanism(gp.Linear(decay, (1.0, 2.0)), PRIVACY),
        gp.LocalLaplace(RAMP, LOCAL),
        gp.RandomizedResponse(RAMP, LOCAL, step=0.5),
        gp.SmoothMechanism(RAMP, PRIVACY),
        gp.SmoothMechanism(
            RAMP, PRIVACY, noise=gp.StudentT(3), beta=0.123, reach=math.inf, calibration="paper"
        ),
        gp.VectorSmoothMechanism([RAMP, STEP], PRIVACY),
        gp.VectorSmoothMechanism([RAMP, STEP], PRIVACY).answers[1],
        gp.VectorSmoothMechanism(iter([RAMP]), PRIVACY, reach=math.inf, step=2.0**-20),
        gp.PlanarLaplace(PRIVACY, dimension=3),
        gp.PlanarLaplace(PRIVACY, step=2.0**-30),
        gp.Coarsening(gp.PlanarLaplace(PRIVACY, 1), gp.PlanarLaplace(PRIVACY, 1)),
        *(gp.Threshold(1 / 3, 2 / 3, profile) for profile in ("linear", "smoothstep")),
        gp.Range(-1e-9, 1e300, 1e50, "smoothstep"),
        gp.TwoWayThreshold((0.1, -0.2), 0.3),
        DISC,
        OUTLINE,
        BELL,
        gp.GaussianKernel(3, 0.3),
        gp.Linear(decay, (1.0, 2.0), offset=-0.5),
        gp.Radial(gp.FormulaProfile(slow, scale=0.1, extent=9.0), (1.0, 0.5)),
        gp.Radial(gp.Gaussian(2.5), 1.0),
        decay,
        gp.Gaussian(0.1),
        gp.Ramp(0.1),
        gp.Smoothstep(0.1),
        gp.SmoothedRegion(DISC, 0.4),
        gp.SmoothedRegion(gp.TwoWayThreshold((0.0, 0.0), 1.0), 0.4, (-9.0, -9.0, 9.0, 9.0)),
        gp.GeoPrivacy(0.1, per=1 / 3),
        gp.GeoPrivacy(0.1, per=1 / 3, unit="it's", delta=1e-9, reach=7.0),
        LOCAL,
        gp.LogScale(0.1),
        gp.Cap(4.0, 3.0),
        gp.Laplace(0.1),
        gp.LaplacePareto(1, 0.1),
        gp.PowerLaw(1, 0.1),
        gp.StudentT(2.1),
        gp.GeneralizedCauchy(3.1),
        coordinates.AzimuthalEquidistant(2.35, 48.86, 15_000),
        AREA,
        deconvolution.KernelEstimator(BELL, 0.2, False),
        deconvolution.PlugIn(OUTLINE, 0.2),
        deconvolution.ProfileEstimator(gp.Smoothstep(2.0), 0.3, 0.2, True, sign=-1.0),
        deconvolution.RangeEstimator(gp.Range(0.0, 9.0, 2.0, "smoothstep"), 0.2, True),
        deconvolution.RegionEstimator(gp.SmoothedRegion(DISC, 1.4), 0.2, True),
        estimation.Accumulator(3, -4, 99),
        intervals.Limits((0.0, 2.0), (0.0, 1.0)),
        client.Epoch(privacy=PRIVACY, length=timedelta(days=7)),
        audit.NestedHistory(PRIVACY, (PRIVACY,), epochs=2),
        attacks.Guesses(1, 2, 3, 1e-9),
        planner.HardThreshold(0.1),
        planner.HardRange(0.1, 0.3),
        planner.HardDisc((0.0, 0.1), 0.3),
        planner.HardPolygon(SQUARE),
        planner.SoftQuestion(RAMP),
        planner.LogNormalPrior(0.1, 0.3, people=1000),
        planner.LogPrior(planner.LogNormalPrior(0.1, 0.3), gp.LogScale(0.1)),
        planner.ExpPrior(planner.LogNormalPrior(0.1, 0.3)),
        planner.HeapedPrior(planner.LogNormalPrior(0.1, 0.3), ()),
        planner.DoubtedPrior(
            planner.LogNormalPrior(0.1, 0.3), {"other": planner.LogNormalPrior(0.2, 0.3)}
        ),
        analyst.ShareAbove(0.1),
        analyst.MeanOf(STEP, "soft share"),
        analyst.ShareBetween(0.1, 0.3, "middle"),
        analyst.DensityAt(0.1, 0.3),
        analyst.ShareWithin(0.1, 0.3, 0.7),
        analyst.ShareInside([[SQUARE]], "square"),
        analyst.Nearest({"here": (0.1, 0.3), "there": (0.7, 0.9)}, 0.3),
        analyst.Map((0.1, 0.3, 0.7, 0.9), (3, 7), 0.3),
        analyst.Contamination(0.1, 2.3, (0.0, 1.0)),
        analyst.People.SAME,
        analyst.DistributionFunction(points=41),
        analyst.Quantiles(levels=(0.1, 0.9)),
        analyst.Contaminated(analyst.Quantiles(levels=(0.5,)), 0.01),
        analyst.Histogram(edges=(1.0, 2.5), width=0.5),
        analyst.MeanValue(width=2.0),
        analyst.Gini(width=2.0),
        analyst.TopShare(share=0.2),
        analyst.Regression("income", ("age", "rents"), "median", width=0.5),
        analyst.MeanMap("income", "home", size=(3, 7)),
        selection.ExponentialMechanism(0.1, 0.3),
        selection.PermuteAndFlip(0.1, 0.3, monotone=True),
        selection.ReportNoisyMax(0.1, 0.3, "gumbel"),
        selection.StabilityMechanism(0.1, "ratio"),
        selection.LocalDampening(0.1),
        selection.LocalDampening(0.1, 0.3, shifted=True),
        selection.SmoothNoisyMax(0.1, 3, share=0.4, monotone=True),
        selection.SmoothNoisyMax(0.1, 3, selection.HalfStudentT(1.5)),
        selection.SmoothPrivateSelection(0.1, 3, gp.Laplace(), delta=1e-6, share=0.3),
        selection.ExponentialPareto(0.7),
        selection.HalfGeneralizedCauchy(2.1),
        selection.HalfStudentT(1.3),
        selection.HeavyGeneralizedCauchy(1.6),
        selection.HeavyStudentT(0.6),
        selection.LaplaceLogNormal(0.3),
        GUARANTEE,
        *Frontier,
        *campaigns.Allocation,
        *campaigns.State,
        *client.DeliveryStatus,
        *Code,
        *store.Outcome,
        campaigns.Attribute(name="height", unit="metre"),
        CAMPAIGN,
        dataclasses.replace(CAMPAIGN, questions=(QUESTION, campaigns.Question("all", STEP))),
        asked_for_points(CAMPAIGN, 1),
        FORM,
        *FORM.fields,
        campaigns.Wording(language="de", text="Alter"),
        campaigns.Condition(field="rents", options=("yes",)),
        analyst.ChosenBands(asked_for_points(CAMPAIGN, 1), (analyst.ShareAbove(0.1),), 0.3),
        campaigns.PlanarLaplaceSpec(2),
        campaigns.SmoothSpec(0.3),
        campaigns.Readings(every=timedelta(days=91), extrapolated=True),
        campaigns.Readings(every=timedelta(days=91), cohorts=13),
        QUESTION,
        campaigns.PointQuestion("here", BELL),
        KEY,
        client.Policy({"height": PRIVACY}),
        client.Policy({"height": PRIVACY}, form_any_two=LOCAL),
        client.Policy({"place": LIMIT}, trusted_keys=[KEY], latest_close=WHEN),
        LIMIT,
        *LIMIT.windows,
        client.TLS(),
        *(client.Number(), client.Point(2), client.Place(AREA)),
        *(client.Choice(), client.Choice(("yes", "no")), client.Ordinal(), client.Multiple()),
    ]


EXCUSED = {
    **dict.fromkeys(
        (
            *("TabulatedProfile", "HistogramPrior", "SamplePrior", "Population"),
            *("LogNormalPopulation", "SimulatedCampaign", "SelectionRow", "JointEstimates"),
            *("Means", "Top", "Districts"),
        ),
        "holds tables or arrays too long to be written",
    ),
    **dict.fromkeys(
        (
            *("Utilities", "SmoothUtilities", "LocalUtilities", "Margin", "Graph", "Influence"),
            *("Percentile", "Transmission", "PrivateDecisionTree", "PrivateRandomForest"),
            *("FormReports", "PackedReport", "SigningKey"),
            *("StoredAnswers", "StoredSums", "Submission"),
        ),
        "holds private or perturbed values, which are not shown",
    ),
    **dict.fromkeys(("Options", "OwnSelection", "StatisticFamily"), "holds functions"),
    **dict.fromkeys(
        ("Above", "Between", "Correlation", "CurveBy", "QuantileBy"),
        "a function of a field is itself alone: products are told apart by which it is of",
    ),
    "Settings": "its paths and passwords come from files",
}
"""Name of a public class → why it is not made again from its repr."""
_BY_HAND = ("__init__", "__post_init__", "__repr__", "__eq__", "__reduce__")


def is_by_hand(kind: Any) -> bool:
    """Return whether the project wrote how a class is made, shown or compared, not Python."""
    methods = [inspect.unwrap(getattr(kind, name)) for name in _BY_HAND if hasattr(kind, name)]
    return kind.__repr__ is not object.__repr__ and any(
        method.__module__.startswith("geoveil.") and method.__code__.co_filename != "<string>"
        for method in methods
        if inspect.isfunction(method)
    )


def packages() -> Iterator[Any]:
    for part in PARTS:
        root = importlib.import_module(f"geoveil.{part}")
        yield root
        for found in pkgutil.walk_packages(root.__path__, f"{root.__name__}."):
            public = found.ispkg or found.name == estimation.__name__
            if public and ".proto.v1" not in found.name:
                yield importlib.import_module(found.name)


def public() -> set[type]:
    """All classes in an __all__ that something can be an instance of."""
    found = set()
    for package in packages():
        for name in getattr(package, "__all__", ()):
            kind = getattr(package, name)
            if not inspect.isclass(kind) or inspect.isabstract(kind):
                continue
            if issubclass(kind, BaseException) or getattr(kind, "_is_protocol", False):
                continue
            found.add(kind)
    return found


def made_again(value: Any) -> Any:
    """Evaluate a repr with the public names, those of the value's own part first."""
    own = importlib.import_module(type(value).__module__)
    part = importlib.import_module(".".join(own.__name__.split(".")[:2]))
    names = {k: v for package in (own, *packages(), part) for k, v in vars(package).items()}
    here = {"Frontier": Frontier, "walk": walk, "slow": slow, "datetime": datetime}
    return eval(repr(value), names | here)


@pytest.mark.deep(keep=0)
def test_every_public_class_is_made_here_or_excused() -> None:
    shown, everything = {type(value) for value in made()}, public()
    lacking = {kind.__name__ for kind in everything - shown if is_by_hand(kind)}
    assert lacking == set(EXCUSED)
    assert all(is_by_hand(kind) for kind in shown)


@pytest.mark.deep(keep=0)
def test_a_repr_is_what_makes_it_again() -> None:
    for value in made():
        again = made_again(value)
        assert again == value
        assert type(again) is type(value)
        assert repr(again) == repr(value)


def test_all_can_be_pickled_and_copied() -> None:
    for value in made():
        for again in (pickle.loads(pickle.dumps(value)), copy.deepcopy(value)):
            assert again == value
            assert repr(again) == repr(value)


def test_replace_makes_it_again() -> None:
    for value in made():
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            assert dataclasses.replace(value) == value


def test_nothing_is_what_it_is_not() -> None:
    for value in made():
        assert value != object()
        assert sum(other == value for other in made()) == 1


def test_replace_changes_what_it_is_asked_to() -> None:
    assert dataclasses.replace(STEP, width=9.0) == gp.Threshold(0.1, 9.0, "smoothstep")
    assert dataclasses.replace(STEP, profile="linear") == RAMP
    assert dataclasses.replace(DISC, radius=9.0).radius == 9.0
    assert dataclasses.replace(OUTLINE, width=0.1) == gp.Polygon(OUTLINE.region, 0.1)
    decay = gp.FormulaProfile(walk, scale=1 / 3)
    assert dataclasses.replace(gp.Linear(decay, 1.0), offset=2.0) == gp.Linear(decay, 1.0, 2.0)


def test_a_profile_has_one_name() -> None:
    """The argument is `profile`, by name or as another query has it; `step` is that of a grid."""
    assert gp.Threshold(0.0, 2.0, profile=gp.Smoothstep(9.0)).profile == gp.Smoothstep(2.0)
    for kind in public():
        if issubclass(kind, SoftIndicator):
            assert "step" not in {f.name for f in dataclasses.fields(kind)}
            assert "profile" in inspect.signature(kind).parameters
    with pytest.raises(gp.ParameterError, match="profile must be one of 'linear', 'smoothstep'"):
        gp.Threshold(0.0, 2.0, profile=gp.Gaussian(1.0))  # type: ignore[arg-type]


def test_mechanisms_are_equal_if_their_arguments_are() -> None:
    assert gp.SmoothMechanism(RAMP, PRIVACY) == gp.SmoothMechanism(
        RAMP, PRIVACY, calibration="exact"
    )
    assert hash(gp.SmoothMechanism(RAMP, PRIVACY)) == hash(gp.SmoothMechanism(RAMP, PRIVACY))
    assert gp.SmoothMechanism(RAMP, PRIVACY) != gp.SmoothMechanism(RAMP, PRIVACY, beta=0.1)
    assert gp.LipschitzMechanism(STEP, PRIVACY) != gp.DebiasedLaplace(STEP, PRIVACY)
    x = np.linspace(-3, 3, 7)
    mechanism = gp.SmoothMechanism(STEP, PRIVACY, noise=gp.StudentT(4), beta=0.1)
    again = made_again(mechanism)
    assert again.variance(x).tolist() == mechanism.variance(x).tolist()
    assert again.step == mechanism.step


def test_private_scores_are_not_shown() -> None:
    for scores in (
        selection.Utilities([4711.0, 4712.0]),
        selection.SmoothUtilities([4711.0, 4712.0], 4713.0, beta=0.1),
        selection.Margin(1, 4711, 3),
    ):
        assert "471" not in repr(scores)


def test_every_part_has_the_version_of_the_package() -> None:
    for part in PARTS:
        assert importlib.import_module(f"geoveil.{part}").__version__ == gp.__version__
