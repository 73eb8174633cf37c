"""One SONiC port: the cells that change between its actual state and its target.

`CABLE_LENGTH|AZURE` has a field for each port. Unless the switch computes buffers, buffermgrd looks
length and speed up in the platform's `pg_profile_lookup.ini`, makes a profile named after both, and
gives it to the port's groups. If the file lacks a line for a length, everything stays, so here the
profiles of the groups decide.

`PFC_WD|Ethernet0` starts a watchdog; `pfcwd_sw_enable` of `PORT_QOS_MAP|Ethernet0` says which
queues it watches. `PFC_WD|GLOBAL` belongs to every port and is only read.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from components.core.templates import fault_text
from components.fabric.state import PortState, SwitchState
from components.fabric.systems.base import Unsettable
from components.fabric.systems.ranges import fill_membership
from components.fabric.systems.sonic import read
from components.fabric.systems.sonic import rows as db
from components.fabric.systems.sonic.rows import Cell, Cells

_TEMPLATE_ROW: Final = "CABLE_LENGTH|AZURE"
"""The row that the platform's template writes (buffers_config.j2)."""
_FORGOTTEN: Final = "0m"
"""buffermgrd ignores this length. If the field just vanished, it would remember the old one."""
_TIME_MS: Final = 200
"""Until a watchdog drops, and until it forwards again: the defaults of `pfcwd start_default`."""
OFFERS: Final = "offers"
"""Key of a switch's `native`: port to the speeds and the FEC that it has, of STATE_DB."""


def vlan_members(port: PortState) -> dict[int, str]:
    """VLAN to its `tagging_mode`."""
    trunk = () if port.trunk_vlans in {None, "all"} else port.trunk_vlans
    tagged = [vlan for vlan in trunk or () if isinstance(vlan, int)]
    members = dict.fromkeys(tagged if port.mode in {"trunk", "hybrid"} else (), "tagged")
    if port.mode in {"access", "hybrid"} and port.access_vlan is not None:
        members[port.access_vlan] = "untagged"
    return members


def _cable_cells(name: str, cells: Iterable[Cell]) -> tuple[Cell, ...]:
    """The cells with the cable length of a port; without one, the template's."""
    found = tuple(cell for cell in cells if cell[0].startswith("CABLE_LENGTH|"))
    return found or ((_TEMPLATE_ROW, name),)


def _is_run(row: str, listed: Iterable[int]) -> bool:
    """Whether buffermgrd makes this very row of a list: it has one row for neighbours, `3-4`."""
    numbers = db.spread(row)
    around = range(numbers.start - 1, numbers.stop + 1)
    return bool(numbers) and {*around} & {*listed} == {*numbers}


def _is_group(cell: Cell) -> bool:
    return cell[0].startswith("BUFFER_PG|")


