"""`config …`, `pfcwd …` and `counterpoll …`: commands that change a switch, with click's refusals.

Texts: sonic-utilities, branch 202405, config/vlan.py, config/switchport.py, config/main.py,
scripts/portconfig, pfcwd/main.py. The daemon drops a time outside the range of `pfcwd`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from lab.switches.sonic import tools
from lab.switches.sonic.config import RELOAD_LOCK, SAVED_FILE, Db, Table, row
from lab.switches.sonic.database import WATCHDOGS, clear_qos, reload_ports, reload_qos

if TYPE_CHECKING:
    from lab.switches.sonic.server import SonicSwitch

_VLANS: Final = range(2, 4095)
_MTUS: Final = range(68, 9217)
WRED_SINCE: Final = 202505
"""First branch that counts marked packets: sonic-utilities 2807; the project's issue 1222."""
_NO_HISTORY: Final = "disable"
_OPTIONS: Final = ("-a", "--action", "--restoration-time")


def _fail(message: str) -> tools.CommandError:
    return tools.CommandError(message, tools.USAGE_STATUS)


def _vlan(text: str) -> tuple[int, str]:
    if not text.isdigit():
        raise _fail(f"{text} is not integer")
    vlan = int(text)
    if vlan not in _VLANS:
        raise _fail(f"Invalid VLAN ID {vlan} (2-4094)")
    return vlan, f"Vlan{vlan}"


def _known_vlan(db: Db, text: str) -> tuple[int, str]:
    vlan, name = _vlan(text)
    if not row(db, "VLAN", name):
        raise _fail(f"{name} does not exist")
    return vlan, name


def _is_routed(db: Db, table: str, name: str) -> bool:
    return any(key.partition("|")[0] == name for key in db.get(table, {}))


def _members(db: Db, port: str) -> Table:
    rows = db.get("VLAN_MEMBER", {}).items()
    return {key: fields for key, fields in rows if key.endswith(f"|{port}")}


def _add_vlan(switch: SonicSwitch, text: str) -> None:
    vlan, name = _vlan(text)
    if row(switch.database.db, "VLAN", name):
        raise _fail(f"{name} already exists.")
    switch.database.put("VLAN", name, {"vlanid": str(vlan)})


def _del_vlan(switch: SonicSwitch, text: str) -> None:
    db = switch.database.db
    vlan, name = _known_vlan(db, text)
    if _is_routed(db, "VLAN_INTERFACE", name):
        why = "can not be removed. First remove IP addresses assigned to this VLAN"
        raise _fail(f"{name} {why}")
    if _is_routed(db, "VLAN_MEMBER", name):
        why = "can not be removed. First remove all members assigned to this VLAN."
        raise _fail(f"VLAN ID {vlan} {why}")
    switch.database.delete("VLAN", name)


def _refuse_member(db: Db, name: str, port: str, *, untagged: bool) -> Iterator[str]:
    members = _members(db, port)
    if f"{name}|{port}" in members:
        yield f"{port} is already a member of {name}"
    if port not in db["PORT"]:
        yield f"{port} does not exist"
    if _is_routed(db, "INTERFACE", port):
        yield f"{port} is a router interface!"
    if any(key.endswith(f"|{port}") for key in db.get("PORTCHANNEL_MEMBER", {})):
        yield f"{port} is part of portchannel!"
    if untagged and any(each.get("tagging_mode") == "untagged" for each in members.values()):
        yield f"{port} is already untagged member!"
    mode = row(db, "PORT", port).get("mode")
    if mode == "routed":
        yield f"{port} is in routed mode!\nUse switchport mode command to change port mode"
    if mode == "access" and not untagged:
        yield f"{port} is in access mode! Tagged Members cannot be added"


def _add_member(switch: SonicSwitch, untagged: str, text: str, port: str) -> None:
    _, name = _known_vlan(switch.database.db, text)
    for refusal in _refuse_member(switch.database.db, name, port, untagged=bool(untagged)):
        raise _fail(refusal)
    tagging = "untagged" if untagged else "tagged"
    switch.database.put("VLAN_MEMBER", f"{name}|{port}", {"tagging_mode": tagging})


