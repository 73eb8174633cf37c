"""The six points of Crusoe's article: its own lines pass, and each point fails on a broken one."""

from __future__ import annotations

import pytest

from components.acceptance.judge.log import judge_nccl_text
from components.acceptance.judge.nccl import NcclAsked
from components.acceptance.judge.nccl_findings import judge_hcas, judge_pace
from components.acceptance.logs.log_model import NcclLog
from components.acceptance.logs.nccl import parse_nccl_log
from components.core.errors import UsageError
from tests.acceptance.recordings import load_nccl

ARTICLE = load_nccl("crusoe_h100_ib")
ASKED = NcclAsked("2.19", "/opt/h100-80gb-sxm-ib.xml", 8, gdr=True)
FLOOR = 360.0


def verdicts(text: str, asked: NcclAsked = ASKED, floor: float = FLOOR) -> dict[str, str]:
    found = judge_nccl_text(text, "ib", floor, asked).findings
    return {finding.check: finding.verdict for finding in found}


def test_the_articles_own_lines_pass_every_point() -> None:
    found = verdicts(ARTICLE)
    assert set(found) == {
        "completeness",
        "correctness",
        "transport",
        "nccl version",
        "network",
        "topology file",
        "hcas",
        "gpudirect",
        "bandwidth",
    }
    assert set(found.values()) == {"passed"}


@pytest.mark.parametrize(
    ("check", "old", "new"),
    [
        ("nccl version", "NCCL version 2.19.3+cuda12.2", "NCCL version 2.18.5+cuda12.2"),
        ("network", "Using network IBext", "Using network Socket"),
        ("topology file", "environment to /opt/h100", "environment to /opt/a100"),
        ("topology file", "NCCL_TOPO_FILE set by environment", "NCCL_TOPO_FILE is not set"),
        ("hcas", "[4]mlx5_5:1/IB/SHARP ", ""),
        ("hcas", "mlx5_0:1/IB/SHARP", "mlx5_0:1/RoCE"),
        ("hcas", " [RO];", ";"),
        ("gpudirect", "via NET/IBext/5/GDRDMA", "via NET/IBext/5"),
        ("transport", "via NET/IBext/5/GDRDMA", "via NET/Socket/0"),
    ],
)
def test_each_point_fails_on_a_broken_log(check: str, old: str, new: str) -> None:
    assert old in ARTICLE
    assert verdicts(ARTICLE.replace(old, new))[check] == "failed"


def test_a_slow_row_fails() -> None:
    slow = ARTICLE.replace("5380.5", "6215.6").replace("199.56", "172.75")
    assert verdicts(slow.replace("386.65", "334.70"))["bandwidth"] == "failed"


def test_a_topology_file_that_cannot_be_opened_is_not_used() -> None:
    line = "x:1:1 [0] NCCL INFO Could not open XML topology file /opt/h100-80gb-sxm-ib.xml : gone\n"
    assert verdicts(line + ARTICLE)["topology file"] == "failed"


def test_what_a_log_does_not_show_cannot_be_judged() -> None:
    lines = [line for line in ARTICLE.splitlines() if "NET/IB :" not in line]
    assert verdicts("\n".join(lines))["hcas"] == "error"


def test_versions_are_numbers_not_texts() -> None:
    newer = ARTICLE.replace("NCCL version 2.19.3", "NCCL version 2.9.9")
    assert verdicts(newer)["nccl version"] == "failed"
    assert verdicts(ARTICLE, NcclAsked("2.9"))["nccl version"] == "passed"


def test_the_floor_of_390_would_fail_the_article_itself() -> None:
    assert verdicts(ARTICLE, floor=390)["bandwidth"] == "failed"


def test_named_adapters_must_be_among_those_in_use() -> None:
    log = parse_nccl_log(ARTICLE)
    assert isinstance(log, NcclLog)
    assert judge_hcas(log, 8, ("mlx5_0", "mlx5_8")).verdict == "passed"
    missing = judge_hcas(log, 8, ("mlx5_4",))
    assert (missing.verdict, "mlx5_4 is not used" in missing.actual) == ("failed", True)


def test_a_slow_pace_is_a_warning_with_its_row() -> None:
    log = parse_nccl_log(ARTICLE)
    assert isinstance(log, NcclLog)
    assert judge_pace(log, 380) is None
    slow = judge_pace(log, 387)
    assert slow is not None
    assert "386.65 GB/s at 1 GiB" in slow.actual


def test_what_must_be_shown_is_read_from_texts() -> None:
    texts = ("version=2.19", "topology=/opt/h100-80gb-sxm-ib.xml", "hcas=8", "gdr")
    assert NcclAsked.of(texts) == ASKED
    assert NcclAsked.of(()) == NcclAsked()


@pytest.mark.parametrize("text", ["hca=8", "hcas=eight", ""])
def test_what_nobody_knows_cannot_be_asked_for(text: str) -> None:
    with pytest.raises(UsageError, match="--must"):
        NcclAsked.of((text,))
