"""The whole emulated machine of one lab host: what a reboot loses and what it keeps."""

from __future__ import annotations

import errno
import json
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from lab.hosts.bridges import acs_bridges
from lab.hosts.cards import firmware_release
from lab.hosts.driver_state import KERNEL, DriverState, built_version, kernels
from lab.hosts.firmware import Firmware, card_of, default_firmware
from lab.hosts.kernel_modules import (
    BOOT_MODULES,
    LOADABLE_MODULES,
    PEER_MODULES,
    modules_at_boot,
)
from lab.hosts.network_manager import NetworkManager
from lab.hosts.nic import DeviceRefusal, Nic, QosState, Vf, parse_kernel_uint, stable_mac
from lab.hosts.platform import Platform
from lab.hosts.sysctls import PAIR_DEFAULTS, excluded, is_refused, module_sysctls
from lab.hosts.udev_names import named_by_udev
from lab.infiniband.fabric import Fabric
from lab.views import HcaConfig, HcaPort, HostConfig, NicConfig

SYSCTL_DEFAULTS = {
    "kernel/hostname": "",
    "kernel/osrelease": KERNEL,
    "kernel/ostype": "Linux",
    "kernel/pid_max": "4194304",
    "kernel/panic": "0",
    "kernel/panic_on_oops": "0",
    "kernel/overflowuid": "65534",
    "kernel/overflowgid": "65534",
    "kernel/cap_last_cap": "40",
    "kernel/numa_balancing": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
    "vm/overcommit_memory": "0",
    "vm/panic_on_oom": "0",
    "vm/nr_hugepages": "0",
    "vm/swappiness": "60",
    "vm/max_map_count": "65530",
    "fs/file-max": "9223372036854775807",
    "fs/nr_open": "1048576",
    "fs/inotify/max_user_instances": "128",
    "fs/inotify/max_user_watches": "65536",
    "net/core/somaxconn": "4096",
    "net/core/rmem_max": "212992",
    "net/core/wmem_max": "212992",
    "net/ipv4/ip_forward": "0",
    "net/ipv4/tcp_ecn": "2",
    "net/ipv4/ip_local_port_range": "32768\t60999",
    "net/ipv4/ip_local_reserved_ports": "",
    "net/ipv4/conf/all/rp_filter": "2",
    "net/ipv4/conf/default/rp_filter": "2",
    "net/ipv4/conf/all/arp_ignore": "0",
    "net/ipv4/conf/all/arp_announce": "0",
    "net/ipv6/conf/all/forwarding": "0",
    "net/ipv6/conf/all/disable_ipv6": "0",
    **PAIR_DEFAULTS,
}
"""Kernel settings a fresh boot has (Ubuntu 22.04's values)."""

DEVICE_SYSCTLS = {"rp_filter": "2", "arp_ignore": "0", "arp_announce": "0", "arp_filter": "0"}
"""Settings of each network device in net/ipv4/conf, as Ubuntu boots."""

READ_ONLY_SYSCTLS = frozenset({"kernel/osrelease", "kernel/ostype", "kernel/cap_last_cap"})