def _del_member(switch: SonicSwitch, text: str, port: str) -> None:
    _, name = _known_vlan(switch.database.db, text)
    if not switch.database.delete("VLAN_MEMBER", f"{name}|{port}"):
        raise _fail(f"{port} is not a member of {name}")


def _refuse_mode(db: Db, mode: str, port: str) -> Iterator[str]:
    if port not in db["PORT"]:
        yield f"{port} does not exist"
    members = {fields.get("tagging_mode") for fields in _members(db, port).values()}
    held = row(db, "PORT", port).get("mode")
    if mode == "routed":
        for kind, end in (("tagged", "(s). \nRemove them"), ("untagged", ". \nRemove it")):
            if kind in members:
                yield f"{port} has {kind} member{end} to change mode to {mode}"
    elif _is_routed(db, "INTERFACE", port):
        yield f"Remove IP from {port} to change mode!"
    if held == mode:
        yield f"{port} is already in {mode} mode"
    if (held, mode) == ("trunk", "access") and "tagged" in members:
        yield (
            f"{port} is in {held} mode and have tagged member(s).\nRemove tagged member(s) from "
            f"{port} to switch to {mode} mode"
        )


def _switchport(switch: SonicSwitch, mode: str, port: str) -> str:
    for refusal in _refuse_mode(switch.database.db, mode, port):
        raise _fail(refusal)
    switch.database.merge("PORT", port, {"mode": mode})
    return f"{port} switched to {mode} mode\n"


def _admin(switch: SonicSwitch, verb: str, names: str) -> None:
    ports = names.split(",")
    if len(ports) == 1 and names not in switch.ports:
        raise _fail("Interface name is invalid. Please enter a valid interface name!!")
    for port in ports:
        if port in switch.ports:
            status = "up" if verb == "startup" else "down"
            switch.database.merge("PORT", port, {"admin_status": status})


def _mtu(switch: SonicSwitch, port: str, text: str) -> None:
    wrong = f'Invalid value for "<interface_mtu>": {text} is not'
    if not text.isdigit():
        raise _fail(f"{wrong} a valid integer")
    if int(text) not in _MTUS:
        raise _fail(f"{wrong} in the valid range of {_MTUS.start} to {_MTUS.stop - 1}.")
    _merge_port(switch, port, mtu=text)


def _merge_port(switch: SonicSwitch, port: str, **fields: str) -> None:
    if port not in switch.ports:
        raise tools.CommandError(f"Invalid port {port}", 1)  # portconfig
    switch.database.merge("PORT", port, fields)


def _remove_address(switch: SonicSwitch, port: str, address: str) -> None:
    """Remove an address; the last one also removes the row without fields (config/main.py).

    The function there is `interface ip remove`.
    """
    db = switch.database.db
    if not switch.database.delete("INTERFACE", f"{port}|{address}"):
        raise _fail(f"{address} is not configured on {port}")  # the words are a guess
    left = [key for key in db.get("INTERFACE", {}) if key.partition("|")[0] == port]
    if left == [port] and not row(db, "INTERFACE", port):
        switch.database.delete("INTERFACE", port)


def _speed(switch: SonicSwitch, port: str, text: str, field: str = "speed") -> None:
    _merge_port(switch, port)
    valid = switch.supported_speeds(port)
    wrong = [] if text == "all" else sorted({*text.split(",")} - {*valid})
    if wrong:
        lines = f"Invalid speed specified: {','.join(wrong)}\nValid speeds:{','.join(valid)}"
        raise tools.CommandError(lines, 1)
    _merge_port(switch, port, **{field: text})


def _advertise(switch: SonicSwitch, port: str, speeds: str) -> None:
    _speed(switch, port, speeds, "adv_speeds")


def _fec(switch: SonicSwitch, port: str, mode: str) -> None:
    _merge_port(switch, port)
    if mode not in switch.supported_fecs(port):
        raise tools.CommandError(f"fec {mode} is not in {switch.supported_fecs(port)}", 1)
    _merge_port(switch, port, fec=mode)


def _autoneg(switch: SonicSwitch, port: str, mode: str) -> None:
    _merge_port(switch, port, autoneg="on" if mode == "enabled" else "off")


