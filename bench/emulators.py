"""Emulated Onyx switches in a process of their own, which count what they are sent.

`python -m bench.emulators COUNT FOLDER PORTS` prints the ports of SSH, then for each line on stdin
what every session together was sent since the last one. It ends with its stdin.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Final

from lab.switches.onyx.cli import Session
from lab.switches.onyx.config import Config, PortConfig, Stored
from lab.switches.onyx.server import OnyxSwitch
from lab.switches.ssh_switch import Process
from lab.views import SwitchConfig

SEED: Final = "bench/leaf"
USER: Final = "admin"
PASSWORD: Final = "admin"  # noqa: S105 - an emulator's, on loopback
MODEL: Final = "SN2700"


class _Counted(OnyxSwitch):
    """A switch that counts its sessions."""

    opened = 0

    async def serve(self, process: Process) -> None:
        """One more session."""
        _Counted.opened += 1
        await super().serve(process)


_lines = 0
_run = Session.run


def _counted(self: Session, line: str) -> str:
    global _lines  # noqa: PLW0603 - one count of one process
    _lines += bool(line.strip())  # with empty ones a tool wakes a slow prompt, as often as it likes
    return _run(self, line)


def switch_config(number: int) -> SwitchConfig:
    """The lab's view of one of the switches."""
    return SwitchConfig(
        name=f"leaf-{number:02}",
        os="onyx",
        model=MODEL,
        address=f"127.211.0.{number + 1}",
        port=0,
        user=USER,
        password=PASSWORD,
        host_key_seed=f"{SEED}-{number:02}",
    )


def untouched(config: SwitchConfig, ports: int) -> Stored:
    """A new switch with so many ports, which no model of the lab may have."""
    new = Config(
        hostname=config.name, ports={f"1/{number + 1}": PortConfig() for number in range(ports)}
    )
    return Stored(running=new, saved=new.model_copy(deep=True))


def _say(answer: object) -> None:
    sys.stdout.write(f"{json.dumps(answer)}\n")
    sys.stdout.flush()


async def main(count: int, folder: Path, ports: int) -> None:
    """Listen until stdin ends."""
    global _lines
    Session.run = _counted
    configs = [switch_config(number) for number in range(count)]
    paths = [folder / f"{config.name}.json" for config in configs]
    for config, path in zip(configs, paths, strict=True):
        path.write_text(untouched(config, ports).model_dump_json())
    switches = [_Counted(*each) for each in zip(configs, paths, strict=True)]
    for switch in switches:
        await switch.start()
    _say([switch.ssh_port for switch in switches])
    loop = asyncio.get_running_loop()
    while await loop.run_in_executor(None, sys.stdin.readline):
        _say({"lines": _lines, "sessions": _Counted.opened})
        _lines, _Counted.opened = 0, 0
    for switch in switches:
        await switch.stop()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])))
