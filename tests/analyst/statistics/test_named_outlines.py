"""Test that GeoJSON files give matching labels, outlines and shares, or are refused.

The oracle counts people in the outlines that a file has for a name, with shapely alone.
"""

import json
from collections import Counter
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import shapely
from numpy.typing import NDArray

from geoveil.analyst import Districts, DistrictShares, JointEstimates, Nearest
from geoveil.analyst.geojson import outlines_in, places_in
from geoveil.analyst.outlines import clipped
from geoveil.gp import ParameterError
from geoveil.gp.coordinates import AzimuthalEquidistant
from geoveil.gp.limits import Limits

from . import populations

PLANE = AzimuthalEquidistant(-73.95, 40.71, radius_m=40_000)
CAMPAIGN = populations.places(PLANE, 500.0)
WEST, SOUTH, SIDE = -74.15, 40.56, 0.06
PEOPLE = 300
COLLECTIONS = 1_000
Places = NDArray[np.float64]
Json = dict[str, Any]


def feature(shape: Any, **properties: Any) -> Json:
    geometry = None if shape is None else shapely.geometry.mapping(shape)
    return {"type": "Feature", "properties": properties, "geometry": geometry}


def collection(*features: Json, **more: Any) -> Json:
    return {"type": "FeatureCollection", "features": list(features), **more}


def square(i: float, j: float, size: float = 1.0) -> Any:
    x, y = WEST + SIDE * i, SOUTH + SIDE * j
    return shapely.box(x, y, x + SIDE * size, y + SIDE * size)


def random_collection(rng: np.random.Generator) -> tuple[Json, str]:
    """Return districts of squares of a grid, with holes and islands; a third share a name."""
    n = int(rng.integers(2, 6))
    owner = rng.integers(-1, int(rng.integers(1, 6)), (n, n))
    key = str(rng.choice(["name", "NAME", "id"]))
    shapes: list[Any] = []
    for number in np.unique(owner[owner >= 0]):
        cells = np.argwhere(owner == number)
        joined = shapely.union_all([square(i, j) for i, j in cells])
        # Some files hold each island by itself.
        shapes += shapely.get_parts(joined).tolist() if rng.random() < 0.15 else [joined]
    names: list[Any] = [f"d{number}" for number in range(len(shapes))]
    if rng.random() < 0.3:
        names = list(range(len(shapes)))
    if len(names) > 1 and rng.random() < 0.3:
        one, other = rng.choice(len(names), 2, replace=False)
        names[one] = f" {names[other]} " if rng.random() < 0.5 else names[other]
    order = rng.permutation(len(shapes))
    found = [feature(shapes[at], **{key: names[at], "other": "x"}) for at in order]
    return json.loads(json.dumps(collection(*found))), key


def people_on(rng: np.random.Generator) -> Places:
    """Return people in the squares of the grid, none near an edge."""
    cells = rng.integers(0, 6, (PEOPLE, 2)) + rng.uniform(0.1, 0.9, (PEOPLE, 2))
    return np.stack([WEST + SIDE * cells[:, 0], SOUTH + SIDE * cells[:, 1]], axis=1)


def inside(geometry: Any, places: Places) -> NDArray[np.bool_]:
    shape = geometry if isinstance(geometry, shapely.Geometry) else shapely.geometry.shape(geometry)
    return np.asarray(shapely.contains_xy(shape, *places.T))


def answered(statistic: Districts, places: Places) -> DistrictShares:
    """Return what a statistic makes of answers without noise: who is in each region."""
    steps = statistic.steps(CAMPAIGN, 0.95)
    questions = next(steps)
    points = PLANE.project(places)
    regions = [
        shapely.MultiPolygon([(part[0], part[1:]) for part in one.query.region.region])
        for one in questions
    ]
    hits = np.stack([inside(region, points) for region in regions]).astype(float)
    m = len(questions)
    joint = JointEstimates(
        labels=tuple(one.label for one in questions), values=hits.mean(axis=1),
        covariance=np.eye(m) * 1e-6, n=len(places), confidence=0.95,
        limits=(Limits((0.0, 1.0), (0.0, 1.0)),) * m, privacy=CAMPAIGN.privacy,
    )  # fmt: skip
    with pytest.raises(StopIteration) as done:
        steps.send(joint)
    assert isinstance(done.value.value, DistrictShares)
    return done.value.value


def truth(content: Json, key: str, places: Places) -> dict[str, float]:
    found: Counter[str] = Counter()
    for one in content["features"]:
        found[str(one["properties"][key]).strip()] += int(inside(one["geometry"], places).sum())
    return {name: count / len(places) for name, count in found.items()}


