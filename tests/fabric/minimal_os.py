"""An invented switch system: the least that a driver and its emulator can be.

Every line acts at once, `show` prints all as JSON, and a refusal begins with `!`. It exists to try
docs/howto/add-a-switch-os.md: with its `SYSTEM` it is what a folder's `system.py` is, and one test
registers it as such.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

from components.fabric.effects import ByTable
from components.fabric.queues import marking_of
from components.fabric.state import EcnState, PortState, SwitchState
from components.fabric.systems.base import Change, Guard, PortCounters, Reading, Unreadable
from components.fabric.systems.switch_system import Intent, SwitchSystem
from components.model.fabric import Rdma
from components.remote.session_profile import SessionProfile
from lab.switches.onyx.config import Mode
from lab.views import PortView, SwitchConfig

PORTS: Final = tuple(f"p{number}" for number in range(1, 9))
FACTORY: Final[dict[str, Any]] = {
    "up": True, "mtu": 1500, "mode": "access", "vlan": 1, "trunk": [], "trust": "L2",
    "ecn": {}, "pause": [], "strict": [],
}  # fmt: skip


def intent(rdma: Rdma) -> Intent:
    """What RoCE means here: every part on its own, and PFC per port."""
    lossless = rdma.mode == "lossless"
    return Intent(
        SwitchState(),
        PortState(
            trust="L3",
            ecn={rdma.traffic_class: marking_of(rdma, "minimal")},
            pfc_priorities=(rdma.priority,) if lossless else None,
            strict_classes=(rdma.cnp_priority,),
        ),
    )


class MinimalDriver(ByTable):
    """See `components.fabric.systems.base.Driver`."""

    system = "minimal"
    title = "Minimal"
    enter: Sequence[str] = ()
    configure: Sequence[str] = ()
    discard: Sequence[str] = ()
    guard: Guard | None = None
    save = "save"

    def list_ports_commands(self) -> tuple[str, ...]:
        return ("show",)

    def parse_port_names(self, answers: Mapping[str, str]) -> tuple[str, ...]:
        return tuple(_load(answers["show"])["ports"])

    def read_commands(self, wanted: SwitchState) -> tuple[str, ...]:
        del wanted
        return ("show",)

    def parse(self, answers: Mapping[str, str], wanted: SwitchState) -> Reading:
        found = _load(answers["show"])
        ports = {name: _port(found["ports"][name]) for name in wanted.ports}
        holders: dict[int, tuple[str, ...]] = {}
        for name, port in found["ports"].items():
            for vlan in (port["vlan"], *port["trunk"]) if name not in wanted.ports else ():
                holders[vlan] = (*holders.get(vlan, ()), name)
        return Reading(SwitchState(vlans=tuple(found["vlans"]), ports=ports), holders)

    def plan_changes(self, actual: SwitchState, target: SwitchState) -> tuple[Change, ...]:
        new = [f"vlan add {vlan}" for vlan in target.vlans if vlan not in actual.vlans]
        gone = [f"vlan del {vlan}" for vlan in actual.vlans if vlan not in target.vlans]
        ports = [
            f"port {name} {tail}"
            for name, port in target.ports.items()
            for tail in _tails(actual.ports.get(name, PortState()), port)
        ]
        return tuple(Change((line,)) for line in (*new, *ports, *gone))

    def find_refusal(self, output: str) -> str | None:
        return output.strip() if output.startswith("!") else None

    def factory_state(self, ports: Sequence[str]) -> SwitchState:
        return SwitchState(vlans=(1,), ports=dict.fromkeys(ports, _port(FACTORY)))

    def counter_commands(self, ports: Sequence[str]) -> tuple[str, ...]:
        del ports
        return ()

    def parse_counters(
        self, answers: Mapping[str, str], ports: Sequence[str]
    ) -> dict[str, PortCounters]:
        raise Unreadable("show", str(dict(answers)), f"nothing is counted on {ports}")


SYSTEM: Final = SwitchSystem(
    driver=MinimalDriver(),
    intent=intent,
    session=SessionProfile(prompt=r"> $", prepare=()),
    exec_form="it has no SSH server",
    port_ecn=None,
)


def _load(text: str) -> dict[str, Any]:
    try:
        return cast("dict[str, Any]", json.loads(text))
    except ValueError as error:
        raise Unreadable("show", text, "no JSON") from error


def _port(found: Mapping[str, Any]) -> PortState:
    pairs: dict[str, list[int]] = found["ecn"]
    marked = {int(tc): EcnState(min_kib=low, max_kib=high) for tc, (low, high) in pairs.items()}
    return PortState(
        admin_up=found["up"],
        mtu_bytes=found["mtu"],
        mode=found["mode"],
        access_vlan=found["vlan"],
        trunk_vlans=tuple(found["trunk"]),
        trust=found["trust"],
        ecn={**dict.fromkeys(range(8)), **marked},
        pfc_priorities=tuple(found["pause"]),
        strict_classes=tuple(found["strict"]),
    )


_WORDS: Final = {
    "mode": "mode",
    "access_vlan": "vlan",
    "trunk_vlans": "trunk",
    "trust": "trust",
    "pfc_priorities": "pause",
    "strict_classes": "strict",
    "mtu_bytes": "mtu",
    "admin_up": "up",
}


def _tails(was: PortState, port: PortState) -> Iterator[str]:
    for tc, ecn in port.ecn.items():
        if ecn != was.ecn.get(tc):
            yield f"ecn {tc} {ecn.min_kib} {ecn.max_kib}" if ecn else f"ecn {tc} off"
    for key, word in _WORDS.items():
        value: object = getattr(port, key)
        if value is not None and value != getattr(was, key):
            yield f"{word} {_say(value)}"


def _say(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ",".join(map(str, cast("tuple[int, ...]", value))) or "none"
    return str(value)


@dataclass
class MinimalSwitch:
    """The emulator as a scripted session: state, a saved copy, and its own error text."""

    config: SwitchConfig
    path: Path
    running: dict[str, Any] = field(
        default_factory=lambda: {"vlans": [1], "ports": {p: {**FACTORY} for p in PORTS}}
    )
    unmodelled: tuple[str, ...] = ()
    where: str = "leaf-01 (in process)"

    def __post_init__(self) -> None:
        """What runs at first is what boots."""
        self.saved = json.dumps(self.running)

    def run(self, command: str) -> str:
        """Run one line, as a login would."""
        word, *rest = command.split()
        try:
            return _VERBS[word](self, rest)
        except (KeyError, ValueError, IndexError) as error:
            self.unmodelled = (*self.unmodelled, command)
            return f"! {command}: {error}\n"

    def show(self, _rest: list[str]) -> str:
        return json.dumps(self.running)

    def save(self, _rest: list[str]) -> str:
        self.saved = json.dumps(self.running)
        return ""

    def vlan(self, rest: list[str]) -> str:
        held = {*self.running["vlans"]}
        held = held | {int(rest[1])} if rest[0] == "add" else held - {int(rest[1])}
        self.running["vlans"] = sorted(held)
        return ""

    def port(self, rest: list[str]) -> str:
        name, key, *values = rest
        port = self.running["ports"][name] = {**self.running["ports"][name]}
        if key == "ecn":
            kept = {tc: pair for tc, pair in port["ecn"].items() if tc != values[0]}
            off = values[1] == "off"
            port["ecn"] = kept if off else {**kept, values[0]: [int(v) for v in values[1:]]}
            return ""
        port[key] = _READERS[type(FACTORY[key])](values[0])
        return ""

    def snapshot(self) -> dict[str, Any]:
        return {"running": json.loads(json.dumps(self.running)), "saved": json.loads(self.saved)}

    def port_view(self, port: str) -> PortView:
        held = self.running["ports"][port]
        return PortView(
            switch=self.config.name,
            port=port,
            admin_up=held["up"],
            oper_up=held["up"],
            speed_gbit_s=100,
            mtu_bytes=held["mtu"],
            mode=cast("Mode", held["mode"]),
            access_vlan=held["vlan"],
            allowed_vlans=frozenset(held["trunk"]),
            trust=held["trust"],
            dscp_to_priority=tuple(dscp // 8 for dscp in range(64)),
            priority_to_tc=tuple(range(8)),
            ecn_kib={int(tc): (low, high) for tc, (low, high) in held["ecn"].items()},
            pfc_priorities=frozenset(held["pause"]),
        )


_READERS: Final[dict[type, Callable[[str], Any]]] = {
    bool: lambda text: text == "yes",
    int: int,
    str: str,
    list: lambda text: [] if text == "none" else [int(each) for each in text.split(",")],
}
_VERBS: Final[dict[str, Callable[[MinimalSwitch, list[str]], str]]] = {
    "show": MinimalSwitch.show,
    "save": MinimalSwitch.save,
    "vlan": MinimalSwitch.vlan,
    "port": MinimalSwitch.port,
}
