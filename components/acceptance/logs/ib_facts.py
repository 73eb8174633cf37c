"""One host's view of its InfiniBand fabric: the answers of `ib_look.sh`, as plain values.

Forms: lab/sources.md#infiniband-diagnostics, with a capture of ibdiagnet 2.7.0. This module does
not judge.
"""

from __future__ import annotations

import re
from typing import Final

from pydantic import Field

from components.acceptance.logs.log_model import Seen

MASTER: Final = 3
STANDBY: Final = 2
SM_STATES: Final = {0: "not active", 1: "discovering", STANDBY: "standby", MASTER: "master"}
"""InfiniBand's SMInfo, as sminfo.c names it."""
FULL_MEMBER: Final = 0x8000
"""The bit of full members; the other fifteen are the key."""

ACTIVE: Final = "4: ACTIVE"
"""A port that a subnet manager has set up, as the kernel words it."""
_NO_ANSWER: Final = "failed: query"
"""The message of sminfo if its query got no answer (sminfo.c)."""

_CUT: Final = "the look was cut off before it had seen all ports: is the host overloaded?"
_PATH: Final = "PathRecord dump:"
_NO_RECORD: Final = "NO_RECORDS"
"""How saquery words the status 0x0300 of an answer (saquery.c); opensm answers with no record."""
_KEY: Final = re.compile(r"^\s*([a-z_]+):\s*(.*?)\s*$")
_RATE: Final = re.compile(r"(\d+(?:\.\d+)?) Gb/sec")
_SMINFO: Final = re.compile(
    r"sm lid (\d+) sm guid (0x[0-9a-f]+), activity count \d+ priority (\d+) state (\d+)"
)
_RECORD: Final = re.compile(r"^\s*(LID|GUID|Priority|SMState)\.+\s*(\S+)\s*$", re.MULTILINE)


class IbPort(Seen):
    """One HCA's port."""

    name: str
    state: str
    """As the kernel words it: `4: ACTIVE`."""
    phys_state: str
    rate_gbit_s: float | None
    lid: int
    sm_lid: int
    guid: str
    """16 hexadecimal digits."""
    prefix: str = ""
    """The prefix of its subnet: 16 hexadecimal digits."""
    pkeys: tuple[int, ...]
    """All entries of the key table except empty ones, with the bit of full members; ascending."""
    active_mtu_bytes: int | None
    """None if `ibv_devinfo` does not print it."""


class SubnetManager(Seen):
    """One subnet manager as the fabric sees it."""

    lid: int
    guid: str
    priority: int
    state: int


class PathAnswer(Seen):
    """The subnet's answer to one path query."""

    found: bool = False
    why_nothing: str = ""
    """Why the query got no answer at all; empty if it got one."""


class Stage(Seen):
    """One row of the table at the end."""

    name: str
    warnings: int
    errors: int
    comment: str = ""


class Diagnosis(Seen):
    """One run of ibdiagnet."""

    stages: tuple[Stage, ...]
    errors: tuple[str, ...]
    switches: int | None = None
    adaptive_switches: int | None = None
    """Switches on which adaptive routing is on; None if ibdiagnet does not report it."""


class IbFacts(Seen):
    """One host's view; a `why_no_…` says in words what could not be seen."""

    ports: tuple[IbPort, ...] = ()
    manager: SubnetManager | None = None
    """From `sminfo`: the manager that set up this host's first port."""
    why_no_manager: str = ""
    managers: tuple[SubnetManager, ...] = ()
    """From `saquery`: all managers that the master knows, itself included."""
    why_no_managers: str = ""
    paths: dict[str, PathAnswer] = Field(default_factory=dict[str, PathAnswer])
    """Name of a question to its answer."""
    diagnosis: Diagnosis | None = None
    why_no_diagnosis: str = ""
    """Why the diagnosis is missing; also empty on hosts that were not asked for one."""
    why_nothing: str = ""

    @property
    def lacks_master(self) -> bool:
        """Whether a port's subnet manager does not answer any more, or has handed over.

        A successor sets up one port after the other: while ports name two managers, the change is
        not complete. If a manager answers that no port names, it took over during the query.
        """
        managers = {port.sm_lid for port in self.ports if port.state == ACTIVE}
        if len(managers) != 1:
            return bool(managers)
        if self.manager is None:
            return _NO_ANSWER in self.why_no_manager
        return self.manager.state == STANDBY or self.manager.lid not in managers


