"""A rehearsal: simulated people answer a campaign on this machine.

A local server listens meanwhile, and the device's SDK draws each report exactly. The fields of a
request say of themselves what the option of `geoveil rehearse` with their name shows as help, apart
from those that several commands have.
"""

import asyncio
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geoveil.analyst import (
    NAME_PROPERTY,
    RADIUS_M,
    Analyst,
    AnalystQuestion,
    CampaignEstimates,
    HardQuestion,
    PlannedQuestion,
    PlannedQuestions,
    PlanRequest,
    Prior,
    PublicPrior,
    Reports,
    Result,
    Statistic,
    any_numbers_in,
    area_of,
    asked_of_points,
    campaign_for_points,
    place_in,
    plan_for,
    questions_in,
    reports_of,
    softness_of_points,
    statistics_in,
)
from geoveil.campaign import AttributeCampaign, StatisticCampaign, ValueCampaign, encode
from geoveil.client import GrpcTransport, Policy
from geoveil.gp import GeoPrivacy, GeoVeilError, ParameterError, validation
from geoveil.simulation.fleet import prepared
from geoveil.simulation.people_files import FORMATS
from geoveil.simulation.populations import ParticipantSource
from geoveil.simulation.priors import public_prior

_START_S = 60.0
_REQUEST_S = 60.0
_BATCH = 1_000
"""Reports per request."""
MOST_PEOPLE = 1_000_000
"""The most people, since drawing a million reports takes minutes."""


@overload
def rehearse(
    campaign: ValueCampaign,
    people: "ParticipantSource | Prior | ArrayLike",
    *,
    participants: int | None = None,
    seed: int | None = None,
) -> Reports: ...


@overload
def rehearse(
    campaign: StatisticCampaign,
    people: "ParticipantSource | Prior | ArrayLike",
    *,
    participants: int | None = None,
    seed: int | None = None,
) -> CampaignEstimates: ...


@overload
def rehearse(
    campaign: AttributeCampaign,
    people: "ParticipantSource | Prior | ArrayLike",
    *,
    participants: int | None = None,
    seed: int | None = None,
) -> CampaignEstimates | Reports: ...


def rehearse(
    campaign: AttributeCampaign,
    people: "ParticipantSource | Prior | ArrayLike",
    *,
    participants: int | None = None,
    seed: int | None = None,
) -> CampaignEstimates | Reports:
    """Publish a campaign on this machine, let simulated people answer it, and return the results.

    It opens at once, whatever its dates. Noise is always fresh, even with a seed.

    Args:
        campaign: the campaign; nothing is stored.
        people: one value each, such as a column of a data frame or an array of shape (n,), or
            (n, 2) for pairs or places (longitude, latitude); or a population to draw from
            (`Population.from_file("people.csv", values=["income"])`), or a prior in the campaign's
            own coordinates.
        participants: the number of random people who take part; all given values by default.
        seed: the same seed draws the same people.

    Returns:
        The estimates of a campaign that asks questions; the reports of a value campaign.

    Raises:
        ParameterError: if the people don't hold the campaign's kind of value.
        MissingExtraError: if the server's packages are not installed.

    Example:
        >>> from geoveil.analyst import ShareAbove, campaign_asking
        >>> from geoveil.gp import GeoPrivacy
        >>> campaign = campaign_asking([ShareAbove(100_000)], attribute="income",
        ...     privacy=GeoPrivacy(1.0, per=8_000.0, unit="dollar"), campaign_id="income",
        ...     title="Income", opens=datetime(2030, 1, 1, tzinfo=UTC),
        ...     closes=datetime(2030, 2, 1, tzinfo=UTC))
        >>> rehearse(campaign, [87_500, 131_000, 45_000]).estimates[0].n
        3
    """
    if seed is not None:
        validation.require_count("seed", seed, 0)
    rng = np.random.default_rng(seed)
    values = _values(campaign, people, participants, rng)
    opens = datetime.now(UTC) - timedelta(minutes=1)
    today = replace(campaign, opens=opens, closes=opens + (campaign.closes - campaign.opens))
    with _server() as address, Analyst(address) as analyst:
        analyst.create(today)
        with closing(GrpcTransport(address)) as transport:
            batches = prepared(
                today.campaign_id, encode(today), values.tolist(),
                policy=Policy.permitting(today), batch_size=_BATCH,
            )  # fmt: skip
            for batch in batches:
                response = transport.submit_reports(batch.request(), _REQUEST_S)
                for outcome in batch.results(response):
                    if outcome.rejection is not None:
                        raise GeoVeilError(f"a report was refused: {outcome.rejection}")
        if isinstance(today, ValueCampaign):
            return reports_of(analyst.export(today.campaign_id), campaign)
        return analyst.estimate(today.campaign_id).with_interval(None)  # this is the only look


