"""An emulated switch without SSH, and the plan of the example site."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.fabric.exchange import Exchange
from components.fabric.plan import SwitchPlan, plan_fabric
from components.fabric.systems.onyx.system import OnyxDriver
from components.model.cluster import ClusterSpec
from lab.switches.onyx.server import OnyxSwitch
from lab.views import SwitchConfig
from tests.fabric.in_process import DirectSession, load_site

SITE = Path(__file__).parents[2] / "examples" / "dgx-roce" / "site.yaml"
CABLES = {f"1/{number}": ("gpu01", f"0000:0{number}:00.0") for number in range(1, 7)}


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
    exchange = Exchange(DirectSession(switch.session()), OnyxDriver())
    exchange.enter(configure=True)
    return exchange


def load_spec(**rdma: object) -> ClusterSpec:
    return ClusterSpec.model_validate(load_site(SITE, **rdma))


@pytest.fixture
def switch(tmp_path: Path) -> OnyxSwitch:
    return make_switch(tmp_path)


@pytest.fixture
def plan() -> SwitchPlan:
    return plan_fabric(load_spec())[0]
