"""What the real cloud lacks or refuses is so in the lab: held against a table with sources."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
import urllib3

from components.cloud.crusoe_api import CloudError, CrusoeApi, sign
from lab.cloud.crusoe.instances import address_of
from lab.cloud.crusoe.model import CrusoeConfig, Document, VmType
from lab.cloud.crusoe.network import IB_NETWORK
from lab.cloud.crusoe.server import CrusoeCloud
from tests.cloud.small_engine import PROJECT, QUICK, SECRET, SECRETS, cloud_config
from tests.granted import Outcome, Played, State, hold, rows_of

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA"


ROWS = rows_of(Path(__file__).with_name("granted.yaml"), Played)


def config_of(state: State) -> CrusoeConfig:
    """The cloud of a state: what there is in it."""
    types = (
        VmType("c1a.2x", 0, "QUOTA_C1A", state.get("stock", 20)),
        VmType("h100-80gb-sxm-ib.8x", 8, "QUOTA_H100", 4),
    )
    quotas = (("QUOTA_C1A", state.get("quota", 40)), ("QUOTA_H100", 32))
    return replace(cloud_config(), types=types, quotas=quotas, ib_slices=state.get("slices", 32))


class Tenant:
    """A tenant of an emulated cloud."""

    def __init__(self, cloud: CrusoeCloud) -> None:
        self.cloud = cloud
        self.api = CrusoeApi(cloud.endpoint, PROJECT, (SECRETS["crusoe_access_key"], SECRET), QUICK)

    def post(self, path: str, body: Document) -> Any:  # noqa: ANN401 - the API's document
        return self.api.change("POST", self.api.below_project(path), body)

    def get(self, path: str) -> Any:  # noqa: ANN401 - the API's document
        return self.api.get(self.api.below_project(path))

    def network(self) -> str:
        """A new network."""
        body: Document = {"name": "n", "cidr": "10.0.0.0/16"}
        return str(self.post("networking/vpc-networks", body)["network"]["id"])

    def subnet(self, network: str) -> str:
        """A subnet of it."""
        body: Document = {
            "name": "s",
            "cidr": "10.0.0.0/20",
            "location": "us-east1-a",
            "vpc_network_id": network,
            "nat_gateway_enabled": False,
        }
        return str(self.post("networking/vpc-subnets", body)["subnet"]["id"])

    def instance(self, state: State, network: str) -> Document:
        """Make an instance, and wait for what becomes of it.

        Raises:
            CloudError: The cloud refuses it, or the operation fails.
        """
        address = {"public_ipv4": {"type": state.get("address", "static")}}
        body: Document = {
            "name": state.get("name", "vm"),
            "type": state.get("type", "c1a.2x"),
            "location": "us-east1-a",
            "image": state.get("image", "ubuntu22.04:latest"),
            "ssh_public_key": state.get("key", KEY),
            "network_interfaces": [
                cast("Document", {"subnet": self.subnet(network), "ips": [address]})
            ],
        }
        if state.get("partition"):
            wish: Document = {"name": "p", "ib_network_id": IB_NETWORK}
            partition = str(self.post("networking/ib-partitions", wish)["id"])
            body["host_channel_adapters"] = [{"ib_partition_id": partition}]
        made = self.post("compute/vms/instances", body)["operation"]
        self.wait(made)
        return cast("Document", self.get(f"compute/vms/instances/{made['metadata']['id']}"))

    def wait(self, operation: Any) -> None:  # noqa: ANN401 - the API's document
        """Read an operation until it is over.

        Raises:
            CloudError: It failed.
        """
        path = f"compute/vms/instances/operations/{operation['operation_id']}"
        while (found := self.get(path))["state"] == "IN_PROGRESS":
            pass
        if found["state"] == "FAILED":
            raise CloudError(str(found["result"]))

    def act(self, instance: Document, action: str) -> None:
        """Start or stop it."""
        path = self.api.below_project(f"compute/vms/instances/{instance['id']}")
        answer: Any = self.api.change("PATCH", path, {"action": action})
        self.wait(answer["operation"])


@contextmanager
def tenant(folder: Path, state: State) -> Generator[Tenant]:
    cloud = CrusoeCloud(config_of(state), folder / "cloud.json")
    cloud.start()
    try:
        yield Tenant(cloud)
    finally:
        cloud.stop()


def ask(state: State, who: Tenant) -> Outcome:
    then = datetime.now(tz=UTC) - timedelta(seconds=state.get("late_s", 0))
    secret = SECRET[::-1] if "secret" in state else SECRET
    signature = sign(secret, "GET", "/v1/locations", [], then.isoformat())
    headers = {
        "X-Crusoe-Timestamp": then.isoformat(),
        "Authorization": f"Bearer 1.0:{SECRETS['crusoe_access_key']}:{signature}",
    }
    answer = urllib3.request("GET", f"{who.cloud.endpoint}/locations", headers=headers)
    return answer.status == 200, f"{answer.status} {answer.json().get('code')}"


def make(state: State, who: Tenant) -> Outcome:
    made = who.instance(state, who.network())
    return made["state"] == "STATE_RUNNING", ""


def delete_network(state: State, who: Tenant) -> Outcome:
    network = who.network()
    if not state["empty"]:
        who.subnet(network)
    who.api.change("DELETE", who.api.below_project(f"networking/vpc-networks/{network}"), {})
    return True, ""


def stop_and_start(state: State, who: Tenant) -> Outcome:
    instance = who.instance(state, who.network())
    before = address_of(instance, "public")
    who.act(instance, "STOP")
    who.act(instance, "START")
    after = cast("Document", who.get(f"compute/vms/instances/{instance['id']}"))
    return address_of(after, "public") == before, ""


def ssh(state: State, who: Tenant) -> Outcome:
    network = who.network()
    instance = who.instance({}, network)
    if state["ports"]:
        rule: Document = {
            "name": "ssh",
            "action": "allow",
            "direction": "ingress",
            "vpc_network_id": network,
            "protocols": ["tcp"],
            "source_ports": ["1-65535"],
            "destination_ports": state["ports"],
            "sources": [{"cidr": "0.0.0.0/0"}],
            "destinations": [cast("Document", {"cidr": state["to"]} if "to" in state
                                  else {"resource_id": network})],
        }  # fmt: skip
        who.post("networking/vpc-firewall-rules", rule)
    return who.cloud.lets_in(str(instance["id"]), 22), ""


PLAYS: dict[str, Callable[[State, Tenant], Outcome]] = {
    "ask": ask,
    "make": make,
    "delete network": delete_network,
    "stop and start": stop_and_start,
    "ssh": ssh,
}


def tried(row: Played, state: State, folder: Path) -> Outcome:
    with tenant(folder, state) as who:
        try:
            return PLAYS[row.play](state, who)
        except CloudError as error:
            return False, str(error)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.thing)
def test_a_thing_is_there_only_with_what_brings_it(tmp_path: Path, row: Played) -> None:
    hold(row, partial(tried, row), tmp_path)


def test_each_play_has_a_row() -> None:
    assert {row.play for row in ROWS} == PLAYS.keys()
