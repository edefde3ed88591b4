"""When the client tries again: the codes, the pauses, and one deadline over all tries."""

import math
from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest

from geoveil.client import DeliveryFailed, Timing, TransportError
from geoveil.client.retry import RETRYABLE, Deadline, pauses
from geoveil.proto.v1 import collector_pb2

# The table of the OTLP specification; RESOURCE_EXHAUSTED is retryable there with a hint only.
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


def submits(request: Any) -> bool:
    return isinstance(request, collector_pb2.SubmitReportsRequest)


def failing(code: str, when: Callable[[Any], bool] = submits) -> Callable[[Any], None]:
    def before(request: Any) -> None:
        if when(request):
            raise TransportError(code, "so it is")

    return before


def test_the_table_is_that_of_otlp() -> None:
    assert {code for code, again in OTLP.items() if again} == RETRYABLE


@pytest.mark.parametrize("code", [c for c, again in OTLP.items() if not again])
def test_what_can_not_help_is_tried_once(
    make_either: Callable[..., Any], tape: Any, fake_time: Any, code: str
) -> None:
    tape.before = failing(code)
    with pytest.raises(DeliveryFailed, match=f"{code}: so it is.*it is kept"):
        make_either().contribute("income", 1)
    assert len(tape.submitted) == 1
    assert fake_time.slept == []


@pytest.mark.parametrize("code", [c for c, again in OTLP.items() if again])
def test_what_may_help_is_tried_until_the_deadline(
    make_either: Callable[..., Any], tape: Any, fake_time: Any, code: str
) -> None:
    tape.before = failing(code)
    with pytest.raises(DeliveryFailed, match=code) as raised:
        make_either(timeout_s=10.0).contribute("income", 1)
    # Bounds 0.2, 0.4, 0.8, 1.6, 3.2, 5, 5 … halved: 0.1+0.2+0.4+0.8+1.6+2.5+2.5 = 8.1, and the
    # next 2.5 would pass the deadline.
    assert fake_time.slept == [0.1, 0.2, 0.4, 0.8, 1.6, 2.5, 2.5]
    assert fake_time.now_s < 10
    assert len(tape.submitted) == 8
    assert len(set(tape.submitted)) == 1
    assert raised.value.cause.code == code
    assert isinstance(raised.value.__cause__, TransportError)


def test_a_campaign_that_can_not_be_fetched_is_a_transport_error(
    make_either: Callable[..., Any], tape: Any, fake_time: Any
) -> None:
    tape.before = failing("UNAVAILABLE", lambda request: True)
    with pytest.raises(TransportError, match="UNAVAILABLE"):
        make_either(timeout_s=1.0).contribute("income", 1)
    assert fake_time.slept == [0.1, 0.2, 0.4]
    assert tape.fetched == 4
    tape.before = failing("PERMISSION_DENIED", lambda request: True)
    with pytest.raises(TransportError, match="PERMISSION_DENIED"):
        make_either(timeout_s=1.0).contribute("income", 1)
    assert tape.fetched == 5


def test_fetching_and_sending_share_one_deadline(
    make_client: Callable[..., Any], tape: Any, fake_time: Any, collector: Any
) -> None:
    """Every call takes a second and a half, and says how much time it was given."""
    given: list[float] = []

    class Slow:
        def get_campaign(self, request: Any, timeout_s: float) -> Any:
            given.append(timeout_s)
            fake_time.now_s += 1.5
            return collector(request)

        def submit_reports(self, request: Any, timeout_s: float) -> Any:
            given.append(timeout_s)
            fake_time.now_s += 1.5
            raise TransportError("UNAVAILABLE")

    with pytest.raises(DeliveryFailed):
        make_client(transport=Slow(), timeout_s=5.0).contribute("income", 1)
    # 5; 1.5 later 3.5; 1.5 and a pause of 0.1 later 1.9; then 0.2 would leave 0.2: one more try.
    assert given == pytest.approx([5.0, 3.5, 1.9, 0.2])


def test_no_call_is_made_without_time(
    make_client: Callable[..., Any], tape: Any, fake_time: Any
) -> None:
    def late(request: Any) -> None:
        fake_time.now_s += 100

    tape.after = late
    with pytest.raises(DeliveryFailed, match="DEADLINE_EXCEEDED: no time is left"):
        make_client().contribute("income", 1)
    assert tape.submitted == []


def test_flush_has_one_deadline_for_everything(
    make_either: Callable[..., Any],
    tape: Any,
    fake_time: Any,
    collector: Any,
    make_campaign: Any,
) -> None:
    client = make_either(timeout_s=10.0)
    tape.before = failing("UNAUTHENTICATED")
    for i in range(5):
        collector.add(make_campaign(f"c{i}"))
        with pytest.raises(DeliveryFailed):
            client.contribute(f"c{i}", 1)
    tape.before = failing("UNAVAILABLE")
    started = fake_time.now_s
    assert client.flush().pending == 5
    assert fake_time.now_s - started <= 10
    tape.before = lambda request: None
    assert client.flush().acknowledged == 5


def test_pauses_are_uniform_between_zero_and_a_bound_that_doubles() -> None:
    bounds = [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0]
    for jitter in (0.0, 0.25, 0.999):
        got = list(islice(pauses(lambda j=jitter: j), len(bounds)))  # type: ignore[misc]
        assert got == pytest.approx([jitter * b for b in bounds])


def test_the_default_jitter_is_uniform() -> None:
    """Kolmogorov–Smirnov, n = 20,000, alpha = 1e-6; halved numbers must fail it."""
    n, limit = 20_000, 2.69  # sqrt(n)·D exceeds 2.69 with probability 2·exp(−2·2.69²) = 1.0e-6
    draw = Timing().jitter
    numbers = sorted(draw() for _ in range(n))
    assert numbers[0] >= 0
    assert numbers[-1] < 1

    def statistic(sample: list[float]) -> float:
        return math.sqrt(n) * max(max((i + 1) / n - x, x - i / n) for i, x in enumerate(sample))

    assert statistic(numbers) < limit
    assert statistic([x / 1.3 for x in numbers]) > limit


def test_time_left_is_never_negative(fake_time: Any) -> None:
    deadline = Deadline(2.0, lambda: fake_time.now_s)
    assert deadline.remaining_s() == 2.0
    fake_time.now_s = 1.5
    assert deadline.remaining_s() == 0.5
    fake_time.now_s = 99
    assert deadline.remaining_s() == 0.0


def test_the_real_clocks_have_their_units() -> None:
    timing = Timing()
    assert timing.now().tzinfo is not None
    assert timing.clock() <= timing.clock()
