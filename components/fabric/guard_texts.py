"""What a setting beside ours breaks, and how to mend it in the words of each switch system.

The lines are those of the manuals that WHY.md beside each driver cites; no driver sends one of them
but where `repairs` of its system names the kind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

BREAKS: Final[Mapping[str, str]] = {
    "starved": "the rate of RoCE: another class goes before it",
    "starves": "the rate of every other class, and RoCE no longer waits for congestion notices",
    "rewrite": "the class of RoCE at the next hop: its packets leave with another DSCP",
    "notices": "the congestion control of RoCE: its notices are marked or dropped",
    "marked": "the rate of class {tc} beside RoCE: it is marked or dropped, and jobs start over it",
    "pauses": "the lossy class of RoCE: it pauses senders, which the file says it never does",
    "pauses_others": "the rate of RoCE: pauses of another priority stop the port's queues",
    "moved": "the class of RoCE or of its congestion notices: packets are sorted into another one",
    "joined": "the losslessness and rate of class {number}, which carries more than the file plans",
    "shared": "the rate of RoCE on that link: other VLANs share it",
    "foreign": "the rate of the rail: what these ports send and flood reaches its hosts",
}

_VLANS: Final = "take the VLAN off those ports, or name them in the file"
_FIXES: Final[Mapping[str, Mapping[str, str]]] = {
    "onyx": {
        "switch.schedule": "interface ethernet {port} traffic-class {n} dcb ets wrr {share}",
        "switch.rewrite": "interface ethernet {port} no qos rewrite dscp",
        "switch.ecn_elsewhere": "interface ethernet {port} no traffic-class {n} congestion-control",
        "switch.pfc_elsewhere": "interface ethernet {port} no dcb priority-flow-control mode force",
        "switch.dscp_map": "map the DSCPs to switch-priority {harmless} on that port",
        "switch.other_vlans": "interface ethernet {port} switchport trunk allowed-vlan {harmless}",
    },
    "cumulus": {
        "switch.schedule": "nv unset interface {port} qos egress-scheduler, or unset {n} in its"
        " profile under `qos egress-scheduler`",
        "switch.rewrite": "nv unset interface {port} qos remark, or nv unset qos remark"
        " default-global",
        "switch.ecn_elsewhere": "nv unset interface {port} qos congestion-control, or unset class"
        " {n} in its profile under `qos congestion-control`",
        "switch.pfc_elsewhere": "nv unset interface {port} qos pfc, or nv unset qos pfc"
        " default-global",
        "switch.dscp_map": "nv unset interface {port} qos mapping, or unset the DSCP in its profile"
        " under `qos mapping`",
        "switch.other_vlans": "nv set interface {port} bridge domain br_default vlan {harmless},"
        " and unset the others",
    },
    "eos": {
        "switch.schedule": "interface {port}, uc-tx-queue {n}, priority strict",
        "switch.rewrite": "no qos rewrite dscp",
        "switch.ecn_elsewhere": "interface {port}, uc-tx-queue {n}, no random-detect ecn",
        "switch.pfc_elsewhere": "interface {port}, no priority-flow-control priority {n} no-drop",
        "switch.dscp_map": "qos map dscp {n} to traffic-class {harmless}",
        "switch.other_vlans": "interface {port}, switchport trunk allowed vlan {harmless}",
    },
    "sonic": {
        "switch.schedule": "give queue {n} of {port} a scheduler of its own: QUEUE|{port}|{n}",
        "switch.rewrite": "sudo sonic-db-cli CONFIG_DB HDEL 'PORT_QOS_MAP|{port}' tc_to_dscp_map",
        "switch.ecn_elsewhere": "sudo sonic-db-cli CONFIG_DB HDEL 'QUEUE|{port}|{n}' wred_profile",
        "switch.pfc_elsewhere": "sudo pfc config priority off {port} {n}",
        "switch.dscp_map": "correct the row of DSCP_TO_TC_MAP that PORT_QOS_MAP|{port} names",
        "switch.other_vlans": "sudo config vlan member del {n} {port}",
    },
}
_PLAIN: Final = "set it to {harmless} on {port}"
"""Of a system without words of its own here."""
_EVERYWHERE: Final = {"switch.foreign_ports": _VLANS}


def fix_of(os: str, kind: str, ports: Sequence[str], n: int, harmless: str) -> str:
    """How to mend a setting on its switch.

    Args:
        os: The system of the switch.
        kind: Which kind of guard.
        ports: Where; none for the whole switch.
        n: The class, priority, DSCP or VLAN.
        harmless: The value that does no harm.
    """
    text = _EVERYWHERE.get(kind) or _FIXES.get(os, {}).get(kind, _PLAIN)
    share = "".join(filter(str.isdigit, harmless)) or "12"
    filled = text.format(port=ports[0] if ports else "", n=n, harmless=harmless, share=share)
    return f"{filled}; the other ports likewise" if len(ports) > 1 else filled
