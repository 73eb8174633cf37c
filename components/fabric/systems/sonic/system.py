"""The driver of community SONiC, and SONiC as the rest of the house knows it.

Each line acts at once. Everything is read from CONFIG_DB, which is what `config save` writes and
the next boot loads; rows of maps and profiles that we add have our name, and ports outside the file
keep theirs (lab/sources.md#sonic).

A plan deletes first; then it writes three documents of rows, since the daemons look at some rows
only when others come after them; it deletes unused fields and rows last. An apply changes the named
settings of a port, an undo its recorded cells; WHY.md explains each part.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

from pydantic import BaseModel, TypeAdapter

from components.catalogue.switches.switch_model import UNRELEASED
from components.core.templates import fault_text
from components.fabric.parts import WHOLE, write_text
from components.fabric.ports import marking_of
from components.fabric.state import Neighbour, OtherPorts, PortState, SwitchState
from components.fabric.systems import base, linux, switch_system
from components.fabric.systems.base import Answer, Drain, Script
from components.fabric.systems.sonic import read, routing
from components.fabric.systems.sonic import rows as db
from components.fabric.systems.sonic.port import OFFERS, PortPlan, vlan_members
from components.fabric.systems.sonic.rows import PRIORITIES, Cell, Fields, Rows
from components.model.fabric import Rdma
from components.model.switch_models import LinkSettings

POLL: Final = "sleep 11"
"""Queues and groups are polled every 10 s (sonic-utilities, counterpoll/main.py): until then a
reading misses the packets that a probe has just sent."""
QUEUES: Final = "show queue counters --json"
DROPS: Final = "show priority-group drop counters"
PAUSES: Final = "show pfc counters"
STORMS: Final = "show pfcwd stats"
MARKS: Final = "show queue wredcounters --json"  # from 202505 on (sonic-utilities 2807)
NEIGHBOURS: Final = "show lldp table"
STATUS: Final = "show interfaces status"
COMMANDS: Final = (POLL, QUEUES, DROPS, PAUSES, STORMS, MARKS)
SUMMARY: Final = 'sudo vtysh -c "show bgp ipv4 unicast summary json"'
WITH_BFD: Final = f'{SUMMARY} -c "{linux.BFD}"; true'  # without bfdd, vtysh says so and fails
NEXT_HOPS: Final = f'sudo vtysh -c "{linux.ROUTES}"'
_UNKNOWN: Final = 'No such command "wredcounters"'  # how an older release refuses it (click)
_RULE: Final = re.compile(r"^-+(?: +-+)+ *$", re.MULTILINE)
"""The line below the head of a table, which shows the columns: cells may contain blanks."""
Row = dict[str, str]
"""Column to cell."""
CONFIG: Final = "sudo sonic-cfggen -d --print-data"
VERSION: Final = "cat /etc/sonic/sonic_version.yml"
PORTS: Final = "sonic-db-dump -n STATE_DB -y -k 'PORT_TABLE|*'"
SCRATCH: Final = "/etc/sonic/railyard.json"
"""On the same disk as the saved configuration, for the length of one command."""
RELOAD_LOCK: Final = "/etc/sonic/reload.lock"
"""Held by `config reload` and `config load_minigraph` (sonic-utilities, config/main.py). flock(2)
works without the right to write. Its lock ends with the shell, a moment after the session, so the
next session waits a little."""
_ECHO: Final = 'echo "[status $?]"'
"""End of each typed command: one of several lines is echoed line by line before its answer."""
_ERRORS: Final = (
    "Cannot find interface",
    "doesn't exist",
    "Failed to acquire lock",
    "(error)",
    "command not found",
)
"""Failures that exit with status 0: of sonic-utilities' `pfc config`, `config load`, and Redis."""
_CLICK: Final = re.compile(r"^Error: (.*)", re.MULTILINE | re.DOTALL)
"""The last part of a refusal of click, after two lines of usage."""
_DB: Final = "sudo sonic-db-cli CONFIG_DB"
_KEYS: Final = f"{_DB} KEYS '*'"
_EACH_GOES: Final = f"xargs -r -n 1 {_DB} DEL"


