"""What other packages add, found by `importlib.metadata` and imported when it is asked for.

A group of entry points holds what stands for names of one kind: `geoveil.queries`,
`geoveil.mechanisms`, `geoveil.questions`, `geoveil.stores`, `geoveil.priors`, `geoveil.commands`.
"""

from collections.abc import Collection, Mapping
from functools import cache
from typing import TYPE_CHECKING

from geoveil.gp import GeoVeilError, UnsupportedError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


@cache
def added(group: str, taken: frozenset[str]) -> Mapping[str, "EntryPoint"]:
    """Return the entry points of a group by name, of everything installed; nothing is imported.

    Args:
        group: group of entry points, for example "geoveil.queries".
        taken: names of the library's own, which nothing else can have.

    Raises:
        UnsupportedError: if two packages want one name, or one of `taken`.
    """
    # Imported here: a device without foreign campaigns need not load it, nor the mail it builds on.
    from importlib.metadata import entry_points

    points: dict[str, EntryPoint] = {}
    for point in entry_points(group=group):
        before = points.get(point.name)
        if point.name in taken or (before is not None and before != point):
            owner = "geoveil itself" if before is None else before.value
            raise UnsupportedError(
                f"{point.value} can't be {point.name!r} in {group}: that name is taken by {owner};"
                " uninstall one"
            )
        points[point.name] = point
    return points


def load(group: str, name: str, taken: Collection[str]) -> object:
    """Return what another package gives a name in a group; it is imported if it was not yet.

    Args:
        group: group of entry points, for example "geoveil.queries".
        name: name of the entry point.
        taken: names of the library's own, which nothing else can have.

    Raises:
        NotInstalled: if no package gives it.
        UnsupportedError: if the package can't be imported.
    """
    points = added(group, frozenset(taken))
    if name not in points:
        raise NotInstalled(group, name, (*taken, *points))
    with foreign(name):
        return points[name].load()


class NotInstalled(UnsupportedError):  # noqa: N818 - it says what is the case
    """Something is named that nothing installed here provides.

    Attributes:
        group: group of the entry points that provide such things, for example "geoveil.queries".
        name: what was asked for.
    """

    def __init__(self, group: str, name: str, known: Collection[str]) -> None:
        super().__init__(group, name, known)
        self.group = group
        self.name = name
        self.known = tuple(known)

    def __str__(self) -> str:
        return (
            f"{self.name!r} is none of the {self.group.removeprefix('geoveil.')} that are installed"
            f" here: install the package that declares {self.name!r} among its entry points"
            f" {self.group!r}; known are {', '.join(self.known) or 'none'}"
        )


class foreign:  # noqa: N801 - reads as a statement
    """Turns what another package's code raises into an error of geoveil's.

    Arithmetic errors remain: numbers so extreme that a formula gives up.

    Args:
        name: what failed, as it is called here.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, (GeoVeilError, ArithmeticError)):
            raise UnsupportedError(
                f"{self._name!r} failed: {type(error).__name__}: {error}"
            ) from error
