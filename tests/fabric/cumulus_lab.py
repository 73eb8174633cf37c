"""An emulated Cumulus switch without SSH, and the plan of the example site with one."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ruamel.yaml import YAML

from components.fabric.drivers.cumulus import CumulusDriver
from components.fabric.exchange import Exchange
from components.model.cluster import ClusterSpec
from lab.switches.cumulus.cli import Session
from lab.switches.cumulus.server import CumulusSwitch
from lab.views import SwitchConfig

SITE = Path(__file__).parents[2] / "examples" / "esxi-roce" / "cumulus.yaml"
CABLES = {f"swp{number}": (f"vm0{number}", "0000:0b:00.0") for number in range(1, 7)}


@dataclass
class DirectSession:
    """A session with an emulator in this process; a bad exit status is told as over SSH."""

    session: Session
    where: str = "leaf-01 (in process)"

    def run(self, command: str) -> str:
        output = self.session.run(command)
        return f"{output}[status {self.session.status}]\n" if self.session.status else output


def make_switch(folder: Path, clock: Callable[[], float] = time.monotonic) -> CumulusSwitch:
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
    )
    return CumulusSwitch(config, folder / "leaf-01.json", clock)


def talk(switch: CumulusSwitch, serial: int = 1) -> Exchange:
    exchange = Exchange(DirectSession(switch.session()), CumulusDriver(), serial)
    exchange.enter(configure=True)
    return exchange


def load_spec(**rdma: object) -> ClusterSpec:
    data = YAML(typ="safe").load(SITE.read_text())  # pyright: ignore[reportUnknownMemberType] - ruamel has no types
    data["rdma"].update(rdma)
    return ClusterSpec.model_validate(data)
