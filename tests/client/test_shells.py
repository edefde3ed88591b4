"""Both clients are equal except for await: closing, cancelling, and a loop that goes on."""

import asyncio
import inspect
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any, get_args

import pytest

from geoveil.campaign import Allocation
from geoveil.client import (
    AsyncClient,
    AsyncTransport,
    CampaignNotFetched,
    Client,
    ClientClosed,
    InMemoryTransport,
    ParameterError,
    PlaintextRefused,
    PrivateValueError,
    Transport,
    TransportError,
    device_session,
)
from geoveil.gp import Threshold
from tests.client.conftest import threads

PAIRS = {"close": "aclose", "__enter__": "__aenter__", "__exit__": "__aexit__"}


def public(kind: type) -> dict[str, Any]:
    return {
        name: member
        for name, member in vars(kind).items()
        if callable(member) and (not name.startswith("_") or name in {*PAIRS, *PAIRS.values()})
    }


def test_both_shells_have_the_same_methods_but_for_await():
    blocking, awaited = public(Client), public(AsyncClient)
    assert {PAIRS.get(name, name) for name in blocking} == set(awaited)
    for name, method in blocking.items():
        twin = awaited[PAIRS.get(name, name)]
        assert inspect.signature(method) == inspect.signature(twin), name
        assert inspect.iscoroutinefunction(twin), name
        assert not inspect.iscoroutinefunction(method), name


def test_both_shells_are_made_alike():
    blocking, awaited = (inspect.signature(kind).parameters for kind in (Client, AsyncClient))
    assert list(blocking) == list(awaited)
    for name, parameter in blocking.items():
        if name == "transport":
            bases = [vars(kind)["__orig_bases__"][0] for kind in (Client, AsyncClient)]
            assert [get_args(base)[0] for base in bases] == [Transport, AsyncTransport]
            continue
        assert parameter == awaited[name], name
        if name != "target":
            assert parameter.kind is inspect.Parameter.KEYWORD_ONLY, name


@pytest.mark.parametrize("timeout_s", [0, -1, float("nan"), float("inf"), 1e10, "10", None])
def test_timeouts_are_finite(make_either, timeout_s):
    with pytest.raises(ParameterError, match="timeout_s"):
        make_either(timeout_s=timeout_s)


def test_a_target_or_a_transport_is_needed(make_either):
    with pytest.raises(ParameterError, match="target"):
        make_either(transport=None)
    with pytest.raises(PlaintextRefused, match=r"give tls=TLS\(\)"):
        make_either(transport=None, target="collector.example:443")


@pytest.mark.parametrize("floor_s", [-0.001, -1.0, float("nan"), 61.0, "1", True, None])
def test_the_floor_of_a_release_is_checked(make_either, floor_s):
    with pytest.raises(ParameterError, match="release_floor_s"):
        make_either(release_floor_s=floor_s)


def test_a_floor_changes_nothing_but_the_time(make_either, make_source):
    receipts = [
        make_either(fetched=("income",), source=make_source(7), release_floor_s=floor_s).contribute(
            "income", 52_000
        )
        for floor_s in (0, 0.002)
    ]
    assert receipts[0] == receipts[1]


@pytest.mark.parametrize("settings", [{}, {"release_floor_s": 0.004}, {"release_floor_s": 0}])
def test_all_that_looks_at_a_value_keeps_the_floor(make_either, shells, monkeypatch, settings):
    """To check a value, refused or not, and to draw are one; what is kept is no secret."""
    floors: list[float] = []

    def paced(work: Callable[[], Any], floor_s: float) -> Any:
        floors.append(floor_s)
        return work()

    monkeypatch.setattr(device_session, "paced", paced)
    shells.defaults.pop("release_floor_s")
    client = make_either(fetched=("income",), **settings)
    with pytest.raises(PrivateValueError):
        client.contribute("income", "52000")
    client.contribute("income", 52_000)
    client.contribute("income", 52_000)
    floor = settings.get("release_floor_s", 0.002)
    assert floors == ([floor] * 2 if floor else [])


def test_close_sends_what_waits(make_either, collector, state_dir):
    client = make_either(fetched=("income",), state_dir=state_dir)
    client.contribute("income", 52_000)
    client.close()
    assert len(collector.reports("income")) == 1


def test_closing_at_once_leaves_all_of_it(make_either, tmp_path, tape, collector):
    client = make_either(fetched=("income",), state_dir=tmp_path / "state")
    receipt = client.contribute("income", 52_000)
    client.close(0)
    assert tape.submitted == []
    again = make_either(state_dir=tmp_path / "state")
    assert again.history() == (receipt,)
    again.close()
    assert len(collector.reports("income")) == 1


def test_close_takes_no_longer_than_it_is_given(make_either, steering, fake_time, caplog):
    client = make_either(fetched=("income",))
    client.contribute("income", 52_000)
    steering.failures[""] = TransportError("UNAVAILABLE")
    start = fake_time.now_s
    client.close(1.5)
    assert 0 < fake_time.now_s - start <= 1.5


@pytest.mark.parametrize("timeout_s", [-1, float("nan"), float("inf"), 1e10, "1", None])
def test_the_time_to_close_is_finite_and_a_wrong_one_closes_nothing(make_either, timeout_s):
    client = make_either(fetched=("income",))
    with pytest.raises(ParameterError, match="timeout_s"):
        client.close(timeout_s)
    assert client.contribute("income", 1)


