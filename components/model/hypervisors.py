"""ESXi hosts and the virtual machines whose passthrough devices Railyard owns."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from components.model.units import DnsLabel, Frozen, PciAddress, ReleaseText, Ssh


class VirtualMachine(Frozen):
    """One virtual machine with a GPU and an RDMA card passed through."""

    name: DnsLabel
    """Its name in `vim-cmd vmsvc/getallvms`, and the name of the host in `hosts`."""
    gpu: PciAddress
    """The GPU on the ESXi host, as hex SBDF: it becomes `pciPassthruN.cfg.gpu-pci-id`."""
    nic: PciAddress
    """The RDMA card on the ESXi host; on the GPU's NUMA node."""
    memory_mib: Annotated[int, Field(gt=0)]
    """Memory in MiB, all of it reserved: passthrough pins it."""
    mmio_gib: Annotated[int, Field(gt=0)] = 128
    """64-bit MMIO window in GiB; the sum of the GPUs' BARs, rounded up to a power of two."""


class Hypervisor(Frozen):
    """One ESXi host, reached by SSH."""

    name: DnsLabel
    release: ReleaseText
    """Running release, for example `7.0U2`: it decides about `atsSupport`."""
    ssh: Ssh
    vms: tuple[VirtualMachine, ...]
    """Its virtual machines, in the order in which they are powered on again."""
    power_off: Literal["guest", "hard"] = "guest"
    """How a machine that must stop is stopped: `guest` asks its VMware Tools and waits, and gives
    up after `shutdown_s`; `hard` then cuts its power."""
    shutdown_s: Annotated[int, Field(ge=10, le=3600)] = 300
    """Seconds that one guest has for its shutdown."""
