"""The oracle: the permitted counts, given requests and answers.

For each report id of each campaign it holds the set of what may stand in the database: a kind of
report, or None for nothing. An answer narrows the set to what explains it; a request of which
nothing was heard widens it. An answer that nothing in the set explains is a violation, and so is a
sum that holds anything outside of it.

Requests on their way at once are judged together: their answers must be explained by some order.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from geoveil.proto.v1 import report_pb2 as pb
from geoveil.proto.v1.campaign_pb2 import (
    CAMPAIGN_STATE_CLOSED,
    CAMPAIGN_STATE_OPEN,
    CAMPAIGN_STATE_PENDING,
)

from .campaigns import (
    CLOSES,
    NAMES,
    OPENS,
    SKEW,
    WEEK,
    WEEKLY,
    Kind,
    Row,
    Sums,
    counted,
    fault,
    is_sound,
    period_of,
    require,
    rows_of,
)
from .operations import Browse, Close, Create, Estimate, Export, Fetch, Request, Upload
from .speaking import Standing

ACCEPTED, DUPLICATE = pb.REPORT_STATUS_ACCEPTED, pb.REPORT_STATUS_DUPLICATE
CONFLICT = pb.REJECTION_REASON_ID_CONFLICT
UNKNOWN = "UNKNOWN"
"""The answer that nobody heard."""


@dataclass(frozen=True)
class Exchange:
    """A request that reached a replica, and the answer."""

    request: Request
    answer: Any
    """Results of an upload, sums of an estimate or of the rows of an export, how a campaign is
    shown, None, the name of a refusal, or UNKNOWN."""
    now: datetime
    """By the clock of the replica."""
    lingers: bool = False
    """Whether it may still be done after this."""


@dataclass
class State:
    """What may be true of one campaign."""

    variants: set[int | None] = field(default_factory=lambda: {None})
    """Which one exists, if any."""
    closed: set[bool] = field(default_factory=lambda: {False})
    reports: dict[int, set[Kind | None]] = field(default_factory=dict)
    lingering: dict[int, set[Kind | None]] = field(default_factory=dict)
    """What may still come to be counted."""
    accepted: set[int] = field(default_factory=set)

    def may_be(self, number: int) -> set[Kind | None]:
        """Return what may be counted with an id."""
        return self.reports.setdefault(number, {None})

    def is_certain(self) -> bool:
        """Return whether nothing is in doubt."""
        sets: Iterable[set[Any]] = (self.variants, *self.reports.values())
        return all(len(one) == 1 for one in sets)


class Model:
    """The states of all campaigns."""

    def __init__(self) -> None:
        self.states = {name: State() for name in NAMES}

    def settle(self, exchanges: Sequence[Exchange]) -> None:
        """Take exchanges that happened at once."""
        for name in NAMES:
            group = [e for e in exchanges if e.request.campaign == name]
            if group:
                _Settlement(name, self.states[name], group).settle()

    def nothing_lingers(self) -> None:
        """Say that whatever was on its way has been done by now, or never will be."""
        for state in self.states.values():
            state.lingering.clear()

    @property
    def lingers(self) -> bool:
        """Whether anything that was given up may still be under way."""
        return any(state.lingering for state in self.states.values())

    def watched(self, name: str, now: datetime, *, more: bool) -> None:
        """Take that a watch goes on, or has ended."""
        state = self.states[name]
        if more:
            require(now < CLOSES and False in state.closed, "a watch ends in the end", name)
        elif now < CLOSES:
            require(True in state.closed, "a watch goes on while reports come", name)
            state.closed = {True}

    def exported(self, name: str, sums: Sums, rows: Sequence[Row]) -> None:
        """Take rows that were exported, the sums of which are these."""
        wanted = [row for key in counted(name, sums).items() for row in rows_of(name, key)]
        require(Counter(rows) == Counter(wanted), "rows of whole reports", name, rows)

    def listed(self, name: str, reports: int) -> None:
        """Take the number of reports that is told of a campaign while nothing is on its way."""
        sets = self.states[name].reports.values()
        certain = sum(None not in one for one in sets)
        possible = sum(one != {None} for one in sets)
        require(certain <= reports <= possible, "number of reports", name, reports)


class _Settlement:
    """Exchanges of one campaign that happened at once."""

    def __init__(self, name: str, state: State, group: Sequence[Exchange]) -> None:
        self.name = name
        self.state = state
        self.group = group

    def settle(self) -> None:
        self._widen()
        variants_before = set(self.state.variants)
        self._exists()
        before = {number: set(self.state.may_be(number)) for number in self._numbers()}
        closed_before = set(self.state.closed)
        uploads = [
            (e, key, result)
            for e in self.group
            if isinstance(e.request, Upload) and not isinstance(e.answer, str)
            for key, result in zip(e.request.reports * e.request.copies, e.answer, strict=True)
        ]
        for e, key, result in uploads:
            if result.status == ACCEPTED:
                self._accept(e, key)
                require(False in closed_before, "closed: takes none", self.name, key)
        closing = [e for e in self.group if isinstance(e.request, Close) and e.answer is None]
        if any(e.now - SKEW < CLOSES for e in closing):  # after its date, nobody has to close it
            self.state.closed = {True}
        for e, key, result in uploads:
            if result.status != ACCEPTED:
                self._recognise(e, key, result, before)
        for e in self.group:
            if isinstance(e.answer, Standing):
                self._shown(e, variants_before, closed_before)
            elif isinstance(e.answer, dict):
                self._estimate(e, before, alone=len(self.group) == 1)

    def _numbers(self) -> set[int]:
        sent = {
            n for e in self.group if isinstance(e.request, Upload) for n, _ in e.request.reports
        }
        return sent | set(self.state.reports)

    def _widen(self) -> None:
        """Let what nobody heard of be done, or not."""
        state = self.state
        for e in self.group:
            if e.answer not in (UNKNOWN, "UNAVAILABLE"):
                continue
            match e.request:
                case Create(variant=variant) if None in state.variants:
                    state.variants.add(variant)
                case Close() if state.variants != {None}:
                    state.closed.add(True)
                case Upload(reports=reports) if 0 in state.variants and False in state.closed:
                    for number, kind in reports:
                        may_be = state.may_be(number)
                        if None in may_be and self._admissible(e.now, number, kind):
                            may_be.add(kind)
                            if e.lingers:
                                state.lingering.setdefault(number, set()).add(kind)

    def _exists(self) -> None:
        """Take what answers say of whether the campaign exists, and which variant of it."""
        before = set(self.state.variants)
        # First those that create it, as the others may have come later.
        for e in sorted(
            self.group, key=lambda e: (not isinstance(e.request, Create), bool(e.answer))
        ):
            variants = self.state.variants
            asked = e.request.variant if isinstance(e.request, Create) else 0
            explained: set[int | None]
            match e.request, e.answer:
                case _, "UNKNOWN" | "UNAVAILABLE" | "RESOURCE_EXHAUSTED":
                    continue
                case Create(), None:
                    explained = {asked} if variants & {None, asked} else set()
                case (Create(), "ALREADY_EXISTS") | (Upload(), "DIGEST_MISMATCH"):
                    explained = variants - {None, asked}
                case (_, Standing(variant=None)) if isinstance(e.request, Browse):
                    continue
                case ((Close() | Upload() | Estimate() | Export() | Fetch()), "NOT_FOUND"):
                    only = {None} if len(self.group) == 1 else variants
                    explained = set(only) if None in before else set()
                case Upload(), [*_]:
                    explained = variants & {0}
                case ((Fetch() | Browse()), Standing(variant=variant)):
                    explained = variants & {variant} - {None}
                case (Close(), None) | ((Estimate() | Export()), dict()):
                    explained = variants - {None}
                case _:
                    explained = set()
            require(explained, "answers as agreed", self.name, e.request, e.answer, variants)
            self.state.variants = explained
        if self.state.variants == {None}:  # what does not exist has no reports
            for number, may_be in self.state.reports.items():
                require(None in may_be, "counted: stays counted", self.name, number)
                self.state.reports[number] = {None}

    def _shown(self, e: Exchange, variants: set[int | None], closed: set[bool]) -> None:
        """Take how a campaign is shown to devices, given what may have been true before."""
        shown, over = e.answer, e.now >= CLOSES
        told = (self.name, e.request, shown, e.now, closed)
        if shown.variant is None:
            unseen = None in variants or over or True in self.state.closed
            require(unseen, "devices find what is open", *told)
        elif shown.state == CAMPAIGN_STATE_CLOSED:
            require(isinstance(e.request, Fetch), "devices are not shown what is closed", *told)
            require(over or True in self.state.closed, "closed by someone", *told)
            if not over:
                self.state.closed = {True}
        else:
            state = CAMPAIGN_STATE_PENDING if e.now < OPENS else CAMPAIGN_STATE_OPEN
            require(not over and False in closed, "closed: stays closed", *told)
            require(shown.state == state, "pending until it opens", *told)

    def _admissible(self, now: datetime, number: int, kind: Kind) -> bool:
        """Return whether a report would be counted at a time, by the dates."""
        key = (number, kind)
        return is_sound(self.name, key) and _is_open(now) and not self._is_early(now, number, kind)

    def _is_early(self, now: datetime, number: int, kind: Kind) -> bool:
        period = period_of(self.name, (number, kind))  # the first begins before all else
        return period > 0 and now + SKEW < OPENS + WEEK * period

    def _accept(self, e: Exchange, key: tuple[int, Kind]) -> None:
        number, kind = key
        require(self._admissible(e.now, *key), "counts only what is sound", self.name, key, e.now)
        require(number not in self.state.accepted, "accepts an id once", self.name, key)
        require(None in self.state.may_be(number), "counts an id once", self.name, key)
        self.state.accepted.add(number)
        self.state.reports[number] = {kind}

    def _recognise(
        self,
        e: Exchange,
        key: tuple[int, Kind],
        result: pb.ReportResult,
        before: dict[int, set[Kind | None]],
    ) -> None:
        """Take an answer that is not ACCEPTED."""
        number, kind = key
        state = self.state
        if not is_sound(self.name, key):
            wanted = fault(self.name, key)
            require(result.reason == wanted, "rejects what is not sound", self.name, key)
            return
        may_be = state.may_be(number)
        shown = (self.name, key, may_be, result.status, result.reason, e.now)
        if result.status == DUPLICATE:
            require(kind in may_be, "duplicates are known", *shown)
            state.reports[number] = {kind}
        elif result.reason == CONFLICT:
            others = may_be - {kind, None}
            require(others, "conflicts are with others", *shown)
            state.reports[number] = others
        else:
            require(None in before[number], "counted: stays counted", *shown)
            early = self._is_early(e.now, number, kind)
            wanted = pb.REJECTION_REASON_WRONG_PERIOD if early else pb.REJECTION_REASON_NOT_OPEN
            require(result.reason == wanted, "says why", *shown)
            if not early and _is_open(e.now):
                require(True in state.closed, "open: takes reports", *shown)
                state.closed = {True}
            if None in may_be and len(self.group) == 1:
                state.reports[number] = {None} | state.lingering.get(number, set())

    def _estimate(self, e: Exchange, before: dict[int, set[Kind | None]], *, alone: bool) -> None:
        sums: Sums = e.answer
        found = counted(self.name, sums)
        periods = {period for period, _ in sums}
        for number in set(found) | set(before):
            may_be = before.get(number, {None}) | self.state.may_be(number)
            unseen = {k for k in may_be if k and period_of(self.name, (number, k)) not in periods}
            seen = {found[number]} if number in found else {None, *unseen}
            require(seen & may_be, "holds what was acknowledged", self.name, number, may_be, seen)
            if alone:
                later = self.state.lingering.get(number, set()) if None in seen else set()
                self.state.reports[number] = (seen & may_be) | later


def _is_open(now: datetime) -> bool:
    return now + SKEW >= OPENS and now - SKEW < CLOSES


def periods_begun(name: str, now: datetime) -> int:
    """Return how many periods of a campaign have begun, by the clock of a device that is ahead."""
    last = (CLOSES - OPENS - timedelta(seconds=1)) // WEEK
    return 1 + min(max((now + SKEW - OPENS) // WEEK, 0), last) if name == WEEKLY else 1
