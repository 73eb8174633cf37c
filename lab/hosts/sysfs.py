"""/sys and /proc/sys of one lab host, as a table of paths made from the host's model.

Semantics: lab/sources.md#hosts and sources.md#host-qos. The `ecn`
and `tc` folders are those of NVIDIA's driver modules, which DGX OS carries.
"""

from __future__ import annotations

import errno
import ipaddress
from collections.abc import Mapping
from functools import partial

from lab.hosts import hca_sysfs
from lab.hosts.bridges import all_bridges, device_path, gpu_addresses
from lab.hosts.cards import gpu_of
from lab.hosts.driver_versions import running_srcversion
from lab.hosts.links import link_files
from lab.hosts.model import READ_ONLY_SYSCTLS, HostModel
from lab.hosts.nic import (
    DSCPS,
    PRIORITIES,
    DeviceRefusal,
    Nic,
    QosState,
    Vf,
    parse_kernel_uint,
)
from lab.hosts.platform_sysfs import add_platform
from lab.hosts.sys_table import SysFile, SysLink, Table, add_pci, constant

SRIOV_NUMVFS = "sriov_numvfs"
HCA_COUNTERS = ("port_xmit_data", "port_rcv_data", "port_xmit_packets", "port_rcv_packets",
                "port_xmit_wait", "symbol_error", "link_downed")  # fmt: skip
"""Counters of an InfiniBand port; `*_data` counts words of four bytes."""
MAX_TOS = 255
IFF_BROADCAST_MULTICAST = 0x1002
"""Flags of an Ethernet device that is down; IFF_UP is 1 (netdevice(7))."""
MIB = 1 << 20


def make_sys_table(model: HostModel) -> Table:
    """All files and links of the host's /sys, by absolute path inside it."""
    table: Table = {"/kernel/mm/transparent_hugepage/enabled": constant("always [madvise] never")}
    for node in range(2):
        table[f"/devices/system/node/node{node}/cpulist"] = constant(f"{node * 8}-{node * 8 + 7}")
    for module in model.modules:
        table[f"/module/{module}/refcnt"] = constant(len(model.module_users(module)))
        table[f"/module/{module}/initstate"] = constant("live")
        table[f"/module/{module}/srcversion"] = constant(running_srcversion(model, module))
    table["/devices/system/node/online"] = constant("0-1")
    for pci, (ids, path, numa) in all_bridges(model.config).items():
        add_pci(table, path, pci, ids, numa)
    add_platform(table, model)
    _add_gpus(table, model)
    add_hcas(table, model)
    for name in ("bind", "unbind"):
        table[f"/bus/pci/drivers/mlx5_core/{name}"] = SysFile(
            lambda: "", partial(_bind, model, bound=name == "bind")
        )
    for nic in model.nics:
        _add_pf(table, model, nic)
        for vf in nic.vfs:
            _add_vf(table, model, nic, vf)
    return table


def _bind(model: HostModel, text: str, *, bound: bool) -> None:
    """Write `bind` or `unbind` of the driver, as the kernel does: ENODEV for what it has not."""
    found = ((nic, vf) for nic, vf in model.all_vfs() if vf.pci == text.strip())
    nic, vf = next(found, (None, None))
    if nic is None or vf is None or vf.bound == bound:
        raise DeviceRefusal(errno.ENODEV)
    nic.bind_vf(vf, bound=bound)


def add_hcas(table: Table, model: HostModel) -> None:
    """The InfiniBand adapters, with the files that discovery and acceptance read."""
    for number, hca in enumerate(model.config.hcas):
        base = device_path(model.config, hca.pci, hca.numa)
        # 15b3:101e is the VF of ConnectX-6 Dx and later, class 0207 an InfiniBand controller.
        add_pci(table, base, hca.pci, ("15b3", "101e", "0x020700"), hca.numa)
        device = f"{base}/infiniband/{hca.name}"
        table[f"/class/infiniband/{hca.name}"] = SysLink(f"../..{device}")
        table[f"{device}/device"] = SysLink(f"../../../{hca.pci}")
        table[f"{device}/fw_ver"] = constant(hca_sysfs.FIRMWARE)
        table[f"{device}/hca_type"] = constant("MT4126")
        table[f"{device}/node_type"] = constant("1: CA")
        table[f"{device}/node_guid"] = constant(_colons(hca_sysfs.port_guid(model, hca)))
        _add_hca_port(table, f"{device}/ports/1", model, number)


