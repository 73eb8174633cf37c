"""A plan as JSON: the whole, one stage, or one device; scripts by size and digest."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final, cast

from components.core.to_json import to_json
from components.plan.make import ClusterPlan, scripts_of
from components.plan.sections import stages_of_steps
from components.plan.text import Choice

_PARTS: Final = {"fabric": "switches", "containers": "payload", "pod-network": "pod_network"}
"""Stages whose part of a plan has another name; the others' have their own."""
_SCRIPTS: Final = frozenset({"apply", "undo", "save"})


def plan_json(plan: ClusterPlan, choice: Choice) -> dict[str, Any]:
    """The part of a plan that is asked for, as plain data."""
    if choice.device is not None:
        body = _of_device(plan, choice.device, choice.stage)
    else:
        body = cast("dict[str, Any]", to_json(plan))
        body["left_by_destroy"] = to_json(plan.left_by_destroy)
        if choice.stage is not None:
            part = _PARTS.get(choice.stage, choice.stage)
            body = {part: body.get(part, [])}
    head: dict[str, Any] = {"name": plan.name, "stack": plan.stack, "digest": plan.digest}
    if choice.scripts:
        head["tools"] = dict(scripts_of(plan))
    return head | cast("dict[str, Any]", body if choice.scripts else _without_scripts(body))


def _of_device(plan: ClusterPlan, device: str, stage: str | None) -> dict[str, Any]:
    """What is planned for one device, and its steps of all stages or of one."""
    machines = {"fabric": plan.switches, "hypervisors": plan.hypervisors, "hosts": plan.hosts}
    found: dict[str, Any] = {
        _PARTS.get(name, name): to_json([each for each in own if each.name == device])
        for name, own in machines.items()
        if stage in (None, name)
    }
    steps = [
        step
        for name, own in stages_of_steps(plan).items()
        for step in own
        if stage in (None, name) and step.endpoint.device == device
    ]
    return {key: value for key, value in found.items() if value} | {"steps": to_json(steps)}


def _without_scripts(value: object) -> object:
    if isinstance(value, Mapping):
        items = cast("Mapping[str, object]", value).items()
        return {
            key: _size(item)
            if key in _SCRIPTS and isinstance(item, str) and "\n" in item
            else _without_scripts(item)
            for key, item in items
        }
    if isinstance(value, list):
        return [_without_scripts(item) for item in cast("list[object]", value)]
    return value


def _size(script: str) -> dict[str, object]:
    data = script.encode()
    digest = hashlib.sha256(data).hexdigest()
    return {"lines": len(script.splitlines()), "bytes": len(data), "sha256": digest}
