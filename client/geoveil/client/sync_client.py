"""The blocking shell: a client whose background is a thread."""

from __future__ import annotations

import atexit
import logging
import os
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar

from geoveil.campaign import TLS, Answers, Campaign, Value
from geoveil.client.contributions import Receipt
from geoveil.client.device_session import (
    CLOSE_TIMEOUT_S,
    MOST_PENDING,
    MOST_PENDING_BYTES,
    RELEASE_FLOOR_S,
    DeviceSession,
    ReportCounts,
    Timing,
    duration,
)
from geoveil.client.errors import ClientClosed, ClientError
from geoveil.client.ledger import Budget
from geoveil.client.policy import Policy
from geoveil.client.report_sender import (
    FAILED_WAIT_S,
    MOST_UNQUIET,
    QUIET_S,
    FlushResult,
    Local,
    Pause,
    ReportSender,
    Step,
    Steps,
    described,
)
from geoveil.client.transport import (
    ForkBarrier,
    GrpcAioTransport,
    GrpcTransport,
    Transport,
    follow_forks,
    is_loaded,
    loaded,
)
from geoveil.gp import ParameterError, RandomSource

_LOG = logging.getLogger(__name__)
_Result = TypeVar("_Result")
_TransportT = TypeVar("_TransportT")
_GrpcT = TypeVar("_GrpcT", bound=GrpcTransport | GrpcAioTransport)


class _Blocking:
    """Carries out steps with blocking calls, without a reference to the client, which may end."""

    def __init__(
        self, transport: Transport, barrier: ForkBarrier, pause: Callable[[float], None]
    ) -> None:
        self._transport = transport
        self._barrier = barrier
        self._pause = pause
        self._uses_grpc = isinstance(transport, GrpcTransport)

    def run(self, steps: Steps[_Result], stop: threading.Event) -> _Result:
        try:
            step = next(steps)
            while not stop.is_set():
                try:
                    result = self._take(step)
                except ClientError as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(result)
            raise ClientClosed
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]  # what the steps return
        finally:
            steps.close()

    def _take(self, step: Step) -> Any:
        if isinstance(step, Local):
            return step.work()
        if isinstance(step, Pause):
            return self._pause(step.seconds)
        if self._uses_grpc:
            loaded()  # outside the barrier: forks wait for loading without a time limit
        self._barrier.enter()
        try:
            return getattr(self._transport, step.method)(step.message, step.timeout_s)
        finally:
            self._barrier.leave()


class ClientBase(ABC, Generic[_TransportT, _GrpcT]):
    """The common part of the blocking and the asyncio client; `Client` documents the arguments."""

    _kind: type[_GrpcT]

    def __init__(
        self,
        target: str = "",
        *,
        policy: Policy,
        state_dir: str | os.PathLike[str] | None = None,
        tls: TLS | None = None,
        timeout_s: float = 10.0,
        background: bool = True,
        most_pending: int = MOST_PENDING,
        most_pending_bytes: int = MOST_PENDING_BYTES,
        transport: _TransportT | None = None,
        source: RandomSource | None = None,
        release_floor_s: float = RELEASE_FLOOR_S,
        timing: Timing | None = None,
    ) -> None:
        self._timeout_s = duration(timeout_s)
        if transport is not None and not hasattr(transport, "submit_reports"):
            raise ParameterError("transport", type(transport).__name__, "a Transport, or None")
        self._own: _GrpcT | None = self._kind(target, tls=tls) if transport is None else None
        self._transport: Any = transport if self._own is None else self._own
        self._barrier = ForkBarrier() if self._own is None else self._own.barrier
        self._session = DeviceSession(
            policy=policy,
            state_dir=state_dir,
            source=source,
            most_pending=most_pending,
            most_pending_bytes=most_pending_bytes,
            floor_s=release_floor_s,
            timing=timing or Timing(),
            operator=getattr(transport, "operator", None),
            gives_tokens=getattr(transport, "gives_tokens", False),
        )
        self._sender = ReportSender(self._session, self._timeout_s)
        self._background = background
        self._closed = False
        self._renew()
        follow_forks(self, self._barrier, ClientBase._forked)

    @abstractmethod
    def _renew(self) -> None:
        """Create the parts that belong to one process."""

    def _forked(self) -> None:
        """Continue in a forked child, which shares only the journal with its parent."""
        self._renew()
        if self._own is not None:
            self._own.forget()


