"""Where the rules on SONiC switches begin and end; the reports are in tests/cases."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.checks.lacks import ALLOWED, check_exec_system
from components.checks.site import check_site, load_checked_site
from components.fabric.fabric_plan import plan_fabric
from components.model.cluster import ClusterSpec
from tests.checks.cases import CLEAN
from tests.fabric.fabric_lab import routed_of
from tests.fabric.sonic_lab import load_spec


def _cable(length: int) -> tuple[str, str]:
    return "Ethernet24: gpu02/rail-1", f"Ethernet24: {{to: gpu02/rail-1, cable_length_m: {length}}}"


SONIC = (
    ("    os: onyx", "    os: sonic"),
    ("model: SN2700", "model: Z9332F"),
    ("release: 3.9.2504", 'release: "202405"'),
    *((f'"1/{number + 1}"', f"Ethernet{8 * number}") for number in range(4)),
)


@pytest.mark.parametrize(
    ("changes", "rules"),
    [
        ((), set[str]()),
        ((("lossy_ecn", "lossless"),), set[str]()),
        ((("lossy_ecn", "lossless, pfc_watchdog: true"),), set[str]()),
        ((("lossy_ecn", "lossy_ecn, pfc_watchdog: true"),), {"pfc-watchdog"}),
        ((("lossy_ecn", "lossless"), _cable(1)), set[str]()),
        ((("lossy_ecn", "lossless"), _cable(2000)), set[str]()),
        ((("lossy_ecn", "lossless"), _cable(2001)), {"cable-length"}),
        ((_cable(5),), {"cable-length"}),
        (
            (
                ("lossy_ecn", "lossless"),
                _cable(5),
                ("os: sonic", "os: sonic\n    executor: exec\n    exec_disruptive: " + ALLOWED),
            ),
            {"exec-system"},
        ),
        (
            (
                ("lossy_ecn", "lossless, pfc_watchdog: true"),
                ("os: sonic", "os: sonic\n    executor: exec\n    exec_disruptive: " + ALLOWED),
            ),
            {"exec-system"},
        ),
        ((('"202405"', "202205"),), set[str]()),
        ((('"202405"', '"202311.1"'),), set[str]()),
        ((('"202405"', "202311.1"),), None),
        ((('"202405"', "master.900000-abc"),), set[str]()),
        ((('"202405"', '"202111"'),), {"switch-release"}),
        ((('"202405"', "3.9.2504"),), {"switch-release"}),
        ((("Ethernet24", "Ethernet248"),), set[str]()),
        # One of eight parts of 50 Gbit/s is too slow for the NIC.
        ((("Ethernet24", "Ethernet255"),), {"port-capability"}),
        ((("Ethernet24", "Ethernet252"),), set[str]()),
        ((("Ethernet24", "swp4"),), {"port-capability"}),
        ((("model: Z9332F", "model: DCS-7060CX-32S"),), {"switch-system"}),
        ((("os: sonic", "os: onyx"),), {"switch-system"}),
        ((("model: Z9332F", "model: Z9999"),), {"switch-model"}),
        ((("mtu_bytes: 9000", "port_mtu_bytes: 9216, mtu_bytes: 9000"),), set[str]()),
        ((("mtu_bytes: 9000", "port_mtu_bytes: 9217, mtu_bytes: 9000"),), {"port-capability"}),
        (
            (("dscp: 26", "dscp: 34, cnp_dscp: 40"),),
            None,
        ),
    ],
)
def test_boundaries(
    tmp_path: Path, changes: tuple[tuple[str, str], ...], rules: set[str] | None
) -> None:
    text = CLEAN.read_text()
    for old, new in (*SONIC, *changes):
        assert old in text
        text = text.replace(old, new, 1)
    path = tmp_path / "site.yaml"
    path.write_text(text)
    checked = load_checked_site(path)
    found = {problem.rule for problem in checked.problems}
    if rules is not None:
        assert found == rules
    else:
        assert not {rule for rule in found if "sonic" in rule or "cumulus" in rule}
    if not found and checked.spec is not None:
        assert plan_fabric(checked.spec)[0].os == "sonic"


@pytest.mark.parametrize(("count", "refused"), [(8, False), (32, False), (200, True)])
def test_an_exec_that_no_shell_takes_is_refused(count: int, refused: bool) -> None:  # noqa: FBT001 - a table
    spec = load_spec()
    leaf = spec.switches[0]
    port = leaf.ports["Ethernet8"]
    ports = {f"Ethernet{number}": port for number in range(count)}
    switch = leaf.model_copy(
        update={"executor": "exec", "exec_disruptive": "allow-interruptions", "ports": ports}
    )
    found = [*check_exec_system(spec.model_copy(update={"switches": (switch,)}))]
    assert len(found) == int(refused)
    assert not refused or "characters; it takes 131071" in found[0].what


@pytest.mark.parametrize(
    ("release", "words"),
    [
        ("202405", ["come back after a boot", "its own YANG refuses"]),
        ("202505", ["come back after a boot"]),
    ],
)
def test_what_is_not_proven_of_routed_sonic_is_said(release: str, words: list[str]) -> None:
    site = routed_of("sonic").model_dump(mode="json")
    for switch in site["switches"]:
        switch["release"] = release
    found = [
        each for each in check_site(ClusterSpec.model_validate(site)) if each.rule == "routing"
    ]
    assert {each.severity for each in found} == {"warning"}
    for word, each in zip(words, found, strict=True):
        assert word in each.what


def test_a_model_is_refused_on_a_branch_that_lacks_it() -> None:
    for model, release, least in (("Z9664F", "202405", "202505"), ("Z9864F", "202605", "master")):
        spec = load_spec()
        switch = spec.switches[0].model_copy(update={"model": model, "release": release})
        found = check_site(spec.model_copy(update={"switches": (switch,)}))
        said = [each.what for each in found if each.rule == "switch-release"]
        assert said == [f"leaf-01 runs SONiC {release}, but a {model} needs {least}."]
