"""One folder a switch system, found by the name that the site file uses.

`SWITCH_SYSTEMS` of the catalogue has the names; `system.py` of the folder has `SYSTEM`. A folder is
loaded when a switch of its system is met: work on one switch loads one system.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final, cast

from components.catalogue.switches.systems import SWITCH_SYSTEMS
from components.core.errors import SpecError

if TYPE_CHECKING:
    from components.catalogue.switches.switch_model import Release, SwitchModel
    from components.fabric.systems.switch_system import SwitchSystem

UFM: Final = "ufm"
"""Not a switch, and not its `os`, but the subnet manager, which is read and set like a switch."""


def system_of(name: str) -> SwitchSystem:
    """A switch system; SpecError if no system has that name."""
    if name not in {*SWITCH_SYSTEMS, UFM}:
        raise SpecError(f"no switch system {name!r}; there are: {', '.join(SWITCH_SYSTEMS)}")
    return cast("SwitchSystem", import_module(f"{__name__}.{name}.system").SYSTEM)


def least_release(name: str, model: SwitchModel | None) -> Release:
    """The oldest release with which a switch of a system and a model can be used."""
    first = model.first_release.get(name, (0, 0, 0)) if model else (0, 0, 0)
    return max(system_of(name).min_release, first)
