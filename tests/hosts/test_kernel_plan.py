"""Kernel settings and rail routes of a host, as planned from the file."""

from __future__ import annotations

import pytest

from components.checks.kernel import (
    check_guest_kernel,
    check_hugepages,
    check_sysctl_conflict,
)
from components.hosts.keys.ask import find_row
from components.hosts.scripts import boot_unit_text
from components.hosts.settings import kernel_settings, routing_settings
from components.model.cards import Sriov
from components.model.cluster import ClusterSpec
from components.model.hosts import Host, HostGroup
from components.model.kernel import KernelSettings
from tests.golden.site import changed_spec, load_example
from tests.hosts.host_text import desired_state


@pytest.fixture
def spec() -> ClusterSpec:
    return load_example("dgx-roce")


def with_addresses(spec: ClusterSpec, *, gateway: str | None = None) -> ClusterSpec:
    gpu01 = spec.hosts[1]
    nics = tuple(
        nic.model_copy(update={"address": f"10.10.{111 + rail}.11"})
        for rail, nic in enumerate(gpu01.nics)
    )
    rails = (spec.rails[0].model_copy(update={"gateway": gateway}), *spec.rails[1:])
    hosts = (spec.hosts[0], gpu01.model_copy(update={"nics": nics}), *spec.hosts[2:])
    return changed_spec(spec, hosts=hosts, rails=rails)


def with_kernel(spec: ClusterSpec, **kernel: object) -> ClusterSpec:
    wanted = KernelSettings.model_validate(kernel)
    return changed_spec(
        spec, host_defaults=spec.host_defaults.model_copy(update={"kernel": wanted})
    )


def kernel_keys(spec: ClusterSpec, host: Host) -> dict[str, str]:
    values = desired_state(spec, host).values
    return {k: v for k, v in values.items() if k.startswith(("kernel.", "route."))}


def test_cards_without_addresses_need_neither_routes_nor_arp(spec: ClusterSpec) -> None:
    assert kernel_keys(spec, spec.hosts[1]) == {
        "kernel.acs": "off",
        "kernel.cgroup": "v2",
        "kernel.limits.nvidia.memlock": "unlimited",
    }
    assert kernel_keys(spec, spec.hosts[0]) == {"kernel.cgroup": "v2"}


def test_each_address_of_several_rails_sends_by_its_own_card(spec: ClusterSpec) -> None:
    routed = with_addresses(spec, gateway="10.10.111.1")
    assert routing_settings(routed, routed.hosts[1]) == {
        "route.7400.rule": "from 10.10.111.11 lookup 7400",
        "route.7400.table": "10.10.111.0/24 dev enp5s0 scope link src 10.10.111.11,"
        "default via 10.10.111.1 dev enp5s0",
        "route.7401.rule": "from 10.10.112.11 lookup 7401",
        "route.7401.table": "10.10.112.0/24 dev enp132s0 scope link src 10.10.112.11",
    }
    values = desired_state(routed, routed.hosts[1]).values
    assert values["kernel.sysctl.net.ipv4.conf.enp132s0.arp_ignore"] == "1"
    assert values["kernel.sysctl.net.ipv4.conf.enp132s0.arp_announce"] == "2"
    assert values["kernel.sysctl.net.ipv4.conf.enp5s0.rp_filter"] == "2"


def test_a_card_on_a_leaf_is_on_the_subnet_of_that_leaf() -> None:
    spec = load_example("spine-leaf")
    gpu09 = spec.hosts[9]
    assert gpu09.name == "gpu09"
    nics = tuple(nic.model_copy(update={"address": "10.10.111.139"}) for nic in gpu09.nics[:1])
    host = gpu09.model_copy(update={"nics": nics})
    routed = changed_spec(spec, hosts=(*spec.hosts[:9], host, *spec.hosts[10:]))
    values = desired_state(routed, routed.hosts[9]).values
    assert values["nic.0000:18:00.0.address"] == "10.10.111.139/25"
    assert routing_settings(routed, routed.hosts[9]) == {
        "route.7400.rule": "from 10.10.111.139 lookup 7400",
        "route.7400.table": "10.10.111.128/25 dev rdma0 scope link src 10.10.111.139,"
        "default via 10.10.111.129 dev rdma0",
    }


def test_one_card_is_routed_only_where_its_rail_has_a_gateway() -> None:
    spec = load_example("esxi-roce")
    assert routing_settings(spec, spec.hosts[0]) == {}
    rail = spec.rails[0].model_copy(update={"gateway": "192.168.111.1"})
    routed = changed_spec(spec, rails=(rail,))
    assert "route.7400.rule" in routing_settings(routed, routed.hosts[0])
    assert not [key for key in kernel_keys(routed, routed.hosts[0]) if "arp" in key]


def test_source_routing_off_leaves_routes_and_arp_alone(spec: ClusterSpec) -> None:
    routed = with_kernel(with_addresses(spec), source_routing="off")
    assert not [
        key for key in kernel_keys(routed, routed.hosts[1]) if key.startswith(("route", "kernel.s"))
    ]


