"""Check an existing cluster before the first update: version, permissions, and installed parts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Final

from components.core.errors import DeviceError, UnreachableError
from components.core.problem import Finding, Severity, on_device
from components.drift.applied import Applied
from components.kubernetes.client import Calls, KubernetesCalls
from components.kubernetes.kubeconfig import choose_context
from components.kubernetes.live.read import AT_ONCE
from components.kubernetes.manifest import map_at
from components.kubernetes.planes.base import KubernetesPlan
from components.model.cluster import ClusterSpec
from components.plan.make import ClusterPlan
from components.preflight.rights import Right, reviews_of, rights_of
from components.update.cluster import judge_existing

_REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_CREATED: Final = 201
CLUSTER: Final = "the cluster"
_MOST: Final = 6
"""Most permissions that the finding lists; `railyard rbac` prints all."""


def look_at_cluster(
    spec: ClusterSpec, plan: ClusterPlan, applied: Applied, kubeconfig: str
) -> tuple[Finding, ...]:
    """Check an existing cluster's version, permissions and parts; skip a cluster of our own."""
    kubernetes = plan.kubernetes
    if kubernetes is None or kubernetes.existing is None:
        return ()
    try:
        check_existing(kubernetes, kubeconfig)
        text = choose_context(kubeconfig, kubernetes.existing.context, kubernetes.cluster)
        calls = KubernetesCalls(text)
        if lacks := tuple(_judge_rights(_denied(calls, rights_of(spec, plan)))):
            return lacks
        found = judge_existing(spec, plan, applied, calls)
        return tuple(replace(each, device=CLUSTER) for each in found)
    except UnreachableError as error:
        return (_lack("api", "the cluster's API is not reached.", error, "unreachable"),)
    except DeviceError as error:
        return (_lack("api", "the cluster is not as the file says.", error, "error"),)


def _lack(cause: str, what: str, error: Exception, severity: Severity) -> Finding:
    words, _, fix = str(error).partition("\n  fix    ")
    default = "look at the secret kubeconfig, and at the way to its server"
    return on_device(CLUSTER, cause, what, words, "a cluster to use", fix or default).rated(
        severity
    )


def _judge_rights(denied: tuple[Right, ...]) -> Iterator[Finding]:
    if denied:
        shown = "; ".join(each.words() for each in denied[:_MOST])
        more = f"; and {len(denied) - _MOST} more" if len(denied) > _MOST else ""
        what = "the kubeconfig's user lacks permissions for an update."
        actual = f"may not {shown}{more}"
        fix = "railyard rbac SITE --user USER | kubectl apply -f -, as an administrator"
        yield on_device(CLUSTER, "rights", what, actual, "the rights of `railyard rbac SITE`", fix)


def _denied(calls: Calls, rights: tuple[Right, ...]) -> tuple[Right, ...]:
    """Return permissions that the cluster denies, by one SelfSubjectAccessReview each."""
    questions = [(right, asked) for right in rights for asked in reviews_of(right)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = pool.map(partial(_may, calls), [asked for _, asked in questions])
        refused = [each for each, may in zip(questions, answers, strict=True) if not may]
    found: dict[Right, dict[str, None]] = {}
    for right, asked in refused:
        found.setdefault(right, {})[asked["verb"]] = None
    return tuple(replace(right, verbs=tuple(verbs)) for right, verbs in found.items())


def _may(calls: Calls, attributes: Mapping[str, str]) -> bool:
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": dict(attributes)},
    }
    answer = calls.call("POST", _REVIEWS, body)
    if answer.status != _CREATED:
        raise DeviceError(f"the cluster does not say what we may do: {answer.words}")
    return bool(map_at(answer.body, "status").get("allowed"))


_MINOR: Final = re.compile(r"v?(\d+)\.(\d+)")


def check_existing(plan: KubernetesPlan, secret: str) -> None:
    """Refuse an existing cluster with another minor version than the file's. Read-only.

    A site that installs its own cluster is skipped.

    Raises:
        UnreachableError: The API does not answer.
        DeviceError: The kubeconfig or its context cannot be used, or the version differs.
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
    """Return major and minor of a version such as `v1.36.3+k3s1`; None for another text."""
    match = _MINOR.match(version)
    return (int(match[1]), int(match[2])) if match else None


def read_version(kubeconfig: str) -> str:
    """Ask a cluster for its version, for example `v1.36.3`.

    Raises:
        UnreachableError: The API does not answer.
        DeviceError: The kubeconfig cannot be used, or the API refuses it.
    """
    answer = KubernetesCalls(kubeconfig).call("GET", "/version")
    if not answer.body.get("gitVersion"):
        raise DeviceError(
            f"the existing cluster refuses the kubeconfig: {answer.status} {answer.words}"
        )
    return str(answer.body["gitVersion"])
