"""Site files for discovery, and what it makes of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.discover.run import Report, compare
from components.discover.site_file import find_targets, read_site_file
from components.hosts.look import HostLook

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAjcWkKbzsgcpbZ0Gp5aPnzxdCsz2R4QMQ5HnPtrwJXr"
HEAD = """\
# The site of two racks.
rails:
  - {name: rail-0, vlan: 111, subnet: 10.10.111.0/24}
  - {name: rail-1, vlan: 112, subnet: 10.10.112.0/24}
  - {name: rail-2, vlan: 113, subnet: 10.10.113.0/24}
  - {name: rail-3, vlan: 114, subnet: 10.10.114.0/24}
switches:
  - name: leaf-01
    ports: {"1/1": gpu01/rail-0, "1/2": {to: gpu01/rail-1}}
"""
SSH = f"""\
    ssh:
      address: 192.168.2.11   # the console's
      user: nvidia
      private_key: {{secret: ssh_private_key}}
      host_key: {KEY}
"""
GPU01 = f"""\
hosts:
  - name: gpu01     # rack 4
    role: worker
{SSH}"""
RANGES = """\
switches:
  - name: leaf-01
    os: cumulus
    model: SN3700
    ports: {swp1-4: "gpu01/rail-[0,2,1,3]", swp5: {to: gpu02/rail-0}}
"""
"""What is plugged into leaf-01, in place of HEAD's."""
BLOCK = """\
    nics:
      - rail: rail-2      # by hand
        pci: "0000:05:00.0"
        numa: 1           # as the label on the case says
      # the second one is on order
    gpus: 8   # of eight
"""
TAIL = "# nothing below\nhost_defaults: {peermem: true}\n"


def run(
    folder: Path, text: str, *looks: HostLook, asked: tuple[str, ...] = ()
) -> tuple[Report, str]:
    path = folder / "site.yaml"
    path.write_bytes(text.encode())
    file = read_site_file(path)
    targets, errors = find_targets(file, asked, KEY, "root")
    return compare(file, targets, looks, errors)


def added(before: str, after: str) -> list[str]:
    """The lines of `after` that are not in `before`; the others must be there, in their order."""
    rest = iter(after.splitlines())
    new: list[str] = []
    for line in before.splitlines():
        for other in rest:
            if other == line:
                break
            new.append(other)
        else:
            pytest.fail(f"{line!r} is gone")
    return [*new, *rest]
