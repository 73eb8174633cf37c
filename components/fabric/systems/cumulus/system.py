"""The driver of NVIDIA Cumulus Linux (NVUE), and Cumulus as the rest of the house knows it.

Lines collect in a pending revision and act together at `nv config apply`; the switch takes back an
unconfirmed apply. RoCE is a profile of the whole switch: trust, ECN, PFC and scheduler come with
it, so they are read and compared, not set (lab/sources.md#cumulus).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

from pydantic import TypeAdapter

from components.fabric.parts import LATER, WHOLE, Session, is_default, sources, write_text
from components.fabric.state import BgpState, Neighbour, PortState, SwitchState
from components.fabric.systems import base, linux, switch_system
from components.fabric.systems import cumulus as nvue
from components.fabric.systems.base import Answer
from components.fabric.systems.cumulus import ROCE, Line, non_rows, parse_profile, rows
from components.fabric.systems.cumulus.rows import States, Tail
from components.fabric.systems.ranges import holders_of, named_vlans, others_of, port_key
from components.model.fabric import Rdma
from components.model.switch_models import LinkSettings

CONFIG: Final = "nv config show -o json"
INTERFACES: Final = "nv show interface -o json"
NEIGHBOURS: Final = "nv show interface lldp -o json"
_COUNTERS: Final = (
    "nv show interface {port} qos roce counters -o json",
    "nv show interface {port} counters qos -o json",
    "nv show interface {port} qos pfc-watchdog",
)
"""For the last one, from 5.6 on, only the text form is published."""
SESSIONS: Final = "nv show vrf default router bgp neighbor -o json"
WITH_BFD: Final = f'{SESSIONS}; sudo -n vtysh -c "{linux.BFD}"; true'
"""NVUE lists BFD's peers from 5.15 on only, and no page shows them in JSON."""
_NEXT_HOPS: Final = f'sudo -n vtysh -c "{linux.ROUTES}"; true'
"""NVUE's list of routes names a group in place of next hops in later releases (page RIB)."""
_ERRORS: Final = (
    *("Invalid config", "Config invalid at", "Error: Invalid parameter"),
    *("Unable to restart services", "Failure during apply", "command not found"),
    "is not a physical interface on this switch",
    "Could not connect to nvued",
    *("Failed to parse YAML", "must contain a list of operation objects"),
)
"""Texts of failures whatever the status. The first seven are those that
openstack/networking-generic-switch looks for (its Cumulus NVUE device); then a service that died
in an apply (networkop/cx, issue 9), and a file that `nv config patch` cannot read (NVIDIA's own
tests of NVUE, `test_config_patch_replace`)."""
_NEIGHBORS: Final = TypeAdapter(dict[str, nvue.Tree], config=LATER)
_PREFIXES: Final = "address-family ipv4-unicast rx-prefix"
_VERSION: Final = re.compile(r'"version": "Cumulus Linux (\d+(?:\.\d+)*)')
_SVI: Final = re.compile(r"vlan(\d+)")
"""The routed interface of a VLAN, which NVUE names after it."""


def _parse_links(answer: Answer) -> dict[str, bool]:
    table = nvue.load_tree(answer)
    states = {name: nvue.value_at(table, f"{name} link oper-status") for name in table}
    return {n: state == "up" for n, state in states.items() if state and nvue.SWP.fullmatch(n)}


def _parse_ports(answer: Answer) -> tuple[str, ...]:
    """Every front panel port of that table, by number; it names them all, configured or not."""
    found = tuple(sorted(filter(nvue.SWP.fullmatch, nvue.load_tree(answer)), key=port_key))
    if not found:
        raise answer.unreadable("the answer lists no port")
    return found


def _parse_neighbours(answer: Answer) -> dict[str, Neighbour]:
    """What lldpd heard, by the keys that a public client reads; front panel only."""
    table = nvue.load_tree(answer)
    found: dict[str, Neighbour] = {}
    for name in filter(nvue.SWP.fullmatch, table):
        heard = nvue.child(table, name, "lldp", "neighbor")
        for key in heard:
            port = nvue.child(heard, key, "port")
            found[name] = Neighbour(
                system=str(nvue.child(heard, key, "chassis").get("system-name", key)),
                port=str(port.get("name", "")),
                description=str(port.get("description", "")),
            )
    return found


