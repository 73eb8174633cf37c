"""The hypervisors as resources: one after the other, and each reboot behind its converge."""

from __future__ import annotations

import json
from typing import cast

import pulumi

from components.hypervisor import FirmwareReboots, Hypervisors
from components.hypervisor.hypervisor_plan import plan_hypervisors
from components.remote.component import Remote
from components.remote.handoffs import FabricReady, HostsReady
from components.remote.lines import parse_lines
from components.testing import Graph, Run, record_program
from tests.golden.site import load_example
from tests.graph.vault import SEALED, Vault

RUN = Run(config={})
NOTES = {"esx02-hypervisor": "1: allowP2P was lost", "vm03-host": "2: ats is off"}


def record() -> Graph:
    plans = plan_hypervisors(load_example("esxi-roce"), "dev")

    def program() -> None:
        before = pulumi.Stash("before", input="before")
        remote = Remote(Vault(), NOTES)
        ready = Hypervisors("esxi", plans, remote, FabricReady(before)).ready
        FirmwareReboots("firmware", plans, remote, HostsReady(ready.gate))

    return record_program(RUN, program)


def test_one_hypervisor_after_the_other() -> None:
    graph = record()
    assert graph.named("esx01-hypervisor").dependencies == ("before",)
    assert graph.named("esx01-reboot").dependencies == ("esx01-hypervisor",)
    assert graph.named("esx02-hypervisor").dependencies == ("esx01-reboot",)
    assert graph.named("esxi-ready").dependencies == ("esx04-reboot",)
    assert graph.named("esx01-firmware-reboot").dependencies == ("esxi-ready",)
    assert graph.named("esx02-firmware-reboot").dependencies == ("esx01-firmware-reboot",)
    assert graph.named("firmware-ready").dependencies == ("esx04-firmware-reboot",)


def repair(graph: Graph, name: str) -> str:
    request = cast("dict[str, str]", parse_lines(graph.named(name).text("stdin")))
    return request.get("repair", "")


def test_a_reboot_repeats_the_notes_of_the_steps_that_it_serves() -> None:
    graph = record()
    assert repair(graph, "esx01-reboot") == ""
    assert repair(graph, "esx02-reboot") == "esx02-hypervisor 1: allowP2P was lost"
    assert repair(graph, "esx03-reboot") == ""
    assert repair(graph, "esx03-firmware-reboot") == "vm03-host 2: ats is off"


def test_keys_travel_in_the_environment_and_as_secrets() -> None:
    step = record().named("esx01-reboot")
    environment = step.inputs["environment"]
    assert step.text("create").endswith("railyard device reboot")
    assert "RAILYARD_SECRET_SSH_PRIVATE_KEY" in json.dumps(environment)
    assert SEALED not in step.text("stdin")
    assert "delete" not in step.inputs
