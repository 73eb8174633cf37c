"""Run the real program under a recording monitor, and give the whole resource graph back.

The pattern of one event loop and one set of settings per run; nothing is asserted inside `apply`.
"""

import asyncio
import json
import runpy
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pulumi
from google.protobuf import json_format
from pulumi.runtime import mocks, settings, stack

ROOT = Path(__file__).parents[2]
SECRET_KEY = "4dabf18193072939515e22adb298388d"


@dataclass(frozen=True)
class Recorded:
    """One registered resource as the engine would see it."""

    type: str
    name: str
    urn: str
    parent: str
    inputs: Mapping[str, Any]
    dependencies: tuple[str, ...]
    options: Mapping[str, Any]
    secret_outputs: tuple[str, ...]

    def is_secret(self, key: str) -> bool:
        value = self.inputs.get(key)
        return isinstance(value, Mapping) and SECRET_KEY in value

    def plain(self, key: str) -> Any:
        value = self.inputs.get(key)
        return value["value"] if isinstance(value, Mapping) and SECRET_KEY in value else value


@dataclass
class Graph:
    resources: list[Recorded] = field(default_factory=list[Recorded])
    outputs: dict[str, Any] = field(default_factory=dict[str, Any])

    def named(self, name: str) -> Recorded:
        found = [item for item in self.resources if item.name == name]
        assert len(found) == 1, (name, [item.name for item in self.resources])
        return found[0]

    def of_type(self, token: str) -> list[Recorded]:
        return [item for item in self.resources if item.type == token]


class _Fakes(mocks.Mocks):
    """Answers of the providers: stdout of the commands that later resources read."""

    def __init__(self, stdout: Mapping[str, str], state: Mapping[str, Any]) -> None:
        self.stdout = stdout
        self.state = state

    def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str | None, dict[Any, Any]]:
        outputs = dict(args.inputs)
        if args.typ.startswith("command:"):
            outputs["stdout"] = self.stdout.get(args.name, "")
            outputs["stderr"] = ""
        return f"{args.name}-id", outputs

    def call(self, args: mocks.MockCallArgs) -> dict[Any, Any]:
        assert args.token == "pulumi:pulumi:readStackResourceOutputs", args.token
        return {"name": args.args["stackName"], "outputs": dict(self.state)}


class _Monitor(mocks.MockMonitor):
    """Records requests, and makes the URNs that the real engine makes."""

    def __init__(self, fakes: _Fakes, graph: Graph) -> None:
        super().__init__(fakes)
        self.graph = graph
        self.lock = threading.Lock()

    def make_urn(self, parent: str, type_: str, name: str) -> str:
        kind = parent.split("::")[2] if parent else ""
        if kind and kind != "pulumi:pulumi:Stack":
            type_ = f"{kind}${type_}"
        return f"urn:pulumi:{settings.get_stack()}::{settings.get_project()}::{type_}::{name}"

    def RegisterResource(self, request: Any) -> Any:
        answer = super().RegisterResource(request)
        if request.type == "pulumi:pulumi:Stack":
            return answer
        options = {
            "ignoreChanges": list(request.ignoreChanges),
            "deleteBeforeReplace": request.deleteBeforeReplace,
            "provider": request.provider,
        }
        recorded = Recorded(
            type=request.type,
            name=request.name,
            urn=answer.urn,
            parent=request.parent.rsplit("::", 1)[-1],
            inputs=json_format.MessageToDict(request.object),
            dependencies=tuple(sorted(urn.rsplit("::", 1)[-1] for urn in request.dependencies)),
            options={key: value for key, value in options.items() if value},
            secret_outputs=tuple(request.additionalSecretOutputs),
        )
        with self.lock:
            assert recorded.urn not in {item.urn for item in self.graph.resources}
            self.graph.resources.append(recorded)
        return answer

    def RegisterResourceOutputs(self, request: Any) -> Any:
        if request.urn.split("::")[2] == "pulumi:pulumi:Stack":
            self.graph.outputs = json_format.MessageToDict(request.outputs)
        return super().RegisterResourceOutputs(request)


def run_program(
    config: Mapping[str, Any],
    *,
    secrets: tuple[str, ...],
    stdout: Mapping[str, str] | None = None,
    state: Mapping[str, Any] | None = None,
    preview: bool = False,
) -> Graph:
    """Run `__main__.py` with a configuration and return what it registered, sorted by URN."""
    graph = Graph()
    monitor = _Monitor(_Fakes(stdout or {}, state or {}), graph)
    settings.reset_options()
    pulumi.runtime.set_all_config(
        {
            f"railyard:{key}": value if isinstance(value, str) else json.dumps(value)
            for key, value in config.items()
        },
        [f"railyard:{name}" for name in secrets],
    )
    settings.configure(
        mocks.MockSettings(
            monitor=monitor,
            engine=mocks.MockEngine(None),
            project="railyard",
            stack="dev",
            dry_run=preview,
            organization="organization",
        )
    )
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    loop.set_default_executor(ThreadPoolExecutor(max_workers=8))
    try:
        loop.run_until_complete(
            stack.run_in_stack(
                lambda: runpy.run_path(str(ROOT / "__main__.py"), run_name="__main__")
            )
        )
    finally:
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
        asyncio.set_event_loop(None)
        settings.reset_options()
    graph.resources.sort(key=lambda item: item.urn)
    return graph
