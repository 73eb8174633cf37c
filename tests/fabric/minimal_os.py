"""An invented switch system: the least that a driver and its emulator can be.

Every line acts at once, `show` prints all as JSON, and a refusal begins with `!`. It exists to try
docs/howto/add-a-switch-os.md: with its `SYSTEM` it is what a folder's `system.py` is, and one test
registers it as such.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from components.fabric.ports import marking_of
from components.fabric.state import PortState, SwitchState, list_vlans
from components.fabric.systems.base import Change, Question, Reading, Unreadable
from components.fabric.systems.switch_system import SwitchSystem
from components.model.fabric import Rdma
from components.remote.session_profile import SessionProfile
from lab.switches.onyx.config import Mode
from lab.views import PortView, SwitchConfig

PORTS: Final = tuple(f"p{number}" for number in range(1, 9))
FACTORY: Final = PortState(
    admin_up=True,
    mtu_bytes=1500,
    mode="access",
    access_vlan=1,
    trunk_vlans=(),
    trust="L2",
    ecn=dict.fromkeys(range(8)),
    pfc_priorities=(),
    strict_classes=(),
)
"""What each port has, and all that a port can have."""
NEW: Final = SwitchState(vlans=(1,), ports=dict.fromkeys(PORTS, FACTORY))


def intent(rdma: Rdma) -> tuple[SwitchState, PortState]:
    """What RoCE means here: every part on its own, and PFC per port."""
    lossless = rdma.mode == "lossless"
    return (
        SwitchState(),
        PortState(
            trust="L3",
            ecn={rdma.traffic_class: marking_of(rdma, "minimal")},
            pfc_priorities=(rdma.priority,) if lossless else None,
            strict_classes=(rdma.cnp_priority,),
        ),
    )


def _read_commands(wanted: SwitchState) -> tuple[str, ...]:
    del wanted
    return ("show",)


def _parse(answers: Mapping[str, str], wanted: SwitchState) -> Reading:
    found = _load(answers)
    holders: dict[int, tuple[str, ...]] = {}
    for name in found.ports.keys() - wanted.ports.keys():
        port = found.ports[name]
        for vlan in (port.access_vlan or 1, *list_vlans(port.trunk_vlans or ())):
            holders[vlan] = (*holders.get(vlan, ()), name)
    ports = {name: found.ports[name] for name in wanted.ports}
    return Reading(found.model_copy(update={"ports": ports}), holders)


def _plan_changes(actual: SwitchState, target: SwitchState) -> tuple[Change, ...]:
    new = [f"vlan add {vlan}" for vlan in target.vlans if vlan not in actual.vlans]
    gone = [f"vlan del {vlan}" for vlan in actual.vlans if vlan not in target.vlans]
    lines = [line for name in target.ports for line in _lines(name, actual, target)]
    return tuple(Change((line,)) for line in (*new, *lines, *gone))


def _find_refusal(output: str) -> str | None:
    return output.strip() if output.startswith("!") else None


def _factory_state(ports: Sequence[str]) -> SwitchState:
    return SwitchState(vlans=(1,), ports=dict.fromkeys(ports, FACTORY))


SYSTEM: Final = SwitchSystem(
    name="minimal",
    title="Minimal",
    read_commands=_read_commands,
    parse=_parse,
    plan_changes=_plan_changes,
    find_refusal=_find_refusal,
    factory_state=_factory_state,
    save="save",
    ports=Question(("show",), lambda answers: tuple(_load(answers).ports)),
    intent=intent,
    session=SessionProfile(prompt=r"> $", prepare=()),
    exec_form="it has no SSH server",
    port_ecn=None,
)


def _load(answers: Mapping[str, str]) -> SwitchState:
    try:
        return SwitchState.model_validate_json(answers["show"])
    except ValueError as error:
        raise Unreadable("show", answers["show"], "no JSON") from error


_WORDS: Final = {
    "ecn": "ecn",
    "mode": "mode",
    "access_vlan": "vlan",
    "trunk_vlans": "trunk",
    "trust": "trust",
    "pfc_priorities": "pause",
    "strict_classes": "strict",
    "mtu_bytes": "mtu",
    "admin_up": "up",
}
"""Each setting of a port to the word of its line, in the order in which they are set."""
_KEYS: Final = {word: key for key, word in _WORDS.items()}


def _lines(name: str, actual: SwitchState, target: SwitchState) -> Iterator[str]:
    was = actual.ports.get(name, PortState()).model_dump(mode="json")
    port = target.ports[name].model_dump(mode="json")
    for key, word in _WORDS.items():
        value = {**was[key], **port[key]} if key == "ecn" else port.get(key)
        if value is not None and value != was.get(key):
            yield f"port {name} {word} {json.dumps(value, separators=(',', ':'))}"


@dataclass
class MinimalSwitch:
    """The emulator as a scripted session: state, a saved copy, and its own error text."""

    config: SwitchConfig
    path: Path
    running: SwitchState = NEW
    unmodelled: tuple[str, ...] = ()
    where: str = "leaf-01 (in process)"

    def __post_init__(self) -> None:
        """What runs at first is what boots."""
        self.saved = self.running

    def run(self, command: str) -> str:
        """Run one line, as a login would."""
        word, *rest = command.split()
        try:
            return _VERBS[word](self, rest)
        except (KeyError, ValueError, IndexError) as error:
            self.unmodelled = (*self.unmodelled, command)
            return f"! {command}: {error}\n"

    def show(self, _rest: list[str]) -> str:
        return self.running.model_dump_json()

    def save(self, _rest: list[str]) -> str:
        self.saved = self.running
        return ""

    def vlan(self, rest: list[str]) -> str:
        held = {*self.running.vlans}
        held = held | {int(rest[1])} if rest[0] == "add" else held - {int(rest[1])}
        self.running = self.running.model_copy(update={"vlans": tuple(sorted(held))})
        return ""

    def port(self, rest: list[str]) -> str:
        name, word, value = rest
        port = self.running.ports[name].model_dump(mode="json")
        port[_KEYS[word]] = json.loads(value)
        ports = {**self.running.ports, name: PortState.model_validate(port)}
        self.running = self.running.model_copy(update={"ports": ports})
        return ""

    def snapshot(self) -> dict[str, Any]:
        return {"running": self.running.model_dump(), "saved": self.saved.model_dump()}

    def port_view(self, port: str) -> PortView:
        held = self.running.ports[port]
        marks = {tc: (ecn.min_kib, ecn.max_kib) for tc, ecn in held.ecn.items() if ecn}
        return PortView(
            switch=self.config.name,
            port=port,
            admin_up=bool(held.admin_up),
            oper_up=bool(held.admin_up),
            speed_gbit_s=100,
            mtu_bytes=held.mtu_bytes or 0,
            mode=cast("Mode", held.mode),
            access_vlan=held.access_vlan or 1,
            allowed_vlans=frozenset(list_vlans(held.trunk_vlans or ())),
            trust=held.trust or "L2",
            dscp_to_priority=tuple(dscp // 8 for dscp in range(64)),
            priority_to_tc=tuple(range(8)),
            ecn_kib=marks,
            pfc_priorities=frozenset(held.pfc_priorities or ()),
        )


_VERBS: Final[dict[str, Callable[[MinimalSwitch, list[str]], str]]] = {
    "show": MinimalSwitch.show,
    "save": MinimalSwitch.save,
    "vlan": MinimalSwitch.vlan,
    "port": MinimalSwitch.port,
}
