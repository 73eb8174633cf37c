"""Several switches at once: Railyard beside a plain netmiko loop, on the same emulators.

    make bench   (or .venv/bin/python -m bench.switches [--switches 8] [--ports 32] [--runs 5])

Both bring the switches of a factory to the same configuration, then do it once more with nothing to
do, then after one port's MTU was changed by hand. The loop is what many sites have: one thread a
switch, `show running-config` for the record, all lines by `send_config_set`, `configuration write`.
It reads nothing back. Medians of all runs, each on new switches.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Final, cast

from netmiko.mellanox.mellanox_mlnxos_ssh import MellanoxMlnxosSSH
from paramiko import Transport

from bench.emulators import PASSWORD, USER, switch_config
from components.core.errors import Bug
from components.core.record import record
from components.fabric import device
from components.fabric.state import EcnState, PortState, SwitchState
from components.fabric.systems import system_of
from components.fabric.systems.base import flatten
from components.fabric.targets import target_of_apply
from components.remote.step import Endpoint, env_name
from lab import keys

ROOT: Final = Path(__file__).parents[1]
SECRET: Final = "switch_password"  # noqa: S105 - the name of a secret
PHASES: Final = ("from the factory", "nothing to do", "one MTU changed by hand")


@record
class Cost:
    """What one phase took."""

    seconds: float
    lines: int
    sessions: int


@record
class Job:
    """What one tool is to bring one switch to."""

    endpoint: Endpoint
    desired: SwitchState
    folder: Path
    """For files of the tool."""

    def request(self, **more: object) -> str:
        """The stdin of `railyard device switch`."""
        request = {
            "endpoint": asdict(self.endpoint),
            "os": "onyx",
            "desired": self.desired.model_dump(mode="json"),
        }
        return json.dumps(request | more)


@record
class Fleet:
    """Running emulators, and how to ask what they were sent."""

    endpoints: tuple[Endpoint, ...]
    ask: Callable[[], tuple[int, int]]


def wanted_state(ports: int) -> SwitchState:
    """Lossy RoCE on every port of an SN2700, as the DeepOps example has it."""
    port = PortState(
        admin_up=True,
        mtu_bytes=9216,
        mode="trunk",
        trunk_vlans=(111,),
        trust="L3",
        ecn={3: EcnState(min_kib=150, max_kib=1500)},
        strict_classes=(6,),
    )
    return SwitchState(vlans=(111,), ports={f"1/{number + 1}": port for number in range(ports)})


@contextmanager
def running_fleet(count: int, ports: int) -> Generator[Fleet, None, None]:
    """New switches, in a process of their own: what they cost is not ours."""
    with tempfile.TemporaryDirectory() as folder:
        child = subprocess.Popen(
            [sys.executable, "-m", "bench.emulators", str(count), folder, str(ports)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        with child:
            reader, writer = child.stdout, child.stdin
            if reader is None or writer is None:
                raise Bug("the emulators were started without pipes")

            def ask() -> tuple[int, int]:
                writer.write("\n")
                writer.flush()
                answer = cast("dict[str, int]", json.loads(reader.readline()))
                return answer["lines"], answer["sessions"]

            found = cast("list[int]", json.loads(reader.readline()))
            yield Fleet(tuple(_endpoint(number, port) for number, port in enumerate(found)), ask)
            writer.close()


def _endpoint(number: int, port: int) -> Endpoint:
    config = switch_config(number)
    return Endpoint(
        device=config.name,
        kind="switch",
        address=config.address,
        port=port,
        user=USER,
        host_key=keys.host_key(config.host_key_seed).public_openssh,
        password_secret=SECRET,
    )


def railyard(job: Job) -> None:
    """What one apply step of an update does.

    The read-only step before the first apply, the baseline, is not the loop's work, so it is taken
    beforehand.
    """
    baseline = json.loads((job.folder / f"{job.endpoint.device}.baseline.json").read_text())
    device.run_apply(job.request(baseline=baseline), {env_name(SECRET): PASSWORD})


def take_baseline(job: Job) -> None:
    """What the switch had before anybody touched it."""
    taken = device.run_baseline(job.request(), {env_name(SECRET): PASSWORD})
    (job.folder / f"{job.endpoint.device}.baseline.json").write_text(taken)


class _KeyboardLogin(Transport):
    """Logs in by keyboard-interactive, as Railyard does: a switch may offer no plain password."""

    def auth_password(
        self, username: str, password: str, *_more: object, **_named: object
    ) -> list[str]:
        return self.auth_interactive(username, lambda _title, _text, asked: [password] * len(asked))


class _PlainOnyx(MellanoxMlnxosSSH):
    """netmiko's own session; only its login is ours."""

    def _connect_params_dict(self) -> dict[str, object]:
        return {**super()._connect_params_dict(), "transport_factory": _KeyboardLogin}


