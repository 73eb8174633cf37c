"""The form of every command: plain text, whole sentences, and `-h`."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import typer

from components.core.errors import RailyardError, UsageError
from components.core.plain_text import plain_text
from components.core.start import start_quickly

_INTERRUPTED: Final = 130
"""128 + SIGINT, as a shell reports it."""
_USAGE: Final = 2
_OURS: Final = (__name__.partition(".")[0], "stacks", "lab")


def command_app(summary: str | None = None) -> typer.Typer:
    """An empty command, or group of commands.

    Args:
        summary: The sentence of a group; a single command uses its docstring.
    """
    return typer.Typer(
        help=summary,
        no_args_is_help=summary is not None,
        add_completion=False,
        rich_markup_mode=None,
    )


_RED: Final = 31
_GREEN: Final = 32
_YELLOW: Final = 33
_COLOURS: Final = (
    (re.compile(r"^(?:FAILED|ERROR)\b|\bdrift:|^[a-z0-9-]+:(?= .*\n  where)", re.MULTILINE), _RED),
    (re.compile(r"^[a-z0-9-]+ \(warning\):|^(?:SKIPPED|WARNING)\b", re.MULTILINE), _YELLOW),
    (re.compile(r"^PASSED\b|\bno problems\b|^  fix\b", re.MULTILINE), _GREEN),
)
"""The words of reports that get a colour, for each colour of ECMA-48."""


def say(text: str, *, nl: bool = True, err: bool = False, paint: bool = False) -> None:
    """Print a text; control characters are shown and do not reach the terminal (`plain_text`).

    Args:
        text: Any text.
        nl: Whether a line break follows.
        err: Whether it goes to standard error.
        paint: Whether it is a report, whose important words get colours on a terminal.
    """
    shown = plain_text(text)
    if paint and _has_colours():
        for words, colour in _COLOURS:
            shown = words.sub(lambda found, of=colour: f"\x1b[{of}m{found[0]}\x1b[0m", shown)
    typer.echo(shown, nl=nl, err=err)  # noqa: TID251 - this is `say`


def _has_colours() -> bool:
    """Whether standard output is a terminal that shows colours (no-color.org)."""
    no_colour = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return sys.stdout.isatty() and not no_colour


def run(app: typer.Typer, name: str) -> None:
    """Run a program; a user's mistake ends with a report and an exit code."""
    start_quickly()
    try:
        app(prog_name=name)
    except RailyardError as error:
        say(str(error), err=True)
        sys.exit(error.exit_code)
    except ModuleNotFoundError as error:
        if not error.name or error.name.partition(".")[0] in _OURS:
            raise
        fix = "fix    install the extra for sites: pip install 'railyard-rdma[site]'"
        say(f"this command needs the Python package {error.name}, which is not installed.\n  {fix}",
            err=True)  # fmt: skip
        sys.exit(_USAGE)
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)


def stack_names(incomplete: str) -> Iterator[str]:
    """The stacks with a file here, for completion. The engine is too slow for this."""
    named = os.environ.get("RAILYARD_CONFIG_FILE")
    files = [*Path().glob("Pulumi.*.yaml"), *([Path(named)] if named else [])]
    names = {file.name.removeprefix("Pulumi.").removesuffix(".yaml") for file in files}
    return (name for name in sorted(names) if name.startswith(incomplete))


def selected_stack(ctx: typer.Context, name: str | None) -> str:
    """The named stack, else the one that Pulumi has selected in this folder.

    Raises:
        UsageError: None is named and none is selected, or the CLI is not on PATH.
    """
    if name or ctx.resilient_parsing:  # completion
        return name or ""
    from components.cli.stack import pulumi  # noqa: PLC0415 - steps call commands without a stack

    try:
        return pulumi(["stack", "--show-name", "--non-interactive"]).strip()
    except UsageError as error:
        text, fix = str(error), "\n  fix    name the stack, or run `pulumi stack select NAME`."
        what = f"no stack is named, and the selected one is not known:\n{text}"
        raise UsageError(what if "\n  fix " in text else f"{what}{fix}") from error


StackName: TypeAlias = Annotated[
    str,
    typer.Argument(
        help="Name of the stack; default the selected one.",
        show_default=False,
        callback=selected_stack,
        autocompletion=stack_names,
    ),
]
"""A stack; write it with the default `""`."""
StackOrFile: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="STACK|FILE",
        help="A stack, or a site file; default the selected stack.",
        show_default=False,
        callback=selected_stack,
        autocompletion=stack_names,
    ),
]
"""The same, or the path of a file."""
