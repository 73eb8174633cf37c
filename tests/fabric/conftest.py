"""An emulated switch without SSH, and the plan of the example site."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from components.fabric.fabric_plan import SwitchPlan, plan_fabric
from components.fabric.systems import system_of
from components.model.cluster import ClusterSpec
from lab.switches.onyx.server import OnyxSwitch
from tests.fabric.in_process import leaf, load_site, talk_to

SITE = Path(__file__).parents[2] / "examples" / "dgx-roce" / "site.yaml"
CABLES = {f"1/{number}": ("gpu01", f"0000:0{number}:00.0") for number in range(1, 7)}


def make_switch(folder: Path) -> OnyxSwitch:
    config = leaf("onyx", "SN2700", CABLES)
    return OnyxSwitch(config, folder / "leaf-01.json")


talk = partial(talk_to, system_of("onyx"))


def load_spec(**rdma: object) -> ClusterSpec:
    return ClusterSpec.model_validate(load_site(SITE, **rdma))


@pytest.fixture
def switch(tmp_path: Path) -> OnyxSwitch:
    return make_switch(tmp_path)


@pytest.fixture
def plan() -> SwitchPlan:
    return plan_fabric(load_spec())[0]
