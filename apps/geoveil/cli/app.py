"""Assembles the command from its parts; every part is a module with one job."""

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from geoveil.campaign import added, load
from geoveil.cli.console import degrade, fail
from geoveil.cli.plain_errors import refuse_empty_texts, tell_plainly
from geoveil.gp import GeoVeilError, MissingExtraError, __version__, needed_for

COMMANDS = {
    "serve": "serve",
    "doctor": "doctor",
    "web": "web",
    "relay": "relay",
    "health": "health",
    "db": "doctor",
    "token": "credentials",
    "certificate": "credentials",
    "campaign": "campaign",
    "card": "card",
    "form": "form",
    "mask": "form",
    "contribute": "contribute",
    "client": "client",
    "estimate": "results",
    "plan": "plan",
    "mechanisms": "mechanisms",
    "rehearse": "rehearse",
    "demo": "demo",
    "audit": "audit",
    "simulate": "simulate",
    "compare": "simulate_experiments",
}
"""In the order of the help: command → its module here, with a function or group of its name, or an
`app`."""
_NEED_MORE = {"demo": "analyst", "simulate": "all", "compare": "all"}
"""Commands that go on to need more than the library that is missed first → their extra."""
_GROUP = "geoveil.commands"
"""The group of entry points by which other packages add commands: functions or `typer.Typer`."""


class _Lazy(TyperGroup):
    """Imports a command at its first use, because some commands need slow imports."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in (names := self.list_commands(ctx)):
            self.commands = dict.fromkeys(names, self)  # of which the nearest are suggested
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: Any) -> list[str]:
        return [*COMMANDS, *added(_GROUP, frozenset(COMMANDS))]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in COMMANDS:
            try:
                module = import_module(f"geoveil.cli.{COMMANDS[cmd_name]}")
            except MissingExtraError as error:
                return _not_installed(cmd_name, error)
            made: Any = getattr(module, cmd_name, None) or module.app
        elif cmd_name in added(_GROUP, frozenset(COMMANDS)):
            made = load(_GROUP, cmd_name, COMMANDS)
        else:
            return None
        if isinstance(made, typer.Typer):
            command: Any = typer.main.get_group(made)
        else:
            alone = typer.Typer(add_completion=False)
            alone.command()(made)
            command = typer.main.get_command(alone)
        command.name = cmd_name
        for each in _with_those_below(command):
            _let_flow(each)
            refuse_empty_texts(each)
            tell_plainly(each)
        return command


def _with_those_below(command: Any) -> Iterator[Any]:
    yield command
    for below in getattr(command, "commands", {}).values():
        yield from _with_those_below(below)


def _not_installed(name: str, error: MissingExtraError) -> Any:
    """Return a command that only names its missing extra, in the help and when it is run."""
    made = typer.Typer(add_completion=False)
    extra = _NEED_MORE.get(name, error.extra)

    @made.command(
        help=f"Not installed: it needs the extra {extra!r}.",
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
        add_help_option=False,
    )
    def refuse() -> None:
        raise MissingExtraError(f"geoveil {name}", error.library, extra)

    command: Any = typer.main.get_command(made)
    command.name = name
    return command


def _let_flow(command: Any) -> None:
    """Join the lines of each help paragraph, so that they wrap at the terminal's width."""
    command.help = "\n\n".join(
        " ".join(paragraph.split()) for paragraph in (command.help or "").split("\n\n")
    )
    for parameter in command.params:
        if getattr(parameter, "multiple", False):  # its help says that it may be repeated
            parameter.metavar = "<...>"


app = typer.Typer(
    name="geoveil",
    cls=_Lazy,
    help="Population statistics from private values, without trusting the server.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"geoveil {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Population statistics from private values, without trusting the server."""


def run() -> None:
    """Run the command; errors of geoveil and of the system become one line and exit status 1."""
    degrade()
    try:
        try:
            with needed_for("this command"):
                app()
        finally:
            sys.stdout.flush()  # here, where a full disk is still an error like any other
    except GeoVeilError as error:
        fail(" ".join([str(error), *getattr(error, "__notes__", ())]))
    except OSError as error:
        _write_no_more()
        if isinstance(error, BrokenPipeError):  # nobody reads on, as after `| head`
            sys.exit(1)
        of = "" if error.filename is None else f" {str(error.filename)!r}"
        why = " ".join([error.strerror or str(error), *getattr(error, "__notes__", ())])
        fail(f"the system refuses{of}: {why}")
    except UnicodeEncodeError:
        fail("an argument is not text in UTF-8")
    except RecursionError:
        fail("a file is nested too deeply to be read")


def _write_no_more() -> None:
    """Drop unwritten standard output: the interpreter would try again as it ends."""
    with suppress(OSError), open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
