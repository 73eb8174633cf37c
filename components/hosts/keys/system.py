"""The rows of a host itself: driver, Docker, names, account, kernel, routes, and the boot unit."""

from __future__ import annotations

from typing import Final

from components.core.difference import Effect
from components.hosts.keys.row import (
    NAME,
    ON_OFF,
    HostKey,
    Number,
    Text,
    has_effect,
    lost,
    one_of,
    rows,
)

_DRIVER: Final = rows(
    "driver",
    "driver.",
    # The GPU driver is only looked at, and before an RDMA driver is installed.
    HostKey("gpu_host", 18, undo="looked"),
    HostKey("gpu_modules", 18, one_of("open"), undo="looked"),
    HostKey("fabric_manager", 18, one_of("ready"), undo="looked"),
    HostKey("dma_buf", 18, one_of("ready"), undo="looked"),
    HostKey("repository", 19),
    # Of a driver that the host shall have already no more is done than looking.
    HostKey("present", 20, Text(characters="a-z0-9. -", forms=("ofed*", "doca*")), undo="looked"),
    HostKey(
        "kind",
        20,
        one_of("inbox", "doca_ofed", "mlnx_ofed"),
        topic="driver",
        interrupts="always",
        undo="stays",
        leaves="the RDMA driver",
        idle="inbox",  # what Railyard refuses to go back to needs no drain to be refused
    ),
    HostKey("version", 21, interrupts="always", undo="stays"),
    HostKey("line", 21, interrupts="always", undo="stays"),
    HostKey("modules", 22, one_of("built"), interrupts="always", undo="stays"),
    HostKey("loaded", 23, one_of("installed"), interrupts="always", undo="stays"),
)
_PRESENT: Final = one_of("present")
_DOCKER_STAYS: Final = "docker.io (stopped and disabled where no container is left)"
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
    # One name: what its cloud makes, and what older versions recorded.
    HostKey("hosts.<name>", 11, topic="hosts"),
    HostKey("user.<name>.uid", 12, Number(1, 60000), leaves="the home folder of its account"),
)


def _pages(size: str) -> HostKey:
    """Huge pages come after the boot unit, which gets them where this boot has too few."""
    return HostKey(
        f"kernel.hugepages.{size}",
        80,
        Text(characters="0-9", longest=7),
        undo="if_taken",
        gone_where="pages_are_gone",
    )


_SYSTEM: Final = rows("kernel", "kernel.", HostKey("cgroup", 9, one_of("v2"), undo="looked"))
_KERNEL: Final = lost(
    *rows(
        "kernel",
        "",
        HostKey("module.<name>", 30),
        HostKey(
            "kernel.sysctl.<sysctl>",
            50,
            topic="sysctl",
            undo="if_taken",
            nothing_where="went_with_module",
            gone_where="sysctl_is_gone",
        ),
        HostKey(
            "kernel.governor",
            50,
            Text(characters="a-z_"),
            undo="if_taken",
            gone_where="governor_is_gone",
        ),
        HostKey(
            "kernel.numa_balancing",
            50,
            ON_OFF,
            undo="if_taken",
            gone_where="balancing_is_gone",
        ),
        *map(_pages, ("2mib", "2mib.node<node>", "1gib", "1gib.node<node>")),
    ),
    *rows("pci", "", HostKey("kernel.acs", 50, one_of("off"), topic="acs", undo="if_taken")),
    # After the addresses that the routes name.
    *has_effect(
        Effect.TRAFFIC,
        *rows(
            "routing",
            "route.<table>.",
            HostKey("table", 52, Text(forms=("* dev *",))),
            HostKey("rule", 53, Text(forms=("from [1-9]*.*.*.* lookup [1-9]*",))),
        ),
    ),
)
_IOMMU: Final = one_of("pt", "off")
_NETNS: Final = one_of("shared", "exclusive")
_AT_BOOT: Final = rows(
    "pci",
    "kernel.",
    HostKey(
        "cmdline.iommu",
        50,
        _IOMMU,
        topic="boot",
        loads_at_start=True,
        leaves="kernel boot parameters (by hand where there is no update-grub)",
    ),
    HostKey(
        "rdma_netns",
        50,
        _NETNS,
        topic="boot",
        loads_at_start=True,
        leaves="the namespace mode of RDMA devices",
    ),
    HostKey("cmdline.iommu_current", values=_IOMMU, topic="boot", undo="looked"),
    HostKey("rdma_netns_current", values=_NETNS, topic="boot", undo="looked"),
)
_LIMITS: Final = rows(
    "kernel",
    "",
    HostKey("kernel.limits.<name>.memlock", 50, one_of("unlimited")),
    # Docker's limit comes before its first start, K3s' before K3s is installed.
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
"""By topic; `rank` is the order of work. What loads no driver and needs no boot leaves traffic
alone, but for routes."""
SYSCTL_MODULES: Final = {
    "net.bridge.": "br_netfilter",
    "net.netfilter.nf_conntrack_": "nf_conntrack",
    "net.nf_conntrack_max": "nf_conntrack",
    "net.ipv4.vs.": "ip_vs",
    "sunrpc.rdma_": "rpcrdma",
    "sunrpc.svc_rdma.": "rpcrdma",
    "sunrpc.": "sunrpc",
}
"""How a kernel setting begins to the module that brings it; the first that fits counts (kernel
documentation, networking/nf_conntrack-sysctl, ipvs-sysctl, admin-guide/sysctl). At boot, before
Kubernetes, they are not loaded."""
