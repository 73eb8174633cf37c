"""The only server and a worker get other names, and their first ones back."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.site.playground import PROJECT, Playground

pytestmark = pytest.mark.site
FORWARD = {"mgmt01": "mgmt02", "gpu01": "gpu09"}


@pytest.mark.timeout(2400)  # six commands of an engine: minutes where the cores are shared
def test_a_server_and_a_worker_are_renamed_and_back(standing: Playground, tmp_path: Path) -> None:
    config = tmp_path / "Pulumi.dev.yaml"
    config.write_text((PROJECT / config.name).read_text())
    known = {"RAILYARD_CONFIG_FILE": str(config)}
    nodes = standing.kubectl("get", "nodes", "--output", "jsonpath={.items[*].metadata.uid}").must()
    factory = baselines(standing)
    for names in (FORWARD, {new: old for old, new in FORWARD.items()}):
        for old, new in names.items():
            said = standing.railyard("rename", "host", old, new, "--stack", "dev", **known).must()
            assert f"{old} is {new} now: {config}:" in said
        preview = standing.preview(config, **known)
        preview.done.must()
        assert set(preview.changes.values()) == {"update"}
        assert standing.railyard("drift", "dev", **known).must().count("no drift") == 8
        up = ("up", "--yes", "--skip-preview", "--config-file", str(config))
        assert "acceptance passed" in standing.pulumi(*up, **known).must()
        assert standing.preview(config, **known).quiet
        found = standing.kubectl("get", "nodes", "--output", "jsonpath={.items[*].metadata.uid}")
        assert found.must() == nodes, "the same three nodes"
        assert baselines(standing) == factory
    assert standing.preview().quiet, "with the committed file, which has no entry"


@pytest.mark.timeout(2400)  # as above
def test_a_worker_and_its_node_get_another_name(standing: Playground, tmp_path: Path) -> None:
    config = tmp_path / "Pulumi.dev.yaml"
    config.write_text((PROJECT / config.name).read_text())
    known = {"RAILYARD_CONFIG_FILE": str(config)}
    for old, new in (("gpu02", "gpu08"), ("gpu08", "gpu02")):
        rename = ("rename", "host", old, new, "--node", "--stack", "dev")
        assert f"Its node {old} is drained" in standing.railyard(*rename, **known).must()
        preview = standing.preview(config, **known)
        preview.done.must()
        assert preview.changes[f"{new}-node"] == "create"
        assert preview.changes[f"{old}-node"] == "delete"
        assert {name for name, done in preview.changes.items() if done == "delete"} == {
            f"{old}-node"
        }
        up = ("up", "--yes", "--skip-preview", "--config-file", str(config))
        assert "acceptance passed" in standing.pulumi(*up, **known).must()
        assert standing.preview(config, **known).quiet
        found = standing.kubectl("get", "nodes", "--output", "jsonpath={.items[*].metadata.name}")
        assert set(found.must().split()) == {"mgmt01", "gpu01", new}


def baselines(site: Playground) -> dict[str, str]:
    """What each host keeps for `destroy`."""
    folder = site.lab / "hosts"
    found = folder.glob("*/var/lib/railyard/dev/baseline")
    return {str(path.relative_to(folder)): path.read_text() for path in found}
