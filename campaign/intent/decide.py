"""The product's own decision on a site file, without an engine: everything up to the resources.

`stacks.guard.guarded` runs as it is. Only what would leave this process is put in its place: the
stack's settings, its own state, what a look at the devices finds, and the composition of resources.
`campaign/intent/record.py` says what that composition would have registered, and a sample of seeds
runs the recording engine beside it, so that the short way stays true (`same_by_engine`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from unittest.mock import patch

import pulumi
from pulumi.runtime import mocks, settings

from campaign.intent.sites import Site
from campaign.seams import giving
from components.checks.site import CheckedSite
from components.core.record import record
from components.drift.applied import Applied
from components.plan.make import ClusterPlan
from components.reading.load import SETTINGS
from components.update.seen import Seen
from stacks import guard
from stacks.begin import Message


@dataclass(slots=True)
class Decision:
    """What an update would do."""

    refused: str = ""
    """The whole refusal; empty if the update goes on to its resources."""
    messages: list[str] = field(default_factory=list[str])
    plan: ClusterPlan | None = None
    """With the upgrades, departures and generations of this update."""
    notes: Mapping[str, str] = field(default_factory=dict[str, str])
    run: int = 0
    former: Mapping[str, str] = field(default_factory=dict[str, str])
    """Step to its name before a rename: the state keeps it by an alias."""

    def hear(self, messages: Iterable[Message]) -> None:
        """Keep the messages of an update."""
        self.messages += [text for _, text in messages]


@record
class Circumstances:
    """What an update finds."""

    stack: str
    applied: Applied = field(default_factory=Applied)
    look: Callable[[ClusterPlan], Seen] | None = None
    """What a look at the devices of a plan finds; None: `railyard:observe` is `never`."""
    checked: CheckedSite | None = None
    """The file after all rules, if they ran before: they are pure, and half of the cost."""

    def finds(self, plan: ClusterPlan, *_more: object) -> Seen:
        """What the look of this update finds."""
        return self.look(plan) if self.look else Seen()


ASIDE: Final[Mapping[str, Callable[..., object]]] = {
    "outside_secrets": giving({}),
    "config_file": giving(None),
    "refuse_lab_parts": giving(None),
    "refused_unpinned": giving(""),
    "open_existing": giving(None),
    "read_other_state": giving(None),
}
"""Of `stacks.guard`: what would leave this process, or is about pins and the lab."""


def secret_of(name: str) -> str:
    """The value of a secret of the stack: a marker that is easy to find in a text."""
    return f"marker-secret-of-{name}"


class _Config:
    """`pulumi.Config` of a stack; the pins of artefacts are another matter."""

    def __init__(self, site: Site, at: Circumstances) -> None:
        self._site = site
        self._values = {"observe": "never" if at.look is None else "always"}

    def get(self, key: str) -> str | None:
        plain = key in {"piece", "site", *SETTINGS}
        return self._values.get(key) if plain else secret_of(key)

    def get_bool(self, key: str, *, default: bool = False) -> bool:
        return self._values.get(key, str(default)).lower() == "true"

    def get_object(self, key: str) -> Site | None:
        return self._site if key == "cluster" else None

    def require(self, key: str) -> str:
        return secret_of(key)

    def require_secret(self, key: str) -> str:
        return secret_of(key)


_PROJECT: Final = "railyard"


def decide(site: Site, at: Circumstances) -> Decision:
    """Run the program of a stack up to its first resource.

    `RAILYARD_CONFIRM` is not set: nobody types what may be lost.

    Raises:
        Exception: The product failed with what is no refusal.
    """
    made = Decision()
    with _in_place(site, at, made):
        try:
            ready = guard.guarded()
        except pulumi.RunError as error:
            made.refused = str(error)
            return made
    made.plan, made.notes, made.run = ready.plan, dict(ready.remote.notes), ready.run
    made.former = dict(ready.applied.former)
    return made


@contextmanager
def _in_place(site: Site, at: Circumstances, made: Decision) -> Generator[None]:
    settings.configure(
        mocks.MockSettings(
            monitor=None, engine=None, project=_PROJECT, stack=at.stack, dry_run=False
        )
    )
    own: dict[str, Any] = {
        **ASIDE,
        "read_own_state": at.applied.follow,
        "note_names": giving(set[str]()),
        "observe_site": at.finds,
        "keep_foreign_settings": giving(None),
        "_log": made.hear,
    }
    if at.checked is not None:
        own["check_config_value"] = giving(at.checked)
    with (
        patch.multiple(guard, **own),
        patch.object(pulumi, "Config", giving(_Config(site, at))),
    ):
        yield
