"""What a site brings, in the whole program: pinned before anything is made, logins kept secret."""

from __future__ import annotations

import base64
import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from components.core.problem import Json
from components.remote.sending import split_parts
from components.testing import Run, is_secret, unwrap
from tests.graph.dev_site import SECRETS, dev_cluster, dev_run
from tests.graph.whole_program import record_main, record_refusal

PASSWORD = "value-of-registry_password"
REGISTRY = {
    "address": "registry.site1.example:5000",
    "login": {"user": "puller", "password": {"secret": "registry_password"}},
}


def without_lab(run: Run) -> Run:
    return replace(run, config={k: v for k, v in run.config.items() if k != "lab"})


def run_with_registry() -> Run:
    cluster = cast("dict[str, Any]", copy.deepcopy(dev_cluster()))
    cluster["sources"] = {"registry": REGISTRY}
    run = dev_run(cluster)
    config = {**run.config, "registry_password": PASSWORD}
    secrets = (*run.secrets, "registry_password")
    return replace(run, config=config, secrets=secrets, stack="other")  # it has no file


def test_outside_of_the_lab_an_update_of_what_is_not_pinned_is_refused() -> None:
    report, graph = record_refusal(replace(without_lab(dev_run()), stack="site1"))
    assert report.startswith("unpinned: ")
    assert "multus-cni:v4.3.0" in report
    assert "railyard pin" in report
    assert "Nothing was touched." in report
    assert [each.urn for each in graph.resources if "railyard" in each.urn.split("::")[2]] == []


def test_the_lab_brings_files_of_the_repository() -> None:
    assert record_main(dev_run()).resources


def test_each_namespace_has_the_login_before_its_pods_and_no_input_shows_it() -> None:
    graph = record_main(run_with_registry())
    made = graph.of_type("kubernetes:core/v1:Secret")
    assert len(made) == 4
    for each in made:
        data = cast("dict[str, Json]", unwrap(each.inputs["data"]))
        assert is_secret(each.inputs["data"]) or is_secret(data[".dockerconfigjson"])
        value = json.loads(base64.b64decode(str(unwrap(data[".dockerconfigjson"]))))
        assert value["auths"]["registry.site1.example:5000"]["password"] == PASSWORD
    plain = json.dumps([each.inputs for each in graph.resources if each not in made], default=str)
    assert base64.b64encode(f"puller:{PASSWORD}".encode()).decode() not in plain
    inputs = (str(unwrap(each.inputs.get("stdin", ""))) for each in graph.of_type("command:"))
    steps = {part.step for stdin in inputs for part in split_parts(stdin)}
    logins = {step for step in steps if step.endswith("-registry-login")}
    assert sorted(logins) == [f"{host}-registry-login" for host in ("gpu01", "gpu02", "mgmt01")]


def test_a_lock_that_cannot_be_read_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "Pulumi.yaml").write_text("name: railyard\n")
    (tmp_path / "lab").symlink_to(Path(__file__).parents[2] / "lab")
    (tmp_path / "site.yaml").write_text(yaml.safe_dump(dev_cluster()))
    (tmp_path / "site.lock.yaml").write_text("version: 2\n")
    secrets = "".join(f"  railyard:{name}: {{secure: v1:abc}}\n" for name in SECRETS)
    (tmp_path / "Pulumi.dev.yaml").write_text(f"config:\n  railyard:site: site.yaml\n{secrets}")
    run = dev_run()
    config = {key: value for key, value in run.config.items() if key != "cluster"}
    report, _ = record_refusal(replace(run, config={**config, "site": "site.yaml"}))
    assert "lock-file: site.lock.yaml is not a lock" in report
    assert "site.lock.yaml:1" in report
