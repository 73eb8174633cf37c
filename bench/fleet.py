"""A fleet through the real engine: emulated hosts over real SSH, from the first update on.

    make bench-fleet   (or .venv/bin/python -m bench.fleet [--hosts 100 1000] [--way no]
                        [--planned 10000] [--kill] [--leave-out bare looks])

Each size is one stack with the hosts of a site, which are new. The bare engine has as many
resources: for each host one plain command, which runs the same script with the same input on
another set of new hosts, where the scripts lie already. Both reach the same state, which a look at
every host proves. With `--kill` an update ends by SIGKILL when half of the hosts have changed, and
the same update runs again.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, cast

from bench.converge import each_host, send_tools
from bench.engine_cost import pin_site
from bench.host_room import BLOCK, ROOT, STACK, HostRoom, fleet_document, running_room
from bench.hosts import LOOKS_AT_ONCE, verify
from bench.relay import Link, running_links
from bench.runner import Spent, run_measured
from bench.site_cost import report as report_site
from bench.state_cost import WAYS, exported_urns
from components.core.errors import UsageError
from components.core.record import record
from components.drift.applied import Applied
from components.drift.device_drift import Unreachable
from components.hosts.host_plan import HostPlan
from components.model.cluster import ClusterSpec
from components.plan.make import make_plan
from components.remote.step import render_step_command
from components.update.observe import observe_site
from lab.engine.env import EnvSettings, plan_environment, write_env
from lab.engine.install import ensure_engine

RELAY_BLOCK: Final = BLOCK + 1
"""Second part of the addresses of a relay that adds a round-trip time."""
ROUND_TRIPS_MS: Final = (0, 1, 20)
DRIFT: Final = ("qos-lost",)
DEADLINE_S: Final = 3_600.0
POLL_S: Final = 0.05
OURS: Final = """\
from pathlib import Path

from stacks.guard import guarded
from stacks.program import compose

compose(guarded(Path("site.json"), parts=["hosts"]))
"""
BARE: Final = """\
import json
import pulumi
from pulumi_command import local, remote

key = pulumi.Config("railyard").require_secret("ssh_private_key")
work = json.load(open("work.json"))
for host in work["hosts"]:
    connection = remote.ConnectionArgs(**host["connection"], private_key=key)
    remote.Command(
        host["name"], connection=connection, create=host["create"], stdin=host["stdin"],
        logging=remote.Logging.NONE, add_previous_output_in_env=False,
    )
for number in range(work["more"]):
    local.Command(f"more-{number:05d}", create="true")
