"""Settings from a TOML file, the environment and flags; later ones win.

A setting has the same name everywhere: `grace_s` in the file, `GEOVEIL_GRACE_S` in the environment,
`--grace-s` as a flag. Unknown names are refused, since a misspelt limit would be no limit.
"""

import json
import tomllib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from pathlib import Path
from re import search
from types import MappingProxyType, NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from geoveil.aggregator.ops.settings import Settings
from geoveil.aggregator.store.database_url import DatabaseURL
from geoveil.campaign import PublicKey
from geoveil.gp import ParameterError

PREFIX = "GEOVEIL_"
URL_FILE = "database_url_file"
"""The setting for a separate file that holds the database's URL with its password."""
_LONGEST_URL = 4096


def _boolean(text: str) -> bool:
    return {"true": True, "false": False}[text.lower()]


def database_of(text: str) -> Path | DatabaseURL:
    """Return a path, or a URL if the text has "://"; ValueError if it is empty."""
    return DatabaseURL(text) if "://" in text else _path(text)


def _path(text: str) -> Path:
    if not text:
        raise ValueError("an empty path, which would mean the working directory")
    return Path(text)


_READ: Mapping[Any, tuple[Callable[[str], object], str]] = MappingProxyType(
    {
        bool: (_boolean, "true or false"),
        int: (int, "an integer"),
        float: (float, "a number"),
        str: (str, "text"),
        Path: (_path, "a file"),
        PublicKey: (PublicKey.parse, "a key ed25519:..."),
        Path | DatabaseURL: (database_of, "a file or a postgresql:// URL"),
    }
)
"""Type → its parser, and a text on what it accepts."""


def _types() -> dict[str, tuple[Any, bool]]:
    """Return each setting's type, and whether the setting is a list of this type."""
    types = {}
    for name, hint in get_type_hints(Settings).items():
        parts = [part for part in get_args(hint) if part is not NoneType]
        if get_origin(hint) in (Union, UnionType):
            hint = parts[0] if len(parts) == 1 else Union[tuple(parts)]  # noqa: UP007 - of a list
        several = get_origin(hint) is tuple
        types[name] = (parts[0] if several else hint, several)
    return types


TYPES = MappingProxyType(_types())
KNOWN = (*TYPES, URL_FILE)


@dataclass(frozen=True, slots=True)
class Effective:
    """Settings and the origin of each: "default", the file, the variable or the flag."""

    settings: Settings
    origins: Mapping[str, str]
    url_file: Path | None = None
    """The file with the database's URL, if one is named."""

    def to_toml(self) -> str:
        """Return every setting with its origin as TOML, without passwords."""
        lines = []
        for field in fields(self.settings):
            value, origin = getattr(self.settings, field.name), self.origins[field.name]
            shown = f"{field.name} = {_toml(value)}"
            if value is None:
                shown = f"# {field.name} is not set"
            lines.append(shown if origin == "default" else f"{shown}  # from {origin}")
        return "\n".join(lines) + "\n"


def load(
    file: Path | None = None,
    environment: Mapping[str, str] = MappingProxyType({}),
    flags: Mapping[str, object] = MappingProxyType({}),
    *,
    others: Collection[str] = (),
) -> Effective:
    """Return the effective settings.

    Args:
        file: TOML; its paths are relative to its folder.
        environment: variables named GEOVEIL_… are read; empty ones are ignored.
        flags: setting → value or text; None and empty values are ignored.
        others: GEOVEIL_… variables of other commands, which are ignored unless they are settings
            too.

    Raises:
        ParameterError: for an unknown name, with the nearest known one; for an unreadable file;
            and as in `Settings`, under the name of the variable or flag.

    Example:
        >>> load(None, {"GEOVEIL_PORT": "7000"}, {"port": 8000}).settings.port
        8000
        >>> load(None, {"GEOVEIL_PROT": "7000"})
        Traceback (most recent call last):
        geoveil.gp.errors.ParameterError: setting must be a known name, perhaps GEOVEIL_PORT, \
got setting='GEOVEIL_PROT'
    """
    values: dict[str, object] = {}
    origins = dict.fromkeys(TYPES, "default")
    url_file: Any = None
    layers = (_from_file(file), _from_environment(environment, others), _from_flags(flags))
    for layer in layers:
        if URL_FILE in layer and "database" in layer:
            raise ParameterError(URL_FILE, layer[URL_FILE][1], "absent, as database is given")
        for name, (value, origin) in layer.items():
            target = name
            if name == URL_FILE:
                url_file = value
                target, value = "database", _read_url(value)
            values[target], origins[target] = value, origin
    if isinstance(url := values.get("database"), DatabaseURL):
        _refuse_shown_password(url, origins["database"])
    try:
        settings = Settings(**values)  # type: ignore[arg-type]  # checked there
    except ParameterError as error:
        origin = origins.get(error.name, "")
        if not origin.startswith((PREFIX, "--")):
            raise
        raise ParameterError(origin, error.value, error.expected) from error
    return Effective(settings, MappingProxyType(origins), url_file)


