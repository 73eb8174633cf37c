"""What `show …` prints: as text, as JSON, or both.

Sources: docs/explanation/sources.md#eos. A table's text form that no source shows is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from lab.switches.eos.config import (
    EOS_RELEASE,
    FACTORY_MTU_BYTES,
    QUEUES,
    ROUTED_MTU_BYTES,
    Config,
    ConfigSession,
    Port,
    Stored,
    is_active,
    is_corrected,
)
from lab.switches.front import front_of
from lab.switches.indented import indented
from lab.switches.lldp import Told, tell
from lab.switches.release import numbers
from lab.switches.stored import FACTORY_CHASSIS, Chassis, PortCounters

Tree = dict[str, JsonValue]


@dataclass(frozen=True, slots=True)
class Device:
    """The view that show commands get."""

    stored: Stored
    model: str
    speed_gbit_s: int
    cabled: frozenset[str]
    """Ports with a cable."""
    plugged: Mapping[str, tuple[str, str]]
    """Port to who tells its name there by LLDP, and by which of its ports."""
    release: str = EOS_RELEASE
    chassis: Chassis = FACTORY_CHASSIS

    @property
    def running(self) -> Config:
        """What is in force."""
        return self.stored.running

    def up(self, name: str) -> bool:
        """Whether a port has a link."""
        shut = self.running.ports[name].shutdown
        linked = not shut and name in self.cabled and name not in self.stored.link_down
        front = front_of(self.model, "eos")
        port = self.running.ports[name]
        corrected = is_corrected(port, self.speed_gbit_s, front.lanes)
        return linked and corrected and is_active(self.running, name, front.lanes)

    def speed(self, name: str) -> int:
        """Of a port, in Gbit/s, as its card and cable have it at best."""
        said = self.running.ports[name].speed
        return int(said.removeprefix("auto ").partition("g")[0]) if said else self.speed_gbit_s

    def counters(self, name: str) -> PortCounters:
        """What a port has counted."""
        return self.stored.counters.get(name, PortCounters())


def as_json(tree: Tree) -> str:
    """As `| json` prints it."""
    return indented(tree, 4)


def short(name: str) -> str:
    """`Et1/1`."""
    return name.replace("Ethernet", "Et")


def short_svi(name: str) -> str:
    """`Vl111`, `Lo0`."""
    return name.replace("Vlan", "Vl").replace("Loopback", "Lo")


def mtu_bytes(port: Port) -> int:
    """The largest payload that a port forwards; routed ones have 1500 unless a line says more."""
    if port.routed:
        return min(port.mtu or ROUTED_MTU_BYTES, FACTORY_MTU_BYTES)
    return FACTORY_MTU_BYTES if port.l2_mtu is None else min(port.l2_mtu, FACTORY_MTU_BYTES)


def version(device: Device) -> str:
    """`show version`: a capture of 4.28.0F (sources.md)."""
    serial, digits = device.chassis.serial, device.chassis.base_mac
    mac = f"{digits[:4]}.{digits[4:8]}.{digits[8:]}"
    return (
        f"Arista {device.model}-F\nHardware version: 11.05\nSerial number: {serial}\n"
        f"Hardware MAC address: {mac}\nSystem MAC address: {mac}\n\n"
        f"Software image version: {device.release}\nArchitecture: x86_64\n"
    )


def vlans(device: Device) -> Tree:
    """`show vlan | json`."""
    config = device.running
    held = {name: carried(port) for name, port in config.ports.items() if device.up(name)}
    table: Tree = {}
    for vlan, name in sorted(config.vlans.items()):
        members: Tree = {
            port: {"privatePromoted": False} for port, vlans in held.items() if vlan in vlans
        }
        table[str(vlan)] = {
            "name": name,
            "dynamic": False,
            "status": "active",
            "interfaces": members,
        }
    return {"vlans": table, "sourceDetail": ""}


def carried(port: Port) -> set[int]:
    """The VLANs that a port is configured for."""
    if port.routed:
        return set()
    if port.mode == "access":
        return {port.access_vlan}
    return {*range(1, 4095)} if port.allowed is None else {*port.allowed}


def statuses(device: Device) -> Tree:
    """`show interfaces status | json`."""
    table: Tree = {}
    for name, port in device.running.ports.items():
        state = "disabled" if port.shutdown else "notconnect"
        mode: Tree = {"interfaceMode": "bridged", "vlanId": port.access_vlan}
        if port.routed:
            mode = {"interfaceMode": "routed"}
        elif port.mode == "trunk":
            mode = {"interfaceMode": "trunk", "vlanExplanation": "trunk"}
        table[name] = {
            "description": port.description or "",
            "linkStatus": "connected" if device.up(name) else state,
            "lineProtocolStatus": "up" if device.up(name) else "down",
            "vlanInformation": mode,
            "bandwidth": device.speed(name) * 10**9,
        }
    table["Management1"] = {"linkStatus": "connected", "vlanInformation": {}}
    return {"interfaceStatuses": table}


_HOST_MAC = "2488.0700.0001"


def _told(device: Device) -> dict[str, tuple[str, Told]]:
    """Port to the system that is plugged in there, and what it tells."""
    return {
        port: (system, tell(name, _HOST_MAC))
        for port, (system, name) in device.plugged.items()
        if port in device.running.ports and device.up(port)
    }


def lldp_detail(device: Device) -> Tree:
    """`show lldp neighbors detail | json`: the keys that three public clients read."""
    table: Tree = {
        port: {"lldpNeighborInfo": []} for port in device.running.ports if device.up(port)
    }
    for port, (system, told) in _told(device).items():
        far: Tree = {
            "interfaceId": f'"{told.port}"',
            "interfaceId_v2": told.port,
            "interfaceDescription": told.description,
        }
        neighbour: Tree = {"systemName": system, "neighborInterfaceInfo": far}
        table[port] = {"lldpNeighborInfo": [neighbour]}
    return {"lldpNeighbors": table}


NEW_SESSIONS = (4, 32)
"""From this release on, a session that awaits confirmation is named beside the table (napalm)."""


def config_sessions(
    sessions: Mapping[str, ConfigSession], inside: Mapping[str, int], release: str
) -> Tree:
    """`show configuration sessions detail | json`; `inside` counts the logins in each."""
    is_new, table, waiting = numbers(release) >= NEW_SESSIONS, Tree(), Tree()
    for name, session in sessions.items():
        logins: Tree = {
            str(4000 + number): {"user": session.user, "terminal": f"vty{number}"}
            for number in range(inside.get(name, 0))
        }
        state: Tree = {"state": session.state}
        if session.state == "pendingCommitTimer" and is_new:
            # What the table itself says of it then is unproven.
            state = {"state": "committed"}
            waiting = {
                "commitTimerSessionName": name,
                "commitTimerExpireTime": session.expires_at_s,
            }
        elif session.state == "pendingCommitTimer":
            state["commitBy"] = session.expires_at_s
        table[name] = {**state, "instances": logins}
    return {"maxSavedSessions": 1, "maxOpenSessions": 5, "sessions": table, **waiting}


def totals(device: Device, name: str) -> Tree:
    """`show interfaces X counters | json`."""
    held = device.counters(name)
    received, sent = sum(held.rx_bytes.values()), sum(held.tx_bytes.values())
    return {"interfaces": {name: {"inOctets": received, "outOctets": sent}}}


def discards(device: Device, name: str) -> Tree:
    """`show interfaces X counters discards | json`."""
    lost = device.counters(name).rx_discards
    return {
        "interfaces": {name: {"inDiscards": lost, "outDiscards": 0}},
        "inDiscardsTotal": lost,
        "outDiscardsTotal": 0,
    }


def queues(device: Device, name: str) -> Tree:
    """`show interfaces X counters queue detail | json`."""
    held = device.counters(name)
    classes: Tree = {
        f"TC{tc}": {
            "dropPrecedences": {
                "DP0": {
                    "enqueuedPackets": 0,
                    "enqueuedBytes": held.tx_bytes.get(tc, 0),
                    "droppedPackets": held.tx_drops.get(tc, 0),
                    "droppedBytes": 0,
                }
            }
        }
        for tc in QUEUES
    }
    port: Tree = {
        "ucastQueues": {"trafficClasses": classes},
        "mcastQueues": {"trafficClasses": {}},
    }
    return {"egressQueueCounters": {"interfaces": {name: port}}}


def marked(device: Device, name: str) -> Tree:
    """`show qos interfaces X ecn counters queue | json`: a dash where nothing is counted."""
    held, port = device.counters(name), device.running.ports[name]
    counts: Tree = {}
    for queue in QUEUES:
        counted = queue in port.queues and port.queues[queue].count
        counts[str(queue)] = str(held.ecn_marked.get(queue, 0)) if counted else "-"
    return {"intfQueueCounters": {name: {"queueCounters": counts}}}


def pfc_detail(device: Device) -> Tree:
    """`show priority-flow-control counters detail | json`."""
    table: Tree = {}
    for name in device.running.ports:
        held = device.counters(name)
        counted: Tree = {
            str(number): {
                "rxFrames": held.rx_pauses.get(number, 0),
                "txFrames": held.tx_pauses.get(number, 0),
            }
            for number in QUEUES
        }
        table[name] = {"priorities": counted}
    return {"interfaces": table}


def pfc_watchdog(device: Device) -> Tree:
    """`show priority-flow-control counters watchdog | json`: ports from their first event on."""
    table: Tree = {}
    for name in device.running.ports:
        stuck = {n: count for n, count in device.counters(name).storms.items() if count}
        queues: Tree = {
            str(number): {"stuckCount": count, "recoveryCount": count}
            for number, count in stuck.items()
        }
        if queues:
            table[name] = {"txQueues": queues}
    return {"interfaces": table}
