"""Faults that a person or a test may cause on a lab host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from components.core.errors import UsageError
from lab.hosts.docker_state import load_state, save_state
from lab.hosts.driver_faults import DRIVER_WORDS, cause_driver_fault
from lab.hosts.gpu_faults import GPU_WORDS, cause_gpu_fault
from lab.hosts.host import LabHost
from lab.hosts.links import card_link
from lab.hosts.nic import DeviceRefusal, Nic
from lab.hosts.platform_faults import PLATFORM_WORDS, cause_platform_fault

FORMS = """\
  vfs-lost                   all VFs gone, as after a reboot without the unit that restores them
  ssh-refused on|off         the SSH port refuses connections
  link-down NETDEV on|off    the cable of a card is out
  link-width NETDEV LANES    the card's PCIe link trains to fewer lanes, as in a bad contact
  link-speed NETDEV GT_S     the card's PCIe link trains to a lower speed
  mtu NETDEV BYTES           the MTU changed by hand
  qos-lost                   trust, PFC, ECN and CNP back at the driver's defaults
  module-lost MODULE         a kernel module is unloaded
  unit-disabled UNIT         a unit is disabled by hand
  unit-stopped UNIT          a unit is stopped by hand
  file-changed PATH TEXT     a line is added to a file of the host
  address-lost NETDEV        the card's addresses were taken away
  mmio-short NETDEV COUNT    address space for so many VFs of a card only
  lldpad on|off              the daemon that overwrites PFC and DCBX runs
  vf-in-pod NETDEV N on|off  a VF's devices are in a pod
  card-moved NETDEV PCI      the card is in another slot
  firmware NETDEV NAME VALUE a setting of the card's firmware, for its next start
  firmware-version NETDEV V  the card runs that release of its firmware
  firmware-lacks NETDEV NAME its firmware does not know that setting; nothing: it knows all
  power-cycle on|off         new firmware settings load at a power cycle only; off: it was done
  package-lock HOLDER|off    another process, as "4242 (apt-get)", holds the package tools' lock
  disk-full FOLDER on|off    a folder has no space left
  half-installed NAME        the installation of a package was cut off
  secure-boot STATE          on, off, or enrolled: on, with the host's key confirmed at the console
  kernel-upgrade RELEASE     a newer kernel was installed; the next boot takes it
  gpu-driver VERSION KIND    another GPU driver (or none), its modules open or proprietary
  gpu-lost GPU on|off        a GPU, by its index, fell off the bus
  gpu-width GPU LANES        the PCIe link of a GPU trains to fewer lanes
  gpu-gen GPU GENERATION     the PCIe link of a GPU trains to an older generation
  gpu-ecc GPU COUNT          so many errors that ECC did not correct, until the next boot
  module-loaded MODULE       a kernel module that is no business of ours is loaded
  container-removed NAME     a container of Docker's is gone
  module-held MODULE on|off  a service holds a module: it cannot be unloaded
  pci-locked on|off          the kernel is locked down: nobody writes PCI registers
  cgroup v1|v2               the host runs on that hierarchy of control groups
  selinux on|off             SELinux is enforcing, and the policy of K3s is not installed
  swap MIB                   so much swap is on; 0: none
  clock SECONDS              the clock is so far ahead (or, with -, behind); 0: right
  sudo-lost on|off           the login's line is gone from sudoers
  address-taken ADDRESS MAC  another machine answers for that address; with off, none does
  rules-lost                 systemd-networkd restarted: rules and routes of others are gone
  network-manager on|off     NetworkManager is installed and runs
  dhcp-ends NETDEV           NetworkManager's attempt to get an address for a card ends"""


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
        case ["module-held" | "pci-locked" as name, *words, "on" | "off" as state]:
            return _hold(host, name, words, on=state == "on")
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
    "link-width": 2,
    "link-speed": 2,
    "module-lost": 1,
    "unit-disabled": 1,
    "file-changed": 2,
    "address-lost": 1,
    "firmware": 3,
    "mmio-short": 2,
    "lldpad": 1,
    "card-moved": 2,
    "firmware-version": 2,
    "firmware-lacks": 2,
    "power-cycle": 1,
    "vf-in-pod": 3,
    "container-removed": 1,
    **DRIVER_WORDS,
    **GPU_WORDS,
    "rules-lost": 0,
    **PLATFORM_WORDS,
}
"""How many words follow each fault's name."""


