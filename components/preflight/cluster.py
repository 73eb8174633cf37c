"""Check an existing cluster before the first update, and list the permissions that an update needs.

Those are for sudoers, switch roles, and a cluster's kubeconfig.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Final

import yaml

from components.catalogue.cluster_parts import TABLE
from components.core.errors import DeviceError, UnreachableError
from components.core.plain_text import shortened
from components.core.problem import Finding
from components.core.templates import read_table
from components.drift.applied import Applied
from components.kubernetes import rights as rbac
from components.kubernetes.client import Calls
from components.kubernetes.live.read import AT_ONCE
from components.kubernetes.manifest import Body, map_at
from components.model.cluster import ClusterSpec
from components.model.owners import owners_of
from components.model.places import each_ssh
from components.model.worker_kinds import crusoe_of
from components.plan.make import ClusterPlan
from components.preflight.report import lack
from components.update.cluster import judge_existing, open_existing, tried_pods

_REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_CREATED: Final = 201
CLUSTER: Final = "the cluster"
_MOST: Final = 6
"""Most permissions that the finding lists; `railyard rbac` prints all."""
SWITCH_ROLES: Final[Mapping[str, str]] = read_table(__file__, "roles")
_EQUAL_TO_ROOT: Final = (
    "# This is equal to root: each step runs `timeout DEADLINE sh -c TEXT`, and TEXT differs with",
    "# each step and release, so sudo cannot hold it to a list. These lines only keep out",
    "# every other program under sudo, and every other user than root.",
)
NAME: Final = "railyard"


def look_at_cluster(
    spec: ClusterSpec, plan: ClusterPlan, applied: Applied, secrets: Mapping[str, str]
) -> Iterator[Finding]:
    """Check an existing cluster's version, permissions and parts; skip a cluster of our own."""
    try:
        calls = open_existing(plan.kubernetes, secrets)
        if calls is not None and (denied := _denied(calls, rights_of(spec, plan))):
            words = shortened([each.words() for each in denied], _MOST, "; ")
            yield lack(CLUSTER, "rights", f"may not {words}")
        elif calls is not None:
            for each in judge_existing(spec, plan, applied, calls):
                yield replace(each, device=CLUSTER)
    except DeviceError as error:
        words, _, fix = str(error).partition("\n  fix    ")
        fix = fix or "look at the secret kubeconfig, and at the way to its server"
        row = "api-away" if isinstance(error, UnreachableError) else "api"
        yield lack(CLUSTER, row, words, fix=fix)


