"""The metrics, alerts and dashboard of `watch` with the real Prometheus of Debian."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import urllib3
import yaml

from components.acceptance.judge.site import judge_evidence
from components.acceptance.report.publish import (
    METRICS,
    Sample,
    audit_samples,
    proof_samples,
    render_metrics,
)
from components.core.plain_text import one_line
from components.core.problem import Finding
from lab.cluster.process import wait_until
from lab.debian import MONITORING_PACKAGES, unpacked
from tests.lab_physics.site import Site, take_evidence

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples/watch"
ODD = 'leaf "1"\\\n\x1b[2J{}=,'
DEADLINE_S = 60.0
_NAME = re.compile(r"\brailyard_\w+")


@pytest.fixture(scope="session")
def programs() -> Path:
    return unpacked(packages=MONITORING_PACKAGES) / "usr/bin"


@pytest.fixture(scope="module")
def text() -> str:
    site = Site()
    site.break_port("gpu01", 1, trust="L2")
    kinds = {ODD: "setting", "gpu01": "unread"}
    found = [Finding("x", device=device, rule=kind) for device, kind in kinds.items()]
    samples = [
        Sample("railyard_run_timestamp_seconds", {}, 1.0),
        Sample("railyard_run_duration_seconds", {"part": "audit"}, 1.25),
        Sample("railyard_run_success", {"part": "audit"}, 1.0),
        *audit_samples(["leaf-01"], found),
        *proof_samples(judge_evidence(take_evidence(site))),
    ]
    return render_metrics("dgx-roce", samples)


def promtool(programs: Path, *words: str, given: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [programs / "promtool", *words],
        input=given,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )


def test_promtool_finds_no_fault_in_the_metrics(programs: Path, text: str) -> None:
    done = promtool(programs, "check", "metrics", given=text)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_alerts_are_valid_and_fire_when_they_should(programs: Path) -> None:
    checked = promtool(programs, "check", "rules", str(FOLDER / "alerts.yml"))
    assert checked.returncode == 0, checked.stdout + checked.stderr
    tested = promtool(programs, "test", "rules", str(Path(__file__).parent / "watch_alerts.yml"))
    assert tested.returncode == 0, tested.stdout + tested.stderr


def alerts() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"]
    return group["rules"]


def panels() -> list[dict[str, Any]]:
    return json.loads((FOLDER / "dashboard.json").read_text())["panels"]


def test_each_alert_has_a_test() -> None:
    (cases,) = yaml.safe_load((Path(__file__).parent / "watch_alerts.yml").read_text())["tests"]
    tested = {case["alertname"] for case in cases["alert_rule_test"] if case["exp_alerts"]}
    assert tested == {each["alert"] for each in alerts()}


def test_alerts_and_dashboard_name_only_metrics_that_exist() -> None:
    expressions = [each["expr"] for each in alerts()]
    expressions += [target["expr"] for each in panels() for target in each["targets"]]
    named = {name for each in expressions for name in _NAME.findall(each)}
    assert all(_NAME.search(each) for each in expressions)
    assert named <= {*METRICS}
    shown = {
        n for each in panels() for target in each["targets"] for n in _NAME.findall(target["expr"])
    }
    assert shown == {*METRICS}


def test_the_page_names_each_metric() -> None:
    page = (ROOT / "docs/howto/watch.md").read_text()
    assert {*_NAME.findall(page)} >= {*METRICS}


def test_panels_do_not_overlap() -> None:
    cells: set[tuple[int, int]] = set()
    for each in panels():
        at = each["gridPos"]
        own = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert at["x"] + at["w"] <= 24
        assert not own & cells, each["title"]
        cells |= own


@pytest.fixture
def exporter(text: str) -> Iterator[int]:
    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name
            del format, args

    server = HTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def prometheus(programs: Path, exporter: int, tmp_path: Path) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    targets = [{"targets": [f"127.0.0.1:{exporter}"]}]
    config: dict[str, Any] = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(FOLDER / "alerts.yml")],
        "scrape_configs": [{"job_name": "railyard", "static_configs": targets}],
    }
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(config))
    words = [
        programs / "prometheus",
        f"--config.file={tmp_path / 'prometheus.yml'}",
        f"--storage.tsdb.path={tmp_path / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        yield f"http://127.0.0.1:{port}"
        process.terminate()
        process.wait(DEADLINE_S)


def ask(address: str, path: str, **fields: str) -> Any:  # noqa: ANN401 - JSON
    with urllib3.PoolManager() as pool:
        answer = pool.request("GET", f"{address}/api/v1/{path}", fields=fields, retries=False)
        assert answer.status == 200, answer.data
        return answer.json()["data"]


def scraped(address: str) -> bool:
    try:
        return bool(ask(address, "query", query="railyard_probes")["result"])
    except (urllib3.exceptions.HTTPError, AssertionError):
        return False


def test_prometheus_reads_every_value_and_every_panel_has_an_answer(
    prometheus: str, text: str
) -> None:
    wait_until("Prometheus has scraped the page", lambda: scraped(prometheus), DEADLINE_S)
    found = ask(prometheus, "query", query='{__name__=~"railyard_.+"}')["result"]
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert len(found) == len(lines)
    devices = {each["metric"].get("device") for each in found}
    assert one_line(ODD) in devices
    empty = {"railyard_probe_pause_frames", "railyard_probe_ecn_marked_packets"}
    empty |= {"railyard_probe_hops_unobserved", "railyard_probe_errors"}
    for panel in panels():
        for target in panel["targets"]:
            query = target["expr"].replace("$site", ".*")
            answer = ask(prometheus, "query", query=query)["result"]
            assert answer or {*_NAME.findall(query)} <= empty, panel["title"]
    wait_until(
        "the alert of a silent device is active",
        lambda: (
            {"RailyardDeviceSilent", "RailyardWrongClass", "RailyardWatchStale"}
            <= {each["labels"]["alertname"] for each in ask(prometheus, "alerts")["alerts"]}
        ),
        DEADLINE_S,
    )
