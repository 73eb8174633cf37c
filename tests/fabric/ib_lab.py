"""An InfiniBand switch of the lab in this process, and the site that asks for it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import yaml

from components.fabric.systems import system_of
from components.model.cluster import ClusterSpec
from lab.switches.mlnxos.server import MlnxosSwitch
from tests.fabric.in_process import leaf, talk_to

SITE = Path(__file__).parents[2] / "examples" / "quantum-ib" / "site.yaml"
NAME = "ib-leaf-01"
CONFIG = leaf(
    "mlnxos",
    "QM9700",
    {"1/1/1": ("gpu01", "0000:18:00.0")},
    name=NAME,
    host_key_seed=f"test/{NAME}",
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


talk = partial(talk_to, system_of("mlnxos"))