def _read_sessions(document: object) -> dict[str, Session]:
    """Both forms of the table; a neighbour that was never seen has only its configured keys."""
    return {
        name: Session.model_validate(
            {"state": each.get("state", "no state"), "networks": nvue.value_at(each, _PREFIXES)}
        )
        for name, each in _NEIGHBORS.validate_python(document).items()
    }


def _read_commands(wanted: SwitchState) -> tuple[str, ...]:
    ours = (wanted.roce, wanted.pfc_priorities, wanted.pfc_enabled)
    is_asked = any(value is not None for value in ours) or any(
        port.trust is not None or port.ecn or port.strict_classes is not None
        for port in wanted.ports.values()
    )
    return (CONFIG, ROCE) if is_asked else (CONFIG,)


def _parse(answers: Mapping[str, str], wanted: SwitchState) -> base.Reading:
    """Read what `read_commands` asked for: a list of one-key objects; `set` holds the tree."""
    given = parse_profile(answers[ROCE]) if ROCE in answers else None
    answer = Answer(CONFIG, answers[CONFIG])
    value, config = nvue.load(answer), nvue.Tree()
    for part in value if isinstance(value, list) else [value]:
        config = part | config if isinstance(part, dict) else config
    if not config.keys() & {"set", "header"}:
        raise answer.unreadable("there is neither a header nor a configuration in it")
    version = _VERSION.search(answer.text)
    release = tuple(int(part) for part in version[1].split(".")) if version else ()
    with answer.reading():
        profile = nvue.child(config, "set", "qos", "roce")
        if given is not None and given.roce == "none" and str(profile.get("enable")) in nvue.ON:
            why = "the configuration has a RoCE profile, and this answer shows none"
            raise base.Unreadable(ROCE, answers[ROCE], why)
        return _read(nvue.child(config, "set"), release, given, wanted)


def _plan_changes(actual: SwitchState, target: SwitchState) -> tuple[base.Change, ...]:
    """The lines from `actual` to `target`, for one revision, which NVUE applies as a whole."""
    states = (actual, target)
    moves = (
        *rows.vlan_lines(states),
        *non_rows.profile_lines(states),
        *rows.SPREADS.lines(actual, target, actual),
        *_port_lines(states),
        *rows.routing_lines(states),
    )
    # A line that unsets a port takes its split along, and parts have settings and neighbours
    # only while they exist. Without a split the lines stay in their order.
    splits = (*non_rows.split_lines(states),)
    going = [line for line in moves if splits and line.verb == "unset"]
    coming = [line for line in moves if not splits or line.verb == "set"]
    cable = () if target.roce == "none" else rows.CABLE.lines(actual, target, actual)
    lines = (*going, *splits, *coming, *cable, *non_rows.mode_lines(states))
    return tuple(base.Change((line,)) for line in lines)


def _factory_state(ports: Sequence[str]) -> SwitchState:
    """No bridge, ports shut and in no bridge, MTU 9216, no RoCE."""
    port = _read_port(None)
    native = {key: word for key, word in port.native.items() if key != "rest"}
    return SwitchState(
        pfc_priorities=(),
        pfc_enabled=False,
        roce="none",
        roce_cable_m=0,
        addresses={},
        bgp=BgpState(),
        native={WHOLE: write_text(rows.branch_words({}))},
        ports=dict.fromkeys(ports, port.model_copy(update={"native": native})),
    )


def _counters(ports: Sequence[str]) -> base.Question[dict[str, base.PortCounters]]:
    asked = {port: [each.format(port=port) for each in _COUNTERS] for port in ports}

    def parse(answers: Mapping[str, str]) -> dict[str, base.PortCounters]:
        """Releases without the watchdog refuse the last command."""
        found: dict[str, base.PortCounters] = {}
        for port, commands in asked.items():
            roce, queues, storms = (Answer(each, answers[each]) for each in commands)
            watched = None if linux.find_refusal(storms.text, _ERRORS) else storms
            found[port] = nvue.read_counters(roce, queues, watched, non_rows.ROCE_PRIORITY)
        return found

    return base.Question((*chain(*asked.values()),), parse)


