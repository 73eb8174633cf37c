"""The long way: the same update on the recording engine, and whether both ways agree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast
from unittest.mock import patch

import pulumi

from campaign.history import Finding
from campaign.intent.decide import ASIDE, Circumstances, Decision, secret_of
from campaign.intent.record import Registration
from campaign.intent.sites import Site
from components import testing
from components.model.cluster import ClusterSpec
from components.remote.sending import split_parts
from components.testing import Graph, Run, unwrap
from components.update.secrets import secret_names
from stacks import guard
from tests.graph.whole_program import record_main

MARKER = secret_of("")


def by_engine(
    site: Site, spec: ClusterSpec, at: Circumstances, printed: Mapping[str, str]
) -> tuple[Graph, str]:
    """What `__main__.py` registers, and what it refuses with."""
    names = secret_names(spec)
    config: dict[str, Any] = {
        "cluster": site,
        "observe": "never" if at.look is None else "always",
        "lab": "true",
        **{name: secret_of(name) for name in names},
    }
    run = Run(config=config, secrets=names, stdout=printed, stack=at.stack)
    own: dict[str, Any] = {**ASIDE, "read_own_state": at.applied.follow, "observe_site": at.finds}
    with patch.multiple(guard, **own):
        try:
            return record_main(run), ""
        except pulumi.RunError as error:
            return Graph(), str(error)


def disagreements(
    decision: Decision, made: Registration | None, graph: Graph, refused: str
) -> Iterator[str]:
    """How the short way differs from the long one; the campaign is wrong then."""
    if bool(refused) != bool(decision.refused):
        yield f"the engine says {refused[:200]!r}, the short way {decision.refused[:200]!r}"
        return
    if made is None:
        return
    commands = dict(_steps_of(graph))
    for name, step in made.steps.items():
        create, has_undo = commands.get(name, ("", False))
        if name not in commands:
            yield f"{name}: the engine does not register it"
        elif create != step.step.create:
            yield f"{name}: the engine runs {create}"
        elif has_undo != step.has_undo:
            yield f"{name}: only one of both ways has an undo"
    missing = {name for name in commands if _is_ours(name)} - {*made.steps}
    yield from (f"{name}: the short way does not register it" for name in sorted(missing))


def _steps_of(graph: Graph) -> Iterator[tuple[str, tuple[str, bool]]]:
    """Step to its command, and whether it has an undo; a resource can have several steps."""
    for item in graph.of_type("command:"):
        parts = split_parts(str(unwrap(item.inputs.get("stdin", ""))))
        for part in parts:
            yield part.step, (part.create, bool(part.delete))
        if not parts:
            yield item.name, (str(item.inputs.get("create")), "delete" in item.inputs)


_OTHERS = ("acceptance-", "cluster-leave", "payload-keys")


def _is_ours(name: str) -> bool:
    """Steps that the short way records: those of the proof and of releases are of no device."""
    return not name.startswith(_OTHERS) and not name.endswith("-restore")


def recorded_again(graph: Graph) -> Iterator[Finding]:
    """Invariant 3: the values of before are recorded once, whatever the file asks for later."""
    for item in graph.of_type("command:"):
        if item.name.endswith("-baseline") and item.options.get("ignoreChanges") != ["*"]:
            yield Finding(3, f"{item.name}: another request would record our own values")


def in_clear(graph: Graph) -> Iterator[Finding]:
    """Invariant 9: secrets are in envelopes, wherever they are registered."""
    for item in graph.resources:
        for path, text in _clear_texts(dict(item.inputs), item.name):
            if MARKER in text:
                yield Finding(9, f"{path}: a secret is registered in clear")
    for message in graph.messages:
        if MARKER in message:
            yield Finding(9, "a message shows a secret")


def _clear_texts(value: object, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping) and testing.SECRET_KEY not in value:
        for key, each in cast("Mapping[str, object]", value).items():
            yield from _clear_texts(each, f"{path}.{key}")
    elif isinstance(value, list):
        for each in cast("list[object]", value):
            yield from _clear_texts(each, path)
