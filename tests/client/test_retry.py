"""Test retries: the codes, the pauses, and one deadline over all tries."""

import math
import pickle
from itertools import islice, pairwise

import grpc
import pytest

from geoveil.client import Timing, TransportError
from geoveil.client.report_sender import Deadline, after, pauses

# The table of the OTLP specification, "Failures"; RESOURCE_EXHAUSTED is retryable with a hint only.
OTLP = {
    "CANCELLED": True,
    "UNKNOWN": False,
    "INVALID_ARGUMENT": False,
    "DEADLINE_EXCEEDED": True,
    "NOT_FOUND": False,
    "ALREADY_EXISTS": False,
    "PERMISSION_DENIED": False,
    "UNAUTHENTICATED": False,
    "RESOURCE_EXHAUSTED": False,
    "FAILED_PRECONDITION": False,
    "ABORTED": True,
    "OUT_OF_RANGE": True,
    "UNIMPLEMENTED": False,
    "INTERNAL": False,
    "UNAVAILABLE": True,
    "DATA_LOSS": True,
}


def test_retryable_is_the_table_of_otlp():
    """And where resources are exhausted, but only with a hint."""
    assert {*OTLP, "OK"} == {status.name for status in grpc.StatusCode}
    for code, again in (OTLP | {"TEAPOT": False}).items():
        assert TransportError(code).retryable == again
        hinted = TransportError(code, retry_after_s=0.0)
        assert hinted.retryable == (again or code == "RESOURCE_EXHAUSTED")


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        (None, None),
        (0, 0.0),
        (1.5, 1.5),
        (3600, 3600.0),
        (3601, 3600.0),
        (math.inf, 3600.0),
        (-1, 0.0),
        (-math.inf, 0.0),
        (math.nan, 0.0),
    ],
)
def test_no_server_can_silence_a_client_for_more_than_an_hour(said, kept):
    error = TransportError("UNAVAILABLE", "down", retry_after_s=said)
    assert error.retry_after_s == kept
    again = pickle.loads(pickle.dumps(error))
    assert (again.code, again.detail, again.retry_after_s) == ("UNAVAILABLE", "down", kept)


@pytest.mark.parametrize(
    ("bounds", "settings"),
    [
        ([0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0], ()),
        ([1.0, 2.0, 4.0, 8.0, 10.0, 10.0], (1.0, 10.0)),
        ([3.0, 3.0, 3.0], (3.0, 3.0)),
    ],
)
@pytest.mark.parametrize("jitter", [0.0, 0.25, 0.999])
def test_pauses_are_between_zero_and_a_bound_that_doubles(bounds, settings, jitter):
    got = list(islice(pauses(lambda: jitter, *settings), len(bounds)))
    assert got == pytest.approx([jitter * bound for bound in bounds])


def test_pauses_stay_bounded_for_ever():
    (last,) = islice(pauses(lambda: 0.5), 10_000, 10_001)
    assert last == 2.5


@pytest.mark.parametrize("jitter", [0.0, 0.25, 0.999])
@pytest.mark.parametrize("asked", [0.0, 0.1, 30.0, 3600.0])
def test_nobody_comes_back_before_the_server_asks(jitter, asked):
    for pause_s in islice(pauses(lambda: jitter), 10):
        error = TransportError("UNAVAILABLE", retry_after_s=asked)
        wait_s = after(error, pause_s, lambda: jitter)
        assert wait_s >= asked
        assert wait_s == pytest.approx(asked + jitter * asked + pause_s)
        assert after(TransportError("UNAVAILABLE"), pause_s, lambda: jitter) == pause_s


def test_devices_sent_away_together_come_back_spread_out():
    """Evenly over as long as they were sent away for: no tenth of it sees more than its share."""
    devices, asked = 1000, 60.0
    error = TransportError("RESOURCE_EXHAUSTED", retry_after_s=asked)
    waits = sorted(after(error, 0.0, lambda i=i: i / devices) for i in range(devices))  # type: ignore[misc]
    assert waits[0] == asked
    assert max(late - early for early, late in pairwise(waits)) < 2 * asked / devices
    assert waits[-1] > 1.99 * asked


def test_the_default_jitter_is_uniform():
    """Kolmogorov–Smirnov, n = 20,000, alpha = 1e-6; numbers 1.3 times too small must fail."""
    n, limit = 20_000, 2.69  # sqrt(n)·D exceeds 2.69 with probability 2·exp(−2·2.69²) = 1.0e-6
    draw = Timing().jitter
    numbers = sorted(draw() for _ in range(n))
    assert numbers[0] >= 0
    assert numbers[-1] < 1

    def statistic(sample: list[float]) -> float:
        return math.sqrt(n) * max(max((i + 1) / n - x, x - i / n) for i, x in enumerate(sample))

    assert statistic(numbers) < limit
    assert statistic([x / 1.3 for x in numbers]) > limit


def test_time_left_is_never_negative():
    now_s = 0.0
    deadline = Deadline(2.0, lambda: now_s)
    assert deadline.remaining_s() == 2.0
    now_s = 1.5
    assert deadline.remaining_s() == 0.5
    now_s = 99
    assert deadline.remaining_s() == 0.0


def test_the_real_clocks_have_their_units():
    timing = Timing()
    assert timing.now().tzinfo is not None
    assert timing.clock() <= timing.clock()
