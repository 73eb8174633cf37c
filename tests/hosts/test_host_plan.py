"""The hosts' plan of the example: relations that must hold, and the golden lines."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.containers.container_plan import containers_tool
from components.core.key_values import HostState, diff_states, parse_state
from components.core.plain_text import placeholder
from components.hosts.host_plan import plan_hosts
from components.hosts.keys.ask import find_row
from components.hosts.scripts import (
    boot_files_digest,
    boot_script_text,
    boot_unit_text,
    host_tool,
)
from components.kubernetes.planes.node_files import kubernetes_tool
from components.model.cards import Firmware
from components.model.cluster import ClusterSpec
from components.remote.step import render_sent_call
from components.remote.tools import Tool, ToolCall
from tests.golden.site import changed_spec, load_example


@pytest.fixture
def spec() -> ClusterSpec:
    return load_example("dgx-roce")


def test_every_host_gets_the_same_script(spec: ClusterSpec) -> None:
    texts = {(plan.converge.apply, plan.converge.undo) for plan in plan_hosts(spec)}
    assert len(texts) == 1


def test_settings_follow_the_one_rdma_intent(spec: ClusterSpec) -> None:
    rdma = {"dscp": 46, "cnp_dscp": 56, "mode": "lossless"}
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
    assert plan.watched.settings_in(plan.converge.desired) == plan.desired


def test_the_applied_state_leaves_stack_and_repair_note_out(spec: ClusterSpec) -> None:
    plan = plan_hosts(spec, "dev")[1]
    assert plan.watched.settings_in(f"{plan.converge.desired}repair=1: mtu\n") == plan.desired


def test_the_boot_digest_covers_all_three_files(spec: ClusterSpec) -> None:
    state = plan_hosts(spec)[1].desired.values
    kept = sorted(
        f"{k}={v}\n"
        for k, v in state.items()
        if k.startswith(("nic.", "module.", "kernel.", "route."))
        and not k.endswith((".model", ".ats", ".network_manager"))
        and not k.startswith(
            ("kernel.cmdline", "kernel.rdma_netns", "kernel.limits", "kernel.cgroup")
        )
    )
    together = boot_unit_text() + boot_script_text() + "".join(kept)
    expected = hashlib.sha256(together.encode()).hexdigest()[:16]
    assert state["unit.railyard-nics.files"] == expected == boot_files_digest("".join(kept))


@pytest.mark.parametrize("tool", [host_tool(), containers_tool(), kubernetes_tool()])
def test_a_tool_that_is_sent_for_one_run_fits_into_one_argument_of_the_kernel(tool: Tool) -> None:
    # MAX_ARG_STRLEN of Linux: one argument of execve holds 128 KiB.
    assert len(render_sent_call(ToolCall(tool, "observe"), 60)) < 96 * 1024


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


@pytest.mark.parametrize(
    "name", ["dgx-roce", "mixed-fabric", "rail-optimised", "shared-rdma", "spine-leaf"]
)
def test_each_port_is_set_up_also_without_an_address_of_its_own(name: str) -> None:
    spec = load_example(name)
    for host, plan in zip(spec.hosts, plan_hosts(spec), strict=True):
        links = {key: each for key, each in plan.desired.values.items() if key.endswith(".link")}
        assert links == {f"nic.{nic.pci}.link": "up" for nic in host.nics}
        assert all(find_row(key).lost for key in links)


def guests(**defaults: object) -> ClusterSpec:
    spec = load_example("esxi-roce")
    return changed_spec(spec, host_defaults=spec.host_defaults.model_copy(update=defaults))


def test_a_guest_owns_ats_docker_and_its_cards_address() -> None:
    plan = plan_hosts(guests())[0]
    state, card = plan.desired.values, "nic.0000:0b:00.0."
    assert state[f"{card}ats"] == "on"
    assert state[f"{card}model"] == "ConnectX-6"
    assert (state[f"{card}address"], state[f"{card}link"]) == ("192.168.111.11/24", "up")
    assert state[f"{card}vfs"] == "0"
    assert f"{card}vf_mtu_bytes" not in state
    assert {key: value for key, value in state.items() if key.startswith("docker.")} == {
        "docker.engine": "present",
        "docker.service": "enabled/active",
        "docker.runtime": "nvidia-container-runtime",
        "docker.default_runtime": "nvidia",
    }
    assert state["toolkit.runtime"] == "present"
    assert not [key for key in state if key.startswith("unit.k3s")]


def test_the_proof_of_ats_is_a_step_of_its_own_and_watched() -> None:
    plan = plan_hosts(guests())[0]
    watched = plan.watched_verify
    assert plan.verify is not None
    assert watched is not None
    assert plan.verify not in plan.steps
    assert plan.verify.undo is None
    assert watched.settings_in(plan.verify.desired) == watched.desired
    assert dict(watched.desired.values) == {
        "nic.0000:0b:00.0.ats_active": "on",
        "nic.0000:0b:00.0.ats_current": "on",
    }


def test_without_ats_there_is_nothing_to_prove() -> None:
    plan = plan_hosts(guests(firmware=Firmware()))[0]
    assert plan.verify is None
    assert plan.watched_verify is None
    assert not [key for key in plan.desired.values if key.endswith(".ats")]


def test_docker_follows_the_runtime_of_k3s(spec: ClusterSpec) -> None:
    assert spec.k3s is not None
    plane = spec.k3s.model_copy(update={"container_runtime": "docker"})
    control, worker = plan_hosts(changed_spec(spec, kubernetes=plane))[:2]
    assert control.desired.values["docker.engine"] == "present"
    assert "docker.default_runtime" not in control.desired.values
    assert worker.desired.values["docker.default_runtime"] == "nvidia"
    assert not [key for key in plan_hosts(spec)[1].desired.values if key.startswith("docker.")]


def test_a_clouds_adapters_have_no_settings_of_ours(spec: ClusterSpec) -> None:
    worker = spec.hosts[1].model_copy(update={"nics": (), "hcas": 8})
    balancer = spec.hosts[0].model_copy(update={"name": "lb", "role": "balancer"})
    plans = plan_hosts(changed_spec(spec, hosts=(spec.hosts[0], worker, balancer)))
    keys = plans[1].desired.values
    looked_at = {key for key in keys if key.startswith(("nic.", "driver."))}
    assert looked_at == {"driver.present", "driver.fabric_manager"}
    assert keys["module.nvidia_peermem"] == "loaded"
    assert keys["unit.railyard-nics.enabled"] == "enabled"
    assert not [key for key in plans[2].desired.values if key.startswith("unit.")]


def test_an_address_that_is_not_known_yet_passes_through(spec: ClusterSpec) -> None:
    hole = placeholder("node-0", "public_ip")
    ssh = spec.hosts[1].way.model_copy(update={"address": hole})
    host = spec.hosts[1].model_copy(update={"ssh": ssh})
    plan = plan_hosts(changed_spec(spec, hosts=(spec.hosts[0], host)))[1]
    assert plan.endpoint.address == hole
    assert f"hosts.gpu01={hole}\n" in plan.converge.desired


def test_an_instance_that_we_make_is_told_its_own_name_alone() -> None:
    for plan in plan_hosts(load_example("crusoe-k3s")):
        named = [key for key in plan.desired.values if key.startswith("hosts.")]
        assert named == [f"hosts.{plan.name}"]


def test_only_nodes_need_control_groups_v2() -> None:
    spec = load_example("mixed-nodes")
    outside = {each.name for each in spec.hosts if each.role in {"storage", "login"}}
    without = {each.name for each in plan_hosts(spec) if "kernel.cgroup" not in each.desired.values}
    assert without == outside != set()


@pytest.mark.parametrize(("version", "wanted"), [("v1.36.3+k3s1", "v2"), ("v1.34.2+k3s1", None)])
def test_control_groups_v2_are_demanded_by_the_version(
    spec: ClusterSpec, version: str, wanted: str | None
) -> None:
    assert spec.kubernetes is not None
    kubernetes = spec.kubernetes.model_copy(update={"version": version})
    for plan in plan_hosts(changed_spec(spec, kubernetes=kubernetes)):
        assert plan.desired.values.get("kernel.cgroup") == wanted
