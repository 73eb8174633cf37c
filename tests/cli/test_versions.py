"""`railyard versions`: the catalogue, what a site uses, and the sets that fill versions in."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from components.catalogue import upstream
from components.catalogue.operator_versions import (
    AS_OF,
    GPU_DEVICE_PLUGIN,
    GPU_OPERATOR,
    NETWORK_OPERATOR,
    find_line,
)
from components.catalogue.version_pairs import (
    DRIVER_TAGS,
    VERSION_SETS,
    Component,
    conflicts_of,
    driver_tag,
)
from components.checks.site import load_checked_site
from components.cli.versions import describe_age
from components.model.operators import versions_of
from tests.cli.conftest import Call
from tests.golden.site import EXAMPLES

BASE = Path(__file__).parents[1] / "cases" / "base" / "site.yaml"
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
    assert done.out.startswith("The catalogue is of ")
    assert "GPU operator       26.7  1.32 to 1.37 " in done.out
    assert "GPU operator       26.3  1.32 to 1.36    deprecated " in done.out
    assert "GPU operator before 26.3.3            network operator 26.4.0 " in done.out
    assert "26.4.1   doca3.4.1-26.04-1.1.0.0-1  yes " in done.out
    assert "Used by" not in done.out


def test_the_age_is_said_and_a_stale_catalogue_named() -> None:
    assert describe_age(AS_OF).endswith(", 0 days old.")
    assert describe_age(AS_OF - timedelta(days=3)).endswith(", 0 days old.")
    assert describe_age(AS_OF + timedelta(days=90)).endswith(", 90 days old.")
    assert "91 days old. Newer lines" in describe_age(AS_OF + timedelta(days=91))


def test_nothing_deprecated_is_a_default() -> None:
    lines = (
        (upstream.GPU_OPERATOR_RELEASE, GPU_OPERATOR),
        (upstream.NETWORK_OPERATOR_RELEASE, NETWORK_OPERATOR),
        (upstream.GPU_DEVICE_PLUGIN_RELEASE, GPU_DEVICE_PLUGIN),
        *((each.gpu_operator, GPU_OPERATOR) for each in VERSION_SETS.values()),
        *((each.network_operator, NETWORK_OPERATOR) for each in VERSION_SETS.values()),
    )
    for release, catalogue in lines:
        line = find_line(release, catalogue)
        assert line is not None
        assert line.status == "supported", release


@pytest.mark.parametrize(
    ("operators", "kubernetes", "severity", "words", "never"),
    [
        (
            "network: {driver: host, chart: {version: 26.10.0}}",
            "v1.36.3+k3s1",
            "warning",
            "network operator 26.10.0 is not in the catalogue of 29 November 2026: its documentat",
            "26.1",
        ),
        (
            "gpu: {chart: {version: v26.10.0}}",
            "v1.36.3+k3s1",
            "warning",
            "v26.10.0 is not in the catalogue of 29 November 2026: its lines are 26.7, 26.3",
            "Did you mean",
        ),
        (
            "gpu: {chart: {version: v26.3.3}}",
            "v1.37.0+k3s1",
            "error",
            "choose GPU operator 26.7, or a Kubernetes of that range",
            "26.7, 26.3",
        ),
    ],
)
def test_a_release_outside_the_catalogue_is_told_as_it_is(
    tmp_path: Path, operators: str, kubernetes: str, severity: str, words: str, never: str
) -> None:
    text = BASE.read_text("utf-8")
    for old, new in (
        ("operators: {gpu: {chart: {version: v26.3.3}}}", f"operators: {{{operators}}}"),
        ("version: v1.36.3+k3s1", f"version: {kubernetes}"),
    ):
        assert text.count(old) == 1
        text = text.replace(old, new)
    site = tmp_path / "site.yaml"
    site.write_text(text, "utf-8")
    (found,) = (
        each
        for each in load_checked_site(site).problems
        if each.rule in {"version-pair", "plugin-version"}
    )
    assert found.severity == severity
    assert words in f"{found.what} {found.fix}"
    assert never not in found.fix


def test_kubernetes_1_37_with_the_default_operators_is_clean(tmp_path: Path) -> None:
    site = _cloud(tmp_path, ("version: v1.36.3+k3s1", "version: v1.37.1+k3s1"))
    assert [each.what for each in load_checked_site(site).problems] == []


def test_it_says_where_each_version_comes_from(railyard: Call, tmp_path: Path) -> None:
    site = _cloud(
        tmp_path,
        ("name: crusoe-k3s\n", "name: crusoe-k3s\nversions: conservative\n"),
        ("    chart: {version: v26.7.0}\n", ""),
        ("  version: v1.36.3+k3s1\n", "  version: v1.35.3+k3s1\n"),
    )
    data = json.loads(railyard("versions", str(site), "--format", "json").out)
    assert data["tables"][f"Used by {site}"] == [
        {"component": "Kubernetes", "version": "v1.35.3+k3s1", "from": "line 31"},
        {"component": "GPU operator", "version": "v26.7.0", "from": "set conservative"},
        {"component": "network operator", "version": "26.7.1", "from": "line 40"},
    ]
    assert data["problems"] == []


def test_a_known_bad_pair_ends_it_with_one(railyard: Call, tmp_path: Path) -> None:
    site = _cloud(
        tmp_path,
        ("version: v1.36.3+k3s1", "version: v1.35.4+k3s1"),
        ("version: v26.7.0", "version: v26.3.2"),
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
                "kubernetes": "v1.35.6+k3s1",
                "gpu-operator": "v26.7.0",
                "network-operator": "26.7.1",
            },
        ),
        (
            "current",
            {
                "kubernetes": "v1.36.5+k3s1",
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
        ("    chart: {version: v26.7.0}\n", ""),
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
        ("chart: {version: v26.7.0}", "chart: {chart: oci://registry.example.com/gpu}"),
    )
    checked = load_checked_site(site)
    assert checked.spec is not None
    assert versions_of(checked.spec)["gpu-operator"] == "v26.7.0"


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
