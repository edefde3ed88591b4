"""Test what `client history` says of readings."""

from contextlib import suppress

from geoveil.campaign import Readings
from geoveil.client import AnswerNotYet
from tests.client.conftest import FakeTime
from tests.client.readings import OPENS, WEEK, client_of, limit, question


def test_an_extrapolated_answer_is_said_to_tell_of_two_readings(words, tmp_path):
    """Twelve weeks in epochs of three: for each reading, the answers that were made from it."""
    every = Readings(every=3 * WEEK, extrapolated=True)
    asked = question("weekly", period=WEEK, readings=every)
    of, fake_time = limit(most=12.0, epoch=None), FakeTime()
    with client_of(
        [asked], of, fake_time, state_dir=tmp_path / "state", background=False
    ) as client:
        for week in range(12):
            fake_time.date = OPENS + (week + 0.5) * WEEK
            with suppress(AnswerNotYet):
                client.contribute("weekly", 50_000.0)
        journal = client._session.journal
        kept = journal.readings("income", "dollar", "Number() for weekly")
        made = [entry.contribution for entry in journal.history()]
        client.close(0.0)
    shown = words("client", "history", "--state-dir", tmp_path / "state", to_server=False)
    told = [sum(reading.begins in (one.epoch, one.before) for one in made) for reading in kept]
    for reading, count in zip(kept, told, strict=True):
        answers = f"{count} answers tell" if count > 1 else "1 answer tells"
        sentence = (
            f"{answers} of the reading of 'income' in the epoch from {reading.begins:%Y-%m-%d}"
        )
        assert f"{sentence} on: it cost ε = 1 per 8000 dollar, once" in shown
    assert f"spent on 'income' in all: ε = {len(kept)} per 8000 dollar" in shown
    assert sum(told) > len(made), "no answer is extrapolated"
