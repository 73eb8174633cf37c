"""Objects and charts of the product under the real engine, while the API server is stopped."""

from __future__ import annotations

import json
import os
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from lab.cluster.build import ensure_binaries
from lab.cluster.plane import ControlPlane
from lab.cluster.testing import running_plane
from lab.engine.install import ensure_engine
from tests.engine.runner import EngineRunner, Result, make_runner

pytestmark = [pytest.mark.engine, pytest.mark.cluster]
ROOT: Final = Path(__file__).parents[3]
PROGRAM: Final = f"""
import json, sys
from pathlib import Path
from types import SimpleNamespace
sys.path.insert(0, {str(ROOT)!r})
import pulumi
import pulumi_kubernetes as kubernetes
from pulumi_command import local
from components.kubernetes.objects import ClusterAccess
from components.kubernetes.manifest import make_manifest
from components.kubernetes.objects import apply_manifests, ask_before_deletion
from components.kubernetes.planes.base import ClusterRef
from components.operators.component import Operators
from components.operators.operators_plan import ChartPlan, OperatorsPlan
from components.remote.component import Remote

asked = json.loads(Path("asked.json").read_text())
switch = local.Command("switch", create="true", stdin=asked["switch"])
parent = pulumi.ComponentResource("railyard:test:Parent", "parent")
config = pulumi.Config("railyard")
provider = kubernetes.Provider(
    "cluster",
    kubeconfig=Path(asked["kubeconfig"]).read_text(),
    cluster_identifier="test",
    enable_server_side_apply=True,
    enable_config_map_mutable=True,
    enable_patch_force=True,
    opts=pulumi.ResourceOptions(depends_on=[switch]),
)
plan = SimpleNamespace(existing=None)
access = ClusterAccess(switch, plan, pulumi.Output.from_input(""), provider, None, asked["notes"])
charts = tuple(
    ChartPlan(release=name, chart=asked["chart"], version="", repo=None, namespace="default",
              values=dict(color=asked["color"]), deadline_s=60.0)
    for name in asked["charts"]
)
operators = Operators("operators", OperatorsPlan(charts, ()), access)
manifests = [make_manifest("test", body, group) for group, body in enumerate(asked["objects"])]
(*_, last) = apply_manifests("objects", manifests, parent, access, [operators.ready.gate])
theirs = ClusterRef("test", kubeconfig_secret="kubeconfig")
ask_before_deletion(theirs, "dev", Remote(config, {{}}), pulumi.ResourceOptions(depends_on=[last]))
"""
DEFINITION: Final[Mapping[str, Any]] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "rails.test.example"},
    "spec": {
        "group": "test.example",
        "names": {"kind": "Rail", "plural": "rails", "singular": "rail", "listKind": "RailList"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                    }
                },
            }
        ],
    },
}


def config_map(name: str, color: str = "blue") -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"color": color}}


def rail(size: int = 1) -> dict[str, Any]:
    metadata = {"name": "one", "namespace": "default"}
    spec = {"size": size}
    return {"apiVersion": "test.example/v1", "kind": "Rail", "metadata": metadata, "spec": spec}


@dataclass
class Site:
    engine: EngineRunner
    plane: ControlPlane
    folder: Path
    chart: Path

    def ask(self, switch: str, objects: list[Any], **more: Any) -> None:  # noqa: ANN401 - any JSON
        asked = {"switch": switch, "objects": objects, "chart": str(self.chart), "color": "red"}
        asked |= {"kubeconfig": str(self.plane.kubeconfig), "notes": {}, "charts": ["widget"]}
        (self.folder / "asked.json").write_text(json.dumps(asked | more))

    def up(self, *arguments: str) -> Result:
        return self.engine.up(self.folder, "dev", None, *arguments)

    def find(self, name: str) -> Any:  # noqa: ANN401 - any JSON
        return self.plane.admin.find(f"/api/v1/namespaces/default/configmaps/{name}")


@pytest.fixture
def site(
    tmp_path_factory: pytest.TempPathFactory, chart: Path, monkeypatch: pytest.MonkeyPatch
) -> Generator[Site]:
    helm = ensure_binaries()["helm"]
    monkeypatch.setenv("PATH", f"{helm.parent}:{os.environ['PATH']}")
    for key in ("CACHE", "CONFIG", "DATA"):
        monkeypatch.setenv(f"HELM_{key}_HOME", str(tmp_path_factory.mktemp(key)))
    engine = make_runner(ensure_engine(), tmp_path_factory.mktemp("engine"), 300.0)
    with running_plane(tmp_path_factory.mktemp("plane")) as plane:
        folder = engine.project("dead-api", PROGRAM)
        program = folder / ".venv/bin/railyard"
        program.parent.mkdir(parents=True)
        program.symlink_to(ROOT / ".venv/bin/railyard")
        engine.configure(folder, "dev", {"railyard:kubeconfig": plane.kubeconfig.read_text()})
        yield Site(engine, plane, folder, chart)


@pytest.mark.timeout(900)
def test_what_is_held_is_done_by_the_next_update_and_destroy_asks_first(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    what_is_held_is_kept_and_done_by_the_next_update(site)
    destroy_asks_the_api_first_and_says_how_to_go_on(site, monkeypatch)


def what_is_held_is_kept_and_done_by_the_next_update(site: Site) -> None:
    first = [DEFINITION, rail(), config_map("a")]
    site.ask("one", first)
    made = site.up()
    assert made.rc == 0, made.errors
    site.plane.stop_named("kube-apiserver")

    edited = [DEFINITION, rail(2), config_map("a", "red")]
    held = {"kubernetes-held": "the API is dead"}
    site.ask("two", edited, notes=held, color="green")
    preview = site.engine.preview(site.folder)
    assert (preview.rc, preview.steps) == (0, (("update", "switch"),)), preview.stderr
    done = site.up()
    assert (done.rc, done.steps) == (0, (("update", "switch"),)), done.errors
    assert (done.errors, done.warnings) == ("", "")

    site.plane.start_api()
    site.ask("two", [*edited, config_map("b")], color="green")
    rest = site.up()
    assert rest.rc == 0, rest.errors
    updates = {("update", "test-rail-one"), ("update", "test-configmap-a"), ("update", "widget")}
    assert {*rest.steps} == updates | {("create", "test-configmap-b")}
    assert site.find("a")["data"] == {"color": "red"}
    assert site.find("widget-config")["data"] == {"color": "green"}
    assert site.up().steps == ()


def destroy_asks_the_api_first_and_says_how_to_go_on(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = site.engine.export(site.folder)["deployment"]["resources"]
    site.plane.stop_named("kube-apiserver")

    refused = site.engine.destroy(site.folder)
    assert refused.rc != 0
    assert refused.errors.count("the API of cluster test does not answer") == 1
    assert "unreachable" not in refused.errors, "no word of the provider"
    left = site.engine.export(site.folder)["deployment"]["resources"]
    assert [each["urn"] for each in left] == [each["urn"] for each in before]

    monkeypatch.setenv("PULUMI_K8S_DELETE_UNREACHABLE", "true")
    dropped = site.engine.destroy(site.folder, "dev", "--refresh")
    assert dropped.rc == 0, dropped.errors
    assert "resources" not in site.engine.export(site.folder)["deployment"]
