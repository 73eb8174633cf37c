"""Many hosts at once: Railyard beside Ansible and pyinfra, on the same emulated hosts.

    make bench-hosts   (or .venv/bin/python -m bench.hosts [--hosts 10] [--runs 5] [--write]
                        [--peers Ansible pyinfra])

Each tool brings new hosts to the same state, and does it once more with nothing to do. Before a
time counts, Railyard's look at every host must find the state as planned, whoever set it. Tools
take turns, so that all have the same neighbours. bench/README.md says what is fair
here and what is not.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bench.converge import each_host, look
from bench.host_room import ROOT, STACK, HostRoom, running_room, site_document
from bench.peer_files import ENVIRONMENT, PeerFiles, install_peers, write_peer_files
from bench.runner import Spent, run_measured
from components.core.errors import UsageError
from components.core.key_values import diff_states
from components.core.record import record
from components.hosts.host_plan import HostPlan

PAGE: Final = ROOT / "bench" / "README.md"
BEGIN: Final = "<!-- bench.hosts: begin -->"
END: Final = "<!-- bench.hosts: end -->"
PHASES: Final = ("first run", "nothing to do")
RAILYARD: Final = "Railyard"
PEERS: Final = ("Ansible", "pyinfra")
LOOKS_AT_ONCE: Final = 16


@record
class Cost:
    """What one phase took; connections and processes are those of one host."""

    spent: Spent
    connections: float
    processes: float


def command_of(tool: str, made: PeerFiles, forks: int) -> tuple[list[str], dict[str, str]]:
    """The command line of a tool and its environment."""
    peers = ROOT / "bench" / "peers"
    programs = ENVIRONMENT / "bin"
    environment = {"PATH": os.environ["PATH"], "HOME": str(made.folder), "LANG": "C.UTF-8"}
    match tool:
        case "Ansible":
            return [
                str(programs / "ansible-playbook"), "-i", str(made.inventory), "-e",
                f"@{made.desired}", str(peers / "playbook.yml"),
            ], environment | _ansible_settings(made, forks)  # fmt: skip
        case "pyinfra":
            return [
                str(programs / "pyinfra"), "-y", "--parallel", str(forks), str(made.inventory_py),
                str(peers / "deploy.py"),
            ], environment | {"BENCH_DESIRED": str(made.desired)}  # fmt: skip
        case _:
            site = str(made.folder / "site.json")
            return [
                sys.executable, "-m", "bench.converge", site, STACK, str(made.key), str(forks),
            ], environment  # fmt: skip


def _ansible_settings(made: PeerFiles, forks: int) -> dict[str, str]:
    """Its own quick settings: pipelining, no facts, one lasting connection a host."""
    arguments = (
        f"-o ControlMaster=auto -o ControlPersist=60s -o UserKnownHostsFile={made.known_hosts}"
        " -o StrictHostKeyChecking=yes -o IdentitiesOnly=yes"
    )
    return {
        "ANSIBLE_FORKS": str(forks),
        "ANSIBLE_PIPELINING": "1",
        "ANSIBLE_SSH_TRANSFER_METHOD": "piped",  # the emulated sshd has no SFTP
        "ANSIBLE_SSH_ARGS": arguments,
        "ANSIBLE_PRIVATE_KEY_FILE": str(made.key),
        "ANSIBLE_PYTHON_INTERPRETER": "/usr/bin/python3",
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_LOCALHOST_WARNING": "0",
        "ANSIBLE_DISPLAY_OK_HOSTS": "0",
        "ANSIBLE_DISPLAY_SKIPPED_HOSTS": "0",
        "ANSIBLE_TIMEOUT": "60",
    }


def _new_connections(made: PeerFiles, phase: int) -> dict[str, str]:
    """Ansible's lasting connections end long before a site is run again."""
    return {"ANSIBLE_SSH_CONTROL_PATH_DIR": str(made.folder / f"cp{phase}")}


def measure(tool: str, hosts: int, forks: int) -> tuple[Cost, ...]:
    """Both phases on new hosts.

    Raises:
        UsageError: The tool failed, or the hosts are not as planned after it.
    """
    with (
        # A short path: OpenSSH's control sockets have 108 bytes for theirs.
        tempfile.TemporaryDirectory(prefix="ry", dir="/var/tmp") as folder,
        running_room(hosts, Path(folder) / "lab") as room,
    ):
        made = write_peer_files(room, Path(folder) / "p")
        (made.folder / "site.json").write_text(json.dumps(site_document(hosts)))
        command, environment = command_of(tool, made, forks)
        return tuple(
            _phase(room, command, environment | _new_connections(made, phase))
            for phase in range(len(PHASES))
        )


