"""etcd's members, asked and changed through the gateway of a running member.

K3s speaks gRPC with etcd; the gateway takes the same requests as JSON (etcd's documentation, "gRPC
gateway"). Whole numbers of 64 bits are texts there.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from components.core.errors import DeviceError
from components.core.record import record
from lab.cluster.api import Api
from lab.cluster.document import Doc, at, docs_at, text_at, texts_at

REMOVE = "etcd.k3s.cattle.io/remove"
REMOVED = "etcd.k3s.cattle.io/removed-node-name"
MEMBER_NAME = "etcd.k3s.cattle.io/node-name"
MEMBER_ADDRESS = "etcd.k3s.cattle.io/node-address"
"""Annotations with which K3s ties a Node to its member (k3s-io/k3s, pkg/etcd)."""


@record
class Member:
    """One member, as etcd lists it; one that never started has no name."""

    ident: str
    name: str
    peer: str
    client: str

    @property
    def address(self) -> str:
        """The loopback address on which it serves peers."""
        return urlsplit(self.peer).hostname or ""


@record
class Status:
    """What a member says of itself."""

    ident: str
    leader: str
    learner: bool
    revision: str
    """Of its data: every write makes another one."""

    @property
    def leads(self) -> bool:
        """Whether it is the leader that a majority agreed on."""
        return self.ident == self.leader


@record
class EtcdMembers:
    """The membership as one member knows it."""

    api: Api
    """A client of that member, with etcd's own certificates."""

    def status(self) -> Status:
        """Ask the member for itself; a learner answers this too.

        Raises:
            DeviceError: It does not answer.
        """
        answer = self.api.request("POST", "/v3/maintenance/status", {})
        ident = text_at(answer, "header", "member_id")
        revision = text_at(answer, "header", "revision")
        return Status(ident, text_at(answer, "leader"), at(answer, "isLearner") is True, revision)

    def list(self) -> list[Member]:
        """Give all members, in etcd's order.

        Raises:
            DeviceError: There is no majority, or no answer.
        """
        return _members(self.api.request("POST", "/v3/cluster/member/list", {}))

    def add_learner(self, peer: str) -> list[Member]:
        """Add a member that does not vote yet; returns all members.

        Raises:
            DeviceError: etcd refuses, for example `too many learner members in cluster`.
        """
        body: Doc = {"peerURLs": [peer], "isLearner": True}
        return _members(self.api.request("POST", "/v3/cluster/member/add", body))

    def promote(self, ident: str) -> None:
        """Let a learner vote.

        Raises:
            DeviceError: It has not caught up with the leader yet.
        """
        self.api.request("POST", "/v3/cluster/member/promote", {"ID": ident})

    def remove(self, ident: str) -> None:
        """Take a member out.

        Raises:
            DeviceError: etcd refuses.
        """
        self.api.request("POST", "/v3/cluster/member/remove", {"ID": ident})


def _members(answer: Doc) -> list[Member]:
    return [
        Member(
            text_at(item, "ID"),
            text_at(item, "name"),
            "".join(texts_at(item, "peerURLs")[:1]),
            "".join(texts_at(item, "clientURLs")[:1]),
        )
        for item in docs_at(answer, "members")
    ]


def admit(members: EtcdMembers, name: str, peer: str) -> str:
    """Take a new server in as a learner, as K3s does; returns etcd's `--initial-cluster`.

    Raises:
        DeviceError: A member with that peer address is there already: its machine was lost, and
            nobody removed it.
    """
    for known in members.list():
        if known.peer == peer and known.name:
            raise DeviceError(
                "etcd cluster join failed: duplicate node name found, please use a unique name "
                f"for this node ({known.name} is still a member at {peer})"
            )
        if known.peer == peer:
            members.remove(known.ident)  # it was added and never started: a join cut short
    added = members.add_learner(peer)
    pairs = [f"{each.name or name}={each.peer}" for each in added]
    return ",".join(pairs)


def follow_removals(api: Api, members: EtcdMembers, seen: set[str]) -> None:
    """Remove the members whose nodes are marked for it, or were deleted.

    Args:
        api: The cluster.
        members: etcd as the leader sees it.
        seen: Names of the members that had a Node before; brought up to date.
    """
    present: set[str] = set()
    known = {member.name: member for member in members.list() if member.name}
    for node in api.items("/api/v1/nodes", {"labelSelector": "node-role.kubernetes.io/etcd"}):
        name = text_at(node, "metadata", "annotations", MEMBER_NAME)
        present.add(name)
        marked = text_at(node, "metadata", "annotations", REMOVE) == "true"
        if not marked or text_at(node, "metadata", "annotations", REMOVED) == name:
            continue
        if name in known:
            members.remove(known[name].ident)
        path = f"/api/v1/nodes/{text_at(node, 'metadata', 'name')}"
        api.merge(path, {"metadata": {"annotations": {REMOVED: name}}})
    for name in seen - present:
        if name in known:
            members.remove(known[name].ident)
    seen.clear()
    seen.update(present)