class Client(ClientBase[Transport, GrpcTransport]):
    """Contributes values to campaigns; the device perturbs each value before it leaves.

    `contribute` never waits for the network: a thread sends reports as soon as it can. Threads may
    share a client; a forked child uses it like a new one.

    Args:
        target: the collector's address, for example "collector.example:443".
        policy: the app's policy, which alone decides how much privacy a person has.
        state_dir: directory of reports and spending, created if missing. With it, each campaign and
            period has one draw per directory, and no crash loses anything. Without it, the client
            forgets reports and spending when it ends, and the next one draws anew; the log warns
            once.
        tls: optional only for targets on this machine.
        timeout_s: seconds for one request, and the default for `fetch` and `flush`; at most a day.
        background: False for no thread, so that only `flush` sends.
        most_pending: the most waiting reports, beyond which `contribute` accepts no new one.
        most_pending_bytes: the most bytes of waiting reports.
        transport: used instead of gRPC to `target`; `close` leaves it open.
        release_floor_s: the least time, in seconds, for reading a value and drawing, so that timing
            reveals nothing about the value; see `geoveil.gp.paced`. 0 for simulated people.
        timing: the clocks, for tests.

    Raises:
        ParameterError: if an argument is out of range, or the source is not secure.
        PlaintextRefused: if the target is on another machine and `tls` is None.
        JournalError: if the state directory can't be used.
    """

    _kind = GrpcTransport

    def _renew(self) -> None:
        self._effects = _Blocking(self._transport, self._barrier, self._session.timing.sleep)
        self._starting = threading.Lock()
        self._sending = threading.Lock()
        self._woken = threading.Event()
        self._called = threading.Event()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        if self._closed:
            self._stop.set()
        _CLIENTS.add(self)

    def fetch(self, campaign_id: str, timeout_s: float | None = None) -> Campaign:
        """Fetch a campaign from the server, check it, and store it for `contribute`.

        It waits for the network, at most `timeout_s` seconds, by default the client's. Call it when
        the app starts, and continue after a TransportError: once a device has a campaign,
        `contribute` needs no network.

        Raises:
            PolicyRefused: if the policy does not permit it.
            CampaignError: if the campaign does not exist, can't be answered, or has changed.
            TransportError: if no response came in time.
            JournalError: if it can't be stored.
        """
        steps = self._sender.fetch(campaign_id, self._sender.deadline(timeout_s))
        return self._effects.run(steps, self._stop)

    def contribute(self, campaign_id: str, value: Value | Answers) -> Receipt:
        """Perturb a value, once per campaign and period, and store the result for sending.

        It takes a few milliseconds, since it never waits for the network. If the period already has
        an answer, it returns that receipt for any value, with `fresh` False; nothing is drawn
        again.

        Args:
            campaign_id: id of a campaign that this device has; see `fetch`. Any other is fetched in
                the background.
            value: a number, a list of numbers, or (longitude, latitude) in degrees, according to
                `Limit.value`; for a form, name of a field → answer: the name of an option or, for a
                multiple selection, a list of names. It is never logged, stored or shown.

        Raises:
            CampaignNotFetched: if this device does not have the campaign yet.
            CampaignNotOpen: before or after the campaign's dates.
            AnswerNotYet: if it extrapolates from two readings, and this device's are too close.
            PolicyRefused: if the policy, which may have changed, does not permit it.
            PrivateValueError: if the value is not of the campaign's kind.
            BudgetExceeded: if the policy's limits leave too little.
            OutboxFull: if too many reports wait.
            JournalError: if the journal can't be read or written.

        After an error nothing is stored, sent or spent.
        """
        self._check_open()
        try:
            return self._session.contribute(campaign_id, value)
        finally:
            if self._background:
                self._wake()

    def flush(self, timeout_s: float | None = None) -> FlushResult:
        """Send the waiting reports within `timeout_s` (default: the client's); return the outcome.

        Raises:
            JournalError: if the journal can't be read or written.
        """
        self._check_open()
        deadline = self._sender.deadline(timeout_s)
        if not self._sending.acquire(timeout=deadline.remaining_s()):
            return FlushResult(acknowledged=0, rejected=0, pending=self.counts().pending)
        try:
            return self._effects.run(self._sender.flush(deadline), self._stop)
        finally:
            self._sending.release()

    def history(self) -> tuple[Receipt, ...]:
        """Return all reports of this person, sent or not; nothing else leaves the device."""
        self._check_open()
        return self._session.history()

    def budgets(self) -> tuple[Budget, ...]:
        """Return the policy's limits over all campaigns with their spent parts."""
        self._check_open()
        return self._session.budgets()

    def counts(self) -> ReportCounts:
        """Return the numbers of waiting, acknowledged, rejected, given up, and refused reports."""
        self._check_open()
        return self._session.counts()

    def close(self, timeout_s: float = CLOSE_TIMEOUT_S) -> None:
        """Send the waiting reports for at most `timeout_s` seconds (0: none), and end; idempotent.

        The rest stays in the state directory, if any, for the next client.
        """
        timeout_s = duration(timeout_s, zero=True)
        if self._closed:
            return
        try:
            if timeout_s and self._session.counts().pending:
                self.flush(timeout_s)
        except ClientError as error:
            _LOG.warning("closing: %s", error)
        finally:
            self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _end(self) -> None:
        self._closed = True
        self._stop.set()
        self._woken.set()
        if self._own is not None:
            self._own.close()  # ends any request under way
        if self._thread is not None:
            self._thread.join(self._timeout_s + 1)
            if self._own is not None:
                self._own.close()  # the thread may have reopened a connection just before its end
        self._session.journal.close()

    def _wake(self) -> None:
        """Let the background look for work; start it if necessary."""
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=_in_background,
                    args=(self._sender, self._effects, self._sending, self._woken, self._stop),
                    kwargs={"called": None if self._own is None else self._called},
                    name="geoveil-client",
                    daemon=True,  # reports are on disk, so exits need not wait
                )
                self._thread.start()
                weakref.finalize(self, _stop, self._stop, self._woken).atexit = False
        self._woken.set()

    def _check_open(self) -> None:
        self._called.set()
        if self._closed:
            raise ClientClosed


