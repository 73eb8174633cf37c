"""`config …`: the commands that change a switch, with the refusals of click.

Texts: sonic-utilities, branch 202405, config/vlan.py, config/switchport.py, config/main.py,
scripts/portconfig.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from lab.switches.sonic.config import RELOAD_LOCK, SAVED_FILE, row
from lab.switches.sonic.database import Database
from lab.switches.sonic.qos_template import clear_qos, reload_ports, reload_qos
from lab.switches.sonic.tools import CommandError, dump, merge_data, parse_data

if TYPE_CHECKING:
    from lab.switches.sonic.cli import Session

USAGE_STATUS: Final = 2
"""click's exit status for a refusal."""
_VLANS: Final = range(2, 4095)
_MTUS: Final = range(68, 9217)


def usage_error(command: str, arguments: str, message: str) -> CommandError:
    """A refusal as click prints it."""
    lines = f'Usage: {command} [OPTIONS] {arguments}\nTry "{command} -h" for help.\n'
    return CommandError(f"{lines}\nError: {message}", USAGE_STATUS)


def _fail(message: str) -> CommandError:
    return CommandError(message, USAGE_STATUS)


def run_config(session: Session, words: list[str]) -> str:
    """Run one `config` command.

    Raises:
        CommandError: It is refused, or unknown.
    """
    text = " ".join(words)
    for pattern, arguments, handler in _COMMANDS:
        found = re.fullmatch(pattern, text)
        if found is None:
            continue
        command = " ".join(words[: len(pattern.split(" (", maxsplit=1)[0].split())])
        try:
            return handler(session, *(group or "" for group in found.groups()))
        except CommandError as error:
            if error.status != USAGE_STATUS:
                raise
            raise usage_error(command, arguments, str(error)) from error
    session.note(text)
    raise usage_error("config", "COMMAND [ARGS]...", f'No such command "{" ".join(words[1:])}".')


def _vlan(text: str) -> tuple[int, str]:
    if not text.isdigit():
        raise _fail(f"{text} is not integer")
    vlan = int(text)
    if vlan not in _VLANS:
        raise _fail(f"Invalid VLAN ID {vlan} (2-4094)")
    return vlan, f"Vlan{vlan}"


def _add_vlan(session: Session, text: str) -> str:
    vlan, name = _vlan(text)
    database = session.switch.database
    if row(database.db, "VLAN", name):
        raise _fail(f"{name} already exists.")
    database.put("VLAN", name, {"vlanid": str(vlan)})
    return ""


def _del_vlan(session: Session, text: str) -> str:
    vlan, name = _vlan(text)
    database = session.switch.database
    db = database.db
    if not row(db, "VLAN", name):
        raise _fail(f"{name} does not exist")
    if any(key.partition("|")[0] == name for key in db.get("VLAN_INTERFACE", {})):
        why = "can not be removed. First remove IP addresses assigned to this VLAN"
        raise _fail(f"{name} {why}")
    if any(key.startswith(f"{name}|") for key in db.get("VLAN_MEMBER", {})):
        why = "can not be removed. First remove all members assigned to this VLAN."
        raise _fail(f"VLAN ID {vlan} {why}")
    database.delete("VLAN", name)
    return ""


def _known_port(database: Database, port: str) -> None:
    if port not in database.db["PORT"]:
        raise _fail(f"{port} does not exist")


def _add_member(session: Session, untagged: str, text: str, port: str) -> str:
    _, name = _vlan(text)
    database = session.switch.database
    db = database.db
    if not row(db, "VLAN", name):
        raise _fail(f"{name} does not exist")
    if f"{name}|{port}" in db.get("VLAN_MEMBER", {}):
        raise _fail(f"{port} is already a member of {name}")
    _known_port(database, port)
    if any(key.partition("|")[0] == port for key in db.get("INTERFACE", {})):
        raise _fail(f"{port} is a router interface!")
    if any(key.endswith(f"|{port}") for key in db.get("PORTCHANNEL_MEMBER", {})):
        raise _fail(f"{port} is part of portchannel!")
    others = [
        fields
        for key, fields in db.get("VLAN_MEMBER", {}).items()
        if key.endswith(f"|{port}") and fields.get("tagging_mode") == "untagged"
    ]
    if untagged and others:
        raise _fail(f"{port} is already untagged member!")
    mode = row(db, "PORT", port).get("mode")
    if mode == "routed":
        raise _fail(f"{port} is in routed mode!\nUse switchport mode command to change port mode")
    if mode == "access" and not untagged:
        raise _fail(f"{port} is in access mode! Tagged Members cannot be added")
    tagging = "untagged" if untagged else "tagged"
    database.put("VLAN_MEMBER", f"{name}|{port}", {"tagging_mode": tagging})
    return ""


