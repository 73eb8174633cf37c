"""The sites that tier 1 edits: the dev site, one with three servers, and the examples."""

from __future__ import annotations

import base64
import copy
import hashlib
import random
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from components.core.record import record
from components.reading.port_ranges import spread_document

ROOT: Final = Path(__file__).parents[2]
Site = dict[str, Any]
"""A site file as it was read: mappings, lists and plain values."""
_WEIGHTS: Final[Mapping[str, int]] = {
    "dev": 34,
    "three-servers": 22,
    "mixed-fabric": 14,
    "shared-rdma": 8,
    "mixed-nodes": 7,
    "esxi-roce": 6,
    "crusoe-k3s": 4,
    "quantum-ib": 2,
    "rail-optimised": 1,
    "spine-leaf": 1,
}
"""How often each is played. The two largest cost ten times as much as the others."""


@record
class Base:
    """A site before the first edit; its name is that of its stack."""

    name: str
    site: Site


def choose_base(chance: random.Random) -> Base:
    """One of the sites."""
    name = chance.choices([*_WEIGHTS], [*_WEIGHTS.values()])[0]
    return base_of(name)


def base_of(name: str) -> Base:
    """A copy of one site, with `disruption` as at a first update: everything is allowed."""
    site = copy.deepcopy(_read(name))
    site["disruption"] = {**site.get("disruption", {}), "ports": "allow", "reboots": "allow"}
    return Base(name, site)


@cache
def _read(name: str) -> Site:
    if name == "dev":
        document = yaml.safe_load((ROOT / "Pulumi.dev.yaml").read_text())
        return document["config"]["railyard:cluster"]
    if name == "three-servers":
        return _with_three_servers(_read("dev"))
    return spread_document(yaml.safe_load((ROOT / "examples" / name / "site.yaml").read_text()))


def _with_three_servers(dev: Site) -> Site:
    """The dev site with three servers, so that there is a quorum to lose, and a third worker."""
    site = copy.deepcopy(dev)
    first, worker = site["hosts"][0], site["hosts"][2]
    for number in (2, 3):
        server: Site = {**copy.deepcopy(first), "name": f"mgmt0{number}"}
        server["ssh"] |= {"address": f"127.41.0.2{number}", "host_key": made_key(f"mgmt0{number}")}
        site["hosts"].insert(number - 1, server)
    balancer: Site = {"name": "lb01", "role": "balancer", "ssh": copy.deepcopy(first["ssh"])}
    balancer["ssh"] |= {"address": "127.41.0.9", "host_key": made_key("lb01")}
    site["hosts"].append(balancer)
    third: Site = {**copy.deepcopy(worker), "name": "gpu03"}
    third["ssh"] |= {"address": "127.41.0.13", "host_key": made_key("gpu03")}
    site["hosts"].append(third)
    site["switches"][0]["ports"] |= {"1/5": "gpu03/rail-0", "1/6": "gpu03/rail-1"}
    return site


def made_key(seed: str) -> str:
    """A public host key line of the right form that no machine has."""
    body = b"\x00\x00\x00\x0bssh-ed25519\x00\x00\x00\x20" + hashlib.sha256(seed.encode()).digest()
    return f"ssh-ed25519 {base64.b64encode(body).decode()}"
