"""The hosts' plan of the example: relations that must hold, and the golden lines."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.hosts.plan import applied_state, plan_hosts
from components.hosts.scripts import boot_files_digest, boot_script_text, boot_unit_text
from components.hosts.state import HostState, diff_states, parse_state
from components.model.cluster import ClusterSpec
from components.remote.script import render_remote_command
from tests.golden.files import check_golden
from tests.golden.site import changed_spec, load_example


@pytest.fixture
def spec() -> ClusterSpec:
    return load_example("dgx-roce")


@pytest.mark.parametrize("name", ["mgmt01", "gpu01", "gpu02"])
def test_stdin_of_each_host_is_as_before(spec: ClusterSpec, name: str) -> None:
    plan = next(plan for plan in plan_hosts(spec, "dev") if plan.name == name)
    check_golden(f"dgx-roce/hosts/{name}.stdin", plan.converge.desired)


def test_every_host_gets_the_same_script(spec: ClusterSpec) -> None:
    texts = {(plan.converge.apply, plan.converge.undo) for plan in plan_hosts(spec)}
    assert len(texts) == 1


def test_settings_follow_the_one_rdma_intent(spec: ClusterSpec) -> None:
    rdma = {"dscp": 46, "priority": 5, "cnp_dscp": 56, "cnp_priority": 7, "mode": "lossless"}
    changed = changed_spec(spec, rdma=spec.rdma.model_copy(update=rdma))
    state = plan_hosts(changed)[1].desired.values
    card = "nic.0000:05:00.0."
    assert state[f"{card}dscp46_priority"] == "5"
    assert state[f"{card}dscp56_priority"] == "7"
    assert state[f"{card}pfc"] == "5"
    assert state[f"{card}ecn_priority_5"] == "on"
    assert state[f"{card}cnp_dscp"] == "56"
    assert state[f"{card}roce_tos"] == str(46 * 4 + 2)


def test_a_host_without_cards_owns_no_card_driver_or_boot_setting(spec: ClusterSpec) -> None:
    keys = plan_hosts(spec)[0].desired.values
    assert not [key for key in keys if key.startswith(("nic.", "driver.", "module."))]
    assert "unit.railyard-nics.enabled" not in keys
    assert keys["unit.k3s.limit_memlock"] == "infinity"


def test_without_peermem_the_module_is_not_ours(spec: ClusterSpec) -> None:
    defaults = spec.host_defaults.model_copy(update={"peermem": False})
    state = plan_hosts(changed_spec(spec, host_defaults=defaults))[1].desired.values
    assert "module.nvidia_peermem" not in state
    assert state["module.rdma_cm"] == "loaded"


def test_a_driver_package_is_named_outside_of_the_state(spec: ClusterSpec) -> None:
    package = spec.host_defaults.driver.model_copy(
        update={
            "kind": "doca_ofed",
            "version": "26.04-0.8.6.0",
            "source": "/opt/mirror/doca.deb",
            "sha256": "1" * 64,
        }
    )
    defaults = spec.host_defaults.model_copy(update={"driver": package})
    plan = plan_hosts(changed_spec(spec, host_defaults=defaults))[1]
    assert "driver_source=/opt/mirror/doca.deb\n" in plan.converge.desired
    assert f"driver_sha256={'1' * 64}\n" in plan.converge.desired
    assert plan.desired.values["driver.version"] == "26.04-0.8.6.0"
    assert applied_state(plan.converge.desired) == plan.desired


def test_the_applied_state_leaves_stack_and_repair_note_out(spec: ClusterSpec) -> None:
    plan = plan_hosts(spec, "dev")[1]
    assert applied_state(f"{plan.converge.desired}repair=1: mtu\n") == plan.desired


def test_the_boot_digest_covers_all_three_files(spec: ClusterSpec) -> None:
    state = plan_hosts(spec)[1].desired.values
    kept = sorted(f"{k}={v}\n" for k, v in state.items() if k.startswith(("nic.", "module.")))
    together = boot_unit_text() + boot_script_text() + "".join(kept)
    expected = hashlib.sha256(together.encode()).hexdigest()[:16]
    assert state["unit.railyard-nics.files"] == expected == boot_files_digest("".join(kept))


def test_scripts_fit_into_one_argument_of_the_kernel(spec: ClusterSpec) -> None:
    # MAX_ARG_STRLEN of Linux: one argument of execve holds 128 KiB.
    step = plan_hosts(spec)[1].converge
    assert len(render_remote_command(step.apply, step.deadline_s)) < 128 * 1024 // 2


KEYS = st.from_regex(r"\A[a-z0-9:]{1,12}(\.[a-z0-9_:]{1,12}){0,2}\Z")
VALUES = st.from_regex(r"\A[A-Za-z0-9 ._:/,+-]{0,20}\Z")


@given(st.dictionaries(KEYS, VALUES, max_size=20))
def test_a_state_survives_being_written_and_read(values: Mapping[str, str]) -> None:
    state = HostState(values)
    assert parse_state(state.render()) == HostState(dict(sorted(values.items())))
    assert diff_states(parse_state(state.render()), state) == ()


@given(st.dictionaries(KEYS, VALUES, min_size=1, max_size=8), st.data())
def test_one_changed_value_is_one_difference(values: dict[str, str], data: st.DataObject) -> None:
    key = data.draw(st.sampled_from(sorted(values)))
    actual = HostState(values | {key: values[key] + "x"})
    assert len(diff_states(actual, HostState(values))) == 1
