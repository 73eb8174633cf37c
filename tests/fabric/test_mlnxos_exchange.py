"""Partitions and subnet manager: read, compare, change, verify, save, against the emulator."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.core.errors import DeviceError
from components.fabric.fabric_plan import plan_fabric
from components.fabric.parts import IbState, MemberKind, PartitionState
from components.fabric.state import SwitchState, diff_states
from components.fabric.targets import target_of_apply
from lab.switches.mlnxos.server import MlnxosSwitch
from tests.fabric.ib_lab import load_spec, make_switch, talk
from tests.fabric.in_process import apply, baseline_of, edit, restore

NODE = "ib-leaf-01"
DESIRED = plan_fabric(load_spec())[0].desired
GUIDS: tuple[str, ...] = ("ALL", "a088c20300011000", "a088c20300011010", "0c42a10300b4db20")
NAMES = ("training", "storage", "others")
KINDS: st.SearchStrategy[MemberKind] = st.sampled_from(("full", "limited", "both"))
PORTS: st.SearchStrategy[str] = st.sampled_from(GUIDS)
MEMBERS: st.SearchStrategy[dict[str, MemberKind]] = st.dictionaries(PORTS, KINDS, max_size=3)
KEYS = {"training": (0x101, 0x111), "storage": (0x201, 0x211), "others": (0x301, 0x311)}


def _pairs(guid: str) -> str:
    return guid if guid == "ALL" else ":".join(guid[i : i + 2] for i in range(0, 16, 2))


@st.composite
def partitions(draw: st.DrawFn, names: tuple[str, ...]) -> dict[str, PartitionState]:
    found: dict[str, PartitionState] = {}
    for name in draw(st.sets(st.sampled_from(names))):
        found[name] = PartitionState(
            pkey=draw(st.sampled_from(KEYS[name])),
            ipoib=draw(st.booleans()),
            mtu_bytes=draw(st.sampled_from([None, 2048, 4096])),
            rate_gbit_s=draw(st.sampled_from([None, 100])),
            members=draw(MEMBERS),
        )
    return found


@st.composite
def intents(draw: st.DrawFn) -> SwitchState:
    if draw(st.booleans()):
        return SwitchState(ib=IbState(node=NODE, sm_enabled=False))
    return SwitchState(
        ib=IbState(
            node=NODE,
            sm_function=True,
            sm_enabled=True,
            sm_priority=draw(st.integers(0, 15)),
            routing_engine=draw(st.sampled_from([None, "updn", "ftree"])),
            partitions=draw(partitions(("training", "storage"))),
        )
    )


def _lines(name: str, partition: PartitionState) -> list[str]:
    head = f"ib partition {name}"
    lines = [f"{head} pkey 0x{partition.pkey:04x} force"]
    lines += [f"{head} ipoib force"] if partition.ipoib else []
    lines += [f"{head} mtu 4K force"] if partition.mtu_bytes == 4096 else []
    lines += [f"{head} rate 100 force"] if partition.rate_gbit_s else []
    return lines + [
        f"{head} member {_pairs(guid)} type {kind} force"
        for guid, kind in partition.members.items()
    ]


HISTORIES = st.tuples(
    partitions(NAMES),
    st.lists(
        st.sampled_from(
            [
                "ib sm",
                f"ib smnode {NODE} enable",
                f"ib smnode {NODE} sm-priority 7",
                "ib sm routing-engines dor",
                "ib partition Default member 0c:42:a1:03:00:b4:db:20 type limited force",
                "ib partition Default mtu 4K force",
                "ib partition Default defmember limited force",
                "ib partition mine pkey 0x0444 force",
                "interface ib 1/5/1 shutdown",
            ]
        ),
        max_size=5,
    ),
    st.booleans(),
)
History = tuple[dict[str, PartitionState], list[str], bool]
"""Partitions, lines of others, and whether somebody has set `defmember` of the partitions."""


def prepared(folder: str, history: History) -> MlnxosSwitch:
    switch = make_switch(Path(folder))
    made, lines, defmember = history
    lines = [*(each for name, p in made.items() for each in _lines(name, p)), *lines]
    lines += [f"ib partition {name} defmember full force" for name in made if defmember]
    for line in lines:
        assert switch.run_line(line) == "", line
    switch.run_line("configuration write")
    return switch


@settings(max_examples=60, deadline=None)
@given(history=HISTORIES, one=intents(), other=st.none() | intents())
def test_whatever_was_there_apply_settles_and_undo_is_exact(
    history: History, one: SwitchState, other: SwitchState | None
) -> None:
    """Also after an edit."""
    with TemporaryDirectory() as folder:
        switch = prepared(folder, history)
        first = switch.snapshot()
        exchange = talk(switch)
        baseline = baseline_of(exchange, one)
        assert switch.snapshot() == first
        sent = apply(exchange, one)
        assert diff_states(exchange.read(one).state, one) == ()
        assert apply(exchange, one) == ()
        theirs = (" Default", "interface", " others")
        assert not [line for line in sent if any(word in line for word in theirs)]
        if other is not None:
            edit(exchange, one, other, baseline)
            assert diff_states(exchange.read(other).state, other) == ()
        restore(exchange, other or one, baseline)
        assert switch.snapshot() == first
        assert switch.unmodelled == ()


@settings(max_examples=30, deadline=None)
@given(history=HISTORIES, desired=intents(), member=st.sampled_from(GUIDS[1:]))
def test_what_others_put_in_stays(history: History, desired: SwitchState, member: str) -> None:
    stranger = "ff:ff:00:00:00:00:00:01"
    with TemporaryDirectory() as folder:
        switch = prepared(folder, history)
        exchange = talk(switch)
        baseline = baseline_of(exchange, desired)
        apply(exchange, desired)
        names = desired.ib.partitions if desired.ib else {}
        for name in names:
            switch.run_line(f"ib partition {name} member {stranger} type full force")
        switch.run_line("ib partition mine pkey 0x0777 force")
        switch.run_line(f"ib partition mine member {_pairs(member)} type full force")
        assert apply(exchange, desired) == ()
        restore(exchange, desired, baseline)
        left = switch.stored.running.partitions
        assert left["mine"].members == {member: "full"}
        for name in names:
            before = baseline.ib.partitions.get(name) if baseline.ib else None
            kept = {} if before is None else before.members
            assert left[name].members == kept | {"ffff000000000001": "full"}


def test_a_switch_without_priority_runs_no_subnet_manager(tmp_path: Path) -> None:
    spec = load_spec()
    second = spec.switches[1].model_copy(update={"sm_priority": None})
    plan = plan_fabric(spec.model_copy(update={"switches": (spec.switches[0], second)}))[1]
    switch = make_switch(tmp_path, "ib-leaf-02")
    exchange = talk(switch)
    assert apply(exchange, plan.desired) == ()
    switch.run_line("ib sm")
    switch.run_line("ib smnode ib-leaf-02 enable")
    assert switch.subnet_view().sm_runs
    assert apply(exchange, plan.desired) == ("ib smnode ib-leaf-02 disable",)
    assert not switch.subnet_view().sm_runs


def test_another_host_name_than_the_files_is_refused_by_the_switch(tmp_path: Path) -> None:
    exchange = talk(make_switch(tmp_path, "switch-d2b2e2"))
    with pytest.raises(DeviceError, match="sm-state` was refused: % SM node ib-leaf-01"):
        exchange.read(DESIRED)


def test_a_changed_key_tells_what_breaks(tmp_path: Path) -> None:
    switch = make_switch(tmp_path)
    switch.run_line("ib partition training pkey 0x0666 force")
    outcome = talk(switch).converge(DESIRED, lambda r: target_of_apply(r.state, DESIRED))
    assert outcome.interrupts == ("partition training: pkey: 0x0666 -> 0x0101",)
