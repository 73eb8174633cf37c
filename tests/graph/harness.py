"""Run a real program under a recording monitor, and give the whole resource graph back.

One event loop and one set of settings per run, nothing kept between runs. The monitor answers as
the engine does (URNs, secret outputs, the answer of `readStackResourceOutputs`); assertions are
made on the recorded graph after the run, never inside `apply`.
"""

from __future__ import annotations

import asyncio
import json
import runpy
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

import pulumi
from google.protobuf import json_format, struct_pb2
from pulumi.runtime import mocks, rpc, settings, stack

from components.core.problem import Json

ROOT: Final = Path(__file__).parents[2]
SECRET_KEY: Final = "4dabf18193072939515e22adb298388d"
SECRET_MARK: Final = "1b47061264138c4ac30d75fd1eb44270"
"""The engine's envelope of a secret value."""
UNKNOWN: Final = cast("str", rpc.UNKNOWN)
"""What a preview has in place of an output that only an update can know."""
OWN_STATE: Final = "pulumi:pulumi:readStackResourceOutputs"


@dataclass(frozen=True, slots=True)
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
        value = self.inputs.get(key)
        return isinstance(value, dict) and SECRET_KEY in value

    def plain(self, key: str) -> Json:
        return unwrap(self.inputs.get(key))

    def text(self, key: str) -> str:
        value = self.plain(key)
        assert isinstance(value, str), (self.name, key, value)
        return value


@dataclass(slots=True)
class Graph:
    """What one run registered, sorted by URN, and what it said."""

    resources: list[Recorded] = field(default_factory=list[Recorded])
    outputs: dict[str, Json] = field(default_factory=dict[str, Json])
    messages: list[str] = field(default_factory=list[str])
    answers: dict[str, dict[str, Json]] = field(default_factory=dict[str, dict[str, Json]])
    """URN to the resource's outputs in clear: what the state of a stack then holds."""

    def named(self, name: str) -> Recorded:
        found = [item for item in self.resources if item.name == name]
        assert len(found) == 1, (name, [item.name for item in self.resources])
        return found[0]

    def of_type(self, prefix: str) -> list[Recorded]:
        return [item for item in self.resources if item.type.startswith(prefix)]

    def state(self) -> dict[str, Json]:
        """The answer of `readStackResourceOutputs` after this run, in the engine's own form.

        Recorded with the real engine 3.250.0: URN to `{type, outputs}`, secrets in clear.
        """
        types = {item.urn: item.type for item in self.resources}
        return {urn: {"type": types[urn], "outputs": own} for urn, own in self.answers.items()}


@dataclass(frozen=True, slots=True)
class Run:
    """The circumstances of one run."""

    config: Mapping[str, Json]
    """`railyard:` settings."""
    secrets: tuple[str, ...] = ()
    stdout: Mapping[str, str] = field(default_factory=dict[str, str])
    """Command resource to what it prints; others print nothing."""
    state: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """Own state before the run."""
    preview: bool = False
    """A preview of a new stack: no command has printed anything yet."""
    stack: str = "dev"


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


class _Fakes(mocks.Mocks):
    """Answers of the providers: stdout of the commands that later resources read."""

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
        assert args.token == OWN_STATE, args.token
        wanted = cast("dict[str, str]", args.args)["stackName"]  # pyright: ignore[reportUnknownMemberType] - the SDK has no types here
        assert wanted == f"organization/railyard/{self.run.stack}", wanted
        return {"name": wanted, "outputs": dict(self.run.state)}, []


