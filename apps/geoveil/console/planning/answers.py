"""Answers to the planning form: a forecast, a plan or a campaign, as JSON messages.

This code runs in a separate process, described in `geoveil.console.process`.
"""

import base64
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from geoveil.analyst import (
    PilotCounts,
    PlannedQuestion,
    PlannedQuestions,
    PlanningSession,
    PlanRequest,
    PublicPrior,
    UnmetWishError,
    expected_text,
    planned_contamination,
    prior_of_counts,
    refuse_unlikely,
)
from geoveil.campaign import decode_attribute_campaign, encode, seal
from geoveil.console.kept import Newest
from geoveil.console.planning.plan_form import PlanForm
from geoveil.console.process import Ask, Message, refused
from geoveil.gp import GeoVeilError, ParameterError, UnsupportedError, needed_for
from geoveil.simulation.priors import public_prior

MOST_ROWS = 200_000
"""The most rows of a file of people."""
_MOST_UNPACKED = 64 << 20
_SESSIONS = 6
_PARQUET = b"PAR1"


class Planner:
    """Answers messages, and caches the planning sessions of recent priors."""

    def __init__(self) -> None:
        self._sessions: Newest[str, PlanningSession] = Newest(_SESSIONS)

    def answer(self, message: Message, ask: Ask | None = None) -> Message:
        """Return the answer to a message: a result, or the form's invalid field.

        Args:
            message: has a "task", a "form", and "people": the data of an uploaded file or a pilot,
                or None.
            ask: unused: the message holds all data.
        """
        try:
            form = PlanForm(**message["form"])
            session = self._session(form, message.get("people"))
            request = session.request([form.asked()], **form.others())
            return _TASKS[message["task"]](session, request, form, message)
        except UnmetWishError as error:
            return refused(error.name, error.expected, error.nearest)
        except ParameterError as error:
            return refused(error.name, error.expected)
        except GeoVeilError as error:
            return refused("", str(error))

    def _session(self, form: PlanForm, people: Mapping[str, Any] | None) -> PlanningSession:
        people_key = form.prior if people is None else f"{form.prior}|{people['key']}"
        key = f"{people_key}|{form.columns}|{form.weights}|{form.about_places}"
        if key not in self._sessions:
            self._sessions[key] = PlanningSession(_source(form, people))
        self._sessions.move_to_end(key)
        return self._sessions[key]


def _source(form: PlanForm, people: Mapping[str, Any] | None) -> PublicPrior:
    """Return the public prior."""
    if form.source == "pilot":
        if people is None:
            raise ParameterError("pilot", form.pilot, "a value campaign about numbers: choose one")
        campaign = decode_attribute_campaign(base64.b64decode(people["campaign"]))
        cells, counts = (np.array(people[key], np.int64) for key in ("cells", "counts"))
        return prior_of_counts(PilotCounts(campaign, cells, counts))
    if form.source != "file":
        return public_prior(form.prior)
    if people is None:
        raise ParameterError("file", form.file, "a file that you have chosen and added")
    return _of_file(form, base64.b64decode(people["content"]))


def _of_file(form: PlanForm, content: bytes) -> PublicPrior:
    """Return a prior from a file of bounded size; errors do not quote its rows."""
    ending = ".parquet" if content[:4] == _PARQUET else ".csv"
    expected = 2 if form.about_places else 1
    if len(form.of_file) != expected:
        expected_columns = (
            "longitude,latitude: two columns of the file" if expected == 2 else "one column"
        )
        raise ParameterError("columns", form.columns, expected_columns)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"people{ending}"
        file.write_bytes(content)
        if ending == ".parquet":
            _check_unpacked(file)
        elif content.count(b"\n") > MOST_ROWS:
            raise ParameterError("file", "longer", f"of at most {MOST_ROWS:,} rows")
        try:
            prior = public_prior(str(file), form.of_file, form.weights or None)
        except GeoVeilError as error:
            raise UnsupportedError(str(error).replace(str(file), "the file")) from None
    return replace(prior, name="the uploaded file")


def _check_unpacked(file: Path) -> None:
    """Refuse a Parquet file whose footer announces too many rows or unpacked bytes."""
    with needed_for("a Parquet file"):
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    try:
        with ParquetFile(file) as opened:
            metadata = opened.metadata
            groups = [metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups)]
            rows, size = metadata.num_rows, sum(groups)
    except (ArrowException, OSError, ValueError):
        raise ParameterError("file", "this one", "a Parquet file") from None
    if rows > MOST_ROWS or size > _MOST_UNPACKED:
        metadata = f"of at most {MOST_ROWS:,} rows and {_MOST_UNPACKED >> 20} MiB unpacked"
        raise ParameterError("file", f"{rows:,} rows", metadata)


def _told(planned: PlannedQuestion | PlannedQuestions, form: PlanForm) -> Message:
    report = planned.report()
    kept = (
        "targets", "price_of_privacy", "from_prior", "choice", "reason", "prior", "scenarios",
        "question", "participants", "privacy",
    )  # fmt: skip
    planned_report = {name: report[name] for name in kept}
    planned_report["by_ratio"] = "ratios_from" in report
    best = report["alternatives"][0]
    planned_report["asked"] = {
        name: best[name] for name in ("mechanism", "profile", "center", "width")
    }
    planned_report["errors"] = [(row["participants"], row["error_95"]) for row in report["errors"]]
    planned_report["contamination"] = planned_contamination(planned, form.contamination)[0]
    return planned_report


def _forecast(
    session: PlanningSession, request: PlanRequest, form: PlanForm, _: Message
) -> Message:
    forecast = session.forecast(request)
    return {"told": _told(forecast.planned, form), "settled": forecast.settled and forecast.met}


def _plan(session: PlanningSession, request: PlanRequest, form: PlanForm, _: Message) -> Message:
    return {"told": _told(session.plan(request), form), "settled": True}


def _campaign(
    session: PlanningSession, request: PlanRequest, form: PlanForm, message: Message
) -> Message:
    opens = datetime.fromtimestamp(message["now"], UTC).replace(microsecond=0)
    closes = opens + timedelta(days=form.days)
    campaign = session.plan(request).campaign(
        campaign_id=message["campaign_id"],
        title=form.name,
        opens=opens,
        closes=closes,
        minimum_participants=form.minimum_participants,
        **form.signed(closes),
        **({} if form.cap == "least" else {"cap": None}),
    )
    refuse_unlikely(campaign, form.participants, [form.asked()])
    return {
        "envelope": base64.b64encode(seal(encode(campaign))).decode(),
        "expected": expected_text(campaign, form.participants),
    }


_TASKS: Mapping[str, Callable[[PlanningSession, PlanRequest, PlanForm, Message], Message]] = (
    MappingProxyType({"forecast": _forecast, "plan": _plan, "campaign": _campaign})
)
