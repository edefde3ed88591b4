"""The sentences that tell people about their reports: for a campaign, and for a value."""

import math
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import Any

from geoveil.campaign import (
    Asker,
    Attribute,
    Campaign,
    DebiasedLaplaceSpec,
    LipschitzLaplaceSpec,
    PlanarLaplaceSpec,
    Question,
    Readings,
    SmoothSpec,
    Translation,
    encode,
    what_it_tells,
    what_it_tells_of,
    what_to_ask,
)
from geoveil.campaign.statistic import Allocation
from geoveil.gp import Cap, GaussianKernel, GeoPrivacy, LogScale, Range, Threshold
from tools.vectors.chance import PARIS, WORLD
from tools.vectors.examples import every_campaign, small_campaign

_VALUES = (20_000.0, 52_000.0, -5.0, 250_000.0, 99_999.5, 1_000_001.0)


def consent_vectors() -> list[dict[str, Any]]:
    """Return campaigns and values, with the sentences about each."""
    draw = Random(34)
    found = []
    for index, (name, campaign, length) in enumerate(every_campaign()):
        value = _value(draw, campaign, length)
        if campaign.attribute.coordinates == PARIS and index % 2:
            value.reverse()  # like somebody who types the latitude first
        if index % 18 == 0 or campaign.attribute.coordinates is not None:
            found.append(_told(name, campaign, value))
    for index, (name, campaign) in enumerate(surveys()):
        found.append(_told(name, campaign, _VALUES[index % len(_VALUES)]))
    found += [_told(name, campaign, value) for name, campaign, value in translated()]
    return found


def translated() -> Iterator[tuple[str, Campaign, Any]]:
    """Yield campaigns with texts in several languages, and a value."""
    asker = Asker(organisation="Stadt", purpose="Wohngeld", contact="x@y.z")
    city = Asker(organisation="City", purpose="Rents", contact="x@y.z", notice="https://y.z/en")
    above = Question("über 100 Tsd.", Threshold(100_000.0, 24_000.0, "smoothstep"))
    german = small_campaign(
        "german",
        attribute=Attribute(name="Haushaltseinkommen", unit="Euro"),
        privacy=GeoPrivacy(1.0, 8_000.0, "Euro"),
        questions=(above, Question("nahe 100 Tsd.", GaussianKernel(100_000.0, 24_000.0))),
        asker=asker,
        language="de",
        translations=(
            Translation(
                language="en",
                title="Incomes",
                asker=city,
                attribute="household income",
                unit="euro",
                labels=("above 100k", "near 100k"),
            ),
            Translation(language="fr-CA", attribute="revenu du ménage"),
            Translation(language="ar", attribute="دخل الأسرة"),
        ),
    )
    yield "translated", german, 52_000.0
    yield "translated from no language", replace(german, language=""), -5.0
    ratio = LogScale(1_000.0)
    by_ratio = small_campaign(
        "ratio",
        attribute=Attribute(name="income", unit="log euro", scale=ratio),
        privacy=GeoPrivacy.per_factor(1.0, 2.0, "euro"),
        mechanism=PlanarLaplaceSpec(1),
        translations=(Translation(language="DE", unit="Euro"), Translation(language="de-AT")),
    )
    yield "translated ratios", by_ratio, 52_000.0
    home = small_campaign(
        "home",
        attribute=Attribute(name="home", unit="metre", coordinates=PARIS),
        privacy=GeoPrivacy(1.0, 500.0, "metre"),
        mechanism=PlanarLaplaceSpec(2),
        translations=(Translation(language="de", attribute="Wohnung", unit="Meter"),),
    )
    yield "translated places", home, [2.35, 48.86]


