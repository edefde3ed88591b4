"""The cost of a form: exact on one device, and simulated for many devices at once."""

from datetime import UTC, datetime, timedelta

import numpy as np

from benchmarks.timing import Figure, seconds_of, show
from geoveil.analyst.planned_forms import simulated
from geoveil.campaign import (
    Attribute,
    ChoiceField,
    FormCampaign,
    MultipleField,
    NumberField,
    OrdinalField,
    PlaceField,
    encode,
    seal,
)
from geoveil.client import Policy, ReportBuilder
from geoveil.gp import AzimuthalEquidistant, GeoPrivacy

PEOPLE, REPORTS = 100_000, 200
_REFERENCE = "numpy rng.laplace, a draw for each integer"
OPENS = datetime(2026, 1, 1, tzinfo=UTC)
AREA = AzimuthalEquidistant(2.35, 48.86, 15_000)
FORM = FormCampaign(
    campaign_id="form",
    title="A form of six fields",
    opens=OPENS,
    closes=OPENS + timedelta(days=1),
    fields=(
        NumberField(
            attribute=Attribute(name="income", unit="dollar", least=0, most=500_000),
            privacy=GeoPrivacy(1, 8000, "dollar"),
        ),
        PlaceField(
            attribute=Attribute(name="home", unit="metre", coordinates=AREA),
            privacy=GeoPrivacy(1, 500, "metre"),
        ),
        ChoiceField(name="rents", options=("yes", "no"), epsilon=2.0),
        ChoiceField(name="trade", options=tuple(map(str, range(40))), epsilon=1.0),
        OrdinalField(name="mood", options=tuple("12345"), epsilon=1.0),
        MultipleField(name="ways", options=("bus", "train", "car"), epsilon=1.0),
    ),
)
ANSWERS = {
    "income": 52_000.0,
    "home": (2.36, 48.85),
    "rents": "yes",
    "trade": "7",
    "mood": "3",
    "ways": ["bus"],
}


def table() -> list[Figure]:
    builder = ReportBuilder(policy=Policy.permitting(FORM))
    accepted = builder.accept("form", seal(encode(FORM)))
    rng = np.random.default_rng(1)

    def exact() -> None:
        for _ in range(REPORTS):
            builder.prepare(accepted, ANSWERS)

    prepared = [np.array([held] * PEOPLE) for held in FORM.prepare(ANSWERS)]
    devices = {
        _REFERENCE: (lambda: rng.laplace(size=(PEOPLE, FORM.columns)), PEOPLE),
        "simulated, 100,000 devices": (lambda: simulated(FORM, prepared, rng), PEOPLE),
        "exact, one device": (exact, REPORTS),
    }
    times = seconds_of({name: run for name, (run, _) in devices.items()}, rounds=5)
    each = {name: times[name] / (many * len(FORM.fields)) for name, (_, many) in devices.items()}
    return show("a form, for each of its six fields", "µs", 1e6, each, _REFERENCE)
