"""The only server and a worker get other names, and their first ones back."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.site.playground import PROJECT, Playground

pytestmark = pytest.mark.story
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
    left = standing.preview()  # with the committed file, which has no entry
    assert {name for name in left.changes if not name.startswith("acceptance")} == {
        "gpu01-host",
        "mgmt01-host",
    }, "its former name is no argument of the step any more"
    standing.up().must()
    assert standing.preview().quiet


def baselines(site: Playground) -> dict[str, str]:
    """What each host keeps for `destroy`."""
    folder = site.lab / "hosts"
    found = folder.glob("*/var/lib/railyard/dev/baseline")
    return {str(path.relative_to(folder)): path.read_text() for path in found}
