"""What this machine asks itself: chart repositories, and an existing cluster's API."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import cast

import pytest
import yaml

from components.artefacts import listing
from components.artefacts.lock import Lock
from components.artefacts.pin import Reach
from components.checks.site_files import refused_unpinned
from components.core.problem import Finding
from components.drift.applied import Applied
from components.model.cluster import ClusterSpec
from components.model.sources import Mirror, Sources
from components.model.worker_kinds import with_instances
from components.plan.make import make_plan
from components.preflight.artefacts import artefacts_of, fetched_here, look_at_store, look_here
from components.preflight.cluster import look_at_cluster
from tests.acceptance.stores import KEY, spec_of
from tests.golden.site import EXAMPLES, load_example
from tests.graph.locked import lock_of
from tests.preflight.played import PLAYED
from tests.preflight.served import Answer, serve

ARCHIVE = b"a chart"
DIGEST = hashlib.sha256(ARCHIVE).hexdigest()
ENTRY = {"version": "v26.3.3", "urls": ["gpu-operator.tgz"], "digest": DIGEST}
INDEX = yaml.safe_dump({"entries": {"gpu-operator": [ENTRY]}}).encode()
READY = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
ITEMS = {"/api/v1/nodes": ("node03", "node04"), "/api/v1/namespaces": ("default",)}
FILES = {"/nvidia/index.yaml": Answer(body=INDEX), "/nvidia/gpu-operator.tgz": Answer(body=ARCHIVE)}


def site(**chart: str) -> ClusterSpec:
    """The example with another chart of the GPU operator."""
    document = yaml.safe_load((EXAMPLES / "dgx-roce" / "site.yaml").read_text())
    document["operators"] = {"gpu": {"driver": "host", "chart": {"version": "v26.3.3", **chart}}}
    return ClusterSpec.model_validate(document)


def look(spec: ClusterSpec, folder: Path, digest: str = "") -> tuple[Finding, ...]:
    """The look at its chart, with a lock of that digest."""
    reach = Reach(spec, {})
    (chart,) = fetched_here(reach)
    lock = lock_of(spec)
    if digest:
        entry = lock.entries["chart", chart.name].model_copy(update={"sha256": digest})
        lock = Lock({entry.key: entry}, exists=True)
    return look_here(reach, chart, lock, folder)


def test_a_chart_as_the_lock_has_it_is_good_and_another_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve(FILES, tmp_path) as served:
        monkeypatch.setenv("SSL_CERT_FILE", str(served.authority))
        repo = f"{served.address}/nvidia"
        named = {"repo": repo, "chart": "gpu-operator"}
        assert look(site(**named), tmp_path, DIGEST) == ()
        (changed,) = look(site(**named), tmp_path, "1" * 64)
        assert (changed.rule, changed.actual, changed.wanted) == ("chart-gpu", DIGEST, "1" * 64)
        (old,) = look(site(**named | {"version": "v25.1.0"}), tmp_path)
        assert "lacks the release v25.1.0; the newest are v26.3.3" in old.actual
        (other,) = look(site(repo=repo, chart="gpu-operater"), tmp_path)
        assert "it lacks the chart gpu-operater" in other.actual
        (gone,) = look(site(repo=f"{served.address}/none", chart="gpu-operator"), tmp_path)
        assert "404" in gone.actual


def test_the_tag_of_an_image_is_said_once(tmp_path: Path) -> None:
    with serve({}, tmp_path, tls=False) as served:
        image = f"{served.address.removeprefix('http://')}/nccl:1"
        (jobs,) = (each for each in listing.artefacts_of(site()) if each.path == ("jobs", "image"))
        asked = replace(jobs, name=image, address=image, version="1")
        (found,) = look_here(Reach(site(), {}), asked, lock_of(site()), tmp_path)
    assert found.what == f"{image} cannot be fetched from this machine."


def test_another_authority_is_told_as_one(tmp_path: Path) -> None:
    with serve(FILES, tmp_path) as served:
        (found,) = look(site(repo=f"{served.address}/nvidia", chart="gpu-operator"), tmp_path)
    assert "its certificate is not trusted" in found.actual
    assert "give the certificate that signed it" in found.fix


def test_a_proxy_that_refuses_is_told_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve({}, tmp_path, tls=False) as proxy:
        monkeypatch.setenv("https_proxy", proxy.address)
        (found,) = look(site(repo="https://192.0.2.1/nvidia", chart="gpu-operator"), tmp_path)
    assert "403" in found.actual
    assert "the proxy refuses it" in found.actual


def test_a_path_of_the_project_is_looked_at(tmp_path: Path) -> None:
    spec = site(chart="charts/gpu-operator")
    (found,) = look(spec, tmp_path)
    assert found.actual == "absent"
    (tmp_path / "charts" / "gpu-operator").mkdir(parents=True)
    assert look(spec, tmp_path) == ()


def test_files_that_are_sent_are_asked_for_here_and_not_by_hosts(tmp_path: Path) -> None:
    with serve({}, tmp_path) as served:
        mirror = Mirror(url=served.address, ca=served.authority.read_text())
        spec = site().model_copy(update={"sources": Sources(mirror=mirror)})
        reach, lock = Reach(spec, {}), lock_of(spec)
        found = [each for a in fetched_here(reach) for each in look_here(reach, a, lock, tmp_path)]
    causes = {each.rule: each.actual for each in found}
    assert set(causes) == {"artefact-k3s", "artefact-k3s-install-script", "chart-gpu"}
    assert f"{served.address}/github.com/k3s-io/k3s/" in causes["artefact-k3s"]
    assert [each for each in artefacts_of(spec, lock) if each.kind == "file"] == []


def test_a_file_that_is_sent_is_compared_with_the_lock(tmp_path: Path) -> None:
    script = "/raw.githubusercontent.com/k3s-io/k3s/v1.36.3%2Bk3s1/install.sh"
    with serve({script: Answer(body=b"#!/bin/sh\n")}, tmp_path) as served:
        mirror = Mirror(url=served.address, ca=served.authority.read_text())
        spec = site().model_copy(update={"sources": Sources(mirror=mirror)})
        reach, lock = Reach(spec, {}), lock_of(spec)
        (asked,) = (each for each in fetched_here(reach) if each.name == "k3s-install-script")
        (found,) = look_here(reach, asked, lock, tmp_path)
        entry = lock.entries["file", asked.name]
        assert found.rule == "artefact-k3s-install-script"
        assert found.actual == hashlib.sha256(b"#!/bin/sh\n").hexdigest()
        assert found.wanted == entry.sha256
        assert "railyard pin SITE --update k3s-install-script" in found.fix
        right = entry.model_copy(update={"sha256": found.actual})
        assert look_here(reach, asked, Lock({right.key: right}, exists=True), tmp_path) == ()
        assert look_here(reach, asked, Lock(), tmp_path) == ()


def test_hosts_that_the_update_makes_are_not_asked_so_this_machine_is() -> None:
    made = with_instances(load_example("crusoe-k3s"))
    kinds = {each.kind for each in fetched_here(Reach(made, {}))}
    assert kinds == {"chart", "file", "image"}
    assert {each.kind for each in fetched_here(Reach(load_example("dgx-roce"), {}))} == {"chart"}


def test_images_of_charts_are_asked_for_by_the_digests_of_the_lock() -> None:
    spec = load_example("dgx-roce")
    image, digest = "nvcr.io/nvidia/k8s-device-plugin:v0.19.3", "ab" * 32
    lock = lock_of(spec)
    entries = dict(lock.entries)
    chart = entries["chart", "gpu-operator"]
    entries[chart.key] = chart.model_copy(update={"images": {"devicePlugin#image": image}})
    known = chart.model_copy(
        update={"name": image, "kind": "image", "address": image, "sha256": digest}
    )
    entries[known.key] = known
    asked = {each.name: each for each in artefacts_of(spec, Lock(entries, exists=True))}
    found = asked["image-gpu-operator-devicePlugin"]
    assert found.manifest == (
        f"https://nvcr.io/v2/nvidia/k8s-device-plugin/manifests/sha256:{digest}"
    )


def test_the_lab_goes_without_digests_for_images_alone() -> None:
    spec = load_example("dgx-roce")
    real = refused_unpinned(spec, Lock(), lab=False).artefacts
    lab = refused_unpinned(spec, Lock(), lab=True).artefacts
    assert {each.kind for each in real} == {"file", "chart", "image"}
    assert [each.name for each in lab] == ["k3s", "k3s-install-script", "gpu-operator"]
    with_lock = refused_unpinned(spec, Lock(exists=True), lab=True).artefacts
    assert with_lock == real


def test_everything_that_a_site_brings_is_listed_once() -> None:
    for name in ("dgx-roce", "esxi-roce", "shared-rdma", "crusoe-k3s", "mixed-nodes"):
        spec = load_example(name)
        names = [each.name for each in artefacts_of(spec, lock_of(spec))]
        assert len(names) == len(set(names))
        assert not [each for each in names if " " in each]
    spec = load_example("dgx-roce")
    named = {each.name: each for each in artefacts_of(spec, lock_of(spec))}
    assert named["k3s"].hosts == ("mgmt01", "gpu01", "gpu02")
    assert named["image-jobs"].manifest.startswith("http://192.168.100.10:5000/v2/nccl-roce-test/")
    assert named["image-multus"].manifest.startswith(
        "https://ghcr.io/v2/k8snetworkplumbingwg/multus-cni/manifests/sha256:"
    )


def test_without_a_lock_a_file_is_asked_for_without_its_checksum() -> None:
    named = {each.name: each for each in artefacts_of(load_example("dgx-roce"), Lock())}
    assert named["k3s"].sha256 == ""


class _Api(BaseHTTPRequestHandler):
    """As much of an API server as preflight asks: /version, lists, reviews and a dry run."""

    def do_GET(self) -> None:
        version = cast("_ApiServer", self.server).version
        path = self.path.partition("?")[0]
        if path != "/version":
            items = [{"metadata": {"name": name}, **READY} for name in ITEMS.get(path, ())]
            self._send(200, {"items": items, "resources": []})
            return
        self._send(200, {"major": "1", "minor": "36", "gitVersion": version, "gitCommit": "",
                         "gitTreeState": "", "buildDate": "", "goVersion": "", "compiler": "",
                         "platform": ""})  # fmt: skip

    def do_POST(self) -> None:
        server = cast("_ApiServer", self.server)
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if body["kind"] == "Pod":
            self._send(201, body)
            return
        asked = body["spec"]["resourceAttributes"]
        server.asked.append((asked["verb"], asked["resource"], asked.get("namespace", "")))
        allowed = asked["resource"] not in server.denied
        self._send(201, {**body, "status": {"allowed": allowed}})

    def _send(self, status: int, body: object) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        del format, args


class _ApiServer(ThreadingHTTPServer):
    version: str
    denied: frozenset[str]
    asked: list[tuple[str, str, str]]


def ask_api(version: str, denied: frozenset[str]) -> tuple[tuple[Finding, ...], list[object]]:
    """Look at a cluster that plays these answers."""
    spec = existing()
    plan = make_plan(spec, "x")
    server = _ApiServer(("127.0.0.1", 0), _Api)
    server.version, server.denied, server.asked = version, denied, []
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        text = kubeconfig(f"http://127.0.0.1:{server.server_address[1]}")
        found = tuple(look_at_cluster(spec, plan, Applied(), {"kubeconfig": text}))
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    return found, [*server.asked]


def existing() -> ClusterSpec:
    document = yaml.safe_load((EXAMPLES / "shared-rdma" / "existing.yaml").read_text())
    return ClusterSpec.model_validate(document)


def kubeconfig(server: str) -> str:
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": server}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
    )


def test_a_cluster_that_lets_us_is_good_and_is_asked_for_each_right() -> None:
    found, asked = ask_api("v1.36.3", frozenset())
    assert found == ()
    for right in (
        ("create", "daemonsets", "kube-system"),
        ("patch", "nodes", ""),
        ("escalate", "clusterroles", ""),
        ("bind", "clusterroles", ""),
        ("create", "mpijobs", "default"),
        ("create", "pods", ""),
    ):
        assert right in asked


def test_rights_that_are_missing_are_named_together() -> None:
    found, _ = ask_api("v1.36.3", frozenset({"customresourcedefinitions", "clusterroles"}))
    (one,) = found
    assert one.actual.startswith(
        "may not get, list, watch, create, patch, delete, update customresourcedefinitions; "
    )
    assert one.actual.endswith("update, escalate, bind clusterroles")
    assert one.fix.startswith("railyard rbac SITE")
    assert one.severity == "error"


def test_another_version_is_named_and_no_right_is_asked() -> None:
    found, asked = ask_api("v1.31.0", frozenset())
    (one,) = found
    assert "runs Kubernetes v1.31.0" in one.actual
    assert asked == []


def test_an_api_that_does_not_answer_is_unreachable() -> None:
    spec = existing()
    text = kubeconfig("http://127.0.0.1:1")
    (found,) = look_at_cluster(spec, make_plan(spec, "x"), Applied(), {"kubeconfig": text})
    assert (found.rule, found.severity) == ("api", "unreachable")


def test_this_is_the_cause_that_is_played_here(tmp_path: Path) -> None:
    (found,) = look(site(chart="charts/gpu-operator"), tmp_path)
    assert {found.rule} == PLAYED["tests/preflight/test_here.py"]


def test_the_evidence_store_is_listed_and_never_written(tmp_path: Path) -> None:
    spec, secrets = spec_of(str(tmp_path / "proofs")), {"evidence_key": KEY.secret}
    assert look_at_store(None, "dev", {}) == look_at_store(spec, "dev", {}) == ()
    (gone,) = look_at_store(spec, "dev", secrets)
    assert gone.actual == "evidence_store: No such file or directory."
    assert [*tmp_path.iterdir()] == []
    (tmp_path / "proofs").mkdir()
    assert look_at_store(spec, "dev", secrets) == ()
    assert [*tmp_path.rglob("*")] == [tmp_path / "proofs"]
    login = {"user": "ci", "password": {"secret": "store_password"}}
    with_login = spec_of("s3://proofs", endpoint="https://127.0.0.1:9", login=login)
    (found,) = look_at_store(with_login, "dev", {**secrets, "store_password": "x"})
    assert (found.rule, found.what) == ("evidence-store", "acceptance cannot share its evidence.")
    assert found.actual == "evidence_store: it cannot be reached: [Errno 111] Connection refused."
    assert found.wanted == "a list of the runs in s3://proofs"
    assert found.fix.startswith("see that this machine reaches it")
    (missing,) = look_at_store(with_login, "dev", secrets)
    assert missing.actual == "evidence_store: the secret store_password is not set."
