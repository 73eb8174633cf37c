"""What the firmware of the hosts' cards shall hold."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field, StringConstraints

from components.catalogue.cards import CardName, find_card
from components.model.units import Frozen

FIRMWARE_VERSION: Final = r"^[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,5}$"
FirmwareVersion = Annotated[str, StringConstraints(pattern=FIRMWARE_VERSION)]
"""A firmware release as `ibv_devinfo` shows it: family, branch and build."""


class FirmwareFloor(Frozen):
    """The oldest firmware that cards of one model may run."""

    model: CardName
    version: FirmwareVersion
    """For example `28.43.1014`; its first number is that of the model's family."""


class Firmware(Frozen):
    """The cards' firmware settings (`mlxconfig`), set for the cards' next start.

    Nothing is set unless it is asked for here. What is set waits for a reboot, a power cycle or a
    reset of the card; a preview says which.
    """

    manage: bool = False
    """Set SR-IOV and its number of VFs as `nics[].vfs` asks, and on cards whose ports can be
    either, the link type as `rdma.transport` asks. Of InfiniBand, the ports under `hca_sriov` are
    set, and no others."""
    num_of_vfs: Annotated[int, Field(ge=1, le=127)] | None = None
    """VFs that every port offers (`NUM_OF_VFS`), with `manage`; default the greatest `vfs` of the
    card's ports, which share the setting."""
    ats: bool = False
    """Set `ATS_ENABLED`: GPUDirect RDMA in virtual machines."""
    relaxed_ordering: bool = False
    """Set `PCI_WR_ORDERING` to `force_relax`, for all memory keys; `ADVANCED_PCI_SETTINGS` comes
    with it. Where the card shows the one only after it started with the other, it takes two
    starts."""
    min_versions: tuple[FirmwareFloor, ...] = ()
    """Oldest releases that may run; at least what Railyard needs of a model, where known."""

    @property
    def sets_anything(self) -> bool:
        """Railyard writes firmware settings on these hosts."""
        return self.manage or self.ats or self.relaxed_ordering

    def floor_of(self, model: str) -> str | None:
        """The oldest release that a card may run; None where none is required."""
        floors = [each.version for each in self.min_versions if each.model == model]
        card = find_card(model)
        needed = card.firmware_floor if card else None
        if self.sets_anything and needed is not None:
            floors.append(needed)
        return max(floors, key=version_number, default=None)


def version_number(version: str) -> tuple[int, ...]:
    """A firmware release as numbers that can be compared."""
    return tuple(int(part) for part in version.split("."))
