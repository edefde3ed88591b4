"""Operations, and Hypothesis strategies for histories of them.

Whatever an operation points at (a replica, an earlier request) it names by a number that is taken
modulo what there is, so that every list of operations is a history, and shrinks.
"""

from dataclasses import dataclass
from datetime import timedelta
from enum import Enum

from hypothesis import strategies as st

from .campaigns import CLOSES, NAMES, NUMBERS, OPENS, PARTITION, SKEW, SOUND, WEEK, Key, Kind


class Fate(Enum):
    """What becomes of a request and its response on their way."""

    DELIVERED = "delivered"
    REQUEST_LOST = "request lost"
    RESPONSE_LOST = "response lost"
    HELD = "held back"
    CALLER_GONE = "caller gone"
    """It gives up while the server works."""

    def __repr__(self) -> str:
        return str(self)


@dataclass(frozen=True)
class Create:
    """A campaign is created."""

    campaign: str = PARTITION
    variant: int = 0
    replica: int = 0
    fate: Fate = Fate.DELIVERED


@dataclass(frozen=True)
class Close:
    """A campaign is closed by its analyst."""

    campaign: str = PARTITION
    replica: int = 0
    fate: Fate = Fate.DELIVERED


@dataclass(frozen=True)
class Upload:
    """Reports are uploaded in one request."""

    reports: tuple[Key, ...]
    campaign: str = PARTITION
    replica: int = 0
    fate: Fate = Fate.DELIVERED
    copies: int = 1
    """How often all of them are in it: large requests are read in another way."""


@dataclass(frozen=True)
class Stream:
    """Reports are uploaded in one stream, one message after the other."""

    parts: tuple[tuple[Key, ...], ...]
    campaign: str = PARTITION
    replica: int = 0
    fate: Fate = Fate.DELIVERED


@dataclass(frozen=True)
class Question:
    """Changes nothing, and never fails on its way."""

    campaign: str = PARTITION
    replica: int = 0


class Estimate(Question):
    """An estimate is asked for."""


class Export(Question):
    """All rows are asked for."""


class Fetch(Question):
    """A device asks for a campaign by its id."""


class Browse(Question):
    """A device pages through the campaigns and looks for one."""


@dataclass(frozen=True)
class Replay:
    """An earlier request is sent again, byte by byte, whatever became of it."""

    which: int = 0
    replica: int = 0
    fate: Fate = Fate.DELIVERED


@dataclass(frozen=True)
class Release:
    """A request that was held back arrives, after others that were sent later."""

    which: int = 0
    replica: int = 0


@dataclass(frozen=True)
class Together:
    """Several requests are on their way at once."""

    operations: "tuple[Request | Replay, ...]"


@dataclass(frozen=True)
class Watch:
    """An estimate is watched while other things happen, and looked at after each."""

    campaign: str = PARTITION
    replica: int = 0
    meanwhile: "tuple[Operation, ...]" = ()


@dataclass(frozen=True)
class Clock:
    """The clock of one replica, or of all, jumps to a time after the campaigns open."""

    after: timedelta
    replica: int | None = None


@dataclass(frozen=True)
class Kill:
    """A replica dies at once, or some moment later while it writes."""

    replica: int = 0
    at: int = 0
    """0: at once."""
    all_replicas: bool = False
    """The machine dies with all of them; what its files held at that moment is left."""


@dataclass(frozen=True)
class Restart:
    """A replica that is dead is started again."""

    replica: int = 0


@dataclass(frozen=True)
class Cut:
    """The database fails a replica once, some moment later while it writes."""

    replica: int = 0
    at: int = 1
    done: bool = False
    """Whether it does what it was told at that moment, where it can do so."""


@dataclass(frozen=True)
class DiskFull:
    """The disk becomes full, or has room again."""

    full: bool = True


@dataclass(frozen=True)
class RestartDatabase:
    """The database goes away and comes back; of files, a copy is opened."""