def _tables(text: str) -> Iterator[list[Row]]:
    """The rows of each table of an answer, cut at its columns, with its head as the first."""
    for rule in _RULE.finditer(text):
        starts = [found.start() for found in re.finditer(r"-+", rule[0])]
        spans = [slice(*span) for span in zip(starts, (*starts[1:], None), strict=True)]
        head = text[: rule.start()].rstrip("\n").rpartition("\n")[2]
        body = text[rule.end() :].partition("\n\n")[0].splitlines()
        yield [{head[at].strip(): line[at].strip() for at in spans} for line in (head, *body)]


def _rows(answer: Answer, what: str, *columns: str) -> list[Row]:
    for head, *rows in _tables(answer.text):
        if {*columns} <= {*head}:
            return rows
    raise answer.unreadable(f"it is not a table of {what}")


def _row(command: str, text: str, column: str, port: str) -> dict[int, int]:
    """The numbers of a port's row, by the number in the name of their column; `N/A` is left out."""
    for row in (row for rows in _tables(text) for row in rows if row.get(column) == port):
        cells = ((re.sub(r"\D", "", name), cell.replace(",", "")) for name, cell in row.items())
        return {int(name): int(cell) for name, cell in cells if name and cell.isdigit()}
    raise base.Unreadable(command, text, f"it lacks the row of {port}")


def _queues(command: str, text: str, port: str, field: str) -> dict[int, str]:
    """A field of each unicast queue of a port, `UC3` and the like, without commas."""
    with Answer(command, text).reading("it is not a table of queues"):
        rows = read.TREE.validate_json(text[text.find("{") :].strip()).get(port, {})
    queues = ((n, rows.get(f"UC{n}")) for n in PRIORITIES)
    found = {n: str(x.get(field, "")).replace(",", "") for n, x in queues if isinstance(x, dict)}
    if not found:
        raise base.Unreadable(command, text, f"there is no unicast queue of {port} in it")
    return found


def port_counters(port: str, answers: Mapping[str, str]) -> base.PortCounters:
    """The counters of a port, none by priority of what it received; `N/A` is 0 before a poll."""
    sent, lost = (_queues(QUEUES, answers[QUEUES], port, f) for f in ("totalbytes", "droppacket"))
    drops, soft = _row(DROPS, answers[DROPS], "Port", port), base.SoftReader()
    pauses = soft.read("pauses", lambda: parse_pauses(answers[PAUSES], port))
    storms = soft.read("storms", lambda: parse_storms(answers[STORMS], port))
    return base.PortCounters(
        {n: base.PriorityCounters(None, _count(sent[n]), _count(lost[n])) for n in sent},
        soft.read("marked", lambda: parse_marks(answers[MARKS], port)),
        sum(drops.values()),
        pauses=pauses or {},
        storms=storms or {},
        unread=soft.found,
    )


def _count(text: str) -> int:
    return int(text) if text.isdigit() else 0


def parse_marks(text: str, port: str) -> int | None:
    """Packets marked in all unicast queues of a port; None: `N/A`, so nothing counts them."""
    if _UNKNOWN in text:
        return None
    cells = _queues(MARKS, text, port, "ecnmarkedpacket").values()
    if not all(each.isdigit() or each == "N/A" for each in cells):
        raise base.Unreadable(MARKS, text, f"there is no unicast queue of {port} in it")
    counts = [int(each) for each in cells if each.isdigit()]
    return sum(counts) if counts else None


def parse_pauses(text: str, port: str) -> dict[int, base.PauseCounters]:
    """Two tables, received and sent; a priority with `N/A`, before the first poll, is left out."""
    received, sent = (_row(PAUSES, text, f"Port {way}", port) for way in ("Rx", "Tx"))
    return {n: base.PauseCounters(received[n], sent[n]) for n in received if n in sent}


