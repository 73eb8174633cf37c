"""Split ports: `nv set interface swp1 link breakout 2x`, in the revision of what its parts get.

NVUE reference, `link breakout`, from 5.4 on; page "Switch Port Attributes". To remove a split, the
parts are unset first, and the split is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from components.fabric.native import read_list, write_list
from components.fabric.state import SwitchState
from components.fabric.systems.base import Change, Unsettable
from components.fabric.systems.cumulus.read import PortConfig

HELD: Final = "split_held"
"""Key of a switch's `native`: whole ports with settings that parts do not have."""
NAMED: Final = "split_named"
"""The same: whole ports of which the configuration says something beside their split."""
_KEY: Final = "link breakout"
_PLAIN: Final = PortConfig()


def read_splits(
    ports: Mapping[str, PortConfig], wanted: Mapping[str, tuple[str, ...]]
) -> dict[str, tuple[str, ...]]:
    """Every port that is split, and those that were asked for."""
    split = {name: _parts(name, port.parts) for name, port in ports.items() if port.parts > 1}
    return {**{name: (name,) for name in wanted}, **split}


def _parts(whole: str, count: int) -> tuple[str, ...]:
    return tuple(f"{whole}s{number}" for number in range(count))


def find_words(ports: Mapping[str, PortConfig], routed: Collection[str]) -> dict[str, str]:
    """What whole ports have: beside a split at all, and more than being up or down."""
    wholes = {name: port for name, port in sorted(ports.items()) if _is_whole(name)}
    held = (name for name, port in wholes.items() if name in routed or _has_more(port))
    named = (name for name, port in wholes.items() if port.admin_written)
    return {HELD: write_list(held), NAMED: write_list(named)}


def _is_whole(name: str) -> bool:
    return name.startswith("swp") and name[3:].isdigit()


def _has_more(port: PortConfig) -> bool:
    said = (port.mode, port.mtu_bytes, port.pfc_watchdog, port.spreads, {*port.named})
    none = (_PLAIN.mode, None, None, None, set[str]())
    return port.others_wrote or said != none


def find_configured(ports: Iterable[str]) -> tuple[str, ...]:
    """Parts of which the configuration says something."""
    return tuple(name for name in ports if name.startswith("swp") and not _is_whole(name))


def leaving_splits(actual: SwitchState, target: SwitchState) -> Iterator[Change]:
    """Ports that become whole again, after the lines of their parts."""
    for whole, parts in (target.splits or {}).items():
        held = (actual.splits or {}).get(whole, (whole,))
        if len(held) > 1 and len(parts) == 1:
            # What stood there before stays, if it is blank; what did not goes.
            bare = whole not in _list(actual, NAMED) and whole not in _list(target, NAMED)
            line = f"nv unset interface {whole}" if bare else f"nv unset interface {whole} {_KEY}"
            yield Change((line,))


def _list(state: SwitchState, key: str) -> tuple[str, ...]:
    return read_list(state.native.get(key)) or ()


def coming_splits(actual: SwitchState, target: SwitchState) -> Iterator[Change]:
    """Ports that are split, before the lines of their parts.

    Raises:
        Unsettable: A port is split in another way, or has settings that parts do not have.
    """
    counts: dict[int, list[str]] = {}
    for whole, parts in (target.splits or {}).items():
        held = (actual.splits or {}).get(whole, (whole,))
        if len(parts) == 1 or held == parts:
            continue
        if len(held) > 1:
            raise Unsettable(
                f"port {whole} is split in {len(held)}, and the file wants {len(parts)} parts. "
                "What is on its parts would be lost: take them out of the file, update, and put "
                f"them back; or type `nv unset interface {','.join(held)}`, "
                f"`nv unset interface {whole} {_KEY}` and `nv config apply`"
            )
        _refuse_held(whole, actual, target)
        counts.setdefault(len(parts), []).append(whole)
    for count, wholes in counts.items():
        for whole in wholes:
            line = f"nv set interface {whole} {_KEY} {count}x"
            yield Change((line,))


def _refuse_held(whole: str, actual: SwitchState, target: SwitchState) -> None:
    if whole in _list(actual, HELD) and whole not in target.ports:
        raise Unsettable(
            f"port {whole} has settings that are not ours, which its parts would not have. Look at "
            f"`nv config show`; if they may go, type `nv unset interface {whole}` and "
            "`nv config apply`"
        )
