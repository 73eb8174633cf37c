"""An existing cluster before the first update: its version, our rights, what is there already."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, Final

from components.core.errors import DeviceError, UnreachableError
from components.core.finding import Finding
from components.drift.applied import Applied
from components.kubernetes.calls import Calls, KubernetesCalls
from components.kubernetes.kubeconfig import choose_context
from components.kubernetes.live.read import AT_ONCE
from components.kubernetes.manifest import map_at
from components.kubernetes.server_version import check_existing
from components.model.cluster import ClusterSpec
from components.plan.make import ClusterPlan
from components.preflight.rights import Right, reviews_of, rights_of
from components.update.parts import judge_existing

_REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_CREATED: Final = 201
CLUSTER: Final = "the cluster"
_MOST: Final = 6
"""Rights that are named; `railyard rbac` prints all."""


def look_at_cluster(
    spec: ClusterSpec, plan: ClusterPlan, applied: Applied, kubeconfig: str
) -> tuple[Finding, ...]:
    """Version, rights and what is there already; nothing for a cluster that is installed."""
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
        return (_lack("api", "the cluster is not as the file says.", error, "problem"),)


def _lack(cause: str, what: str, error: Exception, severity: Any) -> Finding:  # noqa: ANN401 - a Severity
    words, _, fix = str(error).partition("\n  fix    ")
    default = "look at the secret kubeconfig, and at the way to its server"
    return Finding(CLUSTER, cause, what, words, "a cluster to use", fix or default, severity)


def _judge_rights(denied: tuple[Right, ...]) -> Iterator[Finding]:
    if denied:
        shown = "; ".join(each.words() for each in denied[:_MOST])
        more = f"; and {len(denied) - _MOST} more" if len(denied) > _MOST else ""
        yield Finding(
            CLUSTER,
            "rights",
            "the kubeconfig's user may not do what an update does.",
            f"may not {shown}{more}",
            "the rights of `railyard rbac SITE`",
            "railyard rbac SITE --user USER | kubectl apply -f -, as an administrator",
        )


def _denied(calls: Calls, rights: tuple[Right, ...]) -> tuple[Right, ...]:
    """What the cluster itself says that we may not do: a SelfSubjectAccessReview each."""
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
