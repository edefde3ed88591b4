"""Statistics of groups, and of all people at known sizes of groups."""

from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from geoveil.analyst import (
    ByGroup,
    DistributionFunction,
    Histogram,
    Map,
    Means,
    MeanValue,
    Quantiles,
    ReportRows,
    Reports,
    SmoothedDistribution,
    campaign_for_points,
    reports_of,
)
from geoveil.analyst.statistics import simultaneous
from geoveil.analyst.statistics.separate import SeparateEstimates
from geoveil.analyst.statistics.strata import weighted
from geoveil.campaign import PointQuestion, Strata
from geoveil.gp import GeoPrivacy, ParameterError, Threshold, UnsupportedError
from geoveil.gp.coordinates import AzimuthalEquidistant

from .populations import OPENS, PRIVACY, Array, campaign, joint_of, truth

LABELS = ("north", "south")
SIZES = {"north": 900_000.0, "south": 100_000.0}
RNG = np.random.default_rng(3)
NORTH, SOUTH = RNG.lognormal(11.2, 0.6, 20_000), RNG.lognormal(10.4, 0.6, 20_000)
WHOLE = np.concatenate([NORTH[:18_000], SOUTH[:2_000]])
QUERIES = [Threshold(at, 24_000.0, "smoothstep") for at in (30_000.0, 60_000.0, 120_000.0)]


def held(epsilon: float | None = None, counts: tuple[int, int] = (600, 1_800)) -> Reports:
    """Return reports of too many people of the south."""
    rng = np.random.default_rng(5)
    strata = Strata(name="region", labels=LABELS, epsilon=epsilon)
    of = campaign(strata=strata)
    labels = np.repeat(np.arange(2, dtype=np.uint32), counts)
    x = np.concatenate([NORTH[: counts[0]], SOUTH[: counts[1]]])
    points = np.rint((x + rng.laplace(0, 8_000.0, len(x))) / of.point_mechanism.step)
    rows = ReportRows(np.zeros(len(x), np.uint32), None, (points.astype(np.int64),), labels)
    return reports_of(rows, of)


@pytest.fixture(scope="module")
def reports() -> Reports:
    return held()


def test_a_statistic_of_each_group_is_that_of_its_people(reports: Reports) -> None:
    medians = reports.ask_by_group(Quantiles(levels=[0.5]))
    for row, label in zip(medians.rows(), LABELS, strict=True):
        alone = reports.ask(Quantiles(levels=[0.5]), stratum=label)
        assert row == {"region": label} | alone.rows()[0]
    assert medians.title == "Quantiles, by region"
    assert medians["south"].rows()[0]["estimate"] < medians["north"].rows()[0]["estimate"]


@pytest.mark.deep
def test_differences_are_of_each_number_by_itself(reports: Reports) -> None:
    found = reports.ask_by_group(Quantiles(levels=[0.25, 0.75]))
    for k, one in enumerate(found.differences()):
        (row,) = one.rows()
        parts = [found[label].rows()[k] for label in ("south", "north")]
        assert row["estimate"] == pytest.approx(parts[0]["estimate"] - parts[1]["estimate"])
        errors = [part["standard_error"] for part in parts]
        assert row["standard_error"] == pytest.approx(np.hypot(*errors))
        assert row["ci_high"] < 0
    assert [one.question for one in found.differences()] == ["level 0.25", "level 0.75"]
    assert reports.ask_by_group(DistributionFunction()).differences() == ()


@pytest.mark.deep(keep=0)
def test_sizes_weight_any_statistic(reports: Reports) -> None:
    """Each report of the north counts 27 times, so that the median is that of 90 % north."""
    (median,) = reports.ask(Quantiles(levels=[0.5]), sizes=SIZES).rows()
    assert median["ci_low"] < np.median(WHOLE) < median["ci_high"]
    (alike,) = reports.ask(Quantiles(levels=[0.5])).rows()
    assert alike["ci_high"] < np.median(WHOLE)
    north, south = (reports.ask(MeanValue(), stratum=label).value for label in LABELS)
    mean = reports.ask(MeanValue(), sizes=SIZES)
    assert mean.value == pytest.approx(0.9 * north + 0.1 * south, rel=0.005)
    shares = reports.ask(Histogram(edges=(40_000, 80_000)), sizes=SIZES)
    assert sum(shares.shares) == pytest.approx(1)
    assert "the weights stand for" in shares.notes[0]
    assert "the weights stand for" in mean.notes[0]


