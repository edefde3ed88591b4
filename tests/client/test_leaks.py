"""Test that no message, log, error, stored object or file contains private data."""

import logging
import math
import struct
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from geoveil.client import (
    BudgetExceeded,
    CampaignNotFetched,
    CampaignNotOpen,
    JournalError,
    Limit,
    OutboxFull,
    Policy,
    PrivateValueError,
    TransportError,
)
from tests.client.conftest import dollars

Make = Callable[..., Any]
SECRET = 98_765.4375
"""Near the threshold, so that the unperturbed answer is no 0 or 1 that is everywhere."""


def unperturbed() -> float:
    """The share of the question at SECRET: smoothstep of width 16,000 at 100,000."""
    t = 0.5 + (SECRET - 100_000) / 16_000
    return 3 * t**2 - 2 * t**3


def spellings(number: float, grid_exponent: int) -> list[bytes]:
    """How a number could stand in a file: text, doubles of both byte orders, grid integers."""
    text = [repr(number), f"{number:.6g}", f"{number:.3f}", float(number).hex()]
    on_grid = round(Fraction(number) / Fraction(2) ** grid_exponent)
    return [
        *(t.encode() for t in text),
        *(struct.pack(order + "d", number) for order in "<>"),
        *(struct.pack(order + "f", number) for order in "<>"),
        str(on_grid).encode(),
        _varint(2 * on_grid),
        on_grid.to_bytes(8, "little", signed=True),
        on_grid.to_bytes(8, "big", signed=True),
    ]


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def files(directory: Path) -> Iterator[bytes]:
    for path in directory.rglob("*"):
        if path.is_file():
            yield path.read_bytes()


@pytest.fixture
def hidden(campaign):
    return [
        spelling
        for number in (SECRET, unperturbed())
        for spelling in spellings(number, campaign.grid_exponent)
    ]


def test_the_control_finds_what_is_there(tmp_path, hidden, campaign):
    """A directory into which the value was written in any of its forms is caught."""
    for spelling in hidden:
        (tmp_path / "file").write_bytes(b"head" + spelling + b"tail")
        assert any(spelling in content for content in files(tmp_path))
    exact = round(Fraction(unperturbed()) / Fraction(2) ** campaign.grid_exponent)
    assert all(len(spelling) >= 4 for spelling in hidden), exact


def test_no_file_holds_the_value_or_its_unperturbed_answer(make_either, tmp_path, hidden, tape):
    state = tmp_path / "state"
    client = make_either(state_dir=state, fetched=("income",))
    for use in (
        lambda: client.contribute("income", SECRET),
        lambda: client.contribute("income", SECRET),
        client.flush,
        client.close,
    ):
        use()
        contents = list(files(state))
        assert contents
        assert not [s for s in hidden for content in contents if s in content]
    sent = b"".join(request.SerializeToString() for request in tape.requests)
    assert not [s for s in hidden if s in sent]


def test_the_draws_of_the_noise_are_nowhere(make_either, tmp_path, make_source):
    source = make_source(5)
    client = make_either(state_dir=tmp_path / "state", fetched=("income",), source=source)
    client.contribute("income", SECRET)
    _, (_, ident), (count, noise) = source.draws
    assert count == 128
    contents = list(files(tmp_path / "state"))
    assert any(ident.to_bytes(16) in content for content in contents)  # the control: it is public
    drawn = noise.to_bytes(16)
    for part in (drawn[4:12], drawn[::-1][4:12]):
        assert not [content for content in contents if part in content]


def test_nothing_that_is_shown_or_logged_holds_the_value(make_either, tmp_path, caplog, steering):
    caplog.set_level(logging.DEBUG)
    client = make_either(state_dir=tmp_path / "state", fetched=("income",))
    steering.failures[""] = TransportError("INTERNAL", "no")
    receipt = client.contribute("income", SECRET)
    client.flush()
    steering.failures.clear()
    client.flush()
    shown = [
        caplog.text,
        *(repr(x) for x in (receipt, client, client.history(), client.budgets(), client.counts())),
    ]
    for text in (repr(SECRET), "98765", "98,765", repr(unperturbed()), f"{unperturbed():.6g}"):
        assert not [one for one in shown if text in one]
    assert "INTERNAL: no" in caplog.text  # the control: there was a log


def in_memory_of(client: Any) -> Iterator[Any]:
    """Everything that a client holds, to the end."""
    import gc

    seen: set[int] = set()
    found = [client]
    while found:
        one = found.pop()
        if id(one) in seen or isinstance(one, (type, type(gc))):
            continue
        seen.add(id(one))
        yield one
        # Not into modules by way of a function's globals.
        more = gc.get_referents(one)
        found += [m for m in more if not (isinstance(m, dict) and "__builtins__" in m)]


