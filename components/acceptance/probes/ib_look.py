"""Plan from the file what to expect of an InfiniBand fabric and what to ask; read the answers.

The answers are those of `ib_look.sh` on one host, as plain values that are not judged here. Forms:
lab/sources.md#infiniband-diagnostics, with a capture of ibdiagnet 2.7.0.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from typing import Final

from pydantic import Field

from components.acceptance.logs.log_model import Seen
from components.core.record import record
from components.model.cluster import ClusterSpec
from components.model.hosts import Host
from components.model.infiniband import DEFAULT_PARTITION, Membership
from components.model.places import list_ib_switches
from components.model.worker_kinds import on_infiniband
from components.remote.endpoint import host_endpoint
from components.remote.step import Endpoint

SUBNET_PREFIX: Final = "fe80000000000000"
"""The default prefix of a subnet (InfiniBand specification), which opensm leaves as it is."""
FULL_MEMBER: Final = 0x8000
"""The bit of full members; the other fifteen are the key."""
LOOK_DEADLINE_S: Final = 120.0
"""Seconds to read files of /sys and to query the subnet manager once for each path, on a busy host:
one in the lab took over 60 where 20 processes waited for its two cores."""
TAKEOVER_S: Final = 90.0
"""Seconds in which a standby takes over: opensm's took 55 with its defaults (four unanswered polls
of ten seconds, and a sweep of the subnet)."""
DIAGNOSE_DEADLINE_S: Final = 600.0
"""Seconds with ibdiagnet: it asks every node of the fabric, some thousand in a large one."""
MASTER: Final = 3
STANDBY: Final = 2
SM_STATES: Final = {0: "not active", 1: "discovering", STANDBY: "standby", MASTER: "master"}
"""InfiniBand's SMInfo, as sminfo.c names it."""
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
_HEAD: Final = re.compile(r"^-I- Stage\s+Warnings\s+Errors\s+Comment\s*$", re.MULTILINE)
_ROW: Final = re.compile(r"^-I- (\S.*?)\s{2,}(\d+)\s+(\d+)(?:\s+(\S.*?))?\s*$")
_ERROR: Final = re.compile(r"^-E- (.*?)\s*$", re.MULTILINE)
_FINISHED: Final = re.compile(r"finished with errors$")
_ADAPTIVE: Final = re.compile(r"^Adaptive Routing is enabled on (\d+) switch", re.MULTILINE)
_SWITCHES: Final = re.compile(r"^IB Switches\s*:\s*(\d+)", re.MULTILINE)
_MOST_ERRORS: Final = 20
"""Error lines to keep: a broken spine prints one for each of its links."""
_MOST_COLUMNS: Final = 300


class PathAsk(Seen):
    """One path query of a host in a partition, between its own port and another one."""

    name: str
    """The name of the answer: `training.1`."""
    partition: str
    source: str
    target: str
    to: str
    """The other port, for people: `gpu02/hca-0`."""
    pkey: int
    """With the bit of full members if the asking port has it."""
    wanted: bool

    @property
    def words(self) -> str:
        """The query as one word, for the script."""
        wholes = (SUBNET_PREFIX + guid for guid in (self.source, self.target))
        gids = (":".join(gid[at : at + 4] for at in range(0, len(gid), 4)) for gid in wholes)
        return ",".join((self.name, *gids, f"0x{self.pkey:04x}"))


class RailLimit(Seen):
    """One rail: the same HCA of every worker."""

    name: str
    ports: dict[str, str]
    """Host to the port GUID of its HCA."""


def plan_rails(spec: ClusterSpec) -> tuple[RailLimit, ...]:
    """Each HCA of the workers as a rail; empty if the file lists no GUIDs."""
    fabric = spec.infiniband
    hosts = [host for host in on_infiniband(spec) if host.hca_guids]
    count = min((len(host.hca_guids) for host in hosts), default=0)
    names = [rail.name for rail in fabric.rails] if fabric else []
    return tuple(
        RailLimit(
            name=names[number] if number < len(names) else f"hca-{number}",
            ports={host.name: host.hca_guids[number] for host in hosts},
        )
        for number in range(count)
    )


def plan_paths(spec: ClusterSpec, host: Host) -> tuple[PathAsk, ...]:
    """For each partition of named members, query a path to a member and one to another port.

    The subnet manager gives one only to two ports that may talk there: the answers prove a key.
    """
    found, fabric = list[PathAsk](), on_infiniband(spec)
    others = [h for h in fabric if h.name != host.name and h.hca_guids]
    partitions = spec.infiniband.partitions if spec.infiniband else ()
    for partition in (each for each in partitions if each.members != "all"):
        listed = {h.name: (h, partition.member(h.name)) for h in fabric}
        members = {name: m.ports_of(h.hca_guids) if m else () for name, (h, m) in listed.items()}
        own = members.get(host.name, ())
        kind = partition.membership_of(host.name)
        source = own[0] if own else next(iter(host.hca_guids), None)
        inside = [
            (h, guid)
            for h in others
            for guid in members[h.name]
            if "full" in {kind, partition.membership_of(h.name)}
        ]
        outside = [(h, guid) for h in others for guid in h.hca_guids if guid not in members[h.name]]
        for number, (ends, wanted) in enumerate(((inside, bool(own)), (outside, False)), start=1):
            if source is not None and ends:
                other, guid = ends[0]
                ask = PathAsk(
                    name=f"{partition.name}.{number}",
                    partition=partition.name,
                    source=source,
                    target=guid,
                    to=f"{other.name}/hca-{other.hca_guids.index(guid)}",
                    pkey=partition.pkey | (FULL_MEMBER if kind == "full" else 0),
                    wanted=wanted,
                )
                found.append(ask)
    return tuple(found)


