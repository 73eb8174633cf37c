"""An InfiniBand switch of the lab in this process, and the site that asks for it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import yaml

from components.fabric.exchange import Exchange
from components.fabric.systems.mlnxos.system import MlnxosDriver
from components.model.cluster import ClusterSpec
from lab.switches.mlnxos.server import MlnxosSwitch
from lab.views import SwitchConfig
from tests.fabric.in_process import DirectSession

SITE = Path(__file__).parents[2] / "examples" / "quantum-ib" / "site.yaml"
CONFIG = SwitchConfig(
    name="ib-leaf-01",
    os="mlnxos",
    model="QM9700",
    address="127.209.0.7",
    port=0,
    user="admin",
    password="mlnxos-lab",
    host_key_seed="test/ib-leaf-01",
    cables={"1/1/1": ("gpu01", "0000:18:00.0")},
)


def load_spec(**asked: object) -> ClusterSpec:
    """The example; `sm_priority` is for its first switch, the rest for its last partition."""
    data = yaml.load(SITE.read_text(), Loader=yaml.CSafeLoader)
    if "sm_priority" in asked:
        data["switches"][0]["sm_priority"] = asked.pop("sm_priority")
    data["infiniband"]["partitions"][-1].update(asked)
    return ClusterSpec.model_validate(data)


def make_switch(folder: Path, name: str = "ib-leaf-01") -> MlnxosSwitch:
    return MlnxosSwitch(replace(CONFIG, name=name), folder / f"{name}.json")


def talk(switch: MlnxosSwitch) -> Exchange:
    exchange = Exchange(DirectSession(switch.session()), MlnxosDriver())
    exchange.enter(configure=True)
    return exchange
