"""`CumulusSwitch`: one emulated Cumulus Linux switch behind a real SSH server."""

from __future__ import annotations

import asyncio
import copy
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, cast

import asyncssh
from pydantic import JsonValue

from components.errors import UsageError
from lab.switches.cumulus import show
from lab.switches.cumulus.cli import Faults, Session
from lab.switches.cumulus.config import (
    BRIDGE,
    ECN_KIB,
    Stored,
    Tree,
    admin_up,
    child,
    mtu_bytes,
    port_names,
    port_trust,
    roce_mode,
)
from lab.switches.cumulus.nvue import NvueError, expand
from lab.switches.cumulus.revisions import Revisions
from lab.switches.onyx.config import PORTS_BY_MODEL, Mode, PortCounters
from lab.switches.ssh_switch import Process, SshSwitch, cut_connection
from lab.views import PortView, SwitchConfig

FAULT_HELP = (
    "mtu PORT BYTES | trust PORT L2|L3|both|port | link-down PORT on|off | cli LINE… | "
    "reject TEXT…|off | drop LINES|off | slow SECONDS | sessions COUNT|off | "
    "disk-full on|off | commit-timer | roce none|lossless|lossy | cable PORT HOST NIC|off"
)


class _Login(asyncssh.SSHServer):
    """A password for the one user; Cumulus also takes keys, which the lab's user has none of."""

    def __init__(self, config: SwitchConfig) -> None:
        self._config = config

    def begin_auth(self, username: str) -> bool:
        del username
        return True

    def password_auth_supported(self) -> bool:
        return True

    def public_key_auth_supported(self) -> bool:
        return False

    def kbdint_auth_supported(self) -> bool:
        return False

    def validate_password(self, username: str, password: str) -> bool:
        return (username, password) == (self._config.user, self._config.password)


def _load(path: Path) -> Stored:
    return Stored.model_validate_json(path.read_text()) if path.exists() else Stored()


