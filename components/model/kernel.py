"""The kernel of the hosts: settings, huge pages, CPU, PCI, RDMA namespaces, routes of the rails."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from components.model.sysctls import Sysctls
from components.model.units import Frozen

Pages = Annotated[int, Field(ge=0, le=9_999_999)]
"""Number of huge pages; the bound is what the host's scripts take, 19 TiB in 2 MiB pages."""


class KernelSettings(Frozen):
    """What the kernel of a host shall be set to. Every changed value is recorded for undo."""

    sysctls: Sysctls = Field(default_factory=dict)
    """Kernel settings by name, as `sysctl -a` prints it: `net.core.rmem_max: 268435456`.

    They are set at each boot by `railyard-nics.service`, after `/etc/sysctl.d`.
    """
    hugepages_2mib: Pages | None = None
    """Huge pages of 2 MiB in all; the kernel spreads them over the NUMA nodes. Default: as is."""
    hugepages_1gib: Pages | None = None
    """Huge pages of 1 GiB in all. Default: as is."""
    hugepages_2mib_per_node: tuple[Pages, ...] = ()
    """Huge pages of 2 MiB on each NUMA node, node 0 first; in place of the total."""
    hugepages_1gib_per_node: tuple[Pages, ...] = ()
    """Huge pages of 1 GiB on each NUMA node, node 0 first; in place of the total."""
    cpu_governor: (
        Literal["performance", "powersave", "schedutil", "ondemand", "conservative"] | None
    ) = None
    """Frequency governor of all processors. Default: as is. Latency tests want `performance`."""
    numa_balancing: bool | None = None
    """Whether the kernel moves pages between NUMA nodes by itself. Default: as is.

    A move unmaps pages for a moment, which pinned GPU and RDMA jobs pay for and never need.
    """
    acs: Literal["auto", "off", "keep"] = "auto"
    """PCIe access control on the bridges between a GPU and an RDMA card.

    `auto` is `off` on bare metal hosts that have both, unless virtual machines take a card's VFs
    (`autoprobe: false`), else `keep`. With ACS the bridge sends what
    a card writes to a GPU over the processor: GPUDirect RDMA is slow, or hangs.
    """
    iommu: Literal["pt", "off", "keep"] = "keep"
    """The IOMMU by the kernel's command line; needs a reboot. `pt` maps devices of the host one to
    one and keeps translation for virtual machines; `off` switches it off."""
    rdma_netns: Literal["shared", "exclusive", "keep"] = "keep"
    """Whether every network namespace sees all RDMA devices (`shared`, the kernel's default), or
    a device is only where its network device is (`exclusive`, with the RDMA CNI plugin)."""
    source_routing: Literal["auto", "off"] = "auto"
    """Routes by source address for cards with addresses of their own.

    `auto` makes a table and a rule for each of them where a host has several, or where a rail has
    a `gateway`, and sets ARP so that each card answers for its own address only.
    """
