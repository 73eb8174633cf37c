"""The .vmx of the emulated ESXi host: who writes it when, and what a power-on refuses."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.hypervisors.esxi.stored import Refusal
from lab.hypervisors.esxi.vmx import decimal_id, parse_vmx, render_vmx
from tests.lab_hypervisors.conftest import GPU, Bench

KEYS = st.from_regex(r"[A-Za-z][A-Za-z0-9.:-]{0,20}", fullmatch=True)
VALUES = st.text(st.characters(min_codepoint=32, max_codepoint=126, exclude_characters='"'))


@given(st.dictionaries(KEYS, VALUES, max_size=8))
def test_what_the_vmx_process_writes_it_reads_again(found: dict[str, str]) -> None:
    names = [key.lower() for key in found]
    once = {key: found[key] for key in found if names.count(key.lower()) == 1}
    assert parse_vmx(render_vmx(once), "x") == once


@pytest.mark.parametrize(
    ("text", "message"),
    [('a = "1"\nA = "2"\n', 'line 2: Variable "A" is already defined.'),
     ("a\n", "line 1: Syntax error."), ('a = "1\n', "line 1: Syntax error.")],
)  # fmt: skip
def test_a_broken_file_is_named_with_its_line(text: str, message: str) -> None:
    with pytest.raises(Refusal) as caught:
        parse_vmx(text, "/vmfs/x.vmx")
    assert caught.value.text == f'File "/vmfs/x.vmx" {message}'


def test_addresses_in_the_file_are_decimal() -> None:
    assert decimal_id("0000:0d:00.0") == "00000:013:00.0"
    assert decimal_id("0000:3b:1f.7") == "00000:059:31.7"


def test_an_edit_while_the_machine_runs_is_lost_at_power_off(bench: Bench) -> None:
    before = bench.vmx().read_text()
    bench.set_key("pciPassthru.allowP2P", "TRUE")
    bench.out("vim-cmd vmsvc/reload 1")
    bench.out("vim-cmd vmsvc/power.off 1")
    assert bench.vmx().read_text() == before


def test_an_edit_without_reload_is_lost_at_power_on(bench: Bench) -> None:
    before = bench.vmx().read_text()
    bench.out("vim-cmd vmsvc/power.off 1")
    bench.set_key("pciPassthru.allowP2P", "TRUE")
    bench.out("vim-cmd vmsvc/power.on 1")
    assert bench.vmx().read_text() == before
    assert not bench.machine.view("vm01").allow_p2p


def test_an_edit_with_reload_stays(bench: Bench) -> None:
    bench.out("vim-cmd vmsvc/power.off 1")
    bench.set_key("pciPassthru.allowP2P", "TRUE")
    edited = bench.vmx().read_text()
    bench.out("vim-cmd vmsvc/reload 1")
    bench.out("vim-cmd vmsvc/power.on 1")
    bench.out("vim-cmd vmsvc/power.off 1")
    assert bench.vmx().read_text() == edited


STEPS = st.lists(
    st.one_of(
        st.sampled_from(["power.on", "power.off", "reload"]),
        st.integers(0, 3).map(lambda node: f"edit {node}"),
    ),
    max_size=12,
)


@settings(max_examples=30, deadline=None)
@given(STEPS)
def test_who_wins_over_the_file_in_any_order_of_steps(steps: list[str]) -> None:
    """On disk: the edit, until a power change writes what hostd holds; it reads at a reload."""
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder))
        on, held, disk, runs = True, "", "", ""
        for step in steps:
            if step.startswith("edit"):
                disk = step.split()[1]
                bench.set_key("numa.nodeAffinity", disk)
                continue
            done = bench.ask(f"vim-cmd vmsvc/{step} 1")
            assert done.rc == (1 if step == f"power.{'on' if on else 'off'}" else 0)
            if step == "reload":
                held = held if on else disk
            elif done.rc == 0:
                on, disk = step == "power.on", held
                runs = held if on else runs
            found = parse_vmx(bench.vmx().read_text(), "x").get("numa.nodeAffinity", "")
            nodes = bench.machine.view("vm01").affinity
            assert (found, nodes) == (disk, frozenset((int(runs),)) if runs else None)


RESERVATION = (
    "Invalid memory setting: memory reservation (sched.mem.min) should be equal to memsize(262144)."
)
DEVICE = "Module 'DevicePowerOn' power on failed."


@pytest.mark.parametrize(
    ("key", "value", "message", "log"),
    [
        ("sched.mem.min", None, RESERVATION, ""),
        ("sched.mem.min", "131072", RESERVATION, ""),
        ("pciPassthru.use64bitMMIO", None, DEVICE, "exceeds limit (917504), failing"),
        ("pciPassthru.use64bitMMIO", "FALSE", DEVICE, "exceeds limit (917504), failing"),
        ("pciPassthru.64bitMMIOSizeGB", "32", DEVICE, "exceeds limit (8388608), failing"),
        ("pciPassthru0.id", "00000:03b:00.0", DEVICE, "AH No device hints found"),
        ("memsize", "1", "is already defined", ""),
    ],
)
def test_what_does_not_power_on(
    bench: Bench, key: str, value: str | None, message: str, log: str
) -> None:
    bench.out("vim-cmd vmsvc/power.off 1")
    bench.set_key(key, value)
    bench.out("vim-cmd vmsvc/reload 1")
    done = bench.ask("vim-cmd vmsvc/power.on 1")
    assert done.rc == 1
    assert done.out.startswith("Powering on VM:\nPower on failed\n")
    assert message in done.out
    assert log in (bench.vmx().parent / "vmware.log").read_text()
    assert bench.machine.running() == []
    assert bench.power == [("vm01", False)]


def test_a_device_that_vmkernel_owns_does_not_power_on(bench: Bench) -> None:
    bench.out("vim-cmd vmsvc/power.off 1")
    bench.out(f"esxcli hardware pci pcipassthru set -d {GPU} -e false -a")
    assert DEVICE in bench.ask("vim-cmd vmsvc/power.on 1").out
    bench.out(f"esxcli hardware pci pcipassthru set -d {GPU} -e true -a")
    bench.out("vim-cmd vmsvc/power.on 1")
    assert bench.machine.running() == ["vm01"]
