"""Extensions by other packages through entry points, imported on demand.

The groups are `geoveil.queries`, `geoveil.mechanisms`, `geoveil.statistics`, `geoveil.stores`,
`geoveil.priors` and `geoveil.commands`.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

from geoveil.gp import GeoVeilError, UnsupportedError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


def installed(group: str) -> Iterable["EntryPoint"]:
    """Return the installed entry points of a group, unchecked; nothing is imported."""
    # Imported here, since a device without foreign campaigns needs neither it nor its imports.
    from importlib.metadata import entry_points

    return entry_points(group=group)


@cache
def added(group: str, taken: frozenset[str]) -> Mapping[str, "EntryPoint"]:
    """Return the installed entry points of a group by name; nothing is imported.

    Raises:
        UnsupportedError: if two packages claim the same name, or one claims a name in `taken`, the
            library's own names.
    """
    points: dict[str, EntryPoint] = {}
    for point in installed(group):
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
    """Import and return a group's entry point by name; `taken` has the library's own names.

    Raises:
        NotInstalled: if no package has it.
        UnsupportedError: if the package can't be imported.
    """
    points = added(group, frozenset(taken))
    if name not in points:
        raise NotInstalled(group, name, (*taken, *points))
    point = points[name]
    try:
        return point.load()
    except Exception as error:
        raise UnsupportedError(
            f"{point.value}, which is {name!r} in {group}, failed: {type(error).__name__}: {error}"
        ) from error


class NotInstalled(UnsupportedError):  # noqa: N818 - it says what is the case
    """No installed package has a given name in an entry point group such as "geoveil.queries"."""

    def __init__(self, group: str, name: str, known: Collection[str]) -> None:
        super().__init__(group, name, known)
        self.group = group
        self.name = name
        self.known = tuple(known)

    def __str__(self) -> str:
        return (
            f"{self.name!r} is not among the {self.group.removeprefix('geoveil.')} installed "
            f"here: install the package that declares {self.name!r} among its entry points"
            f" {self.group!r}; known: {', '.join(self.known) or 'none'}"
        )


@contextmanager
def foreign(name: str) -> Iterator[None]:
    """Turn errors in the code of another package, called `name`, into a geoveil error.

    Arithmetic errors from extreme numbers pass through.
    """
    try:
        yield
    except (GeoVeilError, ArithmeticError):
        raise
    except Exception as error:
        raise UnsupportedError(f"{name!r} failed: {type(error).__name__}: {error}") from error
