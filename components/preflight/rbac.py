"""`railyard rbac`: the rights of `rights_of` as a file that a cluster's owner applies. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import yaml

from components.kubernetes.manifest import Body
from components.preflight.rights import Right

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
