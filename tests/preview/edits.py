"""Typical edits of one site, as a person makes them in the file."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import yaml

from components.checks.site import load_checked_site
from components.model.cluster import ClusterSpec
from components.plan.make import make_plan
from components.preview.from_plans import preview_plans
from components.preview.report import Preview
from tests.golden.site import EXAMPLES

Document = dict[str, Any]
SITE: Final = EXAMPLES / "dgx-roce" / "host-settings.yaml"
"""The example whose cards' firmware is managed: there a VF count asks for a reboot."""


def _port_mtu(site: Document) -> None:
    ports = site["switches"][0]["ports"]
    ports["1/2"] = {"to": ports["1/2"], "mtu_bytes": 9000}


def _vlan(site: Document) -> None:
    site["rails"][1]["vlan"] = 113


def _vfs(site: Document) -> None:
    for host in site["hosts"]:
        for nic in host.get("nics", []):
            nic["vfs"] = 12


def _host(site: Document) -> None:
    host = copy.deepcopy(site["hosts"][-1])
    host["name"] = "gpu03"
    host["ssh"]["address"] = "192.168.2.13"
    site["hosts"].append(host)
    site["switches"][0]["ports"] |= {"1/5": "gpu03/rail-0", "1/6": "gpu03/rail-1"}


def _operator(site: Document) -> None:
    site["operators"]["gpu"]["chart"]["version"] = "v26.7.1"


def _kubernetes(site: Document) -> None:
    site["kubernetes"]["version"] = "v1.36.4+k3s1"
    site["kubernetes"]["source"] = {"binary_sha256": "1" * 64}


def _rename(site: Document) -> None:
    site["switches"][0]["name"] = "leaf-09"
    host = site["hosts"][1]
    site["renamed"] = {"hosts": {"gpu09": host["name"]}, "switches": {"leaf-09": "leaf-01"}}
    ports = site["switches"][0]["ports"]
    site["switches"][0]["ports"] = {
        name: to.replace(f"{host['name']}/", "gpu09/") for name, to in ports.items()
    }
    host |= {"name": "gpu09", "node_name": host["name"]}


EDITS: Final[Mapping[str, Callable[[Document], None]]] = {
    "the MTU of one port": _port_mtu,
    "the VLAN of a rail": _vlan,
    "more VFs": _vfs,
    "a host more": _host,
    "another GPU operator": _operator,
    "another K3s": _kubernetes,
    "other names": _rename,
}


def load(document: Document) -> ClusterSpec:
    """A document as the commands load it, rules included."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "site.yaml"
        path.write_text(yaml.safe_dump(document))
        return load_checked_site(path).spec_or_raise()


@cache
def before() -> ClusterSpec:
    return load(yaml.safe_load(SITE.read_text()))


@cache
def edited(name: str) -> ClusterSpec:
    document = yaml.safe_load(SITE.read_text())
    EDITS[name](document)
    return load(document)


@cache
def preview_of(name: str) -> Preview:
    """What `railyard preview --against main` makes of an edit."""
    spec = edited(name)
    return preview_plans(spec, make_plan(before(), "prod"), make_plan(spec, "prod"), "main")
