"""An emulated Cumulus switch without SSH, and the plan of the example site with one."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from components.fabric.systems import system_of
from components.model.cluster import ClusterSpec
from lab.switches.cumulus.server import CumulusSwitch
from tests.fabric.in_process import leaf, load_site, talk_to

SITE = Path(__file__).parents[2] / "examples" / "esxi-roce" / "cumulus.yaml"
CABLES = {f"swp{number}": (f"vm0{number}", "0000:0b:00.0") for number in range(1, 7)}


def make_switch(
    folder: Path, clock: Callable[[], float] = time.monotonic, release: str = ""
) -> CumulusSwitch:
    config = leaf("cumulus", "SN2700", CABLES, user="cumulus", release=release)
    return CumulusSwitch(config, folder / "leaf-01.json", clock)


talk = partial(talk_to, system_of("cumulus"))


def load_spec(**rdma: object) -> ClusterSpec:
    return ClusterSpec.model_validate(load_site(SITE, **rdma))
