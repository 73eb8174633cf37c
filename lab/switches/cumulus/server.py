"""`CumulusSwitch`: one emulated Cumulus Linux switch behind a real SSH server."""

from __future__ import annotations

import copy
import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, cast

from pydantic import JsonValue

from lab.switches.cumulus import show
from lab.switches.cumulus.cli import Session
from lab.switches.cumulus.config import (
    BRIDGE,
    ECN_KIB,
    Stored,
    Tree,
    admin_up,
    child,
    expand,
    mtu_bytes,
    port_trust,
    roce_mode,
    router_view,
)
from lab.switches.cumulus.conflicts import fastest_gbit_s, ports_of
from lab.switches.cumulus.revisions import Revisions
from lab.switches.cumulus.values import NvueError
from lab.switches.front import front_of
from lab.switches.logins import LinuxSwitch, serve_bash
from lab.switches.onyx.config import Mode
from lab.switches.plain_faults import PlainFaults, by_hand, cable, pace, timer, type_by_hand
from lab.switches.ssh_switch import Process, load_stored
from lab.switches.text import numbers
from lab.views import PortView, RouterView, SwitchConfig


def _trust(switch: CumulusSwitch, values: list[str]) -> str:
    """Set an own mapping profile for the port, as the vendor's page on quality of service does."""
    port, trust = values[0], values[1]
    word = {"L2": "l2", "L3": "l3", "both": "both", "port": "port"}[trust]
    line = f"nv set qos mapping by-hand-{word} trust {word}"
    lines = f"{line}; nv set interface {port} qos mapping profile by-hand-{word}"
    return type_by_hand(switch, lines)


def _roce(switch: CumulusSwitch, values: list[str]) -> str:
    line = "nv unset qos roce" if values[0] == "none" else f"nv set qos roce mode {values[0]}"
    return type_by_hand(switch, line)


_FAULTS: Final[dict[str, Callable[[CumulusSwitch, list[str]], str]]] = {
    "mtu PORT BYTES": by_hand("nv set interface {0} link mtu {1}"),
    "trust PORT L2|L3|both|port": _trust,
    "commit-timer": timer("confirm"),
    "pace FACTOR|off": pace("real"),
    "roce none|lossless|lossy": _roce,
    "cable PORT HOST NIC|off": cable,
}


