"""`railyard cloud …`: the commands of an update's cloud steps, and the export for other stacks."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Final, TypeVar

import yaml

from components.cli.app import StackName, command_app, say
from components.cloud import ensure, instances, preflight
from components.cloud import request as requests
from components.cloud.crusoe_api import CrusoeApi, Patience
from components.remote.step import secrets_from

app = command_app("Print a site with the cloud instances that a stack made.")
RequestT = TypeVar(
    "RequestT", requests.ImageRequest, requests.ObjectRequest, requests.PreflightRequest,
    requests.ReadyRequest,
)  # fmt: skip
_Verb = Callable[[str, Mapping[str, str], Patience | None], requests.Printed]
_Call = Callable[[CrusoeApi, RequestT, requests.Printed], requests.Printed]


def _verb(kind: type[RequestT], call: _Call[RequestT]) -> _Verb:
    def run(text: str, environ: Mapping[str, str], patience: Patience | None) -> requests.Printed:
        request = requests.parse_request(kind, text)
        api = requests.open_api(request.api, secrets_from(environ), patience)
        one = isinstance(request, requests.ObjectRequest)
        with requests.only_one(request.api, request.kind, request.name) if one else nullcontext():
            return call(api, request, _previous(environ))

    return run


def _previous(environ: Mapping[str, str]) -> requests.Printed:
    return requests.previous_of(environ.get(requests.PREVIOUS_OUTPUT, ""))


def _claim(text: str, environ: Mapping[str, str], _: Patience | None) -> requests.Printed:
    request = requests.parse_request(requests.PreflightRequest, text)
    return preflight.claim(request, _previous(environ))


VERBS: Final[dict[str, _Verb]] = {
    "preflight": _verb(requests.PreflightRequest, preflight.preflight),
    "claim": _claim,
    "image": _verb(
        requests.ImageRequest, lambda api, request, _: preflight.resolve_image(api, request)
    ),
    "ensure": _verb(requests.ObjectRequest, ensure.ensure),
    "await": _verb(requests.ReadyRequest, instances.await_instance),
    "remove": _verb(requests.ObjectRequest, ensure.remove),
    "sweep": _verb(requests.PreflightRequest, preflight.sweep),
}


def run_verb(
    verb: str, text: str, environ: Mapping[str, str], patience: Patience | None = None
) -> str:
    """Carry out one verb for the request on stdin, and return its output.

    Raises: UsageError: stdin is not a request, or a secret is missing. CloudError: the API refused.
    DeviceError: the cloud cannot give what the request asks for.
    """
    return requests.render_printed(VERBS[verb](text, environ, patience))


def _command(name: str) -> Callable[[], None]:
    def call() -> None:
        say(run_verb(name, sys.stdin.read(), os.environ), nl=False)

    call.__doc__ = f"Run `{name}` for the request on standard input."
    return call


for _name in VERBS:
    app.command(_name, hidden=True)(_command(_name))


@app.command()
def export(stack: StackName = "") -> None:
    """Print the site with the instances of its stack as hosts: a `bring_your_own` site file."""
    # Only here: steps run the other commands per object, and start in half the time without these.
    from components.cli.stack import load_stack  # noqa: PLC0415 - see above
    from components.cloud.instances import export_bring_your_own  # noqa: PLC0415 - see above

    loaded = load_stack(stack)
    recorded = {host.name: loaded.applied.step(f"{host.name}-await") for host in loaded.spec.hosts}
    facts = {name: requests.previous_of(step.stdout) for name, step in recorded.items() if step}
    document = export_bring_your_own(loaded.spec, facts)
    say(yaml.safe_dump(document, sort_keys=False, width=100), nl=False)
