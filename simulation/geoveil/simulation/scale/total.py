"""From work to its sums, on whatever computes it; interrupted runs go on where they stopped.

With N devices at c seconds each, G groups that are handed out at d seconds each, and W workers,

    t(W) = start + max(N·c / W, G·d).

`python -m benchmarks scale` measures these. On two shared cores: c = 77 ns of processor time, with
the draw of a person by weight; d = 2.0 to 2.6 ms; start = 60 to 80 ms; two workers spent 94 to 98 %
of their time computing. 10⁹ devices took 86 s of processor time and 0.31 GB for all processes
together. Extrapolated, not measured: on 100 workers of that kind 10⁹ devices take 1 to 2 seconds
(their 120 groups do not fill the workers evenly) and 10¹¹ devices 80 seconds at 99 %. Groups of the
default size keep a scheduler busy from about 250 workers on; larger ones raise that.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from geoveil.gp import ParameterError
from geoveil.simulation.computing import Computer, in_this_process
from geoveil.simulation.scale.finished import finished
from geoveil.simulation.scale.work import BlockedWork, Sums, groups, of_blocks

GROUP = 32
"""Blocks per group at most, by default: 0.65 s of work, against 2 or 3 ms to hand it out."""


def total(
    work: BlockedWork,
    compute: Computer = in_this_process,
    *,
    group_size: int | None = None,
    path: Path | None = None,
    on_progress: Callable[[int, int], None] = lambda done, blocks: None,
) -> Sums:
    """Return the exact sums of all blocks: the same bits, however they are computed.

    Args:
        work: whose blocks to add.
        compute: in this process, or what `computer` yields.
        group_size: blocks that are computed together, > 0. By default a hundredth of all, so that
            little is lost when a run is interrupted, but at most 32.
        path: file of finished groups; a run that finds it goes on from there.
        on_progress: called with the number of blocks done, and of all, after each group.

    Raises:
        FinishedFileError: if the file is of other work, damaged or in use.
        ClusterError: if the cluster fails.

    Example:
        >>> from geoveil.simulation import household_incomes
        >>> from geoveil.simulation.scale import simulated
        >>> from geoveil.simulation.demo import experiments
        >>> work = simulated(experiments()[0].campaign, household_incomes(), 10_000, seed=1)
        >>> [sums.n for sums in total(work)]
        [10000]
    """
    if group_size is None:
        group_size = min(GROUP, max(1, work.blocks // 100))
    if isinstance(group_size, bool) or not isinstance(group_size, int) or group_size < 1:
        raise ParameterError("group_size", group_size, "an integer >= 1")
    with finished(work, path) as done:
        on_progress(done.count, work.blocks)
        for blocks, sums in compute(partial(of_blocks, work), groups(done.missing(), group_size)):
            done.add(blocks, sums)
            on_progress(done.count, work.blocks)
        return done.sums
