"""`railyard preflight` against emulated switches and an ESXi host, and nothing of them moved."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from components.artefacts.lock import Lock
from components.core.problem import Finding
from components.drift.applied import Applied
from components.model.cluster import ClusterSpec
from components.plan.make import make_plan
from components.preflight.run import run_preflight
from lab.hypervisors.config import EsxiConfig
from tests.golden.site import changed_spec
from tests.hypervisor.esxi_lab import CONFIG, SECRETS, STACK, make_spec, running, with_release
from tests.over_ssh.switch_room import SwitchRoom, switch_room
from tests.preflight.nowhere import causes, hosts_off
from tests.preflight.played import PLAYED

pytestmark = pytest.mark.lab
NAME = "leaf-01"


def look(spec: ClusterSpec, secrets: dict[str, str], device: str) -> dict[str, Finding]:
    site = spec.model_copy(update={"operators": type(spec.operators)()})
    plan = make_plan(site, STACK)
    found = run_preflight(site, plan, secrets, Applied(), Path("/nowhere"), Lock())
    return causes(found.findings, device)


def with_room(room: SwitchRoom, **changes: object) -> ClusterSpec:
    """The site of a switch that listens, and what its file says otherwise."""
    spec = room.lab.spec
    first = next(each for each in spec.switches if each.os == room.system)
    reached = {
        name: getattr(room.endpoint, name) for name in ("address", "port", "user", "host_key")
    }
    ssh = first.ssh.model_copy(update=reached)
    switch = first.model_copy(update={"ssh": ssh, **changes})
    return hosts_off(spec.model_copy(update={"switches": (switch,)}))


SWITCHES = {
    "onyx": {"release": "3.10.1014", "model": "SN3700"},
    "cumulus": {"release": "5.11.0", "model": "SN4600C"},
    "eos": {"release": "4.28.1F", "model": "DCS-7060PX5-64S"},
    "mlnxos": {"release": "3.10.1014", "model": "QM8700"},
}
"""System to what a file says wrong of its emulator; a login of SONiC that may only look is without
sudo, and ends there."""


@pytest.mark.parametrize("system", SWITCHES)
def test_a_switch_is_compared_and_its_login_is_tried(system: str, tmp_path: Path) -> None:
    with switch_room(system, tmp_path) as room:
        found = look(with_room(room), room.secrets, room.lab.plan.name)
        # The neighbours of this EOS belong to another cabling than the one-switch site's.
        assert {*found} == ({"identity"} if system == "eos" else set())
        room.switch.fault(["read-only", "on"])
        before = room.switch.snapshot()
        found = look(with_room(room, **SWITCHES[system]), room.secrets, room.lab.plan.name)
        assert room.switch.snapshot() == before
        assert room.switch.unmodelled == ()
    named = {"switch-release", "switch-model", "switch-rights"}
    assert {*found} - {"identity"} == named
    assert found["switch-release"].wanted == SWITCHES[system]["release"]
    assert found["switch-model"].wanted == SWITCHES[system]["model"]
    assert all(found[name].actual and found[name].fix for name in named)


def test_a_sonic_login_without_sudo_is_named(tmp_path: Path) -> None:
    with switch_room("sonic", tmp_path) as room:
        assert look(with_room(room), room.secrets, room.lab.plan.name) == {}
        room.switch.fault(["read-only", "on"])
        (found,) = look(with_room(room), room.secrets, room.lab.plan.name).values()
    assert found.rule == "sudo"
    assert "a password is required" in found.actual


def _as_it_is(spec: ClusterSpec) -> ClusterSpec:
    return spec


def _with_other_parts(spec: ClusterSpec) -> ClusterSpec:
    (hypervisor,) = spec.hypervisors
    first, second = hypervisor.vms
    machines = (
        first.model_copy(update={"gpu": "0000:41:00.0"}),
        second.model_copy(update={"name": "vm09"}),
    )
    other = hypervisor.model_copy(update={"vms": machines})
    environment = spec.environment.model_copy(update={"hypervisors": (other,)})
    first_host, second_host = spec.hosts
    hosts = (first_host, second_host.model_copy(update={"name": "vm09"}))
    return changed_spec(spec, environment=environment, hosts=hosts)


HYPERVISORS: dict[str, tuple[EsxiConfig, Callable[[ClusterSpec], ClusterSpec], dict[str, str]]] = {
    "as planned": (CONFIG, _as_it_is, {}),
    "another release": (
        with_release("7.0U1"),
        _as_it_is,
        {"esxi-release": "7.0U1", "ats-support": "7.0U1"},
    ),
    "a release before 7.0": (with_release("6.7U3"), _as_it_is, {"esxi-release": "6.7U3"}),
    "other parts": (
        CONFIG,
        _with_other_parts,
        {"esxi-pci": "absent", "esxi-vm": "absent"},
    ),
}
"""What is played, what the file says otherwise, and cause to the value that is shown."""


@pytest.mark.parametrize("name", HYPERVISORS)
def test_an_esxi_host_is_compared_with_the_file(name: str, tmp_path: Path) -> None:
    config, edit, wanted = HYPERVISORS[name]
    with running(tmp_path / "esx01", config) as lab:
        before = lab.snapshot()
        spec = hosts_off(edit(make_spec())).model_copy(update={"switches": ()})
        found = look(spec, dict(SECRETS), "esx01")
        assert lab.snapshot() == before
        assert lab.host.unmodelled == ()
    assert {cause: each.actual for cause, each in found.items()} == wanted
    assert all(each.fix for each in found.values())


def test_these_are_the_causes_that_are_played_here() -> None:
    esxi = {cause for _, _, wanted in HYPERVISORS.values() for cause in wanted}
    switches = {"switch-release", "switch-model", "switch-rights"}
    assert esxi | switches == PLAYED["tests/over_ssh/test_preflight_devices.py"]
