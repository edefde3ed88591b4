"""Public knowledge about people before they answer, and its source."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from geoveil.analyst.hard_question import Heap
from geoveil.analyst.planner import DoubtedPrior, HeapedPrior, LogPrior, Prior
from geoveil.gp import AzimuthalEquidistant, LogScale, ParameterError, validation


@dataclass(frozen=True)
class PublicPrior:
    """Public knowledge about people, before a plane for places is chosen."""

    name: str
    """Its source, for people to read."""
    attribute: str
    """The quantity that the people hold."""
    unit: str | None
    """The unit of its distances; None if the user must state it."""
    dimension: int
    """2 for places, as (longitude, latitude) in degrees."""
    make: Callable[[AzimuthalEquidistant | None], Prior]
    """The prior in the coordinates of a plane, or as it is."""
    caution: str = ""
    """Its limits, in a sentence."""

    @classmethod
    def of_numbers(
        cls,
        prior: Prior,
        unit: str,
        attribute: str = "value",
        name: str = "a prior",
        caution: str = "",
    ) -> "PublicPrior":
        """Return public knowledge about people who hold numbers.

        Args:
            prior: in one dimension.
            attribute: the quantity that such people hold.
            name: where the prior comes from, for people to read.
            caution: its limits, in a sentence.

        Example:
            >>> from geoveil.analyst import LogNormalPrior
            >>> PublicPrior.of_numbers(LogNormalPrior(11.5, 0.8), "dollar").dimension
            1
        """
        if not isinstance(unit, str):
            raise ParameterError("unit", unit, "a string")
        return cls(name, attribute, unit, prior.dimension, lambda plane: prior, caution)

    def with_heaps(self, heaps: Sequence[Heap]) -> "PublicPrior":
        """Return it plus people who hold exactly one value: see `HeapedPrior`.

        Args:
            heaps: point masses, in the unit of the numbers.
        """
        if not heaps:
            return self
        heaps_in_words = ", ".join(f"{heap.share:.4g} at {heap.at:,.15g}" for heap in heaps)
        return replace(
            self,
            name=f"{self.name}, with {heaps_in_words}",
            make=lambda plane: HeapedPrior(self.make(plane), tuple(heaps)),
        )

    def doubted(
        self, others: Mapping[str, "PublicPrior"] | None = None, scale: float = 0.0
    ) -> "PublicPrior":
        """Return it with alternative laws of people: see `DoubtedPrior`.

        Args:
            others: name → another region, an older year: of the same values, in the same unit.
            scale: the fraction by which numbers may be lower or higher than in this prior, in
                [0, 1); 0 for no such scenario.

        Raises:
            ParameterError: if the others are about another quantity, or places would be scaled.

        Example:
            >>> from geoveil.analyst import LogNormalPrior
            >>> incomes = PublicPrior.of_numbers(LogNormalPrior(11.5, 0.8), "dollar")
            >>> list(incomes.doubted(scale=0.1).make(None).scenarios)
            ['values 10 % lower', 'values 10 % higher']
        """
        scale = validation.between("scenario_scale", scale, 0, 1, high_open=True)
        if scale > 0 and self.dimension != 1:
            raise ParameterError("scenario_scale", scale, "left out: places have no scale")
        others = {} if others is None else others
        for name, other in others.items():
            if (other.dimension, other.unit or self.unit) != (
                self.dimension,
                self.unit or other.unit,
            ):
                raise ParameterError(
                    f"scenarios[{name!r}]",
                    other.name,
                    f"a prior of the same quantity as {self.name}",
                )
        if not others and scale == 0:
            return self

        def make(plane: AzimuthalEquidistant | None) -> Prior:
            prior = self.make(plane)
            named = {name: other.make(plane) for name, other in others.items()}
            return DoubtedPrior(prior, {**scaled(prior, scale), **named})

        return replace(self, make=make)

    def on_scale(self, scale: LogScale) -> "PublicPrior":
        """Return the law of the logarithms of people's numbers.

        Raises:
            ParameterError: if it is of places.
        """
        return replace(self, make=lambda plane: LogPrior(self.make(plane), scale))


def scaled(prior: Prior, scale: float) -> dict[str, Prior]:
    """Return the laws of numbers lower, and higher, by a fraction in [0, 1); none for 0."""
    if scale == 0:
        return {}
    return {
        f"values {100 * scale:g} % lower": prior.scaled(1 - scale),
        f"values {100 * scale:g} % higher": prior.scaled(1 + scale),
    }