def _values(
    campaign: AttributeCampaign,
    people: "ParticipantSource | Prior | ArrayLike",
    participants: int | None,
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    if participants is not None:
        validation.require_count("participants", participants, 1, MOST_PEOPLE)
    if isinstance(people, ParticipantSource | Prior):
        if participants is None:
            raise ParameterError("participants", None, "given: how many people are drawn")
        values = _drawn(people, participants, rng)
    else:
        values = np.asarray(people, dtype=np.float64)
        if values.ndim == 2 and values.shape[1] == 1:
            values = values[:, 0]
        if participants is not None:
            values = values[rng.integers(len(values), size=participants)]
    shape = (1,) if values.ndim == 1 else values.shape[1:]
    places = campaign.attribute.coordinates is not None
    if shape != ((2,) if places else (campaign.dimension,)):
        expected = "a place (longitude, latitude)" if places else f"{campaign.dimension} number(s)"
        raise ParameterError("people", f"of shape {values.shape}", f"{expected} for each person")
    if not 1 <= len(values) <= MOST_PEOPLE:
        raise ParameterError("people", f"{len(values)} rows", f"1 to {MOST_PEOPLE:,} rows")
    bad = ~(np.abs(values) <= validation.FARTHEST)
    if bad.any():
        row = int(np.argwhere(bad)[0][0]) + 1
        raise ParameterError("people", f"row {row}", "finite numbers; leave out people without one")
    return values


def _drawn(
    people: ParticipantSource | Prior, n: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    if isinstance(people, ParticipantSource):
        return people.sample(n, rng)
    nodes, weights = people.nodes()
    drawn: NDArray[np.float64] = nodes[rng.choice(len(nodes), size=n, p=weights / weights.sum())]
    return drawn


@contextmanager
def _server() -> Iterator[str]:
    """Run a server in a thread on a free port; yield its address, or raise GeoVeilError."""
    from geoveil.aggregator import Aggregator, Settings

    started: Future[tuple[str, asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def run(database: Path) -> None:
        stop = asyncio.Event()
        async with Aggregator(Settings(host="127.0.0.1", port=0, database=database)) as server:
            started.set_result((server.address, asyncio.get_running_loop(), stop))
            await stop.wait()

    def serve(database: Path) -> None:
        try:
            asyncio.run(run(database))
        except BaseException as error:
            if started.done():
                raise
            started.set_exception(error)

    with tempfile.TemporaryDirectory(prefix="geoveil-rehearsal-") as folder:
        thread = threading.Thread(target=serve, args=(Path(folder) / "reports.db",), daemon=True)
        thread.start()
        address, loop, stop = started.result(_START_S)
        try:
            yield address
        finally:
            loop.call_soon_threadsafe(stop.set)
            thread.join(_START_S)


_PARTICIPANTS = 10_000
"""The default number of draws, unless a file lists everybody."""


@dataclass(frozen=True, kw_only=True)
class RehearsalRequest:
    """What `geoveil rehearse` tries: fields are its options.

    Raises:
        ParameterError: naming the option that is missing or wrong.
    """

    people: Annotated[
        str,
        "The people: a file with one row each (.csv, .parquet, or .gpkg for places); or incomes,"
        " collisions, lognormal:MEDIAN,SIGMA, histogram:FILE.csv.",
    ]
    value: Annotated[
        list[str] | None,
        "Column of a file that holds values, or (twice) longitude and latitude.",
    ] = None
    weight: Annotated[str | None, "Column with the number of people that a row stands for."] = None
    participants: Annotated[
        int | None,
        "How many take part, drawn at random; by default each row of a file once, or"
        f" {_PARTICIPANTS:,} people.",
    ] = None
    unit: Annotated[str | None, "Unit of the values, for example dollar."] = None
    epsilon: float = 1.0
    per: float | None = None
    words: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """The words of `questions_in`."""
    statistics: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The words of `statistics_in`."""
    width: Annotated[float | None, "Width of the soft band of statistics; 3·PER/ε by default."] = (
        None
    )
    bandwidth: Annotated[float | None, "Bandwidth of densities at places; 3·PER/ε by default."] = (
        None
    )
    center: str | None = None
    radius: float | None = None
    seed: Annotated[int | None, "Seed: the same one draws the same people."] = None

    def __post_init__(self) -> None:
        if self.per is None:
            expected = "given: a distance within which values are to look alike"
            raise ParameterError("per", None, expected)
        if not self.questions and not self.wanted:
            expected = "given: at least one, such as --threshold 100000, --quantile 0.5 or --curve"
            raise ParameterError("question", "none", expected)
        if self.source.unit is None and self.unit is None:
            raise ParameterError("unit", None, "given: the unit of the values, such as dollar")

    @cached_property
    def questions(self) -> Sequence[AnalystQuestion]:
        """The questions."""
        return questions_in(self.words)

    @cached_property
    def wanted(self) -> Sequence[Statistic[Any]]:
        """The statistics of points."""
        name = next(iter(self.words.get(NAME_PROPERTY, ())), None)
        return statistics_in(self.statistics, self.width, self.bandwidth, name)

    @cached_property
    def source(self) -> PublicPrior:
        """The people."""
        return public_prior(self.people, tuple(self.value or ()), self.weight)

    @cached_property
    def prior(self) -> Prior:
        """The law of their values."""
        return self.source.make(None)

    @cached_property
    def everybody(self) -> NDArray[np.float64] | None:
        """A value for each person of a file; None where people are drawn."""
        if not self.people.endswith(FORMATS) or self.weight or self.participants is not None:
            return None
        values, weights = self.prior.nodes()  # equal values are merged there
        return np.repeat(values, np.rint(weights * self.prior.size).astype(int), axis=0)

    @property
    def count(self) -> int:
        """The number of people."""
        if self.everybody is not None:
            return len(self.everybody)
        return _PARTICIPANTS if self.participants is None else self.participants

    @cached_property
    def request(self) -> PlanRequest | None:
        """The request for a plan of questions; None with statistics, which are asked of points."""
        if self.wanted:
            return None
        assert self.per is not None
        return PlanRequest.of(
            self.questions,
            epsilon=validation.positive("epsilon", self.epsilon),
            per=self.per,
            source=self.source,
            participants=self.count,
            unit=self.unit,
            bandwidth=self.bandwidth,
            center=self._center,
            radius=self._radius,
        )

    def planned(self) -> PlannedQuestion | PlannedQuestions | None:
        """Return the plan of questions; None with statistics."""
        return None if self.request is None else plan_for(self.request)

    def results(self, planned: PlannedQuestion | PlannedQuestions | None) -> Sequence[Result]:
        """Return what simulated people answer, of questions or of statistics."""
        taking_part = self.prior if self.everybody is None else self.everybody
        drawn = self.count if self.everybody is None else None
        campaign = self._campaign(planned)
        answers = rehearse(campaign, taking_part, participants=drawn, seed=self.seed)
        if not isinstance(answers, Reports):
            return [answers]
        results: list[Result] = []
        if self.questions:
            softness = softness_of_points(answers.campaign, self.width, self.bandwidth)
            points = asked_of_points(answers.campaign, self.questions, softness)
            results.append(answers.estimates(points))
        return results + [answers.ask(statistic) for statistic in self.wanted]

    def truths(self) -> Iterator[str]:
        """Yield the participants' true answers, which only a rehearsal knows."""
        start, held = "Of these people themselves: ", self.everybody
        if held is None:
            return
        if self.request is not None:
            plane = self.request.plane
            points = held if plane is None else plane.project(held)
            for label, question in zip(self.request.labels, self.request.questions, strict=True):
                if isinstance(question, HardQuestion):
                    yield f"{start}{label} {np.mean(question.signed(points) > 0):z.4f}."
        for text in self.statistics.get("quantile", ()):
            for level in any_numbers_in("quantile", text):
                yield f"{start}quantile {level:g} {np.quantile(held, level):,.6g}."
        if "mean" in self.statistics:
            yield f"{start}mean {np.mean(held):,.6g}."

    def _campaign(self, planned: PlannedQuestion | PlannedQuestions | None) -> AttributeCampaign:
        closes = datetime.now(UTC)  # a rehearsal is over: nobody looks while reports come in
        later: dict[str, Any] = {
            "campaign_id": "rehearsal",
            "title": f"Rehearsal with {self.count:,} simulated people",
            "opens": closes - timedelta(days=1),
            "closes": closes,
        }
        if planned is not None:
            return planned.campaign(**later)
        plane = None
        if self.source.dimension > 1:
            plane = area_of(self.questions, self._center or self._middle(), self._radius)
        assert self.per is not None
        privacy = GeoPrivacy(self.epsilon, self.per, self.source.unit or str(self.unit))
        attribute = self.source.attribute
        return campaign_for_points(attribute=attribute, privacy=privacy, plane=plane, **later)

    @property
    def _center(self) -> tuple[float, float] | None:
        return None if self.center is None else place_in("center", self.center)

    @property
    def _radius(self) -> float:
        return RADIUS_M if self.radius is None else self.radius

    def _middle(self) -> tuple[float, float]:
        """Return the midpoint of people's places, as the centre of an area."""
        west, south = self.prior.nodes()[0].min(axis=0)
        east, north = self.prior.nodes()[0].max(axis=0)
        return float(west + east) / 2, float(south + north) / 2
