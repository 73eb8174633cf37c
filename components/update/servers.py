"""Judge K3s servers in an update: lost ones, and upgrades of nodes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import permutations
from typing import Final

from components.core.key_values import parse_state, split_key
from components.core.plain_text import matches
from components.core.problem import Finding, Place
from components.core.record import record, replace
from components.core.templates import fault_text, finding_of
from components.disruption.disruption_plan import chosen, due, judge_versions, recorded_release
from components.disruption.upgrade import release_of
from components.drift.applied import Applied
from components.drift.device_drift import DeviceDrift, Unreachable, Watched
from components.kubernetes.client import Body
from components.kubernetes.live.look import ClusterLook
from components.plan.make import ClusterPlan
from components.update.identity import recorded_nodes
from components.update.seen import Seen, Situation

API: Final = "k3s.api"
"""Key of a server's report on its own API: `ok`, or the error. Each reading has it; it is not a
setting."""
_RUNS: Final = "active"
_BEGAN: Final = "cluster-init: true\n"


def node_versions(plan: ClusterPlan, applied: Applied, seen: Seen) -> dict[str, str]:
    """Return each node's release: as its kubelet reports it, else as last installed."""
    live: Mapping[str, Body] = seen.cluster.nodes if isinstance(seen.cluster, ClusterLook) else {}
    found: dict[str, str] = {}
    for step in (step for group in plan.upgrades for step in group.steps):
        name = step.request.name
        installed = recorded_release(applied, step.install)
        release = release_of(live.get(step.request.node_name, {})) if installed else ""
        if release or installed:
            found[name] = release or installed
    return found


def choose_upgrades(
    plan: ClusterPlan, applied: Applied, seen: Seen, drifts: Collection[DeviceDrift]
) -> ClusterPlan:
    """Keep only the upgrades of this update in the plan."""
    recreated = {drift.step for drift in drifts if drift.differences}
    instances = plan.cloud.instances if plan.cloud else ()
    new = {each.name for each in instances if recreated & {each.create, each.step}}
    versions = node_versions(plan, applied, seen)
    return replace(plan, upgrades=chosen(plan.upgrades, applied, versions, new))


def with_ahead(
    plan: ClusterPlan, drifts: tuple[DeviceDrift, ...], applied: Applied
) -> tuple[DeviceDrift, ...]:
    """Mark nodes that an unfinished upgrade reached; its settings are not drift."""
    if plan.kubernetes is None:
        return drifts
    now = plan.kubernetes.version
    watched = {each.step.name: each for each in plan.kubernetes.watched_nodes}
    upgraded = {
        step.install
        for group in chosen(plan.upgrades, applied, {})
        for step in group.steps
        if recorded_release(applied, step.install) != step.request.version
    }

    def marked(drift: DeviceDrift) -> DeviceDrift:
        if drift.step not in upgraded:
            return drift
        settings = watched[drift.step].desired.values
        wanted = {split_key(key): value for key, value in settings.items()}
        differ = drift.differences
        left = tuple(e for e in differ if e.actual != wanted.get((e.where, e.setting)))
        if len(left) == len(differ):
            return drift
        was = recorded_release(applied, drift.step)
        words = f"it has K3s {now}, and {was} was last recorded: `pulumi up` ends the upgrade"
        return replace(drift, differences=left, ahead=words)

    return tuple(map(marked, drifts))


def judge_upgrades(at: Situation) -> Iterator[Finding]:
    """Refuse a release that the nodes cannot reach, and an upgrade that the file denies."""
    plan, policy = at.plan, at.spec.disruption.reboots
    if plan.kubernetes is None or not plan.upgrades:
        return
    versions = node_versions(plan, at.applied, at.seen)
    groups = due(chosen(plan.upgrades, at.applied, versions))
    wanted = plan.kubernetes.version
    if problem := judge_versions(versions, wanted):
        yield problem
    elif groups and policy != "allow":
        names = [name for group in groups for name in group.nodes]
        done, key = f"upgraded to K3s {wanted}", "kubernetes.version"
        if all(versions.get(name) == wanted for name in names):
            done, key = "restarted with another alignment", "kubernetes.alignment"
        places = Place(("disruption", "reboots"), policy), Place(("kubernetes", "version"), wanted)
        words = {"names": ", ".join(names), "done": done, "key": key}
        yield finding_of(__file__, "upgrades", *places, **words)


