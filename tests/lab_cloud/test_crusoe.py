"""The emulated API: signatures, forms, delays, and what it tells the lab."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import urllib3
from pydantic import JsonValue

from components.cloud.crusoe_api import (
    AmbiguousError,
    CloudError,
    CrusoeApi,
    NotFoundError,
    sign,
)
from components.core.errors import UsageError
from lab.cloud.crusoe.instances import Event
from lab.cloud.crusoe.server import CrusoeCloud
from tests.cloud.small_engine import PROJECT, QUICK, SECRET, SECRETS, cloud_config

INSTANCES = f"/projects/{PROJECT}/compute/vms/instances"


@pytest.fixture
def events() -> list[Event]:
    return []


@pytest.fixture
def cloud(tmp_path: Path, events: list[Event]) -> Iterator[CrusoeCloud]:
    cloud = CrusoeCloud(cloud_config(), tmp_path / "cloud.json", events.append)
    cloud.start()
    yield cloud
    cloud.stop()


def client(cloud: CrusoeCloud, secret: str = SECRET) -> CrusoeApi:
    return CrusoeApi(cloud.endpoint, PROJECT, (SECRETS["crusoe_access_key"], secret), QUICK)


def body_of(cloud: CrusoeCloud, **changes: JsonValue) -> dict[str, JsonValue]:
    api = client(cloud)
    network = api.change("POST", api.below_project("networking/vpc-networks"),
                         {"name": "n", "cidr": "10.0.0.0/16"})["network"]  # fmt: skip
    assert isinstance(network, dict)
    wish: dict[str, JsonValue] = {"name": "s", "cidr": "10.0.0.0/20", "location": "us-east1-a",
            "vpc_network_id": network["id"], "nat_gateway_enabled": False}  # fmt: skip
    subnet = api.change("POST", api.below_project("networking/vpc-subnets"), wish)["subnet"]
    assert isinstance(subnet, dict)
    cards: JsonValue = [{"subnet": subnet["id"]}]
    body: dict[str, JsonValue] = {
        "name": "vm",
        "type": "c1a.2x",
        "location": "us-east1-a",
        "image": "ubuntu22.04:latest",
        "ssh_public_key": "ssh-ed25519 AAAA",
        "network_interfaces": cards,
    }
    return body | changes


def ask_raw(cloud: CrusoeCloud, timestamp: str, secret: str = SECRET) -> int:
    signature = sign(secret, "GET", "/v1/locations", [], timestamp)
    headers = {
        "X-Crusoe-Timestamp": timestamp,
        "Authorization": f"Bearer 1.0:{SECRETS['crusoe_access_key']}:{signature}",
    }
    return urllib3.request("GET", f"{cloud.endpoint}/locations", headers=headers).status


def test_signature_and_time_are_verified(cloud: CrusoeCloud) -> None:
    now = datetime.now(tz=UTC)
    assert ask_raw(cloud, now.isoformat()) == 200
    assert ask_raw(cloud, (now - timedelta(minutes=6)).isoformat()) == 401
    assert ask_raw(cloud, "yesterday") == 401
    assert ask_raw(cloud, now.isoformat(), "b" + SECRET[1:]) == 401
    assert urllib3.request("GET", f"{cloud.endpoint}/locations").status == 401


def test_another_project_is_forbidden(cloud: CrusoeCloud) -> None:
    with pytest.raises(CloudError, match="403 unauthorized") as caught:
        client(cloud).get("/projects/other/quotas")
    assert caught.value.status == 403


def test_an_unknown_request_is_recorded(cloud: CrusoeCloud) -> None:
    with pytest.raises(NotFoundError):
        client(cloud).get(f"/projects/{PROJECT}/kubernetes/clusters")
    with pytest.raises(NotFoundError):
        client(cloud).change("POST", "/capacities", {})
    assert cloud.unmodelled == (
        f"GET /v1/projects/{PROJECT}/kubernetes/clusters",
        "POST /v1/capacities",
    )


def test_an_instance_takes_a_while_and_the_lab_is_told(
    cloud: CrusoeCloud, events: list[Event]
) -> None:
    api = client(cloud)
    operation = api.change("POST", INSTANCES, body_of(cloud))["operation"]
    assert isinstance(operation, dict)
    assert operation["state"] == "IN_PROGRESS"
    metadata = operation["metadata"]
    assert isinstance(metadata, dict)
    assert events == []
    path = f"{INSTANCES}/operations/{operation['operation_id']}"
    states = [api.get(path)["state"] for _ in range(2)]
    assert states == ["IN_PROGRESS", "SUCCEEDED"]
    [event] = events
    assert (event.what, event.instance.name) == ("created", "vm")
    assert event.instance.public_ip in cloud.config.public_ips
    api.change("DELETE", f"{INSTANCES}/{metadata['id']}")
    assert [api.get("/locations")["items"] for _ in range(2)] == [["us-east1-a"]] * 2
    assert [each.what for each in events] == ["created", "deleted"]
    with pytest.raises(NotFoundError):
        api.get(f"{INSTANCES}/{metadata['id']}")


def test_a_list_has_pages_and_filters(cloud: CrusoeCloud) -> None:
    api = client(cloud)
    body = body_of(cloud)
    for name in ("a", "b", "b", "c"):  # equal names are possible
        api.change("POST", INSTANCES, body | {"name": name})
    page = api.get(INSTANCES, [("limit", "3")])
    items = page["items"]
    assert isinstance(items, list)
    assert (len(items), page["next_page_token"]) == (3, "3")
    assert len(list(api.list_items(INSTANCES))) == 4
    named = list(api.list_items(INSTANCES, [("names", "b")]))
    assert [item["name"] for item in named] == ["b", "b"]
    assert len(list(api.list_items(INSTANCES, [("names", "a,c")]))) == 2


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"type": "x"}, "unknown product x"),
        ({"location": "mars"}, "unknown location mars"),
        ({"image": "windows"}, "unknown image windows"),
        ({"ssh_public_key": ""}, "ssh_public_key is required"),
        ({"network_interfaces": []}, "subnet  does not exist"),
        (
            {
                "type": "h100-80gb-sxm-ib.8x",
                "host_channel_adapters": [{"transport_partition_id": "p"}],
            },
            "IB partition p does not exist",
        ),
    ],
)
def test_a_wrong_request_makes_nothing(
    cloud: CrusoeCloud, changes: dict[str, JsonValue], words: str
) -> None:
    with pytest.raises(CloudError, match=words) as caught:
        client(cloud).change("POST", INSTANCES, body_of(cloud, **changes))
    assert caught.value.status == 400
    assert cloud.snapshot()["instances"] == {}


def test_one_partition_entry_gives_eight_hcas_and_holds_the_partition(cloud: CrusoeCloud) -> None:
    api = client(cloud)
    partitions = api.below_project("networking/ib-partitions")
    partition = api.change("POST", partitions, {"name": "p", "ib_network_id": "ib-network-1"})
    entry: JsonValue = [{"transport_partition_id": partition["id"]}]
    wish = body_of(
        cloud,
        type="h100-80gb-sxm-ib.8x",
        image="ubuntu22.04-nvidia-sxm-docker:latest",
        host_channel_adapters=entry,
    )
    api.change("POST", INSTANCES, wish)
    [instance] = list(api.list_items(INSTANCES))
    adapters = instance["host_channel_adapters"]
    assert isinstance(adapters, list)
    assert len({str(item) for item in adapters}) == 8
    [network] = list(api.list_items(api.below_project("networking/ib-networks")))
    assert network["capacities"] == [{"slice_type": "h100-80gb-sxm-ib.8x", "quantity": 24}]
    with pytest.raises(CloudError, match="in use by vm"):
        api.change("DELETE", f"{partitions}/{partition['id']}")
    api.change("DELETE", f"{INSTANCES}/{instance['id']}")
    assert list(api.list_items(INSTANCES))
    assert list(api.list_items(INSTANCES)) == []
    api.change("DELETE", f"{partitions}/{partition['id']}")
    assert cloud.snapshot()["partitions"] == {}


def test_the_state_outlives_the_server_and_the_lab_is_told_again(
    cloud: CrusoeCloud, events: list[Event], tmp_path: Path
) -> None:
    api = client(cloud)
    api.change("POST", INSTANCES, body_of(cloud))
    assert len([api.get("/locations") for _ in range(2)]) == 2
    cloud.stop()
    again: list[Event] = []
    other = CrusoeCloud(cloud_config(), tmp_path / "cloud.json", again.append)
    other.start()
    assert again == events
    assert [item["name"] for item in client(other).list_items(INSTANCES)] == ["vm"]
    other.stop()
    cloud.start()


def test_a_lost_answer_is_a_made_instance(cloud: CrusoeCloud) -> None:
    body = body_of(cloud)
    cloud.fault(["lost", "1", "post"])
    with pytest.raises(AmbiguousError, match="no answer"):
        client(cloud).change("POST", INSTANCES, body)
    assert [item["name"] for item in client(cloud).list_items(INSTANCES)] == ["vm"]


@pytest.mark.parametrize("args", [[], ["fire"], ["500", "many"], ["gone", "nobody"], ["gone"]])
def test_an_unknown_fault_is_refused(cloud: CrusoeCloud, args: list[str]) -> None:
    with pytest.raises(UsageError, match="usage"):
        cloud.fault(args)


def test_the_lab_may_say_beforehand_where_an_instance_is(
    tmp_path: Path, events: list[Event]
) -> None:
    config = replace(cloud_config(), reserved=(("vm", "127.205.0.10"),))
    cloud = CrusoeCloud(config, tmp_path / "reserved.json", events.append)
    cloud.start()
    api = client(cloud)
    body = body_of(cloud)
    for name in ("other", "vm"):
        api.change("POST", INSTANCES, body | {"name": name})
    assert len([api.get("/locations") for _ in range(3)]) == 3
    made = {event.instance.name: event.instance for event in events}
    assert (made["vm"].public_ip, made["vm"].private_ip) == ("127.205.0.10", "127.205.0.10")
    assert made["other"].public_ip == "127.205.0.11"
    cloud.stop()
