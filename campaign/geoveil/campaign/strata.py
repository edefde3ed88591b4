"""Strata: the groups that participants tell which of them they are in [MATH §6]."""

from collections.abc import Sequence
from dataclasses import dataclass

from geoveil.campaign.saying import percent, times
from geoveil.campaign.text import require_printable
from geoveil.gp import (
    MOST_EPSILON,
    GeoPrivacy,
    ParameterError,
    PrivateValueError,
    RandomizedLabels,
    RandomSource,
    lazy,
    validation,
)

MOST_LABELS = 64
LABEL_UNIT = "label"
"""The unit of what labels cost: any two are 1 apart."""


@dataclass(frozen=True, kw_only=True)
class Strata:
    """Groups of which each participant is in one, and how a device tells which.

    A label is not part of the value, and must not be computed from it: what it tells is not covered
    by the guarantee of the value.

    Raises:
        ParameterError: if a field is out of range.

    Example:
        >>> print(Strata(name="region", labels=("north", "south")))
        Your region, one of north, south, is sent as it is.
        >>> print(Strata(name="region", labels=("north", "south"), epsilon=1))
        Your region, one of north, south, is sent with a lie at times: the true one 73.2 % of the\
 time. Whatever is sent is at most 2.72 times as likely for one region as for another.
    """

    name: str
    """What the labels are of, for example "region"; 1 to 64 visible characters."""
    labels: tuple[str, ...]
    """2 to 64, distinct, of 1 to 64 visible characters."""
    epsilon: float | None = None
    """None: labels are sent as they are. Else through randomised response, with this ε, from 1e-50
    to 16, between any two labels, which a device is charged beside that of its value."""

    def __post_init__(self) -> None:
        require_printable("strata.name", self.name, 64)
        labels = self.labels
        listed = isinstance(labels, Sequence) and not isinstance(labels, str)
        if not listed or not 2 <= len(labels) <= MOST_LABELS:
            raise ParameterError("strata.labels", labels, f"2 to {MOST_LABELS} names")
        names = (require_printable(f"strata.labels[{i}]", o, 64) for i, o in enumerate(labels))
        object.__setattr__(self, "labels", tuple(names))
        if len(set(self.labels)) != len(self.labels):
            raise ParameterError("strata.labels", self.labels, "distinct")
        if self.epsilon is not None:
            epsilon = validation.between(
                "strata.epsilon", self.epsilon, validation.LEAST, MOST_EPSILON
            )
            object.__setattr__(self, "epsilon", epsilon)

    @lazy
    def randomized(self) -> RandomizedLabels | None:
        """What perturbs a label; None: nothing."""
        return None if self.epsilon is None else RandomizedLabels(len(self.labels), self.epsilon)

    @lazy
    def privacy(self) -> GeoPrivacy | None:
        """What a label spends, of its own and per report; None: it is not protected."""
        return None if self.epsilon is None else GeoPrivacy(self.epsilon, 1.0, LABEL_UNIT)

    def index(self, label: object) -> int:
        """Return which label somebody has.

        Raises:
            PrivateValueError: if it is none of them; the message says which there are, not what was
                given.
        """
        if isinstance(label, str) and label in self.labels:
            return self.labels.index(label)
        raise PrivateValueError(f"a {self.name}, which is one of {', '.join(self.labels)}")

    def draw(self, index: int, source: RandomSource) -> int:
        """Return the label that is sent for a true one, both from 0."""
        return index if self.randomized is None else self.randomized.release(index, source)[0]

    def __str__(self) -> str:
        yours = f"Your {self.name}, one of {', '.join(self.labels)},"
        lies = self.randomized
        if lies is None:
            return f"{yours} is sent as it is."
        factor = times(lies.epsilon)
        bound = (
            f"does not hide the difference between one {self.name} and another"
            if factor is None
            else f"is at most {factor} times as likely for one {self.name} as for another"
        )
        return (
            f"{yours} is sent with a lie at times: the true one {percent(float(lies.truth))} of the"
            f" time. Whatever is sent {bound}."
        )