@pytest.mark.parametrize("count", [60, pytest.param(400, marks=pytest.mark.deep)])
def test_weighted_bands_hold_all_at_once(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """400 campaigns at 95 %: standard error 1.1 points, so 92 to 98.5 %; of 60, 87 % or more.

    Without weights, three in four people of the south, hardly any band holds.
    """
    monkeypatch.setattr(simultaneous, "DRAWS", 1 << 13)  # moves coverage by 0.25 points
    rng = np.random.default_rng(11)
    wanted = 0.9 * truth(QUERIES, NORTH) + 0.1 * truth(QUERIES, SOUTH)

    def drawn(population: Array, n: int) -> Array:
        return np.asarray(rng.choice(population, n) + rng.laplace(0, 1 / PRIVACY.rate, n))

    inside = without = 0
    for _ in range(count):
        north, south = drawn(NORTH, 150), drawn(SOUTH, 450)
        joint: Any = weighted([0.9, 0.1], [joint_of(QUERIES, north), joint_of(QUERIES, south)])
        low, high = joint.band()
        inside += bool(((low <= wanted) & (wanted <= high)).all())
        low, high = joint_of(QUERIES, np.concatenate([north, south])).band()
        without += bool(((low <= wanted) & (wanted <= high)).all())
    assert (0.92 if count > 60 else 0.87) <= inside / count <= (0.985 if count > 60 else 1)
    assert without / count < 0.2


def test_questions_without_covariances_are_weighted_too() -> None:
    parts = [joint_of(QUERIES, x[:500]) for x in (NORTH, SOUTH)]
    apart = [
        SeparateEstimates(
            labels=one.labels,
            values=one.values,
            standard_errors=one.standard_errors,
            n=one.n,
            confidence=0.95,
            limits=one.limits,
            privacy=one.privacy,
        )
        for one in parts
    ]
    joint: Any = weighted([0.9, 0.1], parts)
    found: Any = weighted([0.9, 0.1], apart)
    assert found.values == pytest.approx(joint.values)
    assert found.standard_errors == pytest.approx(joint.standard_errors)
    assert found.n == joint.answers[0] == 555  # 500/0.9: as many as weigh as the heaviest


def test_questions_are_asked_by_group_of_a_file() -> None:
    questions = [PointQuestion("high", QUERIES[2])]
    (found,) = held().ask_by_group(questions)
    for k, label in enumerate(LABELS):
        alone = held().ask(questions, stratum=label)
        assert found.values[k] == pytest.approx(alone.values[0], abs=1e-8)
        assert found.standard_errors[k] == pytest.approx(alone.standard_errors[0], rel=1e-6)
    (undone,) = held(epsilon=2.0).ask_by_group(questions)
    assert undone.n is None


def lied(seed: int, counts: tuple[int, int], epsilon: float = 1.0) -> Reports:
    """Return reports whose labels were sent with lies."""
    rng, of = np.random.default_rng(seed), held(epsilon).campaign
    assert of.strata is not None
    assert of.strata.randomized is not None
    labels = np.repeat(np.arange(2), counts)
    x = np.concatenate([rng.choice(NORTH, counts[0]), rng.choice(SOUTH, counts[1])])
    points = np.rint((x + rng.laplace(0, 8_000.0, len(x))) / of.point_mechanism.step)
    lies = rng.random(len(x)) > float(of.strata.randomized.truth)
    sent = np.where(lies, 1 - labels, labels).astype(np.uint32)
    rows = ReportRows(np.zeros(len(x), np.uint32), None, (points.astype(np.int64),), sent)
    return reports_of(rows, of)


def test_lies_about_labels_are_undone_in_any_statistic() -> None:
    """Against the means by question, and their covariance, of the sums of labels."""
    reports = lied(4, (1_500, 2_500))
    questions = [PointQuestion(f"above {q.at:g}", q) for q in QUERIES]
    by_question = reports.ask_by_group(questions)
    for k, label in enumerate(LABELS):
        joint = reports.ask(Means(questions), stratum=label)
        for i, one in enumerate(by_question):
            assert joint.values[i] == pytest.approx(one.values[k], abs=1e-7)
            assert joint.standard_errors[i] == pytest.approx(one.standard_errors[k], rel=1e-5)
    whole = reports.ask(Means(questions), sizes=SIZES)
    for i, one in enumerate(by_question):
        wanted = one.post_stratify(SIZES)
        assert whole.values[i] == pytest.approx(wanted.value, abs=1e-7)
        assert whole.standard_errors[i] == pytest.approx(wanted.standard_error, rel=1e-5)
    medians = reports.ask_by_group(Quantiles(levels=[0.5]))
    assert medians.differences() == ()
    assert "no differences are stated" in " ".join(medians.notes)
    for row, people in zip(medians.rows(), (NORTH, SOUTH), strict=True):
        assert row["ci_low"] < np.median(people) < row["ci_high"]


@pytest.mark.deep
@pytest.mark.parametrize("count", [40, pytest.param(400, marks=pytest.mark.deep)])
def test_bands_of_groups_hold_though_labels_lie(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """400 campaigns at 95 %: standard error 1.1 points, so 92 to 98.5 %; of 40, 85 % or more.

    Labels taken at their word, hardly any band holds.
    """
    monkeypatch.setattr(simultaneous, "DRAWS", 1 << 13)
    right, asked = truth(QUERIES, SOUTH), Means([PointQuestion(str(q.at), q) for q in QUERIES])
    inside = naive = 0
    for seed in range(count):
        reports = lied(seed, (1_500, 2_500))
        low, high = reports.ask(asked, stratum="south").band()
        inside += bool(((low <= right) & (right <= high)).all())
        as_open = reports_of(next(iter(reports.blocks())), held().campaign)
        low, high = as_open.ask(asked, stratum="south").band()
        naive += bool(((low <= right) & (right <= high)).all())
    assert (0.92 if count > 40 else 0.85) <= inside / count <= (0.985 if count > 40 else 1)
    assert naive / count < 0.2


@pytest.mark.deep
def test_maps_of_groups_are_one_file() -> None:
    plane = AzimuthalEquidistant(-73.98, 40.75, radius_m=20_000)
    of = campaign_for_points(
        attribute="location", privacy=GeoPrivacy(1.0, per=200.0, unit="metre"), plane=plane,
        campaign_id="where", title="Where", strata=Strata(name="region", labels=LABELS),
        opens=OPENS, closes=OPENS + timedelta(days=1),
    )  # fmt: skip
    sent = np.random.default_rng(2).normal(0.0, 2_000.0, (400, 2)) / of.point_mechanism.step
    columns = tuple(np.rint(sent).astype(np.int64).T)
    labels = np.repeat(np.arange(2, dtype=np.uint32), 200)
    held = reports_of(ReportRows(np.zeros(400, np.uint32), None, columns, labels), of)
    found = held.ask_by_group(Map(size=(3, 2)))
    features = found.to_geojson()["features"]
    assert [f["properties"]["region"] for f in features] == ["north"] * 6 + ["south"] * 6
    alone = held.ask(Map(size=(3, 2)), stratum="south").to_geojson()["features"][0]
    assert features[6]["geometry"] == alone["geometry"]
    assert features[6]["properties"] == {"region": "south"} | alone["properties"]
    with pytest.raises(UnsupportedError, match="not of places"):
        lied(1, (200, 200), 4.0).ask_by_group(Quantiles(levels=[0.5])).to_geojson()


def test_a_group_of_nobody_is_named() -> None:
    found = held(counts=(0, 500)).ask_by_group(MeanValue())
    assert [row["region"] for row in found.rows()] == ["south"]
    assert any(note.startswith("Nothing is told of north") for note in found.notes)
    assert found.differences() == ()
    with pytest.raises(UnsupportedError):
        held(counts=(0, 0)).ask_by_group(MeanValue())


@pytest.mark.deep(keep=0)
def test_curves_of_groups_are_drawn_together(reports: Reports) -> None:
    found = reports.ask_by_group(DistributionFunction(points=11))
    axes = found.plot()
    assert axes.get_xlabel() == found["north"].plot().get_xlabel()  # with the unit
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == list(LABELS)
    assert isinstance(found, ByGroup)
    assert found.to_pandas()["region"].nunique() == 2


@pytest.mark.parametrize(
    ("asked", "of_whom", "named"),
    [
        (MeanValue(), {"sizes": {"north": 1.0}}, "groups of the sizes"),
        (MeanValue(), {"sizes": SIZES, "stratum": "north"}, "sizes"),
        (MeanValue(), {"stratum": "west"}, "stratum"),
    ],
)
def test_what_makes_no_sense_is_refused(
    reports: Reports, asked: Any, of_whom: dict[str, Any], named: str
) -> None:
    with pytest.raises(ParameterError) as caught:
        reports.ask(asked, **of_whom)
    assert caught.value.name == named


def test_what_has_no_groups_of_its_own_is_refused(reports: Reports) -> None:
    with pytest.raises(UnsupportedError, match="without weights"):
        reports.ask(SmoothedDistribution(), sizes=SIZES)
    with pytest.raises(UnsupportedError, match="without weights"):
        held(epsilon=1.0).ask_by_group(SmoothedDistribution())
    with pytest.raises(UnsupportedError, match="'north' can't be told"):
        held(epsilon=0.1, counts=(20, 20)).ask(MeanValue(), stratum="north")
    plain = reports_of(next(iter(reports.blocks())), campaign())
    with pytest.raises(ParameterError, match="with strata"):
        plain.ask_by_group(MeanValue())
    with pytest.raises(ParameterError, match="with strata"):
        plain.ask(MeanValue(), sizes=SIZES)
