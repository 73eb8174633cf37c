"""The existing cluster, for a site of `plane: existing`.

Its owner is a lab host of its own, beside those of the site: K3s is installed from there on the
site's workers, over SSH, as a person would have done it before Railyard came. On a site of
kubespray the nodes have its folders, and the names and taints that the site gives them. Railyard
itself then gets what such a person hands over: a kubeconfig.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import yaml

from components.catalogue.cluster_parts import distribution_of
from components.core.errors import Bug, DeviceError, UsageError
from components.core.key_values import HostState, parse_state
from components.hosts.host_plan import plan_hosts
from components.kubernetes.kubeconfig import render_kubeconfig
from components.kubernetes.kubernetes_plan import plan_kubernetes
from components.kubernetes.planes.base import KubernetesPlan
from components.model.cluster import ClusterSpec
from components.model.hosts import Host
from components.model.kubernetes import ExistingPlane, K3sPlane, K3sSource
from components.model.units import SecretRef, Ssh
from components.remote.host_session import HostAnswer, run_on_host
from components.remote.step import RemoteStep, render_remote_command
from lab.cluster.pod_view import DISTRIBUTION
from lab.cluster.release import K3S_VERSION
from lab.keys import host_key
from lab.site import FIRST_HOST, SSH_PORT, block_of
from lab.steps import run_step_on_host

OWNER: Final = "owner01"
MEMLOCK: Final = """
mkdir -p /etc/systemd/system/k3s-agent.service.d
printf '[Service]\\nLimitMEMLOCK=infinity\\n' >/etc/systemd/system/k3s-agent.service.d/10-owner.conf
"""
"""What an owner whose pods use RDMA has set, before the unit starts for the first time."""
KUBESPRAY: Final = """
mkdir -p /etc/rancher/k3s/config.yaml.d /etc/cni/net.d /opt/cni/bin
cat >/etc/rancher/k3s/config.yaml.d/10-owner.yaml <<'EOF'
{config}EOF
"""
"""What makes a node of the lab's K3s one of kubespray: its folders, its name, its kubelet."""
PLAYED: Final = frozenset({"k3s", "kubespray"})
"""Distributions of an owner: the API server is the lab's own in both."""
OWNER_NUMBER: Final = 9
"""Last part of the owner's address: below those of the site's hosts."""


def with_owner(
    spec: ClusterSpec, stack: str, source: Mapping[str, object]
) -> tuple[ClusterSpec, KubernetesPlan] | None:
    """The site with the owner of its cluster, and what the owner installed; None where K3s is ours.

    Args:
        spec: The site after `overlay`.
        stack: Names the owner's keys.
        source: The lab's K3s artefact, as `kubernetes.source` has it.

    Raises:
        UsageError: The cluster is of a distribution that the lab does not play.
    """
    if not isinstance(spec.kubernetes, ExistingPlane) or not spec.workers:
        return None
    distribution = _distribution(spec.kubernetes)
    if distribution not in PLAYED:
        raise UsageError(
            f"the owner of the lab's existing clusters installs {' or '.join(sorted(PLAYED))}, and"
            f" the site has Kubernetes {spec.kubernetes.version} of {distribution or 'no name'}.\n"
            "  fix    play shared-rdma/existing.yaml; `railyard plan` prints this site"
        )
    known = _with_logins(spec, stack)
    ssh = known.workers[0].way
    block = ssh.address.rpartition(".")[0]
    key = host_key(f"{stack}/{OWNER}").public_openssh
    address = f"{block}.{OWNER_NUMBER}"
    ours = ssh.model_copy(update={"address": address, "host_key": key})
    owner = Host(name=OWNER, role="control_plane", ssh=ours)
    plane = K3sPlane(
        plane="k3s",
        version=spec.kubernetes.version if distribution == "k3s" else K3S_VERSION,
        source=K3sSource.model_validate(source),
    )
    owned = known.model_copy(update={"hosts": (owner, *known.hosts), "kubernetes": plane})
    plan = plan_kubernetes(owned, f"{stack}-owner")
    if plan is None:
        raise Bug("a site with K3s has a plan of it")
    agents = tuple(_called(step, owned) for step in plan.agents)
    return owned, replace(
        plan, agents=agents, nodes=tuple(_called(step, owned) for step in plan.nodes)
    )


def _distribution(plane: ExistingPlane) -> str | None:
    return plane.distribution or distribution_of(plane.version)


def _called(step: RemoteStep, owned: ClusterSpec) -> RemoteStep:
    """A step that waits for a node, under the name that this has in the cluster."""
    lines = parse_state(step.desired).values
    host = owned.host(lines["node"])
    node = host.node if host else lines["node"]
    return replace(step, desired=HostState({**lines, "node": node}).render())


