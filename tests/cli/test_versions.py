"""`railyard versions`: the catalogue, what a site uses, and the sets that fill versions in."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from components.catalogue.version_pairs import DRIVER_TAGS, Component, conflicts_of, driver_tag
from components.checks.site import load_checked_site
from components.model.version_sets import versions_of
from tests.cli.conftest import Call
from tests.golden.site import EXAMPLES

CLOUD = EXAMPLES / "crusoe-k3s" / "site.yaml"


def _cloud(tmp_path: Path, *changes: tuple[str, str]) -> Path:
    text = CLOUD.read_text("utf-8")
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    file = tmp_path / "site.yaml"
    file.write_text(text, "utf-8")
    return file


def test_the_matrix_needs_no_site(railyard: Call) -> None:
    done = railyard("versions")
    assert (done.code, done.err) == (0, "")
    assert "GPU operator       26.3  1.32 to 1.36 " in done.out
    assert "GPU operator before 26.3.3            network operator 26.4.0 " in done.out
    assert "26.4.1   doca3.4.1-26.04-1.1.0.0-1  yes " in done.out
    assert "Used by" not in done.out


def test_it_says_where_each_version_comes_from(railyard: Call, tmp_path: Path) -> None:
    site = _cloud(
        tmp_path,
        ("name: crusoe-k3s\n", "name: crusoe-k3s\nversions: conservative\n"),
        ("    chart: {version: v26.3.3}\n", ""),
        ("  version: v1.36.3+k3s1\n", "  version: v1.35.3+k3s1\n"),
    )
    data = json.loads(railyard("versions", str(site), "--format", "json").out)
    assert data["tables"][f"Used by {site}"] == [
        {"component": "Kubernetes", "version": "v1.35.3+k3s1", "from": "line 31"},
        {"component": "GPU operator", "version": "v26.3.3", "from": "set conservative"},
        {"component": "network operator", "version": "26.7.1", "from": "line 40"},
    ]
    assert data["problems"] == []


def test_a_known_bad_pair_ends_it_with_one(railyard: Call, tmp_path: Path) -> None:
    site = _cloud(
        tmp_path,
        ("version: v1.36.3+k3s1", "version: v1.35.4+k3s1"),
        ("version: v26.3.3", "version: v26.3.2"),
        ("version: 26.7.1", "version: 26.4.0"),
    )
    done = railyard("versions", str(site))
    assert done.code == 1
    assert "version-conflict: GPU operator v26.3.2 and network operator 26.4.0 do no " in done.out
    assert railyard("check", str(site)).code == 1


def test_a_broken_site_is_reported_as_check_does(railyard: Call, tmp_path: Path) -> None:
    site = _cloud(tmp_path, ("name: crusoe-k3s\n", "nam: crusoe-k3s\n"))
    done = railyard("versions", str(site))
    assert done.code == 1
    assert "unknown-key" in done.out + done.err


@pytest.mark.parametrize(
    ("name", "found"),
    [
        (
            "conservative",
            {
                "kubernetes": "v1.35.4+k3s1",
                "gpu-operator": "v26.3.3",
                "network-operator": "26.4.1",
            },
        ),
        (
            "current",
            {
                "kubernetes": "v1.36.4+k3s1",
                "gpu-operator": "v26.7.0",
                "network-operator": "26.7.1",
            },
        ),
    ],
)
def test_a_set_fills_in_what_the_file_leaves_out(
    tmp_path: Path, name: str, found: dict[str, str]
) -> None:
    site = _cloud(
        tmp_path,
        ("name: crusoe-k3s\n", f"name: crusoe-k3s\nversions: {name}\n"),
        ("    chart: {version: v26.3.3}\n", ""),
        ("    chart: {version: 26.7.1}\n", ""),
        ("  version: v1.36.3+k3s1\n", ""),
    )
    checked = load_checked_site(site)
    assert [problem.what for problem in checked.problems] == []
    assert checked.spec is not None
    assert versions_of(checked.spec) == found


def test_without_a_set_the_release_of_k3s_is_written(tmp_path: Path) -> None:
    site = _cloud(tmp_path, ("  version: v1.36.3+k3s1\n", ""))
    assert [each.rule for each in load_checked_site(site).problems] == ["missing-key"]


def test_a_chart_of_its_own_gets_no_version_of_a_set(tmp_path: Path) -> None:
    site = _cloud(
        tmp_path,
        ("name: crusoe-k3s\n", "name: crusoe-k3s\nversions: current\n"),
        ("chart: {version: v26.3.3}", "chart: {chart: oci://registry.example.com/gpu}"),
    )
    checked = load_checked_site(site)
    assert checked.spec is not None
    assert versions_of(checked.spec)["gpu-operator"] == "v26.3.3"


@pytest.mark.parametrize(
    ("gpu", "network", "severities"),
    [
        ("v26.3.2", "26.4.0", ["error", "warning"]),
        ("v26.3.0", "26.4.0", ["error", "warning"]),
        ("v25.10.1", "26.4.0", ["error"]),
        ("v26.3.3", "26.4.0", []),
        ("v26.3.2", "26.1.2", ["warning"]),
        ("v26.7.0", "26.7.1", []),
        ("v26.7.0", "26.4.1", ["warning"]),
    ],
)
def test_pairs(gpu: str, network: str, severities: list[str]) -> None:
    found = conflicts_of({"gpu-operator": gpu, "network-operator": network})
    assert [each.severity for each in found] == severities


def test_the_race_of_a_reboot_is_that_of_the_driver_container() -> None:
    old: dict[Component, str] = {"network-operator": "26.4.1"}
    assert conflicts_of(old) == ()
    (found,) = conflicts_of(old, container=True)
    assert found.source.startswith("Mellanox/network-operator#2954")
    assert conflicts_of({"network-operator": "26.7.1"}, container=True) == ()


def test_a_release_that_fails_alone() -> None:
    (found,) = conflicts_of({"gpu-operator": "v24.9.0"})
    assert found.source.endswith("NVIDIA/gpu-operator#1099")
    assert conflicts_of({"gpu-operator": "v24.9.1"}) == ()


def test_a_tag_that_nobody_confirms_is_not_taken() -> None:
    assert driver_tag("v26.4.1") == "doca3.4.1-26.04-1.1.0.0-1"
    assert driver_tag("26.1.2") == "doca3.3.0-26.01-1.0.0.0-0"
    assert "26.7.0" in DRIVER_TAGS
    assert driver_tag("26.7.0") is None
    assert driver_tag("26.7.1") is None
