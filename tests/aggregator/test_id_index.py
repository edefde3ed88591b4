"""The index of ids in memory, against a dict."""

from random import Random

import pytest

from geoveil.aggregator.store import id_index
from geoveil.aggregator.store.id_index import IdIndex


@pytest.fixture(autouse=True)
def seeded(monkeypatch):
    """Fix the secret, so that the same fingerprints agree by chance every time."""
    monkeypatch.setattr(id_index.secrets, "token_bytes", Random(3).randbytes)


def joined(ids: list[bytes]) -> bytes:
    return b"".join(ids)


@pytest.mark.parametrize(
    "sizes",
    [
        [1] * 700,
        [1, 256, 3, 4096] * 20,
        pytest.param([20_000] * 12, marks=pytest.mark.deep),
    ],
)
def test_every_id_is_found_with_its_page_and_hardly_another(monkeypatch, sizes):
    monkeypatch.setattr(id_index, "_LARGEST", 40_000)  # so that some runs are merged no more
    monkeypatch.setattr(id_index, "_MOST_BITS", 18)  # and the filter can't grow with them
    rng = Random(len(sizes))
    index = IdIndex()
    pages: dict[bytes, int] = {}
    for size in sizes:
        first = len(pages)
        ids = [rng.randbytes(16) for _ in range(size)]
        index.add([(first, joined(ids))], first + size)
        pages |= dict.fromkeys(ids, first)
    known = list(pages)
    rng.shuffle(known)
    strangers = [rng.randbytes(16) for _ in range(2000)]
    found = index.find(joined([*known, *strangers]))
    expected = {(position, pages[report_id]) for position, report_id in enumerate(known)}
    assert expected <= set(found)
    # Others by chance only: 13.5 of 57.6e9 + 0.5e9 pairs of 240,000 reports, and less of fewer.
    assert len(found) - len(expected) < 50
    assert sum(len(run) for run in index._runs()) == len(pages)
    for asked in (known[:200], strangers[:200]):  # one at a time as together
        alone = [(i, page) for i, one in enumerate(asked) for _, page in index.find(one)]
        assert alone == sorted(index.find(joined(asked)))


def test_runs_stay_few():
    rng = Random(1)
    index = IdIndex()
    for n in range(5000):
        index.add([(n, rng.randbytes(16))], n + 1)
    assert len(list(index._runs())) < 5 * id_index._RUNS


def test_ids_that_differ_in_one_byte_differ_in_fingerprint():
    ids = {bytes(16)} | {
        bytes(at) + bytes([b]) + bytes(15 - at) for at in range(16) for b in range(1, 256)
    }
    index = IdIndex()
    index.add([(0, joined(sorted(ids)))], len(ids))
    (run,) = index._runs()
    assert len(set(run.tolist())) == len(ids)
