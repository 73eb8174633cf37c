"""A program with the Kubernetes objects of all sites in one stack, and nothing else of them.

The engine runs it. What it does with a look at the cluster is what the product's program does with
it; devices are in no plan here. The proof is not that of a real site: `PROVER` counts how often one
is demanded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

import pulumi

from components.kubernetes.manifest import Manifest
from components.plan.make import ClusterPlan, make_plan
from components.remote.component import Remote
from components.remote.handoffs import HostsReady, gate
from components.update.decide import intend
from components.update.observe import observe_site
from stacks.own_state import read_own_state
from stacks.upper import prove
from tests.drift.test_every_object import of_registry, plans
from tests.schemas.test_manifests import example_site

SITE: Final = "shared-rdma/without-ssh.yaml"
"""Its cluster is there already, and nothing logs in to its nodes."""
NODES: Final = ("gpu01", "gpu09", "node03", "node04")
"""The nodes that get labels: two of SITE, one that other sites label in other ways, and one that is
behind the leaves to which that one is not plugged."""
PROVER: Final = """#!/bin/sh
cat >/dev/null
case "$1 $2" in
'evidence collect') echo "evidence $4" ;;
'evidence gate') printf 'acceptance passed\\n' ;;
'device keep-cluster' | 'device leave-cluster') echo '{}' ;;
*) echo "$*: not of acceptance" >&2; exit 2 ;;
esac
"""
"""Stands in for `railyard` in the two steps of acceptance and the one before deletions; the last
word of the first is the number of the run."""


def one_plan(stack: str) -> ClusterPlan:
    """The plan of SITE, with one object of each resource name that any site makes."""
    base = make_plan(of_registry(example_site(SITE)), stack)
    every = (base, *plans())
    operators = _merged(every, lambda plan: plan.operators.manifests)
    return replace(
        base,
        switches=(),
        operators=replace(base.operators, charts=(), manifests=operators),
        pod_network=replace(
            base.pod_network, manifests=_merged(every, lambda plan: plan.pod_network.manifests)
        ),
        jobs=replace(base.jobs, manifests=_merged(every, lambda plan: plan.jobs.manifests)),
        acceptance=replace(base.acceptance, sources=()),
    )


def _merged(
    every: Iterable[ClusterPlan], manifests: Callable[[ClusterPlan], tuple[Manifest, ...]]
) -> tuple[Manifest, ...]:
    found: dict[str, Manifest] = {}
    for each in _labelled(manifest for plan in every for manifest in manifests(plan)):
        found.setdefault(each.resource_name, each)
    return tuple(sorted(found.values(), key=lambda each: each.group))


def _labelled(manifests: Iterator[Manifest]) -> Iterator[Manifest]:
    """The manifests; of the nodes those of NODES alone, each with all labels that it gets."""
    nodes: dict[str, Manifest] = {}
    for each in manifests:
        if each.kind != "NodePatch":
            yield each
        elif each.name in NODES:
            before: Any = nodes[each.name].body if each.name in nodes else {"metadata": {}}
            labels = {**before["metadata"].get("labels", {}), **_labels(each)}
            metadata = {"name": each.name, "labels": labels}
            nodes[each.name] = replace(each, body={**each.body, "metadata": metadata})
    yield from nodes.values()


def _labels(manifest: Manifest) -> dict[str, Any]:
    body: Any = manifest.body
    return body["metadata"]["labels"]


def run() -> None:
    """Look, say what differs, and apply the plan with what follows from the look."""
    config = pulumi.Config("railyard")
    secrets = {name: config.require(name) for name in ("kubeconfig", "registry_password")}
    plan, applied = one_plan(pulumi.get_stack()), read_own_state()
    seen = observe_site(plan, secrets, applied)
    intentions = intend(plan, applied, seen, "changed")
    for line in intentions.cluster.lines:
        pulumi.log.info(f"drift: {line}")
    remote = Remote(config, intentions.notes, "lab")
    prove(intentions.plan, remote, HostsReady(gate("hosts", None, [])), intentions.run)  # pyright: ignore[reportArgumentType] - a stack of its own has no parent