class CumulusSwitch(LinuxSwitch[Stored, PlainFaults]):
    """One emulated switch: state on disk, bash over SSH, and faults on demand."""

    own_faults = _FAULTS
    host_mac = "48:b0:2d:76:ee:8e"
    factory_release = show.RELEASE
    planted_refusal = "Error: Failure during apply"  # planted, not modelled
    writes = re.compile(r"nv (?:set|unset|config (?:apply|patch|save|detach))\b")
    denial = "Error: You do not have permission to execute that command."  # a guess

    def __init__(
        self, config: SwitchConfig, state_path: Path, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Load the state of the last run, or the factory's; a UsageError for an unknown model."""
        super().__init__(config, state_path, load_stored(Stored, state_path, Stored), PlainFaults())
        self.front = front_of(config.model, "cumulus")
        self.revisions = self.waiting = Revisions(
            self.stored, clock, self.front, self._refused_by_frr, self._auto_save
        )

    @property
    def ports(self) -> tuple[str, ...]:
        """The front panel ports."""
        return ports_of(self.stored.applied, self.front)

    def session(self) -> Session:
        """A new login."""
        return Session(self, self._config.name, self._config.user)

    async def serve(self, process: Process) -> None:
        """A shell, or one command."""
        greeting = "Welcome to NVIDIA Cumulus (R) Linux (R)\n"
        await serve_bash(process, self.session(), self.faults, greeting)

    def _refused_by_frr(self, tree: Tree) -> str | None:
        return None if self.frr is None else self.frr.take(router_view(self._config.name, tree))

    def up(self, port: str) -> bool:
        """Whether a port has link: it is cabled, not shut, and its cable is not pulled."""
        return admin_up(self.stored.applied, port) and self.has_cable(port)

    def _auto_save(self) -> bool:
        """From 5.9 on an apply saves too (NVUE reference); `enable on` became `state enabled`."""
        said = child(self.stored.applied, "system", "config", "auto-save")
        word = said.get("state", said.get("enable"))
        on = numbers(self.release) >= (5, 9) if word is None else word in {"on", "enabled"}
        if on and not self.faults.disk_full:  # what it does on a full disk is a guess
            self.stored.startup = copy.deepcopy(self.stored.applied)
        return on and not self.faults.disk_full

    def save_configuration(self) -> None:
        """Make the applied configuration the startup one; a full disk refuses (a guess)."""
        if self.faults.disk_full:
            raise NvueError("Error: No space left on device")
        self.stored.startup = copy.deepcopy(self.stored.applied)
        self.commit()

    def reload(self) -> None:
        """Boot again: sessions end, and unsaved changes are lost."""
        self.revisions.expire()  # it is no longer in force; the new state of its row is a guess
        self.stored.applied = copy.deepcopy(self.stored.startup)
        self.stored.pending = None
        self.commit()
        self.drop_sessions()

    reboot = reload

    def run_line(self, line: str) -> str:
        """Run a line as a person at the console would, and apply it; nothing is saved."""
        session = self.session()
        output = session.run(line)
        return output if session.status else output + session.run("nv config apply -y")

    def refusal_of(self, line: str) -> str | None:
        """Run a line like a typed one; returns the refusal if it does not apply."""
        output = self.run_line(line)
        return None if "applied" in output else output.strip() or "nothing changed"

    def snapshot(self) -> JsonValue:
        """The revisions in canonical form: without counters, clocks or revision numbers."""
        self.revisions.tick()
        stored = self.stored
        parts: Tree = {"applied": stored.applied, "startup": stored.startup}
        return cast("JsonValue", json.loads(json.dumps(parts, sort_keys=True)))

    def port_view(self, port: str) -> PortView:
        """The settings that affect a RoCE packet on this port; a UsageError if it is unknown."""
        self.revisions.tick()
        self.require_port(port)
        tree = self.stored.applied
        roce = roce_mode(tree)
        mode, access, allowed = _membership(tree, port)
        return PortView(
            switch=self._config.name,
            port=port,
            admin_up=admin_up(tree, port),
            oper_up=self.up(port),
            speed_gbit_s=self._speed(port),
            mtu_bytes=mtu_bytes(tree, port),
            mode=mode,
            access_vlan=access,
            allowed_vlans=allowed,
            trust=port_trust(tree, port),
            dscp_to_priority=dscp_map(tree, port),
            priority_to_tc=show.priority_to_tc(roce=roce is not None),
            # Class 0 marks without RoCE too (NVUE reference, `nv show qos congestion-control`).
            ecn_kib=own_marking(tree, port)
            or dict.fromkeys((0, show.ROCE_PRIORITY) if roce else (0,), ECN_KIB),
            pfc_priorities=frozenset((show.ROCE_PRIORITY,) if roce == "lossless" else ()),
        )

    def _speed(self, port: str) -> int:
        said = str(child(self.stored.applied, "interface", port, "link").get("speed", "auto"))
        if said.endswith("G"):
            return int(said[:-1])
        return fastest_gbit_s(self.stored.applied, self.front, port)

    @property
    def in_force(self) -> object:
        """The state that ports and routes follow; each applied revision is a new tree."""
        self.revisions.tick()
        return self.stored.applied, (*self.stored.link_down,), {**self.recabled}

    def router_view(self) -> RouterView:
        """Its view of routing: addresses of the bridge's VLANs, and the BGP of the default VRF."""
        self.revisions.tick()
        return router_view(self._config.name, self.stored.applied)


def own_marking(tree: Tree, port: str) -> dict[int, tuple[int, int]]:
    """The thresholds of the port's own profile, in KiB; empty without a profile."""
    named = child(tree, "interface", port, "qos", "congestion-control").get("profile")
    rows = child(tree, "qos", "congestion-control", str(named), "traffic-class")
    found: dict[int, tuple[int, int]] = {}
    for number in rows:
        row = child(rows, number)
        if row.get("ecn") == "enable":
            low, high = (int(str(row.get(f"{end}-threshold", 0))) for end in ("min", "max"))
            found[int(number)] = (low // 1024, high // 1024)
    return found


def dscp_map(tree: Tree, port: str) -> tuple[int, ...]:
    """The priority of each DSCP: from the port's mapping profile, else DSCP / 8."""
    named = child(tree, "interface", port, "qos", "mapping").get("profile", "default-global")
    rows = child(tree, "qos", "mapping", str(named), "dscp")
    said = {int(dscp): child(rows, dscp).get("switch-priority") for dscp in rows}
    return tuple(cast("int", said.get(dscp, dscp // 8)) for dscp in range(64))


def _membership(tree: Tree, port: str) -> tuple[Mode, int, frozenset[int]]:
    """Mode, untagged VLAN and tagged VLANs; a port outside the bridge is an empty trunk."""
    member = show.own_members(tree, port)
    if member is None:
        return "trunk", 0, frozenset()
    if "access" in member:
        return "access", cast("int", member["access"]), frozenset()
    own = (
        child(member, "vlan")
        if "vlan" in member
        else child(tree, "bridge", "domain", BRIDGE, "vlan")
    )
    tagged = frozenset(int(vlan) for key in own for vlan in expand(key))
    native = member.get("untagged", 1)  # the bridge's own untagged VLAN is 1 (the vendor's guide)
    if native == "none":
        return "trunk", 0, tagged
    return "hybrid", cast("int", native), tagged
