"""One emulated switch of each system, in one shape: what tests of every driver are written against.

A new system joins with one entry of `LABS`, which names the functions of its own lab module.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol, cast

from components.fabric.exchange import Exchange
from components.fabric.plan import SwitchPlan, plan_fabric
from components.fabric.state import SwitchState
from components.model.cluster import ClusterSpec
from lab.site import load_document, overlay
from tests.fabric import conftest as onyx_lab
from tests.fabric import cumulus_lab, eos_lab, ib_lab, sonic_lab
from tests.fabric.carried import INFINIBAND, ROCE, Carried
from tests.fabric.eos_lab import Clock

NOT_SAVED: Final = "the previous values were put back; not saved"
SAVED_ITSELF: Final = "the previous values were put back; saved by the switch itself"


def put_back(system: str) -> str:
    """How an error ends if the previous values are back: NVUE saves by itself from 5.9 on."""
    return SAVED_ITSELF if system == "cumulus" else NOT_SAVED


K3S: Final[dict[str, str]] = dict.fromkeys(("k3s", "install.sh"), "0" * 64)
"""Checksums of an artefact that no switch test downloads."""


class Emulator(Protocol):
    """What every emulated switch offers to a test."""

    @property
    def ssh_port(self) -> int: ...
    @property
    def sessions(self) -> int: ...
    @property
    def unmodelled(self) -> tuple[str, ...]: ...
    @property
    def faults(self) -> Any: ...  # noqa: ANN401 - each emulator has its own
    @property
    def stored(self) -> Any: ...  # noqa: ANN401 - the same

    refuse: Callable[[str], str | None]

    async def start(self) -> None: ...
    async def stop(self) -> None: ...
    def reload(self) -> None: ...
    def fault(self, args: Sequence[str]) -> str: ...
    def snapshot(self) -> Any: ...  # noqa: ANN401 - any JSON


@dataclass(frozen=True)
class SwitchLab:
    """How a test gets a switch of one system, and a site with it."""

    make_switch: Callable[[Path, Clock], Any]
    talk: Callable[[Any], Exchange]
    load_spec: Callable[..., ClusterSpec]
    address: str
    user: str
    password: str
    saved: str
    """The part of a snapshot that the next boot loads."""
    site: Path
    """The example that the lab plays with this system."""
    adapt: Callable[[dict[str, Any]], ClusterSpec] = ClusterSpec.model_validate
    """From that example to a site with this system."""
    prepare: Callable[[Any], object] = lambda _switch: None
    """What a person does once on a new switch, before it can be lossless."""
    carried: Carried = ROCE
    """What is asked of it and looked at, by what its ports carry."""

    @property
    def spec(self) -> ClusterSpec:
        """The site that asks for the most lines."""
        return self.load_spec(**[*self.carried.asked.values()][-1])

    @property
    def plan(self) -> SwitchPlan:
        """The plan of its first switch."""
        return plan_fabric(self.spec)[0]

    @property
    def desired(self) -> SwitchState:
        """What the plan wants."""
        return self.plan.desired

    @property
    def port(self) -> str:
        """A port of the plan."""
        return next(iter(self.desired.ports))

    def played(self, stack: str) -> ClusterSpec:
        """The example as the lab plays it."""
        return self.adapt(cast("dict[str, Any]", overlay(load_document(self.site), stack, K3S)))

    def saved_part(self, switch: Emulator) -> object:
        """What the next boot loads."""
        return switch.snapshot()[self.saved]


LABS: Final[dict[str, SwitchLab]] = {
    "onyx": SwitchLab(
        make_switch=lambda folder, _clock: onyx_lab.make_switch(folder),
        talk=onyx_lab.talk,
        load_spec=onyx_lab.load_spec,
        address="127.41.199.5",
        user="admin",
        password="admin",
        saved="saved",
        site=onyx_lab.SITE,
    ),
    "cumulus": SwitchLab(
        make_switch=cumulus_lab.make_switch,
        talk=cumulus_lab.talk,
        load_spec=cumulus_lab.load_spec,
        address="127.209.0.5",
        user="cumulus",
        password="cumulus-lab",
        saved="startup",
        site=cumulus_lab.SITE,
    ),
    "eos": SwitchLab(
        make_switch=eos_lab.make_switch,
        talk=eos_lab.talk,
        load_spec=eos_lab.load_spec,
        address="127.209.0.7",
        user="admin",
        password="eos-lab",
        saved="startup",
        site=eos_lab.SITE,
        adapt=eos_lab.with_eos,
    ),
    "mlnxos": SwitchLab(
        make_switch=lambda folder, _clock: ib_lab.make_switch(folder),
        talk=ib_lab.talk,
        load_spec=ib_lab.load_spec,
        address="127.209.0.7",
        user="admin",
        password="mlnxos-lab",
        saved="saved",
        site=ib_lab.SITE,
        carried=INFINIBAND,
    ),
    "sonic": SwitchLab(
        make_switch=lambda folder, _clock: sonic_lab.make_switch(folder),
        talk=sonic_lab.talk,
        load_spec=sonic_lab.load_spec,
        address="127.209.0.7",
        user="admin",
        password="sonic-lab",
        saved="saved",
        site=sonic_lab.SITE,
        adapt=sonic_lab.with_sonic,
        prepare=sonic_lab.make_pools,
    ),
}
"""By switch system, as in `SWITCH_SYSTEMS`."""