class _Engine(mocks.MockEngine):
    """Keeps what the program says; the SDK's own debugging is left out."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(None)
        self.graph = graph

    def Log(self, request: Any) -> None:  # noqa: N802, ANN401 - the name and type of the protocol
        if request.severity > 0:  # 0 is DEBUG
            self.graph.messages.append(str(request.message))


class _Monitor(mocks.MockMonitor):
    """Records requests, and answers with the URNs and secret outputs that the engine gives."""

    def __init__(self, run: Run, graph: Graph) -> None:
        super().__init__(_Fakes(run))
        self.graph = graph
        self.lock = threading.Lock()

    def make_urn(self, parent: str, type_: str, name: str) -> str:
        kind = parent.split("::")[2] if parent else ""
        if kind and kind != "pulumi:pulumi:Stack":
            type_ = f"{kind}${type_}"
        return f"urn:pulumi:{settings.get_stack()}::{settings.get_project()}::{type_}::{name}"

    def RegisterResource(self, request: Any) -> Any:  # noqa: N802, ANN401 - the name and types of the protocol
        answer = cast("Any", super().RegisterResource(request))  # pyright: ignore[reportUnknownMemberType] - the SDK has no types here
        if request.type == "pulumi:pulumi:Stack":
            return answer
        for key in request.additionalSecretOutputs:
            if key in answer.object.fields:
                _seal(answer.object.fields[key])
        recorded = _recorded(request, answer.urn)
        with self.lock:
            assert recorded.urn not in self.graph.answers, f"two resources {recorded.urn}"
            self.graph.resources.append(recorded)
            self.graph.answers[recorded.urn] = {
                key: unwrap_all(value)
                for key, value in json_format.MessageToDict(answer.object).items()
                if value != UNKNOWN
            }
        return answer

    def RegisterResourceOutputs(self, request: Any) -> Any:  # noqa: N802, ANN401 - the name and types of the protocol
        if request.urn.split("::")[2] == "pulumi:pulumi:Stack":
            self.graph.outputs = json_format.MessageToDict(request.outputs)
        return cast("Any", super().RegisterResourceOutputs(request))  # pyright: ignore[reportUnknownMemberType] - the SDK has no types here


def _seal(value: struct_pb2.Value) -> None:
    """Put a value into the secret envelope, as the engine does with secret outputs."""
    if SECRET_KEY in value.struct_value.fields or value.string_value == UNKNOWN:
        return
    inner = struct_pb2.Value()
    inner.CopyFrom(value)
    value.struct_value.fields[SECRET_KEY].string_value = SECRET_MARK
    value.struct_value.fields["value"].CopyFrom(inner)


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
    }
    return Recorded(
        type=request.type,
        name=request.name,
        urn=urn,
        parent=_name(request.parent),
        custom=request.custom,
        inputs=json_format.MessageToDict(request.object),
        dependencies=tuple(sorted(_name(each) for each in request.dependencies)),
        options={key: value for key, value in options.items() if value},
        secret_outputs=tuple(sorted(request.additionalSecretOutputs)),
    )


def record_main(run: Run) -> Graph:
    """Run `__main__.py`, whatever comes of it, and return what it registered.

    Raises:
        RunError: The program refused; use `record_refusal` where that is expected.
    """
    graph = Graph()
    _record(run, graph, _run_main)
    return graph


def record_refusal(run: Run) -> tuple[str, Graph]:
    """Run `__main__.py` of a site that it must refuse; return its words and what it registered."""
    graph = Graph()
    try:
        _record(run, graph, _run_main)
    except pulumi.RunError as error:
        return str(error), graph
    raise AssertionError("the program did not refuse")


def record_program(run: Run, program: Callable[[], None]) -> Graph:
    """Run any program under the recording monitor."""
    graph = Graph()
    _record(run, graph, program)
    return graph


def _run_main() -> None:
    runpy.run_path(str(ROOT / "__main__.py"), run_name="__main__")


def _record(run: Run, graph: Graph, program: Callable[[], None]) -> None:
    settings.reset_options()
    pulumi.runtime.set_all_config(
        {
            f"railyard:{key}": value if isinstance(value, str) else json.dumps(value)
            for key, value in run.config.items()
        },
        [f"railyard:{name}" for name in run.secrets],
    )
    settings.configure(
        mocks.MockSettings(
            monitor=_Monitor(run, graph),
            engine=_Engine(graph),
            project="railyard",
            stack=run.stack,
            dry_run=run.preview,
            organization="organization",
        )
    )
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    loop.set_default_executor(ThreadPoolExecutor(max_workers=8))
    try:
        loop.run_until_complete(stack.run_in_stack(program))
    finally:
        _close(loop)
        graph.resources.sort(key=lambda item: item.urn)


def _close(loop: asyncio.AbstractEventLoop) -> None:
    """Leave nothing of this run to the next one."""
    for task in asyncio.all_tasks(loop):
        task.cancel()
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()
    asyncio.set_event_loop(None)
    pulumi.runtime.set_all_config({}, [])
    settings.reset_options()
