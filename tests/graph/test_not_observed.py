"""With `railyard:observe never` a run contacts nothing, whoever made the cluster."""

from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
import yaml

from components.core.problem import Json
from components.testing import UNKNOWN, Graph, Run
from tests.golden.site import EXAMPLES
from tests.graph.dev_site import dev_run, kubeconfig
from tests.graph.example_sites import NAMES, example_graph, example_preview, example_run
from tests.graph.whole_program import record_main, record_refusal

EXISTING = EXAMPLES / "shared-rdma" / "existing.yaml"
_Address = tuple[object, ...] | str | bytes


@pytest.fixture
def contacted(monkeypatch: pytest.MonkeyPatch) -> list[_Address]:
    """The addresses that were connected to or asked for; the test machine's own pairs have none."""
    found: list[_Address] = []

    def refuse(_: socket.socket, address: _Address) -> None:
        found.append(address)
        raise ConnectionRefusedError(f"{address}: nothing may be contacted")

    def resolve(host: str, *_: object, **__: object) -> list[object]:
        found.append(host)
        raise socket.gaierror(f"{host}: nothing may be looked up")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket.socket, "connect_ex", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    return found


def existing_run(observe: str, site: Json = None) -> Run:
    """The example whose cluster exists, with a kubeconfig of the form that its owner gives."""
    cluster = site or cast("Json", yaml.safe_load(Path(EXISTING).read_text()))
    run = example_run("shared-rdma")
    config = {**run.config, "cluster": cluster, "observe": observe, "kubeconfig": kubeconfig()}
    return replace(run, config=config, secrets=(*run.secrets, "kubeconfig"))


def test_an_existing_cluster_is_not_asked(contacted: list[_Address]) -> None:
    graph = record_main(existing_run("never"))
    assert contacted == []
    _says_not_observed(graph)
    assert graph.named("acceptance-gate")


def test_looking_asks_the_existing_cluster_first(contacted: list[_Address]) -> None:
    refused, _ = record_refusal(existing_run("always"), lock=True)
    assert "the cluster did not answer GET /version: " in refused
    assert len(contacted) > 0


@pytest.mark.parametrize("name", ["dev", *NAMES])
def test_no_example_contacts_anything(contacted: list[_Address], name: str) -> None:
    graph = record_main(dev_run()) if name == "dev" else example_graph(name)
    assert contacted == []
    _says_not_observed(graph)


def test_a_preview_does_without_charts_that_are_not_here(contacted: list[_Address]) -> None:
    graph = record_main(example_preview("shared-rdma"), fetched=False)
    assert contacted == []
    releases = graph.of_type("kubernetes:helm.sh/v3:Release")
    assert all(each.text("chart") == UNKNOWN for each in releases)
    told = [each.partition(":")[0] for each in graph.messages if "fetches nothing" in each]
    assert told == [f"{each.name} {each.inputs['version']}" for each in releases]
    assert told


def test_an_update_fetches_the_charts_also_where_it_does_not_look(
    contacted: list[_Address],
) -> None:
    refused, graph = record_refusal(example_run("shared-rdma"), lock=True, fetched=False)
    assert "cannot be reached" in refused
    assert refused.endswith("Nothing was touched.")
    assert contacted
    assert not graph.resources


def _says_not_observed(graph: Graph) -> None:
    assert any(
        message.startswith("not observed: railyard:observe is") for message in graph.messages
    )
