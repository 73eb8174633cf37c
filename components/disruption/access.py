"""Access to the cluster of a host at the moment of use.

The kubeconfig is no input of the step: it is read from a server over SSH when a node has to be
drained, or is in the environment for an existing cluster. So a new certificate changes no step, and
no secret is in a request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from components.core.errors import DeviceError, UnreachableError, UsageError
from components.disruption.request import ClusterRef, Server
from components.kubernetes.calls import Calls, KubernetesCalls
from components.kubernetes.kubeconfig import choose_context, render_kubeconfig
from components.remote.host_runs import Run
from components.remote.script import render_remote_command
from components.remote.step import OBSERVE_DEADLINE_S, env_name

_NONE: Final = "none"
_READ: Final = f"cat /etc/rancher/k3s/k3s.yaml 2>/dev/null || echo {_NONE}\n"
"""K3s writes the file at the first start of a server, and its uninstall removes it."""


def open_cluster(
    cluster: ClusterRef,
    host: str,
    run: Run,
    environ: Mapping[str, str],
    connect: Callable[[str], Calls] = KubernetesCalls,
) -> Calls | None:
    """The cluster, or None where there is none yet.

    Args:
        cluster: Which one.
        host: The host that shall leave service: its own API is the last choice.
        run: How a server is asked.
        environ: Holds the secret kubeconfig of an existing cluster.
        connect: Makes a client from a kubeconfig.

    Raises:
        DeviceError: It cannot be known whether there is one, since a server does not answer.
        UsageError: The secret kubeconfig is not in the environment.
    """
    if cluster.kubeconfig_secret:
        name = env_name(cluster.kubeconfig_secret)
        if name not in environ:
            raise UsageError(f"no kubeconfig: set {name} in the environment")
        return connect(choose_context(environ[name], cluster.context, cluster.name))
    silent: list[str] = []
    for server in sorted(cluster.servers, key=lambda each: each.endpoint.device == host):
        try:
            raw = _ask(server, run)
        except UnreachableError as error:
            silent.append(str(error).splitlines()[0])
            continue
        if raw.strip() != _NONE:
            return connect(render_kubeconfig(raw, server.url, cluster.name))
    if silent:
        raise DeviceError(
            f"whether {host} is a node that has to be drained is not known: {'; '.join(silent)}"
        )
    return None


def _ask(server: Server, run: Run) -> str:
    command = render_remote_command(_READ, OBSERVE_DEADLINE_S)
    answer = run(server.endpoint, command, "", OBSERVE_DEADLINE_S)
    if answer.exit_status:
        raise DeviceError(f"{server.endpoint.where}: {answer.stderr.strip()}")
    return answer.stdout
