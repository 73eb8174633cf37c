"""Run a program under a recording engine without Pulumi's own; return the whole resource graph.

`docs/howto/test-your-stack.md` has an example. The product itself never imports this package.

Each run has its own event loop and settings, and leaves nothing to the next run. The monitor
answers as the engine does (URNs, secret outputs, the answer of `readStackResourceOutputs`). Tests
make assertions on the recorded graph after the run, never inside `apply`.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, cast
from unittest.mock import patch

import pulumi
from google.protobuf import json_format, struct_pb2
from pulumi.runtime import mocks, rpc, settings, stack

from components.acceptance.report import archive
from components.core.problem import Json
from components.core.record import record

SECRET_KEY: Final = "4dabf18193072939515e22adb298388d"  # noqa: S105 - public: the protocol's
"""Key that marks the engine's envelope of a secret value."""
SECRET_MARK: Final = "1b47061264138c4ac30d75fd1eb44270"  # noqa: S105 - public: the protocol's
"""Value of that key, which marks the envelope as a secret."""
UNKNOWN: Final = cast("str", rpc.UNKNOWN)
"""Placeholder in a preview for an output that only an update can know."""
OWN_STATE: Final = "pulumi:pulumi:readStackResourceOutputs"
_ORGANIZATION: Final = "organization"
_STACK: Final = "pulumi:pulumi:Stack"


@record
class Recorded:
    """One registered resource as the engine would see it."""

    type: str
    name: str
    urn: str
    parent: str
    custom: bool
    inputs: Mapping[str, Json]
    dependencies: tuple[str, ...]
    """Names of the resources it waits for, explicit and through inputs."""
    options: Mapping[str, Json]
    secret_outputs: tuple[str, ...]

    def is_secret(self, key: str) -> bool:
        """Whether the engine would keep this input encrypted."""
        return is_secret(self.inputs.get(key))

    def plain(self, key: str) -> Json:
        """An input without its secret envelope; None if the input is missing."""
        return unwrap(self.inputs.get(key))

    def text(self, key: str) -> str:
        """An input that must be a text, or TypeError."""
        value = self.plain(key)
        if not isinstance(value, str):
            raise TypeError(f"{self.name}: {key} is {value!r}, which is not a text")
        return value


@dataclass(slots=True)
class Graph:
    """The resources of one run, sorted by URN, with its outputs and messages."""

    resources: list[Recorded] = field(default_factory=list[Recorded])
    outputs: dict[str, Json] = field(default_factory=dict[str, Json])
    messages: list[str] = field(default_factory=list[str])
    answers: dict[str, dict[str, Json]] = field(default_factory=dict[str, dict[str, Json]])
    """URN to the resource's outputs in clear: the state of a stack then holds the same."""

    def named(self, name: str) -> Recorded:
        """The resource with that name; LookupError if it fits none or several."""
        found = [item for item in self.resources if item.name == name]
        if len(found) != 1:
            names = ", ".join(item.name for item in self.resources)
            raise LookupError(f"{len(found)} resources are named {name}; there are: {names}")
        return found[0]

    def of_type(self, prefix: str) -> list[Recorded]:
        """The resources whose type starts with a prefix, for example `kubernetes:`."""
        return [item for item in self.resources if item.type.startswith(prefix)]

    def state(self) -> dict[str, Json]:
        """The answer of `readStackResourceOutputs` after this run, as engine 3.250.0 gives it."""
        types = {item.urn: item.type for item in self.resources}
        found = _stack_of(self.outputs)
        for urn, own in self.answers.items():
            found[urn] = {"type": types[urn], "outputs": {**own}}
        return found


def _stack_of(outputs: Mapping[str, Json]) -> dict[str, Json]:
    """The resource of a stack with these outputs, in the state."""
    return {f"urn:pulumi:any::any::{_STACK}::any": {"type": _STACK, "outputs": {**outputs}}}


def is_secret(value: Json) -> bool:
    """Whether a recorded value is in a secret envelope."""
    return isinstance(value, dict) and SECRET_KEY in value