def describe_upgrades(plan: ClusterPlan, versions: Mapping[str, str]) -> tuple[str, ...]:
    """Describe the interruptions by this update's upgrades, in node order."""
    groups, said = due(plan.upgrades), list[str]()
    only = plan.kubernetes is not None and len(plan.kubernetes.servers) == 1
    for number, group in enumerate(groups, 1):
        for request in (step.request for step in group.steps):
            was = versions.get(request.name, "of an unknown release")
            row = "worker" if request.role == "worker" else "only-server" if only else "server"
            words = {"place": f"(group {number} of {len(groups)}): {request.name}", "was": was}
            words |= {"wanted": request.version, "kubelet": request.kubelet or "own alignment"}
            way = "restarts" if was == request.version else "upgraded"
            effect = fault_text(__file__, f"effect-{row}")
            said.append(f"{fault_text(__file__, way, **words)}; {effect}")
    return tuple(said)


@record
class Part:
    """One server, or one service of a balancer, as read."""

    name: str
    state: str
    """The fault in words; empty if it works."""
    reached: bool
    """Its host answers, so an update can start it again."""


def servers_of(plan: ClusterPlan, applied: Applied, seen: Seen) -> tuple[Part, ...]:
    """Return the servers that were installed and read."""
    if plan.kubernetes is None:
        return ()
    names = {step.name for step in plan.kubernetes.servers}
    watched = [each for each in plan.kubernetes.watched_nodes if each.step.name in names]
    return _parts(watched, applied, seen, "k3s.service")


def _parts(watched: list[Watched], applied: Applied, seen: Seen, service: str) -> tuple[Part, ...]:
    found: list[Part] = []
    for each in watched:
        facts, state = seen.host(each.device), ""
        if facts is None or not applied.stdin(each.step.name):
            continue
        if isinstance(facts, Unreachable):
            state = f"is unreachable ({facts.reason})"
        elif (running := facts.values.get(service, "absent").rpartition("/")[2]) != _RUNS:
            state = f"does not run ({service} is {running})"
        elif (said := facts.values.get(API, "ok")) != "ok":
            state = f"runs, and its API does not answer ({said})"
        name = each.device.removesuffix(" k3s")
        found.append(Part(name, state, not isinstance(facts, Unreachable)))
    return tuple(found)


def lost_servers(plan: ClusterPlan, applied: Applied, seen: Seen) -> tuple[str, ...]:
    """Describe lost servers and balancers; a server that was never applied cannot be lost."""
    servers = servers_of(plan, applied, seen)
    lost = [each for each in servers if each.state]
    balancers = list(plan.kubernetes.balancers) if plan.kubernetes else []
    down = [each for each in _parts(balancers, applied, seen, "service.active") if each.state]
    said: list[str] = []
    needed, left = len(servers) // 2 + 1, len(servers) - len(lost)
    if lost and (left >= needed or len(servers) > 1):
        spare = left - needed
        more = f"{spare} more may be lost" if spare else "the loss of one more ends the API"
        words = {"lost": len(lost), "count": len(servers), "needed": needed, "left": left}
        words |= {"states": _states(lost), "more": more, "next": _next(plan, lost)}
        said.append(fault_text(__file__, "lost" if spare >= 0 else "no-quorum", **words))
    if down and len(lost) < len(servers):
        hosts = {each.name.partition(" ")[0] for each in down}
        some = len(hosts) < len({each.step.endpoint.device for each in balancers})
        row, words = "balancer" if some else "balancers", {"next": _next(plan, down)}
        said.append(fault_text(__file__, row, states=_states(down), **words))
    return tuple(said)


