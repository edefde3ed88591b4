"""What an audit concludes, as fractions of what is promised."""

import math
from dataclasses import asdict, dataclass

Point = tuple[float, ...]

_ROUNDING = 1e-6
"""A fraction above 1 by less is the rounding of a quotient, or of a sum over outputs."""


@dataclass(frozen=True, slots=True)
class Exact:
    """The largest fraction of the promised ε that densities show, and where."""

    fraction: float
    """Log-ratio of densities over what is promised at that distance; infinite where one is 0."""
    x: Point
    """One point."""
    other: Point
    """The other."""
    y: Point
    """The output at which the two differ most."""


@dataclass(frozen=True, slots=True)
class BlackBox:
    """The largest fraction of the promised ε that samples prove, and where."""

    fraction: float
    """Lower confidence bound over what is promised at that distance; 0 if nothing is proven."""
    x: Point
    """One point."""
    other: Point
    """The other."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the audit of one row found."""

    mechanism: str
    variant: str
    query: str
    privacy: str
    """The promise: ε with its unit."""
    exact: Exact
    black_box: BlackBox

    @property
    def keeps(self) -> bool:
        """Whether neither auditor found more than is promised."""
        return self.exact.fraction <= 1 + _ROUNDING and not self.caught

    @property
    def caught(self) -> bool:
        """Whether the samples alone prove that more is lost than is promised."""
        return self.black_box.fraction > 1

    def to_json(self) -> dict[str, object]:
        """Return the fields by name, and both conclusions; None stands for an infinite fraction."""
        found: dict[str, object] = {**asdict(self), "keeps": self.keeps, "caught": self.caught}
        if self.exact.fraction == math.inf:
            found["exact"] = {**asdict(self.exact), "fraction": None}
        return found