def surveys() -> Iterator[tuple[str, Campaign]]:
    """Yield surveys of incomes: every kind of noise, and every way in which reports add up."""
    band = Question("above 100k", Threshold(100_000.0, 24_000.0, "smoothstep"))
    ramp = Question("above 100k", Threshold(100_000.0, 24_000.0, "linear"))
    bell = Question("near 100k", GaussianKernel(100_000.0, 24_000.0))
    middle = Question("middle", Range(40_000.0, 60_000.0, 16_000.0, "smoothstep"))
    many = tuple(
        Question(f"above {at}k", Threshold(1000.0 * at, 24_000.0, "smoothstep"))
        for at in (20, 40, 60, 80, 100)
    )
    by_ratio = Range(math.log(40_000.0), math.log(90_000.0), 0.5, "smoothstep")
    slack = GeoPrivacy(1.0, 8_000.0, "dollar", delta=1e-6)
    paper = SmoothSpec(noise="laplace", growth="linear", calibration="paper")

    def income(least: float | None, most: float | None) -> Attribute:
        return Attribute(name="household income", unit="dollar", least=least, most=most)

    given: dict[str, dict[str, Any]] = {
        "debiased": {"questions": (band,)},
        "lipschitz": {"questions": (ramp,), "mechanism": LipschitzLaplaceSpec()},
        "smooth": {"questions": (ramp,), "mechanism": SmoothSpec()},
        "student": {"questions": (band,), "mechanism": SmoothSpec(noise="student-t", nu=3.0)},
        "slack": {"questions": (band,), "mechanism": paper, "privacy": slack},
        "range": {"questions": (middle,)},
        "range-of-readings": {
            "questions": (middle,),
            "readings": Readings(every=timedelta(days=91)),
        },
        "split": {"questions": many, "allocation": Allocation.SPLIT},
        "repeat": {"questions": many, "allocation": Allocation.REPEAT},
        "partition": {"questions": many},
        "vector": {
            "questions": many,
            "allocation": Allocation.VECTOR,
            "mechanism": SmoothSpec(),
        },
        "moved-on": {
            "questions": (band,),
            "period": timedelta(days=7),
            "readings": Readings(every=timedelta(days=91), extrapolated=True),
        },
        "bell": {"questions": (bell,)},
        "bell-of-cauchy": {
            "questions": (bell,),
            "mechanism": SmoothSpec(noise="generalized-cauchy", gamma=4.0),
        },
        "bell-slack": {"questions": (bell,), "mechanism": paper, "privacy": slack},
        "points": {"mechanism": PlanarLaplaceSpec(1)},
        "points-clamped": {"mechanism": PlanarLaplaceSpec(1), "attribute": income(-4.0, 6e4)},
        "readings-of-a-range": {
            "mechanism": PlanarLaplaceSpec(1),
            "attribute": income(0.0, 6e4),
            "readings": Readings(every=timedelta(days=91)),
        },
        "expected": {"questions": (band,), "attribute": income(0.0, 10_000.0)},
        "expected-least": {"questions": (middle,), "attribute": income(-1_000.0, None)},
        "expected-most": {"questions": (band,), "attribute": income(None, -0.5)},
        "periods": {"questions": (band,), "period": timedelta(days=30)},
        "capped": {"questions": (band,), "cap": Cap(1.5, 2.5), "period": timedelta(days=45)},
        "capped-slack": {
            "questions": (band,),
            "mechanism": paper,
            "privacy": slack,
            "cap": Cap(5.0, 6.0),
            "period": timedelta(days=90),
        },
        "weak": {"questions": (band,), "privacy": GeoPrivacy(20.0, 8_000.0, "dollar")},
        "ratio": {
            "attribute": Attribute(name="pay", unit="log dollar", scale=LogScale(1_000.0)),
            "privacy": GeoPrivacy.per_factor(0.5, 2, "dollar"),
            "questions": (Question("middle", by_ratio),),
        },
        "points-by-ratio": {
            "attribute": Attribute(name="pay", unit="log dollar", scale=LogScale(1_000.0)),
            "privacy": GeoPrivacy.per_factor(2.0, 2, "dollar"),
            "mechanism": PlanarLaplaceSpec(1),
        },
        "points-by-ratio-clamped": {
            "attribute": Attribute(
                name="pay", unit="log dollar", scale=LogScale(1_000.0), least=500.0, most=9e4
            ),
            "privacy": GeoPrivacy.per_factor(2.0, 2, "dollar"),
            "mechanism": PlanarLaplaceSpec(1),
        },
        "moved-on-bell": {
            "questions": (bell,),
            "period": timedelta(days=7),
            "readings": Readings(every=timedelta(days=91), extrapolated=True),
        },
        # No two values are as distinguishable as the price says of two 8,000 dollar apart.
        "capped-below-its-price": {
            "questions": (Question("above 100k", Threshold(100_000.0, 2_400.0, "smoothstep")),),
            "privacy": GeoPrivacy(20.0, 8_000.0, "dollar"),
            "cap": Cap(3.5, 4.0),
            "period": timedelta(days=90),
        },
        "clamped-below-its-price": {
            "mechanism": PlanarLaplaceSpec(1),
            "attribute": income(0.0, 800.0),
            "privacy": GeoPrivacy(20.0, 8_000.0, "dollar"),
        },
    }
    for name, changes in given.items():
        yield name, small_campaign(name, **({"mechanism": DebiasedLaplaceSpec()} | changes))


def _value(draw: Random, campaign: Campaign, length: float) -> Any:
    if campaign.attribute.coordinates is not None:
        plane = campaign.attribute.coordinates
        away = 0.02 if plane == PARIS else 5.0
        assert plane in (PARIS, WORLD)
        return [
            plane.longitude_deg + draw.uniform(-away, away),
            plane.latitude_deg + draw.uniform(-away, away),
        ]
    value = [length * draw.uniform(-4, 4) for _ in range(campaign.dimension)]
    return value[0] if len(value) == 1 else value


def _told(name: str, campaign: Campaign, value: Any) -> dict[str, Any]:
    asks = what_to_ask(campaign, value)
    return {
        "name": name,
        "campaign": encode(campaign).hex(),
        "value": value,
        "tells": what_it_tells(campaign),
        "tells_of": what_it_tells_of(campaign, value),
        **({"asks": asks} if asks else {}),
    }
