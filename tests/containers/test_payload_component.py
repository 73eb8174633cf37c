"""The component: which resource waits for which, and what is secret."""

from __future__ import annotations

from typing import cast

import pulumi
import pytest

from components.containers import Payload
from components.core.problem import Json
from components.remote.component import Remote
from components.remote.handoffs import HostsReady
from components.testing import SECRET_KEY, Graph, Run, record_program, unwrap
from tests.containers.site import load_plan
from tests.graph.vault import SEALED, Vault

KEYS = "host.private=bm90IGEga2V5"


@pytest.fixture(scope="module")
def recorded() -> tuple[Graph, Vault]:
    secrets = Vault()

    def program() -> None:
        before = pulumi.Stash("before", input="before")
        notes = {"vm02-container": "1: state of container is exited"}
        Payload("payload", load_plan(), Remote(secrets, notes), HostsReady(before))

    return record_program(Run(config={}, stdout={"payload-keys": KEYS}), program), secrets


def test_keys_are_made_once_and_are_secret(recorded: tuple[Graph, Vault]) -> None:
    graph, secrets = recorded
    keys = graph.named("payload-keys")
    assert keys.plain("create") == ".venv/bin/railyard payload keys --stack lab"
    assert keys.options["ignoreChanges"] == ["*"]
    assert "stdout" in keys.secret_outputs
    store = graph.named("vm03-payload-keys")
    sealed = cast("dict[str, Json]", store.inputs["environment"])["RAILYARD_SECRET_PAYLOAD_KEYS"]
    assert isinstance(sealed, dict)
    assert SECRET_KEY in sealed
    assert unwrap(sealed) == KEYS
    assert secrets.asked == {"ssh_private_key", "registry_password", "ngc_api_key"}


def test_the_order_is_secrets_then_image_then_containers(recorded: tuple[Graph, Vault]) -> None:
    graph, _ = recorded
    assert "before" in graph.named("vm01-payload-keys").dependencies
    image = graph.named("vm01-image")
    assert set(image.dependencies) == {"vm01-base-registry-password"}
    base = graph.named("vm01-base-registry-password")
    assert set(base.dependencies) == {"vm01-payload-keys", "vm01-registry-password"}
    assert set(graph.named("vm03-container").dependencies) == {
        "vm03-payload-keys", "vm03-registry-password", "vm01-image",
    }  # fmt: skip
    assert set(graph.named("payload-ready").dependencies) == {
        f"vm0{n}-container" for n in range(1, 5)
    }


def test_a_repair_note_touches_one_container(recorded: tuple[Graph, Vault]) -> None:
    graph, _ = recorded
    assert (
        graph.named("vm02-container")
        .text("stdin")
        .endswith("\nrepair=1: state of container is exited\n")
    )
    assert "repair=" not in graph.named("vm01-container").text("stdin")


def test_no_secret_is_in_a_command(recorded: tuple[Graph, Vault]) -> None:
    graph, _ = recorded
    for item in graph.of_type("command:"):
        for key in ("create", "delete"):
            assert SEALED not in str(item.plain(key))
            assert KEYS not in str(item.plain(key))
