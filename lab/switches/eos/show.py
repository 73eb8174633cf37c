"""The output of `show …`: as text, as JSON, or both.

Sources: lab/sources.md#eos. If no source shows a table's text form, it is left out.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from lab.switches.eos.config import ALL_VLANS, FACTORY_MTU_BYTES, QUEUES, ROUTED_MTU_BYTES, Port
from lab.switches.neighbours import every_session, tell
from lab.switches.text import indented, numbers

if TYPE_CHECKING:
    from lab.switches.eos.server import EosSwitch

Tree = dict[str, Any]
_ALWAYS: Final[dict[str, Tree]] = json.loads("""{
"vlan": {"dynamic": false, "status": "active"},
"member": {"privatePromoted": false},
"queue": {"enqueuedPackets": 0, "enqueuedBytes": 0, "droppedPackets": 0, "droppedBytes": 0},
"route": {"hardwareProgrammed": true, "routeType": "eBGP", "kernelProgrammed": true,
          "routeAction": "forward", "directlyConnected": false, "preference": 200, "metric": 0},
"unit": {"state": "underMaintenance", "adminState": "underMaintenance",
         "stateChangeTime": 1741258774.3756502, "onBootMaintenance": false,
         "intfsViolatingTrafficThreshold": false, "aggInBpsRate": 0, "aggOutBpsRate": 0}}""")
"""Parts of answers that are always the same."""
_HOST_MAC: Final = "2488.0700.0001"


def as_json(tree: Tree) -> str:
    """A tree as `| json` prints it."""
    return indented(tree, 4)


def short(name: str) -> str:
    """`Et1/1`, `Vl111`, `Lo0`."""
    return re.sub("^(Et|Vl|Lo)[a-z]*", r"\1", name)


def section(text: str, pattern: str) -> str:
    """`| section REGEX`: matching lines with their parents and children, found with `search`."""
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
    names = ("system:/running-config", f"session:/{name}-session-config")
    texts = (running.splitlines(), candidate.splitlines())
    return "".join(f"{line}\n" for line in difflib.unified_diff(*texts, *names, lineterm=""))


def mtu_bytes(port: Port) -> int:
    """The largest payload that a port forwards; routed ones have 1500 by default."""
    said = (port.mtu or ROUTED_MTU_BYTES) if port.routed else port.l2_mtu
    return FACTORY_MTU_BYTES if said is None else min(said, FACTORY_MTU_BYTES)


def version(switch: EosSwitch) -> str:
    """`show version`: a capture of 4.28.0F (sources.md)."""
    digits = switch.chassis.base_mac
    mac = f"{digits[:4]}.{digits[4:8]}.{digits[8:]}"
    return (
        f"Arista {switch.model}-F\nHardware version: 11.05\n"
        f"Serial number: {switch.chassis.serial}\n"
        f"Hardware MAC address: {mac}\nSystem MAC address: {mac}\n\n"
        f"Software image version: {switch.release}\nArchitecture: x86_64\n"
    )


def _vlans(switch: EosSwitch) -> Tree:
    config = switch.stored.running
    held = {name: carried(port) for name, port in config.ports.items() if switch.up(name)}
    table = {
        str(vlan): {
            "name": name,
            **_ALWAYS["vlan"],
            "interfaces": {port: _ALWAYS["member"] for port in held if vlan in held[port]},
        }
        for vlan, name in sorted(config.vlans.items())
    }
    return {"vlans": table, "sourceDetail": ""}


def carried(port: Port) -> set[int]:
    """The configured VLANs of a port."""
    if port.routed:
        return set()
    if port.mode == "access":
        return {port.access_vlan}
    return {*(ALL_VLANS if port.allowed is None else port.allowed)}


def _statuses(switch: EosSwitch) -> Tree:
    table: Tree = {}
    for name, port in switch.stored.running.ports.items():
        up = switch.up(name)
        bridged = {"interfaceMode": "bridged", "vlanId": port.access_vlan}
        trunk = {"interfaceMode": "trunk", "vlanExplanation": "trunk"}
        switched = trunk if port.mode == "trunk" else bridged
        table[name] = {
            "description": port.description or "",
            "linkStatus": "connected" if up else "disabled" if port.shutdown else "notconnect",
            "lineProtocolStatus": "up" if up else "down",
            "vlanInformation": {"interfaceMode": "routed"} if port.routed else switched,
            "bandwidth": switch.speed(name) * 10**9,
        }
    table["Management1"] = {"linkStatus": "connected", "vlanInformation": {}}
    return {"interfaceStatuses": table}


def _lldp_detail(switch: EosSwitch) -> Tree:
    """The keys that three public clients read."""
    table: Tree = {port: {"lldpNeighborInfo": []} for port in switch.ports if switch.up(port)}
    for port in [port for port in switch.plugged if port in table]:
        system, name = switch.plugged[port]
        told = tell(name, _HOST_MAC)
        far = {
            "interfaceId": f'"{told.port}"',
            "interfaceId_v2": told.port,
            "interfaceDescription": told.description,
        }
        heard = {"systemName": system, "neighborInterfaceInfo": far}
        table[port] = {"lldpNeighborInfo": [heard]}
    return {"lldpNeighbors": table}


NEW_SESSIONS = (4, 32)
"""From this release on, the name of the unconfirmed session is next to the table (napalm)."""


def config_sessions(switch: EosSwitch) -> Tree:
    """`show configuration sessions detail | json`."""
    is_new, table, waiting = numbers(switch.release) >= NEW_SESSIONS, Tree(), Tree()
    for name, session in switch.config_sessions.held.items():
        state: Tree = {"state": session.state}
        if session.state == "pendingCommitTimer" and is_new:
            # The table's own entry for it is then unproven.
            state = {"state": "committed"}
            expires_at_s = session.expires_at_s
            waiting = {"commitTimerSessionName": name, "commitTimerExpireTime": expires_at_s}
        elif session.state == "pendingCommitTimer":
            state["commitBy"] = session.expires_at_s
        state["instances"] = {
            str(4000 + number): {"user": session.user, "terminal": f"vty{number}"}
            for number in range(switch.logins_in(name))
        }
        table[name] = state
    return {"maxSavedSessions": 1, "maxOpenSessions": 5, "sessions": table, **waiting}


def _totals(switch: EosSwitch, name: str) -> Tree:
    held = switch.counted(name)
    received, sent = sum(held.rx_bytes.values()), sum(held.tx_bytes.values())
    return {"interfaces": {name: {"inOctets": received, "outOctets": sent}}}


def _discards(switch: EosSwitch, name: str) -> Tree:
    lost = switch.counted(name).rx_discards
    port = {name: {"inDiscards": lost, "outDiscards": 0}}
    return {"interfaces": port, "inDiscardsTotal": lost, "outDiscardsTotal": 0}


def _errors(switch: EosSwitch, name: str) -> Tree:
    """Error counters in the form that ANTA's VerifyInterfaceErrors reads (sources.md#eos)."""
    kinds = ("alignmentErrors", "symbolErrors", "frameTooShorts", "frameTooLongs", "outErrors")
    broken = switch.counted(name).fcs_errors
    port = dict.fromkeys(kinds, 0) | {"fcsErrors": broken, "inErrors": broken}
    return {"interfaceErrorCounters": {name: port}}


