"""Test that a commit that loses its connection at any point is counted once.

At round k of what store and server say to each other, for every k until a commit ends before it:
* the server does what it is told, COMMIT included, and the answer is lost; or
* its process is ended before it is told.
Fails if the caller gets anything but STORE_UNAVAILABLE, if the reports sent again do not end up
counted exactly once, or if what the counters say is ever not what is stored.
"""

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from geoveil.aggregator import Code, ServiceError
from geoveil.aggregator.domain.reports import PackedReport, pack
from geoveil.aggregator.store import CampaignRecord, Outcome, Submission
from geoveil.aggregator.store.maintenance import check_database
from geoveil.aggregator.store.postgres import PostgresStore
from geoveil.gp.estimation import Accumulator

from .cutting_proxy import cutting_proxy
from .refusals import refuses

MOST_ROUNDS = 40
DEEP = pytest.mark.deep


@pytest.fixture
def proxy(postgres_url):
    with (
        tempfile.TemporaryDirectory() as folder,
        cutting_proxy(postgres_url, Path(folder)) as running,
    ):
        yield running


def submissions(k: int) -> list[Submission]:
    """Return reports to two campaigns, as many different ones as wanted."""
    return [
        Submission(
            name,
            [PackedReport((100 * k + i).to_bytes(16, "big"), pack([(0, i)])) for i in range(20)],
            True,
        )
        for name in ("b", "a")
    ]


def attempt(
    store: PostgresStore, batch: list[Submission]
) -> tuple[Code | None, list[list[Outcome]]]:
    try:
        return None, store.commit(batch)
    except ServiceError as error:
        return error.code, []


@pytest.mark.deep(keep=0)
@pytest.mark.parametrize(
    ("warm", "killed"),
    [
        pytest.param(False, False, id="new connection, answer lost"),
        pytest.param(True, True, id="open connection, server process ended"),
        pytest.param(False, True, id="new connection, server process ended", marks=DEEP),
        pytest.param(True, False, id="open connection, answer lost", marks=DEEP),
    ],
)
def test_cut_at_every_point(postgres_server, postgres_url, proxy, killed, warm):
    before = partial(postgres_server.kill_connections, postgres_url) if killed else None
    unknown = done = rounds = 0
    for name in ("a", "b"):
        with PostgresStore(postgres_url) as direct:
            direct.create_campaign(CampaignRecord(campaign_id=name, published=b"", queries=1))
    for k in range(1, MOST_ROUNDS):
        with PostgresStore(proxy.url) as store:
            if not warm:
                store._engine.dispose()
            proxy.arm(k, before)
            code, outcomes = attempt(store, submissions(k))
            if code is not None:
                assert code is Code.STORE_UNAVAILABLE
                proxy.arm(None)
                again = store.commit(submissions(k))  # the same store, which connects anew
                kinds = {outcome for of_one in again for outcome in of_one}
                assert len(kinds) == 1
                unknown += kinds == {Outcome.DUPLICATE}
                assert kinds <= {Outcome.ACCEPTED, Outcome.DUPLICATE}
            else:
                # Cut before the transaction, where a lost connection is replaced, or never.
                assert outcomes == [[Outcome.ACCEPTED] * 20] * 2
                done += proxy.rounds < k
                rounds = proxy.rounds
            proxy.arm(None)
            assert store.totals("a") == [Accumulator.of(list(range(20)) * k)]
            assert store.get_campaign("b").reports == 20 * k
        if done:
            break
    assert done, "the enumeration did not reach the end of a commit"
    assert rounds > 8
    # Exactly the answer to COMMIT, when lost, leaves everything done.
    assert unknown == (0 if killed else 1)
    assert check_database(postgres_url).faults == ()


def test_a_server_that_restarts_is_found_again(postgres_server, postgres_url):
    with PostgresStore(postgres_url) as store:
        for name in ("a", "b"):
            store.create_campaign(CampaignRecord(campaign_id=name, published=b"", queries=1))
        store.commit(submissions(1))
        postgres_server.stop()
        try:
            calls: list[Callable[[], object]] = [
                lambda: store.commit(submissions(2)),
                store.campaign_page,
                lambda: store.totals("a"),
            ]
            for call in calls:
                with refuses(Code.STORE_UNAVAILABLE):
                    call()
        finally:
            postgres_server.start()
        assert store.commit(submissions(1)) == [[Outcome.DUPLICATE] * 20] * 2
        assert store.commit(submissions(2)) == [[Outcome.ACCEPTED] * 20] * 2
        assert store.totals("a") == [Accumulator.of(list(range(20)) * 2)]
