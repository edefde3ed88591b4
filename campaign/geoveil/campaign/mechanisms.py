"""The library's families of mechanisms, with their specs and wire forms."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from geoveil.campaign.families import (
    Example,
    MechanismFamily,
    MechanismSpec,
    Planned,
    Registry,
    Wire,
    Work,
)
from geoveil.campaign.smooth import SmoothSpec, dearer, decode_smooth, encode_smooth
from geoveil.gp import (
    DIMENSIONS,
    EXPONENTIAL,
    DebiasedLaplace,
    Frontier,
    GeoPrivacy,
    LipschitzMechanism,
    PlanarLaplace,
    Query,
    QueryMechanism,
    Threshold,
    validation,
)
from geoveil.proto.v1 import campaign_pb2 as pb


@dataclass(frozen=True, slots=True)
class DebiasedLaplaceSpec(MechanismSpec):
    """`geoveil.gp.DebiasedLaplace`: bounded and unbiased, for soft questions."""

    def build(self, query: Query, privacy: GeoPrivacy, step: float | None = None) -> QueryMechanism:
        return DebiasedLaplace(query, privacy, step=step)


@dataclass(frozen=True, slots=True)
class LipschitzLaplaceSpec(MechanismSpec):
    """`geoveil.gp.LipschitzMechanism`: Laplace noise for the query's steepest slope."""

    def build(self, query: Query, privacy: GeoPrivacy, step: float | None = None) -> QueryMechanism:
        return LipschitzMechanism(query, privacy, step=step)


@dataclass(frozen=True, slots=True)
class PlanarLaplaceSpec:
    """`geoveil.gp.PlanarLaplace`: perturbs the point itself, for later queries.

    Example:
        >>> PlanarLaplaceSpec(2).build(GeoPrivacy(1.0, per=500.0, unit="metre")).step
        0.000244140625
    """

    dimension: int
    """The number of a point's coordinates, 1 to 3."""

    def __post_init__(self) -> None:
        validation.require_count("dimension", self.dimension, DIMENSIONS[0], DIMENSIONS[-1])

    def build(self, privacy: GeoPrivacy, step: float | None = None) -> PlanarLaplace:
        """Return the mechanism."""
        return PlanarLaplace(privacy, self.dimension, step or 0.0)


def _examples() -> tuple[Example, ...]:
    privacy = GeoPrivacy(1.0, per=8000.0, unit="dollar")
    return (Example(Threshold(100_000.0, 24_000.0, "smoothstep"), privacy, (100_000.0,)),)


def _fractions(*values: float) -> tuple[Mapping[str, float], ...]:
    return tuple(MappingProxyType({"beta_fraction": value}) for value in values)


def _on(frontier: Frontier, query: Query) -> bool:
    return query.profile.frontier(EXPONENTIAL, 0.0) is frontier


MECHANISMS: Registry[MechanismFamily] = Registry(
    "geoveil.mechanisms",
    MechanismFamily,
    (
        MechanismFamily(
            name="debiased",
            made=DebiasedLaplaceSpec,
            summary="noise on the point, its bias undone: the least noise for smooth queries",
            wire=Wire(
                "debiased_laplace", lambda s: pb.DebiasedLaplace(), lambda m: DebiasedLaplaceSpec()
            ),
            work=Work(read=0, drawn=80),
            default=DebiasedLaplaceSpec(),
            planned=(Planned(name="DebiasedLaplace"),),
            examples=_examples,
        ),
        MechanismFamily(
            name="smooth",
            made=SmoothSpec,
            summary="noise scaled to how steep the query is near the participant's own point",
            wire=Wire("smooth", encode_smooth, decode_smooth),
            dearer=dearer,
            work=Work(read=0, drawn=80),
            default=SmoothSpec(),
            planned=(
                Planned(
                    name="LaplacePareto",
                    options=_fractions(0.1, 0.2, 0.3, 0.4),
                    serves=lambda query: _on(Frontier.CROSS, query),
                ),
                Planned(
                    name="PowerLaw",
                    options=_fractions(0.05, 0.1, 0.15, 0.2, 0.3),
                    serves=lambda query: _on(Frontier.RECTANGLE, query),
                ),
            ),
            examples=_examples,
        ),
        MechanismFamily(
            name="lipschitz",
            made=LipschitzLaplaceSpec,
            summary="Laplace noise scaled to the steepest slope: the same for everyone",
            wire=Wire(
                "lipschitz_laplace",
                lambda s: pb.LipschitzLaplace(),
                lambda m: LipschitzLaplaceSpec(),
            ),
            work=Work(read=0, drawn=80),
            default=LipschitzLaplaceSpec(),
            planned=(Planned(name="LipschitzMechanism"),),
            examples=_examples,
        ),
        MechanismFamily(
            name="points",
            made=PlanarLaplaceSpec,
            summary="noise on the point itself, which answers any query later",
            wire=Wire(
                "planar_laplace",
                lambda s: pb.PlanarLaplace(dimension=s.dimension),
                lambda m: PlanarLaplaceSpec(m.dimension),
            ),
            work=Work(read=0, drawn=80),
            planned=(Planned(name="PlanarLaplace", options=()),),
            examples=_examples,
        ),
    ),
)
"""All families of mechanisms that a campaign can declare."""