def _states(parts: Iterable[Part]) -> str:
    return "; ".join(f"{each.name} {each.state}" for each in parts if each.state)


def _next(plan: ClusterPlan, lost: list[Part]) -> str:
    found: list[str] = []
    if away := [each.name for each in lost if not each.reached]:
        found.append(f"bring {', '.join(away)} back, or replace the machine and its host key")
    if any(each.reached for each in lost):
        found.append(f"`pulumi up -s {plan.stack}` starts the stopped ones on hosts that answer")
    return ", then ".join(found)


def judge_quorum(at: Situation) -> Iterator[Finding]:
    """Refuse an update that cannot end, because too few server hosts answer for a quorum."""
    servers = servers_of(at.plan, at.applied, at.seen)
    reached = sum(each.reached for each in servers)
    needed = len(servers) // 2 + 1
    if len(servers) > 1 and reached < needed:
        words = {"reached": f"{reached}", "needed": f"{needed}", "missing": f"{needed - reached}"}
        yield finding_of(__file__, "quorum", **words, count=len(servers), states=_states(servers))


def judge_roles(at: Situation) -> Iterator[Finding]:
    """Refuse a role change of a K3s node, and a new first server while the old one stays.

    A server that becomes an agent leaves a dead member of etcd. kubespray refuses both itself.
    """
    plane, applied = at.plan.kubernetes, at.applied
    if plane is None:
        return
    servers = [step.endpoint.device for step in plane.servers]
    agents = [step.endpoint.device for step in plane.agents]
    numbers = {host.name: number for number, host in enumerate(at.spec.hosts)}
    roles = (("server", servers, "control_plane"), ("agent", agents, "worker"))
    for (recorded, _, old), (_, now, wanted) in permutations(roles):
        for name in (each for each in recorded_nodes(applied, recorded) if each in now):
            place = Place(("hosts", numbers.get(name, 0), "role"), wanted)
            yield finding_of(__file__, "role", place, device=name, old=old, new=wanted)
    had = [name for name in recorded_nodes(applied, "server") if name in servers]
    began = [name for name in had if _BEGAN in config_of(applied.steps[f"{name}-k3s"].stdin)]
    if began and servers[0] not in began:
        place = Place(("hosts", numbers.get(servers[0], 0), "name"), servers[0])
        yield finding_of(__file__, "first-server", place, device=servers[0], first=began[0])


def describe_servers(plan: ClusterPlan, applied: Applied) -> tuple[str, ...]:
    """Describe etcd members that leave, and K3s restarts without an upgrade."""
    if plan.kubernetes is None or not plan.kubernetes.servers:
        return ()
    kept = {step.endpoint.device for step in plan.kubernetes.servers}
    had = recorded_nodes(applied, "server")
    gone = [name for name in had if name not in kept]
    said: list[str] = []
    if gone:
        more, names = (len(kept) - 1) // 2, ", ".join(gone)
        words = {"count": len(had), "kept": len(kept), "more": more}
        said.append(fault_text(__file__, "leaves", names=names, **words))
    installs = plan.kubernetes.installs
    known = [(step, was) for step in installs if (was := applied.stdin(step.name))]
    changed = [step for step, was in known if not matches(config_of(step.desired), config_of(was))]
    if changed:
        names = ", ".join(step.endpoint.device for step in changed)
        said.append(f"K3s RESTARTS on {names}: its config.yaml changes")
    return tuple(said)


def config_of(stdin: str) -> str:
    """Return the config.yaml lines in a node's stdin, without kubelet arguments."""
    lines = (v for k, v in parse_state(stdin).values.items() if k.startswith("config.yaml."))
    return "".join(f"{line}\n" for line in lines if not line.startswith("kubelet-arg:"))
