"""How steps reach their hosts: by our own client. Plain execs go by the provider."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pulumi
import pytest
from pulumi_command import remote

from components.core.errors import Bug
from components.remote.component import Remote, connection_of
from components.remote.objects import host_step
from components.remote.sending import split_parts
from components.remote.step import Endpoint, render_endpoint, render_step_command
from components.testing import Graph, Run, record_program
from tests.graph.dev_site import dev_plan
from tests.graph.vault import SEALED, Vault

STEP = dev_plan().hosts[0].converge
BASTION = Endpoint(
    "bastion", "jump", "203.0.113.5", 2222, "jump", STEP.endpoint.host_key,
    private_key_secret="bastion_key", passphrase_secret="bastion_passphrase",
)  # fmt: skip
RSA = "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABAQ"
OWN = {
    "sudo": replace(STEP.endpoint, sudo_secret="host_sudo"),
    "chain": replace(STEP.endpoint, jump=(BASTION, replace(BASTION, device="inner"))),
    "rsa": replace(STEP.endpoint, host_key=RSA),
    "rsa of the jump host": replace(STEP.endpoint, jump=(replace(BASTION, host_key=RSA),)),
}


def _record(endpoint: Endpoint) -> Graph:
    def program() -> None:
        step = replace(STEP, endpoint=endpoint)
        host_step(Remote(Vault(), {}), step, pulumi.ResourceOptions())

    return record_program(Run(config={}), program)


def _connection(endpoint: Endpoint) -> dict[str, Any]:
    def program() -> None:
        remote.Command("sent", connection=connection_of(Remote(Vault(), {}), endpoint), create="x")

    found = record_program(Run(config={}), program).named("sent").plain("connection")
    return cast("dict[str, Any]", found)


def test_one_jump_host_is_the_providers_proxy_with_its_pinned_key() -> None:
    found = _connection(replace(STEP.endpoint, jump=(BASTION,)))
    proxy = found["proxy"]
    assert (proxy["host"], proxy["port"], proxy["user"]) == ("203.0.113.5", 2222, "jump")
    assert proxy["hostKey"] == BASTION.host_key
    assert proxy["privateKey"] == f"{SEALED}: bastion_key"
    assert proxy["privateKeyPassword"] == f"{SEALED}: bastion_passphrase"


def test_an_agent_is_in_no_input() -> None:
    """Its socket has another path each day, and each step would run again for it."""
    found = _connection(replace(STEP.endpoint, private_key_secret=None, agent=True))
    assert {"privateKey", "password", "agentSocketPath", "proxy"} & found.keys() == set()


@pytest.mark.parametrize("why", OWN)
def test_the_provider_reaches_no_such_device(why: str) -> None:
    with pytest.raises(Bug, match="the provider cannot reach it"):
        connection_of(Remote(Vault(), {}), OWN[why])


@pytest.mark.parametrize("endpoint", [STEP.endpoint, *OWN.values()], ids=["usual", *OWN])
def test_a_step_of_a_host_has_its_endpoint_and_line_on_stdin(endpoint: Endpoint) -> None:
    made = _record(endpoint).named(STEP.name)
    assert made.type == "command:local:Command"
    assert made.text("create").endswith(f" device steps {STEP.name}")
    (part,) = split_parts(made.text("stdin"))
    assert part.on == render_endpoint(endpoint)
    assert (part.create, part.stdin) == (render_step_command(STEP, STEP.apply), STEP.desired)
    environment = cast("dict[str, Any]", made.inputs["environment"])
    assert len(environment) == len(endpoint.secret_names)
    for sealed in environment.values():
        assert sealed["value"].startswith(SEALED), "a secret of the engine, and no plain text"
