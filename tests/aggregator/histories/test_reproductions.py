"""Short histories worth keeping: each breaks one control, or once disagreed with the model.

Paste here what a failure prints, shrunk.
"""

from datetime import timedelta

import pytest

from .campaigns import POINTS, SPLIT, WEEKLY, Kind, Violation
from .mutants import MUTANTS
from .operations import (
    Browse,
    Clock,
    Close,
    Create,
    Cut,
    DiskFull,
    Estimate,
    Export,
    Fate,
    Fetch,
    History,
    Kill,
    Release,
    Replay,
    Restart,
    RestartDatabase,
    Stream,
    Together,
    Upload,
    Watch,
)
from .playing import play_one
from .test_histories_sqlite import player

ONE, TWO = Upload(((0, Kind.GOOD),)), Upload(((1, Kind.GOOD),))
SIX = [Upload(tuple((n, Kind.GOOD) for n in range(i, i + 6)), SPLIT) for i in range(18)]
CONTROLS: dict[str, History] = {
    "AcknowledgesBeforeCommit": [Create(), ONE, Estimate()],
    "ForgetsOnRestart": [Create(), ONE, Kill(), Restart(), ONE],
    "LosesSumsOnConflict": [Create(), ONE, Upload(((0, Kind.OTHER), (1, Kind.GOOD)))],
    "ClosesLate": [Create(), Close(), ONE],
    "IgnoresDates": [Create(), Clock(-timedelta(days=1)), ONE],
    # The rows are durable, the process dies before the sums are.
    "CommitsRowsAlone": [Create(), Kill(at=6), ONE],
    "LosesCoordinates": [Create(POINTS), Upload(((1, Kind.GOOD),), POINTS)],
    "ExportsTwice": [Create(), ONE, Export()],
    "WatchesOldNumbers": [Create(), Watch(meanwhile=(ONE,))],
    "FetchesOpen": [Create(), Close(), Fetch()],
    "ListsOpen": [Create(), Close(), Browse()],
    "ForgetsInStreams": [Create(), Stream((((0, Kind.GOOD),),) * 2), Replay()],
    "QueuesWhatItRefuses": [
        Create(SPLIT),
        Together((SIX[0], SIX[6], SIX[12])),
    ],
}
DISAGREED: dict[str, History] = {
    "a clock goes back to before the date by which a campaign was closed": [
        Clock(timedelta(days=31, seconds=60)),
        Create(POINTS),
        Close(POINTS),
        Clock(timedelta(days=10)),
        Fetch(POINTS),
    ],
    "a campaign whose creation was lost has no reports, though one may have been sent": [
        Kill(at=1),
        Create(),
        Upload(((0, Kind.GOOD),), replica=1, fate=Fate.RESPONSE_LOST),
    ],
    "a campaign is created while reports to it are on their way": [
        Create(fate=Fate.HELD),
        Together((Replay(fate=Fate.CALLER_GONE), ONE)),
        Release(),
    ],
    "before a campaign opens its first period is not early": [
        Create(WEEKLY),
        Clock(-timedelta(seconds=61)),
        Upload(((15, Kind.GOOD), (1, Kind.GOOD)), WEEKLY),
    ],
    "a machine acknowledges nothing after the image of its death": [
        Create(),
        Estimate(),
        Estimate(replica=1),
        Kill(at=1, all_replicas=True),
        Together((Close(), Upload(((0, Kind.GOOD),), replica=1))),
    ],
    "the disk fills when a replica has died of a request whose caller was gone": [
        Create(),
        Kill(at=3),
        Upload(((0, Kind.GOOD),), fate=Fate.CALLER_GONE),
        DiskFull(),
        DiskFull(False),
    ],
    "two replicas start at once": [
        Create(SPLIT, replica=1),
        Kill(all_replicas=True),
        Restart(0),
        Together((Estimate(SPLIT), Estimate(SPLIT), Estimate(SPLIT, 1))),
    ],
}


@pytest.mark.deep(keep=7)
@pytest.mark.parametrize("name", MUTANTS)
def test_a_short_history_breaks_the_control_alone(name):
    play_one(player(), CONTROLS[name], threads=False)
    with pytest.raises(Violation):
        play_one(player(MUTANTS[name]), CONTROLS[name], threads=False)


@pytest.mark.deep(keep=11)
@pytest.mark.parametrize("threads", [False, True], ids=["scheduled", "threads"])
@pytest.mark.parametrize("history", DISAGREED.values(), ids=DISAGREED.keys())
def test_what_once_disagreed(history, threads):
    play_one(player(), history, threads=threads)


@pytest.mark.deep(keep=6)
@pytest.mark.parametrize("all_replicas", [False, True], ids=["one", "all"])
@pytest.mark.parametrize("at", range(1, 14))
def test_a_death_at_every_statement_of_two_uploads(at, all_replicas):
    death = Kill(at=at, all_replicas=all_replicas)
    play_one(
        player(), [Create(), TWO, death, ONE, TWO, Restart(), RestartDatabase(), ONE], threads=False
    )


@pytest.mark.deep(keep=5)
@pytest.mark.parametrize("at", range(1, 14))
def test_a_statement_fails_wherever_it_stands(at):
    play_one(player(), [Create(), TWO, Cut(at=at), ONE, ONE, TWO, Estimate()], threads=False)


def test_a_full_disk_loses_nothing_that_was_acknowledged():
    play_one(player(), [Create(SPLIT), ONE, DiskFull(), *SIX, DiskFull(False), *SIX], threads=False)
