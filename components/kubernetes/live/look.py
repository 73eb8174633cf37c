"""Read a cluster once, without changes, and compare it with the applied objects."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import product
from typing import Final

from components.core.difference import ABSENT
from components.core.errors import RailyardError
from components.core.plain_text import counted, one_line
from components.core.problem import DIFFERS, Finding, exit_code
from components.core.record import field, record
from components.drift.device_drift import Unreachable
from components.kubernetes.client import Calls, KubernetesCalls, fetch_kubeconfig
from components.kubernetes.live import read, why
from components.kubernetes.live.compare import THERE, FieldDrift, compare_object
from components.kubernetes.live.read import Key, Live, Reader, Release, ReleaseRef
from components.kubernetes.manifest import Body, list_at, map_at, name_of
from components.kubernetes.planes.base import ClusterRef

CLUSTER: Final = "cluster"
"""Used instead of a device name in reports."""
_INSTALL: Final = f"{THERE}: `pulumi up --refresh` installs it again"
"""The engine cannot find out otherwise that a release was deleted."""
_FOREIGN: Final = " does not belong to the plan, and it may block probes"
_MOST: Final = 3
"""The number of fields to print for an object; further ones are only counted."""
_BESIDE: Final = {
    "networking.k8s.io/v1": ("NetworkPolicy", "/apis/networking.k8s.io/v1", "networkpolicies"),
    "v1": ("ResourceQuota", "/api/v1", "resourcequotas"),
}
"""API version to kind, path and plural of objects that may keep a pod out of its namespace."""
POLL_S: Final = 5.0
_SHOWN: Final = 5
"""The number of absent objects to name; further ones are only counted."""


@record
class Asked:
    """The objects and names to read."""

    objects: tuple[Body, ...] = field(default=(), repr=False)
    """As applied; for a login, with the value of its Secret."""
    releases: tuple[ReleaseRef, ...] = ()
    nodes: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    """Namespaces in which our pods run: a policy or a quota of others there may keep them out."""
    tolerations: tuple[Body, ...] = ()
    """The tolerations of our pods."""


@record
class ReleaseLook:
    """One Helm release, and those of its objects that exist."""

    release: Release | None
    live: Live = field(default_factory=Live, repr=False)


@record
class ClusterLook:
    """The objects read from a cluster."""

    asked: Asked
    live: Live = field(default_factory=Live, repr=False)
    releases: Mapping[ReleaseRef, ReleaseLook] = field(
        default_factory=dict[ReleaseRef, ReleaseLook]
    )
    nodes: Mapping[str, Body] = field(default_factory=dict[str, Body], repr=False)
    beside: tuple[Key, ...] = ()
    """Policies and quotas in the namespaces of our pods."""


@record
class ObjectDrift:
    """One object that differs from the applied one."""

    name: str
    """`DaemonSet kube-system/multus`."""
    fields: tuple[FieldDrift, ...]
    release: str = ""
    """The Helm release that it belongs to; empty for an object of the plan."""

    @property
    def absent(self) -> bool:
        """Whether the object does not exist."""
        return any(not each.path for each in self.fields)

    @property
    def ours(self) -> bool:
        """An update restores a field that Railyard applied."""
        return any(each.ours for each in self.fields)

    def __str__(self) -> str:
        """One line: the object, its first fields, and the number of further ones."""
        shown = "; ".join(map(str, self.fields[:_MOST]))
        more = f"; and {len(self.fields) - _MOST} more" if len(self.fields) > _MOST else ""
        of = f" of Helm release {self.release}" if self.release else ""
        sign = " " if self.fields[:1] and not self.fields[0].path else ": "
        return one_line(f"{self.name}{of}{sign}{shown}{more}")


@record
class ClusterDrift:
    """The differences between the cluster and the applied objects."""

    observed: bool = False
    unreachable: str | None = None
    lost: tuple[str, ...] = ()
    """Servers and balancers that are lost, the consequence, and the next command."""
    objects: tuple[ObjectDrift, ...] = ()
    undeployed: Mapping[str, str] = field(default_factory=dict[str, str])
    """Existing Helm releases that are not deployed, with their status."""
    absent_nodes: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    """Faults that no update repairs, in words: nodes that take no pods, policies and quotas of
    others."""

    @property
    def touched(self) -> bool:
        """An update restores something, after which the path must be proven again."""
        return bool(self.absent_nodes) or any(each.ours for each in self.objects)

    @property
    def repaired(self) -> tuple[str, ...]:
        """Each thing that an update restores, one a line."""
        absent = (why.NodeTrouble("absent").words(node) for node in self.absent_nodes)
        return (*(str(each) for each in self.objects if each.ours), *absent)

    @property
    def left(self) -> tuple[str, ...]:
        """Faults that no update repairs, one a line."""
        others = (str(each) for each in self.objects if not each.ours)
        return (*others, *map(one_line, self.beside))

    @property
    def lines(self) -> tuple[str, ...]:
        """Everything that differs from the applied objects, one a line."""
        return (*self.repaired, *self.left)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All differences and unknown facts in print order; an update repairs rule `setting`."""
        unread = () if self.unreachable is None else (self.unreachable,)
        kinds = {"lost": self.lost, "unread": unread, "setting": self.repaired, "left": self.left}
        return tuple(
            Finding(what, (), "", "unreachable" if kind == "unread" else "error", kind, CLUSTER)
            for kind, lines in kinds.items()
            for what in lines
        )

    @property
    def exit_code(self) -> int:
        """0: no drift, 3: drift, 4: the cluster could not be read."""
        return exit_code(self.findings, DIFFERS)

    def render(self) -> str:
        """The section of the `railyard drift` report; empty if the cluster was not read."""
        said = list(self.lost)
        if self.unreachable is not None:
            said.append(f"unreachable: {self.unreachable}")
        elif self.observed:
            said += self.lines or (() if said else ("no drift",))
        return "".join(f"{CLUSTER:<12} {line}\n" for line in said)


