"""The most significant variant of a transmission test."""

from dataclasses import dataclass

from numpy.typing import ArrayLike

from geoveil.gp.exact.bits import RandomSource
from geoveil.selection.base import Guarantee
from geoveil.selection.contrib.method import chosen
from geoveil.selection.contrib.transmission import checked_families
from geoveil.selection.contrib.transmission_known import Transmission
from geoveil.selection.contrib.transmission_methods import VARIANT_METHODS, StudySetting


@dataclass(frozen=True, slots=True)
class SignificantVariant:
    """A variant that was chosen in private.

    Attributes:
        index: of the variant.
        guarantee: for one family changed.
    """

    index: int
    guarantee: Guarantee


def most_significant(
    b: ArrayLike,
    c: ArrayLike,
    families: int,
    *,
    epsilon: float,
    mechanism: str = "permute-and-flip, nearness",
    source: RandomSource | None = None,
) -> SignificantVariant:
    """Return a variant that is likely to have the largest χ² of a transmission test.

    The curator, who runs this, sees the genotypes and is trusted with them; how many families and
    variants there are is public, and which variants they are.

    Args:
        b: transmissions of one allele by heterozygous parents, integers, shape (m,).
        c: of the other allele, shape (m,).
        families: N, 2 to 10,000, with two parents each: b + c ≤ 2N.
        epsilon: ε > 0, nats per family changed.
        mechanism: a name in `VARIANT_METHODS`.
        source: random bits; the operating system's by default.

    Raises:
        ParameterError: if a public argument is out of range.
        PrivateValueError: if b and c are no tables of N families.

    Example:
        >>> from geoveil.gp import SeededSource
        >>> most_significant([90, 75, 139], [85, 70, 57], 215, epsilon=3.0,
        ...                  source=SeededSource(1)).index
        2
    """
    method = chosen(VARIANT_METHODS, mechanism)
    checked_families(families)
    known = Transmission(b, c, families)
    selection = method.set_up(epsilon, StudySetting(known.outcomes, families))
    index = selection.select(method.tell(known, selection), source)
    return SignificantVariant(index, selection.guarantee)
