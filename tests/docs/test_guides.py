"""Public reference designs: each line of the vendor's guide is ours too, or has a reason."""

from __future__ import annotations

import os

import pytest
from pydantic import ValidationError

from components.checks.site import check_site
from components.plan.make import make_plan
from tests.docs.guide_tables import (
    DESIGNS,
    PAGE,
    Guide,
    Line,
    More,
    Ours,
    faults_of,
    find_faults,
    load_guides,
    ours_of,
    plan_of,
    render_page,
    spec_of,
)
from tests.docs.plan_lines import lines_of

OURS = Ours(commands=("vlan 111", "qos trust L3"), wanted=("port 1/1 pfc=on",))
SAME = Line(guide=("qos trust L3",))
MORE = (More(ours=("vlan *",), why="the rail's VLAN"),)


@pytest.mark.parametrize("name", load_guides())
def test_each_line_of_the_guide_is_ours_or_has_a_reason(name: str) -> None:
    assert faults_of(name) == ()


def test_six_designs_of_five_systems_pass_their_own_rules() -> None:
    guides = load_guides().values()
    assert len({guide.document for guide in guides}) >= 6
    systems = {plan_of(guide).os for guide in guides if guide.switch}
    assert systems == {"onyx", "cumulus", "eos", "sonic", "mlnxos"}
    ours = sorted({guide.site for guide in guides if not guide.site.startswith("examples/")})
    found = [problem for site in ours for problem in check_site(spec_of(site))]
    assert [problem.what for problem in found if problem.severity == "error"] == []


def test_each_design_has_a_guide() -> None:
    assert {guide.design for guide in load_guides().values()} - {None} == {*DESIGNS}


@pytest.mark.parametrize("about", [{}, {"switch": "leaf01", "about": ["env *"]}])
def test_a_guide_is_about_a_switch_or_about_the_cluster(about: dict[str, object]) -> None:
    guide = load_guides()["cumulus-roce"].model_dump(exclude={"switch"})
    with pytest.raises(ValidationError, match="either `switch` or `about`"):
        Guide.model_validate(guide | about)


def test_a_line_of_ours_that_no_guide_is_about_needs_no_reason() -> None:
    guide = load_guides()["aks"]
    ours = ours_of(guide)
    assert "env NCCL_NET_GDR_LEVEL=SYS" in ours.commands
    assert "Namespace metadata.name=gpu-operator" in ours.wanted
    wider = guide.model_copy(update={"about": (*guide.about, "Namespace metadata.name=*")})
    found = find_faults(guide.lines, guide.more, ours_of(wider))
    assert found == ("`Namespace metadata.name=mpi-operator` is ours alone, and has no reason",)


@pytest.mark.parametrize(
    ("site", "line"),
    [
        ("examples/quantum-ib", "host kernel.acs=off"),
        ("examples/quantum-ib", "helm network-operator nfd.enabled=false"),
        ("examples/quantum-ib", "env NCCL_IB_HCA==$hcas"),
        ("examples/quantum-ib", "mpirun --mca coll_hcoll_enable 0"),
        ("examples/quantum-ib", "all_reduce_perf -e 2G"),
        ("examples/quantum-ib", "MPIJob Worker.resources.limits.nvidia.com/hostdev=8"),
        (
            "examples/quantum-ib",
            "NicClusterPolicy spec.sriovDevicePlugin.config.resourceList.0.selectors.isRdma=true",
        ),
        ("examples/dgx-roce", "NetworkAttachmentDefinition spec.config.vlan=111"),
        ("examples/dgx-roce", "ib_write_bw -R"),
    ],
)
def test_the_lines_of_a_plan(site: str, line: str) -> None:
    assert line in lines_of(make_plan(spec_of(f"{site}/site.yaml"), "site"))


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (Line(guide=("roce",)), "`roce` has no match"),
        (
            Line(guide=("qos trust L3",), ours=("vlan 111",), why="not needed"),
            "`qos trust L3` is in our plan, and needs no reason",
        ),
        (Line(guide=("roce",), ours=("roce lossy",), why="x"), "`roce lossy` is not in our plan"),
        (
            Line(guide=("PFC on",), unset=("pfc",), why="x"),
            "`pfc` is said not to be set, and our plan has `port 1/1 pfc=on`",
        ),
        (
            Line(guide=("roce",), why="x"),
            "`roce` needs either lines of ours or words that we do not set",
        ),
        (
            Line(guide=("mtu 9000",), unset=("speed",), why="x"),
            "`mtu 9000` has no word of those that we do not set",
        ),
    ],
)
def test_what_is_wrong_with_a_line(line: Line, fault: str) -> None:
    assert find_faults((SAME, line), MORE, OURS) == (fault,)


def test_our_own_lines_need_a_reason_too_and_only_they() -> None:
    assert find_faults((SAME,), MORE, OURS) == ()
    assert find_faults((SAME,), (), OURS) == ("`vlan 111` is ours alone, and has no reason",)
    gone = More(ours=("no vlan 1",), why="x")
    assert find_faults((SAME,), (*MORE, gone), OURS) == (
        "`no vlan 1` has a reason, and is not in our plan",
    )


def test_the_page_is_fresh() -> None:
    page = render_page()
    if os.environ.get("RAILYARD_GOLDENS"):
        PAGE.write_text(page, "utf-8")
    assert PAGE.read_text("utf-8") == page, "run `make goldens` and read the difference"
