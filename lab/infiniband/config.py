"""What the lab file says of InfiniBand beside the switches that have a login.

Apart from `site.py`, since a lab daemon reads a lab file and never a site file: the model of one
took a third of its start.
"""

from __future__ import annotations

from typing import Final

from components.core.record import field, record

UFM_PCI: Final = "0000:01:00.0"


@record
class PlainSwitchConfig:
    """A switch of the fabric that nothing logs in to: its ports, and what is plugged in."""

    name: str
    model: str
    rate_gbit_s: int
    ports: tuple[str, ...]
    cables: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    """Port to (host, PCI address of the HCA)."""
    links: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    """Port to the (switch, port) at the other end."""


@record
class UfmLab:
    """The emulated UFM: where it listens, who may log in, and its HCA on the fabric."""

    name: str
    address: str
    port: int
    user: str
    password: str
    certificate_seed: str
    rate_gbit_s: int
    guid: str
    """Port GUID of its HCA."""