def _in_background(
    sender: ReportSender,
    effects: _Blocking,
    sending: threading.Lock,
    woken: threading.Event,
    stop: threading.Event,
    *,
    called: threading.Event | None,
) -> None:
    """Run the thread, without a reference to the client, so that an unused one can be collected."""
    if called is not None and not is_loaded():
        _until_quiet(called, stop)
    wait_s: float | None = 0.0
    while not stop.is_set():
        woken.wait(wait_s)
        woken.clear()
        if stop.is_set():
            return
        try:
            with sending:
                wait_s = effects.run(sender.work(), stop)
        except ClientClosed:
            return
        except Exception as error:  # noqa: BLE001 - a thread of a host must not end with a trace
            _LOG.warning("the background failed: %s", described(error))
            wait_s = FAILED_WAIT_S


def _until_quiet(called: threading.Event, stop: threading.Event) -> None:
    for _ in range(MOST_UNQUIET):
        called.clear()
        if stop.wait(QUIET_S) or not called.is_set():
            return


def _stop(stop: threading.Event, woken: threading.Event) -> None:
    stop.set()
    woken.set()


_CLIENTS: weakref.WeakSet[Client] = weakref.WeakSet()


def _at_exit() -> None:
    for client in list(_CLIENTS):
        client.close(0.0 if client._session.journal.durable else CLOSE_TIMEOUT_S)


atexit.register(_at_exit)
