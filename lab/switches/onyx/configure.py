"""The configuration commands: what each line does to the running configuration.

The forms are those of docs/explanation/sources.md#onyx, the source named per group. Refusal
texts that no capture shows are marked `guess`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, cast, get_args

from lab.switches.onyx.breakouts import ask_split, split
from lab.switches.onyx.config import (
    FACTORY_VLAN,
    FACTORY_WEIGHTS,
    Congestion,
    Mode,
    PortConfig,
    RoceMode,
    Stored,
    Trust,
    apply_roce,
)
from lab.switches.onyx.grammar import CliError, Command, expand_ports, expand_vlans
from lab.switches.stored import PortCounters

MTU_RANGE_BYTES = (1500, 9612)
"""module_utils/network/onyx/onyx.py:231 of the Ansible collection."""

Change = Callable[[Stored, list[str]], None]
PortChange = Callable[[PortConfig, list[str]], None]


@dataclass(frozen=True, slots=True)
class OnPorts:
    """A change to every port of the range in the first placeholder."""

    change: PortChange
    flaps: bool = False
    names_vlans: bool = False
    """The second placeholder names VLANs, which must exist (that they must is a guess)."""

    def __call__(self, stored: Stored, values: list[str]) -> None:
        """Apply the change port by port; counts the flap of a port that was up."""
        for vlan in expand_vlans(values[1]) if self.names_vlans else []:
            if vlan not in stored.running.vlans:
                raise CliError(f"% VLAN {vlan} does not exist")  # guess
        for name in expand_ports(values[0], stored.running.ports):
            port = stored.running.ports[name]
            before = port.model_copy(deep=True) if self.flaps and port.admin_up else port
            self.change(port, values[1:])
            if before != port:
                stored.counters.setdefault(name, PortCounters()).flaps += 1


def _to(field: str, value: object) -> PortChange:
    """A line without a value: the field of the port gets this one."""
    return lambda port, _: setattr(port, field, value)


def _without(held: dict[int, Any], tc: int) -> dict[int, Any]:
    return {key: value for key, value in held.items() if key != tc}


def _set_mtu(port: PortConfig, values: list[str]) -> None:
    low, high = MTU_RANGE_BYTES
    if not low <= int(values[0]) <= high:
        raise CliError(f"% Please enter an integer between {low} and {high}.")
    port.mtu_bytes = int(values[0])


def _set_mtu_when_down(port: PortConfig, values: list[str]) -> None:
    if port.admin_up and int(values[0]) != port.mtu_bytes:
        raise CliError("% Interface must be shut down, or use 'force', to change the MTU")  # guess
    _set_mtu(port, values)


def _describe(port: PortConfig, values: list[str]) -> None:
    port.description = " ".join(values)


def _mode(mode: Mode) -> PortChange:
    def change(port: PortConfig, _: list[str]) -> None:
        if port.routed:  # C17: such a port is first made a switchport again
            raise CliError("% Configuration error, interface configured as a router port")
        port.set_mode(mode)

    return change


def _routed(port: PortConfig, _: list[str]) -> None:
    """A router port is in no VLAN (collection, `onyx_l3_interface.py`; capture C17)."""
    port.set_mode("access")
    port.access_vlan = FACTORY_VLAN
    port.routed = True


def _set_access(port: PortConfig, values: list[str]) -> None:
    if port.mode == "trunk":
        raise CliError("% Access VLAN cannot be set on a trunk port")  # guess
    port.access_vlan = int(values[0])


def _allowed(mode: Mode, verb: str) -> PortChange:
    def change(port: PortConfig, values: list[str]) -> None:
        if port.mode != mode:
            raise CliError(f"% Interface is not in {mode} mode")  # guess
        vlans = expand_vlans(values[0]) if values else []
        if verb == "add":
            port.add_allowed(vlans)
        elif verb == "remove":
            port.remove_allowed(vlans)
        else:
            port.allowed_vlans = "all" if verb == "all" else vlans

    return change


def _rewrite(kind: str, *, on: bool) -> PortChange:
    def change(port: PortConfig, _: list[str]) -> None:
        port.rewrite = sorted({*port.rewrite, kind} if on else {*port.rewrite} - {kind})

    return change


def _map_dscp(port: PortConfig, values: list[str]) -> None:
    dscp, priority = _number(values[0], 63), _number(values[1], 7)
    others = _without(port.dscp_map, dscp)
    port.dscp_map = others if priority == dscp // 8 else {**others, dscp: priority}


def _number(text: str, most: int = 7) -> int:
    """A traffic class or a priority, of which there are eight; or a DSCP."""
    if int(text) > most:
        raise CliError(f"% Please enter an integer between 0 and {most}.")
    return int(text)


def _congestion(kind: str, unit: str) -> PortChange:
    def change(port: PortConfig, values: list[str]) -> None:
        tc, low, high = _number(values[0]), int(values[1]), int(values[2])
        if low > high:
            raise CliError("% Minimum threshold must not exceed maximum threshold")  # guess
        entry = {"kind": kind, "unit": unit, "minimum": low, "maximum": high}
        port.congestion = {**port.congestion, tc: Congestion.model_validate(entry)}

    return change


def _no_congestion(port: PortConfig, values: list[str]) -> None:
    port.congestion = _without(port.congestion, _number(values[0]))


def _strict(port: PortConfig, values: list[str]) -> None:
    tc = _number(values[0])
    port.ets_strict = sorted({*port.ets_strict, tc})
    port.ets_weights = _without(port.ets_weights, tc)


def _wrr(port: PortConfig, values: list[str]) -> None:
    tc, weight = _number(values[0]), int(values[1])
    port.ets_strict = [held for held in port.ets_strict if held != tc]
    own = {} if weight == FACTORY_WEIGHTS[tc] else {tc: weight}
    port.ets_weights = _without(port.ets_weights, tc) | own


def _default_port(stored: Stored, values: list[str]) -> None:
    for name in expand_ports(values[0], stored.running.ports):
        stored.running.ports[name] = PortConfig()


def _add_vlans(stored: Stored, values: list[str]) -> None:
    for vlan in expand_vlans(values[0]):
        stored.running.vlans.setdefault(vlan, "")
    stored.running.vlans = dict(sorted(stored.running.vlans.items()))


def _remove_vlans(stored: Stored, values: list[str]) -> None:
    config = stored.running
    vlans = expand_vlans(values[0])
    missing = [vlan for vlan in vlans if vlan not in config.vlans]
    if FACTORY_VLAN in vlans or missing:
        raise CliError(f"% VLAN {(missing or [FACTORY_VLAN])[0]} cannot be deleted")  # guess
    config.vlans = {key: name for key, name in config.vlans.items() if key not in vlans}
    for port in config.ports.values():
        if port.access_vlan in vlans:
            port.access_vlan = FACTORY_VLAN
        if port.allowed_vlans != "all":
            port.remove_allowed(vlans)


def _name_vlan(stored: Stored, values: list[str]) -> None:
    _add_vlans(stored, values[:1])
    stored.running.vlans[int(values[0])] = values[1] if len(values) > 1 else ""


def _global(field: str, value: object = None) -> Change:
    """A field of the whole switch gets this value, or that of the line."""
    return lambda stored, values: setattr(stored.running, field, values[0] if values else value)


def _pfc_priority(*, on: bool) -> Change:
    def change(stored: Stored, values: list[str]) -> None:
        held, priority = {*stored.running.pfc_priorities}, int(values[0])
        stored.running.pfc_priorities = sorted(held | {priority} if on else held - {priority})

    return change


def _roce(mode: RoceMode) -> Change:
    def change(stored: Stored, _: list[str]) -> None:
        if stored.running.roce == mode:
            return
        apply_roce(stored.running, mode)
        # The manual: entering or leaving a mode may toggle interfaces; here it always does.
        for name in stored.running.ports:
            stored.counters.setdefault(name, PortCounters()).flaps += 1

    return change


def _port_forms() -> dict[str, OnPorts]:
    """What follows `interface ethernet <ports>`, or stands alone inside that mode."""
    forms: dict[str, OnPorts] = {
        # sonic-mgmt mlnx_fanout.j2 (three lines), Ansible onyx_interface.py (force)
        "shutdown": OnPorts(_to("admin_up", value=False), flaps=True),
        "no shutdown": OnPorts(_to("admin_up", value=True)),
        "mtu <int>": OnPorts(_set_mtu_when_down),
        "mtu <int> force": OnPorts(_set_mtu, flaps=True),
        "description <text>": OnPorts(_describe),
        "no description": OnPorts(_describe),
        # networking-generic-switch, onyx_l2_interface.py, mlnx_fanout.j2
        "switchport access vlan <int>": OnPorts(_set_access, names_vlans=True),
        "no switchport access vlan": OnPorts(_to("access_vlan", FACTORY_VLAN)),
        "no switchport mode": OnPorts(_mode("access")),
        "no switchport force": OnPorts(_routed),
        "switchport force": OnPorts(lambda port, _: port.set_mode("access")),
        # onyx_traffic_class.py, the DeepOps guide, oxidized simulation
        "no traffic-class <int> congestion-control": OnPorts(_no_congestion),
        "traffic-class <int> dcb ets strict": OnPorts(_strict),
        "traffic-class <int> dcb ets wrr <int>": OnPorts(_wrr),
        "no qos trust": OnPorts(_to("trust", "L2")),  # manual "QoS Commands"
        # That the map can be changed is in the manual's "QoS Commands"; these words are a guess.
        "qos map dscp <int> to switch-priority <int>": OnPorts(_map_dscp),
    }
    for tail in ("", " force"):  # onyx_pfc_interface.py, lines 172 to 177
        head = "dcb priority-flow-control mode"
        forms[f"{head} on{tail}"] = OnPorts(_to("pfc", value=True))
        forms[f"no {head}{tail}"] = OnPorts(_to("pfc", value=False))
    for trust in get_args(Trust):  # onyx_qos.py:84
        forms[f"qos trust {trust}"] = OnPorts(_to("trust", trust))
    for kind in ("pcp", "dscp"):  # onyx_qos.py:85-88
        forms[f"qos rewrite {kind}"] = OnPorts(_rewrite(kind, on=True))
        forms[f"no qos rewrite {kind}"] = OnPorts(_rewrite(kind, on=False))
    for kind in ("ecn", "red", "both"):
        head = f"traffic-class <int> congestion-control {kind}"
        for word, unit in (("absolute", "KB"), ("relative", "%")):
            line = f"{head} minimum-{word} <int> maximum-{word} <int>"
            forms[line] = OnPorts(_congestion(kind, unit))
    return forms | _l2_forms()


_NAMING: Final = ("add <vlans>", "<vlans>")


def _l2_forms() -> dict[str, OnPorts]:
    forms: dict[str, OnPorts] = {}
    for mode in cast("tuple[Mode, ...]", get_args(Mode)):
        forms[f"switchport mode {mode}"] = OnPorts(_mode(mode))
        head = f"switchport {mode} allowed-vlan"
        for verb in ("add <vlans>", "remove <vlans>", "none", "all", "<vlans>"):
            if mode != "access":
                change = _allowed(mode, verb.split()[0])
                forms[f"{head} {verb}"] = OnPorts(change, names_vlans=verb in _NAMING)
    return forms


def _global_forms() -> dict[str, Change]:
    forms: dict[str, Change] = {
        # onyx_vlan.py:169-190, sonic-mgmt mlnx_fanout.j2
        "vlan <vlans>": _add_vlans,
        "no vlan <vlans>": _remove_vlans,
        "vlan <int> name <word>": _name_vlan,
        "vlan <int> no name": _name_vlan,
        "default interface ethernet <ports>": _default_port,  # manual "Ethernet Interface Commands"
        "interface ethernet <ports> module-type <word>": ask_split,
        "interface ethernet <ports> module-type <word> force": split,
        "roce": _roce("lossless"),  # manual "RoCE Commands": `roce` is `roce lossless`
        "no roce": _roce("none"),
        "lldp": _global("lldp", value=True),
        "no lldp": _global("lldp", value=False),
        "hostname <word>": _global("hostname"),
        "no cli default paging enable": _global("paging", value=False),
        "cli default paging enable": _global("paging", value=True),
        "no cli default prefix-modes enable": lambda _stored, _values: None,
        "cli default prefix-modes enable": lambda _stored, _values: None,
    }
    for mode in ("lossless", "semi-lossless", "lossy"):
        forms[f"roce {mode}"] = _roce(cast("RoceMode", mode))
    for head, on in (("", True), ("no ", False)):  # fixture, capture C2
        for tail in ("", " force"):
            pfc = f"{head}dcb priority-flow-control"
            forms[f"{pfc} enable{tail}"] = _global("pfc_enabled", on)
            forms[f"{pfc} priority <int> enable{tail}"] = _pfc_priority(on=on)
    return forms


PORT_PREFIX: Final = "interface ethernet <ports>"
COMMANDS: Final[tuple[Command[Change], ...]] = tuple(
    Command(tuple(pattern.split()), handler)
    for pattern, handler in (
        *((f"{PORT_PREFIX} {tail}", handler) for tail, handler in _port_forms().items()),
        *_global_forms().items(),
    )
)
"""Every line of config mode, in its one-line form."""
