"""Test that families have complete records, and that packages can add but not replace some."""

import importlib
import sys
import traceback
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from geoveil.audit import missing
from geoveil.campaign import (
    MECHANISMS,
    QUERIES,
    Attribute,
    Campaign,
    Example,
    MechanismFamily,
    MechanismSpec,
    NotInstalled,
    Planned,
    QueryFamily,
    Question,
    Registry,
    StatisticCampaign,
    decode,
    encode,
    seal,
)
from geoveil.campaign.entry_points import added
from geoveil.client import CampaignInvalid, FamilyMissing, Policy, PolicyRefused, ReportBuilder
from geoveil.client.policy import CampaignCost
from geoveil.gp import (
    GeoPrivacy,
    LipschitzMechanism,
    ParameterError,
    Query,
    Threshold,
    UnsupportedError,
)
from geoveil.proto.v1 import campaign_pb2 as pb

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
PRIVACY = GeoPrivacy(1.0, 500.0, "metre")
EXAMPLE = Example(Threshold(0.0, 900.0, "smoothstep"), PRIVACY, (0.0,))
MODULE = """
from dataclasses import dataclass
from geoveil.campaign import Example, MechanismFamily, MechanismSpec, Planned, QueryFamily
from geoveil.gp import GeoPrivacy, LipschitzMechanism, Query, Threshold
from geoveil.gp.queries.profiles import Smoothstep

@dataclass(frozen=True)
class Below(Query):
    at: float
    width: float
    weights: tuple[float, ...] = ()
    word: str = "below"
    times: int = 1

    def __post_init__(self):
        if self.word == "crash":
            raise RuntimeError("a programmer's mistake")

    dimension = 1

    @property
    def profile(self):
        return Smoothstep(self.width)

    def signed_distance(self, x, ops=None):
        from geoveil.gp.arithmetic import FLOAT
        if self.word == "talk" and ops is not None:
            raise RuntimeError(f"{x} is private")
        return (ops or FLOAT).constant(self.at) - x

@dataclass(frozen=True)
class LaxSpec(MechanismSpec):
    share: float

    def build(self, query, privacy, step=None):
        weaker = GeoPrivacy(privacy.epsilon / self.share, privacy.per, privacy.unit)
        return LipschitzMechanism(query, weaker, step=step)

PRIVACY = GeoPrivacy(1.0, 500.0, "metre")
below = QueryFamily(
    name="below", made=Below, summary="the share below a value",
    examples=lambda: (Example(Below(0.0, 900.0), PRIVACY, (0.0,)),),
)
lax = MechanismFamily(name="lax", made=LaxSpec, summary="too little noise")
other = "no record"
"""


def registries() -> tuple[Registry[QueryFamily], Registry[MechanismFamily]]:
    """Return what a new process would have."""
    return (
        Registry("geoveil.queries", QueryFamily, tuple(QUERIES.built_in.values())),
        Registry("geoveil.mechanisms", MechanismFamily, tuple(MECHANISMS.built_in.values())),
    )


def install(folder: Any, name: str, module: str, **points: dict[str, str]) -> None:
    """Install a package of one module, with entry points by group."""
    (folder / f"{name}.py").write_text(module)
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = []
    for group, entries in points.items():
        lines += [f"[geoveil.{group}]", *(f"{key} = {value}" for key, value in entries.items())]
    (info / "entry_points.txt").write_text("\n".join(lines))


@pytest.fixture
def package(tmp_path, monkeypatch):
    """The package of `MODULE`, which adds a query and a mechanism that lies about its privacy."""
    install(
        tmp_path, "veil_below", MODULE,
        queries={"below": "veil_below:below", "other": "veil_below:other",
                 "gone": "veil_below:gone"},
        mechanisms={"lax": "veil_below:lax"},
    )  # fmt: skip
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    queries, mechanisms = registries()
    for name in ("geoveil.campaign.queries", "geoveil.client.policy"):
        monkeypatch.setattr(f"{name}.QUERIES", queries)
    for name in ("geoveil.campaign.codec", "geoveil.client.policy"):
        monkeypatch.setattr(f"{name}.MECHANISMS", mechanisms)
    decode.cache_clear()
    added.cache_clear()
    yield queries, mechanisms
    decode.cache_clear()
    added.cache_clear()
    sys.modules.pop("veil_below", None)


