"""Parts of the pods in virtual machines that need no machine: what is changed, what is lacking."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from components.kubernetes.manifest import containers_in
from lab.pods.configs import MIRROR
from lab.pods.recipes import recipes_of, sriov_recipes
from lab.pods.site import load_plan
from lab.vm import ready, tools
from lab.vm.adapted import adapt
from lab.vm.image import HOSTS, NODES, network_file
from lab.vm.pods_story import SITE
from lab.vm.qemu import Wiring


def test_only_what_is_named_is_changed_in_the_plans_objects() -> None:
    _, plan = load_plan(SITE)
    planned = plan.pod_network.manifests
    changed = {
        after.name: after.body
        for before, after in zip(planned, adapt(planned), strict=True)
        if after != before
    }
    config = next(name for name in changed if name.startswith("sriovdp-config-"))
    assert set(changed) == {config, "sriov111", "sriov111-probe"}
    data = json.loads(json.dumps(changed[config]))["data"]["config.json"]
    assert json.loads(data) == {
        "resourceList": [
            {
                "resourceName": "sriov111",
                "resourcePrefix": "intel.com",
                "selectors": {"vendors": ["8086"], "devices": ["10ca"], "pfNames": ["enp1s0"]},
            }
        ]
    }
    attachment = json.loads(json.dumps(changed["sriov111"]))
    assert attachment["metadata"]["annotations"] == {
        "k8s.v1.cni.cncf.io/resourceName": "intel.com/sriov111"
    }
    rail = json.loads(attachment["spec"]["config"])
    assert (rail["type"], rail["vlan"], rail["cniVersion"]) == ("sriov", 111, "0.3.1")
    assert (rail["spoofchk"], rail["trust"]) == ("off", "on")


def test_every_image_that_the_plan_of_vfs_names_is_made(tmp_path: Path) -> None:
    spec, plan = load_plan(SITE)
    recipes = (*recipes_of(spec, tmp_path, tmp_path), *sriov_recipes(tmp_path, tmp_path))
    manifests = (*plan.pod_network.manifests, *plan.jobs.manifests)
    named = {str(each["image"]) for one in manifests for each in containers_in(one.body)}
    assert named <= {f"{MIRROR}/{each.name}" for each in recipes}


def test_a_change_of_one_image_leaves_the_other_where_it_is() -> None:
    assert HOSTS.folder.parent != NODES.folder.parent
    assert HOSTS.key != NODES.key


def test_guests_with_a_network_of_the_labs_own_have_a_way_out_of_it() -> None:
    assert "Gateway" not in network_file("10.0.2.15")
    assert network_file("10.29.0.11", "10.29.0.1").endswith("Gateway=10.29.0.1\n")
    alone, plugged = Wiring("tcg", 1), Wiring("tcg", 1, "guest")
    assert "restrict=on" in alone.management(1, 2201)
    assert plugged.management(2, 2201) == "tap,id=n0,ifname=guest2,script=no,downscript=no"


@pytest.fixture
def able(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine that has QEMU, and a device for networks; nothing is built."""
    (tmp_path / "tun").touch()
    monkeypatch.setattr(tools, "why_not", lambda: "")
    monkeypatch.setattr(ready, "TUN", tmp_path / "tun")
    monkeypatch.setattr(ready.shutil, "which", lambda name: f"/bin/{name}")  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType] - a stand-in
    monkeypatch.setattr(ready, "ROOM_BYTES", 0)
    return tmp_path


def test_a_machine_without_the_programs_says_how_to_get_them(able: Path) -> None:
    assert (
        ready.why_not(able) == "30 programs of nodes are not built yet; `make lab-vm` builds them"
    )


def test_a_machine_without_room_says_how_much_is_needed(
    able: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ready, "ROOM_BYTES", 2**60)
    said = ready.why_not(able / "not" / "there")
    assert f"{able} has" in said
    assert "RAILYARD_CACHE" in said


def test_a_machine_without_the_device_of_networks_says_so(
    able: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ready, "TUN", able / "none")
    assert "`modprobe tun`" in ready.why_not(able)


def test_what_qemu_lacks_comes_first(able: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "why_not", lambda: "this machine lacks debootstrap")
    assert ready.why_not(able) == "this machine lacks debootstrap"