def parse_storms(text: str, port: str) -> dict[int, int]:
    """How often each queue was found stuck; one that never was is not in the table."""
    column = "STORM DETECTED/RESTORED"
    rows = _rows(Answer(STORMS, text), "the watchdog", "QUEUE", column)
    found = {row["QUEUE"]: row[column].partition("/")[0].replace(",", "") for row in rows}
    return {n: _count(found.get(f"{port}:{n}", "")) for n in PRIORITIES}


def parse_neighbours(answer: Answer) -> dict[str, Neighbour]:
    """`show lldp table`: a SONiC switch tells its alias as identifier, its name as description."""
    columns = ("LocalPort", "RemoteDevice", "RemotePortID", "Capability", "RemotePortDescr")
    return {
        row["LocalPort"]: Neighbour(
            system=row["RemoteDevice"], port=row["RemotePortID"], description=row["RemotePortDescr"]
        )
        for row in _rows(answer, "neighbours", *columns)
        if read.PORT.fullmatch(row["LocalPort"])
    }


def parse_links(answer: Answer) -> dict[str, bool]:
    """`show interfaces status`: port to whether it has a link (sonic-utilities, `intfutil`)."""
    rows = _rows(answer, "ports with a column Oper", "Interface", "Oper")
    up = {row["Interface"]: row["Oper"] == "up" for row in rows}
    return {port: is_up for port, is_up in up.items() if read.PORT.fullmatch(port)}


class _Dumped(BaseModel):
    value: Fields = {}


_DUMP: Final = TypeAdapter(dict[str, _Dumped])


def parse_offers(command: str, text: str) -> Rows:
    """The speeds and the FEC that each port has: STATE_DB, as `sonic-db-dump` prints it."""
    with Answer(command, text).reading("it is not a dump of PORT_TABLE"):
        found = _DUMP.validate_json(text[text.find("{") :])
    offered = ("supported_speeds", "supported_fecs")
    return {
        key.partition("|")[2]: {n: each.value[n] for n in offered if n in each.value}
        for key, each in found.items()
    }


def parse_release(text: str) -> int:
    """The branch that `sonic_version.yml` says; 0: none."""
    found = re.search(r"^build_version: *'?([^'\s]+)", text, re.MULTILINE)
    return parse_branch(found[1]) if found else 0


def parse_branch(text: str) -> int:
    """Read `202405`, `202311.1`, `SONiC.202305.3-abc`; `master` is newer than all (a guess)."""
    for part in re.split(r"[-_.]", text):
        if re.fullmatch(r"20\d{4}(\d\d)?", part):
            return int(part[:6])
    return UNRELEASED if text.lower().startswith(("master", "sonic.master")) else 0


def _odd(tables: Mapping[str, Mapping[str, Fields]], words: str) -> str:
    """Name the field whose text should be a number; Python's own words if no row has it."""
    bad = words.rpartition(": '")[2].removesuffix("'")
    places = [
        f"{table}|{key}" + (f" {field}" if field else "")
        for table, rows in tables.items()
        for key, fields in rows.items()
        for field, value in {"": key.partition("|")[0].removeprefix("Vlan"), **fields}.items()
        if value == bad
    ]
    return f"{bad!r} of {places[0]} is not a number" if places else words


def _state_of(config: read.ConfigDb, wanted: SwitchState) -> SwitchState:
    routed = routing.routing_rows(config.tables)
    return SwitchState(
        vlans=tuple(sorted(map(read.vlan_number, config.tables.get("VLAN", {})))),
        roce="lossless" if config.row("BUFFER_POOL", db.LOSSLESS_POOL) else "none",
        addresses=routing.addresses_of(routed),
        bgp=routing.bgp_of(routed),
        native={
            WHOLE: write_text(config.implied),
            "held_rows": write_text(config.holders(wanted.ports)),
            "rows": write_text(config.rows()),
            routing.WORDS: write_text(routed),
        },
        ports={n: config.port(n, beside=bool(p.class_shares)) for n, p in wanted.ports.items()},
    )


