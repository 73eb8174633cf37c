"""The version of an existing cluster: read from its API, compared with the file."""

from __future__ import annotations

import re
from typing import Any, Final, cast

from components.core.errors import DeviceError, UnreachableError
from components.core.limits import Deadline, end_within
from components.kubernetes.calls import TRIES
from components.kubernetes.client import make_client
from components.kubernetes.kubeconfig import choose_context
from components.kubernetes.planes.base import KubernetesPlan

REQUEST_DEADLINE_S: Final = 5.0
"""Seconds for one request; the client tries four times before it gives up."""
_MINOR: Final = re.compile(r"v?(\d+)\.(\d+)")


def check_existing(plan: KubernetesPlan, secret: str) -> None:
    """Refuse an existing cluster that runs another minor than the file says. Read-only.

    Args:
        plan: The plan of a site; one that installs its own cluster is left alone.
        secret: The kubeconfig that the secret holds.

    Raises:
        UnreachableError: The API does not answer.
        DeviceError: The kubeconfig or its context cannot be used, or the version is another one.
    """
    if plan.existing is None:
        return
    found = read_version(choose_context(secret, plan.existing.context, plan.cluster))
    if minor_of(found) != minor_of(plan.version):
        raise DeviceError(
            f"the existing cluster runs Kubernetes {found}, the file says {plan.version}.\n"
            f"  fix    write version: {found} under kubernetes, and check the operators against it."
        )


def minor_of(version: str) -> tuple[int, int] | None:
    """Major and minor of a Kubernetes version such as `v1.36.3+k3s1`; None for another text."""
    match = _MINOR.match(version)
    return (int(match[1]), int(match[2])) if match else None


def read_version(kubeconfig: str) -> str:
    """Ask a cluster for its version, for example `v1.36.3`.

    Raises:
        UnreachableError: The API does not answer.
        DeviceError: The kubeconfig cannot be used, or the API refuses it.
    """
    # An eighth of a second of a program's start, and only a site with a cluster of others asks.
    from kubernetes import client as kube_client  # noqa: PLC0415 - see above
    from kubernetes.client.exceptions import ApiException  # noqa: PLC0415 - the same
    from urllib3.exceptions import HTTPError  # noqa: PLC0415 - the same

    client = make_client(kubeconfig)
    try:
        with end_within(Deadline(TRIES * REQUEST_DEADLINE_S)):
            answer = cast("Any", kube_client.VersionApi(client)).get_code(
                _request_timeout=REQUEST_DEADLINE_S
            )
        return str(answer.git_version)
    except ApiException as error:
        reason = str(error).strip().splitlines()[0]
        raise DeviceError(f"the existing cluster refuses the kubeconfig: {reason}") from error
    except (HTTPError, OSError) as error:
        raise UnreachableError(f"the existing cluster's API does not answer: {error}") from error
    finally:
        client.close()
