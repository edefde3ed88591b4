"""Several processes and threads on one state directory, and processes that fork."""

import os
import threading
import warnings
from pathlib import Path
from typing import Any

import pytest

from geoveil.client import Client, DeliveryStatus, InMemoryCollector, InMemoryTransport
from tests.client.conftest import in_threads
from tests.client.mortal import (
    POLICY,
    PRIVACY,
    Lab,
    WireTransport,
    campaign,
    die_when_it_hangs,
    shuffled,
)

NAMES = [f"campaign-{i}" for i in range(12)]
THREADS = 8


def crowd(transport: WireTransport, state_dir: Path, seed: int) -> dict[str, set[str]]:
    """Contribute to everything from many threads at once; return every report id shown."""
    shown: dict[str, set[str]] = {name: set() for name in NAMES}
    with Client(policy=POLICY, state_dir=state_dir, transport=transport) as client:

        def life(number: int) -> None:
            for name in shuffled(seed * THREADS + number, NAMES):
                client.fetch(name)
                shown[name].add(client.contribute(name, 1000.0 * number).report_id)
                if number == 0:
                    client.flush(5.0)

        in_threads(THREADS, life)
        client.flush(10.0)
    return shown


def test_two_processes_with_eight_threads_each_count_once(tmp_path):
    lab = Lab(InMemoryCollector([campaign(name) for name in NAMES]))
    state = tmp_path / "state"
    ended = lab.run(lambda transport: crowd(transport, state, os.getpid()), processes=2)
    shown = [device.returned() for device in ended]
    for name in NAMES:
        (counted,) = lab.collector.reports(name)
        assert lab.seen[name, 0] == {counted.SerializeToString(deterministic=True)}
        assert shown[0][name] == shown[1][name] == {counted.report_id.hex()}
    with Client(
        policy=POLICY, state_dir=state, transport=InMemoryTransport(lab.collector)
    ) as client:
        history = client.history()
        assert [r.status for r in history] == [DeliveryStatus.ACKNOWLEDGED] * len(NAMES)
        assert sum(r.privacy.exact_rate for r in history) == len(NAMES) * PRIVACY.exact_rate


@pytest.mark.deep
@pytest.mark.parametrize("children", [4, pytest.param(11, marks=pytest.mark.deep)])
def test_a_child_goes_on_with_the_client_of_its_parent(tmp_path, children):
    """Also while the parent's threads use it, which hold its locks at times."""
    used = NAMES[: children + 1]
    lab = Lab(InMemoryCollector([campaign(name) for name in used]))
    state = tmp_path / "state"

    def parent(transport: WireTransport) -> Any:
        collector = InMemoryCollector([campaign(name) for name in used])
        busy = threading.Event()
        # Python 3.12 and later warn of forks beside threads: this is about nothing else.
        warnings.simplefilter("ignore", DeprecationWarning)
        with Client(
            policy=POLICY, state_dir=state, transport=InMemoryTransport(collector)
        ) as client:
            for name in used:
                client.fetch(name)

            def work() -> None:
                while not busy.is_set():
                    client.contribute(used[0], 1.0)
                    client.history()

            threads = [threading.Thread(target=work) for _ in range(3)]
            for thread in threads:
                thread.start()
            statuses = []
            for name in used[1:]:
                process = os.fork()
                if process == 0:
                    die_when_it_hangs()
                    # The child of an app: it contributes, sends, and leaves its thread behind.
                    client.contribute(name, 2.0)
                    client.flush(5.0)
                    os._exit(0 if client.counts().pending <= 1 else 1)
                statuses.append(os.waitpid(process, 0)[1])
            busy.set()
            for thread in threads:
                thread.join()
            client.flush(5.0)
            return statuses, {r.campaign_id: r.status for r in client.history()}

    (ended,) = lab.run(parent)
    statuses, history = ended.returned()
    assert statuses == [0] * children
    assert history == dict.fromkeys(used, DeliveryStatus.ACKNOWLEDGED)