def _del_member(session: Session, text: str, port: str) -> str:
    _, name = _vlan(text)
    database = session.switch.database
    if not row(database.db, "VLAN", name):
        raise _fail(f"{name} does not exist")
    if f"{name}|{port}" not in database.db.get("VLAN_MEMBER", {}):
        raise _fail(f"{port} is not a member of {name}")
    database.delete("VLAN_MEMBER", f"{name}|{port}")
    return ""


def _switchport(session: Session, mode: str, port: str) -> str:
    database = session.switch.database
    _known_port(database, port)
    members = {
        fields.get("tagging_mode")
        for key, fields in database.db.get("VLAN_MEMBER", {}).items()
        if key.endswith(f"|{port}")
    }
    held = row(database.db, "PORT", port).get("mode")
    if mode == "routed":
        for kind, end in (("tagged", "(s). \nRemove them"), ("untagged", ". \nRemove it")):
            if kind in members:
                raise _fail(f"{port} has {kind} member{end} to change mode to {mode}")
    elif any(key.partition("|")[0] == port for key in database.db.get("INTERFACE", {})):
        raise _fail(f"Remove IP from {port} to change mode!")
    if held == mode:
        raise _fail(f"{port} is already in {mode} mode")
    if (held, mode) == ("trunk", "access") and "tagged" in members:
        raise _fail(
            f"{port} is in {held} mode and have tagged member(s).\nRemove tagged member(s) from "
            f"{port} to switch to {mode} mode"
        )
    database.merge("PORT", port, {"mode": mode})
    return f"{port} switched to {mode} mode\n"


def _admin(session: Session, verb: str, names: str) -> str:
    database = session.switch.database
    ports = names.split(",")
    if len(ports) == 1 and names not in database.db["PORT"]:
        raise _fail("Interface name is invalid. Please enter a valid interface name!!")
    for port in ports:
        if port in database.db["PORT"]:
            status = "up" if verb == "startup" else "down"
            database.merge("PORT", port, {"admin_status": status})
    return ""


def _mtu(session: Session, port: str, text: str) -> str:
    if not text.isdigit():
        raise _fail(f'Invalid value for "<interface_mtu>": {text} is not a valid integer')
    if int(text) not in _MTUS:
        span = f"{_MTUS.start} to {_MTUS.stop - 1}"
        raise _fail(
            f'Invalid value for "<interface_mtu>": {text} is not in the valid range of {span}.'
        )
    database = session.switch.database
    if port not in database.db["PORT"]:
        raise CommandError(f"Invalid port {port}", 1)  # portconfig
    database.merge("PORT", port, {"mtu": text})
    return ""


def _portconfig(session: Session, port: str) -> Database:
    database = session.switch.database
    if port not in database.db["PORT"]:
        raise CommandError(f"Invalid port {port}", 1)
    return database


def _remove_address(session: Session, port: str, address: str) -> str:
    """Its row without fields goes with the last address (config/main.py: `interface ip remove`)."""
    database = session.switch.database
    if f"{port}|{address}" not in database.db.get("INTERFACE", {}):
        raise _fail(f"{address} is not configured on {port}")  # the words are a guess
    database.delete("INTERFACE", f"{port}|{address}")
    left = [key for key in database.db.get("INTERFACE", {}) if key.partition("|")[0] == port]
    if left == [port] and not row(database.db, "INTERFACE", port):
        database.delete("INTERFACE", port)
    return ""


def _speed(session: Session, port: str, text: str) -> str:
    database = _portconfig(session, port)
    supported = session.switch.supported_speeds(port)
    if text not in supported:
        raise CommandError(
            f"Invalid speed specified: {text}\nValid speeds:{','.join(supported)}", 1
        )
    database.merge("PORT", port, {"speed": text})
    return ""


def _advertise(session: Session, port: str, speeds: str) -> str:
    database = _portconfig(session, port)
    supported = session.switch.supported_speeds(port)
    wrong = [] if speeds == "all" else sorted({*speeds.split(",")} - {*supported})
    if wrong:
        lines = (
            f"Invalid speed specified: {','.join(wrong)}",
            f"Valid speeds:{','.join(supported)}",
        )
        raise CommandError("\n".join(lines), 1)
    database.merge("PORT", port, {"adv_speeds": speeds})
    return ""


def _fec(session: Session, port: str, mode: str) -> str:
    database = _portconfig(session, port)
    supported = session.switch.supported_fecs(port)
    if mode not in supported:
        raise CommandError(f"fec {mode} is not in {supported}", 1)
    database.merge("PORT", port, {"fec": mode})
    return ""


