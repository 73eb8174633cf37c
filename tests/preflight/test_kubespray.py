"""What this machine lacks to run kubespray: tree, Python environment, OpenSSH's client."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from components.checks.site import load_checked_site
from components.core.problem import Finding
from components.kubernetes.kubespray.tree import tree_digest
from components.model.cluster import ClusterSpec
from components.model.kubernetes import KubespraySource
from components.plan.make import make_plan
from components.preflight.run import look_at_kubespray
from components.preflight.wants import HostWants, wants_of
from lab.kubespray.source import PROJECT, kubespray_source
from tests.golden.site import EXAMPLES, load_example
from tests.graph.locked import lock_of
from tests.preflight.played import PLAYED

SPEC: Final = load_checked_site(EXAMPLES / "dgx-roce" / "kubespray.yaml").spec_or_raise()
LAB_TREE: Final = PROJECT / "lab" / "kubespray" / "tree"


def site(**changes: object) -> ClusterSpec:
    """The example with the lab's own tree, no requirement at all, and some keys otherwise."""
    assert SPEC.kubespray is not None
    lab = kubespray_source()
    source = KubespraySource.model_validate(lab["source"])
    own: dict[str, object] = {"source": source, "requirements": "none.lock", "python": "/none"}
    plane = SPEC.kubespray.model_copy(update={**own, **changes})
    return SPEC.model_copy(update={"kubernetes": plane})


def look(spec: ClusterSpec, project: Path = PROJECT) -> dict[str, Finding]:
    return {each.rule: each for each in look_at_kubespray(spec, project)}


def test_another_tree_is_named_with_its_checksum() -> None:
    wrong = KubespraySource(release="v2.31.0", path="lab/kubespray/tree", tree_sha256="1" * 64)
    found = look(site(source=wrong))["kubespray-tree"]
    assert f"its files have the checksum {tree_digest(LAB_TREE)}" in found.actual
    assert found.wanted == "kubespray v2.31.0"
    assert found.fix == "look at what changed there; then write the new tree_sha256"
    assert "kubespray-tree" not in look(site())


def test_an_environment_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    gone = look(site())["kubespray-environment"]
    assert "none.lock: kubespray's requirements cannot be read" in gone.actual
    assert gone.fix == "correct kubernetes.requirements; it is relative to the project"
    (tmp_path / "bare.lock").write_text("ansible==11.13.0\n")
    (tmp_path / "good.lock").write_text("")
    bare = look(site(requirements="bare.lock"), tmp_path)["kubespray-environment"]
    assert "ansible==11.13.0 lacks a hash" in bare.actual
    no_python = look(site(requirements="good.lock"), tmp_path)["kubespray-environment"]
    assert "kubernetes.python: /none: " in no_python.actual


def test_the_client_of_ssh_is_looked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert "kubespray-ssh" not in look(site())
    monkeypatch.setenv("PATH", str(tmp_path))
    assert look(site())["kubespray-ssh"].fix == "apt-get install openssh-client"


def test_a_site_without_kubespray_is_not_asked_for_it() -> None:
    assert look(load_example("dgx-roce")) == {}


def wants() -> dict[str, HostWants]:
    return dict(wants_of(SPEC, make_plan(SPEC, "x"), lock_of(SPEC)))


def test_nodes_are_asked_for_the_ports_of_kubeadm_and_for_python() -> None:
    asked = wants()
    server, worker = asked["mgmt01"], asked["gpu01"]
    assert server.ports == (6443, 10250, 2379, 2380, 10257, 10259)
    assert worker.ports == (6443, 10250), "the first is its own proxy's"
    assert worker.peers == (("192.168.1.10", 6443), ("192.168.2.12", 10250))
    assert server.peers == (("192.168.2.11", 10250),)
    assert "python of Ansible" in worker.render({})
    assert (server.unit, worker.unit) == ("kubelet", "kubelet")
    assert not server.cgroup_v2, "Kubernetes v1.34 takes both"


def test_these_are_the_causes_that_are_played_here() -> None:
    causes = {"kubespray-tree", "kubespray-environment", "kubespray-ssh"}
    assert causes == PLAYED["tests/preflight/test_kubespray.py"]
