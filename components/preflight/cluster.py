"""An existing cluster before the first update: its version, and what its kubeconfig may do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, cast

import yaml
from kubernetes import client as kube_client
from kubernetes import config as kube_config
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from components.core.errors import DeviceError, UnreachableError
from components.core.finding import Finding
from components.kubernetes.kubeconfig import choose_context
from components.kubernetes.planes.base import KubernetesPlan
from components.kubernetes.server_version import REQUEST_DEADLINE_S, check_existing

CLUSTER: Final = "the cluster"
RIGHTS: Final = (
    ("create", "", "namespaces"),
    ("create", "", "configmaps"),
    ("create", "", "serviceaccounts"),
    ("patch", "", "nodes"),
    ("create", "apps", "daemonsets"),
    ("create", "apps", "deployments"),
    ("create", "batch", "jobs"),
    ("create", "apiextensions.k8s.io", "customresourcedefinitions"),
    ("create", "rbac.authorization.k8s.io", "clusterroles"),
    ("create", "rbac.authorization.k8s.io", "clusterrolebindings"),
    ("delete", "", "pods"),
)
"""Verb, API group and resource of what the stages operators, pod network and jobs make."""


def look_at_cluster(plan: KubernetesPlan, kubeconfig: str) -> tuple[Finding, ...]:
    """Version and rights of a cluster that exists already; nothing for one that is installed."""
    if plan.existing is None:
        return ()
    try:
        check_existing(plan, kubeconfig)
        text = choose_context(kubeconfig, plan.existing.context, plan.cluster)
        return tuple(_judge_rights(_denied(text)))
    except UnreachableError as error:
        return (_lack("api", "the cluster's API is not reached.", error, "unreachable"),)
    except DeviceError as error:
        return (_lack("api", "the cluster is not as the file says.", error, "problem"),)


def _lack(cause: str, what: str, error: Exception, severity: Any) -> Finding:  # noqa: ANN401 - a Severity
    words, _, fix = str(error).partition("\n  fix    ")
    default = "look at the secret kubeconfig, and at the way to its server"
    return Finding(CLUSTER, cause, what, words, "a cluster to use", fix or default, severity)


def _judge_rights(denied: tuple[str, ...]) -> Iterator[Finding]:
    if denied:
        yield Finding(
            CLUSTER,
            "rights",
            "the kubeconfig's user may not make what an update makes.",
            f"may not {', '.join(denied)}",
            "cluster-admin, or a role with these rights",
            "bind a role: kubectl create clusterrolebinding railyard --clusterrole=cluster-admin"
            " --user=USER",
        )


def _denied(kubeconfig: str) -> tuple[str, ...]:
    """What the cluster itself says that we may not do: a SelfSubjectAccessReview each."""
    # The client library ships no types.
    make = cast("Callable[[object], Any]", kube_config.new_client_from_config_dict)  # pyright: ignore[reportUnknownMemberType]
    client = make(yaml.safe_load(kubeconfig))
    api = cast("Any", kube_client.AuthorizationV1Api(client))
    try:
        return tuple(
            f"{verb} {resource}"
            for verb, group, resource in RIGHTS
            if not _may(api, verb, group, resource)
        )
    except ApiException as error:
        reason = str(error).strip().splitlines()[0]
        raise DeviceError(f"the cluster does not say what we may do: {reason}") from error
    except (HTTPError, OSError) as error:
        raise UnreachableError(f"the cluster's API does not answer: {error}") from error
    finally:
        client.close()


def _may(api: Any, verb: str, group: str, resource: str) -> bool:  # noqa: ANN401 - see above
    attributes = {"verb": verb, "group": group, "resource": resource}
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    answer = api.create_self_subject_access_review(body, _request_timeout=REQUEST_DEADLINE_S)
    return bool(answer.status.allowed)