def _read(
    config: nvue.Tree, release: rows.Release, given: SwitchState | None, wanted: SwitchState
) -> base.Reading:
    entries = nvue.spelled(config, "interface")
    # Only the parts of a split port are in force.
    plain = {name: entry for name, entry in entries.items() if not non_rows.is_only_split(entry)}
    ports = {name: _read_port(plain.get(name)) for name in entries}
    own = rows.read_own(config, entries)
    native = {
        WHOLE: write_text(rows.all_words(config, entries, release)),
        **sources(adaptive_routing=own["adaptive_routing"] is not None),
        **non_rows.read_holders(config, entries),
    }
    if wanted.splits is not None:
        splits, words = non_rows.read_splits(entries, ports, wanted)
        own, native = own | splits, native | words
    asked: dict[str, PortState] = {}
    for name, port in wanted.ports.items():
        entry, was = plain.get(name, {}), ports.get(name, _read_port(None))
        more = non_rows.native_of(entry, port)
        # A line sets one of these settings, although the file does not ask for it.
        if any(row.cell(port).value is None and row.cell(was).written for row in rows.PORT):
            more |= sources(rest=True)
        qos = non_rows.read_qos(config if name in plain else {}, entry, given, port)
        asked[name] = was.model_copy(update={**qos, "native": was.native | more})
    state = (given or SwitchState()).model_copy(update={**own, "native": native, "ports": asked})
    rest = {name: port for name, port in ports.items() if name not in wanted.ports}
    named = {n: {*named_vlans(port), *map(int, _SVI.findall(n))} for n, port in rest.items()}
    return base.Reading(state, holders_of(named), others_of(rest))


def _read_port(entry: nvue.Tree | None) -> PortState:
    """An interface without its QoS; None: not in the configuration, so shut (quick start)."""
    values, native = rows.read_ports(entry or {})
    native = sources(admin_up=False, rest=False) | native
    port = PortState(admin_up=False, mode="routed", trunk_vlans=())
    if entry is None:
        return port.model_copy(update={**values, "native": native})
    said = nvue.value_at(entry, "link state")
    words = ["up"] if said is None else [*said] if isinstance(said, dict) else [said]
    if words not in (["up"], ["down"]):
        raise ValueError(f"`link state` is {said!r}, neither up nor down")
    named = non_rows.named_of(entry).items()
    ours = [f"qos {section}" for section, name in named if name.startswith(non_rows.OURS)]
    native |= sources(admin_up=True, rest=not nvue.within(entry, (*rows.FRONT, *ours)))
    found = {**values, **non_rows.read_member(entry), "admin_up": words == ["up"], "native": native}
    return port.model_copy(update=found)


def _port_lines(states: States) -> Iterator[Line]:
    """Equal lines of several ports are written once, with a list of the ports."""
    actual, target = states
    groups: dict[Tail, list[str]] = {}
    release = rows.release_of(actual)
    for name, port in target.ports.items():
        was = actual.ports.get(name, PortState())
        held = (actual.addresses or {}).get(name, ())
        if held and (target.addresses or {}).get(name, held):
            # It keeps an address: it does not leave as a whole.
            was = was.model_copy(update={"native": was.native | sources(rest=True)})
        for step in _STEPS:
            for tail in step(was, port, release):
                groups.setdefault(tail, []).append(name)
    # Unset lines come first, for every port: a VLAN is either the access one or in the list.
    for (verb, path, word), names in sorted(groups.items(), key=lambda item: item[0][0] == "set"):
        yield Line(verb, f"interface {nvue.collapse_ports(names)} {path}".rstrip(), word)


def _admin_lines(was: PortState, port: PortState, _release: rows.Release) -> Iterator[Tail]:
    if port.admin_up in {None, was.admin_up}:
        return
    unnamed = is_default(port.native, "admin_up") and is_default(was.native, "rest")
    if unnamed and not port.admin_up:
        # No line named it before, which keeps a port shut, and only our settings are left.
        yield "unset", "", None
    else:
        yield "set", f"link state {'up' if port.admin_up else 'down'}", None