def by_hand(spec: ClusterSpec, owned: ClusterSpec) -> dict[str, str]:
    """Host to what its owner did there before Kubernetes came, as a script.

    Args:
        spec: The site.
        owned: The site as `with_owner` gives it.
    """
    plane = spec.kubernetes
    hands = {host.name: MEMLOCK for host in owned.workers}
    if not isinstance(plane, ExistingPlane) or _distribution(plane) == "k3s":
        return hands
    for host in (*owned.servers, *owned.workers):
        config = _of_node(host, plane) if host.role == "worker" else _of_kubespray(plane)
        text = yaml.safe_dump(config, sort_keys=False)
        hands[host.name] = KUBESPRAY.format(config=text) + hands.get(host.name, "")
    return hands


def _of_kubespray(plane: ExistingPlane) -> dict[str, object]:
    labels = [f"{DISTRIBUTION}={_distribution(plane)}", f"lab.railyard.dev/kubelet={plane.version}"]
    return {"node-label": labels}


def _of_node(host: Host, plane: ExistingPlane) -> dict[str, object]:
    """A worker has its own name, and the taints that the site tolerates."""
    taints = [f"{each.key}=present:{each.effect}" for each in plane.tolerations if each.effect]
    config = {"node-name": host.node, **_of_kubespray(plane)}
    return config | ({"node-taint": taints} if taints else {})


def _with_logins(spec: ClusterSpec, stack: str) -> ClusterSpec:
    """The site as the owner has it, who can log in to every node; Railyard is not given that."""

    def known(number: int, host: Host) -> Host:
        if host.ssh is not None:
            return host
        ssh = Ssh(
            address=f"{block_of(stack)}.{FIRST_HOST + number}",
            port=SSH_PORT,
            user="owner",
            private_key=SecretRef(secret="ssh_private_key"),  # noqa: S106 - the name of a secret
            host_key=host_key(f"{stack}/{host.name}").public_openssh,
        )
        return host.model_copy(update={"login": "ssh", "ssh": ssh})

    hosts = tuple(known(number, host) for number, host in enumerate(spec.hosts))
    return spec.model_copy(update={"hosts": hosts})


def image_steps(spec: ClusterSpec, owned: ClusterSpec, stack: str) -> tuple[RemoteStep, ...]:
    """What the image of nodes brings that Railyard does not log in to: their cards' settings.

    Without it a pod gets no macvlan of the rail's MTU, as on a node whose image has another one.
    """
    dark = {host.name for host in spec.unreached}
    plans = plan_hosts(owned, f"{stack}-owner") if dark else ()
    return tuple(plan.converge for plan in plans if plan.name in dark)


def install(
    plan: KubernetesPlan,
    secrets: Mapping[str, str],
    image: Sequence[RemoteStep],
    hands: Mapping[str, str],
) -> str:
    """Install the owner's cluster unless it is there, and return its kubeconfig.

    Args:
        plan: What `with_owner` gave.
        secrets: The lab's, by name.
        image: From `image_steps`.
        hands: From `by_hand`.

    Raises:
        DeviceError: A lab host refused a step.
    """
    for step in image:
        _run(step, secrets)
    for step in (*plan.servers, *plan.agents):
        if script := hands.get(step.endpoint.device):
            _by_hand(step, script, secrets)
    for step in plan.steps:
        answer = _run(step, secrets)
        if step == plan.access:
            return render_kubeconfig(answer, plan.server_url, plan.cluster)
    raise Bug("the last step of a K3s plan prints its kubeconfig")


def _run(step: RemoteStep, secrets: Mapping[str, str]) -> str:
    if isinstance(step.apply, str):
        raise Bug(f"{step.name} is no step on a host")
    stdin = secrets[step.secret_stdin] if step.secret_stdin else step.desired
    answer = run_step_on_host(step, step.apply, stdin, secrets)
    return _demand(step, answer)


def _by_hand(step: RemoteStep, script: str, secrets: Mapping[str, str]) -> None:
    """What the owner did on the host of a step before Kubernetes came."""
    command = render_remote_command(script, step.deadline_s)
    done = run_on_host(step.endpoint, secrets, command, deadline_s=step.deadline_s)
    _demand(step, asyncio.run(done))


def _demand(step: RemoteStep, answer: HostAnswer) -> str:
    if answer.exit_status != 0:
        raise DeviceError(f"{step.endpoint.where}: {step.name} failed: {answer.stderr.strip()}")
    return answer.stdout
