"""The table of attacks: each attack on each path, with its expected result."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from geoveil.audit.attacks.guesses import Guesses, permitted_right
from geoveil.audit.attacks.outputs import (
    FloatPath,
    GridPath,
    OutputPath,
    reachable_attack,
    spacing_attack,
)
from geoveil.audit.attacks.timing import (
    TimedMechanism,
    least_p_value,
    time_releases,
    timed_mechanisms,
)
from geoveil.audit.case import require_whole
from geoveil.audit.catalogue import RAMP
from geoveil.gp import LipschitzMechanism, SmoothMechanism


@dataclass(frozen=True, slots=True)
class OutputAttack:
    """An attack that tells two inputs apart by single outputs."""

    attack: str
    mechanism: str
    path: str
    """simulate or release."""
    must_succeed: bool
    """True for simulate, where a failure would be a defect of the attack; False for release."""
    promised: float
    """ε·d of the two inputs, in nats."""
    guesses: Guesses
    unreachable: float | None = None
    """Share of outputs that are unreachable from the other input, if counted."""
    largest_loss: float | None = None
    """Largest |log-ratio| of probabilities that one output proves; infinite if one is 0."""

    @property
    def samples(self) -> int:
        """Outputs of each input."""
        return self.guesses.trials

    @property
    def permitted_right(self) -> float:
        """The largest share of right guesses that the promise permits."""
        return permitted_right(self.promised)

    @property
    def succeeds(self) -> bool:
        """Whether the guesses disprove the promise."""
        return self.guesses.epsilon > self.promised

    @property
    def as_it_must(self) -> bool:
        """Whether the result is the expected one, by one output's proof or by confidence."""
        if self.must_succeed:
            return self.succeeds
        beyond = self.largest_loss is not None and self.largest_loss > self.promised
        return not (self.succeeds or beyond)

    def to_dict(self) -> dict[str, object]:
        """Return the fields and their conclusions; None stands for an infinite loss."""
        row: dict[str, object] = asdict(self)
        if self.largest_loss == math.inf:
            row["largest_loss"] = None
        return row | {
            "right": self.guesses.right,
            "permitted_right": self.permitted_right,
            "epsilon": self.guesses.epsilon,
            "delta": self.guesses.delta(self.promised),
            "succeeds": self.succeeds,
            "as_it_must": self.as_it_must,
        }


@dataclass(frozen=True, slots=True)
class TimingAttack:
    """An attack that tells places apart by the time of a release."""

    mechanism: str
    samples: int
    """Releases timed at each place."""
    floor: float | None
    """The constant-time floor, in seconds; None for a bare release."""
    p_value: float
    """The least of all places and tests."""
    threshold: float
    """The p value below which a difference counts, shared by all tests of the table."""
    medians: Mapping[str, float]
    """The median time of a release, in seconds, by place."""

    attack = "timing"

    @property
    def path(self) -> str:
        """The timed path: release, or release with a floor."""
        return "release" if self.floor is None else "release, paced"

    @property
    def succeeds(self) -> bool:
        """Whether the attack detects a difference."""
        return self.p_value < self.threshold

    @property
    def as_it_must(self) -> bool:
        """Whether a floor hides all differences; always true without a floor."""
        return self.floor is None or not self.succeeds

    @property
    def spread(self) -> float:
        """The largest difference of medians, in seconds."""
        return max(self.medians.values()) - min(self.medians.values())

    def to_dict(self) -> dict[str, object]:
        """Return the fields and their conclusions; times in seconds."""
        return asdict(self) | {
            "attack": self.attack,
            "path": self.path,
            "succeeds": self.succeeds,
            "as_it_must": self.as_it_must,
        }


Attack = OutputAttack | TimingAttack


ALPHA = 1e-6
"""Probability that any attack on outputs, and again any on times, succeeds by chance."""
TIMING_SAMPLES = 400