def _denied(calls: Calls, rights: tuple[rbac.Right, ...]) -> tuple[rbac.Right, ...]:
    """Return permissions that the cluster denies, by one SelfSubjectAccessReview each."""

    def may(attributes: Mapping[str, str]) -> bool:
        body: Body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
        body |= {"spec": {"resourceAttributes": dict(attributes)}}
        answer = calls.call("POST", _REVIEWS, body)
        if answer.status != _CREATED:
            raise DeviceError(f"the cluster does not say what we may do: {answer.words}")
        return bool(map_at(answer.body, "status").get("allowed"))

    questions = [(right, asked) for right in rights for asked in reviews_of(right)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = [*pool.map(may, [asked for _, asked in questions])]
    found: dict[rbac.Right, dict[str, None]] = {}
    for (right, asked), allowed in zip(questions, answers, strict=True):
        if not allowed:
            found.setdefault(right, {})[asked["verb"]] = None
    return tuple(replace(right, verbs=tuple(verbs)) for right, verbs in found.items())


def rights_of(spec: ClusterSpec, plan: ClusterPlan) -> tuple[rbac.Right, ...]:
    """Return the permissions for an update, its readings and its acceptance, once each."""
    right, owners = rbac.Right, owners_of(spec)
    found = (row.status for part, row in TABLE.items() if owners[part] != "none")
    statuses = (each.path.removeprefix("/apis/").split("/") for each in found if each is not None)
    rights = [*rbac.of_looks(*((group, resource) for group, _, resource in statuses))]
    for manifest in plan.manifests:
        rights += rbac.of_object(manifest.body)
    rights += [right(place, "", "pods", (), ("create",)) for place, _ in tried_pods(plan)]
    rights += rbac.of_charts(chart.namespace for chart in plan.operators.charts)
    rights += rbac.of_jobs(spec, plan.acceptance.objects)
    # For labels and cordons, for evictions, and for restarts of device plugins in any namespace.
    workers = tuple(sorted(host.node for host in spec.workers))
    rights.append(right("", "", "nodes", workers, ("patch",)))
    if plan.reboots:
        rights.append(right("", "", "pods/eviction", (), ("create",)))
        rights.append(right("", "", "pods", (), ("delete",)))
    return tuple(sorted(rbac.joined(rights)))


def reviews_of(right: rbac.Right) -> Iterator[Mapping[str, str]]:
    """Yield the SelfSubjectAccessReviews for a right, one per verb and name."""
    resource, _, part = right.resource.partition("/")
    for verb in right.verbs:
        for name in right.names or ("",):
            asked = {"verb": verb, "group": right.group, "resource": resource}
            more = {"subresource": part, "namespace": right.namespace, "name": name}
            yield asked | {key: value for key, value in more.items() if value}


def render_logins(spec: ClusterSpec) -> str:
    """Render the sudoers lines for each group of hosts, and the role for each switch."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for name, ssh, path in each_ssh(spec):
        if path[0] in {"hosts", "environment"}:
            lines = sudoers(spec, ssh.user, asks=ssh.sudo_password is not None)
            groups.setdefault(lines, []).append(name)
    if (provision := crusoe_of(spec)) is not None:
        groups[sudoers(spec, provision.ssh_user, asks=False)] = ["every instance"]
    text: list[str] = []
    for lines, hosts in groups.items():
        where = "/etc/sudoers.d/railyard, with visudo -f" if lines else "no sudo: root logs in"
        text += [f"# {', '.join(hosts)}: {where}", *lines]
    text += _EQUAL_TO_ROOT if any(groups) else ()
    text += (
        f"# {switch.name} ({switch.os}), {switch.ssh.user}: {SWITCH_ROLES[switch.os]}"
        for switch in spec.switches
    )
    return "".join(f"{line}\n" for line in text)


def sudoers(spec: ClusterSpec, user: str, *, asks: bool) -> tuple[str, ...]:
    """Return one user's sudoers lines: exactly the programs that sudo starts.

    With a password the program is `sh`, which shows that sudo accepted the password
    (`components/remote/sudo.py`). Ansible's become starts `/bin/sh -c` too (its plugin `sudo`), and
    the containers' MPI launcher `docker exec` (`components/containers/scripts/mpicont.sh`).
    """
    if user == "root":
        return ()
    own = ["/bin/sh" if asks else "/usr/bin/timeout"]
    if spec.kubespray is not None and not asks:
        own.append("/bin/sh")
    lines = [f"{user} ALL=(root) {'' if asks else 'NOPASSWD: '}{', '.join(own)}"]
    if spec.containers is not None:
        lines.append(f"{user} ALL=(root) NOPASSWD: /usr/bin/docker")
    return tuple(lines)


def render_rbac(
    cluster: str, rights: Iterable[rbac.Right], user: str, namespaces: Iterable[Body]
) -> str:
    """Render the manifest: namespaces that an update would create, roles, and their bindings.

    `user` is a user's name, or `NAMESPACE:NAME` of a service account. `namespaces` are the site's
    own ones, which must exist before their roles.
    """
    given, documents = tuple(rights), [*namespaces]
    place, _, name = user.rpartition(":")
    subject: Body = {"kind": "User", "name": name, "apiGroup": rbac.RBAC}
    if place:
        subject = {"kind": "ServiceAccount", "name": name, "namespace": place}
        metadata: Body = {"name": name, "namespace": place}
        documents.append({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
    for namespace in sorted({each.namespace for each in given}):
        documents += rbac.role_of(NAME, namespace, given, subject)
    head = (
        f"# The rights that Railyard needs in the cluster of {cluster}, and no others.\n"
        "# kubectl apply -f FILE as an administrator; `railyard preflight` asks for each right.\n"
    )
    return head + yaml.safe_dump_all(documents, sort_keys=False, explicit_start=True)
