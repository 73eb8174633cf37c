"""`railyard watch`: what it prints and publishes, also if nothing answers."""

from __future__ import annotations

import os
import select
import socket
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from components.acceptance.evidence import Evidence
from components.acceptance.handover import AcceptRequest
from components.acceptance.report.archive import MOST_RUNS
from components.acceptance.report.publish import push_metrics
from components.core.errors import DeviceError
from components.kubernetes.client import KubernetesCalls, read_kubeconfig
from components.kubernetes.kubeconfig import POD_ACCESS, pod_access
from components.kubernetes.planes.base import ClusterRef
from components.update.audit import Audit
from tests.cli.conftest import Call
from tests.cli.test_audit import closed
from tests.lab_physics.site import Site, take_evidence
from tests.pushgateway import Gateway, pushgateway


@pytest.fixture
def gateway() -> Iterator[tuple[type[Gateway], str]]:
    with pushgateway() as made:
        yield made


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A site whose devices do not answer, in a folder of its own."""
    monkeypatch.setenv("RAILYARD_SECRET_SWITCH_PASSWORD", "p")
    monkeypatch.setenv("RAILYARD_SECRET_SSH_PRIVATE_KEY", "no key")
    monkeypatch.chdir(tmp_path)
    return closed(tmp_path)


def watched(site: Path, more: str) -> str:
    words = 'watch: {schedule: "0 3 * * *", image: "registry.example/railyard:0.1.0", secret: s'
    site.write_text(f"{site.read_text()}\n{words}, {more}}}\n")
    return str(site)


def test_nothing_answers_and_the_metrics_say_so(railyard: Call, site: Path) -> None:
    done = railyard("watch", str(site), "--metrics", "all.prom")
    assert done.code == 4
    assert "leaf-01      not read" in done.out
    text = Path("all.prom").read_text()
    assert 'railyard_device_read{site="dgx-roce",device="leaf-01"} 0' in text
    assert 'railyard_run_success{site="dgx-roce",part="audit"} 0' in text
    assert 'railyard_run_success{site="dgx-roce",part="accept"} 0' in text
    last = 'railyard_rail_last_proof_timestamp_seconds{site="dgx-roce",host="gpu01",rail="rail-0"}'
    assert f"{last} 0\n" in text
    assert Path("all.prom").stat().st_mode & 0o777 == 0o644
    assert [*Path(".railyard/site").glob("run-*/report.html")]


def test_a_chart_and_a_bundle_of_the_project_are_not_needed(railyard: Call, site: Path) -> None:
    """The pod has the site without its project; `check` still asks for both."""
    text = site.read_text().replace("chart: {version", "chart: {chart: ./charts/gpu, version")
    site.write_text(f"{text}sources: {{bundle: ./bundle}}\n")
    assert {"project-path"} == {
        line.partition(":")[0]
        for line in railyard("check", str(site)).out.splitlines()
        if "is not in the project" in line or "lacks bundle.json" in line
    }
    done = railyard("watch", str(site), "--no-accept")
    assert done.code == 4
    assert "leaf-01      not read" in done.out


def test_with_a_hyphen_only_metrics_are_printed(railyard: Call, site: Path) -> None:
    done = railyard("watch", str(site), "--no-accept", "--metrics", "-")
    assert done.out.startswith("# HELP railyard_run_timestamp_seconds ")
    assert 'part="accept"' not in done.out
    assert not Path("-").exists()


def test_a_pushgateway_gets_the_metrics_of_this_site_whole(
    railyard: Call, site: Path, gateway: tuple[type[Gateway], str]
) -> None:
    got, address = gateway
    railyard("watch", watched(site, f"accept: false, push: '{address}/'"))
    assert got.got is not None
    method, path, text = got.got
    assert (method, path) == ("PUT", "/metrics/job/railyard/site/dgx-roce")
    assert text.endswith("\n")
    assert "railyard_run_success" in text


def test_a_refusal_of_the_pushgateway_is_named(
    railyard: Call, site: Path, gateway: tuple[type[Gateway], str]
) -> None:
    got, address = gateway
    got.status = 400
    done = railyard("watch", watched(site, f"accept: false, push: '{address}'"))
    assert f"the Pushgateway {address} refused the metrics: 400 text format" in done.err
    assert done.code == 4


def test_a_silent_pushgateway_and_a_missing_folder_are_named_together(
    railyard: Call, site: Path
) -> None:
    more = "accept: false, push: 'http://127.0.0.1:9', folder: /no/such/folder, node: mgmt01"
    done = railyard("watch", watched(site, more))
    assert "/no/such/folder/railyard-dgx-roce.prom: the metrics were not written" in done.err
    assert "the Pushgateway http://127.0.0.1:9 did not answer" in done.err
    assert not Path("/no").exists()


@contextmanager
def endless(begin: bytes, more: bytes, pause_s: float) -> Generator[str]:
    """Serve one answer that does not end, in pieces, until the client goes."""

    def answer(server: socket.socket) -> None:
        client, _ = server.accept()
        with client, suppress(OSError):
            client.sendall(begin)
            gone = time.monotonic() + 5
            while time.monotonic() < gone:
                client.sendall(more)
                ready, _, _ = select.select([client], [], [], pause_s)
                if ready and not client.recv(1 << 16):
                    return

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=answer, args=(server,))
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        thread.join()


@pytest.mark.parametrize(
    ("begin", "more", "pause_s", "words"),
    [
        (b"HTTP/1.1 200 OK\r\nX-Slow: ", b"a", 0.01, "did not answer: no end within 0.3 s"),
        (b"HTTP/1.1 400 Bad\r\n\r\n", b"a", 0.01, "refused the metrics: 400 aaa"),
        (b"HTTP/1.1 400 Bad\r\n\r\n", b"a" * (1 << 20), 0, "refused the metrics: 400 aaa"),
    ],
)
def test_a_pushgateway_that_does_not_end_is_given_up(
    monkeypatch: pytest.MonkeyPatch, begin: bytes, more: bytes, pause_s: float, words: str
) -> None:
    monkeypatch.setattr("components.acceptance.report.publish.PUSH_DEADLINE_S", 0.3)
    with (
        endless(begin, more, pause_s) as address,
        pytest.raises(DeviceError, match=f"the Pushgateway {address} {words}"),
    ):
        push_metrics(address, "dgx-roce", "text\n")


def test_conditions_without_a_cluster_are_named(railyard: Call, site: Path) -> None:
    done = railyard("watch", watched(site, "accept: false, conditions: true"))
    assert "the node conditions were not written" in done.err
    assert "Traceback" not in done.err


def test_a_good_night_proves_each_rail_and_forgets_the_oldest_run(
    railyard: Call, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[AcceptRequest] = []

    def collect(request: AcceptRequest, run: int, *_: object) -> Evidence:
        asked.append(request)
        return take_evidence(Site()).model_copy(update={"run": run})

    def audit(name: str, *_: object) -> Audit:
        return Audit(name, ("leaf-01",), ())

    text = site.read_text().replace("acceptance:", "acceptance:\n  suite: full\n  when_busy: fail")
    site.write_text(text)
    monkeypatch.setattr("components.cli.audit.collect_evidence", collect)
    monkeypatch.setattr("components.cli.audit.run_audit", audit)
    for number in range(MOST_RUNS + 1):
        old = Path(f".railyard/site/run-{number:04d}")
        old.mkdir(parents=True)
        (old / "evidence.json").write_text("{}")
        os.utime(old / "evidence.json", (number, number))
    done = railyard("watch", str(site), "--metrics", "all.prom")
    assert (done.code, done.err) == (0, "")
    assert "PASSED" in done.out
    (request,) = asked
    assert (request.provenance, request.stack) == ("lab", "site")
    assert request.acceptance.policy.when_busy == "warn"
    assert request.acceptance.budget is not None
    assert request.acceptance.budget.suite == "quick"
    metrics = Path("all.prom").read_text()
    assert 'railyard_rail_passed{site="dgx-roce",host="gpu02",rail="rail-1"} 1' in metrics
    assert 'railyard_run_success{site="dgx-roce",part="accept"} 1' in metrics
    left = sorted(Path(".railyard/site").glob("run-*"))
    assert len(left) == MOST_RUNS
    assert left[0].name == "run-0002"


def test_a_pod_uses_its_own_service_account(tmp_path: Path) -> None:
    account = tmp_path / "account"
    account.mkdir()
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"}
    assert pod_access(environ, account) == {}
    (account / "token").write_text("secret-token\n")
    (account / "ca.crt").write_text("")
    found = pod_access(environ, account)
    text = found[POD_ACCESS]
    assert "secret-token" not in text
    assert "server: https://[fd00::1]:6443" in text
    assert pod_access({}, account) == {}
    own = ClusterRef("site", (), kubeconfig_secret="kubeconfig")
    run = pytest.fail
    assert read_kubeconfig(own, run, found) == text  # pyright: ignore[reportArgumentType] - not called
    assert KubernetesCalls(text)