def _autoneg(session: Session, port: str, mode: str) -> str:
    database = _portconfig(session, port)
    database.merge("PORT", port, {"autoneg": "on" if mode == "enabled" else "off"})
    return ""


def _pfc(session: Session, port: str, priority: str, status: str) -> str:
    database = session.switch.database
    fields = row(database.db, "PORT_QOS_MAP", port)
    if not fields:
        return f"Cannot find interface {port}\n"
    held = {part for part in fields.get("pfc_enable", "").split(",") if part}
    if (status == "on") == (priority in held):
        state = "has already been enabled" if status == "on" else "is not enabled"
        return f"Priority {priority} {state} on {port}\n"
    changed = held | {priority} if status == "on" else held - {priority}
    database.merge("PORT_QOS_MAP", port, {"pfc_enable": ",".join(sorted(changed))})
    return ""


def _save(session: Session, path: str) -> str:
    path = path or SAVED_FILE
    session.switch.save_configuration(path)
    return f"Running command: /usr/local/bin/sonic-cfggen -d --print-data > {path}\n"


def _file(session: Session, path: str) -> str | None:
    if path == SAVED_FILE:
        return dump(session.switch.stored.saved)
    return session.switch.stored.files.get(path)


def _load(session: Session, path: str) -> str:
    path = path or SAVED_FILE
    text = _file(session, path)
    if text is None:
        return f"The config_db file {path} doesn't exist\n"
    merge_data(session.switch.database, parse_data(text))
    return f"Running command: /usr/local/bin/sonic-cfggen -j {path} --write-to-db\n"


def _reload(session: Session, path: str) -> str:
    if session.switch.stored.lock_owner or session.switch.holders:
        raise CommandError(f"Failed to acquire lock on {RELOAD_LOCK}", 1)
    text = _file(session, path or SAVED_FILE)
    if text is None:
        return f"The config file {path} doesn't exist\n"
    session.switch.load_configuration(parse_data(text))
    return f"Acquired lock on {RELOAD_LOCK}\nReleased lock on {RELOAD_LOCK}\n"


def _qos(session: Session, verb: str) -> str:
    if verb == "clear":
        clear_qos(session.switch.database)
        return ""
    reload_qos(session.switch.database, session.switch.platform)
    return "Running command: /usr/local/bin/sonic-cfggen -j /tmp/cfg_buffer.json --write-to-db\n"


def _qos_of(session: Session, ports: str) -> str:
    reload_ports(session.switch.database, session.switch.platform, ports.split(","))
    return ""


_NAME: Final = r"([\w/.-]+)"
_PORT: Final = r"(Ethernet[\d]+)"
Handler = Callable[..., str]
_COMMANDS: Final[tuple[tuple[str, str, Handler], ...]] = (
    (r"config vlan add (\S+)", "<vid>", _add_vlan),
    (r"config vlan del (\S+)", "<vid>", _del_vlan),
    (r"config vlan member add (-u |--untagged )?(\S+) (\S+)", "<vid> port", _add_member),
    (r"config vlan member del (\S+) (\S+)", "<vid> <port>", _del_member),
    (r"config switchport mode (access|trunk|routed) (\S+)", "<mode_type> port", _switchport),
    (r"config interface (startup|shutdown) (\S+)", "<interface_name>", _admin),
    (r"config interface mtu (\S+) (\S+)", "<interface_name> <interface_mtu>", _mtu),
    (
        r"config interface ip remove (\S+) (\S+)",
        "<interface_name> <ip_addr>",
        _remove_address,
    ),
    (r"config interface speed (\S+) (\d+)", "<interface_name> <interface_speed>", _speed),
    (r"config interface fec (\S+) (\S+)", "<interface_name> <interface_fec>", _fec),
    (r"config interface autoneg (\S+) (enabled|disabled)", "<interface_name> <mode>", _autoneg),
    (
        r"config interface advertised-speeds (\S+) (\S+)",
        "<interface_name> <speed_list>",
        _advertise,
    ),
    (r"config interface pfc priority (\S+) ([0-7]) (on|off)", "<interface_name>", _pfc),
    (rf"config save -y(?: {_NAME})?", "[FILENAME]", _save),
    (rf"config load -y(?: {_NAME})?", "[FILENAME]", _load),
    (rf"config reload -y(?: {_NAME})?", "[FILENAME]", _reload),
    (r"config qos (reload|clear)", "", _qos),
    (r"config qos reload --ports (\S+)", "", _qos_of),
)
