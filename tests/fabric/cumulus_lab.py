"""An emulated Cumulus switch without SSH, and the plan of the example site with one."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from components.fabric.exchange import Exchange
from components.fabric.systems.cumulus.driver import CumulusDriver
from components.model.cluster import ClusterSpec
from lab.switches.cumulus.server import CumulusSwitch
from lab.views import SwitchConfig
from tests.fabric.in_process import DirectSession, load_site

SITE = Path(__file__).parents[2] / "examples" / "esxi-roce" / "cumulus.yaml"
CABLES = {f"swp{number}": (f"vm0{number}", "0000:0b:00.0") for number in range(1, 7)}


def make_switch(
    folder: Path, clock: Callable[[], float] = time.monotonic, release: str = ""
) -> CumulusSwitch:
    config = SwitchConfig(
        name="leaf-01",
        os="cumulus",
        model="SN2700",
        address="127.209.0.5",
        port=0,
        user="cumulus",
        password="cumulus-lab",
        host_key_seed="test/leaf-01",
        cables=CABLES,
        release=release,
    )
    return CumulusSwitch(config, folder / "leaf-01.json", clock)


def talk(switch: CumulusSwitch, serial: int = 1) -> Exchange:
    exchange = Exchange(DirectSession(switch.session()), CumulusDriver(), serial)
    exchange.enter(configure=True)
    return exchange


def load_spec(**rdma: object) -> ClusterSpec:
    return ClusterSpec.model_validate(load_site(SITE, **rdma))