def _colons(guid: str) -> str:
    return ":".join(guid[i : i + 4] for i in range(0, len(guid), 4))


def _add_hca_port(table: Table, port: str, model: HostModel, number: int) -> None:
    hca = model.config.hcas[number]

    table[f"{port}/link_layer"] = constant(hca.link_layer)
    table[f"{port}/state"] = SysFile(lambda: f"{hca_sysfs.state_text(model, hca)}\n")
    table[f"{port}/phys_state"] = SysFile(lambda: f"{hca_sysfs.phys_text(model, hca)}\n")
    table[f"{port}/rate"] = constant(hca_sysfs.rate_text(hca))
    table[f"{port}/lid"] = SysFile(lambda: f"0x{hca_sysfs.lid_of(model, hca):x}\n")
    table[f"{port}/sm_lid"] = SysFile(lambda: f"0x{hca_sysfs.sm_lid_of(model, hca):x}\n")
    for index in range(hca_sysfs.PKEY_TABLE if model.fabric else 1):
        table[f"{port}/pkeys/{index}"] = SysFile(
            lambda index=index: f"{hca_sysfs.pkey_text(model, hca, index)}\n"
        )
    table[f"{port}/gids/0"] = constant(hca_sysfs.gid_text(model, hca))
    for name in HCA_COUNTERS:
        table[f"{port}/counters/{name}"] = SysFile(
            lambda key=f"{hca.name}/{name}": f"{model.hca_counters.get(key, 0)}\n"
        )


def _add_gpus(table: Table, model: HostModel) -> None:
    for pci, numa in gpu_addresses(model.config):
        base = device_path(model.config, pci, numa)
        # Class 0302 is a 3D controller (pci.ids).
        add_pci(table, base, pci, ("10de", gpu_of(model).device, "0x030200"), numa)


def pci_class(nic: Nic) -> str:
    """What the link type makes of its functions (pci.ids: 0200 Ethernet, 0207 InfiniBand)."""
    return "0x020700" if nic.is_ib else "0x020000"


def _add_pf(table: Table, model: HostModel, nic: Nic) -> None:
    config = nic.config
    base = device_path(model.config, config.pci, config.numa)
    add_pci(table, base, config.pci, (config.vendor, config.device, pci_class(nic)), config.numa)
    if not model.config.guest:  # what a hypervisor shows of links is not known
        table.update((path, SysFile(read)) for path, read in link_files(base, nic))
    if nic.vf_limit:
        table[f"{base}/sriov_totalvfs"] = constant(nic.vf_limit)
        table[f"{base}/{SRIOV_NUMVFS}"] = SysFile(
            lambda: f"{len(nic.vfs)}\n", lambda text: _count_vfs(model, nic, text)
        )
        table[f"{base}/sriov_drivers_autoprobe"] = SysFile(
            lambda: f"{int(nic.autoprobe)}\n", nic.set_autoprobe
        )
        table[f"{base}/sriov_offset"] = constant(1)
        table[f"{base}/sriov_stride"] = constant(1)
        table[f"{base}/sriov_vf_device"] = constant(config.vf_device)
    for vf in nic.vfs:
        table[f"{base}/virtfn{vf.index}"] = SysLink(f"../{vf.pci}")
        if config.sriov_files and model.drivers.loaded:
            _add_sriov_files(table, f"{base}/sriov/{vf.index}", vf)
    if not nic.infiniband:
        _add_ethernet(table, f"{base}/net/{config.netdev}", nic)
        if model.drivers.loaded:
            _add_ecn(table, f"{base}/net/{config.netdev}/ecn", nic)
        if not model.locked_down:
            _add_cc_params(table, f"/kernel/debug/mlx5/{config.pci}/cc_params", nic)
    _add_rdma(table, f"{base}/infiniband/{config.rdma}", config.rdma, nic, config.netdev)
    _add_rdma_extras(table, f"{base}/infiniband/{config.rdma}", model, nic)


def _count_vfs(model: HostModel, nic: Nic, text: str) -> None:
    nic.set_vf_count(text)
    model.network_manager.look(model)


