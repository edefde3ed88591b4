"""The fields of the planning form."""

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, Self, get_type_hints

from geoveil.analyst import AnalystQuestion, outlines_in, questions_in, texts_of_toml
from geoveil.campaign import Asker
from geoveil.console.http import GatewayRequest
from geoveil.gp import LogScale, ParameterError, validation

QUESTIONS: Mapping[str, str] = MappingProxyType(
    {
        "threshold": "Share of people above a value",
        "range": "Share of people between two values",
        "circle": "Share of people within a circle",
        "region": "Share of people inside a district",
        "place": "Density of people at a place",
    }
)
"""Name of a question in `geoveil plan` → its description."""
_OF_PLACES = frozenset({"circle", "region", "place"})
PEOPLE: Mapping[str, str] = MappingProxyType(
    {
        "incomes": "Incomes of Californian households (included)",
        "lognormal": "A log-normal law: a median and how widely values spread",
        "pilot": "What a value campaign on this server found: a pilot",
        "file": "A file of yours: CSV or Parquet, public data only",
    }
)
"""Kinds of priors for people who hold numbers."""
PLACES: Mapping[str, str] = MappingProxyType(
    {
        "collisions": "Collisions in New York (included)",
        "file": "A file of yours: CSV or Parquet with longitudes and latitudes, public data only",
    }
)
"""Kinds of priors for people who hold places."""
_LONGEST_LINE = 200
_LONGEST: Mapping[str, int] = MappingProxyType(
    {"region": 200_000, "purpose": 500, "notice": 500, "texts": 50_000}
)
"""Letters of the longer texts."""
OF_ASKER = tuple(of_asker.name for of_asker in fields(Asker))
_LONGEST_DAYS = 3_650.0
_MOST_PEOPLE = 10**10