def unwrap(value: Json) -> Json:
    """Take a value out of its secret envelope, if it is in one."""
    if isinstance(value, dict) and SECRET_KEY in value:
        return value["value"]
    return value


def unwrap_all(value: Json) -> Json:
    """Take all values out of their secret envelopes, however deep."""
    value = unwrap(value)
    if isinstance(value, dict):
        return {key: unwrap_all(item) for key, item in value.items()}
    if isinstance(value, list):
        return [unwrap_all(item) for item in value]
    return value


@record
class Run:
    """The configuration and circumstances of one run."""

    config: Mapping[str, Json]
    """Settings of the stack. A key without a namespace gets `railyard:`."""
    secrets: tuple[str, ...] = ()
    stdout: Mapping[str, str] = field(default_factory=dict[str, str])
    """Command resource to its output; other commands print nothing."""
    state: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """The stack's own state before the run."""
    others: Mapping[str, Mapping[str, Json]] = field(default_factory=dict[str, Mapping[str, Json]])
    """Stack of the project to its outputs; any other stack does not exist."""
    states: Mapping[str, Mapping[str, Json]] = field(default_factory=dict[str, Mapping[str, Json]])
    """Stack of the project to its state, for each that exists."""
    preview: bool = False
    """A preview of a new stack: no command has printed anything yet."""
    stack: str = "dev"
    project: str = "railyard"


class _Fakes(mocks.Mocks):
    def __init__(self, run: Run) -> None:
        self.run = run

    def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str | None, dict[str, Any]]:
        outputs = dict(cast("dict[str, Any]", args.inputs))  # pyright: ignore[reportUnknownMemberType] - the SDK has no types here
        if args.typ.startswith("command:"):
            silent = UNKNOWN if self.run.preview else ""
            outputs["stdout"] = self.run.stdout.get(args.name, silent)
            outputs["stderr"] = silent
        return f"{args.name}-id", outputs

    def call(self, args: mocks.MockCallArgs) -> tuple[dict[str, Any], list[tuple[str, str]] | None]:
        asked = cast("dict[str, str]", args.args)  # pyright: ignore[reportUnknownMemberType] - the SDK has no types here
        if args.token != OWN_STATE:
            raise LookupError(f"the program calls {args.token}, which this engine does not answer")
        states = {self.run.stack: self.run.state, **self.run.states}
        for name, outputs in self.run.others.items():
            states[name] = {**states.get(name, {}), **_stack_of(outputs)}
        wanted = asked["stackName"]
        found = states.get(wanted.removeprefix(f"{_ORGANIZATION}/{self.run.project}/"))
        if found is None:
            return {}, [("stackName", f'unknown stack "{wanted}"')]
        return {"name": wanted, "outputs": dict(found)}, []


