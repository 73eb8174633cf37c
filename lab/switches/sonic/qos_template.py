"""`config qos reload` and `config qos clear`: the tables of the platform's templates.

The maps, profiles and weights are those of sonic-buildimage, qos_config.j2 and buffers_config.j2 in
files/build_templates, for a switch without neighbours in its configuration.
"""

from __future__ import annotations

from typing import Final

from lab.switches.sonic.config import Db, Platform, Table
from lab.switches.sonic.database import Database

QOS_TABLES: Final = (
    "PORT_QOS_MAP",
    "QUEUE",
    "TC_TO_PRIORITY_GROUP_MAP",
    "MAP_PFC_PRIORITY_TO_QUEUE",
    "TC_TO_QUEUE_MAP",
    "DSCP_TO_TC_MAP",
    "MPLS_TC_TO_TC_MAP",
    "SCHEDULER",
    "PFC_PRIORITY_TO_PRIORITY_GROUP_MAP",
    "WRED_PROFILE",
    "CABLE_LENGTH",
    "BUFFER_PG",
    "BUFFER_QUEUE",
    "BUFFER_PORT_INGRESS_PROFILE_LIST",
    "BUFFER_PORT_EGRESS_PROFILE_LIST",
    "BUFFER_PROFILE",
    "BUFFER_POOL",
    "DEFAULT_LOSSLESS_BUFFER_PARAMETER",
    "LOSSLESS_TRAFFIC_PATTERN",
)
"""What `_clear_qos` of sonic-utilities deletes."""
NAME: Final = "AZURE"
LOSSLESS: Final = ("3", "4")
DEFAULT_CABLE: Final = "300m"
"""buffers_defaults_t1.j2 of the platform."""
_DSCP: Final = {"3": "3", "4": "4", "5": "2", "8": "0", "46": "5", "48": "6"}
"""Every other DSCP is in class 1: 26, the usual one of RoCE, as well."""


def clear_qos(database: Database) -> None:
    """Delete every QoS table, whoever wrote it."""
    for table in QOS_TABLES:
        for key in [*database.db.get(table, {})]:
            database.delete(table, key)


def reload_qos(database: Database, platform: Platform) -> None:
    """Clear all, then write the template's rows for every port."""
    clear_qos(database)
    for table, entries in _rows(platform, [*database.db["PORT"]]).items():
        for key, fields in entries.items():
            database.put(table, key, fields)


def reload_ports(database: Database, platform: Platform, ports: list[str]) -> None:
    """`--ports`: rows of these ports alone go and come (sonic-utilities, changes 2125 and 3017)."""
    rows = _rows(platform, ports)
    for table in ("QUEUE", "BUFFER_PG", "BUFFER_QUEUE", "PORT_QOS_MAP"):
        for key in [*database.db.get(table, {})]:
            if key.partition("|")[0] in ports:
                database.delete(table, key)
        for key, fields in rows[table].items():
            if key != "global":
                database.put(table, key, fields)
    lengths = database.db.get("CABLE_LENGTH", {}).get(NAME, {})
    database.put("CABLE_LENGTH", NAME, {**lengths, **rows["CABLE_LENGTH"][NAME]})


def _rows(platform: Platform, ports: list[str]) -> Db:
    rows = _switch_rows(platform, ports)
    rows["PORT_QOS_MAP"] = {"global": {"dscp_to_tc_map": NAME}}
    rows["QUEUE"], rows["BUFFER_PG"], rows["BUFFER_QUEUE"] = {}, {}, {}
    for port in ports:
        _port_rows(rows, port)
    return rows


def _switch_rows(platform: Platform, ports: list[str]) -> Db:
    same = {str(n): str(n) for n in range(8)}
    thresholds: dict[str, str] = {"ecn": "ecn_all"}
    for colour in ("green", "yellow", "red"):
        thresholds |= {
            f"wred_{colour}_enable": "true",
            f"{colour}_max_threshold": "2097152",
            f"{colour}_min_threshold": "1048576",
            f"{colour}_drop_probability": "5",
        }
    return {
        "CABLE_LENGTH": {NAME: dict.fromkeys(ports, DEFAULT_CABLE)},
        **platform.pools,
        "TC_TO_PRIORITY_GROUP_MAP": {
            NAME: {key: key if key in {*LOSSLESS, "7"} else "0" for key in same}
        },
        "MAP_PFC_PRIORITY_TO_QUEUE": {NAME: dict(same)},
        "TC_TO_QUEUE_MAP": {NAME: dict(same)},
        "DSCP_TO_TC_MAP": {NAME: {str(n): _DSCP.get(str(n), "1") for n in range(64)}},
        "SCHEDULER": {
            "scheduler.0": {"type": "DWRR", "weight": "14"},
            "scheduler.1": {"type": "DWRR", "weight": "15"},
        },
        "WRED_PROFILE": {"AZURE_LOSSLESS": thresholds},
    }


def _port_rows(rows: Db, port: str) -> None:
    rows["PORT_QOS_MAP"][port] = {
        "dscp_to_tc_map": NAME,
        "pfc_enable": ",".join(LOSSLESS),
        "pfc_to_queue_map": NAME,
        "pfcwd_sw_enable": ",".join(LOSSLESS),
        "tc_to_pg_map": NAME,
        "tc_to_queue_map": NAME,
    }
    queues: Table = rows["QUEUE"]
    for queue in range(7):
        fields = {"scheduler": "scheduler.0"}
        if str(queue) in LOSSLESS:
            fields = {"scheduler": "scheduler.1", "wred_profile": "AZURE_LOSSLESS"}
        queues[f"{port}|{queue}"] = fields
    rows["BUFFER_PG"][f"{port}|0"] = {"profile": "ingress_lossy_profile"}
    for span, kind in (("3-4", "lossless"), ("0-2", "lossy"), ("5-6", "lossy")):
        rows["BUFFER_QUEUE"][f"{port}|{span}"] = {"profile": f"egress_{kind}_profile"}
