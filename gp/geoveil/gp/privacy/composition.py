"""Several releases about one person: what they promise together."""

from typing import overload

from geoveil.gp.errors import ParameterError, UnsupportedError
from geoveil.gp.privacy.geo import GeoPrivacy
from geoveil.gp.privacy.local import LocalPrivacy


@overload
def compose(*guarantees: GeoPrivacy) -> GeoPrivacy: ...
@overload
def compose(*guarantees: LocalPrivacy) -> LocalPrivacy: ...
def compose(*guarantees: GeoPrivacy | LocalPrivacy) -> GeoPrivacy | LocalPrivacy:
    """Return what several releases of one private value promise together: sequential composition.

    Rates add, slacks add, and the reach is the smallest among the guarantees that have a slack.
    The releases draw their noise independently. A later one may be chosen in the light of earlier
    reports, as long as the guarantees themselves were fixed before.

    Proof. Fix x and x', at most that reach apart. A guarantee with δ = 0 holds at every distance
    [MATH §1], so its reach does not matter, and all guarantees hold at this pair. There they are
    ordinary (ε|x−x'|, δ)-indistinguishability, for which basic composition holds [DR14
    Thm 3.16]. For two releases, of ε₁, δ₁ and ε₂, δ₂ at this pair: let P and Q be the laws of
    the first report under x and x', P_y and Q_y those of the second given the first, and r the
    positive part of P − e^{ε₁}Q, of total mass at most δ₁. Then 0 ≤ P − r ≤ e^{ε₁}Q, and

        P[(y,z)∈S] = ∫ P_y(S_y) d(P−r) + ∫ P_y(S_y) dr
                   ≤ ∫ (e^{ε₂} Q_y(S_y) + δ₂) d(P−r) + δ₁ ≤ e^{ε₁+ε₂} Q[(y,z)∈S] + δ₂ + δ₁.

    Args:
        guarantees: all `GeoPrivacy` in one unit (see `GeoPrivacy.in_unit`), or all `LocalPrivacy`.

    Returns:
        Their sum, stated per the distance of the first. Sums are exact, and rounded up at the end.

    Raises:
        ParameterError: if there is no guarantee, or units differ.
        UnsupportedError: if the kinds are mixed, or the slacks add up to 1 or more.

    Example:
        >>> commute = GeoPrivacy(epsilon=1.0, per=2, unit="kilometre")
        >>> home = GeoPrivacy(epsilon=0.5, per=4, unit="kilometre")
        >>> print(compose(commute, home))
        ε = 1.25 per 2 kilometre
        >>> print(compose(commute, GeoPrivacy(0.5, per=2, unit="kilometre", delta=1e-6, reach=50)))
        ε = 1.5 per 2 kilometre, δ = 1e-06, up to 50 kilometre
        >>> compose(commute, LocalPrivacy(1.0))
        Traceback (most recent call last):
        ...
        geoveil.gp.errors.UnsupportedError: the sum of a rate and a bound between any two values is\
 neither; first state the GeoPrivacy as local, over the diameter of the values: compose(geo.local(\
diameter), local)
    """
    if not guarantees:
        raise ParameterError("guarantees", guarantees, "at least one guarantee")
    for index, guarantee in enumerate(guarantees):
        if not isinstance(guarantee, (GeoPrivacy, LocalPrivacy)):
            raise ParameterError(
                f"guarantees[{index}]", guarantee, "a GeoPrivacy or a LocalPrivacy"
            )
    geo = [guarantee for guarantee in guarantees if isinstance(guarantee, GeoPrivacy)]
    local = [guarantee for guarantee in guarantees if isinstance(guarantee, LocalPrivacy)]
    if geo and local:
        raise UnsupportedError(
            "the sum of a rate and a bound between any two values is neither; first state the"
            " GeoPrivacy as local, over the diameter of the values:"
            " compose(geo.local(diameter), local)"
        )
    return GeoPrivacy._together(geo) if geo else LocalPrivacy._together(local)
