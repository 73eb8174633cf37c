"""How the resources of steps reach their hosts: by the provider's client, or by our own."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, cast

import pulumi
import pytest

from components.core.errors import Bug
from components.drift.applied import Applied, AppliedStep
from components.remote.component import Remote, connection_of
from components.remote.objects import host_step
from components.remote.step import Endpoint
from components.testing import Graph, Run, record_program
from components.update.refusals import changed_clients
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
    made = _record(endpoint).named(STEP.name)
    assert made.type == "command:remote:Command"
    return cast("dict[str, Any]", made.plain("connection"))


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
def test_the_rest_goes_by_our_own_client_with_the_same_line_and_stdin(why: str) -> None:
    made, usual = _record(OWN[why]).named(STEP.name), _record(STEP.endpoint).named(STEP.name)
    assert made.type == "command:local:Command"
    assert made.text("stdin") == usual.text("stdin")
    assert " device run --deadline " in made.text("create")
    assert usual.text("create").split("sh -c")[1].split()[-2] in made.text("create")
    environment = dict(cast("dict[str, Any]", made.inputs["environment"]))
    endpoint = json.loads(environment.pop("RAILYARD_ENDPOINT"))
    assert endpoint["device"] == STEP.endpoint.device
    assert len(environment) == len(OWN[why].secret_names)
    for sealed in environment.values():
        assert sealed["value"].startswith(SEALED), "a secret of the engine, and no plain text"
    with pytest.raises(Bug, match="the provider cannot reach it"):
        connection_of(Remote(Vault(), {}), OWN[why])


def _applied(endpoint: Endpoint) -> Applied:
    made = _record(endpoint).named(STEP.name)
    return Applied({STEP.name: AppliedStep(made.text("stdin"), made.text("create"))})


def test_a_change_between_the_two_clients_is_refused_before_it_undoes_anything() -> None:
    own = replace(STEP, endpoint=OWN["sudo"])
    assert [*changed_clients([STEP], _applied(STEP.endpoint))] == []
    assert [*changed_clients([own], _applied(OWN["sudo"]))] == []
    assert [*changed_clients([own], Applied())] == []
    (found,) = changed_clients([own], _applied(STEP.endpoint))
    assert "sudo asks for a password" in found.what
    (found,) = changed_clients([STEP], _applied(OWN["sudo"]))
    assert "the command provider can reach it now" in found.what
