"""`railyard pin` against a web server with TLS and the real registry, with a login."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from components.checks.site import load_checked_site
from components.plan.make import make_plan
from tests.artefacts.registry_server import PASSWORD
from tests.artefacts.upstream import (
    CHART,
    CHART_IMAGES,
    CHARTS,
    K3S,
    PASSWORD_VARIABLE,
    RELEASES,
    SCRIPT,
    SCRIPT_PATH,
    SITE_IMAGES,
    Upstream,
    own_environment,
    sha256,
    upstream,
)
from tests.cli.conftest import Call, railyard

__all__ = ["railyard"]  # the fixture
pytestmark = pytest.mark.lab


@pytest.fixture(name="up")
def _up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Upstream]:
    own_environment(tmp_path, monkeypatch)
    with upstream(tmp_path) as found:
        yield found


def lock_of(up: Upstream) -> dict[str, dict[str, object]]:
    read = yaml.safe_load(up.site.with_name("site.lock.yaml").read_text())
    return {entry["name"]: entry for entry in read["artefacts"]}


def test_a_site_is_pinned_and_its_plan_has_the_digests(up: Upstream, railyard: Call) -> None:
    done = railyard("pin", str(up.site))
    assert (done.code, done.err) == (0, ""), done.out
    lock = lock_of(up)
    assert lock["k3s"]["sha256"] == sha256(K3S)
    assert lock["k3s"]["size"] == len(K3S)
    assert lock["k3s"]["address"] == (
        "https://github.com/k3s-io/k3s/releases/download/v1.36.3%2Bk3s1/k3s"
    )
    assert lock["k3s-install-script"]["sha256"] == sha256(SCRIPT)
    assert lock["gpu-operator"]["sha256"] == sha256(CHART)
    shown = {name.replace("docker.io/", "").replace("_5000", ":5000") for name in SITE_IMAGES}
    assert {name for name, entry in lock.items() if entry["kind"] == "image"} == {
        *shown,
        *CHART_IMAGES,
    }
    for name in CHART_IMAGES:
        assert f"sha256:{lock[name]['sha256']}" == up.digests[name]
    multus = up.digests[SITE_IMAGES[0]]
    checked = load_checked_site(up.site)
    assert (checked.problems, bool(checked.unpinned)) == ((), False)
    plan = make_plan(checked.spec_or_raise(), "dev", checked.lock)
    images = [image for each in plan.pod_network.manifests for image in each_image(each.body)]
    assert f"{up.images.host}/{SITE_IMAGES[0]}@{multus}" in images
    assert all(image.startswith(f"{up.images.host}/") and "@sha256:" in image for image in images)
    assert plan.kubernetes is not None
    step = plan.kubernetes.servers[0].desired
    assert f"binary_sha256={sha256(K3S)}" in step
    assert f"binary=/var/lib/railyard/files/{sha256(K3S)}/k3s\n" in step
    (chart,) = plan.operators.charts
    assert chart.chart == f".railyard/charts/gpu-operator-v26.3.3-{sha256(CHART)[:12]}.tgz"
    assert chart.repo is None
    values = yaml.safe_dump(chart.values)
    assert f"repository: {up.images.host}/nvcr.io/nvidia\n" in values
    assert f"repository: {up.images.host}/registry.k8s.io/nfd/node-feature-discovery" in values


def each_image(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():  # pyright: ignore[reportUnknownVariableType] - JSON
            if key == "image" and isinstance(item, str):
                yield item
            yield from each_image(item)  # pyright: ignore[reportUnknownArgumentType] - the same
    elif isinstance(value, list):
        for item in value:  # pyright: ignore[reportUnknownVariableType] - the same
            yield from each_image(item)  # pyright: ignore[reportUnknownArgumentType] - the same


def test_a_second_pin_changes_nothing(up: Upstream, railyard: Call) -> None:
    assert railyard("pin", str(up.site)).code == 0
    before = up.site.with_name("site.lock.yaml").read_bytes()
    done = railyard("pin", str(up.site))
    assert done.code == 0
    assert "0 pinned" in done.out
    assert up.site.with_name("site.lock.yaml").read_bytes() == before


def test_what_was_replaced_upstream_is_shown_and_not_taken(up: Upstream, railyard: Call) -> None:
    assert railyard("pin", str(up.site)).code == 0
    before = up.site.with_name("site.lock.yaml").read_bytes()
    up.web.files[SCRIPT_PATH] = b"#!/bin/sh\necho something else\n"
    name = SITE_IMAGES[0]
    moved = up.images.put_image(name, salt="moved")
    done = railyard("pin", str(up.site))
    assert done.code == 1
    assert f"serves {sha256(up.web.files[SCRIPT_PATH])} now" in done.out
    assert moved.removeprefix("sha256:") in done.out
    assert up.site.with_name("site.lock.yaml").read_bytes() == before
    done = railyard("pin", str(up.site), "--update", name, "--update", "k3s-install-script")
    assert done.code == 0, done.out
    assert f"sha256:{lock_of(up)[name]['sha256']}" == moved


def test_all_failures_are_named_at_once_and_nothing_is_written(
    up: Upstream, railyard: Call
) -> None:
    del up.web.files[SCRIPT_PATH]
    up.web.files[f"{CHARTS}/charts/gpu-operator-v26.3.3.tgz"] = CHART + b"more"
    up.web.files[f"{RELEASES}/sha256sum-amd64.txt"] = b"aa  k3s-arm64\n"
    status, _, _ = up.images.call(
        "DELETE", f"/v2/{SITE_IMAGES[4].partition(':')[0]}/manifests/{up.digests[SITE_IMAGES[4]]}"
    )
    assert status == 202
    done = railyard("pin", str(up.site))
    assert done.code == 4
    # Both for one cause: it is printed once, above what failed for it.
    assert done.out.count("the server answered 404") == 1
    assert f"\n  k3s-install-script: {up.web.address}{SCRIPT_PATH}\n" in done.out
    assert f"its checksum is {sha256(CHART + b'more')}, want {sha256(CHART)}" in done.out
    assert "the list lacks k3s" in done.out
    assert f"{up.images.host}/v2/docker.io/mpioperator/mpi-operator/manifests/0.8.2" in done.out
    assert "not written" in done.out
    assert not up.site.with_name("site.lock.yaml").exists()


def test_a_registry_wants_a_login(
    up: Upstream, railyard: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(PASSWORD_VARIABLE)
    done = railyard("pin", str(up.site))
    assert done.code == 2
    assert "the secret registry_password is needed" in done.err
    monkeypatch.setenv(PASSWORD_VARIABLE, "wrong-one")
    done = railyard("pin", str(up.site))
    assert done.code == 4
    assert "the server answered 401" in done.out
    assert "wrong-one" not in done.out + done.err
    assert not up.site.with_name("site.lock.yaml").exists()


def test_a_login_may_come_from_the_environment_of_who_pins(
    up: Upstream, railyard: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = up.site.read_text()
    assert "{secret: registry_password}" in text
    up.site.write_text(text.replace("{secret: registry_password}", "{env: REGISTRY_LOGIN}"))
    monkeypatch.delenv(PASSWORD_VARIABLE)
    done = railyard("pin", str(up.site))
    assert done.code == 2
    assert "the environment variable REGISTRY_LOGIN is not set" in done.err
    monkeypatch.setenv("REGISTRY_LOGIN", PASSWORD)
    assert railyard("pin", str(up.site)).code == 0
    assert up.site.with_name("site.lock.yaml").exists()


def test_a_checksum_of_the_site_is_compared_and_not_locked(up: Upstream, railyard: Call) -> None:
    text = up.site.read_text()
    token = "kubernetes:\n"
    assert token in text
    up.site.write_text(
        text.replace(token, f"{token}  source: {{install_script_sha256: {'ab' * 32}}}\n")
    )
    done = railyard("pin", str(up.site))
    assert done.code == 1
    assert f"its checksum is {sha256(SCRIPT)}, want {'ab' * 32}" in done.out


def test_an_image_without_a_part_for_the_hosts(up: Upstream, railyard: Call) -> None:
    up.images.put_image(SITE_IMAGES[0], ("arm64",))
    done = railyard("pin", str(up.site))
    assert done.code == 4
    assert "it lacks linux/amd64 and offers only arm64" in done.out
