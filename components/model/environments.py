"""What a site runs on: own machines, ESXi hypervisors, or cloud instances with InfiniBand."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from components.model.cloud import AllowedNetworks, BringYourOwn, CrusoeProvision, InfiniBandFabric
from components.model.hypervisors import Hypervisor
from components.model.units import Frozen


class OnPrem(Frozen):
    """Own switches, own Linux hosts."""

    kind: Literal["onprem"]
    """The kind of site."""


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