def _pfc(switch: SonicSwitch, port: str, priority: str, status: str) -> str:
    fields = row(switch.database.db, "PORT_QOS_MAP", port)
    if not fields:
        return f"Cannot find interface {port}\n"
    held = {part for part in fields.get("pfc_enable", "").split(",") if part}
    if (status == "on") == (priority in held):
        state = "has already been enabled" if status == "on" else "is not enabled"
        return f"Priority {priority} {state} on {port}\n"
    changed = ",".join(sorted(held ^ {priority}))
    switch.database.merge("PORT_QOS_MAP", port, {"pfc_enable": changed})
    return ""


def _save(switch: SonicSwitch, path: str) -> str:
    path = path or SAVED_FILE
    switch.save_configuration(path)
    return f"Running command: /usr/local/bin/sonic-cfggen -d --print-data > {path}\n"


def _file(switch: SonicSwitch, path: str) -> str | None:
    return tools.dump(switch.stored.saved) if path == SAVED_FILE else switch.stored.files.get(path)


def _load(switch: SonicSwitch, path: str) -> str:
    path = path or SAVED_FILE
    text = _file(switch, path)
    if text is None:
        return f"The config_db file {path} doesn't exist\n"
    tools.merge_data(switch.database, tools.parse_data(text))
    return f"Running command: /usr/local/bin/sonic-cfggen -j {path} --write-to-db\n"


def _reload(switch: SonicSwitch, path: str) -> str:
    if switch.stored.lock_owner or switch.holders:
        raise tools.CommandError(f"Failed to acquire lock on {RELOAD_LOCK}", 1)
    text = _file(switch, path or SAVED_FILE)
    if text is None:
        return f"The config file {path} doesn't exist\n"
    switch.load_configuration(tools.parse_data(text))
    return f"Acquired lock on {RELOAD_LOCK}\nReleased lock on {RELOAD_LOCK}\n"


def _qos(switch: SonicSwitch, verb: str) -> str:
    if verb == "clear":
        clear_qos(switch.database)
        return ""
    reload_qos(switch.database, switch.platform)
    return "Running command: /usr/local/bin/sonic-cfggen -j /tmp/cfg_buffer.json --write-to-db\n"


def _qos_of(switch: SonicSwitch, ports: str) -> str:
    reload_ports(switch.database, switch.platform, ports.split(","))
    return ""


_NAME: Final = r"([\w/.-]+)"
_PORT: Final = "<interface_name>"
CONFIG: Final = tools.Commands(
    "config",
    (
        (r"config vlan add (\S+)", _add_vlan, "<vid>"),
        (r"config vlan del (\S+)", _del_vlan, "<vid>"),
        (r"config vlan member add (-u |--untagged )?(\S+) (\S+)", _add_member, "<vid> port"),
        (r"config vlan member del (\S+) (\S+)", _del_member, "<vid> <port>"),
        (r"config switchport mode (access|trunk|routed) (\S+)", _switchport, "<mode_type> port"),
        (r"config interface (startup|shutdown) (\S+)", _admin, "<interface_name>"),
        (r"config interface mtu (\S+) (\S+)", _mtu, f"{_PORT} <interface_mtu>"),
        (r"config interface ip remove (\S+) (\S+)", _remove_address, f"{_PORT} <ip_addr>"),
        (r"config interface speed (\S+) (\d+)", _speed, f"{_PORT} <interface_speed>"),
        (r"config interface fec (\S+) (\S+)", _fec, f"{_PORT} <interface_fec>"),
        (r"config interface autoneg (\S+) (enabled|disabled)", _autoneg, f"{_PORT} <mode>"),
        (r"config interface advertised-speeds (\S+) (\S+)", _advertise, f"{_PORT} <speed_list>"),
        (r"config interface pfc priority (\S+) ([0-7]) (on|off)", _pfc, "<interface_name>"),
        (rf"config save -y(?: {_NAME})?", _save, "[FILENAME]"),
        (rf"config load -y(?: {_NAME})?", _load, "[FILENAME]"),
        (rf"config reload -y(?: {_NAME})?", _reload, "[FILENAME]"),
        (r"config qos (reload|clear)", _qos, ""),
        (r"config qos reload --ports (\S+)", _qos_of, ""),
    ),
)