def _plain_fault(host: LabHost, name: str, words: Sequence[str]) -> str:
    actions: dict[str, Callable[[], str]] = {
        "vfs-lost": lambda: _lose_vfs(host),
        "qos-lost": lambda: _lose_qos(host),
        "mtu": lambda: _set_mtu(_card(host, words[0]), words[1]),
        "link-width": lambda: _train(host, _card(host, words[0]), "lanes", words[1]),
        "link-speed": lambda: _train(host, _card(host, words[0]), "GT/s", words[1]),
        "module-lost": lambda: _lose_module(host, words[0]),
        "unit-disabled": lambda: _disable(host, words[0]),
        "file-changed": lambda: _add_line(host.root / words[0].lstrip("/"), words[1]),
        "address-lost": lambda: _lose_addresses(_card(host, words[0])),
        "firmware": lambda: _set_firmware(host, _card(host, words[0]), words[1], words[2]),
        "mmio-short": lambda: _shorten_mmio(host, _card(host, words[0]), words[1]),
        "lldpad": lambda: _run_lldpad(host, words[0]),
        "vf-in-pod": lambda: _give_vf(host, words),
        "card-moved": lambda: _move_card(host, _card(host, words[0]), words[1]),
        "firmware-version": lambda: _set_version(host, _card(host, words[0]), words[1]),
        "firmware-lacks": lambda: _lack(host, _card(host, words[0]), words[1]),
        "power-cycle": lambda: _power_cycle(host, words[0]),
        "container-removed": lambda: _remove_container(host, words[0]),
        **{each: lambda: cause_driver_fault(host.model, name, words) for each in DRIVER_WORDS},
        **{each: lambda: cause_gpu_fault(host.model, name, words) for each in GPU_WORDS},
        "rules-lost": lambda: _lose_rules(host),
        **{
            each: lambda: cause_platform_fault(host.model, host.config.user, name, words)
            for each in PLATFORM_WORDS
        },
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


def _train(host: LabHost, nic: Nic, unit: str, text: str) -> str:
    gt_s, width = card_link(nic.config.device)
    best = width if unit == "lanes" else gt_s
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= best:
        raise UsageError(f"{nic.config.netdev}: its PCIe link has at most {best:g} {unit}")
    if unit == "lanes":
        nic.link_width = host.model.narrow_links[nic.config.pci] = int(value)
    else:
        nic.link_gt_s = host.model.slow_links[nic.config.pci] = value
    return f"the PCIe link of {nic.config.netdev} runs at {value:g} {unit}"


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


def _shorten_mmio(host: LabHost, nic: Nic, count: str) -> str:
    nic.mmio_vfs = host.model.mmio_vfs[nic.config.pci] = int(count)
    return f"there is address space for {count} VFs of {nic.config.netdev}"


def _run_lldpad(host: LabHost, state: str) -> str:
    host.model.lldpad = state == "on"
    return f"lldpad {'runs' if host.model.lldpad else 'does not run'}"


def _give_vf(host: LabHost, words: Sequence[str]) -> str:
    nic, number, state = _card(host, words[0]), int(words[1]), words[2]
    if number >= len(nic.vfs):
        raise UsageError(f"{nic.config.netdev} has no VF {number}")
    nic.vfs[number].in_pod = state == "on"
    if host.model.platform.netns_mode == "exclusive":
        nic.vfs[number].forget_marks()  # the core adds the device anew there (sources.md#host-qos)
    nic.vf_generation += 1
    return f"VF {number} of {nic.config.netdev} is {'in a pod' if state == 'on' else 'here'}"


def _move_card(host: LabHost, nic: Nic, pci: str) -> str:
    old = nic.config.pci
    nic.set_vf_count("0")
    nic.config = replace(nic.config, pci=pci)
    nic.vf_generation += 1
    host.model.firmware[pci] = host.model.firmware.pop(old)
    return f"{nic.config.netdev} is at {pci}"


def _set_version(host: LabHost, nic: Nic, version: str) -> str:
    host.model.old_firmware[nic.config.pci] = nic.firmware_version = version
    return f"{nic.config.netdev} runs firmware {version}"


def _lack(host: LabHost, nic: Nic, name: str) -> str:
    firmware = host.model.firmware[nic.config.pci]
    if name == "nothing":
        firmware.lacks = frozenset()
        host.model.missing_parameters.pop(nic.config.pci, None)
        return f"the firmware of {nic.config.netdev} knows all its settings"
    if name not in firmware.default:
        raise UsageError(f"{nic.config.netdev}: its firmware has no setting {name!r}")
    firmware.lacks |= {name}
    host.model.missing_parameters[nic.config.pci] = firmware.lacks
    return f"the firmware of {nic.config.netdev} does not know {name}"


def _power_cycle(host: LabHost, state: str) -> str:
    host.model.power_cycle_pending = state == "on"
    how = "a power cycle" if state == "on" else "a reboot"
    return f"{how} loads new firmware settings"


def _remove_container(host: LabHost, name: str) -> str:
    state = load_state(host.root)
    if state.containers.pop(name, None) is None:
        raise UsageError(f"{host.config.name} has no container {name!r}")
    save_state(host.root, state)
    return f"container {name} is gone"


def _lose_module(host: LabHost, module: str) -> str:
    if module not in host.model.modules:
        raise UsageError(f"module {module} is not loaded on {host.config.name}")
    host.model.unload_module(module)
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


def _hold(host: LabHost, name: str, words: Sequence[str], *, on: bool) -> str:
    if name == "pci-locked":
        host.model.locked_down = on
        return f"PCI registers {'cannot' if on else 'can'} be written"
    held = host.model.platform.held_modules
    (held.update if on else held.difference_update)(words)
    return f"{', '.join(words)} is {'in use' if on else 'free'}"


def _lose_rules(host: LabHost) -> str:
    host.model.platform.rules.clear()
    host.model.platform.routes.clear()
    return "routing rules and routes of others than systemd-networkd are gone"
