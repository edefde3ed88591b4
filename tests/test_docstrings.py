"""Test that every public function, class and method has a docstring or overrides one with it.

And that no other string is a statement: such a string is the end of a sentence that nobody reads.
"""

import ast
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

PARTS = ("gp", "selection", "audit", "campaign", "client", "aggregator", "analyst", "simulation")


def modules() -> Iterator[ModuleType]:
    for part in PARTS:
        root = importlib.import_module(f"geoveil.{part}")
        yield root
        for found in pkgutil.walk_packages(root.__path__, f"{root.__name__}."):
            yield importlib.import_module(found.name)


def documentation(owner: type, name: str) -> str | None:
    """Return the docstring of a member, its own or that of the nearest class it overrides."""
    for base in owner.__mro__:
        doc = getattr(base.__dict__.get(name), "__doc__", None)
        if doc:
            return str(doc)
    return None


def undocumented(owner: type) -> list[str]:
    """Return the public members of a class that nobody documents."""
    return [
        f"{owner.__module__}.{owner.__qualname__}.{name}"
        for name, member in vars(owner).items()
        if not name.startswith("_")
        and (inspect.isroutine(member) or isinstance(member, property) or hasattr(member, "func"))
        and not documentation(owner, name)
    ]


def classes(module: ModuleType) -> list[type]:
    return [
        member
        for name, member in vars(module).items()
        if isinstance(member, type)
        and member.__module__ == module.__name__
        and not name.startswith("_")
    ]


def test_every_public_member_is_documented() -> None:
    owners = [owner for module in modules() for owner in classes(module)]
    assert [(owner, name) for owner in owners for name in undocumented(owner)] == []
    assert len(owners) > 300  # a walk that finds nothing proves nothing


def test_a_member_that_nobody_documents_is_found() -> None:
    class Base:
        def documented(self) -> int:
            """Return a number."""
            return 1

    class Derived(Base):
        def documented(self) -> int:
            return 2

        def alone(self) -> Any:
            return None

    assert [name.rsplit(".", 1)[1] for name in undocumented(Derived)] == ["alone"]


def lost_strings(source: str) -> list[int]:
    """Return the lines of strings that are statements without being docstrings."""
    lines = source.splitlines()
    strings = [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr)
        and (isinstance(node.value, ast.JoinedStr) or is_string(node.value))
    ]
    return [at for at in strings if not lines[at - 1].lstrip().startswith(('"""', 'r"""'))]


def is_string(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def test_no_end_of_a_sentence_is_lost() -> None:
    files = {str(module.__file__) for module in modules()}
    files |= {str(file) for file in (Path(__file__).parents[1] / "apps").rglob("*.py")}
    lost = {file: lines for file in files if (lines := lost_strings(Path(file).read_text()))}
    assert lost == {}
    assert len(files) > 400  # a walk that finds nothing proves nothing


def test_a_lost_end_is_seen() -> None:
    assert lost_strings('said = "it ends "\n"here"\n') == [2]
    assert lost_strings('said = "it ends here"\n"""What is said."""\n') == []