def judge_look(look: ClusterLook) -> ClusterDrift:
    """Compare everything that was read with the applied objects."""
    objects = [*_drifts(look.live, "")]
    undeployed: dict[str, str] = {}
    for ref, found in look.releases.items():
        if found.release is None:
            gone = FieldDrift("", ABSENT, _INSTALL, ours=False)
            objects.append(ObjectDrift(str(ref), (gone,)))
            continue
        if (status := found.release.status) != read.DEPLOYED:
            undeployed[ref.name] = status
            objects.append(ObjectDrift(str(ref), (FieldDrift("status", status, read.DEPLOYED),)))
        objects += _drifts(found.live, ref.name)
    absent = tuple(name for name in look.asked.nodes if name not in look.nodes)
    nodes = ((name, look.nodes[name]) for name in look.asked.nodes if name in look.nodes)
    tolerated = look.asked.tolerations
    troubles = (it.words(name) for name, node in nodes for it in why.troubles_of(node, tolerated))
    lives = (look.live, *(found.live for found in look.releases.values()))
    ours = {key for live in lives for key, _, _ in live.objects}
    return ClusterDrift(
        observed=True,
        objects=tuple(objects),
        undeployed=undeployed,
        absent_nodes=absent,
        beside=(*troubles, *(str(key) + _FOREIGN for key in look.beside if key not in ours)),
    )


def _drifts(live: Live, release: str) -> Iterator[ObjectDrift]:
    for key, want, found in live.objects:
        if fields := compare_object(want, found):
            yield ObjectDrift(str(key), fields, release)


def look_at_cluster(
    ref: ClusterRef,
    secrets: Mapping[str, str],
    asked: Asked,
    connect: Callable[[str], Calls] = KubernetesCalls,
) -> ClusterLook | Unreachable | None:
    """Read the objects; or why they could not be read; None if no server has started yet."""
    try:
        kubeconfig = fetch_kubeconfig(ref, secrets)
        return None if kubeconfig is None else read_cluster(connect(kubeconfig), asked)
    except RailyardError as error:
        return Unreachable(str(error))