def plain_loop(job: Job) -> None:
    """The peer: everything is sent, every time."""
    endpoint, desired, driver = job.endpoint, job.desired, system_of("onyx")
    factory = driver.factory_state(tuple(desired.ports))
    lines = flatten(driver.plan_changes(factory, target_of_apply(factory, desired)))
    known = job.folder / f"{endpoint.device}.known_hosts"
    known.write_text(f"[{endpoint.address}]:{endpoint.port} {endpoint.host_key}\n")
    with _PlainOnyx(
        host=endpoint.address,
        port=endpoint.port,
        username=USER,
        password=PASSWORD,
        ssh_strict=True,
        alt_host_keys=True,
        alt_key_file=str(known),
    ) as connection:
        connection.enable()
        connection.send_command("show running-config", read_timeout=60)
        connection.send_config_set(list(lines), read_timeout=60, exit_config_mode=False)
        connection.send_command("configuration write", read_timeout=60)


def change_by_hand(endpoint: Endpoint) -> None:
    """A person sets the MTU of one port back."""
    with device.open_session(
        endpoint, system_of("onyx").session, {SECRET: PASSWORD}, 60
    ) as session:
        for line in (
            "enable",
            "configure terminal",
            "interface ethernet 1/1 shutdown",
            "interface ethernet 1/1 mtu 1500",
            "interface ethernet 1/1 no shutdown",
        ):
            session.run(line)


Tool = Callable[[Job], None]


PEER: Final = "netmiko loop"
TOOLS: Final[dict[str, Tool]] = {"Railyard": railyard, PEER: plain_loop}


def measure(
    tool: Tool, switches: int, desired: SwitchState, at_once: int | None = None
) -> tuple[Cost, ...]:
    """All phases on new switches; `at_once` of them at a time, or all."""
    with (
        running_fleet(switches, len(desired.ports)) as fleet,
        tempfile.TemporaryDirectory() as folder,
        ThreadPoolExecutor(max_workers=at_once or switches) as pool,
    ):
        jobs = [Job(endpoint, desired, Path(folder)) for endpoint in fleet.endpoints]
        for job in jobs:
            take_baseline(job)
        costs: list[Cost] = []
        for phase in PHASES:
            if phase == PHASES[2]:
                change_by_hand(fleet.endpoints[0])
            fleet.ask()
            begun = time.perf_counter()
            list(pool.map(tool, jobs))
            costs.append(Cost(time.perf_counter() - begun, *fleet.ask()))
        return tuple(costs)


def median(costs: Sequence[Cost]) -> Cost:
    """Of each figure on its own."""
    return Cost(
        statistics.median(cost.seconds for cost in costs),
        round(statistics.median(cost.lines for cost in costs)),
        round(statistics.median(cost.sessions for cost in costs)),
    )


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def main() -> None:
    """Measure both in turns, so that both have the same neighbours, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--switches", type=int, default=8)
    parser.add_argument("--ports", type=int, default=32)
    parser.add_argument("--runs", type=int, default=5)
    chosen = parser.parse_args()
    desired = wanted_state(chosen.ports)
    runs: dict[str, list[tuple[Cost, ...]]] = {name: [] for name in TOOLS}
    for _ in range(chosen.runs):
        for name, tool in TOOLS.items():
            runs[name].append(measure(tool, chosen.switches, desired))
    _say(f"{chosen.switches} switches, {chosen.ports} ports each, median of {chosen.runs} runs,")
    _say(f"{len(os.sched_getaffinity(0))} cores.")
    _say("Lines and sessions are those of all switches together.\n")
    _say("| Phase | Tool | Seconds | Lines | Sessions | Ratio of seconds |")
    _say("|---|---|---|---|---|---|")
    for number, phase in enumerate(PHASES):
        peer = median([run[number] for run in runs[PEER]])
        for name, taken in runs.items():
            cost = median([run[number] for run in taken])
            _say(
                f"| {phase} | {name} | {cost.seconds:.1f} | {cost.lines} | {cost.sessions}"
                f" | {cost.seconds / peer.seconds:.2f} |"
            )


if __name__ == "__main__":
    main()
