"""The dev stack under mocks: its configuration, what its devices print, and its own state."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Final, cast

import yaml
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from components.core.problem import Json
from components.model.cluster import ClusterSpec
from components.plan.make import ClusterPlan, make_plan
from components.testing import Graph, Run
from components.update.seen import Facts
from tests.graph.whole_program import ROOT

SECRETS: Final = {
    "switch_password": "value-of-switch_password",
    "ssh_private_key": "value-of-ssh_private_key",
    "k3s_token": "value-of-k3s_token",
    "k3s_agent_token": "value-of-k3s_agent_token",
}
CLIENT_KEY: Final = "dmFsdWUtb2YtY2xpZW50LWtleQ=="
CERTIFICATE_END: Final = datetime(2099, 1, 1, tzinfo=UTC)


def client_certificate(end: datetime) -> str:
    """A certificate as a kubeconfig holds it, the same at every run."""
    key = Ed25519PrivateKey.from_private_bytes(b"railyard".ljust(32))
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "system:admin")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), serial_number=1)
    valid = builder.not_valid_before(end - timedelta(days=365)).not_valid_after(end)
    return base64.b64encode(valid.sign(key, None).public_bytes(Encoding.PEM)).decode()


def kubeconfig(end: datetime = CERTIFICATE_END) -> str:
    """What K3s writes on the server."""
    server = {"certificate-authority-data": "Y2E=", "server": "https://127.0.0.1:6443"}
    user = {"client-certificate-data": client_certificate(end), "client-key-data": CLIENT_KEY}
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "default", "cluster": server}],
            "users": [{"name": "default", "user": user}],
            "contexts": [{"name": "default", "context": {"cluster": "default", "user": "default"}}],
            "current-context": "default",
        }
    )


EVIDENCE: Final = '{"verdict": "what the probes saw"}'
STDOUT: Final = {
    "leaf-01-baseline": '{"ports": {}}',
    "mgmt01-cluster-access": kubeconfig(),
    "acceptance-evidence": EVIDENCE,
    "acceptance-gate": "acceptance passed",
}


def dev_cluster() -> dict[str, Json]:
    """The value of `railyard:cluster` in Pulumi.dev.yaml, as a copy to change."""
    return copy.deepcopy(_written())


@cache
def _written() -> dict[str, Json]:
    document = yaml.load((ROOT / "Pulumi.dev.yaml").read_text(), Loader=yaml.CSafeLoader)
    return cast("dict[str, Json]", document["config"]["railyard:cluster"])


def dev_run(cluster: Mapping[str, Json] | None = None, *, observe: str = "never") -> Run:
    """A first run of the dev stack."""
    config: dict[str, Json] = {
        "cluster": dict(cluster or dev_cluster()),
        "observe": observe,
        "lab": "true",
        **SECRETS,
    }
    return Run(config=config, secrets=tuple(SECRETS), stdout=STDOUT)


def next_run(before: Graph, cluster: Mapping[str, Json] | None = None, *, observe: str) -> Run:
    """A later run, on the state that a run before left."""
    return replace(dev_run(cluster, observe=observe), state=before.state())


def dev_plan(cluster: Mapping[str, Json] | None = None) -> ClusterPlan:
    return make_plan(ClusterSpec.model_validate(dict(cluster or dev_cluster())), "dev")


def clean_facts(plan: ClusterPlan) -> dict[str, Facts]:
    """Devices exactly as planned."""
    facts: dict[str, Facts] = {switch.name: switch.desired for switch in plan.switches}
    facts.update({host.name: host.desired for host in plan.hosts})
    return facts


def port_mtu(plan: ClusterPlan, port: str, mtu_bytes: int) -> dict[str, Facts]:
    """The same, but one port of the first switch was changed by hand."""
    switch = plan.switches[0]
    ports = dict(switch.desired.ports)
    ports[port] = ports[port].model_copy(update={"mtu_bytes": mtu_bytes})
    facts = clean_facts(plan)
    facts[switch.name] = switch.desired.model_copy(update={"ports": ports})
    return facts


def changed_inputs(before: Graph, after: Graph) -> set[str]:
    """Names of the resources whose inputs differ: what a preview would list."""
    old, new = _compared(before), _compared(after)
    urns = {urn for urn in old | new if old.get(urn) != new.get(urn)}
    return {urn.rsplit("::", 1)[-1] for urn in urns}


def _compared(graph: Graph) -> dict[str, str]:
    """URN to the inputs that the engine compares."""
    return {
        item.urn: ""
        if item.options.get("ignoreChanges") == ["*"]
        else json.dumps(dict(item.inputs), sort_keys=True)
        for item in graph.resources
    }