def options_first(words: Sequence[str]) -> list[str]:
    """The words with the options of `pfcwd` in front, because click accepts them anywhere."""
    found = {word: words[n + 1 : n + 2] for n, word in enumerate(words) if word in _OPTIONS}
    options = [part for name in _OPTIONS if name in found for part in (name, *found[name])]
    rest = [word for n, word in enumerate(words) if not {word, *words[n - 1 : n]} & {*_OPTIONS}]
    return [*rest[:2], *options, *rest[2:]]


def _ports(switch: SonicSwitch, names: str) -> Sequence[str]:
    return [*switch.ports] if names.split() in (["all"], []) else names.split()


def _start(switch: SonicSwitch, action: str, back: str, names: str, time: str) -> str:
    db, said = switch.database.db, ""
    wrong = [name for name in _ports(switch, names) if name not in switch.ports]
    if wrong:
        text = "\n".join(("Failed to run command, invalid options:", *wrong))
        raise tools.CommandError(text, 1)
    fields = {"detection_time": time, "restoration_time": back or str(2 * int(time))}
    if not back:
        said = "restoration time not defined; default to 2 times detection time: "
        said += f"{fields['restoration_time']} ms\n"
    fields |= {"action": action} if action else {}
    for name in _ports(switch, names):
        if "pfc_enable" not in row(db, "PORT_QOS_MAP", name):
            said += f"SKIPPED: PFC is not enabled on port: {name}\n"
            continue
        kept = row(db, WATCHDOGS, name).get("pfc_stat_history", _NO_HISTORY)
        switch.database.delete(WATCHDOGS, name)
        switch.database.put(WATCHDOGS, name, fields | {"pfc_stat_history": kept})
    return said


def _stop(switch: SonicSwitch, names: str) -> None:
    for name in _ports(switch, names):
        switch.database.delete(WATCHDOGS, name)


def _interval(switch: SonicSwitch, time: str) -> None:
    times = [
        int(fields[name])
        for port, fields in switch.database.db.get(WATCHDOGS, {}).items()
        for name in ("restoration_time", "detection_time")
        if "Ethernet" in port and fields.get(name, "").isdigit()
    ]
    if times and min(times) < int(time):
        raise tools.CommandError(
            f"unable to use polling interval = {time}ms, value is bigger than one of the "
            "configured detection time values, please choose a smaller polling_interval",
            1,
        )
    switch.database.merge(WATCHDOGS, "GLOBAL", {"POLL_INTERVAL": time})


def _poll(switch: SonicSwitch, status: str) -> None:
    switch.database.merge("FLEX_COUNTER_TABLE", "PFCWD", {"FLEX_COUNTER_STATUS": status})


_ACTION: Final = r"(?: (?:-a|--action) (drop|forward|alert))?"
_TIME: Final = r"(?: --restoration-time (\d+))?"
PFCWD: Final = tools.Commands(
    "pfcwd",
    (
        (rf"pfcwd start{_ACTION}{_TIME}((?: (?:all|Ethernet\d+))*) (\d+)", _start, ""),
        (r"pfcwd stop((?: Ethernet\d+)*)", _stop, ""),
        (r"pfcwd interval (\d+)", _interval, ""),
        (r"pfcwd counter_poll (enable|disable)", _poll, ""),
    ),
)


def _count_marked(switch: SonicSwitch, status: str) -> None:
    """Start or stop polling; the default is off (doc/qos/ECN_and_WRED_statistics_HLD.md)."""
    if switch.branch < WRED_SINCE:
        raise tools.no_such_command("counterpoll", f"wredqueue {status}")
    counted = {"FLEX_COUNTER_STATUS": status}
    switch.database.merge("FLEX_COUNTER_TABLE", "WRED_ECN_QUEUE", counted)


COUNTERPOLL: Final = tools.Commands(
    "counterpoll", ((r"counterpoll wredqueue (enable|disable)", _count_marked, ""),)
)
"""Other groups are not modelled."""