def made(query: Query, **changes: Any) -> Campaign:
    fields: dict[str, Any] = {
        "campaign_id": "families",
        "title": "Families",
        "attribute": Attribute(name="height", unit="metre"),
        "privacy": PRIVACY,
        "questions": (Question("first", query),),
        "opens": NOW,
        "closes": NOW + timedelta(days=30),
    }
    return StatisticCampaign(**(fields | changes))


@pytest.mark.parametrize("family", [*QUERIES, *MECHANISMS], ids=lambda family: family.name)
def test_every_family_is_complete(family):
    assert missing(family) == []


@pytest.mark.parametrize("family", [*QUERIES, *MECHANISMS], ids=lambda family: family.name)
def test_every_family_has_its_row_in_the_documents(family):
    page = Path(__file__).parents[2] / "docs" / "mechanisms.md"
    assert f"| `{family.name}` | {family.summary} |" in page.read_text().splitlines()


@dataclass(frozen=True)
class OffGridSpec(MechanismSpec):
    """Builds what was not asked for: on its own grid, for another guarantee."""

    secret: object = None

    def build(self, query: Query, privacy: GeoPrivacy, step: float | None = None) -> Any:
        return LipschitzMechanism(query, GeoPrivacy(2.0, privacy.per, privacy.unit))


