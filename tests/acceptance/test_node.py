"""GPUs of a node: logs recorded on an H200, and the same with one fault in each.

The texts of NVLink are those of an H100 in stas00/ml-engineering (compute/accelerator/nvidia),
those of DCGM follow `nvvs/include/NvvsJsonStrings.h` at v3.3.9 and v4.4.2.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from components.acceptance.digest import digest_log
from components.acceptance.evidence import Limits, Probe, ProbeEvidence
from components.acceptance.judge.log import judge_node_text
from components.acceptance.judge.site import judge_probe
from components.acceptance.judge.workload_findings import below_siblings, judge_node
from components.acceptance.logs.log_model import ParseProblem
from components.acceptance.logs.node import MARK, NodeLog, parse_node_log
from components.jobs.templates import job_script

RECORDED = Path(__file__).with_name("recorded") / "node"
GOOD = (RECORDED / "node_burn.log").read_text()
_ROW = "gpu 0, 00000000:00:06.0, NVIDIA H200, 5, 5, 16, 16,"


def _rows(text: str, gpus: int = 1) -> Mapping[str, tuple[str, str]]:
    log = parse_node_log(text)
    assert isinstance(log, NodeLog)
    probe = Probe(name="node-gpu01", kind="node", rails=(), nodes=("gpu01",), ranks=gpus)
    found = judge_node(ProbeEvidence(probe=probe, outcome="completed"), log)
    return {row.check: (row.verdict, row.actual) for row in found}


def _many(text: str, gpus: int) -> str:
    """The recorded log as if the node had several of these GPUs."""
    lines: list[str] = []
    for line in text.splitlines():
        many = range(gpus) if " gpu 0, " in line or ":00:06.0, " in line else range(1)
        for index in many:
            one = line.replace("gpu 0, ", f"gpu {index}, ")
            lines.append(one.replace(":00:06.0", f":{index:02x}:00.0" if gpus > 1 else ":00:06.0"))
    return "\n".join(lines)


@pytest.mark.parametrize("name", ["node_burn", "node_nccl", "node_no_tools", "node_load_fails"])
def test_a_recorded_healthy_gpu_has_no_fault(name: str) -> None:
    rows = _rows((RECORDED / f"{name}.log").read_text())
    assert {verdict for verdict, _ in rows.values()} <= {"passed", "skipped"}
    assert rows["gpus"] == ("passed", "1")
    assert rows["gpu memory"][0] == "passed"


TWO_GPUS: Mapping[str, tuple[int, Mapping[str, str]]] = {
    # name: exit code of `judge node`, and the rows that do not pass with what they say
    "two_gpus_nccl": (0, {}),
    "two_gpus_no_p2p": (1, {"transport": "SHM", "bandwidth": "27.18"}),
    "two_gpus_beside_others": (1, {"bandwidth": "157.42"}),
    "two_gpus_killed": (1, {"run": "Killed", "load": "137"}),
    "two_gpus_no_program": (1, {"load": "127", "gpu clocks": "no load"}),
    "two_gpus_no_cuda": (
        1,
        {
            "run": "no CUDA-capable",
            "load": "2",
            "copy of any kind": "CUDA_ERROR_NO_DEVICE",
            "gpu clocks": "no load",
        },
    ),
}


@pytest.mark.parametrize(("name", "said"), TWO_GPUS.items())
def test_a_node_of_two_gpus_gets_the_verdict_of_its_load(
    name: str, said: tuple[int, Mapping[str, str]]
) -> None:
    verdict = judge_node_text((RECORDED / f"{name}.log").read_text(), 2)
    odd = {row.check: row.actual for row in verdict.findings if row.verdict != "passed"}
    assert (verdict.exit_code, odd.keys()) == (said[0], said[1].keys())
    assert all(text in odd[check] for check, text in said[1].items())


def test_a_slow_load_on_one_host_is_not_blamed_on_its_rails() -> None:
    for name in ("two_gpus_no_p2p", "two_gpus_beside_others"):
        found = judge_node_text((RECORDED / f"{name}.log").read_text(), 2).findings
        step = next(row.next_step for row in found if row.check == "bandwidth")
        assert "rail" not in step
        assert "nvidia-smi" in step


def test_two_gpus_show_every_nvlink_and_each_way_between_them() -> None:
    rows = _rows((RECORDED / "two_gpus_nccl.log").read_text(), 2)
    assert rows["nvlink"] == ("passed", "36 links at 26.562 GB/s")
    assert rows["nvlink errors"] == ("passed", "none; 0 replays")
    assert rows["copy GPU to GPU"] == ("passed", "393.7 to 393.8 GB/s")


def _judged(name: str, text: str, gpus: int) -> list[tuple[str, str]]:
    probe = Probe(name=name, kind="node", rails=(), nodes=("gpu01",), ranks=gpus)
    item = digest_log(probe, text, outcome="completed")
    return [(row.check, row.verdict) for row in judge_probe(item, Limits())]


def test_a_load_that_failed_hides_nothing_that_the_gpus_said() -> None:
    rows = _judged("node-gpu01", (RECORDED / "node_load_fails.log").read_text(), 4)
    assert rows[:3] == [("run", "failed"), ("gpus", "failed"), ("gpu memory", "passed")]


def test_nccl_between_two_gpus_is_held_to_their_nvlinks() -> None:
    """The collective was recorded on two H200, the looks on another machine with one."""
    load = (RECORDED.parent / "nccl" / "all_reduce_nvlink.txt").read_text()
    both = [text + text.replace("GPU 0", "GPU 1") for text in (LINKS, ERRORS)]
    whole = _with_links(_many(GOOD, 2), *both).replace("burnt\n", load)
    rows = dict(_judged("node-gpu01", whole, 2))
    assert rows["transport"] == "passed"
    assert rows["bandwidth"] == "passed"


def test_the_power_cap_of_a_loaded_h200_is_no_fault() -> None:
    rows = _rows(GOOD)
    assert "0x0000000000000004" in GOOD
    assert rows["gpu clocks"] == ("passed", "GPU 0 (00:06.0) 1410 MHz")
    assert rows["copy host to GPU"] == ("passed", "54.3 to 54.3 GB/s")


@pytest.mark.parametrize(
    ("old", "new", "check", "said"),
    [
        ("0, 0, No, No", "0, 1, Yes, No", "gpu memory", "rows wait to be replaced: reset it"),
        ("0, 0, No, No", "0, 9, No, Yes", "gpu memory", "no spare row is left"),
        ("06.0, None", "06.0, Reset", "gpu memory", "the driver asks for: Reset"),
        ("1980, 0, 0, 0x", "1980, 0, 3, 0x", "gpu memory", "3 errors not corrected"),
        (f"{_ROW} 62", _ROW.replace("16, 16", "8, 16") + " 62", "gpu pcie", "8 of 16 lanes"),
        (f"{_ROW} 62", _ROW.replace("5, 5", "1, 5") + " 62", "gpu pcie", "PCIe 1 of 5"),
        ("0x0000000000000004", "0x0000000000000044", "gpu clocks", "because of heat at 62 °C"),
        ("0x0000000000000004", "0x0000000000000080", "gpu clocks", "power brake"),
        ('"54.3', '"24.2', "copy host to GPU", "GPU 0: 24."),
        ('"status" : "Passed"', '"status" : "Failed"', "copy GPU to host", "Failed"),
    ],
)
def test_one_fault_fails_one_row_and_names_the_gpu(
    old: str, new: str, check: str, said: str
) -> None:
    assert old in GOOD
    verdict, actual = _rows(GOOD.replace(old, new))[check]
    assert verdict == "failed"
    assert said in actual


def test_a_gpu_that_is_gone_after_the_load_is_missed() -> None:
    whole = _many(GOOD, 8)
    assert _rows(whole, 8)["gpus"] == ("passed", "8")
    before, after = whole.rsplit("begin after", 1)
    gone = before + "begin after" + re.sub(r"railyard-node: gpu 7.*\n", "", after)
    assert _rows(gone, 8)["gpus"] == ("failed", "7 and 8")


def test_a_gpu_off_the_bus_is_not_taken_for_a_missing_tool() -> None:
    said = "Unable to determine the device handle for GPU0000:06:00.0: Unknown Error"
    rows = _rows(f"railyard-node: phase begin before\nrailyard-node: gpu {said}\n", 8)
    assert rows["gpus"] == ("failed", f"gpu: {said}")


def test_an_image_without_nvidia_smi_cannot_be_judged() -> None:
    rows = _rows("railyard-node: absent nvidia-smi\nrailyard-node: phase end\n", 8)
    assert rows["gpus"] == ("error", "absent from the image: nvidia-smi")


def _with_links(text: str, links: str, errors: str) -> str:
    block = "".join(f"railyard-node: nvlink {line}\n" for line in (links + errors).splitlines())
    return re.sub(r"(railyard-node: recovery .*\n)", lambda found: found[1] + block, text)


LINKS = "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-a)\n" + "".join(
    f"         Link {number}: 26.562 GB/s\n" for number in range(18)
)
ERRORS = "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-a)\n" + "".join(
    f"         Link {number}: {kind} Errors: 0\n"
    for number in range(18)
    for kind in ("Replay", "Recovery", "CRC")
)


def test_eighteen_links_at_one_speed_pass() -> None:
    rows = _rows(_with_links(GOOD, LINKS, ERRORS))
    assert rows["nvlink"] == ("passed", "18 links at 26.562 GB/s")
    assert rows["nvlink errors"] == ("passed", "none; 0 replays")


@pytest.mark.parametrize(
    ("state", "said"),
    [("<inactive>", "GPU 0 link 7 is down"), ("1.562 GB/s", "link 7 has 1.562 of 26.562 GB/s")],
)
def test_a_link_that_is_down_or_slow_is_named(state: str, said: str) -> None:
    links = LINKS.replace("Link 7: 26.562 GB/s", f"Link 7: {state}")
    verdict, actual = _rows(_with_links(GOOD, links, ERRORS))["nvlink"]
    assert verdict == "failed"
    assert said in actual


def test_nvlinks_that_are_all_inactive_prove_nothing() -> None:
    links = LINKS.replace("26.562 GB/s", "<inactive>")
    verdict, actual = _rows(_with_links(GOOD, links, ERRORS))["nvlink"]
    assert (verdict, "all 18 are inactive" in actual) == ("skipped", True)


def test_errors_of_a_link_count_only_as_far_as_they_grew() -> None:
    old = _with_links(GOOD, LINKS, ERRORS.replace("Link 7: CRC Errors: 0", "Link 7: CRC Errors: 5"))
    assert _rows(old)["nvlink errors"][0] == "passed"
    before, after = old.rsplit("begin after", 1)
    grown = before + "begin after" + after.replace("Link 7: CRC Errors: 5", "Link 7: CRC Errors: 9")
    assert _rows(grown)["nvlink errors"] == ("failed", "GPU 0 link 7 CRC: 4")


def test_a_gpu_20_percent_below_its_siblings_fails_above_the_floor() -> None:
    values = {f"GPU {number}": 100.0 for number in range(8)}
    assert below_siblings(values) == []
    assert below_siblings(values | {"GPU 3": 79.0}) == ["GPU 3: 79, the median is 100"]
    assert below_siblings({"GPU 0": 100.0, "GPU 1": 10.0}) == []


MESH = (
    "x1122...", "1x21.2..", "12x2..1.", "212x...1", "2...x112", ".2..1x21", "..1.12x2", "...1212x",
)  # fmt: skip
"""NVLinks between two GPUs of a DGX-1, which has no NVSwitch."""
SWITCHED = tuple("8" * n + "x" + "8" * (7 - n) for n in range(8))


def _copies(links: Sequence[str], slow_from: int = 8, slow_to: int = 8) -> tuple[str, str]:
    """The verdict on copies between GPUs: 20 GB/s of each NVLink, 12 of a slow GPU's."""
    matrix = [
        [
            str((12 if row == slow_from or column == slow_to else 20) * int(each))
            if each.isdigit()
            else "N/A"
            for column, each in enumerate(line)
        ]
        for row, line in enumerate(links)
    ]
    test = {"name": "device_to_device_memcpy_read_ce", "status": "Passed"}
    text = json.dumps({"testcases": [{**test, "bandwidth_matrix": matrix}]})
    looks = _many(re.sub(r"railyard-node: nvbandwidth .*\n", "", GOOD), 8)
    return _rows(f"{looks}\nrailyard-node: nvbandwidth {text}\n", 8)["copy GPU to GPU"]


