"""An emulated EOS switch without SSH, and the plan of the example site with one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from components.fabric.systems import system_of
from components.model.cluster import ClusterSpec
from lab.switches.eos.server import EosSwitch
from tests.fabric.in_process import leaf, load_site, talk_to

SITE = Path(__file__).parents[2] / "examples" / "dgx-roce" / "site.yaml"
MODEL = "DCS-7060DX5-64S"
CABLES = {f"Ethernet{number}/1": (f"gpu0{number}", "0000:05:00.0") for number in range(1, 7)}


class Clock:
    """Time that passes when a test says so."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def make_switch(
    folder: Path, clock: Callable[[], float] | None = None, release: str = ""
) -> EosSwitch:
    config = leaf(
        "eos",
        MODEL,
        CABLES,
        release=release,
        neighbours={port: (host, "enp5s0") for port, (host, _) in CABLES.items()},
    )
    path = folder / "leaf-01.json"
    return EosSwitch(config, path) if clock is None else EosSwitch(config, path, clock)


talk = partial(talk_to, system_of("eos"))


def with_eos(data: dict[str, Any]) -> ClusterSpec:
    """The same site with an EOS switch: its ports, and its largest MTU."""
    switch = data["switches"][0]
    plugged = enumerate(switch["ports"].values(), start=1)
    ports = {f"Ethernet{number}/1": to for number, to in plugged}
    switch |= {"os": "eos", "model": MODEL, "release": "4.32.1F", "ports": ports}
    data["rdma"].setdefault("port_mtu_bytes", 9214)
    data["rdma"]["port_mtu_bytes"] = min(data["rdma"]["port_mtu_bytes"], 9214)
    return ClusterSpec.model_validate(data)


def load_spec(**rdma: object) -> ClusterSpec:
    return with_eos(load_site(SITE, **{"port_mtu_bytes": 9214, **rdma}))