CONTROLS = {
    "a name": (replace(QUERIES["threshold"], name="Two Words"), "a name"),
    "a summary": (replace(QUERIES["threshold"], summary=""), "a summary"),
    "examples": (replace(QUERIES["threshold"], examples=lambda: ()), "examples"),
    "a wire form": (
        replace(QUERIES["threshold"], made=Query, wire=None, examples=lambda: ()), "not a dataclass"
    ),
    "its own example": (
        replace(QUERIES["range"], examples=lambda: (EXAMPLE,)), "not of the family"
    ),
    "reading what it writes": (
        replace(
            QUERIES["threshold"],
            wire=replace(QUERIES["threshold"].wire, read=lambda m: Threshold(m.at + 1, m.width)),
        ),
        "is read as",
    ),
    "a plan": (replace(MECHANISMS["smooth"], planned=()), "planned"),
    "its promise": (
        MechanismFamily(
            name="off", made=OffGridSpec, summary="off", examples=lambda: (EXAMPLE,),
            planned=(Planned(name="off", options=({"secret": 1.0},)),),
        ),
        "asked for",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CONTROLS)
def test_what_a_family_lacks_is_named(name):
    """Control: the test above can fail, for each of the things that it looks at."""
    family, words = CONTROLS[name]
    assert any(words in sentence for sentence in missing(family))


def test_a_query_of_another_package_travels_and_is_answered(package):
    queries, _ = package
    assert "veil_below" not in sys.modules  # looked up by name, not imported
    query = queries.parse("below:at=100,width=900,weights=1 2.5,word=under,times=3")
    assert (query.at, query.weights, query.word, query.times) == (100.0, (1.0, 2.5), "under", 3)
    campaign = made(query)
    data = encode(campaign)
    assert decode(data).questions[0].query == query
    builder = ReportBuilder(policy=Policy.permitting(campaign))
    accepted = builder.accept("families", seal(data))
    assert builder.prepare(accepted, 120.0).digest
    assert CampaignCost.of(data).work > CampaignCost.of(encode(made(EXAMPLE.query))).work
    strict = Policy(builder.policy.limits, most_work=1_000)
    with pytest.raises(PolicyRefused, match="work"):
        ReportBuilder(policy=strict).accept("families", seal(data))


def test_what_another_package_says_of_a_value_is_not_repeated(package):
    queries, _ = package
    campaign = made(queries.parse("below:at=100,width=900,word=talk"))
    contributor = ReportBuilder(policy=Policy.permitting(campaign))
    accepted = contributor.accept("families", seal(encode(campaign)))
    with pytest.raises(UnsupportedError, match="not shown") as refused:
        contributor.prepare(accepted, 123_456.0)
    shown = "".join(traceback.format_exception(refused.value))
    assert "private" not in shown
    assert "123" not in str(refused.value)
    assert refused.value.__context__ is None


def test_its_bytes_are_covered_by_the_digest_and_canonical(package):
    queries, _ = package
    data = encode(made(queries.parse("below:at=100,width=900")))
    message = pb.Campaign.FromString(data)
    parameters = message.queries[0].extension.parameters
    assert [p.name for p in parameters] == ["at", "times", "weights", "width", "word"]
    parameters.reverse()
    with pytest.raises(UnsupportedError, match="canonical"):
        decode(message.SerializeToString(deterministic=True))


def test_an_unknown_family_is_refused_by_name_and_what_to_install(package):
    queries, _ = package
    data = encode(made(queries.parse("below:at=100,width=900"))).replace(b"below", b"elsew")
    builder = ReportBuilder(policy=Policy.permitting(made(EXAMPLE.query)))
    with pytest.raises(
        FamilyMissing, match=r"'elsew' among its entry points 'geoveil\.queries'"
    ) as e:
        builder.accept("families", seal(data))
    assert (e.value.family, e.value.group) == ("elsew", "geoveil.queries")
    with pytest.raises(NotInstalled, match="'elsew'"):
        decode(data)


def hostile(change: Any, queries: Registry[QueryFamily]) -> bytes:
    message = pb.Campaign.FromString(encode(made(queries.parse("below:at=100,width=900"))))
    change(message.queries[0].extension)
    return message.SerializeToString(deterministic=True)


HOSTILE = {
    "a built-in name": lambda m: setattr(m, "family", "threshold"),
    "no name": lambda m: m.ClearField("family"),
    "a path": lambda m: setattr(m, "family", "../below"),
    "a line": lambda m: setattr(m, "family", "below\n"),
    "no parameters": lambda m: m.ClearField("parameters"),
    "an unknown one": lambda m: m.parameters.add(name="zzz", number=1.0),
    "one without a value": lambda m: m.parameters[0].ClearField("value"),
    "infinity": lambda m: setattr(m.parameters[0], "number", float("inf")),
    "NaN among numbers": lambda m: m.parameters[2].numbers.values.append(float("nan")),
    "a text for a number": lambda m: setattr(m.parameters[0], "text", "100"),
    "what makes it crash": lambda m: setattr(m.parameters[4], "text", "crash"),
    "a hundred of them": lambda m: [m.parameters.add(name=f"z{i}") for i in range(100)],
    "no record": lambda m: setattr(m, "family", "other"),
    "no such attribute": lambda m: setattr(m, "family", "gone"),
}  # fmt: skip


@pytest.mark.parametrize("change", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_device_refuses_hostile_parameters(package, change):
    builder = ReportBuilder(policy=Policy.permitting(made(EXAMPLE.query)))
    with pytest.raises(CampaignInvalid):
        builder.accept("families", seal(hostile(change, package[0])))


def test_a_mechanism_that_states_another_guarantee_is_refused(package):
    _, mechanisms = package
    lax = mechanisms.parse("lax:share=0.5")
    with pytest.raises(UnsupportedError, match="which is not for"):
        made(EXAMPLE.query, mechanism=lax)
    assert made(EXAMPLE.query, mechanism=mechanisms.parse("lax:share=1")).mechanisms


@pytest.mark.parametrize("name", ["threshold", "below"])
def test_no_package_takes_a_name(package, tmp_path, name):
    """Neither from the library nor from a package that was there before."""
    install(tmp_path, "veil_thief", "", queries={name: "veil_thief:family"})
    added.cache_clear()
    queries, _ = registries()
    assert queries["threshold"] is QUERIES["threshold"]
    with pytest.raises(UnsupportedError, match="that name is taken by"):
        queries["below"]


@pytest.mark.parametrize(
    "text",
    ["nothing:at=1", "threshold", "threshold:at", "threshold:at=1,at=2,width=3",
     "threshold:at=one,width=2", "threshold:at=1,width=2,colour=red", "threshold:at=1,width=-2"],
)  # fmt: skip
def test_text_that_names_no_query_is_refused(text):
    with pytest.raises((ParameterError, NotInstalled)):
        QUERIES.parse(text)


def test_every_query_of_numbers_can_be_typed():
    assert QUERIES.parse("threshold: at=1, width=2, profile=smoothstep") == Threshold(
        1.0, 2.0, "smoothstep"
    )
    assert QUERIES.parse("gaussian-kernel:center=0 1.5,bandwidth=2").center == (0.0, 1.5)
    assert MECHANISMS.parse("smooth") == MECHANISMS["smooth"].default
    assert MECHANISMS.parse("smooth:beta_fraction=0.3").beta_fraction == 0.3
