"""Options shared by several commands."""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from datetime import timedelta
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer

from geoveil.campaign import parse_period

(
    SERVER,
    TLS,
    TLS_ROOTS,
    TLS_CLIENT_CERTIFICATE,
    TLS_CLIENT_KEY,
    TOKEN,
    TOKEN_FILE,
    TOKENS_FILE,
    SIGN_KEY,
    CONFIG,
    LANGUAGE,
) = VARIABLES = tuple(
    f"GEOVEIL_{name}"
    for name in (
        *("SERVER", "TLS", "TLS_ROOTS", "TLS_CLIENT_CERTIFICATE", "TLS_CLIENT_KEY"),
        *("TOKEN", "TOKEN_FILE", "TOKENS_FILE", "SIGN_KEY", "CONFIG", "LANG"),
    )
)
"""The environment variables of commands; `serve` refuses others, which are misspelt.

`TOKEN` holds the token that a server asks analysts for, `TOKEN_FILE` the name of a file with it.
"""

Config = Annotated[
    Path | None,
    typer.Option("--config", "-c", envvar=CONFIG, help="TOML file of settings, as for serve."),
]
Heaps = Annotated[
    list[str] | None,
    typer.Option(
        "--heap",
        help="VALUE=SHARE: the share of people who hold exactly this value, for example"
        " 100000=0.0105. May be repeated.",
    ),
]
Center = Annotated[
    str | None,
    typer.Option(help="'LON,LAT' of the area's centre; the first place by default."),
]
Radius = Annotated[
    float | None, typer.Option(help="Radius of the area, in metres; 60000 by default.")
]
CampaignId = Annotated[str, typer.Argument(help="The id of the campaign.")]
EPSILON_HELP = (
    "Of two values PER apart, one makes any report at most e^ε times as likely as the other."
)
Epsilon = Annotated[float | None, typer.Option(help=EPSILON_HELP)]
Per = Annotated[
    float | None,
    typer.Option(help="The distance, in UNIT, within which nobody should tell two values apart."),
]
RatiosFrom = Annotated[
    float | None,
    typer.Option(
        help="Compare values by ratio: PER and --width are factors, such as 2. Values below this "
        "one, including 0, count as this one."
    ),
]
CentralDelta = Annotated[
    float | None,
    typer.Option(
        help="δ of the central ε, in (0, 1); by default 1e-6, or 0.01 over the number of honest"
        " reports if that is less."
    ),
]
Delta = Annotated[
    float,
    typer.Option(
        help="δ of the guarantee: the chance of a report that reveals more. Only for the"
        " approximate mechanisms of 'geoveil mechanisms'; apps that permit no δ refuse it."
    ),
]
Reach = Annotated[
    float | None,
    typer.Option(
        help="With --delta: the largest distance between two values, in UNIT, that the guarantee"
        " covers; any by default."
    ),
]
Confidence = Annotated[float, typer.Option(help="Confidence of the interval, in (0, 1).")]
Contamination = Annotated[
    float | None,
    typer.Option(
        help="Also print the most by which this fraction of false reports, for example 0.01, can "
        "move the numbers."
    ),
]
Scheduler = Annotated[
    str | None,
    typer.Option(help="Address of a Dask scheduler, e.g. tcp://10.0.0.5:8786, to use instead."),
]
Workers = Annotated[
    int | None, typer.Option(help="Processes on this machine; one per core by default.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead.")]


SHARED: Mapping[str, Any] = {
    "epsilon": Epsilon,
    "per": Per,
    "delta": Delta,
    "reach": Reach,
    "ratios_from": RatiosFrom,
    "center": Center,
    "radius": Radius,
    "confidence": Confidence,
    "contamination": Contamination,
    "heap": Heaps,
}
"""Name of a field of a request → the option that other commands have as well."""


def takes(
    argument: str,
    options: Mapping[str, tuple[Any, Any]],
    make: Callable[..., Any] = dict,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replace one of a command's arguments by options that build it.

    Args:
        options: name → annotation and default.

    Example:
        >>> @takes("sides", {"a": (float, 1.0), "b": (float, 2.0)})
        ... def area(unit: str, sides: dict[str, float]) -> None:
        ...     print(sides["a"] * sides["b"], unit)
        >>> area(unit="metre", a=3.0, b=4.0), list(signature(area).parameters)
        12.0 metre
        (None, ['unit', 'a', 'b'])
    """

    def wrapped(command: Callable[..., None]) -> Callable[..., None]:
        its = signature(command, eval_str=True)
        more = [
            Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind)
            for name, (kind, default) in options.items()
        ]
        parameters = [
            each.replace(kind=Parameter.KEYWORD_ONLY)
            for parameter in its.parameters.values()
            for each in (more if parameter.name == argument else [parameter])
        ]

        @wraps(command)
        def run(**given: Any) -> None:
            of_argument = {name: given.pop(name) for name in options if name in given}
            command(**given, **{argument: make(**of_argument)})

        # Both are read by typer: the one for defaults, the other for kinds.
        run.__signature__ = its.replace(parameters=parameters)  # type: ignore[attr-defined]  # of a function
        run.__annotations__ = {p.name: p.annotation for p in parameters}
        return run

    return wrapped


def options_of(record: type[Any]) -> dict[str, tuple[Any, Any]]:
    """Return the options that are the fields of a dataclass: name → annotation and default.

    A field annotated with a text has it as its help, one named in `SHARED` that of all commands;
    one without a default is an argument.
    """
    kinds = get_type_hints(record, include_extras=True)
    return {
        field.name: (
            _with_help(field.name, kinds[field.name], needed=field.default is MISSING),
            Parameter.empty if field.default is MISSING else field.default,
        )
        for field in fields(record)
    }


def _with_help(name: str, kind: Any, *, needed: bool) -> Any:
    plain, *more = get_args(kind) if get_origin(kind) is Annotated else (kind,)
    if not (more and isinstance(more[0], str)):
        return SHARED.get(name, kind)
    if needed:
        return Annotated[plain, typer.Argument(help=more[0])]
    return Annotated[
        plain,
        typer.Option(*([f"--{name.replace('_', '-')}"] if plain is bool else []), help=more[0]),
    ]


def lasting(text: str) -> timedelta:
    """Return a period of validity, at most ten years."""
    return parse_period("expires", text, timedelta(days=3650))