def _typed_members(leaves: list[str], first: Rows) -> tuple[Iterable[str], ...]:
    """Commands for old members, new VLANs and new members, taken out of the row changes.

    With spanning tree on, the commands also write its rows, STP_VLAN and STP_PORT, from 202411 on
    (sonic-utilities, config/vlan.py): without those rows spanning tree does not cover a VLAN.
    """
    gone = [row for row in leaves if row.startswith("VLAN_MEMBER|")]
    new = {row: first.pop(row) for row in [*first] if row.startswith(("VLAN|", "VLAN_MEMBER|"))}
    leaves[:] = [row for row in leaves if row not in gone]
    words = {row: row.replace("|Vlan", "|").split("|")[1:] for row in (*gone, *new)}
    tags = {row: each.get("tagging_mode") for row, each in new.items()}
    flags = {row: "-u " if tag == "untagged" else "" for row, tag in tags.items()}
    joins = [row for row in new if row.startswith("VLAN_MEMBER|")]
    return (
        [f"sudo config vlan member del {' '.join(words[row])}" for row in gone],
        [f"sudo config vlan add {words[row][0]}" for row in new if row not in joins],
        [f"sudo config vlan member add {flags[row]}{' '.join(words[row])}" for row in joins],
    )


def _refuse(actual: SwitchState, target: SwitchState) -> None:
    wanted = any(port.lossless_buffers for port in target.ports.values())
    if target.roce == "lossless" and actual.roce == "none" and wanted:
        raise base.Unsettable(fault_text(__file__, "no-pool"))
    # A port cannot be in a VLAN while it is routed or in a bundle; no daemon refuses it.
    joins = {
        name
        for name, port in target.ports.items()
        if vlan_members(port).items() - vlan_members(actual.ports.get(name, PortState())).items()
    }
    freed = {name for name, left in (target.addresses or {}).items() if not left}
    lines = [line for name, line in routing.held_interfaces(actual) if name in joins - freed]
    if lines:
        raise base.Unsettable(fault_text(__file__, "held-ports", lines="\n    ".join(lines)))


def _own_rows(
    actual: SwitchState, target: SwitchState, plans: Sequence[PortPlan]
) -> tuple[Rows, list[Cell], list[str]]:
    """Which rows of our name are written, lose fields and go, buffer profiles made for us too."""
    held, before = db.read_rows(actual) or {}, db.read_rows(target)
    wanted: Rows = {}
    for plan in plans:
        content = db.our_rows(plan.port)
        wanted |= {row: content[row] for row in plan.needed if row in content}
    aim = {**(before or {}), **wanted}
    written = {r: f for r, f in sorted(aim.items()) if not f.items() <= held.get(r, {}).items()}
    if before is None:
        return written, [], []
    kept = {*chain(*(plan.named for plan in plans)), *actual.noted("held_rows"), *wanted, *before}
    # Rows that the switch makes for PFC, and needs while a port still has PFC.
    made = [row for row in held if row.startswith(f"BUFFER_PROFILE|{db.LOSSLESS_PROFILE}")]
    kept |= {row for row in made if any(plan.uses(row.partition("|")[2]) for plan in plans)}
    stripped = [
        (row, key)
        for row, fields in sorted(held.items())
        if row in before and row not in wanted
        for key in sorted({*fields} - {*before[row]})
    ]
    return written, stripped, sorted({*held} - kept)