Request = Create | Close | Upload | Stream | Question
Operation = (
    Request
    | Replay
    | Watch
    | Release
    | Together
    | Clock
    | Kill
    | Restart
    | Cut
    | DiskFull
    | RestartDatabase
)
History = list[Operation]

_SECOND = timedelta(seconds=1)
_LENGTH = CLOSES - OPENS
START = timedelta(days=10)
"""After the campaigns open: two periods of the weekly one have begun."""
_EDGES = (-SKEW, WEEK - SKEW, 2 * WEEK - SKEW, _LENGTH + SKEW)
MOMENTS = (
    START,
    timedelta(days=1),
    timedelta(days=16),
    *(edge + step for edge in _EDGES for step in (-_SECOND, timedelta(0), _SECOND)),
    -timedelta(days=30),
    _LENGTH + timedelta(days=30),
)

REPLICAS = st.integers(0, 2)
CAMPAIGNS = st.sampled_from(NAMES)
# Mostly sound, and of few ids, so that duplicates and conflicts are common.
KINDS = st.sampled_from([*[Kind.GOOD] * 8, *SOUND[1:] * 2, *Kind])
KEYS = st.tuples(st.integers(0, NUMBERS - 1), KINDS)
FATES = st.sampled_from([*[Fate.DELIVERED] * 5, *Fate])
PARTS = st.lists(KEYS, min_size=1, max_size=6).map(tuple)
COPIES = st.sampled_from([*[1] * 9, 90])
UPLOADS = st.builds(Upload, PARTS, CAMPAIGNS, REPLICAS, FATES, COPIES)
STREAMS = st.builds(
    Stream, st.lists(PARTS, min_size=1, max_size=4).map(tuple), CAMPAIGNS, REPLICAS, FATES
)
CLOSES_ = st.builds(Close, CAMPAIGNS, REPLICAS, FATES)
ESTIMATES = st.builds(Estimate, CAMPAIGNS, REPLICAS)
QUESTIONS = st.one_of(*(st.builds(kind, CAMPAIGNS, REPLICAS) for kind in (Export, Fetch, Browse)))
REPLAYS = st.builds(Replay, st.integers(0, 30), REPLICAS, FATES)
SENT = st.one_of(UPLOADS, UPLOADS, UPLOADS, STREAMS, REPLAYS, CLOSES_, ESTIMATES, QUESTIONS)
USUAL = (
    *[UPLOADS] * 6,
    *[STREAMS] * 2,
    *[REPLAYS] * 3,
    st.builds(Create, CAMPAIGNS, st.sampled_from([0, 0, 0, 1]), REPLICAS, FATES),
    CLOSES_,
    *[ESTIMATES] * 2,
    QUESTIONS,
    st.builds(Release, st.integers(0, 5), REPLICAS),
    *[st.builds(Together, st.lists(SENT, min_size=2, max_size=4).map(tuple))] * 2,
    *[st.builds(Clock, st.sampled_from(MOMENTS), st.none() | REPLICAS)] * 2,
    *[st.builds(Kill, REPLICAS, st.integers(0, 30), st.sampled_from([False, False, True]))] * 2,
    *[st.builds(Restart, REPLICAS)] * 2,
    st.builds(Cut, REPLICAS, st.integers(1, 30), st.booleans()),
    st.builds(DiskFull, st.booleans()),
)
MEANWHILE = st.lists(st.one_of(*USUAL), max_size=4).map(tuple)
WATCHES = st.builds(Watch, CAMPAIGNS, REPLICAS, MEANWHILE)


@st.composite
def histories(draw: st.DrawFn, size: int = 20, *, restarts: bool = True) -> History:
    """Draw a history of about `size` operations that mostly begins with campaigns."""
    created = draw(st.lists(CAMPAIGNS, unique=True, max_size=len(NAMES)))
    operation = st.one_of(*USUAL, WATCHES, *[st.just(RestartDatabase())] * restarts)
    rest = draw(st.lists(operation, min_size=size // 2, max_size=size * 3 // 2))
    return [*(Create(name) for name in created), *rest]
