"""CONFIG_DB as the daemons see it: what follows when a row changes.

Modelled on sonic-swss: buffermgrd makes lossless profiles and priority groups of `pfc_enable`, the
speed and the cable length (cfgmgr/buffermgr.cpp), and orchagent tells the chip of each group's row
once (orchagent/bufferorch.cpp). A length is only remembered until the port, or its PFC, changes, up
to images of March 2026. Of the dynamic buffer model only the rows are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from lab.switches.sonic import routing, watchdog
from lab.switches.sonic.config import Db, Fields, Platform, Stored, copy_of, row, spread

POOL = "ingress_lossless_pool"


_LISTED: Final = 202205
"""First branch whose buffermgrd makes groups for the priorities of `pfc_enable`; before, they are
always 3 and 4 (sonic-swss, cfgmgr/buffermgr.cpp)."""


class Database:
    """The running configuration of one switch, and the daemons that watch it."""

    def __init__(self, stored: Stored, platform: Platform, branch: int) -> None:
        """Watch `stored.running`, as the daemons of a branch do."""
        self._stored = stored
        self._platform = platform
        self._branch = branch
        self.acts_on_length = False
        """As images from March 2026 on do (sonic-swss 67198295)."""

    @property
    def db(self) -> Db:
        """The running configuration."""
        return self._stored.running

    def merge(self, table: str, key: str, fields: Mapping[str, str]) -> None:
        """Set fields of a row, and leave its others."""
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
            for group in spread(span):
                self._groups(port).pop(group, None)
        elif table == watchdog.TABLE:
            watchdog.end(self._stored, key)
        elif table == "BGP_GLOBALS":
            routing.follow(self._stored, key)
        return 1

    def delete_field(self, table: str, key: str, field: str) -> int:
        """Delete a field; a row whose last field goes is gone as well, as in Redis."""
        held = row(self.db, table, key)
        if field not in held:
            return 0
        del held[field]
        if not held:
            return self.delete(table, key)
        self._set(table, key)
        return 1

    def load(self, db: Db) -> None:
        """Boot, or `config reload`: everything again."""
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
            for group in spread(span):
                self._groups(port)[group] = fields.get("profile", "")
        elif table == "PORT_QOS_MAP":
            self._set_pfc(key, fields)
        elif table == "PORT":
            self._make_groups(key)
        elif table == "CABLE_LENGTH":
            self._set_lengths(fields)
        elif table == watchdog.TABLE:
            watchdog.follow(self._stored, key)
        elif table == "BGP_GLOBALS":
            routing.follow(self._stored, key)

    def _set_pfc(self, port: str, fields: Fields) -> None:
        listed = fields.get("pfc_enable")
        if listed is not None and self._stored.pfc_lists.get(port) != listed:
            self._stored.pfc_lists[port] = listed
            self._make_groups(port)
        if watchdog.is_waiting(self._stored, port):
            watchdog.follow(self._stored, port)

    def _set_lengths(self, fields: Fields) -> None:
        """A row is told whole; a port that is no longer in it keeps its length."""
        changed = [port for port in fields if self._stored.cables.get(port) != fields[port]]
        self._stored.cables |= fields
        for port in changed if self.acts_on_length else ():
            self._make_groups(port)

    def _make_groups(self, port: str) -> None:
        """Lossless groups for the remembered list; a row that is as it should be stays unsent."""
        if row(self.db, "DEVICE_METADATA", "localhost").get("buffer_model") == "dynamic":
            return
        name = self._profile(port)
        listed = self._stored.pfc_lists.get(port, "")
        if listed and self._branch < _LISTED:
            listed = "3,4"
        if name is None or not listed:
            return
        for span in _spans(sorted({int(part) for part in listed.split(",")})):
            key = f"{port}|{span}"
            if row(self.db, "BUFFER_PG", key).get("profile") != name:
                self.put("BUFFER_PG", key, {"profile": name})

    def _profile(self, port: str) -> str | None:
        """The lossless profile of a port, made if need be; None where there can be none."""
        cable = self._stored.cables.get(port)
        found = [line for line in self._platform.groups if line[0] == cable]
        pool = row(self.db, "BUFFER_POOL", POOL)
        if not found or not pool:
            return None
        speed = row(self.db, "PORT", port).get("speed", "")
        if speed != str(self._platform.speed_gbit_s * 1000):
            return None  # the lab has the platform's lengths for its own speed alone
        name = f"pg_lossless_{speed}_{cable}_profile"
        if not row(self.db, "BUFFER_PROFILE", name):
            _, size, xon, xoff = found[0]
            threshold = {f"{pool['mode']}_th": self._platform.threshold}
            fields = {"pool": POOL, "size": size, "xon": xon, "xoff": xoff, "xon_offset": xon}
            self.put("BUFFER_PROFILE", name, fields | threshold)
        return name


def _spans(numbers: list[int]) -> Iterator[str]:
    """Neighbours as one key: 3 and 4 are `3-4`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    for run in runs:
        yield str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}"
