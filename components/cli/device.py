"""`railyard device …`: the commands of the switch, host and reboot steps of an update."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Annotated, Final, TypeAlias, cast

import typer

from components.cli.app import command_app, option, say
from components.core.errors import DeviceError

_Run: TypeAlias = Callable[[str, Mapping[str, str]], str]
app = command_app("Called by the steps of one device.")

_VERBS: Final = {
    "apply": ("components.fabric.device", "run_apply"),
    "apply-drained": ("components.disruption.ports", "run_apply_drained"),
    "restore": ("components.fabric.device", "run_restore"),
    "observe": ("components.fabric.device", "run_observe"),
    "judge": ("components.fabric.device", "run_judge"),
    "reboot": ("components.hypervisor.reboot", "run_reboot"),
    "restore-release": ("components.operators.restore", "run_restore_release"),
    "keep-cluster": ("components.kubernetes.client", "run_keep_cluster"),
    "leave-cluster": ("components.kubernetes.client", "run_leave_cluster"),
    "kubespray": ("components.kubernetes.kubespray.perform", "run_kubespray"),
    "kubespray-reset": ("components.kubernetes.kubespray.perform", "run_kubespray_reset"),
    "upgrade-node": ("components.disruption.upgrade", "run_upgrade_node"),
    "drain-nodes": ("components.disruption.ports", "run_drain_nodes"),
    "reboot-hosts": ("components.disruption.reboot", "run_reboot_hosts"),
}
"""Verb to module and function: imported late, as each process needs only one."""


_NEXT: Final = (
    "\n  next   run the same `pulumi` command again: it checks the device first, and does only the "
    "rest"
)


@contextmanager
def _says_next() -> Generator[None]:
    """End each error of a device with the next command, unless it names one itself."""
    try:
        yield
    except DeviceError as error:
        if not re.search(r"(?m)^  (?:next|fix) ", str(error)):
            error.args = (f"{error}{_NEXT}",)
        raise


def _verb(name: str) -> Callable[[], None]:
    def call() -> None:
        module, function = _VERBS[name]
        run = cast("_Run", getattr(import_module(module), function))
        with _says_next():
            say(run(sys.stdin.read(), os.environ))

    call.__doc__ = f"Run `{name}` for the request on standard input."
    return call


for _name in _VERBS:
    app.command(_name)(_verb(_name))


@app.command()
def steps(
    main: Annotated[str, typer.Argument(help="the step after which the resource is named")],
) -> None:
    """Run the steps on standard input on their hosts, each if it changed since the last run."""
    from components.remote.send import run_steps  # noqa: PLC0415 - lazy on purpose

    with _says_next():
        answer = run_steps(sys.stdin.read(), main, os.environ)
    say(answer.stdout, nl=False)
    say(answer.stderr, nl=False, err=True)
    raise typer.Exit(answer.exit_status)


@app.command()
def undo_steps() -> None:
    """Undo the steps on standard input in reverse order."""
    steps("")


@app.command()
def baseline(stack: Annotated[str, option("whose imported baselines count")] = "") -> None:
    """Record the current values, or those that were imported for this switch."""
    from components.fabric import device, edit  # noqa: PLC0415 - lazy on purpose

    text = sys.stdin.read()
    imported = edit.baseline_file(stack, device.parse_request(text, {}).endpoint.device)
    environ = dict(os.environ)
    if stack and imported.is_file():
        environ[device.BASELINE_VARIABLE] = imported.read_text()
    with _says_next():
        say(device.run_baseline(text, environ))
