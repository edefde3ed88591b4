"""The three attacks on every path."""

from geoveil.audit.attacks.preimages import FloatPath, GridPath, Path
from geoveil.audit.attacks.reachable import reachable_attack
from geoveil.audit.attacks.rows import OutputAttack, TimingAttack
from geoveil.audit.attacks.spacing import spacing_attack
from geoveil.audit.attacks.timing import (
    Subject,
    least_p_value,
    time_releases,
    timing_subjects,
)
from geoveil.audit.catalogue import RAMP
from geoveil.gp.errors import ParameterError
from geoveil.gp.mechanisms.additive import LipschitzMechanism
from geoveil.gp.mechanisms.smooth import SmoothMechanism

ALPHA = 1e-6
"""Probability that any attack on outputs, and again any on times, succeeds by chance."""
TIMING_SAMPLES = 400

_EDGE = -1.0
"""Where the band of `RAMP` begins and f is 0, in `per` from its middle."""
_CLOSE, _APART = 0.01, 0.1
"""How far the other input is inside, in `per`, for the two attacks: ε·d is as much."""
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

    Raises:
        ParameterError: if a number is out of range.
    """
    _whole("reachable_samples", reachable_samples, 20, 1_000_000)
    _whole("spacing_samples", spacing_samples, 20, 1_000_000)
    _whole("seed", seed, 0, 2**31)
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
    subjects: tuple[Subject, ...] | None = None,
) -> tuple[TimingAttack, ...]:
    """Time the releases of every family, and again with a floor where time tells the places apart.

    What is found depends on the machine, and on what else it does.

    Args:
        samples: releases timed at each place, in [20, 10⁶].
        seed: for the order of the releases.
        subjects: what is timed; `timing_subjects` by default.

    Raises:
        ParameterError: if a number is out of range.
    """
    _whole("samples", samples, 20, 1_000_000)
    _whole("seed", seed, 0, 2**31)
    subjects = timing_subjects() if subjects is None else subjects
    rows = []
    for subject in subjects:
        bare = _timing(subject, samples, seed, len(subjects), None)
        rows.append(bare)
        if bare.succeeds:
            floor = _FLOOR * max(bare.medians.values())
            rows.append(_timing(subject, samples, seed, len(subjects), floor))
    return tuple(rows)


def _reachable(path: Path, samples: int, seed: int, share: float) -> OutputAttack:
    x, other = _pair(_CLOSE)
    found = reachable_attack(path, x, other, samples=samples, seed=seed, failure_probability=share)
    return OutputAttack(
        "reachable outputs",
        type(path.mechanism).__name__,
        path.name,
        path.must_break,
        _CLOSE * RAMP.privacy.epsilon,
        found.guesses,
        found.unreachable,
        found.largest_loss,
    )


def _spacing(path: Path, samples: int, seed: int, share: float) -> OutputAttack:
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
    """Return the two inputs, so many `per` apart."""
    x, other = RAMP.points([_EDGE, _EDGE + distance]).tolist()
    return x, other


def _timing(
    subject: Subject, samples: int, seed: int, number: int, floor: float | None
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


def _whole(name: str, value: object, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ParameterError(name, value, f"an integer in [{low}, {high}]")
