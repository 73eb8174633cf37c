"""One driver a switch system, by the name that the site file uses."""

from __future__ import annotations

from components.core.errors import SpecError
from components.fabric.drivers.base import Driver
from components.fabric.drivers.cumulus import CumulusDriver
from components.fabric.drivers.eos import EosDriver
from components.fabric.drivers.mlnxos import MlnxosDriver
from components.fabric.drivers.onyx import OnyxDriver
from components.fabric.drivers.sonic import SonicDriver

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