def read_cluster(calls: Calls, asked: Asked) -> ClusterLook:
    """Read the requested objects."""
    reader = Reader(calls)
    live = reader.read(asked.objects)
    releases = {ref: read_release(reader, ref) for ref in asked.releases}
    nodes = reader.list("/api/v1/nodes") if asked.nodes else []
    paths = {
        f"{root}/namespaces/{namespace}/{plural}": (version, kind, namespace)
        for namespace in asked.namespaces
        for version, (kind, root, plural) in _BESIDE.items()
    }
    beside = reader.each(reader.list, sorted(paths)).items()
    return ClusterLook(
        asked=asked,
        live=live,
        releases=releases,
        nodes={name_of(node): node for node in nodes},
        beside=tuple(Key(*paths[path], name_of(body)) for path, found in beside for body in found),
    )


def read_release(reader: Reader, ref: ReleaseRef) -> ReleaseLook:
    """A Helm release, and its objects and chart definitions that exist."""
    release = read.choose_release(reader.list(ref.secrets), ref)
    if release is None:
        return ReleaseLook(None)
    bodies = (*release.definitions, *release.objects)
    return ReleaseLook(release, reader.read(bodies, ref.namespace))


def why_not_ready(reader: Reader, body: Body) -> tuple[str, ...]:
    """Why the pods of a DaemonSet or Deployment are not ready, a line each."""
    labels = map_at(body, "spec", "selector", "matchLabels")
    selector = ",".join(f"{key}%3D{value}" for key, value in sorted(labels.items()))
    place = f"/api/v1/namespaces/{map_at(body, 'metadata')['namespace']}"
    pods = reader.list(f"{place}/pods?labelSelector={selector}") if selector else []
    return why.reasons_of(pods, reader.list(f"{place}/events?fieldSelector=type%3DWarning"))


def find_not_ready(calls: Calls, asked: Asked) -> tuple[why.NotReady, ...]:
    """Find everything not ready: objects, Helm releases, and the workloads of operators."""
    reader = Reader(calls)
    releases = {ref: read_release(reader, ref) for ref in asked.releases}
    lives = (reader.read(asked.objects), *(each.live for each in releases.values()))
    objects = [each for live in lives for each in live.objects]
    there = {str(key): live for key, _, live in objects if live is not None}
    found: list[why.NotReady] = []
    if names := [str(key) for key, _, live in objects if live is None]:
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        absent = f"not there: {', '.join(names[:_SHOWN])}{more}"
        found.append(why.NotReady(counted(len(names), "object"), absent))
    for ref, look in releases.items():
        state = "not there" if look.release is None else f"its status is {look.release.status}"
        if look.release is None or look.release.status != read.DEPLOYED:
            found.append(why.NotReady(str(ref), state))
    if any(live.get("kind") in why.OPERATOR_POLICIES for live in there.values()):
        # No plan lists the workloads that an operator started for its policy.
        namespaces = sorted({ref.namespace for ref in asked.releases})
        for namespace, kind in product(namespaces, ("DaemonSet", "Deployment")):
            for item in reader.list(f"/apis/apps/v1/namespaces/{namespace}/{kind.lower()}s"):
                body: Body = {**item, "apiVersion": "apps/v1", "kind": kind}
                there.setdefault(f"{kind} {namespace}/{name_of(item)}", body)
    for name, live in there.items():
        found += _object(reader, name, live)
    return tuple(found)


def _object(reader: Reader, name: str, live: Body) -> Iterator[why.NotReady]:
    metadata = map_at(live, "metadata")
    if metadata.get("deletionTimestamp") is not None:
        # The controller of its finalizers may be gone.
        finalizers = ", ".join(metadata.get("finalizers") or [])
        conditions = {each.get("type"): each for each in list_at(live, "status", "conditions")}
        left = conditions.get("Terminating", {}).get("message")
        state = f"is being deleted, and held by {finalizers or 'what is in it'}"
        yield why.NotReady(name, f"{state} ({left})" if left else state)
    elif state := why.state_of(live):
        reasons = why_not_ready(reader, live) if why.selects_pods(live) else ()
        yield why.NotReady(name, state, reasons)


def await_ready(
    look: Callable[[], tuple[why.NotReady, ...]],
    deadline_s: float,
    now: Callable[[], float],
    pause: Callable[[float], None],
) -> tuple[why.NotReady, ...]:
    """Poll until all is ready or the deadline has passed; return the rest that is not ready."""
    ends_s = now() + deadline_s
    while (found := look()) and now() < ends_s:
        pause(min(POLL_S, max(0.0, ends_s - now())))
    return found
