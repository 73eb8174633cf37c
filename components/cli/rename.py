"""`railyard rename host|switch OLD NEW`: another name for a device in the site file of a stack."""

from __future__ import annotations

from typing import Annotated

import typer

from components.cli.app import command_app, say, stack_names
from components.cli.stack import pulumi
from components.discover.rename import Rename, Renaming, rename_device
from components.discover.run import replace_file
from components.discover.site_file import read_site_file
from components.drift.applied import applied_from_export
from components.reading.site_path import config_file

app = command_app("Give a host or a switch another name; its resources and its settings stay.")
_OLD = Annotated[str, typer.Argument(help="the name in the file")]
_NEW = Annotated[str, typer.Argument(help="the name that it gets")]
_STACK = Annotated[
    str | None,
    typer.Option(help="name of the stack; default the selected one", autocompletion=stack_names),
]


@app.command("host")
def rename_host(old: _OLD, new: _NEW, stack: _STACK = None) -> None:
    """Rename a host in the site file; its Kubernetes node keeps its name.

    No device is contacted: the next update does the rest. Exit codes: 0 written, 1 the site has
    problems, 2 the name is not there, is taken or cannot be given.
    """
    _rename(Rename("host", old, new), stack)


@app.command("switch")
def rename_switch(old: _OLD, new: _NEW, stack: _STACK = None) -> None:
    """Rename a switch in the site file; what `destroy` puts back on it stays recorded.

    No device is contacted: the next update does the rest. Exit codes: 0 written, 1 the site has
    problems, 2 the name is not there, is taken or cannot be given.
    """
    _rename(Rename("switch", old, new), stack)


def _rename(asked: Rename, stack: str | None) -> None:
    name = stack or pulumi(["stack", "--show-name"]).strip()
    file = read_site_file(config_file(name))
    applied = applied_from_export(pulumi(["stack", "export", "--stack", name]))
    done = rename_device(file, asked, applied)
    replace_file(file, done.text)
    say("".join(f"{line}\n" for line in _words(asked, done, str(file.path), name)), nl=False)


def _words(asked: Rename, done: Renaming, file: str, stack: str) -> list[str]:
    lines = ", ".join(f"{file}:{line}" for line in done.lines)
    said = [f"{asked.old} is {asked.new} now: {lines}"]
    if done.former:
        said.append(
            f"The next update keeps what the state has of {done.former} for {asked.new} (`renamed`"
            " in the file), and undoes nothing on it."
        )
    else:
        said.append(f"The state has nothing of {asked.old}, or has {asked.new} already.")
    if done.kept_node:
        said.append(
            f"Its Kubernetes node stays {done.kept_node}: a node cannot be renamed. For another one"
            f" take {asked.new} out of the file, update, and add it again: it is drained, its node"
            " is deleted, and it joins as a new node."
        )
    return [*said, f"Now look at it and run it: railyard preview {stack}; pulumi up -s {stack}"]
