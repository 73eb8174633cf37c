"""Every object that a plan makes, edited field by field and deleted: all of it is named."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from typing import Any, cast

import pytest
from pydantic import JsonValue

from components.drift.applied import Applied
from components.kubernetes.live.compare import compare_object
from components.kubernetes.live.look import Asked, ClusterLook, judge_look
from components.kubernetes.live.read import Key, Live
from components.kubernetes.manifest import Body, pods_in
from components.model.cluster import ClusterSpec
from components.model.sources import Registry
from components.plan.make import ClusterPlan, make_plan
from components.update.cluster import asked_of_cluster
from tests.golden.site import changed_spec
from tests.schemas.test_manifests import FILES, OTHERS, example_site
from tests.update.test_decide import as_applied

SECRETS = {"registry_password": "s3cret"}
KINDS = {
    "ClusterPolicy",
    "ClusterRole",
    "ClusterRoleBinding",
    "ConfigMap",
    "CustomResourceDefinition",
    "DaemonSet",
    "Deployment",
    "IPPool",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "Namespace",
    "NetworkAttachmentDefinition",
    "NicClusterPolicy",
    "NicConfigurationTemplate",
    "Node",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Secret",
    "Service",
    "ServiceAccount",
    "SriovIBNetwork",
    "SriovNetwork",
    "SriovNetworkNodePolicy",
}
"""All that Railyard makes by itself, over all example files and what none of them shows."""


def of_registry(spec: ClusterSpec) -> ClusterSpec:
    login = {"user": "puller", "password": {"secret": "registry_password"}}
    registry = Registry.model_validate({"address": "registry.example:5000", "login": login})
    return changed_spec(spec, sources=spec.sources.model_copy(update={"registry": registry}))


def plans() -> Iterator[ClusterPlan]:
    for file in FILES:
        yield make_plan(example_site(file), "dev")
    for example, change in OTHERS.values():
        yield make_plan(change(example_site(f"{example}/site.yaml")), "dev")
    yield make_plan(of_registry(example_site("dgx-roce/site.yaml")), "dev")


@cache
def objects() -> tuple[Body, ...]:
    """What drift asks for, each different object once."""
    found: dict[str, Body] = {}
    for plan in plans():
        for body in asked_objects(plan):
            found[json.dumps(body, sort_keys=True)] = body
    return tuple(found.values())


def asked_objects(plan: ClusterPlan) -> tuple[Body, ...]:
    """What drift asks for of one plan, after it was applied."""
    applied = Applied(steps=as_applied(plan).steps, objects={"any": {}})
    asked = asked_of_cluster(plan, applied, SECRETS)
    read = asked.objects if asked else ()
    assert [*map(_name, read)] == [_name(each.body) for each in plan.manifests]
    return read


def made_objects() -> tuple[Body, ...]:
    """One object of each name."""
    found: dict[tuple[str, ...], Body] = {}
    for body in objects():
        metadata = cast("Any", body["metadata"])
        place = metadata.get("namespace", ""), metadata["name"]
        found.setdefault((str(body["apiVersion"]), str(body["kind"]), *place), body)
    return tuple(found.values())


def _name(body: Body) -> str:
    return f"{body['kind']} {cast('Any', body)['metadata']['name']}"


def drift_of(want: Body, live: Body | None) -> Any:  # noqa: ANN401 - see judge_look
    key = Key(str(want["apiVersion"]), str(want["kind"]), "", _name(want).partition(" ")[2])
    return judge_look(ClusterLook(Asked((want,)), Live(((key, want, live),))))


def leaves(value: JsonValue, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The path of each value in an object that says something."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, (*path, key))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from leaves(item, (*path, number))
    elif value is not None:
        yield path


def ours(body: Body, path: tuple[str | int, ...]) -> bool:
    """Whether an edit of this value is one: names tell which object it is, and no more."""
    if path[0] == "metadata":
        return path[1] in {"labels", "annotations"} and not str(path[2]).startswith("pulumi.com/")
    return path[0] not in {"apiVersion", "kind"} and not (
        path[0] == "rules" and "aggregationRule" in body  # the cluster writes them
    )


def other(value: JsonValue) -> JsonValue:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    return f"{value}-other"


def changed(body: Body, path: tuple[str | int, ...], *, remove: bool) -> Body:
    live = deepcopy(body)
    place: Any = live
    for step in path[:-1]:
        place = place[step]
    if remove:
        del place[path[-1]]
    else:
        place[path[-1]] = other(place[path[-1]])
    return live


def value_at(body: Body, path: tuple[str | int, ...]) -> JsonValue:
    place: Any = body
    for step in path:
        place = place[step]
    return place


def differing_paths(kind: str) -> Iterator[tuple[Body, tuple[str | int, ...]]]:
    """One value of each form of path: of a definition's schema too, which has a thousand."""
    seen: set[tuple[object, ...]] = set()
    for body in (each for each in objects() if each["kind"] == kind):
        for path in leaves(body):
            if ours(body, path) and shape(path) not in seen:
                seen.add(shape(path))
                yield body, path


def shape(path: tuple[str | int, ...]) -> tuple[object, ...]:
    return tuple("" if isinstance(step, int) else step for step in path)


def test_these_are_the_kinds_that_are_made() -> None:
    assert {str(body["kind"]) for body in objects()} == KINDS


def test_an_object_as_it_was_applied_is_no_drift() -> None:
    assert [_name(body) for body in objects() if compare_object(body, deepcopy(body))] == []


def test_every_object_that_is_deleted_is_named_and_proven_again() -> None:
    for body in objects():
        drift = drift_of(body, None)
        assert drift.lines == (f"{_name(body)} is absent, want there",)
        assert drift.touched


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_field_that_is_edited_is_named_with_both_values(kind: str) -> None:
    for body, path in differing_paths(kind):
        drift = drift_of(body, changed(body, path, remove=False))
        assert drift.touched, (_name(body), path)
        assert ", want " in drift.lines[0], (_name(body), path)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_field_that_is_taken_away_is_named(kind: str) -> None:
    """But for what says the same when it is absent."""
    for body, path in differing_paths(kind):
        if value_at(body, path) not in (False, 0, ""):
            drift = drift_of(body, changed(body, path, remove=True))
            assert drift.touched, (_name(body), path)


def test_no_pod_says_what_the_server_leaves_out() -> None:
    """Else each refresh finds it gone, and the engine puts it back in every update."""
    said = [
        _name(body)
        for body in objects()
        for pod in pods_in(body)
        for key in ("hostNetwork", "hostPID", "hostIPC")
        if pod.get(key) is False
    ]
    assert said == []
