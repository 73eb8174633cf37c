"""An emulated switch without SSH, and the plan of the example site."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from components.fabric.drivers.onyx import OnyxDriver
from components.fabric.exchange import Exchange
from components.fabric.plan import SwitchPlan, plan_fabric
from components.model.cluster import ClusterSpec
from lab.switches.onyx.cli import Session
from lab.switches.onyx.server import OnyxSwitch
from lab.views import SwitchConfig

SITE = Path(__file__).parents[2] / "examples" / "dgx-roce" / "site.yaml"
CABLES = {f"1/{number}": ("gpu01", f"0000:0{number}:00.0") for number in range(1, 7)}


@dataclass
class DirectSession:
    """A session with an emulator in this process."""

    session: Session
    where: str = "leaf-01 (in process)"

    def run(self, command: str) -> str:
        return self.session.run(command)


def make_switch(folder: Path) -> OnyxSwitch:
    config = SwitchConfig(
        name="leaf-01",
        os="onyx",
        model="SN2700",
        address="127.41.199.5",
        port=0,
        user="admin",
        password="admin",
        host_key_seed="test/leaf-01",
        cables=CABLES,
    )
    return OnyxSwitch(config, folder / "leaf-01.json")


def talk(switch: OnyxSwitch) -> Exchange:
    exchange = Exchange(DirectSession(Session(switch)), OnyxDriver())
    exchange.enter(configure=True)
    return exchange


def load_spec(**rdma: object) -> ClusterSpec:
    data = YAML(typ="safe").load(SITE.read_text())  # pyright: ignore[reportUnknownMemberType] - ruamel has no types
    data["rdma"].update(rdma)
    return ClusterSpec.model_validate(data)


@pytest.fixture
def switch(tmp_path: Path) -> OnyxSwitch:
    return make_switch(tmp_path)


@pytest.fixture
def plan() -> SwitchPlan:
    return plan_fabric(load_spec())[0]
