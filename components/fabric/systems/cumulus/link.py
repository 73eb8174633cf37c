"""What a link of a Cumulus port runs at: leaves below `link` of its interface. Pure.

Up to release 5.15 NVUE says `auto-negotiate on`, later `auto-negotiate enabled` (release notes);
the header of the configuration tells the release.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from components.fabric.state import PortState
from components.fabric.systems.cumulus.tree import Tree, child
from components.fabric.systems.switch_system import LinkWish

NEW_WORDS: Final = "auto-negotiate enabled"
"""In `whole_words` of a switch that says it so."""
LEAVES: Final = frozenset({"speed", "fec", "auto-negotiate"})
_FIRST_NEW: Final = (5, 16)
_FEC: Final = {"rs": "rs", "fc": "baser", "none": "off"}
_FOUND: Final = {word: fec for fec, word in _FEC.items()}
_AUTO: Final = {"enabled": "on", "disabled": "off"}
_NEW: Final = {"on": "enabled", "off": "disabled"}


def words_of(release: tuple[int, ...]) -> tuple[str, ...]:
    """What a release tells of the words of the whole switch."""
    return (NEW_WORDS,) if release >= _FIRST_NEW else ()


def link_words(wish: LinkWish) -> dict[str, str]:
    """`400G`, and the other two as everywhere."""
    words = {"speed": f"{wish.speed_gbit_s}G"} if wish.speed_gbit_s else {}
    words |= {"fec": wish.fec} if wish.fec else {}
    return words if wish.autoneg is None else {**words, "autoneg": "on" if wish.autoneg else "off"}


def link_state(entry: Tree) -> dict[str, str]:
    """`speed`, `fec` and `autoneg` of a `PortState`; blank where nothing is written."""
    link = child(entry, "link")
    said = {leaf: str(link[leaf]) if leaf in link else "" for leaf in LEAVES}
    fec, autoneg = said["fec"], said["auto-negotiate"]
    return {
        "speed": said["speed"],
        "fec": _FOUND.get(fec, fec),
        "autoneg": _AUTO.get(autoneg, autoneg),
    }


def link_lines(was: PortState, port: PortState, *, new: bool) -> Iterator[tuple[str, str]]:
    """Verb and tail of the lines from one to the other."""
    leaves = (
        ("link speed", was.speed, port.speed, port.speed),
        ("link fec", was.fec, port.fec, _FEC.get(port.fec or "", port.fec)),
        (
            "link auto-negotiate",
            was.autoneg,
            port.autoneg,
            _NEW.get(port.autoneg or "", port.autoneg) if new else port.autoneg,
        ),
    )
    for leaf, held, wanted, word in leaves:
        if wanted not in {None, held or ""}:
            yield ("set", f"{leaf} {word}") if wanted else ("unset", leaf)
