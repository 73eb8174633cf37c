"""List the permissions that Railyard needs: sudoers, switch roles, a cluster's kubeconfig. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import yaml

from components.catalogue.cluster_parts import TABLE
from components.kubernetes.manifest import Body
from components.kubernetes.rights import (
    LOOKS,
    RBAC,
    READS,
    Right,
    joined,
    of_charts,
    of_jobs,
    of_object,
    role_of,
)
from components.model.cluster import ClusterSpec
from components.model.owners import owners_of
from components.model.places import each_ssh
from components.model.worker_kinds import crusoe_of
from components.plan.make import ClusterPlan
from components.update.cluster import manifests_of, tried_pods


def rights_of(spec: ClusterSpec, plan: ClusterPlan) -> tuple[Right, ...]:
    """Return the permissions for an update, its readings and its acceptance, once each."""
    return tuple(sorted(joined(_rights(spec, plan))))


def _rights(spec: ClusterSpec, plan: ClusterPlan) -> Iterator[Right]:
    for group, resource in LOOKS:
        yield Right("", group, resource, (), READS)
    for part, row in TABLE.items():
        if row.status is not None and owners_of(spec)[part] != "none":
            group, _, resource = row.status.path.removeprefix("/apis/").split("/")
            yield Right("", group, resource, (), READS)
    for manifest in manifests_of(plan):
        yield from of_object(manifest.body)
    for namespace, _ in tried_pods(plan):
        yield Right(namespace, "", "pods", (), ("create",))
    yield from of_charts(chart.namespace for chart in plan.operators.charts)
    yield from of_jobs(spec, plan.acceptance.objects)
    yield from _of_nodes(spec, plan)


def _of_nodes(spec: ClusterSpec, plan: ClusterPlan) -> Iterator[Right]:
    """Yield the rights for labels, cordons, evictions and restarts of device plugins.

    These pods may be in any namespace.
    """
    yield Right("", "", "nodes", tuple(sorted(host.node for host in spec.workers)), ("patch",))
    if plan.reboots:
        yield Right("", "", "pods/eviction", (), ("create",))
        yield Right("", "", "pods", (), ("delete",))


def reviews_of(right: Right) -> Iterator[Mapping[str, str]]:
    """Yield the SelfSubjectAccessReviews for a right, one per verb and name."""
    resource, _, part = right.resource.partition("/")
    for verb in right.verbs:
        for name in right.names or ("",):
            asked = {"verb": verb, "group": right.group, "resource": resource}
            asked |= {"subresource": part} if part else {}
            asked |= {"namespace": right.namespace} if right.namespace else {}
            yield asked | ({"name": name} if name else {})


SWITCH_ROLES: Final = {
    "onyx": "capability admin (user manual, User Management and Security Commands)",
    "mlnxos": "capability admin (user manual, User Management and Security Commands)",
    "cumulus": "role system-admin, or groups sudo and nvapply (Cumulus Linux 5.8, User Accounts)",
    "eos": "privilege 15 and role network-admin, or a role that permits enable, configure session,"
    " show and copy (unproven: no source at a named release)",
    "sonic": "group sudo, whose members SONiC asks for no password: every write is `sudo config` or"
    " `sudo sonic-cfggen`, with new arguments each time",
}
_EQUAL_TO_ROOT: Final = (
    "# This is equal to root: each step runs `timeout DEADLINE sh -c TEXT`, and TEXT differs with",
    "# each step and release, so sudo cannot hold it to a list. These lines only keep out",
    "# every other program under sudo, and every other user than root.",
)


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


NAME: Final = "railyard"


def render_rbac(
    cluster: str, rights: Iterable[Right], user: str, namespaces: Iterable[Body]
) -> str:
    """Render the manifest: namespaces that an update would create, roles, and their bindings.

    `user` is a user's name, or `NAMESPACE:NAME` of a service account. `namespaces` are the site's
    own ones, which must exist before their roles.
    """
    documents = [*_documents(tuple(rights), user, tuple(namespaces))]
    head = (
        f"# The rights that Railyard needs in the cluster of {cluster}, and no others.\n"
        "# kubectl apply -f FILE as an administrator; `railyard preflight` asks for each right.\n"
    )
    return head + yaml.safe_dump_all(documents, sort_keys=False, explicit_start=True)


def _documents(
    rights: tuple[Right, ...], user: str, namespaces: tuple[Body, ...]
) -> Iterator[Body]:
    yield from namespaces
    place, _, account = user.rpartition(":")
    if place:
        yield {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": account, "namespace": place},
        }
    for namespace in sorted({each.namespace for each in rights}):
        yield from role_of(NAME, namespace, rights, _subject(user))


def _subject(user: str) -> Body:
    place, _, name = user.rpartition(":")
    if place:
        return {"kind": "ServiceAccount", "name": name, "namespace": place}
    return {"kind": "User", "name": name, "apiGroup": RBAC}
