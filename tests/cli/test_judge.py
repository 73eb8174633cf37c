from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.recordings import FOLDER, load_nccl
from tests.cli.conftest import Call


@pytest.mark.parametrize(
    ("kind", "log", "options", "code", "words"),
    [
        ("nccl", "all_reduce_nvlink", ["--expect", "nvlink"], 0, "passed"),
        ("nccl", "crusoe_h100_ib", ["--expect", "ib", "--min-busbw", "360"], 0, "passed"),
        ("nccl", "crusoe_h100_ib", ["--expect", "ib", "--min-busbw", "390"], 1, "386.65"),
        ("nccl", "all_reduce_socket", ["--expect", "roce"], 1, "NET/Socket"),
        ("nccl", "all_reduce_socket", [], 0, "not proven"),
        ("nccl", "deepops_dgx1_roce", ["--expect", "roce"], 4, "transport"),
        ("nccl", "h200x4_no_interface", [], 1, "failed"),
        ("perftest", "deepops_dgx1_roce_flattened", ["--min-gbit", "90"], 0, "passed"),
        ("perftest", "deepops_dgx1_roce_flattened", ["--min-gbit", "95"], 1, "92.4"),
        ("perftest", "deepops_dgx1_roce_flattened", ["--expect", "ib"], 1, "Ethernet"),
    ],
)
def test_recorded_logs(
    railyard: Call, kind: str, log: str, options: list[str], code: int, words: str
) -> None:
    done = railyard("judge", kind, str(FOLDER / kind / f"{log}.txt"), *options)
    assert (done.code, done.err) == (code, "")
    assert words in done.out


@pytest.mark.parametrize("kind", ["nccl", "perftest"])
@pytest.mark.parametrize("text", ["", "hello\n", load_nccl("all_reduce_nvlink")[:300]])
def test_what_is_no_whole_log_cannot_be_judged(railyard: Call, kind: str, text: str) -> None:
    done = railyard("judge", kind, "-", stdin=text)
    assert done.code == 4
    assert done.out.startswith("error: ")


@pytest.mark.parametrize("kind", ["nccl", "perftest"])
def test_a_missing_log_is_exit_2(railyard: Call, kind: str, tmp_path: Path) -> None:
    done = railyard("judge", kind, str(tmp_path / "none.log"))
    assert (done.code, done.out) == (2, "")
    assert "none.log: the log cannot be read: No such file" in done.err


def test_a_transport_that_does_not_exist_is_exit_2(railyard: Call) -> None:
    assert railyard("judge", "nccl", "-", "--expect", "carrier-pigeon").code == 2


def test_json_says_the_same(railyard: Call) -> None:
    log = str(FOLDER / "nccl" / "all_reduce_socket.txt")
    done = railyard("judge", "nccl", log, "--expect", "roce", "--format", "json")
    data = json.loads(done.out)
    assert (done.code, data["exit_code"], data["verdict"]) == (1, 1, "failed")


@pytest.mark.parametrize("value", ["nan", "inf", "1e400", "-1"])
@pytest.mark.parametrize(
    ("kind", "option"),
    [
        ("nccl", "--min-busbw"),
        ("perftest", "--min-gbit"),
        ("deepspeed", "--min-gbit"),
        ("training", "--min-images"),
    ],
)
def test_a_floor_that_is_no_number_is_exit_2(
    railyard: Call, kind: str, option: str, value: str
) -> None:
    done = railyard("judge", kind, "-", f"{option}={value}")
    assert (done.code, done.out) == (2, "")
    assert "is neither a lowest bandwidth" in done.err


_ALONE = """
import sys
from components.cli.judge import main

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {refused!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Refuse())
sys.argv = ["railyard-judge", *{words!r}]
try:
    main()
finally:
    third = {{name.partition(".")[0] for name in sys.modules}}
    print("brought:", *sorted(third & set({refused!r})))
"""
_NOT_FOR_LOGS = (
    "pulumi", "pulumi_command", "pulumi_kubernetes", "kubernetes", "asyncssh", "netmiko",
    "cryptography", "matplotlib", "ruamel", "urllib3", "grpc", "google",
)  # fmt: skip


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("perftest", "perftest/deepops_dgx1_roce_flattened.txt", "--expect", "roce"), 0),
        (("perftest", "perftest/deepops_dgx1_roce_flattened.txt", "--min-gbit", "99"), 1),
        (("nccl", "nccl/crusoe_h100_ib.txt"), 0),
        (("training", "training/nvaie_resnet50.txt", "--format", "json"), 0),
        (("nccl", "no_such_file"), 2),
    ],
)
def test_the_judge_alone_needs_no_library_of_the_other_commands(
    words: tuple[str, ...], code: int
) -> None:
    recorded = Path(__file__).parents[1] / "acceptance" / "recorded"
    words = (words[0], str(recorded / words[1]), *words[2:])
    call = _ALONE.format(refused=_NOT_FOR_LOGS, words=words)
    done = subprocess.run([sys.executable, "-c", call], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (code, "brought:"), done.stderr


def test_the_judge_is_a_module_that_runs() -> None:
    call = [sys.executable, "-m", "components.cli.judge", "perftest", "--help"]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    assert (done.returncode, "--max-tail-usec" in done.stdout) == (0, True)


@pytest.mark.parametrize(
    ("name", "gpus", "code"),
    [("node_burn", 1, 0), ("node_burn", 8, 1), ("node_nccl", 1, 4), ("node_load_fails", 1, 1)],
)
def test_the_gpus_of_a_machine(railyard: Call, name: str, gpus: int, code: int) -> None:
    """A collective of one rank proves nothing, so that log cannot be judged as a whole."""
    file = FOLDER / "node" / f"{name}.log"
    assert railyard("judge", "node", str(file), "--gpus", str(gpus)).code == code


def test_another_log_is_none_of_a_machine(railyard: Call, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("# nThread 1\n")
    done = railyard("judge", "node", str(tmp_path / "x"), "--gpus", "8")
    assert done.code == 4
    assert "said nothing of its GPUs" in done.out
