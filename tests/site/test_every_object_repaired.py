"""All objects of all sites in one stack: edited, taken from, deleted; the engine puts them back."""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from threading import Event, Thread
from typing import Any, Final, cast

import pytest
import yaml

from components.core.errors import DeviceError
from components.core.record import record
from components.kubernetes.manifest import REPAIR
from components.plan.make import ClusterPlan
from lab.cluster.api import Api, ApiError
from lab.cluster.document import pairs_at
from lab.cluster.fake_nodes import NodeFacts, register_node
from lab.cluster.nv_ipam import POOLS, give_blocks
from lab.cluster.plane import ControlPlane
from lab.cluster.process import wait_until
from lab.cluster.testing import running_plane
from lab.engine.install import ensure_engine
from tests.drift.test_every_object import KINDS, SECRETS, asked_objects
from tests.engine.runner import UNCHANGED, EngineRunner, Result, make_runner
from tests.schemas.test_api_server import Made, define, definitions_of_charts, make_namespace
from tests.site.one_stack import NODES, PROVER, one_plan

ROOT: Final = Path(__file__).parents[2]
PROGRAM: Final = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from tests.site.one_stack import run
run()
"""
DEADLINE_S: Final = 600.0
"""Of one command of the engine: an update of all objects takes a minute or two on idle cores."""
OPERATORS: Final = "nvidia-network-operator"
POLICIES: Final = "/apis/mellanox.com/v1alpha1/nicclusterpolicies"
GPU_POLICIES: Final = "/apis/nvidia.com/v1/clusterpolicies"
PROVEN: Final = {("update", "acceptance-evidence"), ("update", "acceptance-gate")}
PATCHED: Final = {"Node", "ClusterPolicy"}
"""Kinds of which a field is ours and the object is another's: it is not ours to make again."""
EDITS: Final[dict[str, Any]] = yaml.safe_load(
    Path(__file__).with_name("every_object.yaml").read_text()
)
"""What is done to one object of each kind, and what drift says of it."""
REFUSED: Final[dict[str, tuple[str, Any, str]]] = {
    "Namespace": (
        "mpi-operator",
        {"metadata": {"labels": {"kubernetes.io/metadata.name": "other"}}},
        "",
    ),
    "PersistentVolumeClaim": (
        "default/training-data",
        {"spec": {"volumeName": "other"}},
        "spec is immutable",
    ),
}
"""Kinds that can be deleted alone: a namespace of ours is a name, and the API server itself puts
its label back; of a claim it refuses every edit."""
FROM_CLUSTER: Final = {
    REPAIR,
    "creationTimestamp",
    "deprecated.daemonset.template.generation",
    "deployment.kubernetes.io/revision",
    "generation",
    "managedFields",
    "resourceVersion",
}
"""What a server counts up in each object that is written, and the note of a repair."""
FROM_MAKING: Final = FROM_CLUSTER | {"claimRef", "clusterIP", "clusterIPs", "uid"}
"""What it gives to each object that is made, beside that."""


@cache
def plan() -> ClusterPlan:
    return one_plan("dev")


@contextmanager
def operators_at_work(api: Api) -> Generator[None]:
    """What the controllers of the operators write into the status of their objects."""
    over = Event()

    def work() -> None:
        while not over.wait(0.2):
            with suppress(DeviceError):  # a kind that is deleted for the moment
                settle(api)

    thread = Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def settle(api: Api) -> None:
    """The policy is ready, and each pool has its nodes' blocks."""
    for policy in api.items(POLICIES):
        if "status" not in policy:
            api.merge(f"{POLICIES}/{name_in(policy)}", {"status": {"state": "ready"}})
    nodes = api.items("/api/v1/nodes")
    labels = {name_in(node): pairs_at(node, "metadata", "labels") for node in nodes}
    for pool in api.items(POOLS):
        metadata: Any = pool["metadata"]
        wanted: Any = {"allocations": give_blocks(pool, labels)}
        if pool.get("status") != wanted:
            place = POOLS.replace("/ippools", f"/namespaces/{metadata['namespace']}/ippools")
            api.merge(f"{place}/{metadata['name']}/status", {"status": wanted})


