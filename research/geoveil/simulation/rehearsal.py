"""A rehearsal: simulated people answer a campaign on this machine.

A local server listens meanwhile, and the device's SDK draws each report exactly.
"""

import asyncio
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geoveil.analyst import Analyst, CampaignEstimates, Prior, Reports, reports_of
from geoveil.campaign import AttributeCampaign, StatisticCampaign, ValueCampaign, encode
from geoveil.client import GrpcTransport, Policy
from geoveil.gp import GeoVeilError, ParameterError, validation
from geoveil.simulation.fleet import prepared
from geoveil.simulation.populations import ParticipantSource

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
