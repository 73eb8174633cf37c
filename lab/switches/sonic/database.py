"""CONFIG_DB as the daemons see it: the effects of a changed row.

Modelled on sonic-swss: buffermgrd makes lossless profiles and priority groups from `pfc_enable`,
the speed and the cable length (cfgmgr/buffermgr.cpp), and orchagent sends each group's row to the
chip once (orchagent/bufferorch.cpp). In images before March 2026, a new length only takes effect
when the port, or its PFC, changes. Of the dynamic buffer model only the rows are modelled.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lab.switches.sonic.config import Db, Fields, Platform, Stored, Table, copy_of, is_managed, row
from lab.switches.text import collapse, expand

POOL: Final = "ingress_lossless_pool"
WATCHDOGS: Final = "PFC_WD"
_ACTIONS: Final = ("drop", "forward", "alert")
_TIMES: Final = {"detection_time": range(100, 5001), "restoration_time": range(100, 60_001)}
_LISTED: Final = 202205
"""First branch whose buffermgrd makes groups for the priorities of `pfc_enable`.

Older ones always use 3 and 4 (sonic-swss, cfgmgr/buffermgr.cpp).
"""


class Database:
    """The running configuration of one switch, and the daemons that watch it."""

    def __init__(self, stored: Stored, platform: Platform, branch: int) -> None:
        """Watch `stored.running`, as the daemons of a branch do."""
        self._stored = stored
        self._platform = platform
        self._branch = branch
        self.acts_on_length = False
        """True in images from March 2026 on (sonic-swss 67198295)."""

    @property
    def db(self) -> Db:
        """The running configuration."""
        return self._stored.running

    def merge(self, table: str, key: str, fields: Mapping[str, str]) -> None:
        """Set fields of a row, and keep its others."""
        held = self.db.setdefault(table, {}).setdefault(key, {})
        held.update(fields)
        self._set(table, key)

    def put(self, table: str, key: str, fields: Fields | None) -> None:
        """Set a whole row; None deletes it."""
        if fields is None:
            self.delete(table, key)
            return
        self.db.setdefault(table, {})[key] = dict(fields)
        self._set(table, key)

    def delete(self, table: str, key: str) -> int:
        """Delete a row; returns how many there were."""
        rows = self.db.get(table, {})
        found = rows.pop(key, None)
        if not rows:
            self.db.pop(table, None)
        if found is None:
            return 0
        if table == "BUFFER_PG":
            port, _, span = key.partition("|")
            for group in expand(span):
                self._groups(port).pop(group, None)
        elif table == WATCHDOGS:
            self._stored.watchdogs.pop(key, None)
        elif table == "BGP_GLOBALS":
            self._number_bgp(key)
        return 1

    def delete_field(self, table: str, key: str, field: str) -> int:
        """Delete a field; a row without fields is deleted too, as in Redis."""
        held = row(self.db, table, key)
        if field not in held:
            return 0
        del held[field]
        if not held:
            return self.delete(table, key)
        self._set(table, key)
        return 1

    def load(self, db: Db) -> None:
        """Boot, or `config reload`: apply every row again."""
        self._stored.running = {}
        self._stored.pfc_lists, self._stored.groups = {}, {}
        self._stored.cables, self._stored.watchdogs = {}, {}
        self._stored.bgp_asns = {}
        for table, rows in copy_of(db).items():
            for key, fields in rows.items():
                self.put(table, key, fields)

    def _groups(self, port: str) -> dict[int, str]:
        return self._stored.groups.setdefault(port, {})

    def _set(self, table: str, key: str) -> None:
        fields = row(self.db, table, key)
        if table == "BUFFER_PG":
            port, _, span = key.partition("|")
            for group in expand(span):
                self._groups(port)[group] = fields.get("profile", "")
        elif table == "PORT_QOS_MAP":
            self._set_pfc(key, fields)
        elif table == "PORT":
            self._make_groups(key)
        elif table == "CABLE_LENGTH":
            self._set_lengths(fields)
        elif table == WATCHDOGS:
            self._watch(key)
        elif table == "BGP_GLOBALS":
            self._number_bgp(key)

    def _set_pfc(self, port: str, fields: Fields) -> None:
        listed = fields.get("pfc_enable")
        if listed is not None and self._stored.pfc_lists.get(port) != listed:
            self._stored.pfc_lists[port] = listed
            self._make_groups(port)
        if port not in self._stored.watchdogs:  # try again a row that came before its list
            self._watch(port)

    def _watch(self, port: str) -> None:
        """Start the watchdog of a port, if its row and its list exist by now.

        Modelled on sonic-swss 202405 (orchagent/pfcwdorch.cpp, qosorch.cpp): it takes the current
        list when it starts, and a queue keeps its action until the watchdog ends.
        """
        fields = row(self.db, WATCHDOGS, port)
        if not _is_watched(fields) or port not in self.db["PORT"]:
            return
        listed = row(self.db, "PORT_QOS_MAP", port).get("pfcwd_sw_enable", "")
        queues = [int(part) for part in listed.split(",") if part]
        started = dict.fromkeys(queues, fields.get("action", "drop"))
        held = started | self._stored.watchdogs.get(port, {})
        if held:
            self._stored.watchdogs[port] = held

    def _number_bgp(self, key: str) -> None:
        """Handle a row of BGP_GLOBALS as frrcfgd does; FRR takes only digits for a number."""
        number = row(self.db, "BGP_GLOBALS", key).get("local_asn")
        if not is_managed(self.db):
            return
        if number is None:
            self._stored.bgp_asns.pop(key, None)
        elif number.isdigit():
            self._stored.bgp_asns.setdefault(key, number)

    def _set_lengths(self, fields: Fields) -> None:
        """Read the whole row of lengths; a port that it lacks keeps its length."""
        changed = [port for port in fields if self._stored.cables.get(port) != fields[port]]
        self._stored.cables |= fields
        for port in changed if self.acts_on_length else ():
            self._make_groups(port)

    def _make_groups(self, port: str) -> None:
        """Make lossless groups for the remembered list; an unchanged row is not sent."""
        if row(self.db, "DEVICE_METADATA", "localhost").get("buffer_model") == "dynamic":
            return
        name = self._profile(port)
        listed = self._stored.pfc_lists.get(port, "")
        if listed and self._branch < _LISTED:
            listed = "3,4"
        if name is None or not listed:
            return
        for span in collapse({int(part) for part in listed.split(",")}).split(","):
            key = f"{port}|{span}"
            if row(self.db, "BUFFER_PG", key).get("profile") != name:
                self.put("BUFFER_PG", key, {"profile": name})

    def _profile(self, port: str) -> str | None:
        """The lossless profile of a port, made if needed; None if the platform defines none."""
        cable = self._stored.cables.get(port)
        found = [line for line in self._platform.groups if line[0] == cable]
        pool = row(self.db, "BUFFER_POOL", POOL)
        if not found or not pool:
            return None
        speed = row(self.db, "PORT", port).get("speed", "")
        if speed != str(self._platform.speed_gbit_s * 1000):
            return None  # the lab only knows the platform's lengths for its own speed
        name = f"pg_lossless_{speed}_{cable}_profile"
        if not row(self.db, "BUFFER_PROFILE", name):
            _, size, xon, xoff = found[0]
            threshold = {f"{pool['mode']}_th": self._platform.threshold}
            fields = {"pool": POOL, "size": size, "xon": xon, "xoff": xoff, "xon_offset": xon}
            self.put("BUFFER_PROFILE", name, fields | threshold)
        return name


def _is_watched(fields: Fields) -> bool:
    """Whether orchagent accepts a row; it drops one with an unknown field or value.

    The lab does not emulate storms.
    """
    times = all(
        fields[name].isdigit() and int(fields[name]) in span
        for name, span in _TIMES.items()
        if name in fields
    )
    known = {*fields} <= {"action", "pfc_stat_history", *_TIMES}
    return (
        known and times and "detection_time" in fields and fields.get("action", "drop") in _ACTIONS
    )


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
"""The tables that `_clear_qos` of sonic-utilities deletes."""
NAME: Final = "AZURE"
LOSSLESS: Final = ("3", "4")
DEFAULT_CABLE: Final = "300m"
"""buffers_defaults_t1.j2 of the platform."""
_DSCP: Final = {"3": "3", "4": "4", "5": "2", "8": "0", "46": "5", "48": "6"}
"""Every other DSCP is in class 1, even 26, the usual one of RoCE."""


def clear_qos(database: Database) -> None:
    """Delete every QoS table, whoever wrote it."""
    for table in QOS_TABLES:
        for key in [*database.db.get(table, {})]:
            database.delete(table, key)


def reload_qos(database: Database, platform: Platform) -> None:
    """Clear all, then write the template's rows for every port."""
    clear_qos(database)
    for table, entries in _template(platform, [*database.db["PORT"]]).items():
        for key, fields in entries.items():
            database.put(table, key, fields)


def reload_ports(database: Database, platform: Platform, ports: list[str]) -> None:
    """`--ports`: replace only the rows of these ports (sonic-utilities, changes 2125 and 3017)."""
    rows = _template(platform, ports)
    for table in ("QUEUE", "BUFFER_PG", "BUFFER_QUEUE", "PORT_QOS_MAP"):
        for key in [*database.db.get(table, {})]:
            if key.partition("|")[0] in ports:
                database.delete(table, key)
        for key, fields in rows[table].items():
            if key != "global":
                database.put(table, key, fields)
    lengths = database.db.get("CABLE_LENGTH", {}).get(NAME, {})
    database.put("CABLE_LENGTH", NAME, {**lengths, **rows["CABLE_LENGTH"][NAME]})


def _template(platform: Platform, ports: list[str]) -> Db:
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
