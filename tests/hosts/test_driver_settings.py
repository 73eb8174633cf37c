"""What a host's drivers shall be: versions in their spellings, groups, and the GPU's side."""

from __future__ import annotations

import pytest

from components.acceptance.acceptance_plan import plan_acceptance
from components.catalogue.operator_versions import gpu_branch, parse_driver_version
from components.hosts.host_plan import plan_hosts
from components.hosts.settings import kernel_settings
from components.hosts.software import DRIVER_DEADLINE_S, driver_parameters, driver_settings
from components.model.cards import DriverPackage
from components.model.cluster import ClusterSpec
from components.model.owners import has_own_rdma_driver
from components.model.worker_kinds import with_instances
from components.operators.operators_plan import gpu_operator_values
from tests.golden.site import load_example
from tests.over_ssh.host_lab import load_spec

SHA = "1" * 64


@pytest.fixture(scope="module")
def spec() -> ClusterSpec:
    return load_spec("driver-settings")


def changed(spec: ClusterSpec, **defaults: object) -> ClusterSpec:
    """The site with other defaults of its hosts, validated as a file is."""
    plain = spec.model_dump(mode="json")
    groups = defaults.pop("host_groups", ())
    plain["host_defaults"] |= defaults
    plain["host_groups"] = groups
    for host in plain["hosts"]:
        host["group"] = "odd" if groups and host["name"] == "gpu02" else None
    return ClusterSpec.model_validate(plain)


def settings(spec: ClusterSpec, name: str = "gpu01") -> dict[str, str]:
    host = spec.host(name)
    assert host is not None
    found = dict(driver_settings(spec, host))
    if "driver.fabric_manager" in found:  # of every host with GPUs and a GPU driver of its own
        assert host.gpus
        assert found.pop("driver.fabric_manager") == "ready"
    return found


def modules(spec: ClusterSpec, name: str = "gpu01") -> set[str]:
    host = spec.host(name)
    assert host is not None
    return {key for key in kernel_settings(spec, host) if "peer" in key}


@pytest.mark.parametrize(
    ("text", "line", "exact", "family", "system"),
    [
        ("5.4-1.0.3.0", "5.4", "5.4-1.0.3.0", None, None),
        ("4.7-3.2.9.0", "4.7", "4.7-3.2.9.0", None, None),
        ("24.10-1.1.4.0.200", "24.10", "24.10-1.1.4.0.200", None, None),
        ("MLNX_OFED_LINUX-5.2-2.2.4.0", "5.2", "5.2-2.2.4.0", "mlnx_ofed", None),
        ("MLNX_OFED_LINUX-5.2-2.2.4.0-ubuntu20.04-x86_64.tgz", "5.2", "5.2-2.2.4.0", "mlnx_ofed",
         "ubuntu20.04"),
        ("MLNX_OFED_LINUX-5.8-3.0.7.0-sles15sp4-x86_64", "5.8", "5.8-3.0.7.0", "mlnx_ofed",
         "sles15sp4"),
        ("OFED-internal-25.10-1.7.1.413", "25.10", "25.10-1.7.1.413", "doca_ofed", None),
        ("OFED-internal-25.10-1.7.1.413:", "25.10", "25.10-1.7.1.413", "doca_ofed", None),
        ("OFED-internal-25.10-1.7.1", "25.10", "25.10-1.7.1.0", "doca_ofed", None),
        ("3.2.0", "25.10", None, "doca_ofed", None),
        ("2.9.1", "24.10", None, "doca_ofed", None),
        ("doca-host_3.2.0-125000-25.10-ubuntu2204_amd64.deb", "25.10", None, "doca_ofed",
         "ubuntu22.04"),
        ("doca-host-3.2.0-125000_25.10_rhel9.x86_64.rpm", "25.10", None, "doca_ofed", "rhel9"),
        ("doca-host-2.9.1-018000_24.10_sles15sp6.x86_64.rpm", "24.10", None, "doca_ofed",
         "sles15sp6"),
    ],
)  # fmt: skip
def test_a_version_is_read_in_each_spelling(
    text: str, line: str, exact: str | None, family: str | None, system: str | None
) -> None:
    found = parse_driver_version(text)
    assert found is not None
    assert (found.line, found.exact, found.family, found.system) == (line, exact, family, system)


