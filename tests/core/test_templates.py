"""Templates of objects: words filled in, keys left out, and mappings spread."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from components import jobs, pod_network
from components.core.templates import LOADER, object_of, parse_own

POOLS, JOBS = pod_network.__name__, jobs.__name__


def test_a_word_alone_keeps_its_type_and_a_word_in_a_text_becomes_text() -> None:
    words = {"name": "rail-0-8", "resource": "sriov_111", "nodes": {"a": "b"}, "link": "eth"}
    made = object_of(POOLS, "node-policy", **words, roots=["0000:05:00.0"], vfs=8, mtu=9000)
    assert (made["spec"]["numVfs"], made["spec"]["mtu"]) == (8, 9000)
    assert made["spec"]["nicSelector"]["rootDevices"] == ["0000:05:00.0"]
    claim = object_of(JOBS, "claim", claim="data", namespace="n", mode="m", request=5)
    assert claim["spec"]["resources"]["requests"] == {"storage": "5Gi"}


def test_a_key_without_a_value_is_left_out() -> None:
    words = {"name": "rail-0-8", "resource": "sriov_111", "nodes": dict[str, str](), "link": "ib"}
    made = object_of(POOLS, "node-policy", **words, roots=[], vfs=0, mtu=None)
    assert "mtu" not in made["spec"]
    assert made["spec"]["nodeSelector"] == {}
    assert made["spec"]["numVfs"] == 0


def test_a_mapping_is_spread_among_the_other_keys() -> None:
    made = object_of(POOLS, "daemon-set", name="x", pod={"containers": []}, host_network=None)
    pod = made["spec"]["template"]["spec"]
    assert pod["containers"] == []
    assert pod["nodeSelector"] == {"kubernetes.io/os": "linux"}
    assert "..." not in pod
    assert "hostNetwork" not in pod


def test_a_value_with_braces_is_not_filled_in_again() -> None:
    made = object_of(JOBS, "policy", condition="a{b}", patches="{c}")
    assert made["spec"]["matchConditions"][0]["expression"] == "a{b}"


def test_a_template_needs_all_its_words() -> None:
    with pytest.raises(KeyError, match="namespace"):
        object_of(JOBS, "claim", claim="data")


COMPONENTS = Path(__file__).parents[2] / "components"
TABLES = [
    str(each.relative_to(COMPONENTS))
    for each in sorted(COMPONENTS.rglob("*.yaml"))
    if b"\n---\n" not in each.read_bytes()  # several documents are no table
]


@pytest.mark.parametrize("table", TABLES)
def test_each_table_is_read_as_pyyaml_reads_it(table: str) -> None:
    text = (COMPONENTS / table).read_bytes()
    assert repr(parse_own(text)) == repr(yaml.load(text, LOADER))  # noqa: S506 - a safe loader


def test_all_kinds_of_values_are_read_as_pyyaml_reads_them() -> None:
    text = "a: &x {b: [1, 2.5, ~, yes, 2026-01-02, '1']}\nc: {<<: *x, d: *x}\ne: !!set {f, g}\n"
    assert parse_own(text) == yaml.load(text, LOADER)  # noqa: S506 - a safe loader
    assert parse_own("") is None
