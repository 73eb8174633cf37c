"""What is planned for the cloud: order, closed doors, triggers, no secrets."""

from __future__ import annotations

import json

from components.catalogue.environments import GPU_TYPES, find_type, fits_image
from components.cloud.cloud_plan import CloudPlan, list_calls, plan_cloud
from components.core.to_json import to_json
from components.model.cluster import ClusterSpec
from components.model.worker_kinds import crusoe_of, with_instances, written_at
from components.reading.load import load_site
from tests.cloud.small_engine import HOST_KEY, ROOT, SECRETS, SITE, plan_of, site

ENDPOINT = "https://api.cloud.crusoe.ai/v1"


def crusoe() -> ClusterSpec:
    return site(ENDPOINT)


def crusoe_plan() -> CloudPlan:
    return plan_of(crusoe())


def test_pools_become_hosts_once() -> None:
    spec = crusoe()
    assert [(host.name, host.role, host.gpus, host.hcas) for host in spec.hosts] == [
        ("crusoe-k3s-0", "control_plane", 0, 0),
        ("crusoe-k3s-1", "control_plane", 0, 0),
        ("crusoe-k3s-2", "control_plane", 0, 0),
        ("crusoe-k3s-lb-0", "balancer", 0, 0),
        ("crusoe-k3s-worker-0", "worker", 8, 8),
        ("crusoe-k3s-worker-1", "worker", 8, 8),
    ]
    assert spec.hosts[0].way.address == "@{crusoe-k3s-0.public_ip}"
    assert spec.hosts[0].way.host_key == "@{crusoe-k3s-0.host_key}"
    assert spec.hosts[0].address == "@{crusoe-k3s-0.private_ip}"
    assert with_instances(spec) is spec


def test_other_sites_stay_as_they_are() -> None:
    for name in ("dgx-roce", "esxi-roce", "shared-rdma"):
        spec = load_site(ROOT / "examples" / name / "site.yaml").spec
        assert spec is not None
        assert with_instances(spec) is spec
        assert plan_cloud(spec) is None
        assert written_at(spec, ("hosts", 0, "role")) == ("hosts", 0, "role")


def test_what_is_said_of_a_made_host_is_said_of_its_pool() -> None:
    pools = ("environment", "instances", "pools")
    assert written_at(crusoe(), ("hosts", 3, "role")) == (*pools, 1)
    assert written_at(crusoe(), ("hosts", 5)) == (*pools, 2)
    assert written_at(crusoe(), ("hosts",)) == pools
    assert written_at(crusoe(), ("rdma", "transport")) == ("rdma", "transport")


def test_every_call_stands_after_what_it_needs() -> None:
    seen: set[str] = set()
    for call in list_calls(crusoe_plan(), {}):
        assert {*call.needs} <= seen, call.step
        assert call.step not in seen
        seen.add(call.step)
    assert len(seen) == 3 + 2 + 1 + 2 + 6 + 8 + 6


def test_only_named_networks_come_in_from_outside() -> None:
    rules = {item.name: item.body for item in crusoe_plan().objects if item.kind == "firewall-rule"}
    outside = {
        name: (rule["sources"], rule["destinations"], rule["destination_ports"])
        for name, rule in rules.items()
        if rule["direction"] == "ingress" and rule["sources"] != [{"cidr": "10.100.0.0/20"}]
    }
    allowed = [{"cidr": "203.0.113.0/24"}]
    assert outside == {
        "crusoe-k3s-ssh": (allowed, [{"cidr": "10.100.0.0/20"}], ["22"]),
        "crusoe-k3s-api": (allowed, [{"resource_id": "@{crusoe-k3s-lb-0-instance.id}"}], ["6443"]),
    }


def test_the_rule_for_ssh_opens_the_port_that_is_logged_in_to() -> None:
    spec = crusoe()
    provision = crusoe_of(spec)
    assert provision is not None
    assert spec.cloud is not None
    moved = provision.model_copy(update={"ssh_port": 2222})
    cloud = spec.cloud.model_copy(update={"instances": moved})
    plan = plan_cloud(spec.model_copy(update={"environment": cloud}))
    assert plan is not None
    rule = next(item.body for item in plan.objects if item.name == "crusoe-k3s-ssh")
    assert rule["destination_ports"] == ["2222"]


def test_only_what_cannot_change_is_a_trigger() -> None:
    worker = next(item for item in crusoe_plan().objects if item.name == "crusoe-k3s-worker-0")
    assert worker.triggers == (
        "type=h100-80gb-sxm-ib.8x",
        "location=us-east1-a",
        "image=ubuntu22.04-nvidia-sxm-docker:latest",
        f"ssh_public_key={HOST_KEY}",
        "subnet=@{crusoe-k3s-subnet.id}",
        "partition=@{crusoe-k3s-partition.id}",
        "generation=0",
    )
    rule = next(item for item in crusoe_plan().objects if item.name == "crusoe-k3s-ssh")
    assert "203.0.113" not in str(rule.triggers)


def test_a_plan_holds_names_of_secrets_only() -> None:
    text = json.dumps(to_json(crusoe_plan()))
    assert "crusoe_secret_key" in text
    assert all(value not in text for value in SECRETS.values())


def test_one_server_is_its_own_door() -> None:
    plan = plan_of(site(ENDPOINT, ("count: 1}", "count: 0}"), ("count: 3}", "count: 1}")))
    [rule] = [item for item in plan.objects if item.name == "crusoe-k3s-api"]
    assert rule.body["destinations"] == [{"resource_id": "@{crusoe-k3s-0-instance.id}"}]


def test_types_and_images() -> None:
    h100 = GPU_TYPES["h100-80gb-sxm-ib.8x"]
    assert (h100.gpus, h100.hcas, h100.rate_gbit_s) == (8, 8, 400)
    given = "/etc/crusoe/nccl_topo/h100-80gb-sxm-ib-cloud-hypervisor.xml"
    assert h100.topology_file == given
    assert given in SITE.read_text(encoding="utf-8")
    assert fits_image(h100, "ubuntu24.04-nvidia-sxm-docker:2026-08-01")
    assert not fits_image(h100, "ubuntu24.04-nvidia-sxm-docker-b200:latest")
    assert fits_image(GPU_TYPES["b200-180gb-sxm-ib.8x"], "ubuntu24.04-nvidia-sxm-docker-b200")
    cpu = find_type("c1a.8x")
    assert cpu is not None
    assert (cpu.gpus, cpu.topology_file, fits_image(cpu, "ubuntu22.04:latest")) == (0, None, True)
    assert find_type("h100-80gb-sxm.8x") is None
