"""The blocking shell around `Session`."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeVar

from geoveil.campaign import Value
from geoveil.client.contribution import Receipt
from geoveil.client.errors import ClientClosed, TransportError
from geoveil.client.grpc_transport import GrpcTransport
from geoveil.client.policy import Policy
from geoveil.client.retry import Timing
from geoveil.client.session import FlushResult, Session, Steps
from geoveil.client.transport import TLS, Transport
from geoveil.gp import RandomSource

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class _Blocking:
    """See `Effects`."""

    transport: Transport
    pause: Callable[[float], None]

    def local(self, work: Callable[[], Any], slow: bool) -> Any:
        return work()


class Client:
    """Contributes values to campaigns; each is perturbed here, on the device, before it leaves.

    Shared by threads. Fork before its first call, not after. See `AsyncClient` for asyncio.

    Args:
        target: address of the collector, for example "collector.example:443".
        policy: what the app permits; the only judge of how much privacy a campaign may cost.
        state_dir: directory for what was drawn, made if missing. With it, every campaign is drawn
            for once per directory, through any crash; without it, once per client.
        tls: may be left out for targets on this machine only.
        timeout_s: for all tries of one call together, in seconds.
        transport: used instead of gRPC to `target`, and left open by `close`.
        source: random bits; the operating system's by default.
        release_floor_s: least time, in seconds, that making a report takes, so that nobody who
            times the app learns how long it took for this value; a few milliseconds will do.
        timing: the clocks; for tests.

    Raises:
        ParameterError: if an argument is out of range, or the source is not secure.
        PlaintextRefused: if the target is on another machine and `tls` is None.
        JournalError: if the state directory can't be used.
    """

    def __init__(
        self,
        target: str = "",
        *,
        policy: Policy,
        state_dir: str | os.PathLike[str] | None = None,
        tls: TLS | None = None,
        timeout_s: float = 10.0,
        transport: Transport | None = None,
        source: RandomSource | None = None,
        release_floor_s: float | None = None,
        timing: Timing | None = None,
    ) -> None:
        timing = timing or Timing()
        self._own: GrpcTransport | None = None
        if transport is None:
            transport = self._own = GrpcTransport(target, tls=tls)
        self._session = Session(
            policy=policy,
            state_dir=state_dir,
            timeout_s=timeout_s,
            source=source,
            floor_s=release_floor_s,
            timing=timing,
        )
        self._effects = _Blocking(transport, timing.sleep)
        self._closed = False

    def contribute(self, campaign_id: str, value: Value) -> Receipt:
        """Perturb a value, once per campaign, and send what results until it is acknowledged.

        A campaign that has been answered returns its receipt, whatever the value; nothing is drawn
        again. A report not acknowledged yet is sent again as it is.

        Args:
            campaign_id: of the campaign.
            value: a number, a list of numbers, or (longitude, latitude) in degrees, as the
                campaign's attribute asks. Never logged, stored or shown.

        Raises:
            PrivateValueError: if the value is not of the kind asked for; nothing was drawn.
            PolicyRefused: if the campaign asks for more than the policy permits.
            CampaignError: if there is no campaign that can be answered.
            TransportError: if the campaign can't be fetched; nothing was drawn.
            DeliveryFailed: if the report is kept, but not acknowledged.
            ReportRejected: if the server refused the report for good.
            JournalError: if the journal can't be read or written; nothing more was sent.
        """
        return self._run(self._session.contribute(campaign_id, value))

    def flush(self) -> FlushResult:
        """Send every report that is pending, and return what became of them.

        Raises:
            JournalError: if the journal can't be read or written.
        """
        return self._run(self._session.flush())

    def close(self) -> None:
        """Close the connection, if it is the client's own. What is pending stays in the journal."""
        self._closed = True
        if self._own is not None:
            self._own.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _run(self, steps: Steps[_Result]) -> _Result:
        try:
            step = next(steps)
            while not self._closed:
                try:
                    result = step(self._effects)
                except TransportError as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(result)
            raise ClientClosed
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]  # what the steps return
        finally:
            steps.close()
