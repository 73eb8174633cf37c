"""One driver a switch system, by the name that the site file uses."""

from __future__ import annotations

from components.core.errors import SpecError
from components.fabric.systems.base import Driver
from components.fabric.systems.cumulus.driver import CumulusDriver
from components.fabric.systems.eos.driver import EosDriver
from components.fabric.systems.mlnxos.driver import MlnxosDriver
from components.fabric.systems.onyx.driver import OnyxDriver
from components.fabric.systems.sonic.driver import SonicDriver

DRIVERS: dict[str, Driver] = {
    "onyx": OnyxDriver(),
    "cumulus": CumulusDriver(),
    "eos": EosDriver(),
    "mlnxos": MlnxosDriver(),
    "sonic": SonicDriver(),
}


def driver_of(system: str) -> Driver:
    """The driver of a switch system.

    Raises:
        SpecError: There is none.
    """
    if system not in DRIVERS:
        raise SpecError(f"no driver for switch system {system!r}; there are: {sorted(DRIVERS)}")
    return DRIVERS[system]
