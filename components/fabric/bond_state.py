"""Bundles of ports as a switch has them: the same type for wanted, actual and recorded."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict

from components.fabric.settings import OMIT_EMPTY, OMIT_NONE


class BondState(BaseModel):
    """One bundle, all of it; without members: there is none."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    members: tuple[str, ...] = ()
    """Its ports, in their order."""
    vlans: tuple[int, ...] | None = ()
    """VLANs that it carries tagged, ascending; None: all of the switch, found and put back."""
    untagged: int | None = None
    """VLAN of frames without a tag; None: nothing says one."""
    mlag: int | None = None
    """Its number on both switches of a pair."""
    is_peer_link: bool = False
    """It joins the two switches of a pair."""
    static: Annotated[tuple[str, ...], OMIT_EMPTY] = ()
    """Members that do not speak LACP (EOS): found and put back, never wanted."""

    @property
    def words(self) -> dict[str, str]:
        """What it is, setting by setting, so that more than is wanted differs too."""
        vlans = "all" if self.vlans is None else ",".join(map(str, self.vlans))
        return {
            "members": ",".join(
                f"{port} (static)" if port in self.static else port for port in self.members
            ),
            "vlans": vlans or "none",
            "untagged": str(self.untagged or "none"),
            "mlag": str(self.mlag or "none"),
        }


Bonds = dict[str, BondState]


class MlagState(BaseModel):
    """How a switch is half of a pair; an empty one: it is not."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    mac: str | None = None
    backup: str | None = None
    domain: Annotated[str | None, OMIT_NONE] = None
    """Name of the pair, where it has one (EOS); None too where something that the pair needs is
    not there, so that it does not work."""
    peer: Annotated[str | None, OMIT_NONE] = None
    """Address of the other switch on the link between them, where there are addresses (EOS)."""

    @property
    def words(self) -> dict[str, str]:
        """What is said of it."""
        said = (
            ("mac", self.mac),
            ("backup", self.backup),
            ("domain", self.domain),
            ("peer", self.peer),
        )
        return {f"mlag_{key}": value for key, value in said if value is not None}


def bond_settings(bonds: Bonds | None, mlag: MlagState | None) -> dict[tuple[str, str], str]:
    """As `SwitchState.settings`."""
    flat = {
        ("switch", f"{name}_{key}"): text
        for name, bond in (bonds or {}).items()
        if bond.members
        for key, text in bond.words.items()
    }
    return flat | {("switch", key): text for key, text in (mlag.words if mlag else {}).items()}
