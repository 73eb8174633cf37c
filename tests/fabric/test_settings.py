"""The algebra of settings against a second model of it: a state as a set of leaves.

The kinds of the fields are listed here by hand and not taken from the table under test. A leaf is
one value, or one entry of a list or map. Laws between fields are in the tests of targets.
"""

from __future__ import annotations

import random
from typing import Any, Final, TypeGuard

import pytest

from components.core.settings import drop, join, overlay, restore
from components.fabric.state import SwitchState

Raw = dict[str, Any]
Leaves = dict[tuple[Any, ...], Any]
ENTRIES: Final = {
    *("vlans", "dscp_classes", "addresses", "lo", "vlan7", "splits", "ports", "1/1"),
    *("1/2", "bgp", "neighbors", "networks", "bfd", "ib", "partitions", "a", "b", "members"),
    *("trunk_vlans", "strict_classes", "ecn", "class_shares", "dscp_priorities"),
    "priority_classes",
}
"""Fields and names that are looked into; every other value is a leaf as a whole."""
SHARED: Final = {
    *("vlans", "lo", "vlan7", "neighbors", "networks", "bfd", "partitions", "members"),
    *("trunk_vlans", "strict_classes"),
}
"""Those of which a target says all that shall be there."""
NAMES: Final = {"node", "pkey"}
"""What a part is called, which is no setting."""
BY_WORDS: Final = {"dscp_priorities", "priority_classes", "lossless_buffers"}
"""An undo brings these back by the driver's own words alone."""
VALUES: Final[dict[str, list[Any]]] = {
    "admin_up": [True, False],
    "mtu_bytes": [1500, 9216],
    "mode": ["access", "trunk"],
    "access_vlan": [0, 5],
    "native_vlan": [0, 3],
    "trust": ["L2", "L3"],
    "pfc": [True, False],
    "pfc_priorities": [(3,), (3, 4)],
    "lossless_buffers": [(3,), (3, 4)],
    "pfc_watchdog": [True, False],
    "pfc_watchdog_ms": [(1, 2), (3, 4)],
    "cable_m": [5, 40],
    "rewrite_dscp": [True, False],
    "adaptive_routing": [True, False],
    "speed": ["", "400"],
    "fec": ["", "rs"],
    "autoneg": ["on", "off"],
    "edge_port": ["", "on", "network"],
    "bpdu_guard": ["", "on", "off"],
}
IB: Final[dict[str, list[Any]]] = {
    "sm_function": [True, False],
    "sm_enabled": [True, False],
    "sm_priority": [0, 15],
    "routing_engine": ["updn", "default"],
}


