"""A bundle, from the real registry and a web server into another registry and onto a plan."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from components.artefacts.gather import fetch_ahead
from components.artefacts.lock import read_lock
from components.artefacts.pin import Reach
from components.catalogue.upstream import K3S_SELINUX
from components.checks.site import load_checked_site
from components.core.errors import SpecError
from components.plan.make import make_plan
from tests.artefacts.registry_server import USER, Registry, registry
from tests.artefacts.upstream import (
    CHART,
    CHART_IMAGES,
    K3S,
    K3S_IMAGES,
    OURS,
    RELEASES,
    SCRIPT,
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
    monkeypatch.chdir(tmp_path)
    with upstream(tmp_path) as found:
        # From the bundle on, K3s' own images belong to what the site brings.
        found.site.write_text(found.site.read_text() + "  bundle: air\n")
        yield found


def made(up: Upstream, railyard: Call, folder: Path) -> None:
    done = railyard("pin", str(up.site))
    assert done.code == 0, done.out + done.err
    done = railyard("bundle", "make", str(up.site), str(folder), "--mirror")
    assert done.code == 0, done.out + done.err


def files_of(folder: Path) -> dict[str, tuple[int, int]]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {str(each.relative_to(folder)): _seen(each.stat()) for each in found}


def _seen(of: os.stat_result) -> tuple[int, int]:
    return of.st_size, of.st_mtime_ns


def test_a_bundle_has_everything_and_serves_a_site(
    up: Upstream, railyard: Call, tmp_path: Path
) -> None:
    air = tmp_path / "air"
    made(up, railyard, air)
    below = RELEASES.lstrip("/")
    assert (air / "files" / below / "k3s").read_bytes() == K3S
    assert (air / "files" / below / "k3s-airgap-images-amd64.tar.zst").read_bytes() == K3S_IMAGES
    assert (air / "charts" / "gpu-operator-v26.3.3.tgz").read_bytes() == CHART
    listed = json.loads((air / "images" / "index.json").read_text())["manifests"]
    assert {each["digest"] for each in listed} == set(up.digests.values())
    assert len(listed) == len(SITE_IMAGES) + len(CHART_IMAGES)
    checked = load_checked_site(up.site)
    assert checked.problems == ()
    plan = make_plan(checked.spec_or_raise(), "dev", checked.lock)
    steps = [step.name for step in plan.steps]
    for host in ("mgmt01", "gpu01", "gpu02"):
        assert steps.index(f"{host}-tools") < steps.index(f"{host}-files")
        assert steps.index(f"{host}-files") < steps.index(f"{host}-host")
    sent = next(step.desired for step in plan.steps if step.name == "gpu01-files")
    for body in (K3S, K3S_IMAGES, SCRIPT):
        assert sha256(body) in sent
    up.web.files.clear()  # from here on there is no network
    fetch_ahead(Reach(checked.spec_or_raise(), {}), checked.lock)
    for body in (K3S, K3S_IMAGES, SCRIPT):
        assert (tmp_path / ".railyard" / "files" / sha256(body)).read_bytes() == body
    assert (tmp_path / plan.operators.charts[0].chart).read_bytes() == CHART


def test_the_selinux_policy_of_the_file_is_pinned_bundled_and_sent(
    up: Upstream, railyard: Call, tmp_path: Path
) -> None:
    rpm = b"an RPM package"
    up.web.files[K3S_SELINUX.removeprefix("https:/")] = rpm
    line = f"kubernetes:\n  source: {{selinux_policy: '{K3S_SELINUX}'}}\n"
    up.site.write_text(up.site.read_text().replace("kubernetes:\n", line, 1))
    made(up, railyard, tmp_path / "air")
    checked = load_checked_site(up.site)
    (entry,) = (each for each in checked.lock.entries.values() if each.name == "k3s-selinux")
    assert (entry.sha256, entry.version) == (sha256(rpm), "1.6-1.el9.noarch")
    folder = tmp_path / "air/files" / K3S_SELINUX.removeprefix("https://")
    assert folder.read_bytes() == rpm
    plan = make_plan(checked.spec_or_raise(), "dev", checked.lock)
    steps = {step.name: step.desired for step in plan.steps}
    assert sha256(rpm) in steps["gpu01-files"]
    place = f"/var/lib/railyard/files/{sha256(rpm)}/k3s-selinux-1.6-1.el9.noarch.rpm"
    for name in ("gpu01-k3s", "mgmt01-k3s"):
        assert f"selinux_policy={place}\nselinux_policy_sha256={sha256(rpm)}\n" in steps[name]


def test_a_second_run_fetches_nothing_and_a_cut_one_goes_on(
    up: Upstream, railyard: Call, tmp_path: Path
) -> None:
    air = tmp_path / "air"
    made(up, railyard, air)
    before, asked = files_of(air), len(up.web.asked)
    assert railyard("bundle", str(up.site), str(air), "--mirror").code == 0
    assert len(up.web.asked) == asked
    blobs = {name: seen for name, seen in files_of(air).items() if "blobs" in name}
    layers = {name for name, (size, _) in blobs.items() if size > 1000}
    assert layers
    assert all(blobs[name] == before[name] for name in layers)
    (air / min(layers)).unlink()
    (problem,) = load_checked_site(up.site).problems[:1]
    assert problem.rule == "bundle"
    assert "lacks sha256:" in problem.what
    assert railyard("bundle", str(up.site), str(air), "--mirror").code == 0
    assert load_checked_site(up.site).problems == ()


@pytest.mark.parametrize("fault", ["altered", "gone", "not listed"])
def test_a_broken_bundle_is_refused_by_name(
    up: Upstream, railyard: Call, tmp_path: Path, fault: str
) -> None:
    air = tmp_path / "air"
    made(up, railyard, air)
    chart, index = air / "charts" / "gpu-operator-v26.3.3.tgz", air / "bundle.json"
    if fault == "altered":
        chart.write_bytes(CHART + b"x")
    elif fault == "gone":
        chart.unlink()
    else:
        read = json.loads(index.read_text())
        read["artefacts"] = [each for each in read["artefacts"] if each["name"] != "gpu-operator"]
        index.write_text(json.dumps(read))
    problems = load_checked_site(up.site).problems
    assert [(each.rule, each.severity) for each in problems] == [("bundle", "error")]
    assert "gpu-operator" in problems[0].what
    spec = load_checked_site(up.site).spec
    assert spec is None


def test_a_file_that_is_not_what_the_lock_says_stops_an_update(
    up: Upstream, railyard: Call, tmp_path: Path
) -> None:
    made(up, railyard, tmp_path / "air")
    checked = load_checked_site(up.site)
    place = tmp_path / "air" / "files" / RELEASES.lstrip("/") / "k3s"
    place.write_bytes(b"another k3s")
    with pytest.raises(SpecError, match="has k3s with the checksum") as refused:
        fetch_ahead(Reach(checked.spec_or_raise(), {}), read_lock(up.site)[0])
    assert "Nothing was touched" in str(refused.value)
    assert not (tmp_path / ".railyard" / "files" / sha256(K3S)).exists()


@pytest.fixture(name="far")
def _far(tmp_path: Path) -> Iterator[Registry]:
    with registry(tmp_path / "far", OURS) as found:
        yield found


def test_images_are_pushed_once_and_keep_their_digests(
    up: Upstream, railyard: Call, tmp_path: Path, far: Registry
) -> None:
    made(up, railyard, tmp_path / "air")
    (tmp_path / "ca.pem").write_text(OURS.pem)
    call = ("bundle", "push", str(tmp_path / "air"), f"{far.host}/rack1")
    call += ("--ca", str(tmp_path / "ca.pem"))
    done = railyard(*call)
    assert done.code == 4
    assert "401" in done.err
    done = railyard(*call, "--user", USER)
    assert done.code == 0, done.out + done.err
    for name, digest in up.digests.items():
        repository, _, tag = name.rpartition(":")
        # The lock has upstream's names: of the jobs' image that is its own registry.
        status, headers, _ = far.call("GET", f"/v2/rack1/{repository}/manifests/{tag}")
        assert (status, headers["docker-content-digest"]) == (200, digest), name
    again = railyard(*call, "--user", USER)
    assert again.code == 0
    assert "0 layers were sent" in again.out
