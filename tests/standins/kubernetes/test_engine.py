"""The stand-in under the real engine: an unknown kubeconfig, drift, repair, and a clean end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from lab.cluster.build import ensure_binaries
from lab.cluster.plane import ControlPlane
from lab.engine.env import EnvSettings, plan_environment, write_env
from lab.engine.install import ensure_engine
from standins.kubernetes.client import MERGE_PATCH, ApiError, Client
from standins.kubernetes.values import as_map, dig

pytestmark = [pytest.mark.engine, pytest.mark.cluster]
RUN_TIMEOUT_S = 240
SETTINGS = "/api/v1/namespaces/default/configmaps/settings"

PROGRAM = """
import os
import pulumi
import pulumi_command as command
import pulumi_kubernetes as kubernetes

access = command.local.Command(
    "access",
    create="cat \\"$ACCESS\\" #" + os.environ["GENERATION"],
    logging=command.local.Logging.NONE,
    opts=pulumi.ResourceOptions(additional_secret_outputs=["stdout"]),
)
cluster = pulumi.ResourceOptions(
    provider=kubernetes.Provider(
        "cluster",
        kubeconfig=access.stdout,
        cluster_identifier="contract",
        enable_config_map_mutable=True,
        enable_patch_force=True,
    )
)
kubernetes.core.v1.ConfigMap(
    "settings",
    metadata={"name": "settings", "namespace": "default"},
    data={"color": "blue"},
    opts=cluster,
)
release = kubernetes.helm.v3.Release(
    "widget",
    kubernetes.helm.v3.ReleaseArgs(
        chart=os.environ["CHART"], name="widget", namespace="default", timeout=60
    ),
    opts=cluster,
)
pulumi.export("state", release.status.status)
"""


@dataclass(frozen=True)
class Project:
    folder: Path
    pulumi: Path
    environment: Mapping[str, str]

    def run(self, *arguments: str, generation: int = 1) -> str:
        done = subprocess.run(
            [str(self.pulumi), "--non-interactive", "--color", "never", *arguments],
            cwd=self.folder,
            env={**self.environment, "GENERATION": str(generation)},
            capture_output=True,
            text=True,
            check=False,
            timeout=RUN_TIMEOUT_S,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture
def project(tmp_path: Path, plane: ControlPlane, chart: Path, cluster: Client) -> Iterator[Project]:
    """A project whose objects are in the cluster; destroyed at the end, none is there."""
    folder = tmp_path / "program"
    folder.mkdir()
    (folder / "Pulumi.yaml").write_text(
        "name: contract\nruntime: python\noptions: {refresh: always}\n"
    )
    (folder / "__main__.py").write_text(PROGRAM)
    settings = EnvSettings(
        project=folder,
        stack="dev",
        python=Path(sys.executable),
        engine=ensure_engine(),
        tools={"helm": ensure_binaries()["helm"]},
    )
    write_env(settings)
    home = {f"HELM_{key}_HOME": str(tmp_path / key) for key in ("CACHE", "CONFIG", "DATA")}
    base = {**os.environ, **home, "ACCESS": str(plane.kubeconfig), "CHART": str(chart)}
    made = Project(folder, settings.bin / "pulumi", plan_environment(settings, base))
    made.run("stack", "init", "dev")
    yield made
    made.run("destroy", "--yes", "--skip-preview")
    with pytest.raises(ApiError, match="not found"):
        cluster.request("GET", SETTINGS)


def test_from_an_unknown_cluster_to_drift_and_repair(project: Project, cluster: Client) -> None:
    first = as_map(json.loads(project.run("preview", "--json")))
    assert dig(first, "changeSummary", "create") == 5
    project.run("up", "--yes", "--skip-preview")
    assert json.loads(project.run("stack", "output", "--json")) == {"state": "deployed"}
    project.run("preview", "--expect-no-changes")
    # A new kubeconfig text is unknown in a preview; the identifier keeps every object in place.
    changed = as_map(json.loads(project.run("preview", "--json", generation=2)))
    assert dig(changed, "changeSummary", "replace") is None
    edit = {"fieldManager": "kubectl-edit"}
    cluster.request(
        "PATCH", SETTINGS, query=edit, body={"data": {"color": "red"}}, content_type=MERGE_PATCH
    )
    drifted = as_map(json.loads(project.run("preview", "--json")))
    assert dig(drifted, "changeSummary", "update") == 1
    project.run("up", "--yes", "--skip-preview")
    assert dig(cluster.request("GET", SETTINGS), "data", "color") == "blue"
