"""The plan of the payload: steps, order, what is on which channel."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from components.containers.container_plan import (
    build_digest,
    container_flags,
    dockerfile_text,
    plan_payload,
)
from components.core.to_json import to_json
from components.model.cluster import ClusterSpec
from components.model.jobs import Containers, ImageBuild, RegistryLogin
from components.model.units import SecretRef
from components.reading.load import load_site
from tests.containers.site import STACK, load_plan, load_spec

ROOT = Path(__file__).parents[2]


def build_of(spec: ClusterSpec) -> ImageBuild:
    assert spec.containers is not None
    assert spec.containers.build is not None
    return spec.containers.build


def test_a_site_with_kubernetes_has_no_payload() -> None:
    spec = load_site(ROOT / "examples" / "dgx-roce" / "site.yaml").spec
    assert spec is not None
    assert plan_payload(spec) is None


def test_steps_of_all_workers_in_order() -> None:
    names = [step.name for step in load_plan().steps]
    stores = [
        f"vm0{n}-{work}" for n in range(1, 5) for work in ("payload-keys", "registry-password")
    ]
    build = ["vm01-base-registry-password", "vm01-image"]
    assert names == [*stores, *build, *(f"vm0{n}-container" for n in range(1, 5))]


def test_without_build_and_login_there_is_less() -> None:
    plan = load_plan(build=None, login=None)
    assert plan.image is None
    assert [step.name for step in plan.hosts[0].stores] == ["vm01-payload-keys"]
    assert "registry=" not in plan.hosts[0].container.desired
    assert "container.build" not in plan.watched[0].desired.values


def test_the_base_images_registry_has_a_password_of_its_own() -> None:
    login = RegistryLogin(user="$oauthtoken", password=SecretRef(secret="ngc_api_key"))
    plan = load_plan(build=build_of(load_spec()).model_copy(update={"login": login}))
    assert [step.name for step in plan.build] == ["vm01-base-registry-password", "vm01-image"]
    assert plan.base_login is not None
    assert plan.base_login.secret_stdin == "ngc_api_key"
    assert plan.image is not None
    assert "base_registry=nvcr.io\nbase_registry_user=$oauthtoken\n" in plan.image.desired


def test_secrets_have_steps_of_their_own_and_are_only_names() -> None:
    plan = load_plan()
    secrets = {step.secret_stdin for step in plan.steps if step.secret_stdin}
    assert secrets == {"payload_keys", "registry_password", "ngc_api_key"}
    assert all(step.desired == "" for step in plan.steps if step.secret_stdin)
    assert "PRIVATE KEY" not in json.dumps(to_json(plan))


def test_every_step_can_be_taken_back() -> None:
    assert all(step.undo for step in load_plan().steps)


def test_what_is_watched_is_what_the_step_wants() -> None:
    for watched in load_plan().watched:
        assert watched.settings_in(watched.step.desired) == watched.desired
        assert watched.settings_in(f"{watched.step.desired}repair=1: x\n") == watched.desired


def test_flags_are_the_guides_and_it_comes_back_after_a_reboot() -> None:
    containers = Containers(image="registry.example.com/a:1", shm_size_gib=8, name="train")
    assert container_flags(containers) == (
        "--gpus=all --net=host --uts=host --ipc=host --ulimit stack=67108864 --ulimit memlock=-1"
        " --ulimit nofile=1048576"
        " --shm-size=8g --name=train --device=/dev/infiniband -v ~/.ssh/ssh_container:/root/.ssh"
        " --restart=unless-stopped"
    )


@pytest.mark.parametrize(
    ("image", "registry"),
    [
        ("registry.example.com/a/b:1", "registry.example.com"),
        ("localhost:5000/b:1", "localhost:5000"),
        ("team/b:1", "docker.io"),
        ("b:1", "docker.io"),
    ],
)
def test_the_registry_of_an_image(image: str, registry: str) -> None:
    login = RegistryLogin(user="me", password=SecretRef(secret="registry_password"))
    step = load_plan(image=image, login=login).hosts[0].container
    assert f"\nregistry={registry}\nregistry_user=me\n" in step.desired


def test_a_build_is_known_by_all_that_goes_into_it() -> None:
    build = build_of(load_spec())
    assert build_digest(build) == build_digest(build.model_copy())
    for change in ({"base": "b:1"}, {"mofed_version": "6"}, {"os_version": "ubuntu22.04"}):
        assert build_digest(build.model_copy(update=change)) != build_digest(build)


def test_the_dockerfile_pins_what_it_downloads_and_repeats_no_fault_of_the_guide() -> None:
    text = dockerfile_text()
    assert "http://" not in text
    assert "sha256sum --check --strict" in text
    assert "git clone" not in text, "a clone of a branch is another source tomorrow"
    assert "openssh-server" not in text
    assert "DEBIAN_FRONTEND=noninteractive\n" in text
    assert "--user-space-only --without-fw-update" in text


def test_ports_and_addresses_of_a_site_reach_the_ssh_files() -> None:
    first, second = load_plan(ssh_port=2200).watched[:2]
    (peers,) = second.step.reads
    assert (peers,) == first.step.reads
    lines = peers.text.splitlines()
    assert [line for line in lines if line.startswith("container_config ")][:6] == [
        "container_config Host vm01 192.168.4.11",
        "container_config   HostName 192.168.4.11",
        "container_config   HostKeyAlias vm01",
        "container_config   BindAddress @own@",
        "container_config   Port 2200",
        "container_config   User nvidia",
    ]
    assert any(line.startswith("known_hosts vm01 ssh-ed25519 AAAA") for line in lines)
    options = 'restrict,from="192.168.4.11,192.168.4.12,192.168.4.13,192.168.4.14"'
    assert f"authorized_keys.host {options}" in lines
    desired = second.desired.values
    assert desired["container_config.bind"] == "192.168.4.12"
    found = hashlib.sha256(f"{options}\n".encode()).hexdigest()[:16]
    assert desired["authorized_keys.host.digest"] == found
    assert not any("StrictHostKeyChecking no" in line for line in lines)


def test_a_step_is_small_and_of_the_same_size_in_a_larger_site() -> None:
    """The list of all workers is sent once; inputs and outputs are twice as much."""
    sizes: list[list[int]] = []
    for count in (4, 40):
        spec = load_spec()
        first = spec.workers[0]
        more = tuple(
            first.model_copy(update={"name": f"vm{number:02}", "node_ip": f"10.0.0.{number}"})
            for number in range(1, count + 1)
        )
        plan = plan_payload(spec.model_copy(update={"hosts": more}), STACK)
        assert plan is not None
        sizes.append([len(step.desired) for step in plan.steps if not step.secret_stdin][:2])
    assert sizes[0] == sizes[1]
    assert max(sizes[0]) <= 2_000
