"""Declarations of mechanisms: what a campaign says, apart from its evaluation."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from geoveil.gp import (
    DebiasedLaplace,
    GeoPrivacy,
    LipschitzMechanism,
    Mechanism,
    Query,
    SmoothMechanism,
)
from geoveil.gp.validation import between


class MechanismSpec(ABC):
    """Names a mechanism and its public parameters."""

    @abstractmethod
    def build(self, query: Query, privacy: GeoPrivacy, step: float | None = None) -> Mechanism:
        """Return the mechanism for one query.

        Raises:
            UnsupportedError: if the query and the mechanism don't go together.
        """


@dataclass(frozen=True, slots=True)
class DebiasedLaplaceSpec(MechanismSpec):
    """See `geoveil.gp.DebiasedLaplace`."""

    def build(self, query: Query, privacy: GeoPrivacy, step: float | None = None) -> Mechanism:
        """See `MechanismSpec.build`."""
        return DebiasedLaplace(query, privacy, step=step)


@dataclass(frozen=True, slots=True)
class LipschitzLaplaceSpec(MechanismSpec):
    """See `geoveil.gp.LipschitzMechanism`."""

    def build(self, query: Query, privacy: GeoPrivacy, step: float | None = None) -> Mechanism:
        """See `MechanismSpec.build`."""
        return LipschitzMechanism(query, privacy, step=step)


@dataclass(frozen=True, slots=True)
class SmoothSpec(MechanismSpec):
    """See `geoveil.gp.SmoothMechanism`: the best noise for the query's frontier."""

    beta_fraction: float
    """β as a fraction of the privacy rate, in (0, 1)."""

    def __post_init__(self) -> None:
        between("beta_fraction", self.beta_fraction, 0, 1, low_open=True, high_open=True)

    def build(self, query: Query, privacy: GeoPrivacy, step: float | None = None) -> Mechanism:
        """See `MechanismSpec.build`."""
        return SmoothMechanism(query, privacy, beta=self.beta_fraction * privacy.rate, step=step)
