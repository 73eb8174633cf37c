"""The law of every step, on random beginnings: converge leaves no difference, undo no trace."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.hypervisor.esxi_lab import make_plan, make_spec, running, with_release

pytestmark = pytest.mark.lab

TRUTH = st.sampled_from(("TRUE", "FALSE", "true", "unset"))
KEYS = st.fixed_dictionaries(
    {},
    optional={
        "pciPassthru.allowP2P": TRUTH,
        "pciPassthru.RelaxACSforP2P": TRUTH,
        "pciPassthru0.cfg.gpu-pci-id": st.sampled_from(("0000:3b:00.0", "0000:01:00.0", "unset")),
        "numa.nodeAffinity": st.sampled_from(("0", "1", "0,1", "unset")),
        "pciPassthru.64bitMMIOSizeGB": st.sampled_from(("128", "256")),
        "sched.mem.minSize": st.sampled_from(("1", "262144", "unset")),
        "sched.cpu.affinity": st.sampled_from(("all", "0")),
    },
)


@settings(max_examples=2, deadline=None)
@given(
    first=KEYS,
    second=KEYS,
    on=st.tuples(st.booleans(), st.booleans()),
    kernel=st.sampled_from(("TRUE", "FALSE")),
    maintenance=st.booleans(),
)
def test_converge_then_undo(
    first: dict[str, str],
    second: dict[str, str],
    on: tuple[bool, bool],
    kernel: str,
    maintenance: bool,  # noqa: FBT001 - hypothesis passes it by name
) -> None:
    plan = make_plan(make_spec(release="8.0"))
    with (
        tempfile.TemporaryDirectory() as name,
        running(Path(name) / "esx01", with_release("8.0")) as lab,
    ):
        for vm, keys, runs in (("vm01", first, on[0]), ("vm02", second, on[1])):
            for key, value in keys.items():
                lab.fault("vmx", vm, key, value)
            if not runs:
                lab.fault("vm-power", vm, "off")
        lab.fault("kernel", "atsSupport", kernel)
        if maintenance and not any(on):
            lab.fault("maintenance", "on")
        before = lab.snapshot()
        done = lab.apply(plan)
        assert done.exit_status == 0, done.stderr
        assert lab.left(plan) == ()
        again = lab.apply(plan)
        assert '"changed":[]' in again.stdout, again
        undone = lab.undo(plan)
        assert undone.exit_status == 0, undone.stderr
        assert lab.snapshot() == before
        assert lab.host.unmodelled == ()
