"""A registry of the site's own: every name, every node, every pod, and the password nowhere."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
import yaml

from components.core.to_json import to_json
from components.kubernetes.manifest import RegistryAccount, login_value
from components.kubernetes.planes.node_files import render_registries, script_text
from components.model.cluster import ClusterSpec
from components.model.jobs import RegistryLogin
from components.model.sources import Registry, Sources
from components.model.units import SecretRef
from components.model.worker_kinds import with_instances
from components.plan.make import ClusterPlan, make_plan
from tests.artefacts.certificates import Authority
from tests.golden.site import changed_spec, load_example

CLUSTERS = ("dgx-roce", "shared-rdma", "quantum-ib", "crusoe-k3s", "mixed-fabric")
ADDRESS = "registry.site1.example:5000/railyard"


def registry(*, login: bool = True, **more: object) -> Registry:
    given = RegistryLogin(user="puller", password=SecretRef(secret="registry_password"))
    return Registry(address=ADDRESS, login=given if login else None).model_copy(update=more)


def site(name: str, wanted: Registry) -> ClusterSpec:
    return with_instances(changed_spec(load_example(name), sources=Sources(registry=wanted)))


def walk(value: object, path: str = "") -> Iterator[tuple[str, dict[str, object]]]:
    if isinstance(value, dict):
        yield path, cast("dict[str, object]", value)
        for key, item in value.items():  # pyright: ignore[reportUnknownVariableType] - the same
            yield from walk(item, f"{path}.{key}")  # pyright: ignore[reportUnknownArgumentType] - the same
    elif isinstance(value, list):
        for item in value:  # pyright: ignore[reportUnknownVariableType] - the same
            yield from walk(item, path)  # pyright: ignore[reportUnknownArgumentType] - the same


def parts_of(plan: ClusterPlan) -> Iterator[tuple[str, dict[str, object]]]:
    for room in (plan.pod_network, plan.jobs, plan.acceptance, plan.operators):
        yield from walk(to_json(room))
    for manifest in plan.jobs.manifests:
        text = manifest.body.get("data")
        if isinstance(text, dict) and "job.yaml" in text:
            yield from walk(yaml.safe_load(str(text["job.yaml"])))


@pytest.mark.parametrize("name", CLUSTERS)
def test_every_image_of_every_pod_comes_from_the_registry(name: str) -> None:
    images = [
        (path, part["image"])
        for path, part in parts_of(make_plan(site(name, registry()), "dev"))
        if isinstance(part.get("image"), str) and "repository" not in part
    ]
    assert len(images) >= 5
    assert [each for each in images if not str(each[1]).startswith(f"{ADDRESS}/")] == []


@pytest.mark.parametrize("name", CLUSTERS)
@pytest.mark.parametrize("login", [True, False])
def test_every_pod_has_the_login_in_its_namespace(name: str, *, login: bool) -> None:
    plan = make_plan(site(name, registry(login=login)), "dev")
    pods = [part for _, part in parts_of(plan) if isinstance(part.get("containers"), list)]
    assert pods
    for pod in pods:
        assert (pod.get("imagePullSecrets") == [{"name": "railyard-registry"}]) is login
    manifests = (*plan.operators.manifests, *plan.pod_network.manifests, *plan.jobs.manifests)
    made = [cast("dict[str, str]", m.body["metadata"]) for m in manifests if m.kind == "Secret"]
    secrets = {metadata["namespace"] for metadata in made}
    charts = {chart.namespace for chart in plan.operators.charts}
    daemons = {"kube-system"} if plan.pod_network.manifests else set[str]()
    wanted = {*charts, *daemons, "mpi-operator", "default"}
    assert secrets == (wanted if login else set())


def test_nodes_pull_what_charts_name_from_the_registry_too() -> None:
    spec = site("dgx-roce", registry(ca=Authority("x").pem))
    found = yaml.safe_load(render_registries(spec))
    host = "registry.site1.example:5000"
    assert found["configs"] == {
        host: {
            "auth": {"username": "puller", "password": "@registry-password@"},
            "tls": {"ca_file": "/etc/rancher/k3s/registry-ca.crt"},
        }
    }
    assert found["mirrors"]["nvcr.io"] == {
        "endpoint": [f"https://{host}"],
        "rewrite": {"^(.*)$": "railyard/nvcr.io/$1"},
    }
    assert found["mirrors"]["docker.io"]["rewrite"] == {"^(.*)$": "railyard/docker.io/$1"}
    plan = make_plan(spec, "dev")
    assert plan.kubernetes is not None
    lines = plan.kubernetes.agents[0].desired
    assert "disable-default-registry-endpoint: true" in lines
    assert "registry-ca.crt.01=-----BEGIN CERTIFICATE-----" in lines


def test_plain_http_is_only_where_the_site_says_so() -> None:
    text = render_registries(site("dgx-roce", registry(login=False)))
    assert "http://registry" not in text
    insecure = render_registries(site("dgx-roce", registry(login=False, insecure=True)))
    assert "https://" not in insecure


def test_each_node_gets_the_password_before_its_install() -> None:
    plan = make_plan(site("dgx-roce", registry()), "dev").kubernetes
    assert plan is not None
    order = [step.name for step in plan.steps]
    for host in ("mgmt01", "gpu01", "gpu02"):
        assert order.index(f"{host}-registry-login") < order.index(f"{host}-k3s")
    logins = [step for step in plan.steps if step.name.endswith("-registry-login")]
    assert {step.secret_stdin for step in logins} == {"registry_password"}


def test_the_value_of_the_secret_is_what_docker_keeps() -> None:
    text = base64.b64decode(login_value(RegistryAccount("r:5000", "ada", "x"), 'a"b:c'))
    entry = json.loads(text)["auths"]["r:5000"]
    assert base64.b64decode(entry["auth"]) == b'ada:a"b:c'
    assert (entry["username"], entry["password"]) == ("ada", 'a"b:c')


@pytest.mark.parametrize(
    "password", ["plain", 'a"b', "back\\slash", "$HOME & #1", "@registry-password@"]
)
def test_a_password_reads_back_as_the_mark_and_as_itself_in_yaml(
    password: str, tmp_path: Path
) -> None:
    (tmp_path / "password").write_text(f"{password}\n")
    functions = script_text("registry").replace(
        "/etc/rancher/k3s/registry-password", str(tmp_path / "password")
    )
    marked = render_registries(site("dgx-roce", registry()))

    def run(function: str, text: str) -> str:
        done = subprocess.run(
            ["sh", "-c", f"{functions}\n{function}"],
            input=text, capture_output=True, text=True, check=True, timeout=60,
        )  # fmt: skip
        return done.stdout

    written = run("with_password", marked)
    auth = yaml.safe_load(written)["configs"]["registry.site1.example:5000"]["auth"]
    assert auth["password"] == password
    assert run("without_password", written) == marked
    other = written.replace(json.dumps(password), '"of somebody"')
    assert '"another one"' in run("without_password", other)
    assert "of somebody" not in run("without_password", other)