class _Engine(mocks.MockEngine):
    """Keep the program's messages; drop the SDK's own debug messages."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(None)
        self.graph = graph

    def Log(self, request: Any) -> None:  # noqa: N802, ANN401 - the name and type of the protocol
        if request.severity > 0:  # 0 is DEBUG
            self.graph.messages.append(str(request.message))


class _Monitor(mocks.MockMonitor):
    """Record requests, and answer with the URNs and secret outputs that the engine gives."""

    def __init__(self, run: Run, graph: Graph) -> None:
        super().__init__(_Fakes(run))
        self.graph = graph
        self.lock = threading.Lock()

    def make_urn(self, parent: str, type_: str, name: str) -> str:
        kind = parent.split("::")[2] if parent else ""
        if kind and kind != _STACK:
            type_ = f"{kind}${type_}"
        return f"urn:pulumi:{settings.get_stack()}::{settings.get_project()}::{type_}::{name}"

    def RegisterResource(self, request: Any) -> Any:  # noqa: N802, ANN401 - the name and types of the protocol
        answer = cast("Any", super().RegisterResource(request))  # pyright: ignore[reportUnknownMemberType] - the SDK has no types here
        if request.type == _STACK:
            return answer
        for key in {*request.additionalSecretOutputs} & {*answer.object.fields}:
            value = answer.object.fields[key]
            if value.string_value != UNKNOWN and SECRET_KEY not in value.struct_value.fields:
                # Put it into the secret envelope, as the engine does.
                inner = struct_pb2.Value()
                inner.CopyFrom(value)
                value.struct_value.fields[SECRET_KEY].string_value = SECRET_MARK
                value.struct_value.fields["value"].CopyFrom(inner)
        recorded = _recorded(request, answer.urn)
        with self.lock:
            if recorded.urn in self.graph.answers:
                raise LookupError(f"two resources have the URN {recorded.urn}")
            self.graph.resources.append(recorded)
            self.graph.answers[recorded.urn] = {
                key: unwrap_all(value)
                for key, value in json_format.MessageToDict(answer.object).items()
                if value != UNKNOWN
            }
        return answer

    def RegisterResourceOutputs(self, request: Any) -> Any:  # noqa: N802, ANN401 - the name and types of the protocol
        outputs: dict[str, Json] = json_format.MessageToDict(request.outputs)
        if request.urn.split("::")[2] == _STACK:
            self.graph.outputs = outputs
        else:
            told = {key: unwrap_all(value) for key, value in outputs.items()}
            self.graph.answers[request.urn] |= told
        return cast("Any", super().RegisterResourceOutputs(request))  # pyright: ignore[reportUnknownMemberType] - the SDK has no types here


def _name(urn: str) -> str:
    return urn.rsplit("::", 1)[-1]


def _recorded(request: Any, urn: str) -> Recorded:  # noqa: ANN401 - a message of the protocol
    options: dict[str, Json] = {
        "ignoreChanges": list(request.ignoreChanges),
        "replaceOnChanges": list(request.replaceOnChanges),
        "deleteBeforeReplace": bool(request.deleteBeforeReplace),
        "protect": bool(request.protect),
        "retainOnDelete": bool(request.retainOnDelete),
        "provider": _name(request.provider.rpartition("::")[0]),
        "aliases": [each.spec.name or _name(each.urn) for each in request.aliases],
    }
    return Recorded(
        request.type, request.name, urn, _name(request.parent), request.custom,
        inputs=json_format.MessageToDict(request.object),
        dependencies=tuple(sorted(_name(each) for each in request.dependencies)),
        options={key: value for key, value in options.items() if value},
        secret_outputs=tuple(sorted(request.additionalSecretOutputs)),
    )  # fmt: skip


def record_program(run: Run, program: Callable[[], None]) -> Graph:
    """Run a program, and return its resources; RunError if it refused (see `record_refusal`)."""
    graph = Graph()
    _record(run, graph, program)
    return graph


def record_refusal(run: Run, program: Callable[[], None]) -> tuple[str, Graph]:
    """Run a program that must refuse; return its message and the resources registered before."""
    graph = Graph()
    try:
        _record(run, graph, program)
    except pulumi.RunError as error:
        return str(error), graph
    raise AssertionError("the program did not refuse")


def _record(run: Run, graph: Graph, program: Callable[[], None]) -> None:
    settings.reset_options()
    texts = {
        _full(key): value if isinstance(value, str) else json.dumps(value)
        for key, value in run.config.items()
    }
    pulumi.runtime.set_all_config(texts, [_full(name) for name in run.secrets])
    configured = mocks.MockSettings(
        monitor=_Monitor(run, graph), engine=_Engine(graph), project=run.project, stack=run.stack,
        dry_run=run.preview, organization=_ORGANIZATION,
    )  # fmt: skip
    settings.configure(configured)
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    loop.set_default_executor(ThreadPoolExecutor(max_workers=8))
    try:
        # An update puts its acceptance request into the archive beside the program.
        with TemporaryDirectory() as folder, patch.object(archive, "FOLDER", Path(folder)):
            loop.run_until_complete(stack.run_in_stack(program))
    finally:
        # Close everything that this run opened, and reset the settings for the next run.
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
        asyncio.set_event_loop(None)
        pulumi.runtime.set_all_config({}, [])
        settings.reset_options()
        graph.resources.sort(key=lambda item: item.urn)


def _full(key: str) -> str:
    return key if ":" in key else f"railyard:{key}"
