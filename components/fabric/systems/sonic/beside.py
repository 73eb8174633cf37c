"""What of a SONiC port is not ours and yet decides about its traffic, from the same CONFIG_DB."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from components.fabric.state import OtherPorts
from components.fabric.systems.membership import holders_of
from components.fabric.systems.sonic.facts import PRIORITIES
from components.fabric.systems.sonic.read import ConfigDb, Tables, vlan_number

REMARK: Final = "tc_to_dscp_map"
"""What a port writes into the packets of a class (sonic-port-qos-map.yang)."""


def beside_of(config: ConfigDb, name: str) -> dict[str, object]:
    """A rewrite of DSCP, and the weight of each class that is not strict."""
    qos = {**config.row("PORT_QOS_MAP", "global"), **config.row("PORT_QOS_MAP", name)}
    rows = {tc: config.row("SCHEDULER", _scheduler(config, name, tc)) for tc in PRIORITIES}
    return {
        "rewrite_dscp": bool(qos.get(REMARK)),
        "class_shares": {
            tc: int(row["weight"])
            for tc, row in rows.items()
            if row.get("type") != "STRICT" and row.get("weight", "").isdigit()
        },
    }


def _scheduler(config: ConfigDb, name: str, queue: int) -> str:
    return config.queue(name, queue).get("scheduler", "")


def other_ports(tables: Tables, ours: Collection[str]) -> OtherPorts:
    """Who else is a member of a VLAN; SONiC has no member of all."""
    named: dict[str, set[int]] = {}
    for key in tables.get("VLAN_MEMBER", {}):
        vlan, _, port = key.partition("|")
        if port not in ours:
            named.setdefault(port, set()).add(vlan_number(vlan))
    return OtherPorts(by_vlan=holders_of(named))
