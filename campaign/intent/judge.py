"""The invariants of tier 1, judged from what was planned before and what is registered now."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, cast

from campaign.carried import Loss, losses
from campaign.history import Finding
from campaign.intent.decide import Decision
from campaign.intent.record import (
    Machine,
    Registered,
    Registration,
    machines_of,
    switch_states,
)
from campaign.intent.sites import Site
from campaign.intent.world import FACTORY_PORT
from components.core.key_values import parse_state
from components.core.record import record
from components.fabric.state import SwitchState
from components.model.cluster import ClusterSpec
from components.plan.make import ClusterPlan
from components.preview.from_plans import preview_plans
from components.remote.lines import parse_lines
from components.remote.step import REPAIR_LINE

BOOTS: Final = re.compile(
    r"kernel\.cmdline.*|kernel\.arg\..*|kernel\.boot\..*"
    r"|nic\.[^ ]*\.(fw_(?!floor|ver|needs|loads|vfs)\w+|ats|boot_name|boot_rdma)"
    r"|driver\.(kind|version|line|modules)"
)
"""Settings that hold only after a restart or a reload of the driver: the kernel's command line
(kernel.org, kernel-parameters), NVRAM of the cards (mlxconfig: "a reboot or reset is needed"), and
another RDMA driver (MLNX_OFED user manual: `openibd restart`)."""
FLAPS: Final = re.compile(r"nic\.[^ ]*\.(pfc|eswitch|vfs)")
"""Settings of a running card that stop its traffic: mlx5 takes the port down for another PFC
(mlx5_core, `mlx5e_port_set_pfc` followed by a toggle), and VFs go with their count. A card
without VFs loses none when it gets some."""
ALARM: Final = re.compile(r"\bWILL\b|INTERRUPT|interrupts:|RESTORED|LOSES")
"""What says, beside the name of a switch, that its ports lose something."""
QUIET: Final = ("-baseline", "-tools", "-reboot", "-cluster-access", "-k3s-token", "-agent-token")
"""Kinds of steps that carry no setting of their own: a preview does not list them."""


@record
class Update:
    """One update that was not refused: before, after, and what was said."""

    site: Site
    """The file of this update."""
    spec: ClusterSpec
    before: ClusterPlan
    after: ClusterPlan
    held: Registration
    made: Registration
    decision: Decision

    @property
    def deleted(self) -> tuple[Registered, ...]:
        """What the engine deletes at the end of the update."""
        return tuple(each for name, each in self.known.items() if name not in self.made.steps)

    @property
    def known(self) -> Mapping[str, Registered]:
        """What the state holds, with renamed devices under their names of now."""
        named = {old: new for new, old in self.decision.former.items()}
        return {named.get(name, name): each for name, each in self.held.steps.items()}


def judge(update: Update, *, previews: bool) -> Iterator[Finding]:
    """Every invariant of this tier that an update breaks.

    Args:
        update: What was decided.
        previews: Whether its preview is compared too.
    """
    yield from _undone(update)
    if update.spec.disruption.ports == "deny":
        yield from (Finding(4, text) for text in _carried_less(update))
    if update.spec.disruption.reboots == "deny":
        yield from (Finding(4, text) for text in _rebooted(update))
    yield from (Finding(4, text) for text in _cluster_lost(update))
    if previews:
        yield from _previewed(update)


def _undone(update: Update) -> Iterator[Finding]:
    before, after = machines_of(update.before), machines_of(update.after)
    now = {machine: name for name, machine in after.items()}
    kept = {(each.machine, each.kind) for each in update.made.steps.values()}
    told = set[Machine]()
    for each in update.deleted:
        if not each.has_undo or each.machine is None or each.machine not in now:
            continue
        again = (each.machine, each.kind) in kept
        if (again or each.kind in {"-apply", "-host"}) and each.machine not in told:
            told.add(each.machine)
            yield Finding(1, f"{each.name} is undone, and the file has it as {now[each.machine]}")
    for name, machine in before.items():
        said = update.spec.renamed.all.get(now.get(machine, name)) == name
        if now.get(machine, name) != name and name in after and not said:
            yield Finding(1, f"the machine of {name} is {now[machine]} now, and both are there")


def switch_losses(update: Update) -> dict[str, tuple[Loss, ...]]:
    """Switch of before to what its ports carry no more."""
    found: dict[str, tuple[Loss, ...]] = {}
    after = switch_states(update.after)
    deleted = {each.name for each in update.deleted}
    for switch in update.before.switches:
        machine = machines_of(update.before)[switch.name]
        if machine not in after and switch.step not in deleted:
            continue  # the file looks for it elsewhere: nothing is changed on this machine
        wanted = after.get(machine, SwitchState())
        given_back = dict.fromkeys(switch.desired.ports, FACTORY_PORT)
        wanted = wanted.model_copy(update={"ports": {**given_back, **wanted.ports}})
        if lost := losses(switch.desired, wanted):
            found[switch.name] = lost
    return found


def _carried_less(update: Update) -> Iterator[str]:
    said = update.decision.messages
    for name, lost in switch_losses(update).items():
        hard = [each for each in lost if each.kind != "class"]
        soft = [each for each in lost if each.kind == "class"]
        if hard:
            yield f"{name}: ports are denied, and {len(hard)} things are lost: {hard[0]}"
        elif soft and not _is_class_said(name, said):
            yield f"{name}: ports are denied, and the class changes without a word: {soft[0]}"


def _is_class_said(name: str, said: Sequence[str]) -> bool:
    """A text about the switch speaks of the class."""
    texts = [each.lower() for each in said if each.startswith(f"{name}:")]
    return any("class" in each for each in texts)


def _rebooted(update: Update) -> Iterator[str]:
    known = machines_of(update.before)
    for step in update.made.steps.values():
        held = update.known.get(step.name)
        if step.kind != "-host" or held is None or step.machine != known.get(_owner(step)):
            continue
        was, now = (parse_state(each.step.stdin).values for each in (held, step))
        for key, value in now.items():
            if key in was and was[key] != value and _interrupts(key, was[key]):
                yield f"{_owner(step)}: reboots are denied, and {key} {was[key]} to {value} is set"


def _interrupts(key: str, was: str) -> bool:
    if key.endswith(".vfs") and was == "0":
        return False
    return bool(BOOTS.fullmatch(key) or FLAPS.fullmatch(key))


def _owner(step: Registered) -> str:
    return step.name.removesuffix(step.kind)


def _cluster_lost(update: Update) -> Iterator[str]:
    if _is_allowed(update.site):
        return
    servers, kept = _nodes(update, "servers")
    lost = [name for name in servers if name not in kept]
    if servers and len(lost) > (len(servers) - 1) // 2:
        yield f"{', '.join(lost)} of {len(servers)} servers go: the cluster is lost"
    workers, kept = _nodes(update, "agents")
    if workers and not any(name in kept for name in workers):
        yield f"all workers go at once: {', '.join(workers)}"


def _is_allowed(site: Site) -> bool:
    kubernetes = cast("Mapping[str, object]", site.get("kubernetes") or {})
    return kubernetes.get("reset") == "allow"


def _nodes(update: Update, part: str) -> tuple[list[str], Collection[str]]:
    """The nodes of before, and those of them whose machine and step are there afterwards."""
    before, after = update.before.kubernetes, update.after.kubernetes
    if before is None or before.existing is not None:
        return [], ()
    known, now = machines_of(update.before), machines_of(update.after)
    renamed = {old: new for new, old in update.spec.renamed.all.items()}
    steps: dict[str, str] = {each.endpoint.device: each.name for each in getattr(before, part)}
    wanted = {each.endpoint.device for each in getattr(after, part)} if after else set[str]()
    kept = {
        name
        for name in steps
        if (new := renamed.get(name, name)) in wanted and _is_one(known.get(name), now.get(new))
    }
    return [*steps], kept


def _is_one(was: Machine | None, now: Machine | None) -> bool:
    return was is not None and now is not None and was[2] == now[2]


def _previewed(update: Update) -> Iterator[Finding]:
    preview = preview_plans(update.spec, update.before, update.after, "the file before")
    said = {each.subject for each in preview.edits if each.kind in {"switch", "host", "hypervisor"}}
    changed = _changed_devices(update)
    for name, step in changed.items():
        if name not in said:
            yield Finding(8, f"{step} changes, and the preview does not say that {name} does")
    touched = {*changed} | {_owner(each) for each in _changed(update, quiet=True)}
    for name in sorted(said - touched):
        yield Finding(8, f"the preview says that {name} changes, and no step of it does")
    objects = {*update.held.objects.items()} ^ {*update.made.objects.items()}
    told = [each for each in preview.edits if each.kind in {"object", "release"}]
    if bool(objects) != bool(told):
        yield Finding(8, f"{len(objects)} objects change, and the preview names {len(told)}")
    yield from _unsaid(update, (*preview.alarms, *update.decision.messages))


def _unsaid(update: Update, said: Sequence[str]) -> Iterator[Finding]:
    """Whatever the policy, what interrupts is said: an alarm names the switch."""
    for name, lost in switch_losses(update).items():
        hard = [each for each in lost if each.kind != "class"]
        if hard and not any(name in each and ALARM.search(each) for each in said):
            yield Finding(8, f"{name}: no alarm says that it loses {hard[0]}")


def _changed_devices(update: Update) -> dict[str, str]:
    """Device to one of its steps whose settings change, come or go."""
    found: dict[str, str] = {}
    for each in _changed(update, quiet=False):
        name = _owner(each)
        found.setdefault(name, each.name)
    return found


def _changed(update: Update, *, quiet: bool) -> Iterator[Registered]:
    known = update.known
    for name in {**known, **update.made.steps}:
        old, new = known.get(name), update.made.steps.get(name)
        step = new or old
        if step is None or step.machine is None or step.kind.endswith(QUIET) != quiet:
            continue
        if old is None or new is None or _settings(old) != _settings(new):
            yield step


def _settings(step: Registered) -> object:
    """What a step sets, without the notes of repairs and the words of a policy."""
    if step.kind == "-apply":
        return parse_lines(step.step.stdin).get("desired")
    return step.step.stdin.partition(REPAIR_LINE)[0]


def summary(update: Update) -> Mapping[str, int]:
    """What an update was about, for the counts of a campaign."""
    return {
        "steps changed": sum(1 for _ in _changed(update, quiet=False)),
        "steps deleted": len(update.deleted),
        "switches that lose": len(switch_losses(update)),
    }