class PartitionLimit(Seen):
    """One partition, and its required members."""

    name: str
    pkey: int
    members: dict[str, Membership]
    """Host to membership; it counts for every HCA port of the host."""
    ports: dict[str, tuple[str, ...]] = Field(default_factory=dict[str, tuple[str, ...]])
    """Host to the GUIDs of the ports in it; without an entry, all ports of the host are in it."""
    exclusive: bool = False
    """Other hosts, and HCAs that a host does not list, must not have the key."""


class IbLimits(Seen):
    """The plan's expectations for the fabric."""

    hcas: int
    """HCA ports that must be active on each worker."""
    rate_gbit_s: float
    mtu_bytes: int
    partitions: tuple[PartitionLimit, ...] = ()
    master_priority: int | None = None
    """Priority of the master; None if the file runs no subnet manager."""
    standbys: int | None = None
    """Standby subnet managers; None if the file runs no subnet manager."""
    adaptive_routing: bool = False
    rails: tuple[RailLimit, ...] = ()
    """The same HCA of every worker, each proven separately."""
    paths: dict[str, tuple[PathAsk, ...]] = Field(default_factory=dict[str, tuple[PathAsk, ...]])
    """Host to its path queries to the subnet."""
    cables: dict[str, str] = Field(default_factory=dict[str, str])
    """Port GUID of an HCA to the switch and the port that it is plugged into."""


@record
class IbLook:
    """One host to ask: one connection, one script."""

    endpoint: Endpoint
    script: str
    deadline_s: float
    takeover_s: float = 0.0
    """Seconds to wait for a lost master; 0 without a standby in the file."""


def plan_ib_limits(spec: ClusterSpec) -> IbLimits | None:
    """Plan the expectations; None without own InfiniBand switches, or without hosts to ask."""
    fabric = spec.infiniband
    if fabric is None or not _asked(spec):
        return None
    own = spec.sm_switches if fabric.subnet_manager == "switch" else ()
    # Every port is in Default, full or limited: else it cannot reach the subnet manager.
    hosts = on_infiniband(spec)
    members: dict[str, Membership] = {host.name: "limited" for host in hosts}
    partitions = [PartitionLimit(name=DEFAULT_PARTITION, pkey=0x7FFF, members=members)]
    for each in fabric.partitions:
        kinds: dict[str, Membership] = {
            it.name: kind for it in hosts if (kind := each.membership_of(it.name)) is not None
        }
        ports = {
            it.name: member.ports_of(it.hca_guids) if member else it.hca_guids
            for it in hosts
            if it.hca_guids and it.name in kinds
            for member in (each.member(it.name),)
        }
        limit = PartitionLimit(name=each.name, pkey=each.pkey, members=kinds, ports=ports,
                               exclusive=each.members != "all")  # fmt: skip
        partitions.append(limit)
    guids = {f"{it.name}/hca-{n}": guid for it in hosts for n, guid in enumerate(it.hca_guids)}
    cables = {
        guids[to]: f"{switch.name} {name}"
        for switch in list_ib_switches(spec)
        for name, to in switch.ports.items()
        if to in guids
    }
    return IbLimits(
        hcas=fabric.hcas,
        rate_gbit_s=fabric.rate_gbit_s,
        mtu_bytes=fabric.mtu_bytes,
        partitions=tuple(partitions),
        master_priority=own[0].sm_priority if own else None,
        standbys=len(own) - 1 if own else None,
        adaptive_routing=fabric.adaptive_routing,
        rails=plan_rails(spec),
        paths={host.name: asks for host in _asked(spec) if (asks := plan_paths(spec, host))},
        cables=cables,
    )


def _asked(spec: ClusterSpec) -> tuple[Host, ...]:
    """The workers on the fabric that Railyard logs in to: it cannot ask the others."""
    return tuple(host for host in on_infiniband(spec) if host.ssh is not None)


@cache
def host_script(name: str) -> str:
    """The text of one of the room's scripts, without its comments."""
    text = resources.files("components.acceptance").joinpath("scripts", f"{name}.sh")
    lines = text.read_text("utf-8").splitlines(keepends=True)
    return "".join(line for line in lines if not line.lstrip().startswith("#"))


def plan_ib_looks(spec: ClusterSpec) -> tuple[IbLook, ...]:
    """Every worker on the fabric with a login is asked, the first one also with ibdiagnet."""
    fabric = spec.infiniband
    if fabric is None:
        return ()
    takeover_s = TAKEOVER_S if len(spec.sm_switches) > 1 else 0.0
    options = "--routing" if fabric.adaptive_routing else "''"
    found: list[IbLook] = []
    for host in _asked(spec):
        words = " ".join(ask.words for ask in plan_paths(spec, host))
        head = f"diagnose={'no' if found else options}\n" + (f"paths='{words}'\n" if words else "")
        deadline_s = LOOK_DEADLINE_S if found else DIAGNOSE_DEADLINE_S
        script = head + host_script("ib_look")
        found.append(IbLook(host_endpoint(host), script, deadline_s, takeover_s))
    return tuple(found)


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
    for part in body.split("SMInfoRecord dump:")[1:]:
        values = dict(_RECORD.findall(part))
        names = ("LID", "GUID", "Priority", "SMState")
        if not {*names} <= {*values}:
            return (), "saquery answered in another form"
        managers.append(_known_manager(*(values[name] for name in names)))
    return tuple(managers), "" if managers else "saquery lists no subnet manager"


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