_Layer = dict[str, tuple[object, str]]
"""Setting → its value and origin."""


def _from_file(file: Path | None) -> _Layer:
    if file is None:
        return {}
    try:
        table = tomllib.loads(file.read_text("utf-8"))
    except OSError as error:
        raise ParameterError("config", str(file), f"a file to read ({error.strerror})") from error
    except ValueError as error:  # includes integers of thousands of digits
        # Without the content, which may be a password.
        where = search(r"\(at (line \d+)", str(error))
        wrong = f"TOML ({where[1]} is not)" if where else "TOML"
        raise ParameterError("config", str(file), wrong) from None
    for name in table:
        _known(name, KNOWN, f" in {str(file)!r}")
    return {
        name: (_value_of(name, value, name, file.parent), str(file))
        for name, value in table.items()
    }


def _from_environment(environment: Mapping[str, str], others: Collection[str]) -> _Layer:
    of_variable = {PREFIX + name.upper(): name for name in KNOWN}
    layer: _Layer = {}
    for variable, text in environment.items():
        of_others = variable in others and variable not in of_variable
        if not variable.startswith(PREFIX) or of_others or not text:
            continue
        _known(variable, of_variable)
        name = of_variable[variable]
        _, several = TYPES.get(name, (Path, False))
        parts = [part.strip() for part in text.split(",")] if several else text
        layer[name] = (_value_of(name, parts, variable), variable)
    return layer


def _from_flags(flags: Mapping[str, object]) -> _Layer:
    for name in flags:
        _known(name, KNOWN)
    return {
        name: (_value_of(name, value, _flag(name)), _flag(name))
        for name, value in flags.items()
        if value is not None and value not in ([], ())  # Click passes one or the other
    }


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _value_of(name: str, value: object, origin: str, folder: Path | None = None) -> object:
    """Return a setting's value; a file's paths are relative to its folder."""
    kind, several = TYPES.get(name, (Path, False))

    def read(part: object) -> object:
        if not isinstance(part, str) or (folder is not None and kind in (bool, int, float, str)):
            return part
        made = _of_text(name, kind, part, origin)
        return folder / made if folder is not None and isinstance(made, Path) else made

    return tuple(map(read, value)) if several and isinstance(value, (list, tuple)) else read(value)


def _of_text(name: str, kind: Any, text: str, origin: str) -> object:
    """Return a text's value; ParameterError states the setting's range, if it has one."""
    read, expected = _READ[kind]
    try:
        return read(text)
    except ParameterError as error:
        # A database's error names itself, and hides the URL.
        if kind is not PublicKey:
            raise
        expected = error.expected
    except (ValueError, KeyError):
        try:
            if name in TYPES:
                Settings(**{name: text})  # type: ignore[arg-type]  # to be refused
        except ParameterError as error:
            expected = error.expected if error.name == name else expected
    raise ParameterError(origin, text, expected)


def _known(name: str, known: Collection[str], where: str = "") -> None:
    if name not in known:
        near = get_close_matches(name, known, n=1, cutoff=0.5)
        hint = f"a known name, perhaps {near[0]}" if near else f"one of {', '.join(known)}"
        raise ParameterError("setting", name, hint + where)


def _read_url(path: object) -> DatabaseURL:
    if not isinstance(path, Path):
        raise ParameterError(URL_FILE, path, "a Path to a file")
    try:
        text = path.read_text("utf-8")[:_LONGEST_URL].strip()
    except OSError as error:
        raise ParameterError(URL_FILE, str(path), f"a file to read ({error.strerror})") from error
    except ValueError:  # includes impossible file names
        raise ParameterError(URL_FILE, str(path), "a file of text") from None
    return DatabaseURL(text)


def _refuse_shown_password(url: DatabaseURL, origin: str) -> None:
    """Refuse a password in the command's arguments, which every user of the machine can read."""
    if origin == "--database" and url.has_password:
        raise ParameterError(
            "--database",
            str(url),
            "without a password: use --database-url-file or GEOVEIL_DATABASE",
        )


def _toml(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, (bool, int, float)):
        return json.dumps(value)
    return json.dumps(str(value), ensure_ascii=False)
