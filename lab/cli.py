"""`railyard lab …`: look at the lab's devices, and break them on purpose.

`railyard` finds it where the repository is; the wheel has no lab and shows no such command.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
import yaml

from components.cli.app import command_app
from lab import control
from lab.cluster.artefact import checksums
from lab.site import DEV_STACK, load_document, overlay

app = command_app("Look at the lab's emulated devices, and break them on purpose.")

Stack = Annotated[str, typer.Option(help="whose lab")]


def _ask(stack: str, request: dict[str, object]) -> dict[str, object]:
    return control.request(Path(".lab") / stack / "control.sock", request)


@app.command()
def status(stack: Stack = DEV_STACK) -> None:
    """Show which devices are up, and what they met that the lab does not model."""
    answer = _ask(stack, {"op": "status"})
    typer.echo(yaml.safe_dump(answer, sort_keys=True), nl=False)


@app.command(context_settings={"ignore_unknown_options": True})
def fault(
    device: Annotated[str, typer.Argument(help="for example leaf-01 or gpu01")],
    change: Annotated[list[str], typer.Argument(help="for example: mtu 1/2 1500")],
    stack: Stack = DEV_STACK,
) -> None:
    """Change a device behind Railyard's back, as a person or a failure would.

    leaf-01: mtu PORT BYTES, trust PORT L2, link-down PORT on|off.
    Hosts: vfs-lost, qos-lost, mtu NETDEV BYTES, link-down NETDEV on|off, ssh-refused on|off.
    ESXi hosts: kernel OPTION VALUE, vmx VM KEY VALUE|unset, vm-power VM on|off, lockdown on|off.
    A word that is none of them gets the whole list of that device.
    """
    answer = _ask(stack, {"op": "fault", "device": device, "args": change})
    typer.echo(answer.get("text") or f"{device}: {' '.join(change)}")


@app.command()
def reboot(
    device: Annotated[str, typer.Argument(help="name of a host")], stack: Stack = DEV_STACK
) -> None:
    """Reboot a host: what a reboot loses is lost, enabled units run."""
    _ask(stack, {"op": "reboot", "device": device})
    typer.echo(f"{device} is up again")


@app.command()
def snapshot(stack: Stack = DEV_STACK) -> None:
    """Print the whole state of all devices, for a comparison before and after."""
    typer.echo(json.dumps(_ask(stack, {"op": "snapshot"}), indent=1, sort_keys=True))


@app.command()
def site(
    example: Annotated[Path, typer.Argument(help="folder of an example")] = Path(
        "examples/dgx-roce"
    ),
    stack: Stack = DEV_STACK,
) -> None:
    """Print an example's site file with the lab's addresses and keys."""
    document = overlay(load_document(example / "site.yaml"), stack, checksums())
    typer.echo(yaml.safe_dump(document, sort_keys=False, width=100), nl=False)