class Maker:
    """Random states, as their JSON form."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)  # noqa: S311 - no secret

    def some(self, choices: dict[str, list[Any]]) -> Raw:
        return {k: self.dice.choice(v) for k, v in choices.items() if self.dice.random() < 0.6}

    def part(self, *entries: Any) -> list[Any]:  # noqa: ANN401 - entries of any list
        return [each for each in entries if self.dice.random() < 0.5]

    def map(self, keys: list[Any], values: list[Any]) -> Raw:
        return {key: self.dice.choice(values) for key in self.part(*keys)}

    def port(self) -> Raw:
        ecn = [None, {"min_kib": 1, "max_kib": 2}, {"min_kib": 3, "max_kib": 9}]
        return self.some(VALUES) | {
            "trunk_vlans": self.part(1, 2, 3, 9),
            "strict_classes": self.part(5, 6, 7),
            "ecn": self.map([3, 4], ecn),
            "class_shares": self.map([0, 1, 2], [4, 9]),
            "dscp_priorities": self.map([26, 27], [1, 3]),
            "priority_classes": self.map([3, 4], [1, 3]),
        }

    def partition(self) -> Raw:
        flags = self.some({"ipoib": [True, False], "mtu_bytes": [2048, 4096]})
        return {"pkey": 1, "members": self.map(["x", "y", "z"], ["full", "limited"])} | flags

    def switch(self) -> Raw:
        parts: Raw = {
            "addresses": {name: self.part("1/31", "2/31") for name in self.part("lo", "vlan7")},
            "bgp": self.some({"asn": [1, 2], "max_paths": [4, 8], "forwards": [True]})
            | {
                "neighbors": self.map(["s1", "s2"], ["external", "7"]),
                "networks": self.part("n1", "n2", "n3"),
                "bfd": self.part("s1", "s2"),
            },
            "ib": self.some(IB)
            | {"node": "n", "partitions": {name: self.partition() for name in self.part("a", "b")}},
        }
        whole = {"pfc_enabled": [True, False], "roce": ["lossy", "lossless"], "roce_cable_m": [4]}
        return self.some({key: [value] for key, value in parts.items()} | whole) | {
            "vlans": self.part(1, 2, 3),
            "dscp_classes": self.map([26, 48], [1, 3]),
            "splits": self.map(["1/1", "1/2"], [["p", "q"]]),
            "ports": {name: self.port() for name in self.part("1/1", "1/2")},
        }


def leaves(state: SwitchState) -> Leaves:
    """Every value and entry that a state names."""
    return dict(_leaves((), state.model_dump()))


def _leaves(path: tuple[Any, ...], value: Any) -> list[tuple[tuple[Any, ...], Any]]:  # noqa: ANN401
    if path and not _is_inside(path):
        off = value is None and "ecn" not in path
        return [] if off or value == {} or NAMES & {*path} else [(path, value)]
    inner: Raw = value if _is_map(value) else dict.fromkeys(value or (), True)
    return [leaf for key, each in inner.items() for leaf in _leaves((*path, key), each)]


def _is_map(value: object) -> TypeGuard[Raw]:
    return isinstance(value, dict)


def _is_inside(path: tuple[Any, ...]) -> bool:
    return path[-1] in ENTRIES and (len(path) == 1 or path[-2] != "splits")


def shares(path: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """The shared lists that a leaf is in."""
    return [path[: n + 1] for n, each in enumerate(path) if each in SHARED]


def named(state: SwitchState, path: tuple[Any, ...]) -> bool:
    """Whether a state says anything of a list, be it that it is empty."""
    value: Any = state
    for key in path:
        value = value.get(key) if _is_map(value) else getattr(value, key, None)
    return value is not None


@pytest.fixture(params=range(40))
def states(request: pytest.FixtureRequest) -> list[SwitchState]:
    make = Maker(request.param)
    return [SwitchState.model_validate(make.switch()) for _ in range(3)]


def test_an_edit_drops_what_is_named_no_more(states: list[SwitchState]) -> None:
    was, now, _ = states
    kept = leaves(now)
    assert leaves(drop(was, now)) == {k: v for k, v in leaves(was).items() if k not in kept}
    assert leaves(drop(was, was)) == {}


def test_over_a_state_the_upper_one_wins(states: list[SwitchState]) -> None:
    base, top, third = states
    below = {
        path: value
        for path, value in leaves(base).items()
        if not any(named(top, each) for each in shares(path))
    }
    assert leaves(overlay(base, top)) == below | leaves(top)
    assert overlay(overlay(base, top), third) == overlay(base, overlay(top, third))


def test_an_apply_keeps_the_entries_of_others(states: list[SwitchState]) -> None:
    actual, desired, _ = states
    others = {
        path: value
        for path, value in leaves(actual).items()
        if any(named(desired, each) for each in shares(path))
    }
    result = leaves(join(actual, desired))
    # BGP is one for all: a target also says the numbers that only others have set.
    numbers = {("bgp", key) for key in ("asn", "max_paths", "forwards")} - leaves(desired).keys()
    assert {k: v for k, v in result.items() if k not in numbers} == others | leaves(desired)


def test_an_undo_gives_back_what_was_recorded(states: list[SwitchState]) -> None:
    actual, owned, baseline = states
    target, before, ours = (leaves(x) for x in (restore(*states), baseline, owned))
    for path, value in target.items():
        if path in ours and path in before:
            now = path in leaves(actual) and value is True and shares(path)
            assert value == before[path] or now, path
        elif path in ours:
            assert value in (None, False, 0, "none"), path
        else:
            # A part that is gone comes back with all that was recorded of it.
            assert value == leaves(actual).get(path, before.get(path)), path
            assert shares(path) or path[0] == "bgp", path
    lost = [path for path in ours if path in before and path not in target]
    assert [path for path in lost if not BY_WORDS & {*path} and not _may_lack(path, states)] == []


def _may_lack(path: tuple[Any, ...], states: list[SwitchState]) -> bool:
    """A list shows what is there, without what is ours alone; no part comes without its record."""
    return bool(shares(path)) and path not in leaves(states[0])
