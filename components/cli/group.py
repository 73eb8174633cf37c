"""`railyard`: the list of commands. Each module is imported only when its command is called.

Help and completion read the table and import no command. A new command is one row of it, and an
function in a module.
"""

from __future__ import annotations

import json
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer
import typer.main
from typer.core import TyperCommand, TyperGroup

from components.cli.app import command_app, say
from components.core.record import record

if TYPE_CHECKING:
    # Typer has no public name for the types that its own group class takes and returns.
    from typer._click import Command, Context

_SUMMARIES: Final = """\
init      Write a project of your own, and list the steps before its first preview.
check     Check site files and report all their problems, each with its line and a fix.
explain   Print the page of a rule: what it demands, and why; without a name, the list of rules.
pin       Ask upstream for each artefact's version and checksum, and write them into the lock.
bundle    Gather everything that a site brings into a folder, and push its images from there.
plan      Print what would be decided for a site; no device is contacted.
draw      Draw the hosts, rails, switches and links of a site as an SVG picture.
versions  Print which versions work together, with source and date, and the versions of a site.
preflight Look at every device, artefact and API of a site, and name all that an update would lack.
rbac      Print the roles that an existing cluster's owner gives to Railyard; nothing is contacted.
preview   Show the effects of an update: old and new settings, and interruptions.
drift     Compare every device and every object of Kubernetes with its last applied state.
status    Show a stack on one page: devices, drift, cluster, proof, versions; the worst first.
support-bundle Pack what a colleague or vendor needs to help with a stack, without secrets.
audit     Compare every device and the cluster with a site file; reads only, works without a stack.
watch     Audit a site, run the quick suite on idle nodes, and publish metrics and node conditions.
ready     List what keeps a stack's cluster waiting, and why: pods, images, events, finalizers.
discover  Read the hosts' RDMA cards and GPUs, and show the entries to add to the site file.
rename    Give a host or a switch another name; its resources and its settings stay.
accept    Run the acceptance probes of a stack again, as things are now.
report    Show the last acceptance report of a stack and open its page.
baseline  Keep the values that destroy puts back on switches, or bring them back.
job       Print a job on some nodes as YAML, or submit it and follow it to its verdict.
judge     Judge a log of NCCL, perftest, DeepSpeed or training.
site      Run, split, join and export a site of several stacks.
cloud     Print a site with the cloud instances that a stack made.
image     Build the image in which acceptance and sample jobs run.
schema    Print the JSON schema of the site file.
lab       Look at the lab's emulated devices, and break them on purpose.
device    Called by the steps of one device.
evidence  Called by the steps of acceptance.
payload   Called by the step of the containers' SSH keys.
"""
_MODULES: Final = {
    "baseline": "status", "bundle": "pin", "drift": "status", "explain": "check", "image": "job",
    "payload": "evidence", "preflight": "discover", "rbac": "plan", "ready": "accept",
    "rename": "discover", "report": "accept", "schema": "check", "watch": "audit",
    "support-bundle": "support",
}  # fmt: skip
"""Command to its module of this package, if the names differ."""
_HIDDEN: Final = frozenset({"device", "evidence", "payload"})


@record
class Entry:
    """One command of the top level."""

    name: str
    summary: str
    """The first sentence of its help; a test checks that both are equal."""
    module: str
    """Module with the function NAME, or with `NAME_app` or `app`, a group of commands."""
    hidden: bool = False
    """Only steps of an update call it, so the help leaves it out.

    The states of stacks record its spelling, so it is an API and does not change.
    """

    @property
    def installed(self) -> bool:
        """Whether its module is installed; the wheel lacks the lab, and a user's own is another."""
        top, *rest = self.module.split(".")
        if top == "lab" and not __name__.startswith("components"):
            return False
        spec = find_spec(top)
        folders = (spec.submodule_search_locations or ()) if spec else ()
        return any(Path(folder, *rest).with_suffix(".py").is_file() for folder in folders)


def list_commands() -> tuple[Entry, ...]:
    """The commands that are installed here, in the order of the help."""
    entries: list[Entry] = []
    for name, summary in (row.split(maxsplit=1) for row in _SUMMARIES.splitlines()):
        module = "lab.cli" if name == "lab" else f"{__package__}.{_MODULES.get(name, name)}"
        entries.append(Entry(name, summary, module, name in _HIDDEN))
    return tuple(entry for entry in entries if entry.installed)


def load_command(entry: Entry) -> Command:
    """Import one command."""
    module = import_module(entry.module)
    sub: object = getattr(module, f"{entry.name}_app", None) or getattr(module, "app", None)
    if not isinstance(sub, typer.Typer):
        sub = command_app()
        sub.command()(getattr(module, entry.name.replace("-", "_")))
    command = typer.main.get_command(sub)
    command.name = entry.name
    for nested in command.commands.values() if isinstance(command, TyperGroup) else ():
        # Without a short help, Typer cuts the sentence at the width of the page.
        nested.short_help = (nested.help or "").partition("\n\n")[0].replace("\n", " ")
    return command


class _LazyGroup(TyperGroup):
    """Show commands from the table, and import only the called one."""

    def list_commands(self, ctx: Context) -> list[str]:
        """List the commands in the order of the table."""
        if not super().list_commands(ctx):
            self.entries = {entry.name: entry for entry in list_commands()}
            self.commands = {
                name: TyperCommand(name, short_help=entry.summary, hidden=entry.hidden)
                for name, entry in self.entries.items()
            }
        return [*self.commands]

    def resolve_command(
        self, ctx: Context, args: list[str]
    ) -> tuple[str | None, Command | None, list[str]]:
        """Import the called command; for an unknown name, offer a similar one."""
        self.list_commands(ctx)
        name, command, rest = super().resolve_command(ctx, args)
        return name, load_command(self.entries[name]) if name else command, rest

    def invoke(self, ctx: Context) -> object:
        """Run it, and remove the exception's name that Typer 0.29 puts before a wrong choice."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = error.message.removeprefix("Value error, ")
            raise


app = typer.Typer(
    cls=_LazyGroup, name="railyard", no_args_is_help=True, pretty_exceptions_enable=False,
    rich_markup_mode=None, context_settings={"help_option_names": ["-h", "--help"]},
)  # fmt: skip


@app.callback(invoke_without_command=True)
def describe(
    context: typer.Context,
    *,
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version, its commit and the catalogue's date."),
    ] = False,
    output: Annotated[
        Literal["text", "json"], typer.Option("--format", help="The form of `--version`.")
    ] = "text",
) -> None:
    """RDMA GPU Kubernetes clusters from one typed file.

    Exit codes: 0 good, 1 problems or a failed verdict, 2 usage, 3 drift, 4 a device did not answer
    or a verdict could not be reached.
    """
    if version:
        from components.catalogue.operator_versions import AS_OF  # noqa: PLC0415 - only needed here
        from components.project.wheel import own_commit, own_version  # noqa: PLC0415 - the same

        said = {"version": own_version(), "commit": own_commit(), "catalogue": str(AS_OF)}
        text = "railyard {version}, commit {commit}, catalogue of {catalogue}".format(**said)
        say(json.dumps(said) if output == "json" else text)
        raise typer.Exit
    if context.invoked_subcommand is None:
        say(context.get_help())
        raise typer.Exit(2)
