"""The end of `make up`: stages, what changed, what was proven, and what to try next."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from components.acceptance.judge.site import judge_evidence
from components.acceptance.report.archive import latest_evidence, run_folder
from components.acceptance.report.text import render_table
from components.core.record import record
from components.model.cluster import ClusterSpec
from components.model.worker_kinds import crusoe_of
from lab.update_events import Update

CLUSTER: Final = ("kubernetes", "operators", "pod_network", "jobs")


@record
class Outline:
    """What a site consists of, as far as its outcome is told."""

    stages: tuple[str, ...]
    """In the order in which they are reached."""
    fault: str
    """Arguments of `railyard lab fault` that are worth trying."""


def outline_of(spec: ClusterSpec) -> Outline:
    """The stages that a site has, and a fault that shows drift on it."""
    ufm = spec.infiniband.ufm if spec.infiniband else None
    parts = (
        ("cloud", crusoe_of(spec) is not None),
        ("fabric", bool(spec.switches) or ufm is not None),
        ("hypervisor", bool(spec.hypervisors)),
        ("hosts", bool(spec.reached)),
        ("reboots", any(host.nics for host in spec.reached)),
        ("payload", spec.containers is not None),
        *((stage, spec.kubernetes is not None) for stage in CLUSTER),
        ("acceptance", True),
    )
    stages = tuple(stage for stage, there in parts if there)
    if ufm is not None:
        return Outline(stages, f"{ufm.name} routing minhop")
    if not spec.switches:
        return Outline(stages, _host_fault(spec))
    switch = spec.switches[0]
    if switch.carries == "infiniband":
        return Outline(stages, f"{switch.name} sm off")
    return Outline(stages, f"{switch.name} mtu {next(iter(switch.ports))} 1500")


def _host_fault(spec: ClusterSpec) -> str:
    if crusoe_of(spec) is not None:
        return f"cloud gone {spec.hosts[0].name}"
    cards = ((host.name, nic.netdev) for host in spec.reached for nic in host.nics)
    for host, nic in cards:
        return f"{host} mtu {nic} 1500"
    return f'{spec.hosts[0].name} file-changed /etc/hosts "10.0.0.9 stray"'


console = Console(highlight=False)


def print_outcome(
    update: Update, stack: str, env_file: Path, seconds: float, outline: Outline
) -> None:
    """Print the tables; a person at 2 a.m. reads the last lines first."""
    console.print(_stages(update, outline.stages))
    evidence = latest_evidence(stack)
    if not _reached(update, "acceptance"):
        print("acceptance did not run: the path is not proven as it is now")
    elif evidence is not None:
        print(render_table(judge_evidence(evidence)))
        print(f"\nreport  {run_folder(stack, evidence.run) / 'report.html'}")
    if not update.succeeded:
        for message in update.messages:
            print(f"\n{message}")
        ended = f"signal {-update.exit_code} ended `pulumi up`: no error of its own"
        failed = ended if update.exit_code < 0 else "`pulumi up` failed, see above"
        print(f"\nNOT GOOD after {seconds:.0f} s: {failed}.")
        print(f"the engine's whole output: .lab/{stack}/pulumi.log")
        print("next: mend the first error above, then run `make up` again; it goes on from here")
        return
    what = f"{update.changed} resources changed" if update.changed else "nothing changed"
    print(f"\nGood after {seconds:.0f} s: {what}.")
    _print_next_steps(stack, env_file, outline.fault)


def _print_next_steps(stack: str, env_file: Path, example: str) -> None:
    config = env_file.with_name(f"Pulumi.{stack}.yaml")
    flags = f"-s {stack}" + (f" --config-file {config}" if config.exists() else "")
    fault = f"railyard lab fault --stack {stack}" if config.exists() else "railyard lab fault"
    print(f"next:   . {env_file}")
    print(f"        pulumi preview {flags}   # quiet: nothing to do")
    print(f"        {fault} {example}   # then preview again: see the drift")
    down = f"make down SITE={stack}" if config.exists() else "make down"
    print(f"        railyard drift {stack}; railyard report {stack}; {down}")


def _reached(update: Update, stage: str) -> bool:
    """Something of the stage was looked at or changed: a room alone, without its steps, is not."""
    return sum(update.changes.get(stage, Counter[str]()).values()) > 0


def _stages(update: Update, stages: tuple[str, ...]) -> Table:
    table = Table(title=None, box=None, pad_edge=False)
    for name in ("stage", "changed", "unchanged", "state"):
        table.add_column(name)
    for stage in stages:
        counts = update.changes.get(stage)
        if counts is None or not _reached(update, stage):
            # An update that ended well reached them all: an operator may have done it before.
            table.add_row(stage, "-", "-", "nothing to do" if update.succeeded else "not reached")
            continue
        changed = ", ".join(f"{count} {verb}" for verb, count in counts.items() if verb != "same")
        state = "FAILED" if counts.get("failed") else "ready"
        table.add_row(stage, changed or "-", str(counts.get("same", 0)), state)
    return table