def test_a_client_does_not_hold_on_to_the_value(make_client):
    public = 1234.5
    client = make_client(fetched=("income",), timeout_s=public)
    value = float(repr(SECRET))
    client.contribute("income", value)
    with pytest.raises(CampaignNotFetched):
        client.contribute("unknown", value)
    with pytest.raises(PrivateValueError):
        client.contribute("places" if client.fetch("places") else "", value)
    held = {one for one in in_memory_of(client) if isinstance(one, float)}
    assert public in held  # the control
    assert SECRET not in held


@dataclass
class Scene:
    """What an error is provoked with."""

    make: Make
    folder: Path
    collector: Any
    campaign: Make


@pytest.fixture
def scene(make_either, tmp_path, collector, make_campaign):
    return Scene(make_either, tmp_path, collector, make_campaign)


def no_room(scene: Scene) -> None:
    policy = Policy({"household income": Limit(campaign=dollars(1), lifetime=dollars(1))})
    scene.collector.add(scene.campaign("other"))
    client = scene.make(policy=policy, fetched=("income", "other"))
    client.contribute("income", 1)
    client.contribute("other", SECRET)


def no_space(scene: Scene) -> None:
    scene.collector.add(scene.campaign("other"))
    client = scene.make(fetched=("income", "other"), most_pending=1)
    client.contribute("income", 1)
    client.contribute("other", SECRET)


def not_here(scene: Scene) -> None:
    scene.make().contribute("income", SECRET)


def not_open(scene: Scene) -> None:
    from datetime import UTC, datetime

    opens = datetime(2026, 11, 1, tzinfo=UTC)
    scene.collector.add(scene.campaign("later", opens=opens))
    scene.make(fetched=("later",)).contribute("later", SECRET)


def bad_kind(scene: Scene) -> None:
    scene.make(fetched=("income",)).contribute("income", [SECRET, math.nan])


def bad_text(scene: Scene) -> None:
    scene.make(fetched=("income",)).contribute("income", [repr(SECRET)])


def bad_place(scene: Scene) -> None:
    scene.make(fetched=("places",)).contribute("places", (SECRET, 0.0))


def no_disk(scene: Scene) -> None:
    client = scene.make(state_dir=scene.folder / "state", fetched=("income",))
    (scene.folder / "state" / "journal.sqlite3").unlink()
    client.contribute("income", SECRET)


@pytest.mark.parametrize(
    ("provoke", "kind"),
    [
        (no_room, BudgetExceeded),
        (no_space, OutboxFull),
        (not_here, CampaignNotFetched),
        (not_open, CampaignNotOpen),
        (bad_kind, PrivateValueError),
        (bad_text, PrivateValueError),
        (bad_place, PrivateValueError),
        (no_disk, JournalError),
    ],
)
def test_no_error_of_contribute_tells_the_value(provoke, kind, scene, caplog):
    caplog.set_level(logging.DEBUG)
    with pytest.raises(kind) as raised:
        provoke(scene)
    texts = [caplog.text, "".join(traceback.format_exception(raised.value))]
    error: BaseException | None = raised.value
    while error is not None:
        texts += [str(error), repr(error), repr(error.args), repr(vars(error))]
        error = error.__cause__ or error.__context__
    assert not [text for text in texts if "98765" in text or "98,765" in text]


@pytest.mark.parametrize("provoke", [bad_kind, bad_text, bad_place])
def test_a_refused_value_leaves_no_error_of_a_library_behind(provoke, scene):
    """NumPy's quote what they could not read, and their frames hold it."""
    with pytest.raises(PrivateValueError) as raised:
        provoke(scene)
    assert raised.value.__context__ is None
    assert raised.value.__cause__ is None
    frames = traceback.extract_tb(raised.value.__traceback__)
    assert not [f for f in frames if "numpy" in f.filename]


def test_a_failed_commit_does_not_show_what_was_drawn(make_client, monkeypatch, make_source):
    """The report that is undone is drawn again: two of them must never be seen."""
    from geoveil.client import journal

    client = make_client(fetched=("income",), source=make_source(5))

    def full_disk(entry: Any) -> Any:
        import sqlite3

        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(journal, "row_of", full_disk)
        with pytest.raises(JournalError, match="disk is full") as raised:
            client.contribute("income", SECRET)
    text = "".join(traceback.format_exception(raised.value))
    assert "Contribution(" not in text
    assert repr(SECRET) not in text
    assert client.history() == ()
    assert client.contribute("income", SECRET).drawn
