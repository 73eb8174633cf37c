"""The GUIDs of the VFs of an InfiniBand port: the host sets them, and partitions name them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from components.model.hosts import Host
from components.model.sriov import HcaPf


def vf_guids(site: str, host: Host, pf: HcaPf) -> tuple[str, ...]:
    """The GUIDs of a port's VFs: those of the file, or derived ones that are the same each time.

    A derived GUID begins with 02, the sign of one that no vendor gave out (EUI-64's local bit);
    seven bytes of a hash follow. Random ones would fall out of their partitions at each boot.
    """
    return pf.guids or tuple(_derived(site, host.name, pf))


def _derived(site: str, host: str, pf: HcaPf) -> Iterator[str]:
    for number in range(pf.vfs):
        digest = hashlib.sha256(f"{site}/{host}/{pf.pci}/{number}".encode()).hexdigest()
        yield f"02{digest[:14]}"