def _queues(switch: EosSwitch, name: str) -> Tree:
    held = switch.counted(name)
    classes: Tree = {}
    for tc in QUEUES:
        sent, lost = held.tx_bytes.get(tc, 0), held.tx_drops.get(tc, 0)
        counts = {"enqueuedBytes": sent, "droppedPackets": lost}
        classes[f"TC{tc}"] = {"dropPrecedences": {"DP0": _ALWAYS["queue"] | counts}}
    tables: Tree = {
        "ucastQueues": {"trafficClasses": classes},
        "mcastQueues": {"trafficClasses": {}},
    }
    return {"egressQueueCounters": {"interfaces": {name: tables}}}


def _marked(switch: EosSwitch, name: str) -> Tree:
    """ECN counters of each queue; a dash if the queue does not count."""
    marked, queues = switch.counted(name).ecn_marked, switch.stored.running.ports[name].queues
    counted = {number for number, queue in queues.items() if queue.count}
    counts = {str(n): str(marked.get(n, 0)) if n in counted else "-" for n in QUEUES}
    return {"intfQueueCounters": {name: {"queueCounters": counts}}}


def _pfc_detail(switch: EosSwitch) -> Tree:
    table: Tree = {}
    for name in switch.ports:
        rx, tx = switch.counted(name).rx_pauses, switch.counted(name).tx_pauses
        counted = {str(n): {"rxFrames": rx.get(n, 0), "txFrames": tx.get(n, 0)} for n in QUEUES}
        table[name] = {"priorities": counted}
    return {"interfaces": table}


