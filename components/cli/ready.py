"""`railyard ready STACK`: what of a stack's cluster is not ready, and why."""

from __future__ import annotations

import json
import time
from typing import Annotated, Literal

import typer

from components.cli.app import StackName, command_app, say
from components.cli.stack import Stack, load_stack
from components.core.errors import RailyardError, UsageError
from components.core.to_json import to_json
from components.kubernetes.client import Calls, KubernetesCalls, read_kubeconfig
from components.kubernetes.live.look import Asked, await_ready, find_not_ready
from components.kubernetes.live.read import ReleaseRef
from components.remote.host_session import run_on_hosts
from components.remote.step import env_name
from components.update.cluster import manifests_of

app = command_app()
UNSURE = 4
"""The cluster gave no answer."""


@app.command()
def ready(
    stack: StackName,
    wait_s: Annotated[float, typer.Option("--wait", min=0, help="Seconds to wait for it.")] = 0.0,
    output: Annotated[Literal["text", "json"], typer.Option("--format")] = "text",
) -> None:
    """Say what of a stack's cluster is not ready, and why: pods, images, events, finalizers.

    Changes nothing. Exit codes: 0 all is ready, 1 something is not, 2 no such stack, 4 the cluster
    gave no answer.
    """
    loaded = load_stack(stack)
    asked = _asked(loaded)
    try:
        calls = _connect(loaded)
        found = await_ready(lambda: find_not_ready(calls, asked), wait_s, time.monotonic, _pause)
    except UsageError:
        raise
    except RailyardError as error:
        say(f"cluster: {error}", err=True)
        raise typer.Exit(UNSURE) from error
    if output == "json":
        say(json.dumps({"stack": stack, "not_ready": to_json(found)}, indent=1))
    else:
        say("\n".join([*map(str, found), _summary(len(found), asked)]))
    raise typer.Exit(int(bool(found)))


def _pause(seconds: float) -> None:
    time.sleep(seconds)  # noqa: TID251 - `await_ready` ends by its deadline


def _asked(loaded: Stack) -> Asked:
    plan = loaded.plan
    return Asked(
        objects=tuple(
            each.body for each in manifests_of(plan) if not each.kind.endswith("NodePatch")
        ),
        releases=tuple(ReleaseRef(each.release, each.namespace) for each in plan.operators.charts),
    )


def _connect(loaded: Stack) -> Calls:
    secrets, access = loaded.reach_secrets, loaded.plan.acceptance.access
    if access is None:
        raise UsageError(
            f"{loaded.name} has no cluster.\n  fix    name a stack whose site has kubernetes."
        )
    known = access.known(loaded.applied.instances)
    keys = {env_name(name): value for name, value in secrets.items()}
    run = run_on_hosts((server.endpoint for server in known.servers), keys)
    kubeconfig = read_kubeconfig(known, run, secrets)
    if kubeconfig is None:
        raise UsageError(f"{loaded.name}: no server of its cluster has started yet.")
    return KubernetesCalls(kubeconfig)


def _summary(count: int, asked: Asked) -> str:
    looked = f"objects looked at: {len(asked.objects)}, Helm releases: {len(asked.releases)}"
    return f"{f'{count} not ready' if count else 'all is ready'} ({looked})."
