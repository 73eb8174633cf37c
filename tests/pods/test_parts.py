"""Parts of `make lab-pods` that need no root: control groups, images, device plugin messages."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from components.kubernetes.manifest import containers_in
from lab.pods import enter, ready
from lab.pods.cards import field, render_devices, varint
from lab.pods.cgroups import leftovers, make_place, missing_controllers, remove_place
from lab.pods.configs import MIRROR, NodeAddresses, kubelet_config, render_files
from lab.pods.images import Recipe, write_layer
from lab.pods.recipes import recipes_of
from lab.pods.site import load_plan


def hierarchies(root: Path, *names: str) -> Path:
    for name in names:
        (root / name).mkdir(parents=True)
    return root


def test_a_place_in_version_1_takes_over_the_processors_of_the_group_above(tmp_path: Path) -> None:
    root = hierarchies(tmp_path, "cpuset", "memory")
    for setting, value in (("cpuset.cpus", "0-1\n"), ("cpuset.mems", "0\n")):
        (root / "cpuset" / setting).write_text(value)
        for place in ("railyard-pods", "railyard-pods/node01"):
            (root / "cpuset" / place).mkdir(parents=True, exist_ok=True)
            (root / "cpuset" / place / setting).write_text("\n")
    assert make_place("node01", root) == "/railyard-pods/node01"
    assert (root / "cpuset/railyard-pods/node01/cpuset.cpus").read_text() == "0-1\n"
    assert (root / "memory/railyard-pods/node01").is_dir()


def test_a_place_in_version_2_gets_the_controllers_handed_down(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpu memory\n")
    place = tmp_path / "railyard-pods"
    place.mkdir()
    (place / "cgroup.controllers").write_text("cpu memory\n")
    make_place("node01", tmp_path)
    for folder in (tmp_path, place):
        assert (folder / "cgroup.subtree_control").read_text() == "+cpu +memory"


def test_what_kubelet_needs_and_the_machine_lacks_is_named(tmp_path: Path) -> None:
    root = hierarchies(tmp_path / "one", "cpu", "cpuacct", "cpuset", "memory", "devices", "freezer")
    assert missing_controllers(root) == ["pids"]
    two = hierarchies(tmp_path / "two", ".")
    (two / "cgroup.controllers").write_text("cpu cpuset pids\n")
    assert missing_controllers(two) == ["memory"]


def test_all_groups_of_a_run_are_removed_the_deepest_first(tmp_path: Path) -> None:
    root = hierarchies(tmp_path, "cpu/railyard-pods/node01/kubepods/pod1", "cpu/other")
    assert remove_place(root) == []
    assert list(leftovers(root)) == []
    assert (root / "cpu/other").is_dir()


def test_a_group_with_something_in_it_stays_and_is_named(tmp_path: Path) -> None:
    root = hierarchies(tmp_path, "cpu/railyard-pods/node01")
    (root / "cpu/railyard-pods/node01/process").write_text("4711")
    assert remove_place(root) == [
        root / "cpu/railyard-pods/node01",
        root / "cpu/railyard-pods",
    ]


def test_device_plugin_messages_are_protocol_buffers() -> None:
    # protobuf's documentation, "Encoding": 150 is 96 01; field 2 with "testing" is 12 07 ….
    assert varint(150) == bytes.fromhex("9601")
    assert field(2, b"testing") == bytes.fromhex("120774657374696e67")
    assert render_devices(1, 1) == field(1, field(1, b"0") + field(2, b"Healthy"))
    assert render_devices(2, 1).endswith(field(1, field(1, b"1") + field(2, b"Unhealthy")))


def test_every_image_that_the_plan_names_is_made(tmp_path: Path) -> None:
    spec, plan = load_plan()
    made = {f"{MIRROR}/{each.name}" for each in recipes_of(spec, tmp_path, tmp_path)}
    manifests = (*plan.pod_network.manifests, *plan.jobs.manifests)
    named = {str(each["image"]) for one in manifests for each in containers_in(one.body)}
    jobs = [probe.job.image for probe in plan.acceptance.probes if probe.job]
    assert {*named, *jobs} <= made


def test_a_layer_holds_the_files_and_a_shell(tmp_path: Path) -> None:
    (tmp_path / "program").write_bytes(b"#!")
    recipe = Recipe("example.com/a/b:1", {"/opt/program": tmp_path / "program"}, busybox=True)
    assert (recipe.repository, recipe.tag) == ("example.com/a/b", "1")
    write_layer(recipe, tmp_path / "program", tmp_path / "layer.tar")
    with tarfile.open(tmp_path / "layer.tar") as tar:
        assert tar.getmember("opt/program").mode == 0o755
        assert tar.getmember("bin/sh").linkname == "busybox"
        assert tar.getmember("etc/passwd").size > 0


def test_kubelet_takes_version_1_where_the_machine_has_no_other() -> None:
    new, old = (
        kubelet_config(NodeAddresses("node01", 1), "/opt/lab/node", unified=unified)
        for unified in (True, False)
    )
    assert "failCgroupV1" not in new
    assert old["failCgroupV1"] is False
    assert new["cgroupRoot"] == "/railyard-pods/node01"


def test_pods_of_two_nodes_have_ranges_of_their_own() -> None:
    texts = [render_files(NodeAddresses(f"node0{number}", number)) for number in (1, 2)]
    path = "/var/lib/rancher/k3s/agent/etc/cni/net.d/10-flannel.conflist"
    ranges = [json.loads(text[path])["plugins"][0]["ipam"]["ranges"] for text in texts]
    assert ranges == [[[{"subnet": f"10.42.{number}.0/24"}]] for number in (1, 2)]


def test_a_machine_that_cannot_says_what_is_missing_and_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(enter.os, "geteuid", lambda: 1000)
    assert "run it as root" in ready.why_not(tmp_path)
    monkeypatch.setattr(enter, "why_not", lambda: "")
    assert "`make lab-pods` builds them" in ready.why_not(tmp_path)
