"""A folder that `railyard init` made, under the real engine: refused as it is, played as a lab."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from components.artefacts.lock import lock_path, write_lock
from components.model.cluster import ClusterSpec
from components.model.worker_kinds import with_instances
from components.project.engine import wanted_versions
from components.project.wheel import pack_wheel
from components.project.write import (
    Example,
    ProjectPlan,
    example_text,
    render_files,
    write_project,
)
from components.update.secrets import secret_names
from lab.cluster.artefact import checksums
from lab.site import load_document, overlay
from tests.engine.runner import EngineRunner
from tests.golden.site import EXAMPLES
from tests.graph.locked import lock_of

pytestmark = pytest.mark.engine
STACK = "site"


def begin(engine: EngineRunner, example: Example) -> Path:
    """The project as `railyard init` writes it, with the lab's Python and a stack."""
    folder = engine.home / f"begun-{example}"
    versions = wanted_versions()
    files = render_files(
        ProjectPlan(folder.name, STACK, example_text(example), pack_wheel(), versions)
    )
    write_project(folder, files)
    made = engine.call(folder, "stack", "init", STACK)
    assert made.returncode == 0, made.stderr
    return folder


def play(engine: EngineRunner, folder: Path, example: Example) -> None:
    """Give it the addresses of a lab, as `make up` does, and secrets; its charts stay pinned."""
    raw = load_document(EXAMPLES / example / "site.yaml")
    document = overlay(raw, STACK, checksums())
    if "operators" in raw:
        document["operators"] = raw["operators"]
    site = folder / "site.yaml"
    site.write_text(yaml.safe_dump(document, sort_keys=False))
    (folder / "lab").symlink_to(EXAMPLES.parent / "lab")  # its K3s is a path of the project
    spec = with_instances(ClusterSpec.model_validate(document))
    write_lock(lock_path(site), lock_of(spec).entries)
    for name in secret_names(spec):
        setting = ("--secret", f"railyard:{name}", f"value-of-{name}")
        done = engine.call(folder, "config", "set", *setting, "--stack", STACK)
        assert done.returncode == 0, done.stderr


# Instances that the run makes cannot have the lab's K3s as a path: tests/site plays crusoe-k3s.
@pytest.mark.parametrize(("example", "charts"), [("dgx-roce", 1), ("esxi-roce", 0)])
def test_a_begun_project_previews_once_its_values_are_there(
    engine: EngineRunner, example: Example, charts: int
) -> None:
    folder = begin(engine, example)
    raw = engine.call(folder, "preview", "--stack", STACK)
    assert raw.returncode != 0
    assert "marked as the example's" in raw.stdout + raw.stderr
    play(engine, folder, example)
    real = engine.call(folder, "preview", "--stack", STACK)
    assert real.returncode != 0
    told = " ".join((real.stdout + real.stderr).split())
    assert f"stack {STACK} does not belong to the lab, but would use parts of the lab" in told
    assert "is the lab's substitute" in told
    assert "which is public" in told
    assert "which `make clean` deletes" in told
    config = {"railyard:lab": "true", "railyard:observe": "never"}
    played = engine.preview(folder, STACK, config)
    assert played.rc == 0, played.stderr + played.errors
    assert played.changes["create"] > 20
    away = "this chart of the lock is not on this machine"
    assert (played.stdout + played.stderr).count(away) == charts
