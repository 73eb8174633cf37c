"""The existing cluster, for a site of `plane: existing`.

Its owner is a lab host of its own, beside those of the site: K3s is installed from there on the
site's workers, over SSH, as a person would have done it before Railyard came. Railyard itself then
gets what such a person hands over: a kubeconfig.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from components.catalogue.cni_folders import distribution_of
from components.core.errors import Bug, DeviceError, UsageError
from components.hosts.plan import plan_hosts
from components.kubernetes.kubeconfig import render_kubeconfig
from components.kubernetes.plan import plan_kubernetes
from components.kubernetes.planes.base import KubernetesPlan
from components.model.cluster import ClusterSpec
from components.model.hosts import Host
from components.model.kubernetes import ExistingPlane, K3sPlane, K3sSource
from components.model.units import SecretRef, Ssh
from components.remote.host_session import HostAnswer, run_on_host
from components.remote.script import render_remote_command
from components.remote.step import RemoteStep
from lab.keys import host_key
from lab.site import FIRST_HOST, SSH_PORT, block_of
from lab.steps import run_step_on_host

OWNER: Final = "owner01"
MEMLOCK: Final = """
mkdir -p /etc/systemd/system/k3s-agent.service.d
printf '[Service]\\nLimitMEMLOCK=infinity\\n' >/etc/systemd/system/k3s-agent.service.d/10-owner.conf
"""
"""What an owner whose pods use RDMA has set, before the unit starts for the first time."""
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
        UsageError: The cluster is not of K3s.
    """
    if not isinstance(spec.kubernetes, ExistingPlane) or not spec.workers:
        return None
    if distribution_of(spec.kubernetes.version) != "k3s":
        raise UsageError(
            f"the owner of the lab's existing clusters installs K3s and nothing on it, and the site"
            f" has Kubernetes {spec.kubernetes.version}.\n"
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
        version=spec.kubernetes.version,
        source=K3sSource.model_validate(source),
    )
    owned = known.model_copy(update={"hosts": (owner, *known.hosts), "kubernetes": plane})
    plan = plan_kubernetes(owned, f"{stack}-owner")
    if plan is None:
        raise Bug("a site with K3s has a plan of it")
    return owned, plan


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
    plan: KubernetesPlan, secrets: Mapping[str, str], image: Sequence[RemoteStep] = ()
) -> str:
    """Install the owner's cluster unless it is there, and return its kubeconfig.

    Args:
        plan: What `with_owner` gave.
        secrets: The lab's, by name.
        image: From `image_steps`.

    Raises:
        DeviceError: A lab host refused a step.
    """
    for step in image:
        _run(step, secrets)
    for step in plan.agents:
        _by_hand(step, MEMLOCK, secrets)
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