_EDGE = -1.0
"""The place where the band of `RAMP` begins and f is 0, in `per` from its middle."""
_CLOSE, _APART = 0.01, 0.1
"""The distance of the other input inside, in `per`, for the two attacks; it equals ε·d."""
_FLOOR = 3.0
"""A floor, in medians of the slowest place."""


def attack_outputs(
    *, reachable_samples: int = 200, spacing_samples: int = 10_000, seed: int = 1
) -> tuple[OutputAttack, ...]:
    """Run the reachable-outputs and the precision attack, on `simulate` and on `release`.

    The inputs are a point at the edge of a band, where f is 0, and one slightly inside.

    Args:
        reachable_samples: outputs of each input, in [20, 10⁶].
        spacing_samples: the same for the precision attack, and as many to choose its guess.
        seed: ≥ 0; the same seed gives the same rows.
    """
    require_whole("reachable_samples", reachable_samples, 20, 1_000_000)
    require_whole("spacing_samples", spacing_samples, 20, 1_000_000)
    require_whole("seed", seed, 0, 2**31)
    mechanisms = [kind(RAMP.query, RAMP.privacy) for kind in (LipschitzMechanism, SmoothMechanism)]
    paths = [path(m) for m in mechanisms for path in (FloatPath, GridPath)]
    share = ALPHA / (2 * len(paths))
    return (
        *(_reachable(path, reachable_samples, seed, share) for path in paths),
        *(_spacing(path, spacing_samples, seed, share) for path in paths),
    )


def attack_times(
    *,
    samples: int = TIMING_SAMPLES,
    seed: int = 1,
    subjects: tuple[TimedMechanism, ...] | None = None,
) -> tuple[TimingAttack, ...]:
    """Time the releases of every family, and repeat with a floor if times differ between places.

    Results depend on the machine and on its other work.

    Args:
        samples: releases timed at each place, in [20, 10⁶].
        seed: for the order of the releases.
        subjects: `timed_mechanisms` by default.
    """
    require_whole("samples", samples, 20, 1_000_000)
    require_whole("seed", seed, 0, 2**31)
    subjects = timed_mechanisms() if subjects is None else subjects
    rows = []
    for subject in subjects:
        bare = _timing(subject, samples, seed, len(subjects), None)
        rows.append(bare)
        if bare.succeeds:
            floor = _FLOOR * max(bare.medians.values())
            rows.append(_timing(subject, samples, seed, len(subjects), floor))
    return tuple(rows)


def _reachable(path: OutputPath, samples: int, seed: int, share: float) -> OutputAttack:
    x, other = _pair(_CLOSE)
    reachable = reachable_attack(
        path, x, other, samples=samples, seed=seed, failure_probability=share
    )
    return OutputAttack(
        "reachable outputs",
        type(path.mechanism).__name__,
        path.name,
        path.must_break,
        _CLOSE * RAMP.privacy.epsilon,
        reachable.guesses,
        reachable.unreachable,
        reachable.largest_loss,
    )


def _spacing(path: OutputPath, samples: int, seed: int, share: float) -> OutputAttack:
    x, other = _pair(_APART)
    guesses = spacing_attack(path, x, other, samples=samples, seed=seed, failure_probability=share)
    return OutputAttack(
        "precision",
        type(path.mechanism).__name__,
        path.name,
        path.must_break,
        _APART * RAMP.privacy.epsilon,
        guesses,
    )


def _pair(distance: float) -> tuple[float, float]:
    """Return two inputs at a distance in `per`."""
    x, other = RAMP.points([_EDGE, _EDGE + distance]).tolist()
    return x, other


def _timing(
    subject: TimedMechanism, samples: int, seed: int, number: int, floor: float | None
) -> TimingAttack:
    timed = time_releases(subject, samples, seed, floor=floor)
    return TimingAttack(
        subject.name,
        samples,
        floor,
        least_p_value(timed),
        ALPHA / (2 * number * timed.comparisons),  # bare and paced
        timed.medians,
    )
