"""The algebra of settings, for every kind of state, against a second model: a set of leaves.

The kinds of the fields are listed here by hand and not taken from the table under test; the states
are drawn from the declared fields. A leaf is one value, or one entry of a list or map. Laws between
fields are in test_targets.py.
"""

from __future__ import annotations

from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, TypeGuard, Union, get_args, get_origin

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from components.core.key_values import HostState
from components.core.settings import drop, join, overlay, restore, table
from components.fabric.parts import IbState, PartitionState
from components.fabric.state import BgpState, EcnState, PortState, SwitchState

Path = tuple[Any, ...]
STATES: Final = (SwitchState, PortState, BgpState, IbState, PartitionState, HostState)
"""Of a switch, a port, BGP, a subnet manager (also that of UFM), a host, VM or container."""
PARTS: Final = {"addresses", "ports", "partitions"}
"""Maps whose entries are looked into."""
SHARED: Final = {
    *("vlans", "neighbors", "networks", "bfd", "partitions", "members"),
    *("trunk_vlans", "strict_classes"),
}
"""Fields of which a target says all that shall be there; so is each entry of `addresses`."""
INSIDE: Final = {
    *(SHARED | PARTS),
    *("bgp", "ib", "dscp_classes", "splits", "ecn", "class_shares", "dscp_priorities"),
    *("priority_classes", "values"),
}
"""Fields that are looked into; every other value is a leaf as a whole."""
NAMES: Final = {"node", "pkey"}
"""What a part is called, which is no setting."""
BY_WORDS: Final = {"dscp_priorities", "priority_classes", "lossless_buffers"}
"""An undo brings these back by the driver's own words alone."""
KEPT: Final = {"wrr_weights", "native"}
"""Found on devices, and put back with other settings."""
VALUES: Final[dict[Any, st.SearchStrategy[Any]]] = {
    NoneType: st.none(),
    bool: st.booleans(),
    int: st.sampled_from([1, 2, 3]),
    str: st.sampled_from(["a", "b", "c"]),
    EcnState: st.builds(EcnState, min_kib=st.just(1), max_kib=st.sampled_from([2, 3])),
}


def values_of(kind: Any) -> st.SearchStrategy[Any]:  # noqa: ANN401 - an annotation
    """Values of a field by its annotation, from few ones, so that two states often agree."""
    args, origin = get_args(kind), get_origin(kind)
    if origin is Annotated:
        return values_of(args[0])
    if origin is Literal:
        return st.sampled_from(args)
    if origin in {Union, UnionType}:  # `all` is a word for a list: test_targets.py has it
        return st.one_of([values_of(each) for each in args if get_args(each) != ("all",)])
    if origin is tuple and args[-1] is ...:
        some = st.lists(values_of(args[0]), unique=True, max_size=3)
        return some.map(lambda each: tuple(sorted(each)))
    if origin in {dict, tuple}:
        inner = [*map(values_of, args)]
        return st.dictionaries(*inner, max_size=3) if origin is dict else st.tuples(*inner)
    return VALUES[kind] if kind in VALUES else states_of(kind)


def states_of(kind: type[BaseModel]) -> st.SearchStrategy[Any]:
    """States that name some of the declared settings."""
    fields = {
        name: values_of(kind.model_fields[name].annotation)
        for name, _ in table(kind)
        if name not in KEPT and (kind, name) != (IbState, "adaptive_routing")  # read alone
    }
    names = {name: st.just(1 if name == "pkey" else "n") for name in fields.keys() & NAMES}
    return st.fixed_dictionaries(names, optional={k: fields[k] for k in fields.keys() - NAMES}).map(
        lambda said: kind(**said)
    )


def leaves(state: BaseModel) -> dict[Path, Any]:
    """Every value and entry that a state names."""
    return dict(_leaves((), state.model_dump()))


def _leaves(path: Path, value: Any) -> list[tuple[Path, Any]]:  # noqa: ANN401
    if path and path[-1] not in INSIDE and path[-2:-1] not in {(each,) for each in PARTS}:
        off = value is None and "ecn" not in path
        return [] if off or value == {} or NAMES & {*path} else [(path, value)]
    inner = value if _is_map(value) else dict.fromkeys(value or (), True)
    return [leaf for key, each in inner.items() for leaf in _leaves((*path, key), each)]


