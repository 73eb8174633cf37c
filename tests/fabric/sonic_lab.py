"""An emulated SONiC switch without SSH, and the plan of the ESXi example with one."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from components.fabric.exchange import Exchange
from components.fabric.systems import system_of
from components.model.cluster import ClusterSpec
from lab.switches.sonic.config import Preset
from lab.switches.sonic.server import SonicSwitch
from tests.fabric.cumulus_lab import SITE
from tests.fabric.in_process import leaf, load_site, talk_to

PORTS = tuple(f"Ethernet{8 * number}" for number in range(4))
CABLES = {f"Ethernet{8 * n}": (f"vm0{n + 1}", "0000:0b:00.0") for n in range(6)}

FRRCFGD = (
    "sudo sonic-db-cli CONFIG_DB HSET 'DEVICE_METADATA|localhost' frr_mgmt_framework_config true"
)
"""What a person does once, where BGP is to be made of CONFIG_DB."""


def make_switch(
    folder: Path, *, qos: bool = True, release: str = "", preset: Preset = "l1"
) -> SonicSwitch:
    """A switch; with `qos` as `config qos reload` leaves it, saved."""
    config = leaf(
        "sonic",
        "Z9332F",
        CABLES,
        release=release,
        neighbours={port: (host, "ens224") for port, (host, _) in CABLES.items()},
    )
    switch = SonicSwitch(config, folder / "leaf-01.json")
    if preset != "l1":
        switch.first_boot(preset)
    if qos:
        make_pools(switch)
    return switch


def talk(switch: SonicSwitch) -> Exchange:
    switch.holders.clear()  # the login of before is over
    return talk_to(system_of("sonic"), switch)


def rows_of(line: str) -> Any:  # noqa: ANN401 - JSON
    """The tables of a document that `sonic-cfggen` gets, of any other line none."""
    return json.loads(line.split("'")[1]) if "sonic-cfggen -j" in line else {}


def sent_rows(lines: Iterable[str]) -> dict[str, dict[str, dict[str, str]]]:
    """The rows of all documents together."""
    found: dict[str, dict[str, dict[str, str]]] = {}
    for line in lines:
        for table, rows in rows_of(line).items():
            for key, fields in rows.items():
                found.setdefault(table, {}).setdefault(key, {}).update(fields)
    return found


def replace_switch(data: dict[str, Any]) -> dict[str, Any]:
    """Put a SONiC switch in place of the one that is there, with ports of its own names."""
    switch = data["switches"][0]
    switch |= {"os": "sonic", "model": "Z9332F", "release": "202405"}
    switch["ssh"]["user"] = "admin"
    switch["ports"] = dict(zip(PORTS, switch["ports"].values(), strict=True))
    return data


def with_sonic(data: dict[str, Any]) -> ClusterSpec:
    """The same site with a SONiC switch."""
    return ClusterSpec.model_validate(replace_switch(data))


def make_pools(switch: SonicSwitch) -> None:
    """What a person does once, where the first boot has not: buffers and maps of the platform."""
    switch.run_line("sudo config qos reload")
    switch.run_line("sudo config save -y")


def load_spec(**rdma: object) -> ClusterSpec:
    return with_sonic(load_site(SITE, **rdma))
