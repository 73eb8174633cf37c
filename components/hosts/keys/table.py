"""The table of keys: the properties of a host setting, and a row a key.

A host has rows of its driver, Docker, names, kernel, routes and boot unit. A card has rows of each
PF (`nic.<pci>.`), of its firmware, and of its VFs (`vf.<vf>.`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

from components.core.difference import Effect

Part = Literal[
    "system", "driver", "docker", "kernel", "pci", "routing", "vfs",
    "card", "firmware", "sriov", "qos",
]  # fmt: skip
"""The script for a key; `system` and `card` are in `reading.sh` and `writing.sh`."""
Topic = Literal[
    "hosts", "driver", "docker_config", "sysctl", "boot", "acs", "address", "vf_mtu", "firmware"
]
"""Work of the scripts that costs processes, and is done only if stdin names one of its keys."""
Interrupts = Literal["always", "has_vfs", "holds_guid", "holds_macs", "lost_all_vfs", "takes_link"]
"""When a change interrupts running jobs: always, or if the function of this name in `service.sh`
succeeds. A preview cannot see `lost_all_vfs` (all VFs are in pods)."""
Undo = Literal["recorded", "if_taken", "stays", "looked"]
"""The action of an undo.

- `recorded`: puts the recorded value back, or fails.
- `if_taken`: the same, but if the machine no longer accepts the value, notes it and goes on.
- `stays`: does nothing. Packages stay in a running system.
- `looked`: does nothing, because the key is only compared, never set.
"""
Condition = Literal[
    "vf_is_gone", "vfs_are_gone", "is_unsupported", "went_with_module",
    "card_is_gone", "sysctl_is_gone", "pages_are_gone", "governor_is_gone", "balancing_is_gone",
]  # fmt: skip
"""A function of the scripts that gets the key and answers yes or no."""


@dataclass(frozen=True, slots=True)
class Number:
    """A whole number of at most five digits."""

    lowest: int
    highest: int


@dataclass(frozen=True, slots=True)
class Text:
    """A text; `valid_value` refuses characters that are never allowed."""

    words: tuple[str, ...] = ()
    """Values that are accepted unchanged."""
    characters: str = ""
    """Allowed characters, as in a bracket of a shell pattern; empty: any."""
    forms: tuple[str, ...] = ()
    """Shell patterns; a value must match one."""
    longest: int = 0
    """Greatest number of characters; 0: unlimited."""
    others: bool = True
    """Whether values outside `words` are valid."""


Values = Number | Text
ANY: Final = Text()
NAME: Final = Text(characters="A-Za-z0-9._-", forms=("[A-Za-z0-9]*",))
"""A valid name of a host, user or network device."""


def one_of(*words: str) -> Text:
    """Accept one of these words, and nothing else."""
    return Text(words, others=False)


ON_OFF: Final = one_of("on", "off")


@dataclass(frozen=True, slots=True)
class HostKey:
    """The properties of one key, or of one family of keys."""

    pattern: str
    """The key. `<name>` is a variable part; `PLACES` defines its kind."""
    rank: int = 0
    """Place in the order in which settings are applied; undone in reverse. 0: never set."""
    values: Values = ANY
    """Values that a file may set. Recorded values come from the host, and may differ."""
    back_rank: int = 0
    """Place in the order of an undo, if it differs from `rank`; the greatest goes first."""
    lost: bool = False
    """A reboot loses it, so `railyard-nics.service` sets it again."""
    topic: Topic | None = None
    effect: Effect = Effect.LINK
    """The effect of a change on running traffic, if `interrupts` and `loads_at_start` do not
    determine it. `LINK` without them means that the row was never judged; a test refuses it."""
    interrupts: Interrupts | None = None
    loads_at_start: bool = False
    """It takes effect at the next start of host or card; `<key>_current` is the active value."""
    undo: Undo = "recorded"
    nothing_where: Condition | None = None
    """When an undo skips the key, although it is `recorded`."""
    gone_where: Condition | None = None
    """When the object with this setting no longer exists."""
    leaves: str = ""
    """The remains of an undo, in words; with `loads_at_start`, until the next start."""
    idle: str = ""
    """The value that changes, loads and leaves nothing."""
    parameter: str = ""
    part: Part = "system"


def rows(part: Part, begin: str, *keys: HostKey) -> tuple[HostKey, ...]:
    """Rows of one script whose keys share a beginning."""
    return tuple(replace(key, part=part, pattern=f"{begin}{key.pattern}") for key in keys)


def has_effect(effect: Effect, *keys: HostKey) -> tuple[HostKey, ...]:
    """The same rows, with this effect if a row does not set one yet."""
    return tuple(replace(key, effect=effect) if key.effect is Effect.LINK else key for key in keys)


def effect_of(row: HostKey) -> Effect:
    """The effect of a change of a setting on running work."""
    if row.undo == "looked":
        return Effect.NONE
    if row.interrupts == "takes_link":
        return Effect.LINK
    return Effect.NODE if row.interrupts or row.loads_at_start else row.effect


def lost(*keys: HostKey) -> tuple[HostKey, ...]:
    """The same rows, marked as lost at a reboot."""
    return tuple(replace(key, lost=True) for key in keys)


@dataclass(frozen=True, slots=True)
class Place:
    """A variable part of a key."""

    expression: str
    globs: tuple[str, ...] = ("*",)
    """Shell patterns; together they cover every valid part."""
    check: str = ""
    """The shell command that checks the part, if the patterns do not suffice."""


_PCI: Final = r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]"
_NAME: Final = r"[A-Za-z0-9][A-Za-z0-9._-]*"
PLACES: Final = {
    "pci": Place(_PCI, check='pci_address "$key_place"'),
    "vf": Place(rf"{_PCI}\.\d{{1,3}}", check='vf_address "$key_place"'),
    "name": Place(_NAME, check='name "$key_place"'),
    "sysctl": Place(r"[A-Za-z0-9._/-]+", check='sysctl_name "$key_place"'),
    "table": Place(r"\d{1,5}", check='number "$key_place" 1 32000'),
    "node": Place(r"\d{1,4}", check='number "$key_place" 0 1023'),
    "dscp": Place(r"(?:[1-5]?\d|6[0-3])", ("[0-9]", "[1-5][0-9]", "6[0-3]")),
    "priority": Place("[0-7]", ("[0-7]",)),
    "class": Place("[0-7]", ("[0-7]",)),
}
"""Kind of a variable part to its valid forms: a PCI address, a PCI address with the number of a VF,
a name, the dotted name of a kernel setting, a routing table, a NUMA node, a DSCP, a priority, a
traffic class."""


_DRIVER: Final = rows(
    "driver",
    "driver.",
    # The GPU driver is only read, before an RDMA driver is installed.
    HostKey("gpu_host", 18, undo="looked"),
    HostKey("gpu_modules", 18, one_of("open"), undo="looked"),
    HostKey("fabric_manager", 18, one_of("ready"), undo="looked"),
    HostKey("dma_buf", 18, one_of("ready"), undo="looked"),
    HostKey("repository", 19),
    # A driver that the host must already have is only read.
    HostKey("present", 20, Text(characters="a-z0-9. -", forms=("ofed*", "doca*")), undo="looked"),
    # Railyard refuses to go back to `inbox`, which needs no drain.
    HostKey("kind", 20, one_of("inbox", "doca_ofed", "mlnx_ofed"), topic="driver",
        interrupts="always", undo="stays", leaves="the RDMA driver", idle="inbox"),
    HostKey("version", 21, interrupts="always", undo="stays"),
    HostKey("line", 21, interrupts="always", undo="stays"),
    HostKey("modules", 22, one_of("built"), interrupts="always", undo="stays"),
    HostKey("loaded", 23, one_of("installed"), interrupts="always", undo="stays"),
)  # fmt: skip
_PRESENT: Final = one_of("present")
_DOCKER_STAYS: Final = "docker.io (stopped and disabled if its last container is gone)"
_DOCKER: Final = rows(
    "docker",
    "docker.",
    HostKey("engine", 24, _PRESENT, undo="stays", leaves=_DOCKER_STAYS),
    HostKey("toolkit", 25, _PRESENT, undo="stays", leaves="nvidia-container-toolkit"),
    HostKey("service", 26),
    HostKey("runtime", 27, topic="docker_config"),
    HostKey("default_runtime", 28, topic="docker_config"),
)
_TOOLKIT: Final = rows(
    "docker",
    "toolkit.",
    HostKey("runtime", 24, _PRESENT, undo="looked"),
    HostKey("repository", 24),
    HostKey("version", 25, Text(characters="0-9.-"), undo="stays"),
)
_COUNT_AND_DIGEST: Final = Text(forms=("* " + "?" * 64,))
_NAMES: Final = (
    HostKey("hostname", 10, NAME),
    HostKey("hosts_block", 11, _COUNT_AND_DIGEST, topic="hosts"),
    # One name: for hosts of a cloud, and in records of older versions.
    HostKey("hosts.<name>", 11, topic="hosts"),
    HostKey("user.<name>.uid", 12, Number(1, 60000), leaves="the home folder of its account"),
)


_SYSTEM: Final = rows("kernel", "kernel.", HostKey("cgroup", 9, one_of("v2"), undo="looked"))
_KERNEL: Final = lost(
    *rows(
        "kernel",
        "",
        HostKey("module.<name>", 30),
        HostKey("kernel.sysctl.<sysctl>", 50, topic="sysctl", undo="if_taken",
            nothing_where="went_with_module", gone_where="sysctl_is_gone"),
        HostKey("kernel.governor", 50, Text(characters="a-z_"), undo="if_taken",
            gone_where="governor_is_gone"),
        HostKey("kernel.numa_balancing", 50, ON_OFF, undo="if_taken",
            gone_where="balancing_is_gone"),
        # After the boot unit, which reserves them if this boot has too few.
        *(HostKey(f"kernel.hugepages.{size}", 80, Text(characters="0-9", longest=7),
            undo="if_taken", gone_where="pages_are_gone")
          for size in ("2mib", "2mib.node<node>", "1gib", "1gib.node<node>")),
    ),
    *rows("pci", "", HostKey("kernel.acs", 50, one_of("off"), topic="acs", undo="if_taken")),
    # After the addresses in the routes.
    *has_effect(Effect.TRAFFIC, *rows("routing", "route.<table>.",
        HostKey("table", 52, Text(forms=("* dev *",))),
        HostKey("rule", 53, Text(forms=("from [1-9]*.*.*.* lookup [1-9]*",))))),
)  # fmt: skip
_IOMMU: Final = one_of("pt", "off")
_NETNS: Final = one_of("shared", "exclusive")
_AT_BOOT: Final = rows(
    "pci",
    "kernel.",
    HostKey("cmdline.iommu", 50, _IOMMU, topic="boot", loads_at_start=True,
        leaves="kernel boot parameters (remove them yourself if the host lacks update-grub)"),
    HostKey("rdma_netns", 50, _NETNS, topic="boot", loads_at_start=True,
        leaves="the namespace mode of RDMA devices"),
    HostKey("cmdline.iommu_current", values=_IOMMU, topic="boot", undo="looked"),
    HostKey("rdma_netns_current", values=_NETNS, topic="boot", undo="looked"),
)  # fmt: skip
_LIMITS: Final = rows(
    "kernel",
    "",
    HostKey("kernel.limits.<name>.memlock", 50, one_of("unlimited")),
    # Set Docker's limit before its first start, and K3s' before K3s is installed.
    HostKey("unit.docker.limit_memlock", 23),
    HostKey("unit.containerd.limit_memlock", 23),
    HostKey("unit.k3s.limit_memlock", 60),
    HostKey("unit.k3s-agent.limit_memlock", 60),
)
_BOOT_UNIT: Final = rows(
    "system", "unit.railyard-nics.", HostKey("files", 70), HostKey("enabled", 71)
)
SYSTEM_KEYS: Final = has_effect(
    Effect.NONE,
    *_DRIVER, *_DOCKER, *_TOOLKIT, *_NAMES, *_SYSTEM, *_KERNEL, *_AT_BOOT, *_LIMITS, *_BOOT_UNIT,
)  # fmt: skip
"""By topic; `rank` is the order of work. A setting without a driver load or a boot leaves traffic
alone, except for routes."""
SYSCTL_MODULES: Final = {
    "net.bridge.": "br_netfilter",
    "net.netfilter.nf_conntrack_": "nf_conntrack",
    "net.nf_conntrack_max": "nf_conntrack",
    "net.ipv4.vs.": "ip_vs",
    "sunrpc.rdma_": "rpcrdma",
    "sunrpc.svc_rdma.": "rpcrdma",
    "sunrpc.": "sunrpc",
}
"""Prefix of a kernel setting to its module; the first match counts (kernel documentation,
networking/nf_conntrack-sysctl, ipvs-sysctl, admin-guide/sysctl). At boot, before Kubernetes, these
modules are not loaded."""


_MTU_BYTES: Final = Number(576, 9978)
_MODES: Final = one_of("legacy", "switchdev")
_PRIORITY: Final = Number(0, 7)
_BYTE: Final = Number(0, 255)
_CIDR: Final = Text(characters="0-9./", forms=("[1-9]*.*.*.*/[1-9]*",))
_RATE: Final = Text(characters="0-9", longest=6)
_SIZES: Final = "*" + ",*" * 7
_EIGHT: Final = Text(characters="0-7,", forms=(",".join("?" * 8),))
_ALGORITHMS: Final = Text(characters="a-z0-9:,", forms=(_SIZES,))
_BUFFERS: Final = Text(characters="0-9,/", forms=(f"{_SIZES}/{_SIZES}",))
_RELEASE: Final = Text(characters="0-9.", forms=("[0-9]*.[0-9]*.[0-9]*",))


def _of_pf(part: Part, *keys: HostKey) -> tuple[HostKey, ...]:
    gone = (replace(key, gone_where="card_is_gone") for key in keys)
    return rows(part, "nic.<pci>.", *gone)


def _firmware(setting: str, parameter: str, values: Values) -> tuple[HostKey, HostKey]:
    """A firmware setting, ordered before VFs and ports, and its active value in the card."""
    leaves = "firmware settings of the cards"
    return (
        HostKey(setting, 39, values, topic="firmware", loads_at_start=True, leaves=leaves,
            parameter=parameter),
        HostKey(f"{setting}_current", values=values, topic="firmware", undo="looked"),
    )  # fmt: skip


_LINK_TYPE: Final = one_of("eth", "ib")
_FIRMWARE: Final = _of_pf(
    "firmware",
    HostKey("model", 37, undo="looked"),  # another card gets no setting
    HostKey("fw_floor", 38, _RELEASE, topic="firmware", undo="looked"),
    *_firmware("ats", "ATS_ENABLED", ON_OFF),
    *_firmware("fw_sriov_en", "SRIOV_EN", ON_OFF),
    *_firmware("fw_num_of_vfs", "NUM_OF_VFS", Number(0, 1024)),
    *_firmware("fw_link_type_p1", "LINK_TYPE_P1", _LINK_TYPE),
    *_firmware("fw_link_type_p2", "LINK_TYPE_P2", _LINK_TYPE),
    *_firmware("fw_cc_mask_p1", "ROCE_CC_PRIO_MASK_P1", _BYTE),
    *_firmware("fw_cc_mask_p2", "ROCE_CC_PRIO_MASK_P2", _BYTE),
    *_firmware("fw_advanced_pci_settings", "ADVANCED_PCI_SETTINGS", ON_OFF),
    *_firmware("fw_pci_wr_ordering", "PCI_WR_ORDERING", one_of("per_mkey", "force_relax")),
    HostKey("ats_active", values=ON_OFF, topic="firmware", undo="looked"),
    *(HostKey(f"fw_{fact}", topic="firmware", undo="looked")
      for fact in ("ver", "needs", "loads", "vfs_offered")),
)  # fmt: skip
_DEVICE_NAMES: Final = _of_pf(
    "card",
    # Udev names a device when it appears, so a new name takes effect at the next boot.
    HostKey("boot_name", 39, NAME, topic="boot", loads_at_start=True,
        leaves="names of network devices (until the next boot)"),
    HostKey("boot_name_current", values=NAME, topic="boot", undo="looked"),
    HostKey("boot_rdma", 39, NAME, topic="boot", loads_at_start=True,
        leaves="names of RDMA devices (until the next boot)"),
    HostKey("boot_rdma_current", values=NAME, topic="boot", undo="looked"),
)  # fmt: skip
_NETWORK_MANAGER: Final = _of_pf(
    "card",
    # Set before VFs appear, undone after they go; `managed no` keeps the link up (NEWS of 1.10).
    *has_effect(Effect.NONE, HostKey("network_manager", 39, one_of("off"), undo="if_taken")),
)
_PORT: Final = _of_pf(
    "card",
    HostKey("netdev", 40, NAME, undo="looked"),
    *has_effect(
        Effect.TRAFFIC,
        # mlx5 reopens its queues for a new MTU; the link stays up (mlx5e_change_mtu).
        HostKey("mtu_bytes", 42, _MTU_BYTES),
        # Up before VFs exist: a VF of Intel's igb or ixgbe that finds its PF down takes a random
        # MAC ("PF still in reset state. Is the PF interface up?") and has no carrier.
        HostKey("link", 41, one_of("up", "down")),
        HostKey("address", 49, _CIDR, topic="address"),
    ),
)
_SRIOV: Final = _of_pf(
    "sriov",
    HostKey("serial", 37, NAME, undo="looked"),  # as `model`
    HostKey("eswitch_now", 38, _MODES, undo="looked"),
    HostKey("eswitch", 40, _MODES, back_rank=43, interrupts="has_vfs"),
    *has_effect(Effect.NONE, HostKey("autoprobe", 40, ON_OFF, back_rank=43)),
    HostKey("vfs", 41, _BYTE, interrupts="has_vfs"),
    # VFs come before their settings, also in an undo. A new MAC makes a driver bind to the VF
    # again: the kernel derives the node GUID from it, and the MTU returns to its default.
    HostKey("vf_mac", 42, one_of("own"), back_rank=38, interrupts="holds_macs", undo="if_taken",
        nothing_where="vfs_are_gone"),
    HostKey("vf_mtu_bytes", 43, _MTU_BYTES, back_rank=38, topic="vf_mtu",
        interrupts="lost_all_vfs", nothing_where="vfs_are_gone"),
)  # fmt: skip
_QOS: Final = _of_pf(
    "qos",
    *has_effect(
        Effect.CLASS,
        HostKey("lldpad", 38, one_of("absent"), undo="looked"),
        # Global pause excludes PFC, and firmware's DCBX overwrites it. Before the link comes up,
        # which negotiates pause.
        HostKey("global_pause", 41, ON_OFF),
        HostKey("dcbx", 41, one_of("os", "fw"), undo="if_taken"),  # `dcb` cannot go back to fw
        HostKey("trust", 45, one_of("dscp", "pcp")),
        # Shown and used only with trust dscp.
        HostKey("dscp<dscp>_priority", 46, _PRIORITY, nothing_where="is_unsupported"),
        HostKey("dscp_map", undo="looked"),  # all DSCPs at once
        HostKey("priority_classes", 46, _EIGHT, nothing_where="is_unsupported"),
        HostKey("ets", 47, _ALGORITHMS, nothing_where="is_unsupported"),
        HostKey("tc<class>_rate", 47, one_of("unlimited"), nothing_where="is_unsupported"),
        # mlx5 takes the port's link down and up when the PFC priorities change
        # (sources.md#host-qos), and buffers are set while PFC is off.
        HostKey("pfc", 47, Text(("none",), characters="0-7,"), interrupts="takes_link"),
        HostKey("ecn_priority_<priority>", 47, ON_OFF),
        HostKey("cnp_dscp", 47, Number(0, 63)),
        HostKey("cnp_priority", 47, _PRIORITY),
        HostKey("roce_mode", 47),
        HostKey("roce_tos", 47, _BYTE),
        HostKey("traffic_class", 47, _BYTE),
        HostKey("vf_roce_tos", 47, _BYTE, nothing_where="vfs_are_gone"),
        HostKey("vf_traffic_class", 47, _BYTE, nothing_where="vfs_are_gone"),
        HostKey("adaptive_routing", 47, ON_OFF),
        # After PFC, against which the driver checks them; buffers also in an undo.
        HostKey("cable_length_m", 48, Number(1, 999)),
        HostKey("buffers", 48, _BUFFERS, back_rank=38, interrupts="takes_link"),
        HostKey("gid", 50, one_of("RoCE v2"), undo="looked"),
    ),
)


_VFS: Final = (
    # A new GUID makes a driver bind to the VF again, and the MTU returns to its default.
    HostKey("guid", 42, Text(characters="0-9a-f", forms=("?" * 16,)), interrupts="holds_guid"),
    *has_effect(
        Effect.TRAFFIC,
        HostKey("vlan", 43, Number(0, 4094)),
        HostKey("trust", 43, ON_OFF),
        HostKey("spoofchk", 43, ON_OFF),
        HostKey("link_state", 43, one_of("auto", "enable", "disable")),
    ),
    *has_effect(
        Effect.CLASS, HostKey("min_rate_mbit_s", 43, _RATE), HostKey("max_rate_mbit_s", 43, _RATE)
    ),
    HostKey("place", values=one_of("here", "away"), undo="looked"),
)
CARD_KEYS: Final = (
    *_FIRMWARE, *_DEVICE_NAMES, *_NETWORK_MANAGER, *lost(*_PORT, *_SRIOV, *_QOS),
    # Settings of a VF vanish with it, and are restored before the number of VFs is.
    *lost(*rows("vfs", "vf.<vf>.",
        *(replace(key, back_rank=38, nothing_where="vf_is_gone") for key in _VFS))),
)  # fmt: skip
"""By topic; `rank` is the order of work."""