def parse_ib_look(text: str) -> IbFacts:
    """Read the answer of `ib_look.sh`; a missing or odd section gets a reason in words."""
    blocks = (block.partition("\n") for block in re.split(r"^=== ", text, flags=re.MULTILINE)[1:])
    sections = {name.strip(): body for name, _, body in blocks}
    if "sminfo" not in sections:  # without any such section the ports are unknown
        return IbFacts(why_nothing=_CUT)
    parts = [(*name.partition(" "), body) for name, body in sections.items()]
    found, unread = _SMINFO.search(sections["sminfo"]), _why_not(sections["sminfo"], "sminfo")
    why_no_manager = "" if found else unread or "sminfo answered in another form"
    managers, why_no_managers = _managers(sections.get("saquery"))
    # Its status is not 0 if it finds errors; therefore its table counts, not its status.
    body = sections.get("ibdiagnet")
    diagnosis = None if body is None else parse_ibdiagnet(body)
    why_no_diagnosis = ""
    if body is not None and diagnosis is None:
        why_no_diagnosis = _why_not(body, "ibdiagnet") or "it printed no summary"
    return IbFacts(
        ports=tuple(_port(name, body) for kind, _, name, body in parts if kind == "port"),
        manager=_known_manager(*found.groups()) if found else None,
        why_no_manager=why_no_manager,
        managers=managers,
        why_no_managers=why_no_managers,
        paths={  # a record is a path; without one saquery prints the status of the answer
            name: PathAnswer(
                found=_PATH in body,
                why_nothing=""
                if _PATH in body or _NO_RECORD in body
                else _why_not(body, "saquery"),
            )
            for kind, _, name, body in parts
            if kind == "path"
        },
        diagnosis=diagnosis,
        why_no_diagnosis=why_no_diagnosis,
    )


def _port(name: str, body: str) -> IbPort:
    found = [(match[1], match[2]) for line in body.splitlines() if (match := _KEY.match(line))]
    values = dict(found)
    rate = _RATE.search(values.get("rate", ""))
    mtu = re.match(r"(\d+)", values.get("active_mtu", ""))
    keys = {_hexadecimal(value) for key, value in found if key == "pkey"}
    return IbPort(
        name=name,
        state=values.get("state", ""),
        phys_state=values.get("phys_state", ""),
        rate_gbit_s=float(rate[1]) if rate else None,
        lid=_hexadecimal(values.get("lid", "")),
        sm_lid=_hexadecimal(values.get("sm_lid", "")),
        guid=values.get("gid", "").replace(":", "")[-16:],
        prefix=values.get("gid", "").replace(":", "")[:16],
        pkeys=tuple(sorted(keys - {0})),
        active_mtu_bytes=int(mtu[1]) if mtu else None,
    )


def _hexadecimal(text: str) -> int:
    return int(text, 16) if re.fullmatch(r"0x[0-9a-fA-F]+", text) else 0


def _why_not(body: str | None, tool: str) -> str:
    if body is None:
        return f"{tool} was not run: the look was cut off before it"
    if body.startswith("missing: "):
        return f"{tool} is not installed"
    lines = body.strip().splitlines() or ["status: unknown"]
    if lines[-1] == "status: 0":
        return ""
    said = next((line for line in reversed(lines[:-1]) if line.strip()), "it printed nothing")
    return f"{said} ({lines[-1]})"


def _known_manager(lid: str, guid: str, priority: str, state: str) -> SubnetManager:
    return SubnetManager(
        lid=int(lid), guid=f"{int(guid, 16):016x}", priority=int(priority), state=int(state)
    )


def _managers(body: str | None) -> tuple[tuple[SubnetManager, ...], str]:
    why = _why_not(body, "saquery")
    if why or body is None:
        return (), why
    managers: list[SubnetManager] = []
    for record in body.split("SMInfoRecord dump:")[1:]:
        values = dict(_RECORD.findall(record))
        names = ("LID", "GUID", "Priority", "SMState")
        if not {*names} <= {*values}:
            return (), "saquery answered in another form"
        managers.append(_known_manager(*(values[name] for name in names)))
    return tuple(managers), "" if managers else "saquery lists no subnet manager"


_HEAD: Final = re.compile(r"^-I- Stage\s+Warnings\s+Errors\s+Comment\s*$", re.MULTILINE)
_ROW: Final = re.compile(r"^-I- (\S.*?)\s{2,}(\d+)\s+(\d+)(?:\s+(\S.*?))?\s*$")
_ERROR: Final = re.compile(r"^-E- (.*?)\s*$", re.MULTILINE)
_FINISHED: Final = re.compile(r"finished with errors$")
_ADAPTIVE: Final = re.compile(r"^Adaptive Routing is enabled on (\d+) switch", re.MULTILINE)
_SWITCHES: Final = re.compile(r"^IB Switches\s*:\s*(\d+)", re.MULTILINE)
_MOST_ERRORS: Final = 20
"""Error lines to keep: a broken spine prints one for each of its links."""
_MOST_COLUMNS: Final = 300


def parse_ibdiagnet(text: str) -> Diagnosis | None:
    """Read one run; None without the table at its end."""
    head = _HEAD.search(text)
    if head is None:
        return None
    rows = (_ROW.match(line) for line in text[head.end() :].splitlines())
    stages = tuple(
        Stage(name=row[1], warnings=int(row[2]), errors=int(row[3]), comment=row[4] or "")
        for row in rows
        if row is not None
    )
    adaptive, switches = (each.search(text) for each in (_ADAPTIVE, _SWITCHES))
    errors = [line for line in _ERROR.findall(text) if not _FINISHED.search(line)]
    return Diagnosis(
        stages=stages,
        errors=tuple(line[:_MOST_COLUMNS] for line in errors[:_MOST_ERRORS]),
        switches=int(switches[1]) if switches else None,
        adaptive_switches=int(adaptive[1]) if adaptive else None,
    )
