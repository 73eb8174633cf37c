"""What a type of one field refuses, the JSON schema refuses too, and no more."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from components.core.problem import Json
from components.model.cards import DriverPackage
from components.model.environments import CloudIb, CrusoeProvision, Hypervisor, VirtualMachine
from components.model.fabric import Routing
from components.model.hosts import Host, Nic, User
from components.model.infiniband import IbPartition
from components.model.jobs import Acceptance, Containers
from components.model.kernel import KernelSettings
from components.model.kubernetes import K3sPlane
from components.model.pod_network import PodNetwork
from components.model.units import Ssh
from tests.checks.json_schema import find_schema_errors

_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAjcWkKbzsgcpbZ0Gp5aPnzxdCsz2R4QMQ5HnPtrwJXr"
_DIGEST = f"sha256:{'0' * 64}"


def _model_takes(model: type[BaseModel], key: str, value: Json) -> bool:
    try:
        model.model_validate({key: value})
    except ValidationError as error:
        return all(part["loc"][:1] != (key,) for part in error.errors())
    return True


def _schema_takes(model: type[BaseModel], key: str, value: Json) -> bool:
    schema: dict[str, Any] = model.model_json_schema(mode="validation")
    part: dict[str, Any] = {"$defs": schema.get("$defs", {}), **schema["properties"][key]}
    return not find_schema_errors(part, value)


_CASES: tuple[tuple[type[BaseModel], str, tuple[Json, ...], tuple[Json, ...]], ...] = (
    (Acceptance, "nccl_max_size",
     ("1G", "2G", "1024M", "1048576K", "1073741824", "01G", "9999999999"),
     ("0G", "1023M", "999M", "1048575K", "1073741823", "big", "2GB", "-1G", "", "2g")),
    (PodNetwork, "resource_prefix",
     ("intel.com", "rdma", "a.kubernetes.io.example"),
     ("kubernetes.io", "x.kubernetes.io", "Intel.com", "a..b", "a_b", "a." * 200 + "a")),
    (PodNetwork, "shared_plugin",
     ("ghcr.io/mellanox/k8s-rdma-shared-dev-plugin:v1.5.3", f"ghcr.io/a/b@{_DIGEST}"),
     ("ghcr.io/mellanox/k8s-rdma-shared-dev-plugin", "ghcr.io/mellanox/plugin:latest",
      "registry.cn-shanghai.aliyuncs.com/acs/rdma-device-plugin:v1.0.0",
      "registry-cn-hangzhou.ack.aliyuncs.com/acs/rdma-device-plugin:v1.0.0")),
    (PodNetwork, "ipam", ("whereabouts", "dhcp", "static", "nv-ipam"), ("host-local", "")),
    (User, "name", ("nvidia", "a-b_1"), ("root", "www-data", "Nvidia", "1a", "", "a" * 33)),
    (Nic, "netdev", ("enp5s0", "ens1f0np0"), ("..", "a=b", "enp132s0f0np0v01", "")),
    (Nic, "address", ("10.10.111.11",), ("10.10.111.11/24", "enp5s0", "0.0.0.0", "224.0.0.1")),  # noqa: S104
    (Host, "name", ("gpu01", "localhost1"), ("localhost", "kubernetes", "GPU01")),
    (Host, "node_ip", ("192.168.2.11",), ("gpu01.example", "239.1.1.1", "255.255.255.255")),
    (Ssh, "address", ("192.168.2.11", "gpu01.example", "gpu01", "2001:db8::11", "fd00::1"),
     ("fe80::1", "::", "ff02::1", "[2001:db8::11]",
      "root@gpu01", "0.0.0.0", "240.0.0.1", "1.2.3", "-a", "a-.b", "1.2.3.4:22", "")),  # noqa: S104
    (Ssh, "host_key", (_KEY, f"{_KEY} root@leaf-01"), ("ssh-dss AAAAB3NzaC1kc3M=", "AAAA", "")),
    (KernelSettings, "sysctls",
     ({"vm.swappiness": 0}, {"net.ipv4.conf.eth0/100.rp_filter": 1},
      {"net.ipv4.tcp_rmem": "4096 87380  6291456"}, {"kernel.domainname": "node 007"},
      {"net.ipv4.ip_local_port_range": "1024 65535"}, {"net.core.default_qdisc": "fq_codel"},
      {"net.core.flow_limit_cpu_bitmap": "00000010"}, {"kernel.sched_rt_runtime_us": -1},
      {"net.ipv4.tcp_fastopen_key": "00000000-00000001-00000002-00000003"}),
     ({"net..core": 1}, {"net": 1}, {"net.core.": 1}, {"vm/../../etc": 1}, {"vm.drop_caches": 1},
      {"vm.nr_hugepages": 8}, {"vm.swappiness": "010"}, {"kernel.msgmax": "0x10000"},
      {"net.core.rmem_max": "256M"}, {"net.ipv4.tcp_rmem": "4096 87380 06291456"},
      {"net.ipv4.ip_local_port_range": "1024-65535"}, {"vm.swappiness": True})),
    (CrusoeProvision, "endpoint",
     ("https://proxy.example/v1", "http://127.42.0.3:8080/v1", "http://localhost"),
     ("http://10.0.0.1/v1", "api.cloud.crusoe.ai", "ftp://a", "https://", "http://localhost.b")),
    (CrusoeProvision, "location", ("us-east1-a",), ("us-east1", "US-east1-a", "home")),
    (CloudIb, "api_allowed", (["203.0.113.0/24"],), ([], ["203.0.113.0/24", "0.0.0.0/0"])),
    (Containers, "image",
     ("a.example/b:1", f"a.example:5000/b@{_DIGEST}", f"a.example/b:latest@{_DIGEST}",
      "a.example:5000/b:1"),
     ("a.example/b", "a.example/b:latest", "a.example:5000/b", "a", "a.example/b:größe")),
    (K3sPlane, "api_port", (6443, 29999, 32768, 65535),
     (0, 2379, 6444, 10250, 30000, 32767, 65536)),
    (K3sPlane, "service_cidr", ("10.43.0.0/16", "10.43.0.0/28", "10.0.0.0/12"),
     ("10.0.0.0/8", "10.43.0.0/29", "10.43.0.0", False, 5)),
    (VirtualMachine, "memory_mib", (4096, 262144), (4092, 4097, 0)),
    (VirtualMachine, "mmio_gib", (32, 128, 4194304), (16, 100, 0, 8388608)),
    (Hypervisor, "release", ("7.0U2", "7.0.2", "8.0", "7.0U3d"), ("7", "7.0.1U2", "ESXi 7.0")),
    (Hypervisor, "vms", (), ([],)),
    (IbPartition, "pkey", (1, 0x7FFE), (0, 0x7FFF, 0x8001, 0xFFFF, -5)),
    (IbPartition, "name", ("storage", "Default2"), ("Default", "default", "my storage")),
    (DriverPackage, "source", ("/opt/doca.deb", "https://m/doca.deb"),
     ("http://m/doca.deb", "https://m/doca.deb?token=a", "/opt/doca~rc.deb", "doca.deb")),
    (Routing, "router_id", ("10.255.0.1",), ("0.0.0.0", "224.0.0.5", "250.0.0.1", 7)),  # noqa: S104
)  # fmt: skip
_FLAT = tuple(
    pytest.param(model, key, value, taken, id=f"{model.__name__}-{key}-{str(value)[:40]}")
    for model, key, good, bad in _CASES
    for values, taken in ((good, True), (bad, False))
    for value in values
)


@pytest.mark.parametrize(("model", "key", "value", "taken"), _FLAT)
def test_model_and_schema_agree(
    model: type[BaseModel],
    key: str,
    value: Json,
    taken: bool,  # noqa: FBT001 - a table of cases
) -> None:
    assert _model_takes(model, key, value) is taken
    assert _schema_takes(model, key, value) is taken


def test_every_setting_of_the_kernel_is_refused_at_once() -> None:
    wrong = {"vm.drop_caches": 1, "vm.swappiness": "010", "kernel.sysrq": True, "net": "\t;"}
    with pytest.raises(ValidationError) as caught:
        KernelSettings.model_validate({"sysctls": {**wrong, "vm.max_map_count": 1}})
    assert {part["loc"] for part in caught.value.errors()} == {("sysctls", key) for key in wrong}


def test_a_name_that_follows_from_an_address_is_judged_too() -> None:
    with pytest.raises(ValidationError) as caught:
        Nic(rail="rail-0", pci="ffff:ff:1f.7")
    assert [part["loc"] for part in caught.value.errors()] == [("netdev",)]