def name_in(body: Mapping[str, Any]) -> str:
    return str(body["metadata"]["name"])


@record
class Stack:
    """The stack of all objects, and the cluster that they are in."""

    engine: EngineRunner
    folder: Path
    plane: ControlPlane
    made: Made

    @property
    def api(self) -> Api:
        return self.plane.admin

    def preview(self) -> Result:
        done = self.engine.preview(self.folder)
        assert done.rc == 0, done.stderr + done.errors
        return done

    def up(self) -> Result:
        done = self.engine.up(self.folder)
        assert done.rc == 0, done.stderr + done.errors
        return done

    def proofs(self) -> int:
        """The number of the last proof that was demanded."""
        resources: Any = self.engine.export(self.folder)["deployment"]["resources"]
        (gate,) = [each for each in resources if each["urn"].endswith("::acceptance-gate")]
        number = re.match(r"evidence (\d+)\n", gate["inputs"]["stdin"])
        assert number, gate["inputs"]
        return int(number[1])

    def live(self, without: set[str]) -> dict[str, Any]:
        """Every object by its name in reports, without what the server writes by itself."""
        found = {name: self.api.find(path) or {} for name, path in self.made.paths().items()}
        found = {name: body | {"status": None} for name, body in found.items()}
        return {name: stripped(body, without) for name, body in found.items()}

    def is_quiet(self) -> None:
        quiet = self.preview()
        assert quiet.steps == ()
        assert drift_of(quiet) == []
        assert self.made.look().lines == ()


def stripped(value: Any, without: set[str]) -> Any:  # noqa: ANN401 - any JSON
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        left = {key: stripped(item, without) for key, item in items if key not in without}
        return {key: item for key, item in left.items() if (key, item) != ("annotations", {})}
    if isinstance(value, list):
        return [stripped(item, without) for item in cast("list[Any]", value)]
    return value


def drift_of(result: Result) -> list[str]:
    """What the program says in a preview or update."""
    said = [text.strip() for severity, text in result.diagnostics if severity == "info"]
    return sorted(text.removeprefix("drift: ") for text in said if text.startswith("drift: "))


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Generator[Stack]:
    engine = make_runner(ensure_engine(), tmp_path_factory.mktemp("engine"), DEADLINE_S)
    with running_plane(tmp_path_factory.mktemp("plane")) as plane:
        _of_others(plane)
        folder = engine.project("every-object", PROGRAM)
        program = folder / ".venv/bin/railyard"
        program.parent.mkdir(parents=True)
        program.write_text(PROVER)
        program.chmod(0o755)
        secrets = {"kubeconfig": plane.kubeconfig.read_text(), **SECRETS}
        engine.configure(folder, "dev", {f"railyard:{key}": text for key, text in secrets.items()})
        with operators_at_work(plane.admin):
            made = Stack(engine, folder, plane, Made(plane, asked_objects(plan())))
            made.up()
            yield made


def _of_others(plane: ControlPlane) -> None:
    """What is there before: nodes, and what the operators' charts make."""
    for name in NODES:
        register_node(plane.admin, NodeFacts(name, plane.address))
    ours = {each.name for each in plan().manifests if each.kind == "CustomResourceDefinition"}
    of_charts = definitions_of_charts()
    define(plane.admin, {name: body for name, body in of_charts.items() if name not in ours})
    make_namespace(plane.admin, OPERATORS)
    policy: Any = {
        "apiVersion": "nvidia.com/v1",
        "kind": "ClusterPolicy",
        "metadata": {"name": "cluster-policy"},
        "status": {"state": "ready", "namespace": "gpu-operator"},
    }
    plane.admin.apply(f"{GPU_POLICIES}/cluster-policy", policy)