def test_gpus_of_a_mesh_share_one_nvlink_or_two() -> None:
    assert _copies(MESH) == ("passed", "20.0 to 40.0 GB/s")
    assert _copies(SWITCHED) == ("passed", "160.0 to 160.0 GB/s")


def test_copies_without_a_number_are_no_pass() -> None:
    assert _copies(["xx", "xx"]) == ("failed", "no number")


@pytest.mark.parametrize("links", [MESH, SWITCHED], ids=["mesh", "switched"])
@pytest.mark.parametrize("slow", [(3, 8), (8, 3), (3, 3)], ids=["from", "to", "both"])
def test_a_slow_gpu_of_a_mesh_or_a_switch_is_named(
    links: Sequence[str], slow: tuple[int, int]
) -> None:
    verdict, actual = _copies(links, *slow)
    assert verdict == "failed"
    assert all("GPU 3" in part for part in actual.split("; "))


def _dcgm(value: object) -> str:
    lines = json.dumps(value, indent=1).splitlines()
    block = "".join(f"railyard-node: dcgm {line}\n" for line in lines)
    return GOOD.replace("railyard-node: absent dcgmi\n", block)


@pytest.mark.parametrize(
    ("result", "verdict"),
    [
        ({"gpu_ids": "0,1", "status": "PASS"}, "passed"),
        ({"gpu_ids": "1", "status": "Fail", "warnings": [{"warning": "x"}]}, "failed"),
        ({"entity_group": "GPU", "entity_id": 1, "status": "Pass"}, "passed"),
        ({"entity_group": "GPU", "entity_id": 1, "status": "Fail"}, "failed"),
        ({"entity_group": "GPU", "entity_id": 1, "status": "Skip"}, "failed"),
    ],
)
def test_dcgm_of_both_generations(result: object, verdict: str) -> None:
    tests = [{"name": "memory", "results": [result]}]
    whole = {"DCGM Diagnostic": {"test_categories": [{"category": "Hardware", "tests": tests}]}}
    assert _rows(_dcgm(whole))["dcgm"][0] == verdict