class PortPlan:
    """What changes on one port."""

    def __init__(self, name: str, actual: SwitchState, target: SwitchState) -> None:
        self.name, self.switch = name, actual
        self.was, self.port = (each.ports.get(name, PortState()) for each in (actual, target))
        self.row, self.pause = db.PORT.format(name), (db.QOS.format(name), "pfc_enable")
        self._texts = db.texts_of(self.was), db.texts_of(self.port)
        settings = db.read_settings(self.was).values()
        # Every present cell of the port's settings.
        self.now: Cells = {cell: value for cells in settings for cell, value in cells.items()}
        # Cells that go before PFC (the input for buffers, and VLANs), with PFC, and after
        # everything else: MTU and state of the port, and its watchdog.
        self.first, self.sets, self.last = Cells(), Cells(), Cells()
        # Rows that go before anything comes: memberships, and a watchdog that starts again.
        self.gone_rows: list[str] = []
        self.deletes: list[Cell] = []  # fields that go in the end
        # Priority groups that go: those made for our PFC, and rows that share a group with one of
        # them, which are in `sets` again so that they are sent to the chip.
        self.groups: list[str] = []
        self.needed: set[str] = set()  # our rows that a wanted setting names
        self._recorded: set[Cell] = set()  # cells that go back to their recorded values
        self._touched = self._length_moves = False  # the switch must look at the length again
        # Cells that make the switch look, written with the last; None: no cell does, so PFC goes
        # for a moment and comes back.
        self._touches: Cells | None = {}
        self._plan_qos()
        self._plan_members()
        self._plan_fields()

    def _after(self, cell: Cell) -> str:
        return "" if cell in self.deletes else self.sets.get(cell, self.now.get(cell, ""))

    @property
    def named(self) -> set[str]:
        """Rows that the port names afterwards, except by restored cells."""
        gone = {*self.deletes, *self._recorded}
        return db.named_rows({c: v for c, v in (self.now | self.sets).items() if c not in gone})

    @property
    def touches(self) -> Cells:
        """The cells that make the switch read the length again, if it makes groups at all."""
        return (self._touches or {}) if self._after(self.pause) else {}

    def uses(self, profile: str) -> bool:
        """Whether a group names a profile that the switch made, or will after these lines."""
        for cell, value in (self.now | self.sets).items():
            stays = cell[0] not in self.groups or cell in self.sets
            if _is_group(cell) and value == profile and stays:
                return True
        # The switch makes further groups from these lines; otherwise the present ones are all.
        looks = bool(self._after(self.pause)) and (self._touched or self.pause in self.sets)
        cells = self.now | self.first
        said = [cells[cell] for cell in _cable_cells(self.name, cells) if cell in cells]
        return looks and bool(said) and bool(said[-1]) and f"_{said[-1]}_" in profile

    def forgets(self) -> Cells:
        """PFC off before its groups go: buffermgrd remembers a list that just vanishes."""
        renews = self._touches is None or self.groups or self.pause in self.deletes
        if not (self.now.get(self.pause) and renews):
            return {}
        if self.pause not in {*self.sets, *self.deletes}:
            self.sets[self.pause] = self.now[self.pause]
        return {self.pause: ""}

    def _put(self, cell: Cell, value: str | None) -> None:
        """Change a cell unless it has the value already; None deletes it."""
        now = self.now.get(cell)
        if value is None and now is not None:
            self.deletes.append(cell)
        elif value is not None and value != now:
            self.sets[cell] = value

    def _renew(self, stage: Cells, held: Cells, wanted: Cells, *, anew: bool = False) -> None:
        """Rows that no daemon changes in place: each goes, and comes again if it is wanted."""
        changed = {cell[0] for cell, _ in held.items() ^ wanted.items()}
        changed |= {row for row, _ in wanted} if anew else set()
        self.gone_rows += dict.fromkeys(row for row, _ in held if row in changed)
        stage |= {cell: value for cell, value in wanted.items() if cell[0] in changed}

    def _plan_qos(self) -> None:
        recorded, held = db.read_settings(self.port), db.values_of(self.was)
        self._plan_length(recorded.get("cable"))
        for setting in db.settings_of(self.port):
            name = setting[0]
            if name not in recorded:
                agrees = db.values_of(self.port)[name].items() <= held.get(name, {}).items()
                self._plan_wanted(*setting, agrees=agrees)
        for name, cells in recorded.items():
            owned = db.cells_of(self.name, *db.SETTINGS[name]) if name in db.SETTINGS else ()
            self._recorded |= {*owned}
            for cell in owned:
                self._put(cell, cells.get(cell))
            if name == "buffers":
                self._put_back_groups({c: v for c, v in cells.items() if _is_group(c)})
        self._plan_watchdog(recorded.get("pfc_watchdog"))

    def _plan_wanted(self, name: str, row: db.CellRow, tc: int, *, agrees: bool) -> None:
        """`agrees`: the port has the setting. No page says which of two rows for a queue wins."""
        cells = db.cells_of(self.name, row, tc)
        texts = (each(self.port, tc) if callable(each) else each for each in row.fields.values())
        wanted = dict(zip(cells, texts, strict=True))
        as_wanted = all(self.now.get(cell) == (text or None) for cell, text in wanted.items())
        if not agrees:
            shared = (row for row, _ in db.read_settings(self.was).get(name, {}))
            for each in (row for row in shared if row.startswith("QUEUE|") and "-" in row):
                words = {"row": each, "port": self.name, "tc": tc}
                raise Unsettable(fault_text(__file__, "joined-queues", **words))
            if name == "buffers":
                self._want_groups(as_wanted=as_wanted)
            for cell, text in wanted.items():
                self._put(cell, text or None)
        if not agrees or as_wanted:
            self.needed |= db.named_rows(wanted)

    def _plan_length(self, recorded: Cells | None) -> None:
        """Write the length before PFC: PFC makes the switch read it, in older images only PFC."""
        was, port, aim = self.was, self.port, Cells()
        held = _cable_cells(self.name, self.now)
        if recorded is not None:
            gone = [cell for cell in held if cell in self.now and cell not in recorded]
            self.deletes += gone
            aim = dict(recorded) or dict.fromkeys(gone, _FORGOTTEN)
        elif port.cable_m is not None and was.cable_m != port.cable_m:
            aim = dict.fromkeys(held, f"{port.cable_m}m")
            paused, rows = port.pfc_priorities or (), db.read_rows(self.switch) or ()
            for cell, speed, length in read.made_groups(self.now, paused):
                profile = f"{db.LOSSLESS_PROFILE}{speed}_{port.cable_m}m_profile"
                # buffermgrd does not touch a row of an earlier list, `3-4` besides `3`, which would
                # bring its headroom back at the next boot. Its new profile must be there already.
                if length != port.cable_m and _is_run(cell[0], paused):
                    self._touched = True
                elif length != port.cable_m and f"BUFFER_PROFILE|{profile}" in rows:
                    self.sets[cell] = profile
        lengths = {cell: value for cell, value in aim.items() if self.now.get(cell) != value}
        self.first |= lengths
        self._length_moves = bool(lengths)
        self._touched = self._touched or self._length_moves
        if self._touched:
            self._touches = self._touch_cells()

    def _touch_cells(self) -> Cells | None:
        """A field of a port with its present value: writing it makes buffermgrd read the length.

        Writing a length is enough only in images from March 2026 on (sonic-swss 67198295). The
        field is not needed if MTU or state is written anyway.
        """
        was, now = self._texts
        names = [name for name, field in db.PORT_FIELDS.items() if field.native]
        if any(now[name] not in {None, was[name]} for name in names):
            return {}
        for name in names:
            text = was[name]
            if text and not db.PORT_FIELDS[name].is_absent(self.was, text):
                return {(self.row, name): text}
        return None

    def _plan_watchdog(self, target: Cells | None) -> None:
        """A running watchdog half takes a change, so it restarts (sonic-swss, pfcwdorch.cpp)."""
        listed, row = (db.QOS.format(self.name), db.LIST_FIELD), db.WATCHDOG.format(self.name)
        target = self._want_watchdog(listed, row) if target is None else target
        if target is not None:
            self._put(listed, target.get(listed))
            held, wanted = (
                {cell: text for cell, text in cells.items() if cell[0] == row}
                for cells in (self.now, target)
            )
            self._renew(self.last, held, wanted, anew=self.now.get(listed) != target.get(listed))

    def _want_watchdog(self, listed: Cell, row: str) -> Cells | None:
        """The watchdog's cells; existing times stay unless the file has others."""
        was, port, implied = self.was, self.port, self.switch.noted()
        paused, times = {*(port.pfc_priorities or ())}, port.pfc_watchdog_ms
        lists_all = paused <= db.numbers_of(self.now.get(listed, ""))
        settled = was.pfc_watchdog and times in {None, was.pfc_watchdog_ms} and lists_all
        if not port.pfc_watchdog or settled:
            return {} if port.pfc_watchdog is False else None
        polled = read.poll_ms(implied)
        if read.UNPOLLED in implied:
            raise Unsettable(fault_text(__file__, "unpolled"))
        if times is not None and min(times) < polled:
            raise Unsettable(fault_text(__file__, "slow-polls", polled=polled, least=min(times)))
        wanted = {cell: text for cell, text in self.now.items() if cell[0] == row}
        wanted[row, "action"] = read.ACTION
        for number, time in enumerate(read.RANGES_MS):
            if times is not None:
                wanted[row, time] = str(times[number])
            elif not read.is_time(wanted.get((row, time), ""), time, implied):
                wanted[row, time] = str(max(_TIME_MS, polled))
        wanted[listed] = self.now[listed] if lists_all else ",".join(map(str, sorted(paused)))
        return wanted

    def _want_groups(self, *, as_wanted: bool) -> None:
        """In the dynamic model a lossless buffer is asked for; in the other it follows from PFC."""
        was, port = self.was, self.port
        lacking = [n for n in port.lossless_buffers or () if n not in (was.lossless_buffers or ())]
        if "dynamic" in self.switch.noted():
            for priority in lacking:
                self._put((db.GROUP.format(self.name, priority), "profile"), db.DYNAMIC_PROFILE)
        elif as_wanted and was.pfc_priorities == port.pfc_priorities and not self._length_moves:
            raise Unsettable(fault_text(__file__, "no-buffer", port=self.name, priority=lacking[0]))

    def _put_back_groups(self, before: Cells) -> None:
        """Delete the groups made for our PFC; the switch makes those of a list that stays."""
        paused, gone = db.numbers_of(self._after(self.pause)), set[int]()
        for cell, profile in sorted(self.now.items()):
            # With another length the switch may have made none of a list that stays.
            stays = _is_run(cell[0], paused) and not self._length_moves
            made = profile.startswith(db.LOSSLESS_PROFILE) and not stays
            if _is_group(cell) and cell not in before and (made or profile == db.DYNAMIC_PROFILE):
                self.groups.append(cell[0])
                gone |= {*db.spread(cell[0])}
        for cell, profile in sorted(before.items()):
            if gone & {*db.spread(cell[0])} and cell in self.now:
                self.groups.append(cell[0])
                self.sets[cell] = profile
            else:
                self._put(cell, profile)

    def _plan_members(self) -> None:
        """A port has one untagged VLAN, so old memberships go first."""
        if self.port.mode is None and self.port.trunk_vlans is None:
            return
        before, after = (
            {(f"VLAN_MEMBER|Vlan{v}|{self.name}", "tagging_mode"): tag for v, tag in sorted(each)}
            for each in (
                vlan_members(self.was).items(),
                vlan_members(fill_membership(self.was, self.port)).items(),
            )
        )
        self._renew(self.first, before, after)
        # Releases from 202405 on may have recorded a mode, which limits what a port may join.
        cell, tags, port = (self.row, "mode"), {*after.values()}, self.port
        now, wanted = (db.read_settings(s).get("mode", {}).get(cell) for s in (self.was, port))
        if wanted is None:
            wanted = "trunk" if "tagged" in tags else port.mode if port.mode == "routed" else now
            wanted = "access" if tags == {"untagged"} and now == "routed" else wanted
        if now is not None and port.mode is not None and wanted not in {None, now}:
            self.first[cell] = wanted or ""

    def _plan_fields(self) -> None:
        was, now = self._texts
        if now["adv_speeds"] == now["adv_speeds@"] == "" == was["adv_speeds"]:
            was["adv_speeds"] = was["adv_speeds@"]  # the default of a list is the text `all`
        defaults, gone = Cells(), dict[int, Cell]()
        offers = (db.read_rows(self.switch, OFFERS) or {}).get(self.name, {})
        for name, field in db.PORT_FIELDS.items():
            cell, text, before = (self.row, name), now[name], was[name] or ""
            if text is None:
                continue
            value = text or field.default
            if text != before and value and value != before:
                # As `config interface speed` and `fec` do (sonic-utilities, scripts/portconfig).
                # The FEC of the chip may follow the speed: for another one it is not known yet.
                offered = list(filter(None, offers.get(f"supported_{name}s", "").split(",")))
                follows = name == "fec" and (self.row, "speed") in self.first
                if offered and value not in offered and not follows:
                    words = {"name": name, "value": value, "offered": ", ".join(offered)}
                    raise Unsettable(fault_text(__file__, "not-offered", port=self.name, **words))
                (self.last if field.native else self.first if text else defaults)[cell] = value
            stays_absent = text == before and field.is_absent(self.was, before)
            if field.is_absent(self.port, text) and not stays_absent:
                gone[field.leaves] = cell
        self.first |= defaults
        self.deletes += [cell for _, cell in sorted(gone.items())]