def disagreements(made: Json, expected: Mapping[str, float], places: Places) -> int:
    """Return how many rows have not the share of their name, or of their outline."""
    wrong = 0
    for one in made["features"]:
        row = one["properties"]
        own = float(inside(one["geometry"], places).mean())
        share = row["estimate"]
        wrong += abs(share - expected[row["name"]]) > 1e-6 or abs(share - own) > 1e-6
    return wrong


def kept_last(content: Json, key: str, places: Places) -> Json:
    """Return what was said before: of one name the last district, and the outlines of all."""
    regions = {str(one["properties"][key]): one["geometry"] for one in content["features"]}
    outlines = [one["geometry"] for one in content["features"]]
    shares = {name: float(inside(geometry, places).mean()) for name, geometry in regions.items()}
    return collection(
        *(
            {"geometry": outline, "properties": {"name": name.strip(), "estimate": share}}
            for outline, (name, share) in zip(outlines, shares.items(), strict=False)
        )
    )


@pytest.mark.deep(keep=0)
@pytest.mark.parametrize("batch", range(20))
def test_labels_outlines_and_shares_are_of_one_district(batch):
    """1,000 collections in 20 batches: 0 wrong rows. What was done before has them.

    A GeoDataFrame of the same is read, or refused, alike.
    """
    geopandas = pytest.importorskip("geopandas")
    rng = np.random.default_rng([34, batch])
    asked = refused = control = 0
    for _ in range(COLLECTIONS // 20):
        content, key = random_collection(rng)
        if not content["features"]:
            continue
        places = people_on(rng)
        names = Counter(str(one["properties"][key]).strip() for one in content["features"])
        expected = truth(content, key, places)
        frame = geopandas.GeoDataFrame.from_features(content["features"], crs="EPSG:4326")
        (twice, count), *_ = names.most_common(1)
        if count > 1:
            with pytest.raises(ParameterError, match=rf"{count} are named '{twice}'"):
                Districts(content, name_property=key)
            with pytest.raises(ParameterError, match=rf"{count} are named '{twice}'"):
                Districts(frame, name_property=key)
            refused += 1
            control += disagreements(kept_last(content, key, places), expected, places)
            continue
        found = answered(Districts(content, name_property=key), places)
        assert found.labels == (*names, "elsewhere")
        assert disagreements(found.to_geojson(), expected, places) == 0
        framed = Districts(frame, name_property=key)
        assert framed.districts == Districts(content, name_property=key).districts
        assert found.values[-1] == pytest.approx(1 - sum(expected.values()), abs=1e-6)
        asked += 1
    assert asked > 15
    assert refused > 5
    assert control > 0, "the control must fail"


def test_a_picture_has_each_share_on_its_outline():
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rng = np.random.default_rng(6)
    # A ring around a town: what is drawn of the one leaves out the other, whichever comes last.
    ring, town = square(0, 0, 3.0).difference(square(1, 1)), square(1, 1)
    islands = shapely.union_all([square(4, 0), square(4, 4)])
    shapes = {"town": town, "ring": ring, "islands": islands}
    places = people_on(rng)
    found = answered(
        Districts(collection(*(feature(s, name=n) for n, s in shapes.items()))), places
    )
    axes = found.plot()
    share = dict(zip(found.labels, found.values.tolist(), strict=True))
    for name, shape, text in zip(shapes, shapes.values(), axes.texts, strict=True):
        assert text.get_text() == f"{name}\n{100 * share[name]:.1f} %"
        assert inside(shape, np.array([text.get_position()])).all()
        text.set_visible(False)
    canvas = axes.figure.canvas
    canvas.draw()
    picture = np.asarray(canvas.buffer_rgba())[::-1, :, :3] / 255
    (west, east), (south, north) = axes.get_xlim(), axes.get_ylim()
    places = places[inside(shapely.box(west, south, east, north), places)]
    columns, rows = axes.transData.transform(places).astype(int).T
    for (name, shape), patch in zip(shapes.items(), axes.patches, strict=True):
        its = np.abs(picture[rows, columns] - patch.get_facecolor()[:3]).max(axis=1) < 0.01
        assert np.array_equal(its, inside(shape, places)), name
    pyplot.close("all")


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (collection(feature(square(0, 0), BORO="a"), feature(square(1, 0), BORO="b")), "BORO"),
        (collection(feature(square(0, 0), name="elsewhere")), "elsewhere"),
        (collection(feature(square(0, 0), name="a"), feature(None, name="b")), "GeoJSON"),
        (
            collection(
                feature(square(0, 0), name="a"),
                crs={"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::2263"}},
            ),
            "EPSG:4326.*EPSG::2263",
        ),
    ],
)
def test_what_cannot_be_read_for_certain_is_refused(content, match):
    with pytest.raises(ParameterError, match=match):
        Districts(content)


