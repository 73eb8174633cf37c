"""The program of every stack: guard, compose, export."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

import pulumi

from components.remote.handoffs import AcceptanceReport
from components.update.proof import stale_after
from stacks import cloud_ib, esxi, onprem
from stacks.guard import Guarded, guarded, refusal

COMPOSE: Final = {
    "onprem": onprem.compose,
    "esxi": esxi.compose,
    "cloud_ib": cloud_ib.compose,
}
TRACED_CALLS: Final = 7
"""Calls of the SDK and of the component; the resource's parent already shows the stage."""


def run() -> None:
    """Run one stack.

    Raises:
        RunError: The file is wrong, or a device that must change cannot be reached; the text is
            the whole report, and no device was changed.
    """
    ready = guarded()
    verdict = compose(ready).verdict
    pulumi.export("verdict", verdict)
    pulumi.export("cluster", ready.spec.name)
    for name, value in ready.outputs_after(verdict).items():
        pulumi.export(name, value)


def compose(ready: Guarded) -> AcceptanceReport:
    """Register the stages of a site, in their order."""
    with _short_traces():
        report = COMPOSE[ready.spec.environment.kind](ready.plan, ready.remote, ready.run)
    stale = stale_after(ready.applied, ready.registered, pulumi.get_stack())
    if ready.scope:
        if gone := sorted(ready.applied.resources - ready.registered):
            raise refusal(
                f"RAILYARD_SCOPE: this update would remove {', '.join(gone)}, which the scope does"
                " not name. Nothing was removed.\n  fix    update the whole site"
            )
        stale = f", before an update of {ready.scope}: run `railyard accept {pulumi.get_stack()}`"
    verdict = report.verdict.apply(lambda text: text and text + stale) if stale else report.verdict
    return replace(report, verdict=verdict)


@contextmanager
def _short_traces() -> Generator[None]:
    """Keep only the nearest calls of each resource, not all twenty up to the interpreter's own.

    The SDK sends them and the state keeps them for each resource: a fifth of a small site's state.
    The traceback of an error is formatted later, and is whole.
    """
    before = getattr(sys, "tracebacklimit", None)
    sys.tracebacklimit = TRACED_CALLS
    try:
        yield
    finally:
        if before is None:
            del sys.tracebacklimit
        else:
            sys.tracebacklimit = before
