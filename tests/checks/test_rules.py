"""Rules in cases that one file a rule does not show."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.catalogue.operator_versions import find_line, parse_k3s, parse_numbers
from components.checks.site import check_loaded, check_site
from components.core.problem import Json
from components.model.cluster import ClusterSpec
from components.reading.load import load_site, parse_site
from components.reading.yaml_text import parse_yaml
from tests.checks.cases import CASES, CLEAN


def _site() -> ClusterSpec:
    return ClusterSpec.model_validate(parse_yaml(CLEAN.read_text(encoding="utf-8"), "x").value)


def _rules(*edits: tuple[str, str]) -> set[str]:
    text = CLEAN.read_text(encoding="utf-8")
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    checked = check_loaded(parse_site(text, "site.yaml"), "site.yaml")
    return {problem.rule for problem in checked.problems}


@pytest.mark.parametrize(
    ("edits", "broken"),
    [
        # The chain compares what really follows: lowering one link must lower all before it.
        ((("mtu_bytes: 9000", "mtu_bytes: 9000, port_mtu_bytes: 9000"),), set[str]()),
        ((("mtu_bytes: 9000", "mtu_bytes: 9000, port_mtu_bytes: 8999"),), {"mtu-chain"}),
        ((("vfs: 8", "vfs: 8, mtu_bytes: 5000"),), {"mtu-chain"}),
        ((("vfs: 8", "vfs: 8, mtu_bytes: 5000"), ("sriov, ipam", "sriov, mtu_bytes: 5000, ipam")),
         set[str]()),
        # 4192 is the least MTU for a path MTU of 4096.
        ((("mtu_bytes: 9000", "mtu_bytes: 4192"),), set[str]()),
        ((("mtu_bytes: 9000", "mtu_bytes: 4191"),), {"rdma-path-mtu"}),
        # The right traffic class may also be written out.
        ((("gdr_level", "nccl_ib_tc: 106, gdr_level"),), set[str]()),
        # A whole other class is good when every layer agrees.
        ((("dscp: 26", "dscp: 34"),),
         set[str]()),
        ((("lossy_ecn", "lossless"),), set[str]()),
        # The one-shot of Onyx makes priority 3 lossless, and no other.
        ((("dscp: 26", "dscp: 34"),
          ("lossy_ecn", "lossless")), {"pfc-priority"}),
        # DHCP needs a server in each rail.
        ((("ipam: whereabouts", "ipam: dhcp"),
          ("network: sriov111", "network: sriov111, dhcp_server: 10.10.111.1"),
          ("network: sriov112", "network: sriov112, dhcp_server: 10.10.112.1")),
         set[str]()),
        # A switch port that is written out in full.
        (((" gpu01/rail-0", " {to: gpu01/rail-0, vlan: 111, mtu_bytes: 9216, mode: trunk}"),),
         set[str]()),
        # 127 VFs are the card's limit; two workers then need all 254 addresses of a /24.
        ((("vfs: 8", "vfs: 127"),), set[str]()),
        ((("vfs: 8", "vfs: 128"),), {"vf-limit"}),
        ((("release: 3.9.2504", "release: 3.8.2000"),), set[str]()),
        ((("release: 3.9.2504", "release: 3.8.1999"),), {"switch-release"}),
        # A port and a part of it cannot both be there.
        ((('"1/2"', '"1/1/1"'),), {"port-capability"}),
        # A part alone is a half of its port, too slow for the NIC.
        ((('"1/2"', '"1/2/1"'),), {"port-capability"}),
        # The device plugin's variables are in upper case.
        ((("resource: sriov_112", "resource: SRIOV_111"),), {"resource-name"}),
        ((("resource: sriov_112", 'resource: "sriov_112\\n"'),), {"malformed"}),
        # The tenth address of the service network is the DNS server's.
        ((("  version: v", "  service_cidr: 10.43.0.0/28\n  version: v"),), set[str]()),
        ((("  version: v", "  service_cidr: 10.43.0.0/29\n  version: v"),), {"malformed"}),
        ((("netdev: enp5s0", 'netdev: "enp5s0\\n"'),), {"malformed"}),
        ((("netdev: enp5s0", "netdev: .."),), {"malformed"}),
        ((("netdev: enp5s0", "netdev: a=b"),), {"malformed"}),
        ((("v1.36.3+k3s1", "v1.32.0+k3s2"),), set[str]()),
        ((("v1.36.3+k3s1", "v1.31.9+k3s1"),), {"version-pair"}),
    ],
)  # fmt: skip
def test_rule_at_its_limit(edits: tuple[tuple[str, str], ...], broken: set[str]) -> None:
    assert _rules(*edits) == broken


@pytest.mark.parametrize(("count", "good"), [(1, True), (2, False), (3, True), (4, False)])
def test_etcd_members_are_odd(count: int, good: bool) -> None:  # noqa: FBT001 - a table of cases
    spec = _site()
    first = spec.servers[0]
    servers = [
        first.model_copy(
            update={
                "name": f"mgmt{n:02}",
                "ssh": first.way.model_copy(update={"address": f"192.168.1.{n + 100}"}),
            }
        )
        for n in range(count)
    ]
    door = first.model_copy(
        update={
            "name": "door01",
            "role": "balancer",
            "ssh": first.way.model_copy(update={"address": "192.168.1.99"}),
        }
    )
    doors = (door,) if count > 1 else ()
    grown = spec.model_copy(update={"hosts": (*servers, *doors, *spec.workers)})
    assert {p.rule for p in check_site(grown)} == (set[str]() if good else {"etcd-members"})


def test_managed_switches_are_optional() -> None:
    assert check_site(_site().model_copy(update={"switches": ()})) == ()


def test_key_of_every_accepted_type_is_accepted() -> None:
    ecdsa = (
        "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBB8mbqEOByLm3Q6t"
        "uEKTTyVXyLzBRmvJ/ytLQ1Fq4cYHpWqJmO2mRkZP7l1wRk9VHn8wSxgOoHq9q0u8rC3rj6A="
    )
    ed25519 = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAjcWkKbzsgcpbZ0Gp5aPnzxdCsz2R4QMQ5HnPtrwJXr"
    assert _rules((ed25519, ecdsa)) == {"shared-host-key"}  # all devices get this one
    assert _rules((ed25519, f"{ed25519} root@leaf-01")) == set[str]()


def test_versions_are_read_by_number() -> None:
    assert parse_numbers("3.10.4006") > parse_numbers("3.9.2504")
    assert parse_k3s("v1.36.3+k3s1") == (1, 36, 3, 1)
    assert parse_k3s("v1.36") is None
    assert find_line("v26.3", ()) is None


def test_secrets_of_a_stack_file_are_complete(tmp_path: Path) -> None:
    path = tmp_path / "Pulumi.dev.yaml"
    path.write_text(CASES["secret-value"].text(), encoding="utf-8")
    loaded = load_site(path)
    assert loaded.spec is not None
    assert loaded.secrets is not None
    assert loaded.secrets.encrypted == {"k3s_token"}
    assert loaded.secrets.in_clear == {"switch_password", "cluster"}


def test_json_values_are_plain() -> None:
    value: Json = parse_yaml("a: [1, 2.5, yes, true, null, 0x10, '1', 2001-01-01]", "x").value
    assert value == {"a": [1, 2.5, "yes", True, None, 16, "1", "2001-01-01"]}
