"""The cluster of a host that may leave service, opened when its node has to be drained."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from components.core.errors import DeviceError, UnreachableError
from components.kubernetes.calls import Calls, KubernetesCalls
from components.kubernetes.client import read_kubeconfig
from components.kubernetes.reference import ClusterRef
from components.remote.host_runs import Run
from components.remote.step import secrets_from


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
    try:
        kubeconfig = read_kubeconfig(cluster, run, secrets_from(environ), last=host)
    except UnreachableError as error:
        words = f"whether {host} is a node that has to be drained is not known: {error}"
        raise DeviceError(words) from error
    return None if kubeconfig is None else connect(kubeconfig)
