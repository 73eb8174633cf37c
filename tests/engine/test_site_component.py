"""The component package `railyard` in YAML programs, with the real engine and YAML's own host."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from components.artefacts.lock import lock_path, write_lock
from components.checks.site import load_checked_site
from lab.cluster.artefact import checksums
from lab.engine.yaml_host import add_yaml_host, ensure_yaml_host
from lab.site import load_document, overlay
from tests.engine.runner import EngineRunner
from tests.golden.files import check_golden
from tests.golden.site import EXAMPLES
from tests.graph.locked import lock_of
from tests.over_ssh.switch_room import SwitchRoom, switch_room

ROOT: Final = Path(__file__).parents[2]
PROVIDER: Final = ROOT / "provider"
SITE: Final = EXAMPLES / "dgx-roce" / "site.yaml"
OUTPUTS: Final = ("cluster", "verdict", "kubeconfig", "endpoints")
PASSWORD: Final = "value-of-switch_password"


@cache
def described() -> dict[str, Any]:
    """The schema's resource, without versions.

    A process of its own makes it: the SDK's server has a copy of `google.rpc`, which cannot be
    loaded beside the one that the Kubernetes stand-in imports.
    """
    program = "from stacks.site_host import SiteProvider; print(SiteProvider().schema)"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)["resources"]


def test_the_schema_is_as_recorded_and_marks_what_is_secret() -> None:
    check_golden("component-schema.json", json.dumps(described(), indent=1) + "\n")
    site = described()["railyard:index:Site"]
    assert site["inputProperties"]["secrets"]["secret"] is True
    assert site["properties"]["kubeconfig"]["secret"] is True


@pytest.fixture(scope="module")
def yaml_engine(session_engine: EngineRunner) -> EngineRunner:
    """The engine with the host of YAML programs, built at first use."""
    add_yaml_host(session_engine.settings().home, ensure_yaml_host())
    return session_engine


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SwitchRoom]:
    with switch_room("onyx", tmp_path_factory.mktemp("switch")) as room:
        yield room


@dataclass(frozen=True)
class Program:
    """A YAML program with one `Site` and a resource of its own."""

    engine: EngineRunner
    folder: Path

    def write(self, **properties: object) -> None:
        document = {
            "name": self.folder.name,
            "runtime": "yaml",
            "packages": {"railyard": str(PROVIDER)},
            "config": {"switchPassword": {"type": "string", "secret": True}},
            "resources": {"train": {"type": "railyard:Site", "properties": properties}},
            "outputs": {name: f"${{train.{name}}}" for name in OUTPUTS},
        }
        (self.folder / "Pulumi.yaml").write_text(yaml.safe_dump(document, sort_keys=False))

    def write_site(self, document: Mapping[str, Any]) -> None:
        path = self.folder / "site.yaml"
        path.write_text(yaml.safe_dump(document, sort_keys=False))
        spec = load_checked_site(path).spec
        if spec is not None:
            write_lock(lock_path(path), lock_of(spec).entries)


def make_program(engine: EngineRunner, name: str) -> Program:
    folder = engine.project(name, "")
    (folder / "__main__.py").unlink()
    (folder / ".venv").symlink_to(ROOT / ".venv")
    (folder / "lab").symlink_to(ROOT / "lab")  # its K3s and charts are paths of the project
    program = Program(engine, folder)
    program.write()
    engine.configure(folder, "dev", {}, {"switchPassword": PASSWORD, "railyard:lab": "true"})
    return program


def of_room(room: SwitchRoom) -> dict[str, Any]:
    """The example with the address of the switch that listens here."""
    document: dict[str, Any] = {**overlay(load_document(SITE), "dev", checksums())}
    end = room.endpoint
    document["switches"][0]["ssh"] |= {
        "address": end.address,
        "port": end.port,
        "user": end.user,
        "host_key": end.host_key,
    }
    return document


@pytest.mark.engine
def test_the_engine_reads_the_schema(session_engine: EngineRunner) -> None:
    folder = session_engine.project("schema", "")
    done = session_engine.call(folder, "package", "get-schema", str(PROVIDER))
    assert done.returncode == 0, done.stderr
    read = json.loads(done.stdout)["resources"]["railyard:index:Site"]
    own = described()["railyard:index:Site"]
    assert read["requiredInputs"] == own["requiredInputs"] == ["site"]
    assert {*read["inputProperties"]} == {*own["inputProperties"]}
    assert [key for key, each in read["properties"].items() if each.get("secret")] == ["kubeconfig"]


@pytest.mark.engine
def test_a_yaml_program_sets_up_a_switch_and_gives_it_back(
    yaml_engine: EngineRunner, room: SwitchRoom
) -> None:
    program, first = make_program(yaml_engine, "site-in-yaml"), room.switch.snapshot()
    program.write_site(of_room(room))
    secrets = {"switch_password": room.lab.password}
    program.write(site="site.yaml", parts=["switches"], secrets=secrets)
    done = yaml_engine.up(program.folder)
    assert done.rc == 0, done.stderr + done.errors
    assert ("create", "train") in done.steps
    assert ("create", "leaf-01-apply") in done.steps
    outputs = yaml_engine.outputs(program.folder)
    assert outputs["verdict"] == outputs["kubeconfig"] == ""
    assert outputs["endpoints"]["leaf-01"] == room.endpoint.place
    state = yaml_engine.export(program.folder)
    assert room.lab.password not in json.dumps(state)
    urns = [each["urn"] for each in state["deployment"]["resources"]]
    assert any("railyard:index:Site$railyard:fabric:Fabric$command:" in urn for urn in urns)
    assert yaml_engine.up(program.folder).changes == {}
    gone = yaml_engine.destroy(program.folder)
    assert gone.rc == 0, gone.errors
    assert room.switch.snapshot() == first


@pytest.mark.engine
def test_the_example_previews_a_whole_site_with_its_secrets_hidden(
    yaml_engine: EngineRunner, room: SwitchRoom
) -> None:
    program = make_program(yaml_engine, "training")
    program.write_site(of_room(room))
    example = (EXAMPLES / "pulumi-program" / "Pulumi.yaml").read_text()
    assert "../../provider" in example
    here = example.replace("../../provider", str(PROVIDER)).replace("../dgx-roce/", "")
    (program.folder / "Pulumi.yaml").write_text(here)
    names = ("sshPrivateKey", "k3sToken", "k3sAgentToken")
    yaml_engine.configure(program.folder, "dev", {}, {name: f"value-of-{name}" for name in names})
    seen = yaml_engine.preview(program.folder, "dev", {"railyard:observe": "never"})
    assert seen.rc == 0, seen.stderr + seen.errors
    assert {("create", "train"), ("create", "acceptance-gate")} <= {*seen.steps}
    assert PASSWORD not in seen.stdout
    assert "value-of-" not in seen.stdout


@pytest.mark.engine
def test_a_wrong_site_is_one_report_without_a_traceback(
    yaml_engine: EngineRunner, room: SwitchRoom
) -> None:
    program = make_program(yaml_engine, "wrong-site-in-yaml")
    document = of_room(room)
    document["switches"][0]["ports"]["1/2"] = {"to": "gpu01/rail-1", "mtu_bytes": 1500}
    document["rails"][0]["vlan"] = 5000
    program.write_site(document)
    program.write(site="site.yaml")
    done = yaml_engine.preview(program.folder)
    both = done.stdout + done.stderr
    assert done.rc != 0
    assert "Traceback" not in both
    assert "stacks/" not in both
    assert done.errors.count("rails[0].vlan = 5000") == 1
    assert "where  site.yaml:" in done.errors
    assert "  fix    " in done.errors
    assert "Nothing was touched." in done.errors