def _parse(answers: Mapping[str, str], wanted: SwitchState) -> base.Reading:
    tables = read.parse_config(CONFIG, answers[CONFIG])
    read.require_ports(CONFIG, tables, wanted.ports)
    config, native = read.ConfigDb.of(tables), dict[str, str]()
    if VERSION in answers:
        native[routing.RELEASE] = str(parse_release(answers[VERSION]))
    if PORTS in answers:
        native[OFFERS] = write_text(parse_offers(PORTS, answers[PORTS]))
    try:
        others = OtherPorts(by_vlan=config.vlan_holders(wanted.ports, interfaces=False))
        state = _state_of(config, wanted)
        state = state.model_copy(update={"native": state.native | native})
        return base.Reading(state, config.vlan_holders(wanted.ports), others)
    except ValueError as error:
        raise base.Unreadable(CONFIG, read.HIDDEN, _odd(tables, str(error))) from error


def _plan_changes(actual: SwitchState, target: SwitchState) -> tuple[base.Change, ...]:
    _refuse(actual, target)
    plans = [PortPlan(name, actual, target) for name in {**actual.ports, **target.ports}]
    (*goes, ends), strips, (mark, before, middle, after) = routing.plan_routing(actual, target)
    written, stripped, gone = _own_rows(actual, target, plans)
    forgets = db.by_row(plan.forgets() for plan in plans)
    first = {f"VLAN|Vlan{n}": {"vlanid": str(n)} for n in target.vlans if n not in actual.vlans}
    first |= {**written, **mark, **before, **db.by_row(plan.first for plan in plans)}
    last = (plan.last | plan.touches for plan in plans)
    groups = [row for plan in plans for row in plan.groups]
    leaves = [row for plan in plans for row in plan.gone_rows]
    spans = db.SPANNING in actual.noted()
    parts, vlans, joins = _typed_members(leaves, first) if spans else ((), (), ())
    return tuple(
        base.Change((line,))
        for lines in (
            db.document(mark if any(goes) else {}),
            parts,
            *map(db.delete_rows, (leaves, *goes)),
            db.delete_fields(strips),
            db.document(forgets),
            db.delete_rows(groups),
            vlans,
            db.document(first),
            joins,
            db.document({**db.by_row(plan.sets for plan in plans), **middle}),
            db.document({**db.by_row(last), **after}),
            db.delete_fields((*(cell for plan in plans for cell in plan.deletes), *stripped)),
            db.delete_rows((*gone, *ends)),
            (f"sudo config vlan del {n}" for n in actual.vlans if n not in target.vlans),
        )
        for line in lines
    )


def _factory_state(ports: Sequence[str]) -> SwitchState:
    """Open ports in no VLAN with MTU 9100, no QoS of any port, and the platform's buffer pools.

    Those are there after `config qos reload`, which the first boot does not run everywhere.
    frrcfgd is the daemon for BGP, and BGP is off.
    """
    tables = {
        "PORT": {x: {"admin_status": "up", "mtu": str(db.FACTORY_MTU_BYTES)} for x in ports},
        "BUFFER_POOL": {db.LOSSLESS_POOL: {"type": "ingress"}},
        "FLEX_COUNTER_TABLE": {"PFCWD": {"FLEX_COUNTER_STATUS": "enable"}},
        "DEVICE_METADATA": {"localhost": {routing.MODE: "true"}},
    }
    return _state_of(read.ConfigDb.of(tables), SwitchState(ports=dict.fromkeys(ports, PortState())))


def plan_intent(rdma: Rdma) -> tuple[SwitchState, PortState]:
    """Every setting is set separately, with the DSCP and the class of each priority."""
    lossless = rdma.mode == "lossless"
    return (
        # The pools of the platform's template, which lossless buffers are taken from.
        SwitchState(roce="lossless" if lossless else None),
        PortState(
            trust="L3",
            ecn={rdma.traffic_class: marking_of(rdma, "sonic")},
            strict_classes=(rdma.cnp_priority,),
            dscp_priorities={rdma.dscp: rdma.priority, rdma.cnp_dscp: rdma.cnp_priority},
            priority_classes={
                rdma.priority: rdma.traffic_class,
                rdma.cnp_priority: rdma.cnp_priority,
            },
            # The platform's template pauses 3 and 4 on every port, so "none" must be set.
            pfc_priorities=(rdma.priority,) if lossless else (),
            lossless_buffers=(rdma.priority,) if lossless else None,
        ),
    )


