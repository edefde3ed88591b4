"""Declarations of mechanisms: what a campaign says, apart from its evaluation."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from geoveil.gp import (
    DebiasedLaplace,
    GeoPrivacy,
    LipschitzMechanism,
    Mechanism,
    ParameterError,
    PlanarLaplace,
    Query,
    SmoothMechanism,
)
from geoveil.gp.exact.planar import DIMENSIONS
from geoveil.gp.validation import between


class MechanismSpec(ABC):
    """Names a mechanism that perturbs answers to queries, and its public parameters."""

    def each(self, queries: int) -> Sequence["MechanismSpec"]:
        """Return what perturbs the answers to each of a campaign's queries: this, as a rule.

        Raises:
            ParameterError: if it is made for another number of queries.
        """
        return (self,) * queries

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


@dataclass(frozen=True, slots=True)
class PlanarLaplaceSpec:
    """See `geoveil.gp.PlanarLaplace`: perturbs the point itself, for queries that come later.

    Example:
        >>> PlanarLaplaceSpec(2).build(GeoPrivacy(1.0, per=500.0, unit="metre")).step
        0.000244140625
    """

    dimension: int
    """Coordinates of a point, 1 to 3."""

    def __post_init__(self) -> None:
        if isinstance(self.dimension, bool) or self.dimension not in DIMENSIONS:
            raise ParameterError("dimension", self.dimension, f"one of {DIMENSIONS}")

    def build(self, privacy: GeoPrivacy, step: float | None = None) -> PlanarLaplace:
        """Return the mechanism."""
        return PlanarLaplace(privacy, self.dimension, step or 0.0)