@dataclass(slots=True)
class HostModel:
    """State of one host, shared by its sysfs, its tools and its supervisor."""

    config: HostConfig
    nvram_path: Path
    lock: threading.RLock = field(default_factory=threading.RLock)
    nics: list[Nic] = field(default_factory=list[Nic])
    modules: list[str] = field(default_factory=list[str])
    sysctls: dict[str, str] = field(default_factory=dict[str, str])
    boot_id: str = ""
    hostname: str = ""
    firmware: dict[str, Firmware] = field(default_factory=dict[str, Firmware])
    rdma_cm_devices: set[str] = field(default_factory=set[str])
    unmodelled: list[str] = field(default_factory=list[str])
    """Commands and options that no emulated tool knows; a test fails when one is recorded."""
    on_hostname: Callable[[str], None] = lambda _: None
    """Told the new name when the running host name changes."""
    fabric: Fabric | None = None
    """The InfiniBand fabric of the lab's switches; None where a cloud owns it, or there is none."""
    unplugged: set[str] = field(default_factory=set[str])
    """PFs whose cable a fault took out; that outlives a reboot."""
    slow_links: dict[str, float] = field(default_factory=dict[str, float])
    """PF to the GT/s that its PCIe link trains to: a fault, which a reboot does not heal."""
    narrow_links: dict[str, int] = field(default_factory=dict[str, int])
    """PF to the lanes that its PCIe link trains to."""
    down_hcas: set[str] = field(default_factory=set[str])
    """InfiniBand adapters whose port is down."""
    hca_counters: dict[str, int] = field(default_factory=dict[str, int])
    """`<hca>/<counter>` of InfiniBand ports; lost at a reboot."""
    ats_allowed: bool = True
    """The machine below lets devices use translated addresses: always on bare metal."""
    mmio_vfs: dict[str, int] = field(default_factory=dict[str, int])
    """Fault: PCI address of a PF to the VFs that the machine has address space for."""
    lldpad: bool = False
    """Fault: the daemon runs that overwrites PFC and DCBX."""
    placed: bool = True
    """GPU, card and memory of a guest are on one NUMA node."""
    power_cycle_pending: bool = False
    """Fault: new firmware settings ask for a power cycle; a warm reboot does not load them."""
    old_firmware: dict[str, str] = field(default_factory=dict[str, str])
    """Fault: PCI address of a PF to the release of its card's firmware."""
    missing_parameters: dict[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    """Fault: PCI address of a PF to what its card's firmware does not know."""
    mst_started: bool = False
    """The drivers of Mellanox Software Tools are loaded, as after `mst start`."""
    platform: Platform = field(default_factory=Platform)
    """Huge pages, governors, bridges, routes, command line."""
    network_manager: NetworkManager = field(default_factory=NetworkManager)
    locked_down: bool = False
    """Fault: Secure Boot's lockdown, under which nobody writes PCI registers."""
    other_namespaces: bool = True
    """There are network namespaces: polkit's service alone has one on every Ubuntu host."""

    factory: tuple[NicConfig, ...] = ()
    """The cards with the names that the kernel gives them."""
    drivers: DriverState = field(default_factory=DriverState)
    """Versions and signatures of the drivers, and faults of the host's package tools."""

    def __post_init__(self) -> None:
        """Take over what the host's image says of its drivers."""
        self.drivers.gpu_version = self.config.gpu_driver if self.config.gpus else ""
        self.factory = self.config.nics
        self.platform.cgroup = "v1" if self.config.cgroup_v1 else "v2"

    @property
    def root(self) -> Path:
        """The host's own folders on the outer machine."""
        return self.nvram_path.parent

    @property
    def kernel(self) -> str:
        """Release of the running kernel."""
        return self.sysctls["kernel/osrelease"]

    def boot(self, hostname: str, *, cold: bool = True) -> None:
        """Take on the state that the machine has right after power-on.

        Args:
            hostname: The stored name.
            cold: The cards were reset, so their firmware takes its next-boot settings. It is not
                so when a virtual machine alone is switched off and on.
        """
        with self.lock:
            self.config = replace(self.config, nics=named_by_udev(self.root, self.factory))
            self._load_firmware(cold=cold)
            self.mst_started = False
            self.boot_id = str(uuid.uuid4())
            self.hostname = hostname
            self.modules = modules_at_boot(self.config, self.drivers.gpu_version)
            brought = module_sysctls(self.modules)
            self.sysctls = SYSCTL_DEFAULTS | brought | self._device_sysctls()
            if newer := kernels(self.root):
                self.sysctls["kernel/osrelease"] = newer[-1]
            self.drivers.loaded = built_version(self.root, self.kernel)
            self.drivers.gpus.uncorrected.clear()
            self.platform.boot(self.config, self.nvram_path.parent, acs_bridges(self.config))
            self.rdma_cm_devices.clear()
            self.hca_counters.clear()
            self.nics = [self._fresh_nic(nic) for nic in self.config.nics]
            self.network_manager.boot(self)

    def _device_sysctls(self) -> dict[str, str]:
        names = ("lo", "eno1", *(nic.netdev for nic in self.config.nics))
        return {
            f"net/ipv4/conf/{name}/{key}": value
            for name in names
            for key, value in DEVICE_SYSCTLS.items()
        }

    def _fresh_nic(self, config: NicConfig) -> Nic:
        current = self.firmware[config.pci].current
        enabled = current["SRIOV_EN"] == "1"
        port = int(config.pci.rpartition(".")[2], 16) + 1
        return Nic(
            config,
            self.config.name,
            self.next_rdma_name,
            cable_up=config.netdev not in self.unplugged,
            mmio_vfs=self.mmio_vfs.get(config.pci),
            vf_limit=int(current["NUM_OF_VFS"]) if enabled else 0,
            link_gt_s=self.slow_links.get(config.pci),
            link_width=self.narrow_links.get(config.pci),
            firmware_version=self.firmware_version(config.pci),
            infiniband=(
                config.link_layer == "Ethernet" and current.get(f"LINK_TYPE_P{port}") == "1"
            ),
        )

    def _load_firmware(self, *, cold: bool) -> None:
        stored: dict[str, dict[str, dict[str, str]]] = {}
        if self.nvram_path.exists():
            stored = json.loads(self.nvram_path.read_text())
        self.firmware.clear()
        for nic in self.config.nics:
            ports = [each for each in self.config.nics if card_of(each.pci) == card_of(nic.pci)]
            links = [port.link_layer for port in ports]
            default = default_firmware(nic.device, nic.total_vfs, links)
            first = ports[0].pci
            kept = stored.get(first, {})
            firmware = self.firmware.get(first) or Firmware(
                default,
                default | kept.get("next", {}),
                default | kept.get("current", {}),
                self.missing_parameters.get(first, frozenset()),
            )
            if cold and not self.power_cycle_pending and not firmware.dpu_mode:
                firmware.start()
            self.firmware[nic.pci] = firmware
        self.save_firmware()

    def restart_card(self, pci: str) -> None:
        """Reset one card, as mlxfwreset does: the settings of its ports' run time are lost."""
        self.firmware[pci].start()
        self.save_firmware()
        for number, nic in enumerate(self.nics):
            if card_of(nic.config.pci) == card_of(pci):
                self.nics[number] = self._fresh_nic(nic.config)

    def firmware_version(self, pci: str) -> str:
        """The release of the firmware of the card with this PF."""
        device = next(nic.device for nic in self.config.nics if nic.pci == pci)
        return self.old_firmware.get(pci, firmware_release(device))

    def save_firmware(self) -> None:
        """Write the cards' values where they survive a reboot."""
        stored = {
            pci: {"next": values.next, "current": values.current}
            for pci, values in sorted(self.firmware.items())
        }
        self.nvram_path.write_text(json.dumps(stored, indent=1, sort_keys=True) + "\n")

    def ats_active(self, pci: str) -> bool:
        """`Enable+` in lspci: the firmware runs with ATS, and the machine below allows it."""
        return self.ats_allowed and self.firmware[pci].current["ATS_ENABLED"] == "1"

    def gdr_allowed(self, pci: str) -> bool:
        """Card and GPU reach each other at full speed: in a guest that takes ATS and placement."""
        return not self.config.guest or (self.placed and self.ats_active(pci))

    def hca_guid(self, hca: HcaConfig) -> str:
        """The port's GUID, 16 hex digits, the same at each start."""
        mac = stable_mac(f"{self.config.name}/{hca.pci}").replace(":", "")
        return hca.guid or f"{mac[:6]}0300{mac[6:]}"

    def ports_on_fabric(self) -> tuple[HcaPort, ...]:
        """The InfiniBand ports, as their subnet sees them."""
        return tuple(
            HcaPort(
                host=self.config.name,
                name=hca.name,
                pci=hca.pci,
                guid=self.hca_guid(hca),
                rate_gbit_s=hca.rate_gbit_s,
                link_up=hca.name not in self.down_hcas,
            )
            for hca in self.config.hcas
            if hca.link_layer == "InfiniBand"
        )

    def count_hca(self, pci: str, rx_bytes: int, tx_bytes: int) -> bool:
        """Move the counters of an InfiniBand adapter; False where there is none at that address.

        The ports count in units of four bytes (InfiniBand specification, PortCounters).
        """
        hca = next((each for each in self.config.hcas if each.pci == pci), None)
        if hca is None:
            return False
        for name, size_bytes in (("port_xmit_data", tx_bytes), ("port_rcv_data", rx_bytes)):
            key = f"{hca.name}/{name}"
            self.hca_counters[key] = self.hca_counters.get(key, 0) + size_bytes // 4
        return True

    def next_rdma_name(self) -> str:
        """The lowest free `mlx5_N`, as the driver numbers devices in probe order."""
        taken = {nic.rdma for nic in self.config.nics} | {hca.name for hca in self.config.hcas}
        taken.update(vf.rdma for nic in self.nics for vf in nic.vfs)
        number = 0
        while f"mlx5_{number}" in taken:
            number += 1
        return f"mlx5_{number}"

    def nic_by_netdev(self, netdev: str) -> Nic | None:
        """The PF with this network device name."""
        return next(
            (nic for nic in self.nics if nic.config.netdev == netdev and not nic.infiniband), None
        )

    def nic_by_pci(self, pci: str) -> Nic | None:
        """The PF at this PCI address, with or without the domain."""
        full = pci if pci.count(":") > 1 else f"0000:{pci}"
        return next((nic for nic in self.nics if nic.config.pci == full), None)

    def nic_by_rdma(self, rdma: str) -> Nic | None:
        """The PF with this RDMA device name."""
        return next((nic for nic in self.nics if nic.config.rdma == rdma), None)

    def has_rdma(self, name: str) -> bool:
        """A port or a VF of it has this RDMA device, in whichever namespace."""
        vfs = (vf.rdma for _, vf in self.all_vfs() if vf.bound)
        return self.nic_by_rdma(name) is not None or name in vfs

    def all_vfs(self) -> Iterator[tuple[Nic, Vf]]:
        """Every VF with its PF."""
        return ((nic, vf) for nic in self.nics for vf in nic.vfs)

    def load_module(self, name: str) -> bool:
        """Load a module and what it needs; False when it does not exist here, or cannot load.

        The modules of peer memory need `ib_register_peer_memory_client`, which the kernel's own
        ib_core does not have (sources.md#rdma-driver).
        """
        plain = name.replace("-", "_")
        if plain in self.modules:
            return True
        if plain not in LOADABLE_MODULES and plain not in BOOT_MODULES:
            return False
        if plain in PEER_MODULES and not self.drivers.loaded:
            return False
        for needed in LOADABLE_MODULES.get(plain, ()):
            self.load_module(needed)
        self.modules.append(plain)
        self.sysctls |= module_sysctls([plain])
        return True

    def unload_module(self, name: str) -> None:
        """Unload a module, with the settings that it brought."""
        self.modules.remove(name)
        for key in module_sysctls([name]):
            del self.sysctls[key]

    def module_users(self, name: str) -> list[str]:
        """Loaded modules that keep `name` from being unloaded."""
        held = ["a-service"] if name in self.platform.held_modules else []
        return [*(m for m in self.modules if name in LOADABLE_MODULES.get(m, ())), *held]

    def write_sysctl(self, key: str, text: str) -> None:
        """Write one file under /proc/sys.

        Raises:
            DeviceRefusal: ENOENT for an unknown key, EACCES for a read-only one, EINVAL for a
                value that is no number where the kernel wants one.
        """
        if key not in self.sysctls:
            raise DeviceRefusal(errno.ENOENT)
        if key in READ_ONLY_SYSCTLS:
            raise DeviceRefusal(errno.EACCES)
        if key == "kernel/hostname":
            self.hostname = text.strip()
            self.on_hostname(self.hostname)
            return
        for word in (text.replace(",", " ").replace("-", " ") if "_ports" in key else text).split():
            parse_kernel_uint(word)
        if is_refused(key, text):
            raise DeviceRefusal(errno.EINVAL)
        if other := excluded(key, self.sysctls[key], text):
            self.sysctls[other] = "0"
        self.sysctls[key] = "\t".join(text.split())
        if key == "vm/nr_hugepages":  # pages of the default size
            self.platform.set_total("2048kB", int(text))
            self.sysctls[key] = str(self.platform.pages("2048kB"))

    def shape(self) -> tuple[object, ...]:
        """A value that changes whenever the tree of /sys may have other files than before.

        Its last part is that of configfs, whose folders come and go alone.
        """
        cards = tuple(
            (id(nic), id(nic.qos), nic.vf_generation, tuple(nic.addresses)) for nic in self.nics
        )
        return (
            self.boot_id,
            self.drivers.loaded,
            self.platform.cgroup,
            self.platform.selinux,
            self.locked_down,
            cards,
            tuple(self.modules),
            tuple(sorted(self.rdma_cm_devices)),
        )

    def lose_qos(self) -> None:
        """Fault: a driver reload dropped the QoS state of all PFs."""
        for nic in self.nics:
            nic.qos = QosState()