def test_places_that_lie_elsewhere_are_said_to():
    paris = shapely.box(2.2, 48.8, 2.5, 48.9)
    swapped = shapely.transform(square(0, 0), lambda corners: corners[:, ::-1])
    metres = shapely.box(980_000, 190_000, 990_000, 200_000)
    for shape, match in (
        (paris, "in the area of the survey, within 40,000 metre of -73.95,40.71"),
        (swapped, "longitude before the latitude"),
        (metres, "degrees.*metres of another reference system"),
    ):
        with pytest.raises(ParameterError, match=match):
            next(Districts(collection(feature(shape, name="a"))).steps(CAMPAIGN, 0.95))
        with pytest.raises(ParameterError, match=match):
            outlines_in(feature(shape, name="a"), "x")[0].sharp(PLANE, 1.0)
    for place, match in (((2.35, 48.86), "area"), ((40.7, -73.9), "longitude comes first")):
        nearest = Nearest({"a": place, "b": (-73.9, 40.7)})
        with pytest.raises(ParameterError, match=match):
            next(nearest.steps(CAMPAIGN, 0.95))


def test_what_reaches_beyond_the_area_is_cut_at_its_edge():
    """Against people within 40 km; those who are moved to the edge are in, at each azimuth."""
    east = shapely.box(-73.95, 40.5, -72.5, 41.0)
    cut = clipped(PLANE, "east", [[list(east.exterior.coords)]])
    assert not cut.whole
    region = shapely.MultiPolygon([(part[0], part[1:]) for part in cut.parts])
    rng = np.random.default_rng(3)
    places = np.stack([rng.uniform(-74.3, -72.0, 4_000), rng.uniform(40.3, 41.1, 4_000)], axis=1)
    held = PLANE.area.contract(places)
    near = np.all(held == places, axis=1)
    points = PLANE.project(places)
    wide = AzimuthalEquidistant(-73.95, 40.71, 5_000_000)
    plane_box = shapely.Polygon(wide.project(np.array(east.exterior.coords)))
    expected = inside(plane_box, wide.project(places))
    assert np.array_equal(inside(region, points)[near], expected[near])
    edge = points[~near & expected & (np.abs(points[:, 1]) < 20_000)]
    assert len(edge) > 500
    assert inside(region, edge).all()
    found = answered(Districts(collection(feature(east, name="east"))), held)
    assert "Beyond the area of the survey lies a part of east" in " ".join(found.notes)


def test_frames_are_read_with_their_reference_system():
    geopandas = pytest.importorskip("geopandas")
    frame = geopandas.GeoDataFrame(
        {"BORO": ["a", "b"]}, geometry=[square(0, 0), square(2, 2)], crs="EPSG:4326"
    )
    assert [one.label for one in Districts(frame, name_property="BORO").districts] == ["a", "b"]
    with pytest.raises(ParameterError, match="EPSG:2263"):
        Districts(frame.set_crs(2263, allow_override=True), name_property="BORO")
    points = frame.set_geometry(frame.geometry.representative_point())
    near = Nearest(points, name_property="BORO")
    assert inside(square(0, 0), np.array([near.places["a"]])).all()
    with pytest.raises(ParameterError, match="Point"):
        Nearest(frame, name_property="BORO")
    alone = SimpleNamespace(__geo_interface__=shapely.geometry.mapping(square(0, 0)))
    assert [one.label for one in outlines_in(alone, "x")] == ["district"]


def test_names_are_not_lost():
    numbered = collection(feature(square(0, 0), name=0), feature(square(1, 0), name=1.0))
    assert [one.label for one in outlines_in(numbered, "x")] == ["0", "1"]
    bare = collection(feature(square(0, 0)), feature(square(1, 0)))
    assert [one.label for one in outlines_in(bare, "x", stem="part")] == ["part 1", "part 2"]
    with pytest.raises(ParameterError, match="feature 2 lacks"):
        Districts(collection(feature(square(0, 0), id=1), feature(square(1, 0), id=None)),
                  name_property="id")  # fmt: skip
    spots = [
        feature(shapely.Point(-73.9, 40.7), name="a"),
        feature(shapely.Point(-73.8, 40.7), name="a"),
    ]
    with pytest.raises(ParameterError, match="2 are named 'a'"):
        places_in(collection(*spots), "x")