class CumulusSwitch(SshSwitch[Stored]):
    """One emulated switch: state on disk, bash over SSH, and faults on demand."""

    def __init__(
        self, config: SwitchConfig, state_path: Path, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Load the state of last time, or start from the factory's.

        Args:
            config: Of the lab file.
            state_path: Where the state is kept.
            clock: In seconds; a test lets it jump.

        Raises:
            UsageError: The lab does not know the model.
        """
        super().__init__(config, state_path, _load(state_path))
        self.revisions = Revisions(self.stored, clock)
        self.ports = port_names(config.model)
        self.faults = Faults()

    def login(self) -> asyncssh.SSHServer:
        """The one user's password."""
        return _Login(self._config)

    def session(self) -> Session:
        """A new login."""
        return Session(self, self._config.name, self._config.user)

    async def serve(self, process: Process) -> None:
        """A shell, or one command."""
        limit = self.faults.sessions
        if limit is not None and self.sessions > limit:
            cut_connection(process)
            return
        session = self.session()
        if process.command is None:
            await self._serve_shell(process, session)
        else:
            process.stdout.write(await self._answer(session, process.command))
            process.exit(session.status)

    async def _serve_shell(self, process: Process, session: Session) -> None:
        process.stdout.write("Welcome to NVIDIA Cumulus (R) Linux (R)\n")
        process.stdout.write(session.prompt())
        async for line in process.stdin:
            process.stdout.write(await self._answer(session, line))
            drop = self.faults.drop_after
            if drop is not None and session.changes >= drop:
                self.faults.drop_after = None
                cut_connection(process)
                return
            if not session.open:
                break
            process.stdout.write(session.prompt())
        process.close()

    async def _answer(self, session: Session, line: str) -> str:
        if self.faults.slow_s:
            await asyncio.sleep(self.faults.slow_s)
        return session.run(line)

    def save_configuration(self) -> None:
        """Make what is applied the configuration that boots.

        Raises:
            NvueError: The planted fault "disk full" (its wording is a guess).
        """
        if self.faults.disk_full:
            raise NvueError("Error: No space left on device")
        self.stored.startup = copy.deepcopy(self.stored.applied)
        self.commit()

    def reload(self) -> None:
        """Boot again: sessions end, and what was not saved is lost."""
        self.stored.applied = copy.deepcopy(self.stored.startup)
        self.stored.pending, self.stored.unconfirmed = None, None
        self.commit()
        self.drop_sessions()

    reboot = reload

    def refuse(self, line: str) -> str | None:
        """The planted refusal of a line, or None."""
        if any(text in line for text in self.faults.reject):
            return "Error: Failure during apply"  # planted, not modelled
        return None

    def run_line(self, line: str) -> str:
        """Run a line as somebody at the console would, and apply it; nothing is saved."""
        session = self.session()
        output = session.run(line)
        return output if session.status else output + session.run("nv config apply -y")

    def fault(self, args: Sequence[str]) -> str:
        """Plant a fault, or do by hand what a person might.

        Args:
            args: For example `mtu swp2 1500`; see FAULT_HELP.

        Returns:
            What was done, in words.

        Raises:
            UsageError: The fault is unknown or its values are wrong.
        """
        verb, values = (args[0], list(args[1:])) if args else ("", [])
        handler = _FAULTS.get(verb)
        if handler is None:
            raise UsageError(f"{self._config.name} has no fault {verb!r}; it has: {FAULT_HELP}")
        try:
            done = handler(self, values)
        except (IndexError, KeyError, ValueError) as error:
            raise UsageError(f"fault {verb}: {error}; expected: {FAULT_HELP}") from error
        self.commit()
        return f"{self._config.name}: {done}"

    def snapshot(self) -> JsonValue:
        """The revisions, canonical: no counters, no clocks, no revision numbers."""
        self.revisions.tick()
        stored = self.stored
        parts: Tree = {"applied": stored.applied, "startup": stored.startup}
        return cast("JsonValue", json.loads(json.dumps(parts, sort_keys=True)))

    def port_view(self, port: str) -> PortView:
        """What decides about a RoCE packet on this port.

        Raises:
            UsageError: The switch has no such port.
        """
        self.revisions.tick()
        if port not in self.ports:
            raise UsageError(f"{self._config.name} has no port {port!r}")
        tree = self.stored.applied
        up, roce = admin_up(tree, port), roce_mode(tree)
        mode, access, allowed = _membership(tree, port)
        return PortView(
            switch=self._config.name,
            port=port,
            admin_up=up,
            oper_up=up and port in self.cabled and port not in self.stored.link_down,
            speed_gbit_s=PORTS_BY_MODEL[self._config.model][1],
            mtu_bytes=mtu_bytes(tree, port),
            mode=mode,
            access_vlan=access,
            allowed_vlans=allowed,
            trust=port_trust(tree, port),
            dscp_to_priority=tuple(dscp // 8 for dscp in range(64)),
            priority_to_tc=show.priority_to_tc(roce=roce is not None),
            # Class 0 marks without RoCE too (NVUE reference, `nv show qos congestion-control`).
            ecn_kib=dict.fromkeys((0, show.ROCE_PRIORITY) if roce else (0,), ECN_KIB),
            pfc_priorities=frozenset((show.ROCE_PRIORITY,) if roce == "lossless" else ()),
        )

    def add_counters(
        self, port: str, tc: int, rx_bytes: int = 0, tx_bytes: int = 0, ecn_marked: int = 0
    ) -> None:
        """Move the counters of a port.

        Args:
            port: For example `swp1`.
            tc: Switch priority for `rx_bytes`, traffic class for the others.
            rx_bytes: Bytes received in that priority.
            tx_bytes: Bytes sent from that class.
            ecn_marked: Packets marked in that class.
        """
        held = self.stored.counters.setdefault(port, PortCounters())
        held.rx_bytes[tc] = held.rx_bytes.get(tc, 0) + rx_bytes
        held.tx_bytes[tc] = held.tx_bytes.get(tc, 0) + tx_bytes
        held.ecn_marked[tc] = held.ecn_marked.get(tc, 0) + ecn_marked
        self.commit()

    def add_discards(self, port: str, rx_discards: int) -> None:
        """Count received packets that the port threw away."""
        self.stored.counters.setdefault(port, PortCounters()).rx_discards += rx_discards
        self.commit()

    @property
    def unmodelled(self) -> tuple[str, ...]:
        """Lines that were sent and that this emulator does not know; a test fails on any."""
        return tuple(self.stored.unmodelled)


def _membership(tree: Tree, port: str) -> tuple[Mode, int, frozenset[int]]:
    """Mode, untagged VLAN and tagged VLANs; a port in no bridge is a trunk that carries nothing."""
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


def _by_hand(template: str) -> Callable[[CumulusSwitch, list[str]], str]:
    def change(switch: CumulusSwitch, values: list[str]) -> str:
        line = template.format(*values)
        output = switch.run_line(line)
        if "applied" not in output:
            raise ValueError(output.strip() or "nothing changed")
        return f"`{line}` was typed by hand, applied and not saved"

    return change


def _on(text: str) -> bool:
    if text not in {"on", "off"}:
        raise ValueError(f"{text!r} is neither on nor off")
    return text == "on"


def _trust(switch: CumulusSwitch, values: list[str]) -> str:
    """A mapping profile of the port's own, as the vendor's page on quality of service has it."""
    port, trust = values[0], values[1]
    word = {"L2": "l2", "L3": "l3", "both": "both", "port": "port"}[trust]
    line = f"nv set qos mapping by-hand-{word} trust {word}"
    lines = f"{line}; nv set interface {port} qos mapping profile by-hand-{word}"
    return _by_hand("{0}")(switch, [lines])


def _link_down(switch: CumulusSwitch, values: list[str]) -> str:
    port, on = values[0], _on(values[1] if len(values) > 1 else "on")
    switch.port_view(port)
    down = {*switch.stored.link_down}
    switch.stored.link_down = sorted(down | {port} if on else down - {port})
    return f"the cable of {port} is {'pulled' if on else 'plugged'}"


def _reject(switch: CumulusSwitch, values: list[str]) -> str:
    switch.faults.reject = [] if values == ["off"] else [" ".join(values)]
    return f"lines that hold {switch.faults.reject} are refused"


def _drop(switch: CumulusSwitch, values: list[str]) -> str:
    switch.faults.drop_after = None if values[0] == "off" else int(values[0])
    return f"the session drops after {values[0]} lines that change something"


def _slow(switch: CumulusSwitch, values: list[str]) -> str:
    switch.faults.slow_s = float(values[0])
    return f"every answer waits {values[0]} s"


def _disk_full(switch: CumulusSwitch, values: list[str]) -> str:
    switch.faults.disk_full = _on(values[0])
    return f"disk full: {values[0]}"


def _sessions(switch: CumulusSwitch, values: list[str]) -> str:
    switch.faults.sessions = None if values[0] == "off" else int(values[0])
    return f"logins at once: {values[0]}"


def _commit_timer(switch: CumulusSwitch, values: list[str]) -> str:
    if values:
        raise ValueError("it takes no value")
    ran = switch.revisions.expire()
    return "the confirm timer ran out" if ran else "no confirm timer is running"


def _roce(switch: CumulusSwitch, values: list[str]) -> str:
    line = "nv unset qos roce" if values[0] == "none" else f"nv set qos roce mode {values[0]}"
    return _by_hand("{0}")(switch, [line])


def _cable(switch: CumulusSwitch, values: list[str]) -> str:
    switch.port_view(values[0])
    return switch.recable(values[0], values[1:])


_FAULTS: Final[dict[str, Callable[[CumulusSwitch, list[str]], str]]] = {
    "mtu": _by_hand("nv set interface {0} link mtu {1}"),
    "trust": _trust,
    "cli": lambda switch, values: _by_hand("{0}")(switch, [" ".join(values)]),
    "link-down": _link_down,
    "reject": _reject,
    "drop": _drop,
    "slow": _slow,
    "sessions": _sessions,
    "disk-full": _disk_full,
    "commit-timer": _commit_timer,
    "roce": _roce,
    "cable": _cable,
}
