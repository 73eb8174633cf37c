"""What a look at the cluster shows against what was applied to it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from components.core.difference import ABSENT
from components.core.plain_text import one_line
from components.kubernetes.live.compare import THERE, FieldDrift, compare_object
from components.kubernetes.live.read import DEPLOYED, Key, Live, Release, ReleaseRef
from components.kubernetes.live.why import NodeTrouble, troubles_of
from components.kubernetes.manifest import Body

CLUSTER: Final = "cluster"
"""In the place of a device in reports."""
_INSTALL: Final = f"{THERE}: `pulumi up --refresh` installs it again"
"""The engine knows no other way to find out that a release is gone."""
_MOST: Final = 3
"""Fields of an object on its line; the rest is counted."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What to look at."""

    objects: tuple[Body, ...] = field(default=(), repr=False)
    """As they were applied, a login's value in its Secret."""
    releases: tuple[ReleaseRef, ...] = ()
    nodes: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    """Where pods of ours run, so that a policy or a quota of others may keep them out."""
    tolerations: tuple[Body, ...] = ()
    """What our pods tolerate."""


@dataclass(frozen=True, slots=True)
class ReleaseLook:
    """One Helm release, and what is there of its objects."""

    release: Release | None
    live: Live = field(default_factory=Live, repr=False)


@dataclass(frozen=True, slots=True)
class ClusterLook:
    """What was read of a cluster."""

    asked: Asked
    live: Live = field(default_factory=Live, repr=False)
    releases: Mapping[ReleaseRef, ReleaseLook] = field(
        default_factory=dict[ReleaseRef, ReleaseLook]
    )
    nodes: Mapping[str, Body] = field(default_factory=dict[str, Body], repr=False)
    beside: tuple[Key, ...] = ()
    """Policies and quotas in the namespaces that were asked for."""


@dataclass(frozen=True, slots=True)
class ObjectDrift:
    """One object that is not as it was applied."""

    name: str
    """`DaemonSet kube-system/multus`."""
    fields: tuple[FieldDrift, ...]
    release: str = ""
    """The Helm release that it belongs to; empty for an object of the plan."""

    @property
    def absent(self) -> bool:
        """It is not there at all."""
        return any(not each.path for each in self.fields)

    @property
    def ours(self) -> bool:
        """Something of ours is gone or changed, so that an update puts it back."""
        return any(each.ours for each in self.fields)

    def __str__(self) -> str:
        """One line: the object, its first fields, and how many more there are."""
        shown = "; ".join(map(str, self.fields[:_MOST]))
        more = f"; and {len(self.fields) - _MOST} more" if len(self.fields) > _MOST else ""
        of = f" of Helm release {self.release}" if self.release else ""
        sign = " " if self.fields[:1] and not self.fields[0].path else ": "
        return one_line(f"{self.name}{of}{sign}{shown}{more}")


@dataclass(frozen=True, slots=True)
class ClusterDrift:
    """The cluster against what was applied to it."""

    observed: bool = False
    unreachable: str | None = None
    lost: tuple[str, ...] = ()
    """Servers and balancers that are lost, what that means, and the next command."""
    objects: tuple[ObjectDrift, ...] = ()
    undeployed: Mapping[str, str] = field(default_factory=dict[str, str])
    """Helm release that is there and not deployed, to its status."""
    absent_nodes: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    """What no update mends, in words: nodes that take no pods, policies and quotas of others."""

    @property
    def touched(self) -> bool:
        """An update puts something back, so that the path is to be proven again."""
        return bool(self.absent_nodes) or any(each.ours for each in self.objects)

    @property
    def repaired(self) -> tuple[str, ...]:
        """Each thing that an update puts back, on a line of its own."""
        absent = (NodeTrouble("absent").words(node) for node in self.absent_nodes)
        return (*(str(each) for each in self.objects if each.ours), *absent)

    @property
    def left(self) -> tuple[str, ...]:
        """What no update mends, on a line of its own."""
        others = (str(each) for each in self.objects if not each.ours)
        return (*others, *map(one_line, self.beside))

    @property
    def lines(self) -> tuple[str, ...]:
        """Each thing that is not as it was applied."""
        return (*self.repaired, *self.left)

    @property
    def exit_code(self) -> int:
        """0: no drift, 3: drift, 4: the cluster could not be read."""
        if self.unreachable is not None:
            return 4
        return 3 if self.lines or self.lost else 0

    def render(self) -> str:
        """The part of the report of `railyard drift`; nothing where nothing was to be read."""
        said = list(self.lost)
        if self.unreachable is not None:
            said.append(f"unreachable: {self.unreachable}")
        elif self.observed:
            said += self.lines or (() if said else ("no drift",))
        return "".join(f"{CLUSTER:<12} {line}\n" for line in said)


def judge_look(look: ClusterLook) -> ClusterDrift:
    """Compare everything that was read with what was applied."""
    objects = [*_drifts(look.live, "")]
    for ref, found in look.releases.items():
        objects += _release(ref, found)
    undeployed = {
        ref.name: found.release.status
        for ref, found in look.releases.items()
        if found.release is not None and found.release.status != DEPLOYED
    }
    absent = tuple(name for name in look.asked.nodes if name not in look.nodes)
    return ClusterDrift(
        observed=True,
        objects=tuple(objects),
        undeployed=undeployed,
        absent_nodes=absent,
        beside=(*_nodes(look), *_others(look)),
    )


def _drifts(live: Live, release: str) -> Iterator[ObjectDrift]:
    for key, want, found in live.objects:
        if fields := compare_object(want, found):
            yield ObjectDrift(str(key), fields, release)


def _release(ref: ReleaseRef, look: ReleaseLook) -> Iterator[ObjectDrift]:
    name = f"Helm release {ref.namespace}/{ref.name}"
    if look.release is None:
        yield ObjectDrift(name, (FieldDrift("", ABSENT, _INSTALL, ours=False),))
        return
    if look.release.status != DEPLOYED:
        yield ObjectDrift(name, (FieldDrift("status", look.release.status, DEPLOYED),))
    yield from _drifts(look.live, ref.name)


def _nodes(look: ClusterLook) -> Iterator[str]:
    for name in look.asked.nodes:
        if (node := look.nodes.get(name)) is not None:
            for trouble in troubles_of(node, look.asked.tolerations):
                yield trouble.words(name)


def _others(look: ClusterLook) -> Iterator[str]:
    releases: Sequence[Live] = [found.live for found in look.releases.values()]
    ours = {key for live in (look.live, *releases) for key, _, _ in live.objects}
    for key in look.beside:
        if key not in ours:
            yield f"{key} is not ours, and it may keep probes out"
