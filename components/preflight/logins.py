"""The rights that Railyard needs: lines of sudoers, roles of switches, RBAC of a cluster. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import yaml

from components.kubernetes.manifest import Body
from components.model.cluster import ClusterSpec
from components.model.instances import crusoe_of
from components.model.ways import each_ssh
from components.preflight.rights import Right

SWITCH_ROLES: Final = {
    "onyx": "capability admin (user manual, User Management and Security Commands)",
    "mlnxos": "capability admin (user manual, User Management and Security Commands)",
    "cumulus": "role system-admin, or groups sudo and nvapply (Cumulus Linux 5.8, User Accounts)",
    "eos": "privilege 15 and role network-admin, or a role that permits enable, configure session,"
    " show and copy (unproven: no source at a named release)",
    "sonic": "group sudo, whose members SONiC asks for no password: every write is `sudo config` or"
    " `sudo sonic-cfggen`, with arguments that differ each time",
}
_EQUAL_TO_ROOT: Final = (
    "# This is equal to root: each step runs `timeout DEADLINE sh -c TEXT`, and TEXT differs with",
    "# each step and release, so that sudo cannot hold it to a list. What these lines keep out is",
    "# every other program under sudo, and every other user than root.",
)


def render_logins(spec: ClusterSpec) -> str:
    """The lines of sudoers for each group of hosts, and the role for each switch."""
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
    """The lines of one user: exactly the programs that sudo is asked to start.

    With a password the program is `sh`, which tells us that sudo asks no more
    (`components/remote/login.py`). Ansible's become starts `/bin/sh -c` too (its plugin `sudo`),
    and the containers' MPI launcher `docker exec` (`components/containers/scripts/mpicont.sh`).
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
_GROUP: Final = "rbac.authorization.k8s.io"


def render_rbac(
    cluster: str, rights: Iterable[Right], user: str, namespaces: Iterable[Body]
) -> str:
    """The file: namespaces that an update would make, roles, and who has them.

    Args:
        cluster: Name of the site.
        rights: What is granted.
        user: A user's name, or `NAMESPACE:NAME` of a service account.
        namespaces: Those of the site's own: a role in one needs it to be there.
    """
    documents = [*_documents(tuple(rights), user, tuple(namespaces))]
    head = (
        f"# What Railyard does in the cluster of {cluster}, and nothing beside it.\n"
        "# kubectl apply -f FILE as an administrator; `railyard preflight` asks for each of it.\n"
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
        rules = [_rule(each) for each in rights if each.namespace == namespace]
        kind = "Role" if namespace else "ClusterRole"
        metadata: Body = {"name": NAME, **({"namespace": namespace} if namespace else {})}
        yield {"apiVersion": f"{_GROUP}/v1", "kind": kind, "metadata": metadata, "rules": [*rules]}
        yield {
            "apiVersion": f"{_GROUP}/v1",
            "kind": f"{kind}Binding",
            "metadata": metadata,
            "roleRef": {"apiGroup": _GROUP, "kind": kind, "name": NAME},
            "subjects": [_subject(user)],
        }


def _rule(right: Right) -> Body:
    names: Body = {"resourceNames": [*right.names]} if right.names else {}
    verbs: Body = {"verbs": [*right.verbs]}
    return {"apiGroups": [right.group], "resources": [right.resource], **names, **verbs}


def _subject(user: str) -> Body:
    place, _, name = user.rpartition(":")
    if place:
        return {"kind": "ServiceAccount", "name": name, "namespace": place}
    return {"kind": "User", "name": name, "apiGroup": _GROUP}