"""
COLUMNS: Final = "| Hosts | Phase | Tool | Seconds | CPU s | Peak MiB | Connections | MiB written |"


@record
class Fleet:
    """A stack with a file backend of its own, on hosts that run."""

    folder: Path
    pulumi: str
    environment: Mapping[str, str]
    room: HostRoom

    def call(self, *words: str, stdin: str = "") -> str:
        """Run a command of the engine to its end.

        Raises:
            UsageError: It failed; the text has its own words.
        """
        done = subprocess.run(
            [self.pulumi, *words, "--non-interactive"],
            cwd=self.folder,
            env=dict(self.environment),
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise UsageError(f"`pulumi {' '.join(words)}` failed:\n{done.stdout}{done.stderr}")
        return done.stdout

    def resources(self) -> tuple[str, ...]:
        """The names of those in the state."""
        urns = exported_urns(self.call("stack", "export"))
        return tuple(urn.rpartition("::")[2] for urn in urns)

    def state_kib(self) -> float:
        """The size of the state, which each checkpoint writes whole."""
        backend = Path(self.environment["PULUMI_BACKEND_URL"].removeprefix("file://"))
        return next(backend.rglob(f"{STACK}.json")).stat().st_size / 1024

    def command(self, word: str) -> list[str]:
        """`preview` or `up`, without questions."""
        sure = () if word == "preview" else ("--yes", "--skip-preview")
        return [self.pulumi, word, *sure, "--non-interactive", "--suppress-outputs"]

    def row(self, phase: str, tool: str, word: str) -> tuple[str, Spent]:
        """One `preview` or `up` as a row of the table."""
        before = self.room.counted().connections
        spent = run_measured(self.command(word), self.environment, self.folder)
        connections = self.room.counted().connections - before
        return (
            f"| {phase} | {tool} | {spent.seconds:.1f} | {spent.cpu_seconds:.1f}"
            f" | {spent.memory_mib:.0f} | {connections} | {spent.written_mib:.1f} |"
        ), spent


def begin(home: Path, room: HostRoom, program: str, way: str) -> Fleet:
    """Make a project and a stack of the lab."""
    settings = EnvSettings(home, "lab", Path(sys.executable), ensure_engine())
    write_env(settings)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    base = {"PATH": path, "HOME": str(home), "LANG": "C.UTF-8", "PYTHONPATH": str(ROOT)}
    folder = home / "program"
    folder.mkdir()
    (folder / "Pulumi.yaml").write_text("name: railyard\nruntime: python\n")
    (folder / "__main__.py").write_text(program)
    (folder / "lab").symlink_to(ROOT / "lab")  # the chart of the site is there
    environment = plan_environment(settings, base) | WAYS[way]
    fleet = Fleet(folder, str(settings.bin / "pulumi"), environment, room)
    fleet.call("stack", "init", STACK)
    fleet.call("config", "set", "railyard:lab", "true")
    key = room.secrets["ssh_private_key"]
    fleet.call("config", "set", "--secret", "railyard:ssh_private_key", stdin=key)
    return fleet


def write_site(fleet: Fleet, hosts: int) -> None:
    """Write the site of the stack, and its lock."""
    site = fleet.folder / "site.json"
    site.write_text(json.dumps(fleet_document(hosts), indent=1))
    pin_site(site)


def write_work(fleet: Fleet, plans: Sequence[HostPlan], resources: int) -> None:
    """Write what the bare engine does: a command for each host, and more without a host."""
    hosts = [_bare_host(plan) for plan in plans]
    work = {"hosts": hosts, "more": resources - len(hosts) - 1}
    (fleet.folder / "work.json").write_text(json.dumps(work))


def _bare_host(plan: HostPlan) -> dict[str, object]:
    end, step = plan.endpoint, plan.converge
    login = {"host": end.address, "port": end.port, "user": end.user, "host_key": end.host_key}
    create = render_step_command(step, step.apply)
    return {"name": plan.name, "connection": login, "create": create, "stdin": step.desired}


def looks(room: HostRoom, hosts: int) -> Iterator[str]:
    """Read every host as a preview does, with three round-trip times."""
    addresses = [plan.endpoint for plan in room.plans[:hosts]]
    with tempfile.TemporaryDirectory() as folder:
        key = Path(folder) / "key"
        key.write_text(room.secrets["ssh_private_key"])
        for round_trip in ROUND_TRIPS_MS:
            block = RELAY_BLOCK if round_trip else BLOCK
            site = Path(folder) / "site.json"
            site.write_text(json.dumps(fleet_document(hosts, block)))
            links = (
                [
                    Link(
                        end.address.replace(f".{BLOCK}.", f".{block}.", 1),
                        end.port,
                        end.address,
                        end.port,
                    )
                    for end in addresses
                ]
                if round_trip
                else []
            )
            with running_links(links, round_trip / 1000):
                command = [sys.executable, "-m", "bench.fleet", "--look", str(site), str(key)]
                before = room.counted().connections
                spent = run_measured(command, os.environ)
            connections = room.counted().connections - before
            yield (
                f"| {hosts} | look, {round_trip} ms round trip | Railyard | {spent.seconds:.1f}"
                f" | {spent.cpu_seconds:.1f} | {spent.memory_mib:.0f} | {connections} | 0 |"
            )


def look_at_all(site: Path, key: Path) -> None:
    """Load and plan a site, and read its hosts.

    Raises:
        UsageError: A host did not answer.
    """
    spec = ClusterSpec.model_validate(json.loads(site.read_text()))
    plan = make_plan(spec, STACK).only(["hosts"])
    seen = observe_site(plan, {"ssh_private_key": key.read_text()}, Applied())
    silent = [name for name, facts in seen.devices.items() if isinstance(facts, Unreachable)]
    if silent:
        raise UsageError(f"{len(silent)} of {len(plan.hosts)} hosts did not answer: {silent[:5]}")


def play(hosts: int, way: str, leave_out: Sequence[str], root: Path) -> Iterator[str]:
    """One size: Railyard's phases, then the bare engine's first update."""
    with running_room(hosts + 1, root / "lab", fleet_document(hosts + 1)) as room:
        fleet = begin(_new(root / "ours"), room, OURS, way)
        write_site(fleet, hosts)
        if "looks" not in leave_out:
            yield from looks(room, hosts)
        yield f"| {hosts} {fleet.row('preview', 'Railyard', 'preview')[0]}"
        row, ours = fleet.row("first update", "Railyard", "up")
        verify(room, room.plans[:hosts])
        resources = len(fleet.resources())
        yield f"| {hosts} {row} {resources} resources, {fleet.state_kib():.0f} KiB of state"
        yield f"| {hosts} {fleet.row('nothing to do', 'Railyard', 'up')[0]}"
        write_site(fleet, hosts + 1)
        yield f"| {hosts} {fleet.row('one host added', 'Railyard', 'up')[0]}"
        room.fault(room.plans[hosts // 2].name, *DRIFT)
        yield f"| {hosts} {fleet.row('one host drifted', 'Railyard', 'up')[0]}"
        verify(room, room.plans)
    if "bare" not in leave_out:
        row, bare = play_bare(hosts, resources, root / "bare")
        ratio, cpu = ours.seconds / bare.seconds, ours.cpu_seconds / bare.cpu_seconds
        yield f"| {hosts} {row} Railyard takes {ratio:.2f} of its time, {cpu:.2f} of its CPU"


def play_bare(hosts: int, resources: int, root: Path) -> tuple[str, Spent]:
    """The first update of the bare engine, without checkpoints."""
    with running_room(hosts, root / "lab", fleet_document(hosts)) as room:
        asyncio.run(
            each_host(room.plans, lambda plan: send_tools(plan, room.secrets), LOOKS_AT_ONCE)
        )
        fleet = begin(_new(root / "home"), room, BARE, "no")
        write_work(fleet, room.plans, resources)
        row = fleet.row("first update", "bare engine", "up")
        verify(room, room.plans)
        return row


def kill(hosts: int, way: str, root: Path) -> Iterator[str]:
    """A first update that dies when half of the hosts have changed, and the same one again."""
    with running_room(hosts, root / "lab", fleet_document(hosts)) as room:
        fleet = begin(_new(root / "ours"), room, OURS, way)
        write_site(fleet, hosts)
        changed = _killed_update(fleet, hosts)
        known = [name for name in fleet.resources() if name in _steps(room)]
        yield f"killed: {changed} connections served; the state has {len(known)} of {hosts} hosts"
        try:
            fleet.call("preview")
        except UsageError as error:
            yield f"the next run: {str(error).splitlines()[-1]}"
        fleet.call("cancel", "--yes", STACK)
        yield f"| {hosts} {fleet.row('after the kill', 'Railyard', 'up')[0]}"
        verify(room, room.plans)
        known = [name for name in fleet.resources() if name in _steps(room)]
        yield f"recovered: all hosts are as planned; the state has {len(known)} of {hosts} hosts"
        yield f"| {hosts} {fleet.row('nothing to do after it', 'Railyard', 'up')[0]}"


def _steps(room: HostRoom) -> set[str]:
    return {plan.converge.name for plan in room.plans}


def _killed_update(fleet: Fleet, hosts: int) -> int:
    """Kill an update once half of the hosts were told to change; say how many connections came.

    Each host is read over one connection, and changed over another.
    """
    until, before = time.monotonic() + DEADLINE_S, fleet.room.counted().connections
    log = fleet.folder / "killed.log"
    with (
        log.open("w") as output,
        subprocess.Popen(
            fleet.command("up"),
            cwd=fleet.folder,
            env=dict(fleet.environment),
            stdout=output,
            stderr=output,
            start_new_session=True,
        ) as running,
    ):
        came = 0
        while running.poll() is None and time.monotonic() < until and came < 3 * hosts // 2:
            time.sleep(POLL_S)  # noqa: TID251 - until the deadline of the loop
            came = fleet.room.counted().connections - before
        if running.poll() is not None:
            raise UsageError(f"the update ended before it was killed:\n{log.read_text()[-2000:]}")
        os.killpg(running.pid, signal.SIGKILL)
    return came


def _new(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(arguments: Sequence[str] | None = None) -> None:
    """Play each size, and print each row as soon as it is there."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--hosts", type=int, nargs="*", default=[100, 1000])
    parser.add_argument("--planned", type=int, nargs="*", default=[100, 1000, 10_000])
    parser.add_argument("--way", choices=tuple(WAYS), default="no", help="checkpoints")
    parser.add_argument("--kill", action="store_true")
    parser.add_argument("--leave-out", nargs="*", choices=("bare", "looks"), default=[])
    parser.add_argument("--look", nargs=2, type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.look:
        look_at_all(*cast("list[Path]", chosen.look))
        return
    with tempfile.TemporaryDirectory(prefix="ry", dir="/var/tmp") as folder:
        for hosts in chosen.planned:
            _say(report_site(hosts, 2, Path(folder)))
        _say(f"{COLUMNS}\n|---|---|---|---|---|---|---|---|")
        for hosts in chosen.hosts:
            root = Path(folder) / str(hosts)
            size = (
                kill(hosts, chosen.way, root)
                if chosen.kill
                else play(hosts, chosen.way, chosen.leave_out, root)
            )
            for row in size:
                _say(row)


if __name__ == "__main__":
    main()