@pytest.mark.parametrize(("name", "gpus"), [("node_burn", 1), ("two_gpus_nccl", 2)])
def test_no_cut_of_a_good_log_is_a_pass(name: str, gpus: int) -> None:
    """A log that ends early does not have all of the look after the load."""
    lines = (RECORDED / f"{name}.log").read_text().partition(f"{MARK}phase end")[0].splitlines()
    ends = [*range(1, len(lines), 7), *range(len(lines) - 3, len(lines) + 1)]
    passed = [end for end in ends if _exit_code("\n".join(lines[:end]), gpus) == 0]
    assert passed == []


def _exit_code(text: str, gpus: int) -> int:
    return judge_node_text(text, gpus).exit_code


def test_an_nvlink_that_is_not_shown_after_the_load_is_missed() -> None:
    whole = (RECORDED / "two_gpus_nccl.log").read_text()
    before, after = whole.rsplit("begin after", 1)
    none = re.sub(r"railyard-node: nvlink \t Link .*\n", "", after)
    one = after.replace("railyard-node: nvlink \t Link 7: 26.562 GB/s\n", "", 1)
    assert none != after != one
    for text, gone in ((none, "GPU 1 link 17"), (one, "GPU 0 link 7")):
        verdict, actual = _rows(f"{before}begin after{text}", 2)["nvlink"]
        assert verdict == "failed"
        assert f"{gone} is not shown any more" in actual