def test_a_closed_client_says_so(make_either, state_dir, tape):
    client = make_either(state_dir=state_dir)
    client.close()
    client.close()
    client.close(0)
    for use in (
        lambda: client.contribute("income", 1),
        lambda: client.fetch("income"),
        *(client.flush, client.history, client.budgets, client.counts),
    ):
        with pytest.raises(ClientClosed, match="make a new one"):
            use()
    assert tape.requests == []


def test_leaving_by_an_error_closes_and_keeps_the_error(make_either, collector):
    client = make_either(fetched=("income",))

    def fail() -> None:
        with client:
            client.contribute("income", 52_000)
            raise KeyError("the app's own")

    with pytest.raises(KeyError, match="the app's own"):
        fail()
    assert len(collector.reports("income")) == 1


def test_a_disk_that_fails_does_not_keep_a_client_from_closing(make_either, tmp_path, caplog):
    client = make_either(fetched=("income",), state_dir=tmp_path / "state")
    client.contribute("income", 52_000)
    (tmp_path / "state" / "journal.sqlite3").unlink()
    client.close()
    assert "closing: the journal at" in caplog.text
    with pytest.raises(ClientClosed):
        client.counts()


def test_a_transport_that_was_given_is_left_open(make_either, tape):
    closed: list[str] = []

    class Counting(InMemoryTransport):
        def close(self) -> None:
            closed.append("close")

    make_either(transport=Counting(tape)).close()
    assert closed == []


def test_the_thread_sends_what_is_contributed_and_ends_with_the_client(
    make_client, state_dir, tape, collector
):
    before = threads()
    done = threading.Event()
    tape.after = lambda request: done.set() if hasattr(request, "reports") else None
    client = make_client(state_dir=state_dir, background=True)
    assert threads() == before  # none before there is work
    wanted = threading.Event()
    genuine, tape.after = tape.after, lambda request: wanted.set()
    with pytest.raises(CampaignNotFetched):
        client.contribute("income", 52_000)
    assert wanted.wait(timeout=30)
    tape.after = genuine
    client.fetch("income")  # the thread may not have kept it yet
    client.contribute("income", 52_000)
    assert done.wait(timeout=30)
    (started,) = threads() - before
    assert started.daemon
    client.close()
    assert threads() == before
    assert len(collector.reports("income")) == 1


async def test_a_slow_campaign_does_not_stop_the_loop(
    policy, make_campaign, collector, state_dir, fake_time
):
    """With asyncio, what takes its time is done in a thread, which close ends."""
    patient = replace(policy, most_queries=150, most_work=10**6)
    many = tuple(Threshold(1000.0 * i, 16_000, "smoothstep") for i in range(150))
    collector.add(make_campaign("many", queries=many, allocation=Allocation.SPLIT))
    before = threads()
    async with AsyncClient(
        policy=patient,
        transport=InMemoryTransport(collector).aio,
        state_dir=state_dir,
        background=False,
        timing=fake_time.timing(),
    ) as client:
        await client.fetch("many")
        receipt = await client.contribute("many", 52_000)
        assert threads() - before
    assert [a.query_index for a in receipt.answers] == list(range(150))
    assert threads() == before


async def test_a_flush_that_is_cancelled_loses_nothing(policy, tape, tmp_path, fake_time, steering):
    paused = asyncio.Event()

    async def forever(seconds: float) -> None:
        paused.set()
        await asyncio.Event().wait()

    steering.failures[""] = TransportError("UNAVAILABLE")
    settings: dict[str, Any] = {
        "policy": policy,
        "transport": InMemoryTransport(tape).aio,
        "timing": replace(fake_time.timing(), sleep_async=forever),
        "state_dir": tmp_path / "state",
        "background": False,
    }
    async with AsyncClient(**settings) as client:
        await client.fetch("income")
        receipt = await client.contribute("income", 1)
        task = asyncio.create_task(client.flush())
        await paused.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        steering.failures.clear()
        assert (await client.flush()).acknowledged == 1
        assert (await client.history())[0].report_id == receipt.report_id
    assert len(tape.submitted) == 2
    assert len(set(tape.submitted)) == 1


async def test_a_contribution_that_is_cancelled_is_made_or_not(
    policy, tape, tmp_path, fake_time, make_source
):
    """Cancelled at each of its steps: afterwards there is one report, and only one draw of it."""
    for steps in range(6):
        source = make_source(steps)
        async with AsyncClient(
            policy=policy,
            transport=InMemoryTransport(tape).aio,
            timing=fake_time.timing(),
            state_dir=tmp_path / f"state{steps}",
            source=source,
            background=False,
        ) as client:
            await client.fetch("income")
            task = asyncio.create_task(client.contribute("income", 1))
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            receipt = await client.contribute("income", 1)
            assert await client.history() == (receipt,)
            assert len(source.draws) == 3


async def test_two_flushes_at_once_do_not_send_twice(policy, collector, fake_time):
    asked: list[Any] = []
    arrived, free = asyncio.Event(), asyncio.Event()

    class Slow:
        """An AsyncTransport whose requests take until they are set free."""

        async def get_campaign(self, request: Any, timeout_s: float) -> Any:
            return collector(request)

        async def submit_reports(self, request: Any, timeout_s: float) -> Any:
            asked.append(request)
            arrived.set()
            await free.wait()
            return collector(request)

    async with AsyncClient(
        policy=policy, transport=Slow(), timing=fake_time.timing(), background=False
    ) as client:
        await client.fetch("income")
        await client.contribute("income", 1)
        both = [asyncio.create_task(client.flush()) for _ in range(2)]
        await arrived.wait()
        assert (await client.flush(timeout_s=0.001)).pending == 1  # the time is up
        free.set()
        assert [r.acknowledged for r in await asyncio.gather(*both)] == [1, 0]
    assert len(asked) == 1