def _add_ethernet(table: Table, net: str, nic: Nic) -> None:
    config = nic.config
    _add_netdev(table, net, config.netdev, config.pci, nic.mac)
    table[f"{net}/mtu"] = SysFile(lambda: f"{nic.mtu_bytes}\n", nic.set_mtu)
    table[f"{net}/flags"] = SysFile(lambda: f"{IFF_BROADCAST_MULTICAST | nic.admin_up:#x}\n")
    table[f"{net}/operstate"] = SysFile(lambda: "up\n" if nic.link_up else "down\n")
    table[f"{net}/carrier"] = SysFile(lambda: f"{int(nic.link_up)}\n")
    table[f"{net}/carrier_down_count"] = SysFile(lambda: f"{nic.carrier_down_count}\n")
    table[f"{net}/speed"] = SysFile(
        lambda: f"{config.speed_gbit_s * 1000 if nic.link_up else -1}\n"
    )
    table[f"{net}/phys_port_name"] = constant("p0")


POLICIES = {"Follow": "auto", "Up": "enable", "Down": "disable"}
"""Words of NVIDIA's driver for the link state of a VF (sources.md#vfs)."""


def _add_sriov_files(table: Table, base: str, vf: Vf) -> None:
    def write(attribute: str, text: str) -> None:
        if len(text.strip().split(":")) != len(vf.node_guid.split(":")):
            raise DeviceRefusal(errno.EINVAL)
        setattr(vf, attribute, text.strip().lower())

    def write_policy(text: str) -> None:
        if text.strip() not in POLICIES:
            raise DeviceRefusal(errno.EINVAL)
        vf.link_state = POLICIES[text.strip()]

    def read_policy() -> str:
        return next(f"{word}\n" for word, state in POLICIES.items() if state == vf.link_state)

    table[f"{base}/node"] = SysFile(lambda: f"{vf.node_guid}\n", partial(write, "node_guid"))
    table[f"{base}/port"] = SysFile(lambda: f"{vf.port_guid}\n", partial(write, "port_guid"))
    table[f"{base}/policy"] = SysFile(read_policy, write_policy)


def _add_vf(table: Table, model: HostModel, nic: Nic, vf: Vf) -> None:
    base = device_path(model.config, vf.pci, nic.config.numa, nic.config.pci)
    ids = (nic.config.vendor, nic.config.vf_device, pci_class(nic))
    add_pci(table, base, vf.pci, ids, nic.config.numa)
    table[f"{base}/physfn"] = SysLink(f"../{nic.config.pci}")
    if not vf.bound:
        del table[f"{base}/driver"], table[f"/bus/pci/drivers/mlx5_core/{vf.pci}"]
        return
    if _rdma_is_away(model, nic, vf):
        return
    device = f"{base}/infiniband/{vf.rdma}"
    _add_rdma(table, device, vf.rdma, nic, vf.netdev)
    table[f"{device}/node_guid"] = constant(_colons(vf.active_guid.replace(":", "")))
    if nic.is_ib:  # a network device would need ib_ipoib
        table[f"{device}/ports/1/state"] = SysFile(lambda: f"{nic.vf_state(vf)}\n")
        return
    _add_hw_counters(table, device, vf.hw_counters, ())
    _add_marks(table, model, device, vf)
    if vf.in_pod:
        return
    net = f"{base}/net/{vf.netdev}"
    _add_netdev(table, net, vf.netdev, vf.pci, vf.mac)

    def write_mtu(text: str) -> None:
        wanted = parse_kernel_uint(text)
        if wanted > nic.mtu_bytes:  # a VF cannot carry more than its PF
            raise DeviceRefusal(errno.EINVAL)
        vf.mtu_bytes = wanted

    table[f"{net}/mtu"] = SysFile(lambda: f"{vf.mtu_bytes}\n", write_mtu)
    table[f"{net}/operstate"] = SysFile(lambda: "up\n" if vf.admin_up and nic.link_up else "down\n")
    table[f"{net}/speed"] = constant(nic.config.speed_gbit_s * 1000)


def _rdma_is_away(model: HostModel, nic: Nic, vf: Vf) -> bool:
    return vf.in_pod and (nic.is_ib or model.platform.netns_mode == "exclusive")


