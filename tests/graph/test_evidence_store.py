"""The whole program with an evidence store: who gets which secret, and what proves again."""

from __future__ import annotations

from typing import Final

import pytest

from components.core.problem import Json
from components.remote.lines import parse_lines
from components.testing import Graph, unwrap
from tests.acceptance.stores import KEY, OTHER
from tests.graph.dev_site import changed_inputs, dev_cluster, dev_run, next_run
from tests.graph.whole_program import record_main

STORE: Final[dict[str, Json]] = {
    "address": "s3://proofs/rack7",
    "login": {"user": "ci", "password": {"env": "STORE_PASSWORD"}},
    "signing_key": {"env": "EVIDENCE_KEY"},
    "trusted_keys": [KEY.public],
}


@pytest.fixture(name="cluster")
def _cluster(monkeypatch: pytest.MonkeyPatch) -> dict[str, Json]:
    monkeypatch.setenv("STORE_PASSWORD", "value-of-password")
    monkeypatch.setenv("EVIDENCE_KEY", KEY.secret)
    return {**dev_cluster(), "evidence_store": STORE}


def test_the_gate_gets_the_login_and_only_the_evidence_step_the_signing_key(
    cluster: dict[str, Json],
) -> None:
    graph = record_main(dev_run(cluster))
    gate = _secrets(graph, "acceptance-gate")
    assert [*gate.values()] == ["value-of-password"]
    collect = _secrets(graph, "acceptance-evidence")
    assert {"value-of-password", KEY.secret} < {*collect.values()}
    assert gate.items() < collect.items()
    assert KEY.secret.splitlines()[1] not in str(graph.named("acceptance-evidence").plain("stdin"))


def _secrets(graph: Graph, name: str) -> dict[str, object]:
    environment = graph.named(name).plain("environment")
    assert isinstance(environment, dict)
    return {key: unwrap(value) for key, value in environment.items()}


def test_without_a_store_the_gate_gets_nothing() -> None:
    assert record_main(dev_run()).named("acceptance-gate").plain("environment") == {}


def test_another_store_or_key_proves_again(cluster: dict[str, Json]) -> None:
    first = record_main(dev_run(cluster))
    quiet = record_main(next_run(first, cluster, observe="never"))
    assert changed_inputs(first, quiet) == set()
    cluster["evidence_store"] = {**STORE, "trusted_keys": [KEY.public, OTHER.public]}
    again = record_main(next_run(first, cluster, observe="never"))
    assert changed_inputs(first, again) == {"acceptance-evidence", "acceptance-gate"}
    asked = parse_lines(str(again.named("acceptance-evidence").plain("stdin")))
    before = parse_lines(str(first.named("acceptance-evidence").plain("stdin")))
    assert asked["plan_digest"] != before["plan_digest"]
