"""Faults that a person or a test may cause on a lab host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from components.errors import UsageError
from lab.hosts.docker_state import load_state, save_state
from lab.hosts.host import LabHost
from lab.hosts.nic import DeviceRefusal, Nic

FORMS = """\
  vfs-lost                   all VFs gone, as after a reboot without the unit that restores them
  ssh-refused on|off         the SSH port refuses connections
  link-down NETDEV on|off    the cable of a card is out
  mtu NETDEV BYTES           the MTU changed by hand
  qos-lost                   trust, PFC, ECN and CNP back at the driver's defaults
  module-lost MODULE         a kernel module is unloaded
  unit-disabled UNIT         a unit is disabled by hand
  unit-stopped UNIT          a unit is stopped by hand
  file-changed PATH TEXT     a line is added to a file of the host
  address-lost NETDEV        the card's addresses were taken away
  firmware NETDEV NAME VALUE a setting of the card's firmware, for its next start
  container-removed NAME     a container of Docker's is gone"""


async def cause_fault(host: LabHost, args: Sequence[str]) -> str:
    """Cause one fault and say in words what was done.

    Raises:
        UsageError: There is no such fault, or a word of it is wrong.
    """
    match list(args):
        case ["ssh-refused", "on" | "off" as state]:
            await host.set_ssh_refused(refused=state == "on")
            return f"SSH is {'refused' if state == 'on' else 'open'}"
        case ["unit-stopped", unit]:
            return await _stop(host, unit)
        case ["link-down", name, "on" | "off" as state] if _has_hca(host, name):
            down = host.model.down_hcas
            (down.add if state == "on" else down.discard)(name)
            return f"the cable of {name} is {'out' if state == 'on' else 'in'}"
        case ["link-down", netdev, "on" | "off" as state]:
            return _link(host, _card(host, netdev), down=state == "on")
        case [name, *words] if len(words) == WORDS.get(name):
            return _plain_fault(host, name, words)
        case _:
            name = host.config.name
            text = " ".join(args)
            raise UsageError(f"{name}: no fault {text!r}; the faults of a host are:\n{FORMS}")


WORDS = {
    "vfs-lost": 0,
    "qos-lost": 0,
    "mtu": 2,
    "module-lost": 1,
    "unit-disabled": 1,
    "file-changed": 2,
    "address-lost": 1,
    "firmware": 3,
    "container-removed": 1,
}
"""How many words follow each fault's name."""


def _plain_fault(host: LabHost, name: str, words: Sequence[str]) -> str:
    actions: dict[str, Callable[[], str]] = {
        "vfs-lost": lambda: _lose_vfs(host),
        "qos-lost": lambda: _lose_qos(host),
        "mtu": lambda: _set_mtu(_card(host, words[0]), words[1]),
        "module-lost": lambda: _lose_module(host, words[0]),
        "unit-disabled": lambda: _disable(host, words[0]),
        "file-changed": lambda: _add_line(host.root / words[0].lstrip("/"), words[1]),
        "address-lost": lambda: _lose_addresses(_card(host, words[0])),
        "firmware": lambda: _set_firmware(host, _card(host, words[0]), words[1], words[2]),
        "container-removed": lambda: _remove_container(host, words[0]),
    }
    with host.model.lock:
        return actions[name]()


def _lose_vfs(host: LabHost) -> str:
    for nic in host.model.nics:
        nic.set_vf_count("0")
    return "all VFs are gone"


def _lose_qos(host: LabHost) -> str:
    host.model.lose_qos()
    return "QoS of all cards is at the driver's defaults"


def _set_mtu(nic: Nic, text: str) -> str:
    try:
        nic.set_mtu(text)
    except DeviceRefusal as refusal:
        raise UsageError(f"{nic.config.netdev}: the driver refuses an MTU of {text}") from refusal
    return f"MTU of {nic.config.netdev} is {text}"


def _lose_addresses(nic: Nic) -> str:
    nic.addresses.clear()
    return f"{nic.config.netdev} has no address"


def _set_firmware(host: LabHost, nic: Nic, name: str, value: str) -> str:
    following = host.model.firmware[nic.config.pci].next
    if name not in following:
        raise UsageError(f"{nic.config.netdev}: its firmware has no setting {name!r}")
    following[name] = value
    host.model.save_firmware()
    return f"{name} of {nic.config.netdev} is {value} at its next start"


def _remove_container(host: LabHost, name: str) -> str:
    state = load_state(host.root)
    if state.containers.pop(name, None) is None:
        raise UsageError(f"{host.config.name} has no container {name!r}")
    save_state(host.root, state)
    return f"container {name} is gone"


def _lose_module(host: LabHost, module: str) -> str:
    if module not in host.model.modules:
        raise UsageError(f"module {module} is not loaded on {host.config.name}")
    host.model.modules.remove(module)
    return f"module {module} is unloaded"


def _add_line(path: Path, text: str) -> str:
    with path.open("a") as file:
        file.write(f"{text}\n")
    return f"{path.name} has a line more"


def _has_hca(host: LabHost, name: str) -> bool:
    return any(hca.name == name for hca in host.config.hcas)


def _card(host: LabHost, netdev: str) -> Nic:
    nic = host.model.nic_by_netdev(netdev)
    if nic is None:
        names = ", ".join(n.config.netdev for n in host.model.nics) or "none"
        raise UsageError(f"{host.config.name} has no card {netdev!r}; its cards: {names}")
    return nic


def _link(host: LabHost, nic: Nic, *, down: bool) -> str:
    nic.cable_up = not down
    name = nic.config.netdev
    (host.model.unplugged.add if down else host.model.unplugged.discard)(name)
    return f"the cable of {name} is {'out' if down else 'in'}"


async def _stop(host: LabHost, unit: str) -> str:
    if host.supervisor.state(unit).active != "active":
        raise UsageError(f"{unit} does not run on {host.config.name}")
    await host.supervisor.stop(unit)
    return f"{unit} is stopped"


def _disable(host: LabHost, unit: str) -> str:
    links = list((host.root / "etc/systemd/system").glob(f"*.wants/{unit}"))
    if not links:
        raise UsageError(f"{unit} is not enabled on {host.config.name}")
    for link in links:
        link.unlink()
    host.supervisor.reload()
    return f"{unit} is disabled"
