"""Read states before the first resource exists: this stack's own, and the site's other stacks.

`pulumi:pulumi:readStackResourceOutputs` answers in preview, in up and on an empty stack, and also
sees resources of a run that was killed (decision 4 in docs/decisions.md).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from threading import Event
from typing import Final, cast

import pulumi

from components.drift.applied import Applied, applied_from_outputs, device_of
from components.model.cluster import ClusterSpec

ATTEMPTS: Final = 5
"""Attempts to read the state; a file backend may be writing it at that moment."""
WRITING: Final = "failed to load checkpoint"
PAUSE_S: Final = 0.2
_RECORDED: Final = ("command:", "kubernetes:")
"""Types of the resources that `Applied` knows."""
OWN_STATE: Final = "pulumi:pulumi:readStackResourceOutputs"


def _read(name: str, attempts: int = ATTEMPTS) -> object:
    """Ask the engine again: a file backend empties the state's file before it writes it."""
    try:
        return cast("object", pulumi.runtime.invoke(OWN_STATE, {"stackName": name}).value)
    except Exception as error:  # the SDK raises plain exceptions
        if attempts <= 1 or WRITING not in str(error):
            raise
    Event().wait(PAUSE_S)
    return _read(name, attempts - 1)


def note_names() -> set[str]:
    """Collect the names of resources that the program registers from now on; the set grows."""
    names = set[str]()

    def note(args: pulumi.ResourceTransformationArgs) -> None:
        names.add(args.name)

    pulumi.runtime.register_stack_transformation(note)
    return names


def read_own_state(spec: ClusterSpec | None = None) -> Applied:
    """Read the recorded inputs and outputs of every resource of this stack.

    The resources of devices that the site renames keep their place in the state: call this before
    the first resource.
    """
    applied = _read_state(pulumi.get_stack())
    applied = applied if spec is None else applied.follow(spec)

    def add(args: pulumi.ResourceTransformationArgs) -> pulumi.ResourceTransformationResult | None:
        """Give each renamed resource an alias with its old name in the state."""
        old = applied.former.get(args.name) if args.type_.startswith("command:") else None
        if old is None:
            return None
        alias = pulumi.ResourceOptions(aliases=[pulumi.Alias(name=old)])
        opts = pulumi.ResourceOptions.merge(args.opts, alias)
        return pulumi.ResourceTransformationResult(args.props, opts)

    if applied.former:
        pulumi.runtime.register_stack_transformation(add)
    return applied


def read_other_state(stack: str) -> Applied | None:
    """Read the recorded resources of a stack of this project; None if it does not exist."""
    try:
        return _read_state(stack)
    except Exception as error:  # the SDK raises plain exceptions
        if "unknown stack" in str(error) or "no stack named" in str(error):
            return None
        raise


def _read_state(stack: str) -> Applied:
    answer = _read(f"{pulumi.get_organization()}/{pulumi.get_project()}/{stack}")
    if not isinstance(answer, Mapping):
        return applied_from_outputs(None)
    return applied_from_outputs(cast("Mapping[str, object]", answer).get("outputs"))


def hold_others(spec: ClusterSpec, applied: Applied, only: Collection[str]) -> Mapping[str, str]:
    """Keep what the state recorded of each resource outside of a scope, and refuse a new one.

    Returns:
        The recorded stdin of each step of other devices, for resources of several devices.
    """
    devices = applied.names_of_devices(spec)
    others = {name: device_of(name, devices) not in only for name in applied.steps}
    mine = {applied.within.get(name, name) for name, is_other in others.items() if not is_other}
    mine |= {of for of in applied.within.values() if not device_of(of, devices)}

    def hold(
        args: pulumi.ResourceTransformationArgs,
    ) -> pulumi.ResourceTransformationResult | None:
        inside = args.name in mine or device_of(args.name, devices) in only
        if inside or not isinstance(args.resource, pulumi.CustomResource):
            return None
        if args.type_.startswith(_RECORDED) and args.name not in applied.resources:
            raise pulumi.RunError(
                f"RAILYARD_SCOPE: this update would make {args.name}, which the scope does not"
                " name.\n  fix    update the whole site"
            )
        kept = pulumi.ResourceOptions(ignore_changes=["*"])
        opts = pulumi.ResourceOptions.merge(args.opts, kept)
        return pulumi.ResourceTransformationResult(args.props, opts)

    pulumi.runtime.register_stack_transformation(hold)
    return {name: applied.steps[name].stdin for name, is_other in others.items() if is_other}
