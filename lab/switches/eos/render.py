"""The configuration as text, and what two of them differ in.

Lines and their order: the configurations that aristanetworks/avd renders (sources.md#eos).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator

from lab.switches.eos.config import EOS_RELEASE, Config, Port, Queue
from lab.switches.eos.grammar import collapse
from lab.switches.eos.routing_text import global_lines, interface_lines, svi_lines

PAUSE_WATCHDOG = "priority-flow-control pause watchdog"


def render(config: Config, model: str, release: str = EOS_RELEASE) -> str:
    """`show running-config`."""
    lines = [
        f"! device: {config.hostname} ({model}, EOS-{release})",
        "!",
        "! boot system flash:/EOS.swi",
        "!",
        f"service routing protocols model {config.routing.model}",
        "!",
        f"hostname {config.hostname}",
        "!",
        "username admin privilege 15 role network-admin secret sha512 <removed>",
        "!",
    ]
    for vlan, name in sorted(config.vlans.items()):
        if vlan != 1:
            lines += [f"vlan {vlan}", *([f"   name {name}"] if name != default_name(vlan) else [])]
            lines.append("!")
    for name, port in config.ports.items():
        lines += [f"interface {name}", *(f"   {line}" for line in port_lines(port)), "!"]
    lines += svi_lines(config, "Loopback")
    lines += ["interface Management1", "   ip address 192.0.2.5/24", "!"]
    lines += svi_lines(config, "Vlan")
    maps = [*map_lines(config), *watchdog_lines(config)]
    lines += [*maps, "!"] if maps else []
    lines += global_lines(config)
    if config.quiesced:
        lines += ["maintenance", "   unit System", "      quiesce", "!"]
    return "\n".join([*lines, "end", ""])


def default_name(vlan: int) -> str:
    """The name of a VLAN that nobody named."""
    return f"VLAN{vlan:04}"


def port_lines(port: Port) -> list[str]:
    """One interface, without its indent; only what is not the default."""
    lines = [f"description {port.description}"] if port.description else []
    lines += ["shutdown"] if port.shutdown else []
    lines += [f"speed {port.speed}"] if port.speed else []
    lines += [f"mtu {port.mtu}"] if port.mtu is not None else []
    lines += [f"l2 mtu {port.l2_mtu}"] if port.l2_mtu is not None else []
    lines += [_fec_line(word) for word in port.fec]
    lines += [f"channel-group {port.group[0]} mode {port.group[1]}"] if port.group else []
    lines += [*_switchport(port), *interface_lines(port)]
    lines += {"cos": ["qos trust cos"], "dscp": ["qos trust dscp"], "none": ["no qos trust"]}.get(
        port.trust or "", []
    )
    lines += ["priority-flow-control on"] if port.pfc else []
    lines += [f"priority-flow-control priority {number} no-drop" for number in port.no_drop]
    lines += list(_watchdog(port))
    fast = (port.portfast or "").removeprefix("edge")
    lines += [f"spanning-tree portfast {fast}".rstrip()] if port.portfast else []
    lines += [f"spanning-tree bpduguard {port.bpduguard}"] if port.bpduguard else []
    for number, queue in sorted(port.queues.items()):
        inner = list(_queue(queue))
        lines += ["!", f"uc-tx-queue {number}", *(f"   {line}" for line in inner)] if inner else []
    return lines


def _fec_line(word: str) -> str:
    """`no` alone is for every kind (AVD's template)."""
    encoding, kind = "error-correction encoding", word.removeprefix("no").strip()
    return f"{'no ' * word.startswith('no')}{encoding} {kind}".strip()


def _watchdog(port: Port) -> Iterator[str]:
    """In the order of 4.35 (aristanetworks/avd #6318)."""
    found = port.watchdog
    if found.enabled:
        yield PAUSE_WATCHDOG
    if found.timer is not None:
        yield f"{PAUSE_WATCHDOG} port timer {found.timer}"
    if found.action is not None:
        yield f"{PAUSE_WATCHDOG} port action {found.action}"


def _switchport(port: Port) -> Iterator[str]:
    if port.access_vlan != 1:
        yield f"switchport access vlan {port.access_vlan}"
    if port.native_vlan != 1:
        yield f"switchport trunk native vlan {port.native_vlan or 'tag'}"
    if port.allowed is not None:
        yield f"switchport trunk allowed vlan {collapse(port.allowed) or 'none'}"
    if port.mode == "trunk":
        yield "switchport mode trunk"
    if port.routed:
        yield "no switchport"


def _queue(queue: Queue) -> Iterator[str]:
    if queue.bandwidth_percent is not None:
        yield f"bandwidth percent {queue.bandwidth_percent}"
    if not queue.strict:
        yield "no priority"
    found = queue.marking
    if found is not None:
        yield (
            f"random-detect ecn minimum-threshold {found.minimum} {found.unit} maximum-threshold "
            f"{found.maximum} {found.unit} max-mark-probability {found.percent} "
            f"weight {found.weight}"
        )
    if queue.count:
        yield "random-detect ecn count"


def map_lines(config: Config) -> Iterator[str]:
    """The QoS maps of the whole switch: DSCPs of one class share a line."""
    groups: dict[int, list[int]] = {}
    for dscp, tc in sorted(config.dscp_classes.items()):
        groups.setdefault(tc, []).append(dscp)
    if config.rewrite_dscp:  # before the maps: aristanetworks/avd, its template of `qos`
        yield "qos rewrite dscp"
    for tc, dscps in sorted(groups.items()):
        yield f"qos map dscp {' '.join(map(str, dscps))} to traffic-class {tc}"
    for tc, queue in sorted(config.class_queues.items()):
        yield f"qos map traffic-class {tc} to tx-queue {queue}"


def watchdog_lines(config: Config) -> Iterator[str]:
    """The defaults of the whole switch, after the maps (4.35.1F, aristanetworks/avd #6402)."""
    for key in ("default timeout", "default recovery-time", "default polling-interval", "action"):
        if key in config.watchdog_defaults:
            yield f"{PAUSE_WATCHDOG} {key} {config.watchdog_defaults[key]}"


def section(text: str, pattern: str) -> str:
    """`| section REGEX`: matching lines with their parents and children (ours is by `search`)."""
    kept: list[str] = []
    block: list[str] = []
    for line in [*text.splitlines(), "!"]:
        if line.startswith(" ") and block:
            block.append(line)
            continue
        if any(re.search(pattern, each) for each in block):
            kept += block
        block = [line]
    return "".join(f"{line}\n" for line in kept)


def diff(running: str, candidate: str, name: str) -> str:
    """`show session-config diffs`."""
    lines = difflib.unified_diff(
        running.splitlines(),
        candidate.splitlines(),
        "system:/running-config",
        f"session:/{name}-session-config",
        lineterm="",
    )
    return "".join(f"{line}\n" for line in lines)