def names_of_resources() -> dict[str, str]:
    """An object as reports name it, to its resource in the stack."""
    found: dict[str, str] = {}
    for each in plan().manifests:
        metadata: Any = each.body["metadata"]
        place = f"{metadata['namespace']}/" if "namespace" in metadata else ""
        found[f"{each.body['kind']} {place}{each.name}"] = each.resource_name
    return found


def said_as(lines: Sequence[str], texts: Mapping[str, Sequence[str]]) -> None:
    """Each object has a line, each of its fields is on it, and there is no other line."""
    assert sorted(line.partition(": ")[0] for line in lines) == sorted(texts)
    for line in lines:
        name, _, fields = line.partition(": ")
        found = sorted(fields.split("; "))
        for text, one in zip(sorted(texts[name]), found, strict=True):
            assert one.startswith(text) if text.endswith(" want") else one == text, line


def test_every_kind_has_an_edit_or_the_reason_why_it_has_none() -> None:
    assert EDITS.keys() | REFUSED.keys() == KINDS
    assert not EDITS.keys() & REFUSED.keys()


@pytest.mark.story
@pytest.mark.timeout(3600)
def test_every_kind_edited_is_named_repaired_and_proven_again(stack: Stack) -> None:
    assert {str(each.body["kind"]) for each in plan().manifests} == KINDS
    stack.is_quiet()
    before, proofs, paths = stack.live(FROM_CLUSTER), stack.proofs(), stack.made.paths()
    for kind, (name, patch, why) in REFUSED.items():
        if why:
            with pytest.raises(ApiError, match=why):
                stack.api.merge(paths[f"{kind} {name}"], patch)
        else:
            stack.api.merge(paths[f"{kind} {name}"], patch)
    assert stack.live(FROM_CLUSTER) == before
    edited = {f"{kind} {edit['object']}": edit for kind, edit in EDITS.items()}
    for name, edit in edited.items():
        stack.api.merge(paths[name], edit["patch"])

    changes = {("update", names_of_resources()[name]) for name in edited} | PROVEN
    preview = stack.preview()
    said_as(drift_of(preview), {name: edit["said"] for name, edit in edited.items()})
    assert {*preview.steps} == changes
    for step in json.loads(preview.stdout)["steps"]:
        assert step["op"] in UNCHANGED or step["detailedDiff"], step["urn"]
    repair = stack.up()
    assert {*repair.steps} == changes

    assert stack.live(FROM_CLUSTER) == before
    assert stack.proofs() == proofs + 1
    stack.is_quiet()


@pytest.mark.story
@pytest.mark.timeout(3600)
def test_every_object_deleted_is_named_made_again_and_proven_again(stack: Stack) -> None:
    stack.is_quiet()
    before, proofs = stack.live(FROM_MAKING), stack.proofs()
    kinds = {name: name.partition(" ")[0] for name in before}
    gone = {name: path for name, path in stack.made.paths().items() if kinds[name] not in PATCHED}
    assert {kinds[name] for name in gone} == KINDS - PATCHED
    now: Any = {"propagationPolicy": "Background"}
    for path in gone.values():
        with suppress(ApiError):  # with its namespace or its definition it went before
            stack.api.request("DELETE", path, now)
    absent = sorted(f"{name} is absent, want there" for name in gone)
    wait_until("them to be gone", lambda: sorted(stack.made.look().lines) == absent, 60)

    again = ("delete-replaced", "create-replacement", "replace")
    changes = {(op, names_of_resources()[name]) for name in gone for op in again} | PROVEN
    preview = stack.preview()
    assert drift_of(preview) == absent
    assert {*preview.steps} == {step for step in changes if step[0] in {"replace", "update"}}
    repair = stack.up()
    assert {*repair.steps} == changes

    assert stack.live(FROM_MAKING) == before
    assert stack.proofs() == proofs + 1
    stack.is_quiet()