@pytest.mark.parametrize("text", ["latest", "9.9.9", "5.4", "MLNX_OFED_LINUX-5", "24.10-1"])
def test_what_is_no_version_is_not_guessed(text: str) -> None:
    assert parse_driver_version(text) is None


@pytest.mark.parametrize(("text", "branch"), [("580.126.20", 580), ("470.1", 470), ("", None)])
def test_the_branch_of_a_gpu_driver(text: str, branch: int | None) -> None:
    assert gpu_branch(text) == branch


def test_a_package_is_watched_with_its_modules(spec: ClusterSpec) -> None:
    package = {"kind": "mlnx_ofed", "version": "MLNX_OFED_LINUX-5.4-1.0.3.0",
               "source": "/opt/a.tgz", "sha256": SHA}  # fmt: skip
    assert settings(changed(spec, driver=package)) == {
        "driver.kind": "mlnx_ofed",
        "driver.version": "5.4-1.0.3.0",
        "driver.modules": "built",
        "driver.loaded": "installed",
    }
    left = settings(changed(spec, driver=package | {"rebuild": False}))
    assert not {"driver.modules", "driver.loaded"} & set(left)


def adapters_only(spec: ClusterSpec) -> ClusterSpec:
    """The site with InfiniBand adapters in place of the NICs of its workers."""
    hosts = (
        host.model_copy(update={"nics": (), "hcas": 8}) if host.nics else host
        for host in spec.hosts
    )
    return spec.model_copy(update={"hosts": tuple(hosts)})


def test_infiniband_adapters_get_the_package_that_the_operator_builds_on(
    spec: ClusterSpec,
) -> None:
    package = {"kind": "doca_ofed", "version": "3.2.0", "source": "/opt/a.deb", "sha256": SHA}
    site = adapters_only(changed(spec, driver=package))
    assert has_own_rdma_driver(site)
    plan = next(plan for plan in plan_hosts(site) if plan.name == "gpu01")
    assert plan.desired.values["driver.kind"] == "doca_ofed"
    assert plan.desired.values["driver.line"] == "25.10"
    assert "driver_source=/opt/a.deb\n" in plan.converge.desired
    assert plan.converge.deadline_s == DRIVER_DEADLINE_S
    assert not [key for key in settings(site, "mgmt01") if key.startswith("driver.")]


def test_inbox_is_not_demanded_of_infiniband_adapters(spec: ClusterSpec) -> None:
    site = changed(spec, driver={"kind": "inbox"})
    assert settings(adapters_only(site)) == {}  # their image may carry DOCA-OFED


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        ({}, {"driver.present": "ofed"}),
        ({"at_least": "5.2-2.2.4.0"}, {"driver.present": "ofed 5.2-2.2.4.0"}),
        ({"flavour": "doca", "at_least": "3.2.0"}, {"driver.present": "doca 25.10"}),
        ({"flavour": "inbox"}, {"driver.kind": "inbox"}),
        ({"flavour": "any"}, {}),
    ],
)
def test_a_driver_that_is_present_is_only_looked_at(
    spec: ClusterSpec, asked: dict[str, str], wanted: dict[str, str]
) -> None:
    site = changed(spec, driver={"kind": "present", **asked})
    assert settings(site) == wanted
    assert driver_parameters(site, site.workers[0]) == {}


def test_a_cloud_brings_the_driver_of_its_adapters() -> None:
    cloud = load_example("crusoe-k3s")
    driver = DriverPackage(kind="doca_ofed", version="3.2.0", source="/opt/a.deb", sha256=SHA)
    defaults = cloud.host_defaults.model_copy(update={"driver": driver})
    site = with_instances(cloud.model_copy(update={"host_defaults": defaults}))
    worker = site.workers[0]
    assert worker.hcas
    assert "driver.kind" not in driver_settings(site, worker)
    assert driver_parameters(site, worker) == {}