def _is_map(value: object) -> TypeGuard[dict[Any, Any]]:
    return isinstance(value, dict)


def shares(path: Path) -> list[Path]:
    """The shared lists that a leaf is in."""
    ends = (path[: n + 1] for n in range(len(path)))
    return [end for end in ends if end[-1] in SHARED or end[-2:-1] == ("addresses",)]


def named(state: object, path: Path) -> bool:
    """Whether a state says anything of a list, be it that it is empty."""
    for key in path:
        state = state.get(key) if _is_map(state) else getattr(state, key, None)
    return state is not None


def of_others(lower: BaseModel, upper: BaseModel) -> dict[Path, Any]:
    """The leaves of one state that are in shared lists of which another says something."""
    return {
        path: value
        for path, value in leaves(lower).items()
        if any(named(upper, each) for each in shares(path))
    }


def check_edit(was: BaseModel, now: BaseModel, _third: BaseModel) -> None:
    """What is named no more is dropped."""
    kept = leaves(now)
    assert leaves(drop(was, now)) == {k: v for k, v in leaves(was).items() if k not in kept}
    assert leaves(drop(was, was)) == {}


def check_overlay(base: BaseModel, top: BaseModel, third: BaseModel) -> None:
    """What the upper state says wins."""
    hidden = of_others(base, top)
    below = {path: value for path, value in leaves(base).items() if path not in hidden}
    assert leaves(overlay(base, top)) == below | leaves(top)
    assert overlay(base, base) == base
    assert overlay(overlay(base, top), third) == overlay(base, overlay(top, third))


def check_apply(actual: BaseModel, desired: BaseModel, _third: BaseModel) -> None:
    """Entries of others stay."""
    result = leaves(join(actual, desired))
    # BGP is one for all: a target also says the numbers that only others have set.
    others = {path for path in leaves(actual) if path[0] == "bgp"} - leaves(desired).keys()
    wanted = of_others(actual, desired) | leaves(desired)
    assert {k: v for k, v in result.items() if k in wanted or k not in others} == wanted
    assert join(actual, join(actual, desired)) == join(actual, desired)


def check_undo(actual: BaseModel, owned: BaseModel, baseline: BaseModel) -> None:
    """What was recorded goes back, whatever is there now."""
    target, before = leaves(restore(actual, owned, baseline)), leaves(baseline)
    ours, held = leaves(owned), leaves(actual)
    for path, value in target.items():
        if path in ours and path in before:
            now = path in held and value is True and shares(path)
            assert value == before[path] or now, path
        elif path in ours:
            assert value in (None, False, 0, "none"), path
        else:
            # A part that is gone comes back with all that was recorded of it.
            assert value == held.get(path, before.get(path)), path
            assert shares(path) or path[0] == "bgp", path
    # A list shows what is there, without what is ours alone; no part comes without its record.
    lost = {path for path in ours if path in before and path not in target}
    assert {path for path in lost if path in held or not shares(path)} == {
        path for path in lost if BY_WORDS & {*path}
    }


def check_life(actual: BaseModel, owned: BaseModel, _third: BaseModel) -> None:
    """An undo of an apply gives what was there before, entry by entry of what is ours."""
    joined, was, ours = join(actual, owned), leaves(actual), leaves(owned)
    back = leaves(restore(joined, owned, actual))
    for path in {path for path in ours if not BY_WORDS & {*path}}:
        assert back.get(path) == was.get(path) or back[path] in (None, False, 0, "none"), path
    others = of_others(actual, owned)
    assert {path: back.get(path) for path in others} == others


LAWS: Final = (check_edit, check_overlay, check_apply, check_undo, check_life)


@pytest.mark.parametrize("kind", STATES)
@pytest.mark.parametrize("law", LAWS)
def test_a_law_of_the_algebra(law: Any, kind: type[BaseModel]) -> None:  # noqa: ANN401
    @settings(deadline=None, max_examples=30)
    @given(st.tuples(*[states_of(kind)] * 3))
    def check(states: tuple[BaseModel, ...]) -> None:
        law(*states)

    check()
