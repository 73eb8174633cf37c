"""The form of every command: plain text, whole sentences, and `-h`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias

import typer

from components.cli.say import say
from components.core.errors import UsageError

__all__ = [
    "SelectedStack", "SitePath", "StackName", "StackOrFile", "TextOrJson", "ToLook",
    "command_app", "option", "say", "selected_stack", "stack_names",
]  # fmt: skip
SitePath: TypeAlias = Annotated[Path, typer.Argument(help="A site.yaml, or a Pulumi.<stack>.yaml.")]
TextOrJson: TypeAlias = Annotated[Literal["text", "json"], typer.Option("--format")]
_NAME: Final = "name of the stack; default the selected one"
_OR_FILE: Final = "A stack, or a site file; default the selected stack."


def command_app(summary: str | None = None) -> typer.Typer:
    """An empty group of commands with its sentence, or the place of one with its own docstring."""
    is_group = summary is not None
    return typer.Typer(
        help=summary, no_args_is_help=is_group, add_completion=False, rich_markup_mode=None
    )


def option(words: str, *names: str) -> object:
    """An option with its help; without a name it has that of the parameter."""
    return typer.Option(*names, help=words)


ToLook: TypeAlias = Annotated[
    bool, option("Read devices and cluster, or the state alone.", "--look/--no-look")
]


def keep_sites(path: Path) -> None:
    """Refuse to replace a YAML file, such as the site that a command reads; UsageError."""
    if path.suffix in {".yaml", ".yml"} and path.exists():
        fix = "name another file: no report or picture replaces a YAML file."
        raise UsageError(f"{path} exists already. Nothing was written.\n  fix    {fix}")


def write_text(path: Path, text: str) -> None:
    """Write a file that the user names; UsageError if it is a site or cannot be written."""
    keep_sites(path)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from error


def stack_names(incomplete: str) -> Iterator[str]:
    """The stacks with a file here, for completion. The engine is too slow for this."""
    named = os.environ.get("RAILYARD_CONFIG_FILE")
    files = [*Path().glob("Pulumi.*.yaml"), *([Path(named)] if named else [])]
    names = {file.name.removeprefix("Pulumi.").removesuffix(".yaml") for file in files}
    return (name for name in sorted(names) if name.startswith(incomplete))


def selected_stack(ctx: typer.Context, name: str | None) -> str:
    """The named stack, else the one selected in this folder; UsageError without one."""
    if name or ctx.resilient_parsing:  # completion
        return name or ""
    from components.cli.stack import pulumi  # noqa: PLC0415 - steps call commands without a stack

    try:
        return pulumi(["stack", "--show-name", "--non-interactive"]).strip()
    except UsageError as error:
        text, fix = str(error), "\n  fix    name the stack, or run `pulumi stack select NAME`."
        what = f"no stack is named, and the selected one is not known:\n{text}"
        raise UsageError(what if "\n  fix " in text else f"{what}{fix}") from error


_STACK: Final[dict[str, Any]] = {
    "show_default": False, "callback": selected_stack, "autocompletion": stack_names,
}  # fmt: skip
StackName: TypeAlias = Annotated[str, typer.Argument(help=f"{_NAME.capitalize()}.", **_STACK)]
"""A stack; write it with the default `""`."""
SelectedStack: TypeAlias = Annotated[str, typer.Option(help=_NAME, **_STACK)]
"""The same as an option, `--stack`."""
StackOrFile: TypeAlias = Annotated[
    str, typer.Argument(metavar="STACK|FILE", help=_OR_FILE, **_STACK)
]
"""The same, or the path of a file."""
