"""What one attack on one path found, and whether it ended as it must."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from geoveil.audit.attacks.guesses import Guesses, permitted_right


@dataclass(frozen=True, slots=True)
class OutputAttack:
    """Two inputs, told apart by single outputs."""

    attack: str
    mechanism: str
    path: str
    """simulate or release."""
    must_succeed: bool
    """True for simulate, whose failure would be one of the attack; False for release."""
    promised: float
    """ε·d of the two inputs, in nats."""
    guesses: Guesses
    unreachable: float | None = None
    """Share of outputs that the other input can't have led to, where it was counted."""
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
        """Whether the guesses prove more than is promised."""
        return self.guesses.epsilon > self.promised

    @property
    def as_it_must(self) -> bool:
        """Whether it ended as it must; what one output proves counts as well as a confidence."""
        if self.must_succeed:
            return self.succeeds
        beyond = self.largest_loss is not None and self.largest_loss > self.promised
        return not (self.succeeds or beyond)

    def to_json(self) -> dict[str, object]:
        """Return the fields and what they prove; None stands for an infinite loss."""
        found: dict[str, object] = asdict(self)
        if self.largest_loss == math.inf:
            found["largest_loss"] = None
        return found | {
            "right": self.guesses.right,
            "permitted_right": self.permitted_right,
            "epsilon": self.guesses.epsilon,
            "delta": self.guesses.delta(self.promised),
            "succeeds": self.succeeds,
            "as_it_must": self.as_it_must,
        }


@dataclass(frozen=True, slots=True)
class TimingAttack:
    """Places, told apart by the time that a release takes."""

    mechanism: str
    samples: int
    """Releases timed at each place."""
    floor: float | None
    """The constant-time floor, in seconds; None for a bare release."""
    p_value: float
    """The least of all places and tests."""
    threshold: float
    """Below it a p-value is a difference; it counts all tests of the table."""
    medians: Mapping[str, float]
    """Of the time, in seconds, by place."""

    attack = "timing"

    @property
    def path(self) -> str:
        """What is timed: release, or release with a floor."""
        return "release" if self.floor is None else "release, paced"

    @property
    def succeeds(self) -> bool:
        """Whether a difference was found."""
        return self.p_value < self.threshold

    @property
    def as_it_must(self) -> bool:
        """Whether it ended as it must: a floor hides all; without one it is only measured."""
        return self.floor is None or not self.succeeds

    @property
    def spread(self) -> float:
        """The largest difference of medians, in seconds."""
        return max(self.medians.values()) - min(self.medians.values())

    def to_json(self) -> dict[str, object]:
        """Return the fields and what they prove; times in seconds."""
        return asdict(self) | {
            "attack": self.attack,
            "path": self.path,
            "succeeds": self.succeeds,
            "as_it_must": self.as_it_must,
        }


Attack = OutputAttack | TimingAttack
