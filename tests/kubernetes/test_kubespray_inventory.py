"""The inventory and the variables that kubespray gets, and the files that it is held by."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from components.checks.site import load_checked_site
from components.core.errors import DeviceError
from components.kubernetes.kubernetes_plan import plan_kubernetes, plan_request
from components.kubernetes.kubespray.perform import edited_inventory
from components.kubernetes.kubespray.state import Cluster, Keeper, State, UnderWay, inventory_digest
from components.kubernetes.kubespray.tree import (
    bring_tree,
    make_environment,
    refusal_of_pip,
    tree_digest,
)
from components.kubernetes.kubespray.wanted import (
    HOSTS,
    OF_CONNECTION,
    VARIABLES,
    Source,
    is_owned_variable,
    owned_settings,
    parse_request,
    render_inventory,
    render_ssh_config,
)
from components.model.cluster import ClusterSpec
from components.model.kubernetes import Alignment
from components.model.sources import Proxy, Registry, Sources
from components.remote.step import Endpoint
from tests.golden.site import changed_spec
from tests.over_ssh.host_lab import PROJECT

EXAMPLE: Final = PROJECT / "examples" / "dgx-roce" / "kubespray.yaml"
OF_RELEASES: Final[dict[str, Any]] = yaml.safe_load(
    Path(__file__).with_name("variables.yaml").read_text(encoding="utf-8")
)


@pytest.fixture(scope="module")
def spec() -> ClusterSpec:
    return load_checked_site(EXAMPLE).spec_or_raise()


def with_alignment(spec: ClusterSpec) -> ClusterSpec:
    alignment = Alignment(reserved_cpus="0-3", job_cpus=48, job_memory_gib=400)
    assert spec.kubespray is not None
    plane = spec.kubespray.model_copy(update={"alignment": alignment})
    return changed_spec(spec, kubernetes=plane)


def files(spec: ClusterSpec) -> dict[str, Any]:
    request = plan_request(spec, "dev")
    found = render_inventory(request.wanted, request.endpoints)
    return {name: yaml.safe_load(text) for name, text in found.items()}


def test_nodes_groups_and_logins(spec: ClusterSpec) -> None:
    hosts = files(spec)[HOSTS]["all"]
    assert hosts["children"] == {
        "etcd": {"hosts": {"mgmt01": {}}},
        "kube_control_plane": {"hosts": {"mgmt01": {}}},
        "kube_node": {"hosts": {"gpu01": {}, "gpu02": {}}},
    }
    assert hosts["hosts"]["mgmt01"] == {
        "access_ip": "192.168.1.10",
        "ansible_host": "192.168.1.10",
        "ansible_port": 22,
        "ansible_ssh_common_args": "-F {{ railyard_secrets }}/ssh_config -o HostKeyAlias=mgmt01"
        " -o IdentitiesOnly=yes",
        "ansible_ssh_private_key_file": "{{ railyard_secrets }}/mgmt01",
        "ansible_user": "nvidia",
        "etcd_member_name": "mgmt01",
        "ip": "192.168.1.10",
    }


def test_the_control_plane_is_in_its_own_order(spec: ClusterSpec) -> None:
    request = plan_request(spec, "dev")
    order = ("mgmt01", "gpu02")  # gpu01 joins in a run that has not ended
    nodes = {
        name: replace(node, role="control_plane") for name, node in request.wanted.nodes.items()
    }
    wanted = replace(request.wanted, nodes=nodes, order=order)
    text = render_inventory(wanted, request.endpoints)[HOSTS]
    for group in ("kube_control_plane", "etcd"):
        assert list(yaml.safe_load(text)["all"]["children"][group]["hosts"]) == [*order, "gpu01"]
    assert text.count("etcd_member_name: ") == 3


@pytest.mark.parametrize(
    ("release", "version"),
    [("v2.26.0", "v1.34.7"), ("v2.27.1", "v1.34.7"), ("v2.28.0", "1.34.7"), ("v2.31.0", "1.34.7")],
)
def test_the_version_has_the_form_of_the_release(
    spec: ClusterSpec, release: str, version: str
) -> None:
    """Keys of `kubelet_checksums` at these tags of kubernetes-sigs/kubespray."""
    request = plan_request(spec, "dev")
    found = render_inventory(replace(request.wanted, release=release), request.endpoints)
    assert yaml.safe_load(found[VARIABLES])["kube_version"] == version


def test_variables_follow_from_the_file(spec: ClusterSpec) -> None:
    found = files(spec)[VARIABLES]
    assert found["kube_version"] == "1.34.7"
    assert found["kube_pods_subnet"] == "10.233.64.0/18"
    assert found["kube_network_plugin_multus"] is False
    assert found["calico_ip_auto_method"] == "kubernetes-internal-ip"
    assert found["containerd_extra_args"] == 'imports = ["/etc/containerd/conf.d/*.toml"]'


def test_every_variable_is_one_of_every_release(spec: ClusterSpec) -> None:
    proxy = Proxy(https="http://proxy.site1.example:3128")
    found = files(with_alignment(spec).model_copy(update={"proxy": proxy}))
    of_nodes = {name for host in found[HOSTS]["all"]["hosts"].values() for name in host}
    ours = {name for name in of_nodes | {*found[VARIABLES]} if not name.startswith("ansible_")}
    of_runs = {name for name in OF_CONNECTION if not name.startswith("ansible_")}
    assert {"kubelet_config_extra_args", "nri_enabled", "https_proxy"} <= ours
    assert (ours | of_runs) - {*OF_RELEASES["in_all"]} == set()


def test_workers_alone_have_the_fields_of_alignment(spec: ClusterSpec) -> None:
    found = files(with_alignment(spec))
    hosts = found[HOSTS]["all"]["hosts"]
    fields = {name: host.get("kubelet_config_extra_args") for name, host in hosts.items()}
    assert fields.pop("mgmt01") is None
    assert (
        fields["gpu01"]
        == fields["gpu02"]
        == {
            "cpuManagerPolicy": "static",
            "reservedSystemCPUs": "0-3",
            "topologyManagerPolicy": "best-effort",
            "topologyManagerScope": "container",
        }
    )
    assert not [name for name in found[VARIABLES] if "kubelet" in name]


@pytest.mark.parametrize(
    "variable",
    [
        *("kubelet_config_extra_args", "kubelet_cpu_manager_policy", "kube_reserved"),
        *("kubelet_topology_manager_policy", "kubelet_topology_manager_scope", "system_reserved"),
    ],
)
def test_alignment_and_a_variable_of_the_same_field_fight(spec: ClusterSpec, variable: str) -> None:
    assert is_owned_variable(with_alignment(spec), variable)
    assert not is_owned_variable(spec, variable)


def test_the_toolkit_of_the_operator_needs_nri(spec: ClusterSpec) -> None:
    assert files(spec)[VARIABLES]["nri_enabled"] is True
    assert is_owned_variable(spec, "nri_enabled")


def test_every_image_comes_from_the_registry_of_the_site(spec: ClusterSpec) -> None:
    registry = Registry(address="registry.site1.example:5000/all")
    settings = owned_settings(spec.model_copy(update={"sources": Sources(registry=registry)}))
    mirrors: Any = settings["containerd_registries_mirrors"]
    assert [each["prefix"] for each in mirrors] == [
        *("192.168.100.10:5000", "docker.io", "ghcr.io", "nvcr.io", "quay.io"),
        *("registry.k8s.io", "registry.site1.example:5000"),
    ]
    assert mirrors[5] == {
        "prefix": "registry.k8s.io",
        "server": "https://registry.site1.example:5000/v2/all/registry.k8s.io",
        "mirrors": [
            {
                "host": "https://registry.site1.example:5000/v2/all/registry.k8s.io",
                "capabilities": ["pull", "resolve"],
                "override_path": True,
            }
        ],
    }


def test_jump_hosts_are_gone_through_by_their_pinned_names() -> None:
    bastion = Endpoint("bastion", "jump", "192.0.2.1", 2200, "jump", "key", None, "jump_key")
    node = Endpoint("gpu01", "host", "10.0.0.5", 22, "ops", "key", jump=(bastion,))
    assert render_ssh_config([node], "/run/x").splitlines()[:7] == [
        "Host bastion",
        "  HostName 192.0.2.1",
        "  Port 2200",
        "  User jump",
        "  HostKeyAlias bastion",
        "  IdentityFile /run/x/bastion",
        "  IdentitiesOnly yes",
    ]
    assert "  StrictHostKeyChecking yes" in render_ssh_config([node], "/run/x").splitlines()


def test_the_request_comes_back_as_it_was(spec: ClusterSpec) -> None:
    request = plan_request(spec, "dev")
    assert parse_request(request.render()) == request


def test_one_step_and_access_from_where_kubeadm_leaves_it(spec: ClusterSpec) -> None:
    plan = plan_kubernetes(spec, "dev")
    assert plan is not None
    assert [step.name for step in plan.steps] == ["kubespray", "mgmt01-cluster-access"]
    assert plan.own_nodes == ("mgmt01", "gpu01", "gpu02")
    assert plan.server_url == "https://192.168.1.10:6443"


def test_a_hand_in_the_inventory_stops_the_next_run(spec: ClusterSpec, tmp_path: Path) -> None:
    keeper, request = Keeper(tmp_path), plan_request(spec, "dev")
    files = render_inventory(request.wanted, request.endpoints)
    keeper.write_inventory(files)
    there = Cluster(request.wanted, request.endpoints)
    ours = tuple(inventory_digest(name, text.encode()) for name, text in files.items())
    state = State(there, UnderWay(there, "scale.yml", "scale.yml: adds gpu03"), inventory=ours)
    assert edited_inventory(keeper, state) == ""
    edited = keeper.inventory / VARIABLES
    edited.write_text("kube_version: 1.33.0\n")
    assert edited_inventory(keeper, state).splitlines() == [
        f"{edited}: changed since Railyard wrote it; a run would use or overwrite the change.",
        (
            "  state  Kubernetes v1.34.7 by v2.31.0 on gpu01, gpu02, mgmt01; in the middle:"
            " scale.yml: adds gpu03"
        ),
        "  fix    put the settings to keep into kubernetes.extra_vars",
        f"  next   rm {edited}; then `pulumi up`, which writes the inventory again",
    ]
    assert edited_inventory(keeper, State()) == "", "a state that was lost knows only the names"
    edited.unlink()
    assert edited_inventory(keeper, state) == "", "the file is written again"


def test_a_file_that_is_not_ours_is_a_hand_too(tmp_path: Path) -> None:
    keeper = Keeper(tmp_path)
    for name in ("credentials/kubeadm_certificate_key.creds", "artifacts/admin.conf"):
        (keeper.inventory / name).parent.mkdir(parents=True)
        (keeper.inventory / name).write_text("of kubespray")
    assert edited_inventory(keeper, State()) == ""
    beside = keeper.inventory / "host_vars" / "gpu01.yaml"
    beside.parent.mkdir()
    beside.write_text("kubelet_max_pods: 400\n")
    assert f"{beside}: changed since Railyard wrote it" in edited_inventory(keeper, State())


def make_tree(folder: Path, version: str) -> str:
    folder.mkdir()
    (folder / "galaxy.yml").write_text(f"version: {version}\n")
    known = folder / "roles/kubespray_defaults/vars/main/checksums.yml"
    known.parent.mkdir(parents=True)
    known.write_text("kubelet_checksums: {amd64: {1.35.4: x, 1.34.7: y}}\n")
    return tree_digest(folder)


def test_a_tree_is_what_the_file_says(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    digest = make_tree(tree, "2.31.0")
    source = Source("path", str(tree))
    assert bring_tree(source, "v2.31.0", digest, "v1.34.7") == (tree, digest)
    with pytest.raises(DeviceError, match=r"says to be release v2\.31\.0, and the file says v2"):
        bring_tree(source, "v2.30.0", digest, "v1.34.7")
    with pytest.raises(DeviceError, match=r"choose one of v1\.35\.4, v1\.34\.7"):
        bring_tree(source, "v2.31.0", digest, "v1.36.0")
    (tree / "cluster.yml").write_text("[]\n")
    with pytest.raises(DeviceError, match=f"and the file says {digest}"):
        bring_tree(source, "v2.31.0", digest, "v1.34.7")


def test_requirements_without_hashes_are_refused(tmp_path: Path) -> None:
    lock = tmp_path / "requirements.lock"
    with pytest.raises(DeviceError, match="requirements cannot be read"):
        make_environment(str(lock), "python3")
    lock.write_text("# one\nansible-core==2.18.19\njinja2==3.1.6 \\\n    --hash=sha256:00\n")
    with pytest.raises(DeviceError, match=r"ansible-core==2\.18\.19 lacks a hash"):
        make_environment(str(lock), "python3")


def test_wheels_of_another_python_are_told() -> None:
    stderr = "ERROR: No matching distribution found for ansible-core==2.18.19\n"
    assert "these wheels are of another Python" in refusal_of_pip("the environment", stderr)