@pytest.mark.parametrize("text", ["", "nothing of the kind\n", "\x00" * 50])
def test_a_log_without_marks_is_a_problem(text: str) -> None:
    assert isinstance(parse_node_log(text), ParseProblem)


@pytest.mark.parametrize("text", ["{", "{]}", '{"a":' * 3000, "ERROR: no device"])
def test_broken_json_is_said_and_fails_nothing_by_itself(text: str) -> None:
    block = "".join(f"railyard-node: dcgm {line}\n" for line in text.splitlines())
    rows = _rows(GOOD.replace("railyard-node: absent dcgmi\n", block))
    assert "dcgm" not in rows
    assert rows["gpu texts"][0] == "skipped"


FAKES = {
    "sleep": "exit 0",
    "nvidia-smi": "echo 0, 00000000:06:00.0",
    # The load ends when the first look during it begins, and this look goes on after that.
    "sed": """
read -r line
if [ "$line" = "begin load" ]; then
  : >"$SEEN"
  while [ ! -s "$LOAD" ] || kill -0 "$(cat "$LOAD")" 2>/dev/null; do :; done
fi
printf '%s\\n' "$line" | /bin/sed "$@"
""",
}


def test_a_look_that_the_end_of_the_load_meets_is_whole(tmp_path: Path) -> None:
    for name, text in FAKES.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}")
        (tmp_path / name).chmod(0o755)
    said = subprocess.run(
        ["/bin/sh", "-c", job_script("node_health")],
        env={
            "PATH": f"{tmp_path}:/usr/bin:/bin",
            "SEEN": str(tmp_path / "seen"),
            "LOAD": str(tmp_path / "load"),
            "load": 'echo "$$" >"$LOAD"; while [ ! -e "$SEEN" ]; do :; done',
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout.splitlines()
    looks = [said[number + 1] for number, line in enumerate(said) if line.endswith("begin load")]
    assert looks
    assert {look.removeprefix(MARK).partition(",")[0] for look in looks} == {"gpu 0"}
