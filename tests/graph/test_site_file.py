"""The program of a stack that names its site as a file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from components.testing import Graph, Run
from tests.graph.dev_site import SECRETS, dev_cluster, dev_run
from tests.graph.whole_program import record_main, record_refusal

LAB = Path(__file__).parents[2] / "lab"
"""The charts of the dev site are there."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of its own, with the dev site as a file and a stack file that names it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "Pulumi.yaml").write_text("name: railyard\n")
    (tmp_path / "lab").symlink_to(LAB)
    (tmp_path / "site.yaml").write_text(yaml.safe_dump(dev_cluster()))
    secrets = "".join(f"  railyard:{name}: {{secure: v1:abc}}\n" for name in SECRETS)
    (tmp_path / "Pulumi.dev.yaml").write_text(f"config:\n  railyard:site: site.yaml\n{secrets}")
    return tmp_path


def run_with(site: str, *, cluster: bool = False) -> Run:
    run = dev_run()
    config = {key: value for key, value in run.config.items() if cluster or key != "cluster"}
    return replace(run, config={**config, "site": site})


def inputs_of(graph: Graph) -> dict[str, object]:
    return {resource.urn: resource.inputs for resource in graph.resources}


@pytest.mark.usefixtures("folder")
def test_the_file_gives_the_same_resources_as_the_value() -> None:
    assert inputs_of(record_main(run_with("site.yaml"))) == inputs_of(record_main(dev_run()))


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("site", "cluster", "words"),
    [
        ("gone.yaml", False, "the file gone.yaml does not exist"),
        ("../site.yaml", False, "leads out of the project's folder"),
        ("site.yaml", True, "both `railyard:site` and `railyard:cluster`"),
    ],
)
def test_a_wrong_path_ends_the_run_before_the_first_resource(
    site: str, words: str, *, cluster: bool
) -> None:
    report, graph = record_refusal(run_with(site, cluster=cluster))
    assert words in report
    assert "Pulumi.dev.yaml:2" in report
    assert "Nothing was touched" in report
    assert [each.urn for each in graph.resources if "railyard" in each.urn.split("::")[2]] == []


def test_a_wrong_site_is_reported_with_its_own_lines(folder: Path) -> None:
    site = folder / "site.yaml"
    site.write_text(site.read_text().replace("mtu_bytes: 9000", "mtu_bytes: 99999", 1))
    report, _ = record_refusal(run_with("site.yaml"))
    line = 1 + site.read_text().splitlines().index("  mtu_bytes: 99999")
    assert f"site.yaml:{line}" in report


def test_a_run_may_give_secrets_that_the_file_of_the_stack_lacks(folder: Path) -> None:
    (folder / "Pulumi.dev.yaml").write_text("config:\n  railyard:site: site.yaml\n")
    given = run_with("site.yaml")
    assert len(record_main(given).resources) > 10
    kept = {key: value for key, value in given.config.items() if key != "k3s_token"}
    report, _ = record_refusal(replace(given, config=kept))
    assert report.count("secret-value: ") == 1
    assert "secret-value: the secret railyard:k3s_token is not in" in report
    report, _ = record_refusal(replace(given, secrets=()))  # in clear text, as `config:` may be
    assert report.count("secret-value: ") == len(SECRETS)


def test_the_stacks_file_may_lie_elsewhere(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = folder / "stacks"
    elsewhere.mkdir()
    (folder / "site.yaml").rename(elsewhere / "site.yaml")
    (folder / "Pulumi.dev.yaml").rename(elsewhere / "Pulumi.dev.yaml")
    monkeypatch.setenv("RAILYARD_CONFIG_FILE", str(elsewhere / "Pulumi.dev.yaml"))
    assert len(record_main(run_with("site.yaml")).resources) > 10