def test_what_the_user_writes_stands_before_what_rails_need(spec: ClusterSpec) -> None:
    name = "net.ipv4.conf.enp5s0.arp_ignore"
    routed = with_kernel(with_addresses(spec), sysctls={name: 2})
    assert kernel_keys(routed, routed.hosts[1])[f"kernel.sysctl.{name}"] == "2"


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("net.netfilter.nf_conntrack_max", "nf_conntrack"),
        ("net.bridge.bridge-nf-call-iptables", "br_netfilter"),
        ("net.ipv4.vs.conn_reuse_mode", "ip_vs"),
        ("sunrpc.tcp_slot_table_entries", "sunrpc"),
    ],
)
def test_a_setting_that_comes_with_a_module_brings_it_at_each_boot(
    spec: ClusterSpec, name: str, module: str
) -> None:
    """It passed while Kubernetes had loaded the module, and failed the boot unit before that."""
    asked = with_kernel(spec, sysctls={name: 1})
    assert kernel_settings(asked, asked.hosts[1])[f"module.{module}"] == "loaded"


def test_every_wish_is_one_key(spec: ClusterSpec) -> None:
    asked = with_kernel(
        spec,
        sysctls={"net.ipv4.tcp_rmem": "4096\t131072   16777216"},
        hugepages_2mib=512,
        hugepages_1gib_per_node=[4, 0],
        cpu_governor="performance",
        numa_balancing=False,
        acs="keep",
        iommu="pt",
        rdma_netns="shared",
    )
    settings = kernel_settings(asked, asked.hosts[1])
    kernel = {key: value for key, value in settings.items() if key.startswith("kernel.")}
    kept = {key: value for key, value in kernel.items() if not find_row(key).lost}
    assert kept == {
        "kernel.cgroup": "v2",
        "kernel.cmdline.iommu": "pt",
        "kernel.rdma_netns": "shared",
        "kernel.limits.nvidia.memlock": "unlimited",
    }
    assert {key: value for key, value in kernel.items() if key not in kept} == {
        "kernel.sysctl.net.ipv4.tcp_rmem": "4096 131072 16777216",
        "kernel.hugepages.2mib": "512",
        "kernel.hugepages.1gib.node0": "4",
        "kernel.hugepages.1gib.node1": "0",
        "kernel.governor": "performance",
        "kernel.numa_balancing": "off",
    }


def test_acs_stays_where_virtual_machines_take_the_vfs(spec: ClusterSpec) -> None:
    gpu02 = spec.hosts[2]
    passing = gpu02.nics[0].model_copy(update={"sriov": Sriov(autoprobe=False)})
    mixed = gpu02.model_copy(update={"nics": (passing, *gpu02.nics[1:])})
    passed = changed_spec(spec, hosts=(*spec.hosts[:2], mixed))
    assert kernel_keys(passed, passed.hosts[1])["kernel.acs"] == "off"
    assert "kernel.acs" not in kernel_keys(passed, passed.hosts[2])


def test_a_group_has_a_kernel_of_its_own(spec: ClusterSpec) -> None:
    group = HostGroup(name="quiet", kernel=KernelSettings(acs="keep", numa_balancing=False))
    gpu02 = spec.hosts[2].model_copy(update={"group": "quiet"})
    grouped = changed_spec(spec, hosts=(*spec.hosts[:2], gpu02), host_groups=(group,))
    assert kernel_keys(grouped, grouped.hosts[1])["kernel.acs"] == "off"
    keys = kernel_keys(grouped, grouped.hosts[2])
    assert "kernel.acs" not in keys
    assert keys["kernel.numa_balancing"] == "off"


def test_guests_and_instances_keep_the_acs_of_the_machine_below() -> None:
    for name in ("esxi-roce", "crusoe-k3s"):
        spec = load_example(name)
        assert not [k for host in spec.hosts for k in kernel_keys(spec, host) if "acs" in k]


def test_docker_under_k3s_gets_the_limit_too(spec: ClusterSpec) -> None:
    assert spec.k3s is not None
    plane = spec.k3s.model_copy(update={"container_runtime": "docker"})
    docker = changed_spec(spec, kubernetes=plane)
    limits = kernel_settings(docker, docker.hosts[1])
    for unit in ("docker", "containerd"):
        assert limits[f"unit.{unit}.limit_memlock"] == "infinity"


def test_the_boot_unit_runs_after_what_would_take_its_settings_away() -> None:
    after = " ".join(line for line in boot_unit_text().splitlines() if line.startswith("After="))
    for unit in ("systemd-sysctl", "systemd-networkd", "NetworkManager"):
        assert f"{unit}.service" in after


def test_settings_of_the_whole_host_may_still_be_strict_where_rails_are_routed(
    spec: ClusterSpec,
) -> None:
    strict = {"sysctls": {"net.ipv4.conf.all.rp_filter": 1}}
    assert list(check_sysctl_conflict(with_kernel(with_addresses(spec), **strict))) == []
    off = with_kernel(with_addresses(spec), **strict, source_routing="off")
    assert len(list(check_sysctl_conflict(off))) == 2


def test_bare_metal_may_be_asked_for_anything(spec: ClusterSpec) -> None:
    asked = with_kernel(spec, acs="off", iommu="off", cpu_governor="performance", hugepages_1gib=64)
    assert list(check_guest_kernel(asked)) == []
    assert list(check_hugepages(asked)) == []
