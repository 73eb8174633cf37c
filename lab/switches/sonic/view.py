"""What decides about a RoCE packet on one port of an emulated SONiC switch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.switches.onyx.config import Mode, Trust
from lab.switches.sonic.config import FACTORY_MTU, Db, Fields, Stored, row, spread
from lab.switches.sonic.routing import uses_link_local
from lab.switches.sonic.show import oper_up
from lab.views import PortView

if TYPE_CHECKING:
    from lab.switches.sonic.cli import Switch

_BYTES_PER_KIB = 1024


def view_port(switch: Switch, port: str) -> PortView:
    """The state of a port that is there."""
    db = switch.stored.running
    fields, qos = row(db, "PORT", port), row(db, "PORT_QOS_MAP", port)
    mode, access, allowed = _membership(db, port)
    return PortView(
        switch=switch.name,
        port=port,
        admin_up=fields.get("admin_status", "down") == "up",
        oper_up=oper_up(switch, port),
        speed_gbit_s=switch.platform.speed_gbit_s,
        mtu_bytes=int(fields.get("mtu", FACTORY_MTU)),
        mode=mode,
        access_vlan=access,
        allowed_vlans=allowed,
        trust=_trust(db, port),
        # Without a map everything is class 0, and class 0 is queue 0 (SAI; a guess).
        dscp_to_priority=_numbers(row(db, "DSCP_TO_TC_MAP", _dscp_map(db, port)), 64),
        priority_to_tc=_numbers(row(db, "TC_TO_QUEUE_MAP", qos.get("tc_to_queue_map", "")), 8),
        ecn_kib=_ecn(db, port),
        pfc_priorities=_paused(switch.stored, qos, port),
        link_local=uses_link_local(db, port),
    )


def _paused(stored: Stored, qos: Fields, port: str) -> frozenset[int]:
    """Priorities with PFC whose packets are in a group that the chip has headroom for."""
    db, chip = stored.running, stored.groups.get(port, {})
    groups = row(db, "TC_TO_PRIORITY_GROUP_MAP", qos.get("tc_to_pg_map", ""))
    listed = [int(part) for part in qos.get("pfc_enable", "").split(",") if part]
    return frozenset(
        n
        for n in listed
        if groups.get(str(n)) == str(n) and "xoff" in row(db, "BUFFER_PROFILE", chip.get(n, ""))
    )


def _membership(db: Db, port: str) -> tuple[Mode, int, frozenset[int]]:
    untagged, tagged = 0, set[int]()
    for key, fields in db.get("VLAN_MEMBER", {}).items():
        vlan, _, member = key.partition("|")
        if member == port and fields.get("tagging_mode") == "untagged":
            untagged = int(vlan.removeprefix("Vlan"))
        elif member == port:
            tagged.add(int(vlan.removeprefix("Vlan")))
    if not untagged:
        return "trunk", 0, frozenset(tagged)
    return ("hybrid" if tagged else "access"), untagged, frozenset(tagged)


def _dscp_map(db: Db, port: str) -> str:
    own = row(db, "PORT_QOS_MAP", port).get("dscp_to_tc_map")
    return own or row(db, "PORT_QOS_MAP", "global").get("dscp_to_tc_map", "")


def _trust(db: Db, port: str) -> Trust:
    dscp = bool(row(db, "DSCP_TO_TC_MAP", _dscp_map(db, port)))
    if "dot1p_to_tc_map" in row(db, "PORT_QOS_MAP", port):
        return "both" if dscp else "L2"
    return "L3" if dscp else "port"


def _numbers(fields: dict[str, str], count: int) -> tuple[int, ...]:
    return tuple(int(fields.get(str(n), "0")) for n in range(count))


def _ecn(db: Db, port: str) -> dict[int, tuple[int, int]]:
    found: dict[int, tuple[int, int]] = {}
    for key, fields in db.get("QUEUE", {}).items():
        name, _, span = key.partition("|")
        profile = row(db, "WRED_PROFILE", fields.get("wred_profile", ""))
        if name != port or profile.get("ecn", "ecn_none") == "ecn_none":
            continue
        limits = [
            int(profile[f"green_{end}_threshold"]) // _BYTES_PER_KIB for end in ("min", "max")
        ]
        found |= dict.fromkeys(spread(span), (limits[0], limits[1]))
    return found
