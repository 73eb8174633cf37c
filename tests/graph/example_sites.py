"""Each example under mocks: its configuration, and what its steps print that others read."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from typing import Final, cast

import yaml

from components.core.problem import Json
from components.model.cluster import ClusterSpec
from components.model.worker_kinds import with_instances
from components.plan.make import ClusterPlan, make_plan
from components.testing import Graph, Run
from components.update.secrets import secret_names
from tests.golden.site import EXAMPLES, load_example
from tests.graph.dev_site import EVIDENCE, kubeconfig
from tests.graph.locked import lock_of
from tests.graph.whole_program import record_main

NAMES: Final = (
    *("esxi-roce", "shared-rdma", "crusoe-k3s", "quantum-ib", "quantum-ufm"),
    *("rail-optimised", "spine-leaf", "mixed-fabric", "mixed-nodes"),
)


def example_spec(name: str) -> ClusterSpec:
    """The example as loading gives it."""
    return with_instances(load_example(name))


@cache
def example_plan(name: str) -> ClusterPlan:
    spec = example_spec(name)
    return make_plan(spec, name, lock_of(spec))


def example_run(name: str) -> Run:
    """A first update of an example, on devices that nobody looked at."""
    text = (EXAMPLES / name / "site.yaml").read_text()
    cluster = cast("Json", yaml.load(text, Loader=yaml.CSafeLoader))
    names = secret_names(example_spec(name))
    config: dict[str, Json] = {
        "cluster": cluster,
        "observe": "never",
        **{secret: f"value-of-{secret}" for secret in names},
    }
    return Run(config=config, secrets=names, stdout=printed_of(example_plan(name)), stack=name)


@cache
def example_graph(name: str) -> Graph:
    """What that first update registered, recorded once for all tests."""
    return record_main(example_run(name))


def example_preview(name: str) -> Run:
    """A preview of the same new stack: no step has printed anything."""
    return replace(example_run(name), preview=True, stdout={})


def printed_of(plan: ClusterPlan) -> dict[str, str]:
    printed = {f"{switch.name}-baseline": '{"ports": {}}' for switch in plan.switches}
    printed |= {"acceptance-evidence": EVIDENCE, "acceptance-gate": "acceptance passed"}
    printed["payload-keys"] = "the keys"
    if plan.kubernetes is not None:
        printed |= {step.name: '{"state": "none"}' for step in plan.kubernetes.removals}
        if plan.kubernetes.ca is not None:
            printed[plan.kubernetes.ca.name] = "the CA of the cluster\n"
        if plan.kubernetes.access is not None:
            printed[plan.kubernetes.access.name] = kubeconfig()
    if plan.cloud is not None:
        made = [item.step for item in (*plan.cloud.objects, *plan.cloud.images)]
        facts = ("id", "operation", "image")
        printed |= {
            step: json.dumps({each: f"{each}-of-{step}" for each in facts}) for step in made
        }
        printed |= {
            instance.step: json.dumps(
                {
                    "public_ip": f"203.0.113.{number}",
                    "private_ip": f"10.100.0.{number}",
                    "host_key": f"ssh-ed25519 key-of-{instance.name}",
                }
            )
            for number, instance in enumerate(plan.cloud.instances, 10)
        }
    return printed
