"""`show running-config`: the text form of a configuration.

Layout: oxidized's capture of Onyx 3.9.2504 and the Ansible fixture onyx_config_config.cfg
(docs/explanation/sources.md#onyx): sections between `##` lines, positive lines indented by three
blanks, `no …` and `hostname` at column 0, equal lines of neighbouring ports collapsed to ranges,
`force` after mtu and PFC. With the one-shot, what it sets on ports has no lines: that capture has
`roce lossy` and no trust. What a port that differs then says is a guess, as is the order of lines.
"""

from __future__ import annotations

from collections.abc import Callable

from lab.switches.onyx.config import (
    FACTORY_MTU_BYTES,
    FACTORY_VLAN,
    FACTORY_WEIGHTS,
    Config,
    PortConfig,
    apply_roce,
)
from lab.switches.onyx.grammar import collapse_ports, collapse_vlans

RELEASE = "3.9.2504"
PortLines = Callable[[PortConfig], list[str]]


def _buffer_lines(port: PortConfig) -> list[str]:
    lines: list[str] = []
    for tc, entry in sorted(port.congestion.items()):
        word = "absolute" if entry.unit == "KB" else "relative"
        lines.append(
            f"traffic-class {tc} congestion-control {entry.kind} "
            f"minimum-{word} {entry.minimum} maximum-{word} {entry.maximum}"
        )
    lines += [f"traffic-class {tc} dcb ets strict" for tc in port.ets_strict]
    lines += [f"traffic-class {tc} dcb ets wrr {w}" for tc, w in sorted(port.ets_weights.items())]
    return lines


def _own_lines(config: Config, lines_of: PortLines) -> PortLines:
    """The lines of a port that the one-shot does not give it, and those that undo one of its."""
    given = Config(hostname="", ports={"1/1": PortConfig()})
    apply_roce(given, config.roce)
    held = lines_of(given.ports["1/1"])

    def own(port: PortConfig) -> list[str]:
        lines = lines_of(port)
        kinds = {_kind(line) for line in lines}
        undone = [_UNDONE[_kind(line)] for line in held if _kind(line) not in kinds]
        return [*(line for line in lines if line not in held), *undone]

    return own


def _kind(line: str) -> str:
    return next(kind for kind in (*_UNDONE, "") if line.startswith(kind))


_UNDONE = {
    "qos trust": "qos trust L2",
    "traffic-class 3 congestion-control": "no traffic-class 3 congestion-control",
    "traffic-class 3 dcb ets": f"traffic-class 3 dcb ets wrr {FACTORY_WEIGHTS[3]}",
    "traffic-class 6 dcb ets": f"traffic-class 6 dcb ets wrr {FACTORY_WEIGHTS[6]}",
}
"""How the lines begin that belong to the one-shot, and what a port says that has none of them."""


def _interface_lines(port: PortConfig) -> list[str]:
    lines: list[str] = []
    if port.mtu_bytes != FACTORY_MTU_BYTES:
        lines.append(f"mtu {port.mtu_bytes} force")
    if not port.admin_up:
        lines.append("shutdown")
    if port.description:
        lines.append(f'description "{port.description}"')
    return lines


def _qos_lines(port: PortConfig) -> list[str]:
    lines = [f"qos trust {port.trust}"] if port.trust != "L2" else []
    maps = [f"qos map dscp {d} to switch-priority {n}" for d, n in sorted(port.dscp_map.items())]
    return [*lines, *(f"qos rewrite {kind}" for kind in port.rewrite), *maps]


def _vlan_lines(port: PortConfig) -> list[str]:
    if port.routed:
        return ["no switchport force"]
    lines = [f"switchport mode {port.mode}"] if port.mode != "access" else []
    if port.mode != "trunk" and port.access_vlan != FACTORY_VLAN:
        lines.append(f"switchport access vlan {port.access_vlan}")
    if port.mode == "trunk" and port.allowed_vlans != "all":
        lines.append(f"switchport trunk allowed-vlan {_allowed_text(port.allowed_vlans)}")
    if port.mode == "hybrid" and port.allowed_vlans:
        lines.append(f"switchport hybrid allowed-vlan {_allowed_text(port.allowed_vlans)}")
    return lines


def _allowed_text(vlans: str | list[int]) -> str:
    if isinstance(vlans, str):
        return vlans
    return collapse_vlans(vlans) or "none"


def _pfc_lines(port: PortConfig) -> list[str]:
    return ["dcb priority-flow-control mode on force"] if port.pfc else []


def _per_port(config: Config, lines_of: PortLines) -> list[str]:
    """Collapse equal lines of neighbouring ports into one line with a range."""
    holders: dict[str, list[str]] = {}
    for name, port in config.ports.items():
        for line in lines_of(port):
            holders.setdefault(line, []).append(name)
    order = list(config.ports)
    return [
        f"   interface ethernet {ports} {line}"
        for line, names in holders.items()
        for ports in collapse_ports(names, order).split(",")
    ]


def _vlans(config: Config) -> list[str]:
    lines = [f"   vlan {vlan}" for vlan in config.vlans if vlan != FACTORY_VLAN]
    named = [(v, n) for v, n in config.vlans.items() if n and v != FACTORY_VLAN]
    return [*lines, *(f'   vlan {vlan} name "{name}"' for vlan, name in named)]


def _pfc(config: Config) -> list[str]:
    lines = ["   dcb priority-flow-control enable force"] if config.pfc_enabled else []
    # With the one-shot the PFC lines belong to `roce` and are not printed (capture C1).
    lines += [f"   dcb priority-flow-control priority {p} enable" for p in config.pfc_priorities]
    return ([] if config.roce != "none" else lines) + _per_port(config, _pfc_lines)


def _buffers(config: Config) -> list[str]:
    roce = [] if config.roce == "none" else [f"   roce {config.roce}"]
    return roce + _per_port(config, _own_lines(config, _buffer_lines))


def render_running_config(config: Config, generated_at: str = "", release: str = RELEASE) -> str:
    """The whole configuration as `show running-config` prints it.

    Args:
        config: What to print.
        generated_at: Text of the clock in the head; empty in comparisons.
        release: What the switch runs.
    """
    head = [
        "##",
        '## Running database "initial"',
        *([f"## Generated at {generated_at}"] if generated_at else []),
        f"## Hostname: {config.hostname}",
        f"## Product release: {release}",
        "##",
        "",
        *_section("Running-config temporary prefix mode setting", []),
        "no cli default prefix-modes enable",
        "",
    ]
    sections = (
        ("Interface Ethernet configuration", _per_port(config, _interface_lines)),
        ("Interface Ethernet buffer configuration", _buffers(config)),
        ("VLAN configuration", [*_vlans(config), *_per_port(config, _vlan_lines)]),
        ("QoS switch configuration", _per_port(config, _own_lines(config, _qos_lines))),
        ("DCBX PFC configuration", _pfc(config)),
        ("LLDP configuration", ["   lldp"] if config.lldp else []),
        ("Network management configuration", [f"hostname {config.hostname}"]),
        ("CLI configuration", [] if config.paging else ["no cli default paging enable"]),
    )
    body = [line for title, lines in sections if lines for line in (*_section(title, lines), "   ")]
    tail = _section("Persistent prefix mode setting", ["cli default prefix-modes enable"])
    return "\n".join([*head, *body, *tail]) + "\n"


def _section(title: str, lines: list[str]) -> list[str]:
    return ["##", f"## {title}", "##", *lines]
