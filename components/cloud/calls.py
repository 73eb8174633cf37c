"""The `railyard cloud …` calls of a plan, in the order in which they can run.

After the network, and again after subnets and partitions, comes a call that makes nothing and
sweeps on destroy. If the creation of an instance got no answer, the state does not record the
instance, and it still uses its subnet and partition; so the sweep must delete it before them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from components.cloud.cloud_plan import CloudObject, CloudPlan
from components.cloud.kinds import ObjectKind
from components.core.plain_text import instances_in

PREFLIGHT_STEP: Final = "cloud-preflight"
NETWORK_CLAIMS: Final = "cloud-network-claims"
INSTANCE_CLAIMS: Final = "cloud-instance-claims"
_IN_NETWORK: Final[frozenset[ObjectKind]] = frozenset({"subnet", "firewall-rule", "ib-partition"})

Verb = Literal["preflight", "claim", "image", "ensure", "await"]


@dataclass(frozen=True, slots=True)
class CloudCall:
    """One step: its command, its input, and the steps that it waits for."""

    step: str
    verb: Verb
    stdin: str
    """The input, with placeholders for values that earlier steps print."""
    after: tuple[str, ...] = ()
    delete: Literal["remove", "sweep"] | None = None
    triggers: tuple[str, ...] = ()
    """May have placeholders; a changed value replaces the step, and so the object."""

    @property
    def needs(self) -> tuple[str, ...]:
        """The steps that must run first: those in `after`, and those that fill placeholders."""
        filling = instances_in("\n".join((self.stdin, *self.triggers)))
        return tuple(dict.fromkeys((*self.after, *filling)))


def list_calls(plan: CloudPlan, notes: Mapping[str, str]) -> tuple[CloudCall, ...]:
    """All calls of a plan, each after the calls that it needs."""
    return tuple(_calls(plan, notes))


def _calls(plan: CloudPlan, notes: Mapping[str, str]) -> Iterator[CloudCall]:
    # Made first, and so removed last.
    yield CloudCall(PREFLIGHT_STEP, "preflight", plan.preflight_request(), delete="sweep")
    for pin in plan.images:
        yield CloudCall(pin.step, "image", plan.image_request(pin), (PREFLIGHT_STEP,))
    network = [item for item in plan.objects if item.kind == "network"]
    for item in network:
        yield _ensure(plan, item, notes, (PREFLIGHT_STEP,))
    yield _claims(plan, NETWORK_CLAIMS, _IN_NETWORK, (PREFLIGHT_STEP, *_steps(network)))
    grounds = [item for item in plan.objects if item.kind in ("subnet", "ib-partition")]
    for item in grounds:
        yield _ensure(plan, item, notes, (NETWORK_CLAIMS,))
    yield _claims(
        plan, INSTANCE_CLAIMS, frozenset({"instance"}), (NETWORK_CLAIMS, *_steps(grounds))
    )
    for item in plan.objects:
        if item.kind == "instance":
            yield _ensure(plan, item, notes, (INSTANCE_CLAIMS,))
    rules = [item for item in plan.objects if item.kind == "firewall-rule"]
    for item in rules:
        yield _ensure(plan, item, notes, (NETWORK_CLAIMS,))
    for each in plan.instances:
        request = plan.ready_request(each, notes.get(each.step, ""))
        yield CloudCall(each.step, "await", request, (each.create, *_steps(rules)))


def _steps(objects: list[CloudObject]) -> tuple[str, ...]:
    return tuple(item.step for item in objects)


def _ensure(
    plan: CloudPlan, item: CloudObject, notes: Mapping[str, str], after: tuple[str, ...]
) -> CloudCall:
    request = plan.request(item, notes.get(item.step, ""))
    return CloudCall(item.step, "ensure", request, after, "remove", item.triggers)


def _claims(
    plan: CloudPlan, step: str, kinds: frozenset[ObjectKind], after: tuple[str, ...]
) -> CloudCall:
    return CloudCall(step, "claim", plan.claims_request(kinds), after, "sweep")