def _phase(room: HostRoom, command: Sequence[str], environment: dict[str, str]) -> Cost:
    before, hosts = room.counted(), len(room.plans)
    spent = run_measured(command, environment)
    after = room.counted()
    verify(room, room.plans)
    connections = (after.connections - before.connections) / hosts
    processes = (after.processes - before.processes) / hosts
    _say(
        f"    {spent.seconds:.1f} s, {spent.cpu_seconds:.1f} s of CPU, {spent.memory_mib:.0f} MiB;"
        f" {connections:g} connections and {processes:.0f} processes a host"
    )
    return Cost(spent, connections, processes)


def verify(room: HostRoom, plans: Sequence[HostPlan]) -> None:
    """The state of these hosts, by the same look for every tool.

    Raises:
        UsageError: A host is not as planned.
    """

    async def one(plan: HostPlan) -> list[str]:
        found = await look(plan, room.secrets)
        return [f"{plan.name}: {each}" for each in diff_states(found, plan.desired)]

    wrong = [line for lines in asyncio.run(each_host(plans, one, LOOKS_AT_ONCE)) for line in lines]
    if wrong:
        raise UsageError("the hosts are not as planned:\n" + "\n".join(wrong[:20]))


def median(costs: Sequence[Cost]) -> Cost:
    """Of each figure on its own."""
    return Cost(
        Spent(
            statistics.median(cost.spent.seconds for cost in costs),
            statistics.median(cost.spent.cpu_seconds for cost in costs),
            statistics.median(cost.spent.memory_mib for cost in costs),
        ),
        statistics.median(cost.connections for cost in costs),
        statistics.median(cost.processes for cost in costs),
    )


def table(hosts: int, runs: dict[str, list[tuple[Cost, ...]]]) -> list[str]:
    """The rows of one number of hosts."""
    rows: list[str] = []
    for number, phase in enumerate(PHASES):
        ours = median([run[number] for run in runs[RAILYARD]])
        for tool, taken in runs.items():
            if not taken:
                rows.append(f"| {hosts} | {phase} | {tool} | not measured | | | | | |")
                continue
            cost = median([run[number] for run in taken])
            rows.append(
                f"| {hosts} | {phase} | {tool} | {cost.spent.seconds:.1f}"
                f" | {cost.spent.seconds / ours.spent.seconds:.1f}"
                f" | {cost.spent.cpu_seconds:.1f} | {cost.spent.memory_mib:.0f}"
                f" | {cost.connections:.0f} | {cost.processes:.0f} |"
            )
    return rows


def measure_all(
    hosts: int, chosen: argparse.Namespace, until: float
) -> dict[str, list[tuple[Cost, ...]]]:
    """All tools in turns; after the deadline no new turn begins."""
    runs, forks = int(chosen.runs), int(chosen.forks)
    taken: dict[str, list[tuple[Cost, ...]]] = {tool: [] for tool in (RAILYARD, *chosen.peers)}
    for number in range(runs):
        for tool, costs in taken.items():
            if time.monotonic() > until:
                return taken
            _say(f"{hosts} hosts, run {number + 1} of {runs}: {tool}")
            costs.append(measure(tool, hosts, forks))
    return taken


def write_page(lines: Sequence[str]) -> None:
    """Put the table between the marks of the page."""
    head, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, tail = rest.partition(END)
    PAGE.write_text(f"{head}{BEGIN}\n" + "\n".join(lines) + f"\n{END}{tail}")


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


COLUMNS: Final = (
    "Hosts", "Phase", "Tool", "Seconds", "Ratio", "CPU s of the tool", "Peak MiB of the tool",
    "Connections a host", "Processes a host",
)  # fmt: skip
HEAD: Final = (
    f"| {' | '.join(COLUMNS)} |",
    "|---|---|---|---|---|---|---|---|---|",
)


def main() -> None:
    """Measure, print the table, and write it into the page if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, nargs="+", default=[10])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--forks", type=int, default=32)
    parser.add_argument("--minutes", type=float, default=600.0)
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=PEERS)
    parser.add_argument("--write", action="store_true")
    chosen = parser.parse_args()
    install_peers()
    until = time.monotonic() + 60 * chosen.minutes
    day = time.strftime("%Y-%m-%d")
    runs = f"Median of up to {chosen.runs} runs, {chosen.forks} hosts at a time"
    lines: list[str] = [f"{runs}, {len(os.sched_getaffinity(0))} cores, {day}.", "", *HEAD]
    for hosts in chosen.hosts:
        lines += table(hosts, measure_all(hosts, chosen, until))
    sys.stdout.write("\n".join(lines) + "\n")
    if chosen.write:
        write_page(lines)


if __name__ == "__main__":
    main()