@dataclass(frozen=True, kw_only=True)
class PlanForm:
    """All fields of the planning form, including those that the question does not use."""

    ask: str = "threshold"
    """A key of `QUESTIONS`."""
    answers: str = "question"
    """What each participant sends: the "question"'s answer, or "points" for later questions."""
    threshold: float = 100_000.0
    low: float = 50_000.0
    high: float = 100_000.0
    longitude: float = -73.9855
    latitude: float = 40.758
    radius: float = 2_000.0
    """The radius of the circle, in metres."""
    bandwidth: float | None = None
    """The bandwidth of a density's bell, in metres; None for the plan's choice."""
    region: str = ""
    """GeoJSON of one polygon."""
    people: str = "incomes"
    """A key of `PEOPLE`."""
    places: str = "collisions"
    """A key of `PLACES`."""
    median: float = 60_000.0
    sigma: float = 0.8
    pilot: str = ""
    """The id of the value campaign that serves as a pilot."""
    file: str = ""
    """The key of the uploaded file."""
    columns: str = ""
    """The file's column of values; for places two columns, separated by a comma."""
    weights: str = ""
    unit: str = "dollar"
    epsilon: float = 1.0
    per: float = 8_000.0
    """The distance of the guarantee for numbers, in their unit."""
    per_metres: float = 500.0
    """The distance of the guarantee for places, in metres."""
    compare: str = "difference"
    """How the guarantee compares numbers: by "difference" or by "ratio"."""
    factor: float = 2.0
    """The value of `per` for values compared by ratio."""
    ratios_from: float = 1_000.0
    """With ratios: the least value that is distinguished from smaller ones."""
    participants: int = 50_000
    target_error: float | None = None
    cap: str = "least"
    """The cap on the odds of any two values: the "least" that the plan finds, or "none"."""
    contamination: float = 0.01
    title: str = ""
    attribute: str = ""
    days: float = 30.0
    minimum_participants: int = 100
    organisation: str = ""
    purpose: str = ""
    contact: str = ""
    notice: str = ""
    """The fields of `Asker`; all empty if the survey names no asker."""
    delete_after: int | None = None
    """Days from closing to the deletion of single reports; None if the survey does not say."""
    texts: str = ""
    """Texts in other languages, as TOML for `texts_of_toml`; may be empty."""

    def __post_init__(self) -> None:
        validation.choice("ask", self.ask, QUESTIONS)
        validation.choice("answers", self.answers, ("question", "points"))
        validation.choice("compare", self.compare, ("difference", "ratio"))
        validation.choice("cap", self.cap, ("least", "none"))
        validation.choice("people", self.people, PEOPLE)
        validation.choice("places", self.places, PLACES)
        validation.between("days", self.days, 0, _LONGEST_DAYS, low_open=True)
        validation.between("contamination", self.contamination, 0, 1, high_open=True)
        validation.between("participants", self.participants, 1, _MOST_PEOPLE)
        validation.between("minimum_participants", self.minimum_participants, 0, _MOST_PEOPLE)
        if self.delete_after is not None:
            validation.between("delete_after", self.delete_after, 0, _LONGEST_DAYS)
        for of_form in fields(self):
            value = getattr(self, of_form.name)
            most = _LONGEST.get(of_form.name, _LONGEST_LINE)
            if isinstance(value, str) and len(value) > most:
                raise ParameterError(
                    of_form.name, f"{len(value)} letters", f"at most {most:,} letters"
                )

    @classmethod
    def of(cls, request: GatewayRequest) -> Self:
        """Return the form in a request; missing fields have their defaults.

        Raises:
            ParameterError: if a field is invalid.
        """
        said: dict[str, Any] = {}
        for name, kind in get_type_hints(cls).items():
            if name not in request.fields and name not in request.query:
                continue
            if kind is str:
                said[name] = request.text(name)
            else:
                whole = kind in (int, int | None)
                said[name] = (request.integer if whole else request.number)(name)
            if said[name] is None and kind in (int, float):
                raise ParameterError(name, "", "given")
        return cls(**said)

    @property
    def about_places(self) -> bool:
        """Whether the question is about places, not numbers."""
        return self.ask in _OF_PLACES

    @property
    def source(self) -> str:
        """The kind of prior of its people."""
        return self.places if self.about_places else self.people

    @property
    def of_file(self) -> tuple[str, ...]:
        """The names of the file's columns."""
        return tuple(column.strip() for column in self.columns.split(",") if column.strip())

    def asked(self) -> AnalystQuestion:
        """Return the question.

        Raises:
            ParameterError: if a field is out of range.
        """
        if self.ask != "region":
            return questions_in({self.ask: [self._asked]})[0]
        try:
            content = json.loads(self.region)
        except (ValueError, RecursionError):
            raise ParameterError("region", "this text", "GeoJSON of one polygon") from None
        outlines = outlines_in(content, "this text")
        if len(outlines) != 1:
            raise ParameterError("region", f"{len(outlines)} features", "GeoJSON of one polygon")
        return outlines[0]

    def others(self) -> dict[str, Any]:
        """Return the other arguments of `PlanningSession.request`."""
        by_ratio = self.compare == "ratio" and not self.about_places
        per = self.factor if by_ratio else self.per
        given = {
            "epsilon": self.epsilon,
            "per": self.per_metres if self.about_places else per,
            "scale": LogScale(self.ratios_from) if by_ratio else None,
            "participants": self.participants,
            "unit": self.unit if self.source in ("lognormal", "file") else None,
            "target_error": self.target_error,
            "bandwidth": self.bandwidth if self.ask == "place" else None,
            "allocation": "points" if self.answers == "points" else None,
            "attribute": self.attribute or None,
        }
        if self.about_places:
            given["unit"] = None
        return {name: value for name, value in given.items() if value is not None}

    def signed(self, closes: datetime) -> dict[str, Any]:
        """Return the asker, the time of deletion and the translations, if given.

        Raises:
            ParameterError: if a field is out of range.
        """
        asker = self._asker()
        given: dict[str, Any] = {"asker": Asker(**asker)} if any(asker.values()) else {}
        if self.delete_after is not None:
            given["delete_after"] = closes + timedelta(days=self.delete_after)
        if self.texts:
            texts = texts_of_toml(self.texts, given.get("asker"))
            given |= zip(("language", "translations"), texts, strict=True)
        return given

    @property
    def name(self) -> str:
        """The title; by default the words of the question."""
        return self.title or f"{QUESTIONS[self.ask]}"

    @property
    def prior(self) -> str:
        """The prior in the notation of `geoveil plan --prior`; an uploaded file is people.csv."""
        law = f"lognormal:{self.median:.15g},{self.sigma:.15g}"
        named = {"lognormal": law, "pilot": f"pilot:{self.pilot}", "file": "people.csv"}
        return named.get(self.source, self.source)

    def commands(self) -> str:
        """Return the commands that plan, sign and publish the same survey."""
        argument = "district.geojson" if self.ask == "region" else self._asked
        said: dict[str, Any] = self.others() | {"prior": self.prior}
        if "scale" in said:
            said["ratios_from"] = said.pop("scale").floor
        plan = [f"geoveil plan --{self.ask}={argument}"]
        if self.source == "file":
            plan += [f"--prior-column {shlex.quote(column)}" for column in self.of_file]
            plan += [f"--prior-weights {shlex.quote(self.weights)}"] if self.weights else []
        for name, value in said.items():
            text = shlex.quote(value) if isinstance(value, str) else f"{value:.15g}"
            plan.append(f"--{name.replace('_', '-')} {text}")
        plan += ["--cap none"] if self.cap == "none" else []
        create = [
            f"geoveil campaign create {shlex.quote(self.name)} --plan plan.toml",
            f"--days {self.days:.15g} --minimum-participants {self.minimum_participants}",
            *(f"--{name} {shlex.quote(text)}" for name, text in self._asker().items() if text),
            *([] if self.delete_after is None else [f"--delete-after {self.delete_after}"]),
            *(["--texts texts.toml"] if self.texts else []),
            "--sign-key key.pem",
        ]
        return "\n".join(" \\\n    ".join(words) for words in ([*plan, "--out plan.toml"], create))

    def _asker(self) -> dict[str, str]:
        return {name: getattr(self, name) for name in OF_ASKER}

    @property
    def _asked(self) -> str:
        """The question in the notation of `geoveil plan`; a region is read from a file instead."""
        where = f"{self.longitude:.15g},{self.latitude:.15g}"
        return {
            "threshold": f"{self.threshold:.15g}",
            "range": f"{self.low:.15g},{self.high:.15g}",
            "circle": f"{where},{self.radius:.15g}",
        }.get(self.ask, where)