def _link_words(wish: LinkSettings, _lanes: int | None) -> dict[str, str]:
    """The fields of a row of PORT; speeds and offered speeds are in Mbit/s."""
    speed = f"{wish.speed_gbit_s * db.MBIT_PER_GBIT}" if wish.speed_gbit_s else None
    words = {"speed": speed, "fec": wish.fec}
    if wish.autoneg is not None:
        offered = f" {speed}" if speed and wish.autoneg else ""
        words["autoneg"] = f"on{offered}" if wish.autoneg else "off"
    return {key: text for key, text in words.items() if text}


def _around(desired: SwitchState, lines: switch_system.Lines) -> switch_system.Lines:
    """Refuse ports that no line can free, then leave foreign VLANs, also of another tagging."""
    names = f"({'|'.join(desired.ports)})"
    joined = rf"^(QUEUE|PORT_QOS_MAP|BUFFER_PG)\|[^|]*,|^QUEUE\|{names}\|.+-"
    routed = rf"^INTERFACE\|{names}(\||$)|^PORTCHANNEL_MEMBER\|.*\|{names}$"
    pool, metadata = f"BUFFER_POOL|{db.LOSSLESS_POOL}", "DEVICE_METADATA|localhost"
    tests = {
        f"{_KEYS} | grep -Ecx 'PORT\\|{names}' | grep -qx {len(desired.ports)}": "exec-no-port",
        f"! {_KEYS} | grep -E '{joined}|{routed}'": "exec-joined",
    }
    if desired.roce:
        tests |= {
            f"{_DB} HGET '{pool}' type | grep -Eqx 'ingress|both'": "exec-no-pool",
            f"! {_DB} HGET '{metadata}' buffer_model | grep -qx dynamic": "exec-dynamic",
        }
    faults = {test: fault_text(__file__, row, pool=db.LOSSLESS_POOL) for test, row in tests.items()}
    other = {"tagged": "untagged", "untagged": "tagged"}
    members = {
        f"VLAN_MEMBER|Vlan{vlan}|{name}": other[tagging]
        for name, port in desired.ports.items()
        for vlan, tagging in vlan_members(port).items()
    }
    ours = "|".join(members).replace("|Vlan", "\\|Vlan").replace("|Ethernet", "\\|Ethernet")
    sent = [f'{{ {test} || {{ echo "Error: {why}"; false; }}; }}' for test, why in faults.items()]
    theirs = f"grep -E '^VLAN_MEMBER\\|.*\\|{names}$' | grep -Evx '{ours}'"
    sent.append(f"{_KEYS} | {theirs} | {_EACH_GOES}")
    for row, tagging in members.items():
        is_other = f"{_DB} HGET '{row}' tagging_mode | grep -qx {tagging}"
        sent.append(f"{{ ! {is_other} || {_DB} DEL '{row}'; }}")
    return (*map(Script, sent), *lines) if desired.ports else lines


def _around_undo(desired: SwitchState, lines: switch_system.Lines) -> switch_system.Lines:
    """Then restore the QoS of the platform's template, if it is in use, and delete our rows.

    A VLAN goes only if no other row names it: `config vlan del` refuses one with members or
    addresses, so it stays. Any other failure ends the undo.
    """
    alone = rf"{_KEYS} | grep -Ec '^VLAN(_MEMBER|_INTERFACE)?\|Vlan{{}}(\||$)' | grep -qx 1"
    sent = [
        f"{{ ! {alone.format(line.split()[-1])} || {line}; }}" if "vlan del" in line else line
        for line in lines
    ]
    template, ours = f"{_DB} HGET 'TC_TO_QUEUE_MAP|AZURE' 0 | grep -qx 0", db.OUR_NAME
    named = f"sudo sonic-cfggen -d --print-data | grep -F ': \"{ours}'"
    sent += [
        f"{{ ! {template} || sudo config qos reload --ports {','.join(desired.ports)}; }}",
        f"{{ {named} || {_DB} KEYS '*|{ours}*' | {_EACH_GOES}; }}",
    ]
    return (*map(Script, sent),) if desired.ports else lines