def test_a_doca_release_names_a_line_only(spec: ClusterSpec) -> None:
    package = {"kind": "doca_ofed", "version": "3.2.0", "source": "/opt/a.deb", "sha256": SHA}
    found = settings(changed(spec, driver=package))
    assert found["driver.line"] == "25.10"
    assert "driver.version" not in found


def test_a_repository_is_a_setting_and_its_key_a_parameter(spec: ClusterSpec) -> None:
    where = {"url": "/srv/doca", "key": "/srv/key.asc", "key_sha256": "ab" * 32}
    package = {"kind": "doca_ofed", "version": "3.2.0", "repository": where,
               "packages": ["doca-ofed", "doca-extra"]}  # fmt: skip
    site = changed(spec, driver=package)
    host = site.host("gpu01")
    assert host is not None
    assert settings(site)["driver.repository"] == "/srv/doca abababababab"
    assert driver_parameters(site, host) == {
        "driver_key": "/srv/key.asc",
        "driver_key_sha256": "ab" * 32,
        "driver_packages": "doca-ofed doca-extra",
    }


def test_each_group_has_its_own_driver_and_path(spec: ClusterSpec) -> None:
    site = changed(
        spec,
        gpu_direct="dma_buf",
        gpu_driver_version="580.126.20",
        host_groups=[{"name": "odd", "peermem": True, "gpu_driver_version": "470.1"}],
    )
    assert modules(site) == set()
    first = settings(site)
    assert (first["driver.dma_buf"], first["driver.gpu_modules"]) == ("ready", "open")
    assert first["driver.gpu_host"] == "580.126.20"
    assert modules(site, "gpu02") == {"module.nvidia_peermem"}
    assert settings(site, "gpu02") == {"driver.present": "ofed", "driver.gpu_host": "470.1"}


@pytest.mark.parametrize(
    ("defaults", "module", "required"),
    [
        ({}, {"module.nvidia_peermem"}, True),
        ({"peermem": False}, set[str](), False),
        ({"gpu_direct": "none"}, set[str](), False),
        ({"gpu_direct": "dma_buf"}, set[str](), True),
        ({"gpu_direct": "nv_peer_mem"}, {"module.nv_peer_mem"}, True),
    ],
)
def test_one_word_decides_module_and_proof(
    spec: ClusterSpec, defaults: dict[str, object], module: set[str], *, required: bool
) -> None:
    site = changed(spec, **defaults)
    assert modules(site) == module
    plan = plan_acceptance(site)
    assert plan.limits.require_gdr is required


def test_the_operators_driver_follows_the_hosts(spec: ClusterSpec) -> None:
    package = {"kind": "doca_ofed", "version": "3.2.0", "source": "/opt/a.deb", "sha256": SHA}
    site = changed(spec, gpu_direct="dma_buf", driver=package)
    gpu = site.operators.gpu
    assert gpu is not None
    values = gpu_operator_values(site, gpu.model_copy(update={"driver": "operator"}))
    assert values["driver"] == {
        "enabled": True,
        "rdma": {"enabled": False, "useHostMofed": True},
        "kernelModuleType": "open",
    }
    owned = changed(spec, gpu_driver="operator")
    assert settings(owned)["driver.gpu_host"] == "absent"
    assert modules(owned) == set()  # the container loads nvidia_peermem


def test_the_operators_driver_stands_alone_however_it_is_said(spec: ClusterSpec) -> None:
    assert "driver.gpu_host" not in settings(spec)
    assert spec.operators.gpu is not None
    owner = spec.operators.gpu.model_copy(update={"driver": "operator"})
    operators = spec.operators.model_copy(update={"gpu": owner})
    found = settings(spec.model_copy(update={"operators": operators}))
    assert found["driver.gpu_host"] == "absent"
