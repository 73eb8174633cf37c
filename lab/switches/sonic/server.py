"""`SonicSwitch`: one emulated SONiC switch behind a real SSH server."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final, cast

from pydantic import JsonValue

from lab.switches.front import front_of
from lab.switches.logins import LinuxSwitch, serve_bash
from lab.switches.plain_faults import by_hand, cable, is_on, pace, sets
from lab.switches.sonic.cli import Faults, Session
from lab.switches.sonic.config import (
    RELEASE,
    SAVED_FILE,
    Db,
    Preset,
    Stored,
    copy_of,
    factory_db,
    factory_stored,
    platform_of,
)
from lab.switches.sonic.database import Database
from lab.switches.sonic.tools import CommandError, dump
from lab.switches.sonic.view import router_view, view_port
from lab.switches.ssh_switch import Process, load_stored
from lab.switches.text import numbers
from lab.views import PortView, RouterView, SwitchConfig

_TRUST_MAPS: Final = {
    "L2": (False, True),
    "L3": (True, False),
    "both": (True, True),
    "port": (False, False),
}
"""Whether a port has a map of DSCPs, and a map of the tag's priorities."""


def _set_trust(switch: SonicSwitch, values: list[str]) -> str:
    port, (dscp, dot1p) = values[0], _TRUST_MAPS[values[1]]
    switch.require_port(port)
    database = switch.database
    same = {str(n): str(n) for n in range(8)}
    for wanted, field, table, rows in (
        (dscp, "dscp_to_tc_map", "DSCP_TO_TC_MAP", {str(n): str(n // 8) for n in range(64)}),
        (dot1p, "dot1p_to_tc_map", "DOT1P_TO_TC_MAP", same),
    ):
        if wanted:
            database.put(table, "BY_HAND", rows)
            database.merge("PORT_QOS_MAP", port, {field: "BY_HAND"})
        else:
            database.delete_field("PORT_QOS_MAP", port, field)
    return f"{port} trusts {values[1]}"


def _ignore(switch: SonicSwitch, values: list[str]) -> str:
    switch.faults.ignore = [] if values == ["off"] else [" ".join(values)]
    return f"lines that hold {switch.faults.ignore} are taken and do nothing"


def _lock(switch: SonicSwitch, values: list[str]) -> str:
    switch.stored.lock_owner = "" if values[0] == "off" else values[0]
    return f"the reload lock is held by {switch.stored.lock_owner or 'nobody'}"


def _first_boot(switch: SonicSwitch, values: list[str]) -> str:
    preset: Preset = "t1" if values[0] == "t1" else "l1"
    switch.first_boot(preset)
    return f"{switch.name} boots as from the factory, with the preset {preset}"


_FAULTS: Final[dict[str, Callable[[SonicSwitch, list[str]], str]]] = {
    "mtu PORT BYTES": by_hand("sudo config interface mtu {0} {1}"),
    "trust PORT L2|L3|both|port": _set_trust,
    "ignore TEXT…|off": _ignore,
    "lock USER|off": _lock,
    "sudo-password on|off": sets("sudo_password", is_on, "sudo asks for a password: {}"),
    "cable PORT HOST NIC|off": cable,
    "factory t1|l1": _first_boot,
    "pace FACTOR|off": pace("real"),
}


_PAM4_LANE_MBIT_S: Final = 50_000
"""Lanes of 50 Gbit/s and more only allow Reed-Solomon (IEEE 802.3bs, 802.3cd)."""


class SonicSwitch(LinuxSwitch[Stored, Faults]):
    """One emulated switch: state on disk, bash over SSH, and faults on demand."""

    own_faults = _FAULTS
    host_mac = "24:8a:07:00:00:01"
    planted_refusal = "Error: refused: {}"  # planted, not modelled
    writes = re.compile(r"sudo\b")
    denial = "sudo: a password is required"

    def __init__(self, config: SwitchConfig, state_path: Path) -> None:
        """Load the state of the last run, or the factory's; a UsageError for an unknown model."""
        platform_of(config.model)
        stored = load_stored(Stored, state_path, lambda: factory_stored(config.name, config.model))
        super().__init__(config, state_path, stored, Faults())
        self.holders: set[Session] = set()
        self.platform = platform_of(config.model)
        self.database = Database(self.stored, self.platform, self.branch)

    @property
    def name(self) -> str:
        """Host name."""
        return self._config.name

    @property
    def release(self) -> str:
        """The running release, a build of a branch."""
        asked = self._config.release
        if asked.isdecimal():
            return f"SONiC.{asked}.1-3f2b7c1e0"
        return f"SONiC.{asked.removeprefix('SONiC.')}" if asked else RELEASE

    @property
    def branch(self) -> int:
        """The branch of the release, for example 202405."""
        return numbers(self.release)[0]

    @property
    def ports(self) -> Collection[str]:
        """The rows of `PORT`."""
        return self.stored.running["PORT"]

    def up(self, port: str) -> bool:
        """Whether a port is up in CONFIG_DB, cabled, and its cable is not pulled."""
        fields = self.stored.running["PORT"].get(port, {})
        return fields.get("admin_status", "down") == "up" and self.has_cable(port)

    def supported_speeds(self, port: str) -> list[str]:
        """`supported_speeds` of STATE_DB, in Mbit/s: those of the model, by the port's lanes."""
        lanes = self.stored.running["PORT"][port].get("lanes", "").split(",")
        most = self.platform.speed_gbit_s * len(lanes) // self.platform.lanes
        speeds = front_of(self._config.model, "sonic").speeds_gbit_s
        return [str(speed * 1000) for speed in speeds if speed <= most]

    def supported_fecs(self, port: str) -> list[str]:
        """`supported_fecs` of STATE_DB; it follows IEEE, as the chip's own list was not found."""
        fields = self.stored.running["PORT"][port]
        lane_mbit_s = int(fields.get("speed", "0")) // len(fields.get("lanes", "").split(","))
        return ["rs"] if lane_mbit_s >= _PAM4_LANE_MBIT_S else ["rs", "fc", "none"]

    def session(self) -> Session:
        """A new login."""
        return Session(self, self._config.name, self._config.user)

    async def serve(self, process: Process) -> None:
        """A shell, or one command."""
        greeting = (
            f"Linux {self._config.name} 6.1.0-11-2-amd64 #1 SMP x86_64\n"
            "Unauthorized access and/or use are prohibited.\n\n"
        )
        session = self.session()
        try:
            await serve_bash(process, session, self.faults, greeting)
        finally:
            session.leave()  # the shell ends, and releases its lock

    def save_configuration(self, path: str) -> None:
        """Write the running configuration to a file, which a full disk cuts short."""
        saved = path == SAVED_FILE
        if self.faults.disk_full:
            if saved:
                self.stored.saved = {}
            raise CommandError("OSError: [Errno 28] No space left on device", 1)
        if saved:
            self.stored.saved = copy_of(self.stored.running)
        else:
            self.stored.files[path] = dump(self.stored.running)
        self.commit()

    def load_configuration(self, db: Db) -> None:
        """Start again with this configuration."""
        self.database.load(db)
        self.commit()

    def reload(self) -> None:
        """Boot again: sessions end, and unsaved changes are lost."""
        self.load_configuration(self.stored.saved)
        self.drop_sessions()

    reboot = reload

    def first_boot(self, preset: Preset) -> None:
        """Begin with a preset of config_samples.py, and drop the old state."""
        self.stored.saved = factory_db(self.name, self.platform, preset)
        self.reload()

    def run_line(self, line: str) -> str:
        """Run a line as a person at the console would; nothing is saved."""
        return self.session().run(line)

    def refusal_of(self, line: str) -> str | None:
        """Run a line like a typed one; an exit status other than 0 is a refusal."""
        session = self.session()
        output = session.run(line)
        return output.strip().splitlines()[-1] if session.status else None

    def snapshot(self) -> JsonValue:
        """The running and the saved database in canonical form: no counters, no clocks."""
        parts = {"running": self.stored.running, "saved": self.stored.saved}
        return cast("JsonValue", json.loads(json.dumps(parts, sort_keys=True)))

    @property
    def in_force(self) -> object:
        """A copy of the state that ports and routes follow, because rows change in place."""
        ports = tuple(self.port_view(port) for port in sorted(self.cabled))
        return self.router_view(), ports, {**self.recabled}

    def router_view(self) -> RouterView:
        """The switch's view of routing."""
        return router_view(self.name, self.stored)

    def port_view(self, port: str) -> PortView:
        """The settings that affect a RoCE packet on this port; a UsageError if it is unknown."""
        self.require_port(port)
        return view_port(self, port)
