"""What a site runs on: own machines, ESXi hypervisors, or cloud instances with InfiniBand."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, WithJsonSchema

from components.model.cloud import AllowedNetworks, BringYourOwn, CrusoeProvision, InfiniBandFabric
from components.model.texts import refuse
from components.model.units import DnsLabel, Frozen, PciAddress, Ssh


class OnPrem(Frozen):
    """Own switches, own Linux hosts."""

    kind: Literal["onprem"]
    """The kind of site."""


ESXI_RELEASE: Final = r"^[0-9]{1,2}\.[0-9](\.[0-9]|U[0-9][a-z]?)?$"
"""`7.0.2` is `7.0U2` in the words of `esxcli system version get`."""
_WINDOWS_GIB: Final = tuple(1 << power for power in range(5, 23))
"""Powers of two. Fewer than 32 GiB hold no data-centre GPU: the T4's 16 GiB, doubled
(sources.md#esxi). An address of x86-64 has 52 bits: 4 PiB."""


def _mmio_window(gib: int) -> int:
    if gib not in _WINDOWS_GIB:
        raise refuse(
            f"a machine cannot have a 64-bit window of {gib} GiB",
            f"write a power of two of at least {_WINDOWS_GIB[0]}: twice the GPUs' memory, rounded "
            "up; 128 for one 40 or 64 GB GPU.",
        )
    return gib


MmioWindow = Annotated[
    int,
    AfterValidator(_mmio_window),
    WithJsonSchema({"type": "integer", "enum": list(_WINDOWS_GIB)}),
]
"""It holds the BARs of the devices; a GPU does not start with one that is too small."""


class VirtualMachine(Frozen):
    """One virtual machine with a GPU and an RDMA card passed through."""

    name: DnsLabel
    """Its name in `vim-cmd vmsvc/getallvms`, and the name of the host in `hosts`."""
    gpu: PciAddress
    """The GPU on the ESXi host, as hex SBDF: it becomes `pciPassthruN.cfg.gpu-pci-id`."""
    nic: PciAddress
    """The RDMA card on the ESXi host; on the GPU's NUMA node."""
    memory_mib: Annotated[int, Field(ge=4096, multiple_of=4)]
    """Memory in MiB, all of it reserved: passthrough pins it. ESXi takes multiples of 4 MiB
    (vSphere virtual machine administration)."""
    mmio_gib: MmioWindow = 128
    """64-bit MMIO window in GiB; the sum of the GPUs' BARs, rounded up to a power of two."""


class Hypervisor(Frozen):
    """One ESXi host, reached by SSH."""

    name: DnsLabel
    release: Annotated[str, Field(pattern=ESXI_RELEASE)]
    """Running release, for example `7.0U2`: it decides about `atsSupport`."""
    ssh: Ssh
    vms: Annotated[tuple[VirtualMachine, ...], Field(min_length=1)]
    """Its virtual machines, in the order in which they are powered on again."""
    power_off: Literal["guest", "hard"] = "guest"
    """How a machine that must stop is stopped: `guest` asks its VMware Tools and waits, and gives
    up after `shutdown_s`; `hard` then cuts its power."""
    shutdown_s: Annotated[int, Field(ge=10, le=3600)] = 300
    """Seconds that one guest has for its shutdown."""


class Esxi(Frozen):
    """Own switches, and GPU virtual machines on ESXi hypervisors.

    A virtual machine is a host of `hosts` with the name that its hypervisor lists it by.
    """

    kind: Literal["esxi"]
    """The kind of site."""
    hypervisors: tuple[Hypervisor, ...]
    """The ESXi hosts; one after the other is put into maintenance mode, in this order."""


class CloudIb(Frozen):
    """Instances of a cloud that owns the InfiniBand fabric: there are no switches of ours."""

    kind: Literal["cloud_ib"]
    """The kind of site."""
    instances: Annotated[BringYourOwn | CrusoeProvision, Field(discriminator="kind")]
    """Who makes the instances: you (`hosts` lists them), or this stack."""
    fabric: InfiniBandFabric = InfiniBandFabric()
    """What every worker must find of the cloud's InfiniBand."""
    api_allowed: AllowedNetworks
    """Networks that may reach the Kubernetes API."""
    ssh_allowed: AllowedNetworks
    """Networks that may reach SSH."""


Environment = Annotated[OnPrem | Esxi | CloudIb, Field(discriminator="kind")]
"""A union by `kind`: the keys of one kind are unknown to the others."""