def _add_netdev(table: Table, net: str, name: str, pci: str, mac: str) -> None:
    table[f"{net}/address"] = constant(mac)
    table[f"{net}/type"] = constant(1)
    table[f"{net}/device"] = SysLink(f"../../../{pci}")
    table[f"/class/net/{name}"] = SysLink(f"../..{net}")


def _add_ecn(table: Table, base: str, nic: Nic) -> None:
    for point, enabled in (("roce_np", nic.qos.np_enable), ("roce_rp", nic.qos.rp_enable)):
        for priority in range(PRIORITIES):
            table[f"{base}/{point}/enable/{priority}"] = _list_file(enabled, priority, 1)

    table[f"{base}/roce_np/cnp_dscp"], table[f"{base}/roce_np/cnp_802p_prio"] = _cnp_files(nic)


def _cnp_files(nic: Nic) -> tuple[SysFile, SysFile]:
    """The marks of CNPs, wherever a driver shows them."""

    def write_dscp(text: str) -> None:
        nic.qos.cnp_dscp = _bounded(text, DSCPS - 1)

    def write_priority(text: str) -> None:
        nic.qos.cnp_priority = _bounded(text, PRIORITIES - 1)

    return (
        SysFile(lambda: f"{nic.qos.cnp_dscp}\n", write_dscp),
        SysFile(lambda: f"{nic.qos.cnp_priority}\n", write_priority),
    )


def _add_cc_params(table: Table, base: str, nic: Nic) -> None:
    """What the kernel's own driver has of DCQCN, of which the lab plays the marks of CNPs.

    Source: the kernel's drivers/infiniband/hw/mlx5/cong.c. Debugfs is closed under lockdown.
    """
    table[f"{base}/np_cnp_dscp"], table[f"{base}/np_cnp_prio"] = _cnp_files(nic)


def _list_file(values: list[int], index: int, maximum: int) -> SysFile:
    def write(text: str) -> None:
        values[index] = _bounded(text, maximum)

    return SysFile(lambda: f"{values[index]}\n", write)


def _bounded(text: str, maximum: int) -> int:
    value = parse_kernel_uint(text)
    if value > maximum:
        raise DeviceRefusal(errno.EINVAL)
    return value


def rdma_mtu_bytes(netdev_mtu_bytes: int) -> int:
    """Largest IB MTU that fits a netdev MTU (iboe_get_mtu takes off 96)."""
    payload = netdev_mtu_bytes - 96
    return next((size for size in (4096, 2048, 1024, 512, 256) if payload >= size), 0)


def _add_rdma(table: Table, base: str, name: str, nic: Nic, netdev: str) -> None:
    table[f"/class/infiniband/{name}"] = SysLink(f"../..{base}")
    table[f"{base}/device"] = SysLink(f"../../../{base.split('/')[-3]}")
    table[f"{base}/fw_ver"] = SysFile(lambda: f"{nic.firmware_version}\n")
    table[f"{base}/hca_type"] = constant(f"MT{int(nic.config.device, 16)}")
    port = f"{base}/ports/1"
    link_layer = "InfiniBand" if nic.infiniband else nic.config.link_layer
    table[f"{port}/link_layer"] = constant(link_layer)
    table[f"{port}/state"] = SysFile(lambda: "4: ACTIVE\n" if nic.link_up else "1: DOWN\n")
    table[f"{port}/phys_state"] = SysFile(lambda: "5: LinkUp\n" if nic.link_up else "3: Disabled\n")
    table[f"{port}/rate"] = constant(f"{nic.config.speed_gbit_s} Gb/sec (4X EDR)")
    for index, (kind, gid) in enumerate(_gids(nic, netdev)):
        table[f"{port}/gids/{index}"] = constant(gid)
        table[f"{port}/gid_attrs/types/{index}"] = constant(kind)
        table[f"{port}/gid_attrs/ndevs/{index}"] = constant(netdev)


def _gids(nic: Nic, netdev: str) -> list[tuple[str, str]]:
    mac = bytes.fromhex(nic.mac.replace(":", ""))
    eui = bytes([mac[0] ^ 2, *mac[1:3], 0xFF, 0xFE, *mac[3:]])
    addresses = [ipaddress.IPv6Address(b"\xfe\x80" + bytes(6) + eui).exploded]
    if netdev == nic.config.netdev:
        addresses += [
            ipaddress.IPv6Address("::ffff:" + cidr.split("/")[0]).exploded for cidr in nic.addresses
        ]
    return [(kind, gid) for gid in addresses for kind in ("IB/RoCE v1", "RoCE v2")]


