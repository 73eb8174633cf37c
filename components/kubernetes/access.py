"""Access to a cluster at the moment of use.

The kubeconfig is no input of the step that uses it: it is read from a server over SSH when it is
needed, or is in the environment for an existing cluster. So a new certificate changes no step, and
no secret is in a request.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from components.core.errors import DeviceError, UnreachableError, UsageError
from components.kubernetes.kubeconfig import choose_context, render_kubeconfig
from components.kubernetes.reference import ClusterRef, Server
from components.remote.host_runs import Run
from components.remote.script import render_remote_command
from components.remote.step import OBSERVE_DEADLINE_S, env_name

_NONE: Final = "none"
_K3S: Final = "/etc/rancher/k3s/k3s.yaml"
"""K3s writes the file at the first start of a server, and its uninstall removes it."""


def read_kubeconfig(
    cluster: ClusterRef, run: Run, secrets: Mapping[str, str], last: str = ""
) -> str | None:
    """The administrator's kubeconfig as it is now, or None where no server has started yet.

    Args:
        cluster: Which one.
        run: How a server is asked.
        secrets: By name; holds the kubeconfig of an existing cluster.
        last: The host whose API is the last choice, since it shall leave service.

    Raises:
        DeviceError: It cannot be known whether there is one, since a server does not answer.
        UsageError: The secret kubeconfig is not in the environment.
    """
    if name := cluster.kubeconfig_secret:
        if name not in secrets:
            raise UsageError(f"no kubeconfig: set {env_name(name)} in the environment")
        return choose_context(secrets[name], cluster.context, cluster.name)
    silent: list[str] = []
    for server in sorted(cluster.servers, key=lambda each: each.endpoint.device == last):
        try:
            raw = _ask(server, run)
        except UnreachableError as error:
            silent.append(str(error).splitlines()[0])
            continue
        if raw.strip() != _NONE:
            return render_kubeconfig(raw, server.url, cluster.name)
    if silent:
        raise UnreachableError("; ".join(silent))
    return None


def _ask(server: Server, run: Run) -> str:
    read = f"cat {server.kubeconfig or _K3S} 2>/dev/null || echo {_NONE}\n"
    command = render_remote_command(read, OBSERVE_DEADLINE_S)
    answer = run(server.endpoint, command, "", OBSERVE_DEADLINE_S)
    if answer.exit_status:
        raise DeviceError(f"{server.endpoint.where}: {answer.stderr.strip()}")
    return answer.stdout