_STEPS: Final = (
    # Before a port leaves the bridge: settings below `bridge` go with it.
    *(row.tails for row in rows.EDGE),
    non_rows.member_lines,
    *(row.tails for row in rows.LINK),
    _admin_lines,
    rows.WATCHDOG.tails,
    rows.SPREADS.tails,
)


def plan_intent(rdma: Rdma) -> tuple[SwitchState, PortState]:
    """One profile of the whole switch, with its own parts; a check refuses a file with others."""
    lossless = rdma.mode == "lossless"
    return (
        SwitchState(
            pfc_priorities=(non_rows.ROCE_PRIORITY,) if lossless else None,
            pfc_enabled=True if lossless else None,
            roce="lossless" if lossless else "lossy",
        ),
        PortState(
            trust="both",
            ecn={non_rows.ROCE_PRIORITY: non_rows.GIVEN},
            strict_classes=(non_rows.CNP_PRIORITY,),
        ),
    )


def _link_words(wish: LinkSettings, _lanes: int | None) -> dict[str, str]:
    words = {"speed": f"{wish.speed_gbit_s}G"} if wish.speed_gbit_s else {}
    words |= {"fec": wish.fec} if wish.fec else {}
    return words if wish.autoneg is None else {**words, "autoneg": "on" if wish.autoneg else "off"}


def _leave_bridge(desired: SwitchState, lines: switch_system.Lines) -> switch_system.Lines:
    """Access and tagged VLANs exclude each other; in one revision nothing of this is seen."""
    ports = nvue.collapse_ports(desired.ports)
    return (f"nv unset interface {ports} {rows.DOMAIN}", *lines) if desired.ports else lines


SYSTEM: Final = switch_system.SwitchSystem(
    **switch_system.load_facts(
        "cumulus",
        guard={
            "list_command": nvue.REVISIONS,
            "find_stale": nvue.find_stale,
            "find_id": nvue.find_id,
            "saves_note": rows.SAVES,
            "pack": nvue.documents,
        },
        exec_form={"around": _leave_bridge, "given": ({non_rows.ROCE_PRIORITY: non_rows.GIVEN},)},
        drain={"enabled_note": rows.NEW_WORDS},
    ),
    read_commands=_read_commands,
    parse=_parse,
    plan_changes=_plan_changes,
    find_refusal=lambda output: linux.find_refusal(output, _ERRORS),
    factory_state=_factory_state,
    ports=base.ask_once(INTERFACES, _parse_ports),
    neighbours=base.ask_once(NEIGHBOURS, _parse_neighbours),
    link_states=base.ask_once(INTERFACES, _parse_links),
    sessions=linux.sessions_questions(
        (SESSIONS, WITH_BFD, _NEXT_HOPS), _read_sessions, "it is not a table of BGP neighbours"
    ),
    counters=_counters,
    profile=switch_system.RoceProfile(
        priority=non_rows.ROCE_PRIORITY,
        cnp_priority=non_rows.CNP_PRIORITY,
        ecn_min_bytes=non_rows.ECN_MIN_BYTES,
        ecn_max_bytes=non_rows.ECN_MAX_BYTES,
        mark_percent=100,
        marked_classes=non_rows.MARKED_CLASSES,
        # 150 KiB is 2.4 % more than 150,000 bytes; the hardware itself rounds to 153 or 156 KiB.
        ecn_tolerance=0.05,
        # NVUE reference: `nv set interface <interface-id> qos congestion-control profile`, 5.4.0.
        others_since=(5, 4, 0),
    ),
    intent=plan_intent,
    session=linux.SESSION,
    native_of=lambda release: {
        WHOLE: write_text((*rows.branch_words({}), *rows.release_words(release)))
    },
    # NVUE reference: `nv set interface <interface-id> link speed`, `fec`, `auto-negotiate`, 5.0.0.
    links=switch_system.LinkForm(_link_words),
    rows={row.setting: row.since for row in rows.PORT},
    # Page "VLAN-aware Bridge Mode": the default of 4.4 and 5.x.
    reserved_vlans=range(3725, 4000),
)