def _pfc_watchdog(switch: EosSwitch) -> Tree:
    """Watchdog counters; a port appears after its first event."""
    table: Tree = {}
    for name in switch.ports:
        storms = switch.counted(name).storms.items()
        found = {str(n): {"stuckCount": c, "recoveryCount": c} for n, c in storms if c}
        table |= {name: {"txQueues": found}} if found else {}
    return {"interfaces": table}


def _maintenance(switch: EosSwitch) -> Tree:
    """The answers in ANTA's unit tests of VerifyMaintenance."""
    nothing: Tree = {"units": {}, "interfaces": {}, "vrfs": {}}
    away = {"units": {"System": _ALWAYS["unit"]}}
    silent = {"warnings": ["Maintenance Mode is disabled."]}
    return nothing | (away if switch.stored.running.quiesced else silent)


def _bgp_summary(switch: EosSwitch) -> Tree:
    """A neighbour on a port appears once it was heard, with its link-local address.

    Captures of aristanetworks/anta have `fe80::…%Vl4094`.
    """
    view, peers = switch.router_view(), Tree()
    for name, each in every_session(view, switch.told().sessions).items():
        is_port = name.startswith("Ethernet")
        if each.up or not is_port:
            peers[f"fe80::1%{short(name)}" if is_port else name] = {
                "version": 4,
                "asn": view.neighbors[name],
                "prefixAccepted": each.networks,
                "prefixReceived": each.networks,
                "underMaintenance": False,
                "peerState": "Established" if each.up else "Idle",
            }
    vrf = {"vrf": "default", "asn": str(view.asn), "peers": peers}
    return {"vrfs": {"default": vrf if view.asn else {"peers": {}}}}


def _routes(switch: EosSwitch) -> Tree:
    """Routes by BGP (aristanetworks/anta, `VerifyRoutingTableEntry`).

    If the port of a next hop lacks an address, its `interface` still has the usual form: a guess.
    """
    table = {
        each.network: {
            **_ALWAYS["route"],
            "vias": [{"nexthopAddr": "fe80::1", "interface": port} for port in each.interfaces],
        }
        for each in switch.told().routes
    }
    return {"vrfs": {"default": {"routes": table}}}


def _bfd_peers(switch: EosSwitch) -> Tree:
    tables: dict[str, Tree] = {"ipv4Neighbors": {}, "ipv6Neighbors": {}}
    found = every_session(switch.router_view(), switch.told().sessions)
    for number, (name, each) in enumerate(found.items(), start=1):
        port = name if name.startswith("Ethernet") else ""
        if each.bfd is not None:
            stats: Tree = {port: {"status": "up" if each.bfd else "down", "l3intf": port}}
            family, key = ("ipv6Neighbors", f"fe80::{number}") if port else ("ipv4Neighbors", name)
            tables[family][key] = {"peerStats": stats}
    return {"vrfs": {"default": tables}}


TREES: Final[dict[str, Callable[..., Tree]]] = {
    "vlan": _vlans,
    "interfaces status": _statuses,
    "lldp neighbors detail": _lldp_detail,
    "interfaces <port> counters": _totals,
    "interfaces <port> counters discards": _discards,
    "interfaces <port> counters errors": _errors,
    "interfaces <port> counters queue detail": _queues,
    "qos interfaces <port> ecn counters queue": _marked,
    "ip bgp summary": _bgp_summary,
    "ip route": _routes,
    "bfd peers": _bfd_peers,
    "maintenance": _maintenance,
    "priority-flow-control counters detail": _pfc_detail,
    "priority-flow-control counters watchdog": _pfc_watchdog,
}
"""Words after `show` to the JSON answer; a real switch may print more."""