def _add_marks(table: Table, model: HostModel, base: str, marks: QosState | Vf) -> None:
    """What an RDMA device marks, of a PF and of a VF alike (sources.md#host-qos)."""

    def write_tclass(text: str) -> None:
        name, _, value = text.strip().rpartition("=")
        if name not in ("", "tclass"):
            raise DeviceRefusal(errno.EINVAL)
        marks.traffic_class = -1 if value == "-1" else _bounded(value, MAX_TOS)

    if model.drivers.loaded:
        table[f"{base}/tc/1/traffic_class"] = SysFile(
            lambda: f"Global tclass={marks.traffic_class}\n" if marks.traffic_class >= 0 else "",
            write_tclass,
        )


def _add_rdma_extras(table: Table, base: str, model: HostModel, nic: Nic) -> None:
    guid = nic.mac.replace(":", "")
    table[f"{base}/node_guid"] = constant(_colons(f"{guid[:6]}0300{guid[6:]}"))
    _add_marks(table, model, base, nic.qos)
    _add_hw_counters(table, base, nic.hw_counters)


_OF_FUNCTION = (
    "out_of_sequence", "out_of_buffer", "packet_seq_err", "local_ack_timeout_err",
    "roce_adp_retrans",
)  # fmt: skip
_OF_PORT = ("np_cnp_sent", "rp_cnp_handled", "np_ecn_marked_roce_packets")


def _add_hw_counters(
    table: Table, base: str, counted: Mapping[str, int], names: tuple[str, ...] = _OF_PORT
) -> None:
    """A function counts its own queue pairs, in 32 bits; congestion is counted for the port.

    Source: the kernel's drivers/infiniband/hw/mlx5/counters.c (query_q_counter, be32_to_cpu; a
    VF may not query congestion: cc_query_allowed).
    """
    for name in (*_OF_FUNCTION, *names):
        table[f"{base}/ports/1/hw_counters/{name}"] = SysFile(
            lambda key=name: f"{counted.get(key, 0) % 2**32}\n"
        )


def make_rdma_cm_table(model: HostModel) -> Table:
    """The files of configfs, by absolute path inside /sys: each device has its folder by itself."""
    table: Table = {}
    devices: list[tuple[str, QosState | Vf]] = [(nic.config.rdma, nic.qos) for nic in model.nics]
    devices += [
        (vf.rdma, vf)
        for nic, vf in model.all_vfs()
        if vf.bound and not nic.is_ib and not _rdma_is_away(model, nic, vf)
    ]
    for name, marks in devices:
        if name in model.rdma_cm_devices:
            _add_rdma_cm(table, marks, name)
    return table


def _add_rdma_cm(table: Table, marks: QosState | Vf, name: str) -> None:
    base = f"/kernel/config/rdma_cm/{name}/ports/1"

    def write_mode(text: str) -> None:
        if text.strip() not in ("RoCE v2", "IB/RoCE v1"):
            raise DeviceRefusal(errno.EINVAL)
        marks.roce_mode = text.strip()

    def write_tos(text: str) -> None:
        marks.rdma_cm_tos = _bounded(text, MAX_TOS)

    table[f"{base}/default_roce_mode"] = SysFile(lambda: f"{marks.roce_mode}\n", write_mode)
    table[f"{base}/default_roce_tos"] = SysFile(lambda: f"{marks.rdma_cm_tos}\n", write_tos)


def make_proc_sys_table(model: HostModel) -> Table:
    """All files of the host's /proc/sys."""

    def sysctl(key: str) -> SysFile:
        if key in READ_ONLY_SYSCTLS:
            return SysFile(lambda: f"{model.sysctls[key]}\n")
        return SysFile(
            lambda: f"{model.sysctls[key]}\n", lambda text: model.write_sysctl(key, text)
        )

    table: Table = {f"/{key}": sysctl(key) for key in model.sysctls}
    table["/kernel/hostname"] = SysFile(
        lambda: f"{model.hostname}\n", lambda text: model.write_sysctl("kernel/hostname", text)
    )
    table["/kernel/random/boot_id"] = SysFile(lambda: f"{model.boot_id}\n")
    return table