def _unread(name: str, port: PortState) -> dict[str, str]:
    cells = {
        each: dict.fromkeys(db.cells_of(name, row, tc), "unknown")
        for each, row, tc in db.settings_of(port)
    }
    return db.write_settings(cells)


SYSTEM: Final = switch_system.SwitchSystem(
    **switch_system.load_facts(
        "sonic", exec_form={"native": _unread, "around": _around, "around_undo": _around_undo}
    ),
    # The whole configuration; the release if BGP is wanted, and what ports can run at.
    read_commands=lambda wanted: (
        CONFIG,
        *((VERSION,) if wanted.bgp is not None else ()),
        *((PORTS,) if any(port.speed or port.fec for port in wanted.ports.values()) else ()),
    ),
    parse=_parse,
    plan_changes=_plan_changes,
    # Exit status or text: a few commands print an error and exit 0.
    find_refusal=lambda output: linux.find_refusal(
        output.rpartition(_ECHO)[2],
        _ERRORS,
        lambda text: said[1] if (said := _CLICK.search(text)) else text,
    ),
    factory_state=_factory_state,
    # A reload of the configuration while we write would take our lines away again.
    configure=(
        Script(
            f"sudo touch {RELOAD_LOCK} && exec 9<{RELOAD_LOCK} && {{ flock -w 5 9 ||"
            ' { echo "a config reload or another update is running"; false; }; }'
        ),
    ),
    # A full disk cuts the saved configuration short: a copy that fits proves that there is room.
    save=Script(f"sudo config save -y {SCRATCH} && sudo rm {SCRATCH} && sudo config save -y"),
    ports=base.ask_once(CONFIG, lambda each: read.port_names(read.parse_config(CONFIG, each.text))),
    neighbours=base.ask_once(NEIGHBOURS, parse_neighbours),
    link_states=base.ask_once(STATUS, parse_links),
    sessions=linux.sessions_questions(
        (SUMMARY, WITH_BFD, NEXT_HOPS), linux.read_summary, "it is not a summary of FRR's BGP"
    ),
    counters=lambda ports: base.Question(
        COMMANDS, lambda got: {port: port_counters(port, got) for port in ports}
    ),
    intent=plan_intent,
    session=linux.SESSION,
    reads_release=lambda text: parse_branch(text) > 0,
    native_of=lambda release: {routing.RELEASE: str(release[0])},
    parse_release=lambda text: (parse_branch(text), 0, 0),
    # TSA does nothing with frrcfgd (sonic-buildimage, issue 22729), which our BGP needs. The field
    # is in sonic-bgp-global.yang and frrcfgd.py (sources.md#graceful-drain). A release without it
    # shows nothing in FRR, and then the switch is not changed.
    drain=Drain(
        title="BGP graceful shutdown",
        away=(*db.document({routing.GLOBALS: {routing.SHUTDOWN: "true"}}),),
        back=(
            *db.document({routing.GLOBALS: {routing.SHUTDOWN: "false"}}),
            *db.delete_fields([(routing.GLOBALS, routing.SHUTDOWN)]),
        ),
        asks="sudo vtysh -c 'show running-config bgpd' | grep 'bgp graceful-shutdown'",
        is_away=r"^ +bgp graceful-shutdown\s*$",
    ),
    links=switch_system.LinkForm(_link_words),
)
