"""The two scripts around perftest: which attempts there are, and what the judge makes of them.

The words of the tool are those of perftest V4.2-0.8 to 26.04.17, src/perftest_communication.c.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from components.acceptance.judge.log import judge_perftest_text
from components.acceptance.logs.log_model import PerftestLog
from components.acceptance.logs.perftest import parse_perftest_log
from components.jobs.templates import job_script
from tests.acceptance.recordings import load_perftest

GOOD = load_perftest("deepops_dgx1_roce_flattened")
RETRY_EXCEEDED = (
    " Completion with error at client\n Failed status 12: wr_id 0 syndrom 0x81\nscnt=128, ccnt=0\n"
)
REFUSED = "Unexpected CM event bl blka 8\n Unable to perform rdma_client function\n"
NO_ADDRESS = "Received 10 times ADDR_ERROR\n Unable to perform rdma_client function\n"
NO_TCP = "Couldn't connect to 10.0.0.1:18515\nUnable to open file descriptor for socket connection"


def run_script(name: str, folder: Path, *attempts: tuple[str, int]) -> tuple[int, str]:
    """Run a script whose tool says and returns one of these at each call, the last for ever."""
    for number, (text, status) in enumerate(attempts, 1):
        (folder / f"{number}.text").write_text(text)
        (folder / f"{number}.status").write_text(str(status))
    tool = folder / "tool"
    tool.write_text(
        f"#!/bin/sh\ncd {folder}\nn=$(($(cat n 2>/dev/null || echo 0) + 1))\n"
        "[ -e $n.text ] || n=$((n - 1))\necho $n > n\ncat $n.text\nexit $(cat $n.status)\n"
    )
    tool.chmod(0o755)
    script = "set -eu\n" + job_script(name).replace("ib_write_bw_call", str(tool))
    script = script.replace("/tmp/perftest.log", f"{folder}/log").replace("sleep 2", "sleep 0")
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.returncode, done.stdout


@pytest.mark.parametrize("waits", [REFUSED, NO_ADDRESS, NO_TCP])
def test_a_client_waits_for_its_server_and_its_log_says_so(waits: str, tmp_path: Path) -> None:
    status, log = run_script("perftest_client", tmp_path, (waits, 1), (waits, 1), (GOOD, 0))
    assert status == 0
    assert log.count(waits.strip()) == 2
    assert "attempt 2 ended with status 1: the server is not ready, trying again\n" in log
    assert log.rstrip().endswith("railyard: attempt 3 ended with status 0")
    alone, parsed = parse_perftest_log(GOOD), parse_perftest_log(log)
    assert isinstance(parsed, PerftestLog)
    assert isinstance(alone, PerftestLog)
    assert parsed.notes == ("the client waited for its server", *alone.notes)
    assert parsed.model_copy(update={"notes": alone.notes}) == alone
    assert judge_perftest_text(log).exit_code == 0


@pytest.mark.parametrize(
    "fails",
    [
        RETRY_EXCEEDED,
        "Unexpected CM event bl blka 7\n Unable to perform rdma_client function\n",
        f"{RETRY_EXCEEDED}Couldn't connect to 10.0.0.1:18515\n",
        "Couldn't allocate MR\n",
        "",
    ],
)
def test_any_other_failure_ends_the_client_at_once(fails: str, tmp_path: Path) -> None:
    status, log = run_script("perftest_client", tmp_path, (fails, 3), (GOOD, 0))
    assert status == 3
    assert log == f"railyard: attempt 1\n{fails}\nrailyard: attempt 1 ended with status 3\n"


@pytest.mark.parametrize("words", ["", ": the server is not ready, trying again"])
def test_the_judge_sees_a_failed_attempt_before_a_good_one(words: str) -> None:
    log = (
        f"railyard: attempt 1\n{RETRY_EXCEEDED}railyard: attempt 1 ended with status 1{words}\n"
        f"railyard: attempt 2\n{GOOD}\nrailyard: attempt 2 ended with status 0\n"
    )
    assert judge_perftest_text(log).exit_code == 1
    unfinished = log.replace(RETRY_EXCEEDED, REFUSED).partition("railyard: attempt 2")[0]
    assert judge_perftest_text(unfinished).exit_code != 0


@pytest.mark.parametrize("waits", [REFUSED, NO_ADDRESS, NO_TCP])
def test_waiting_for_the_second_server_of_a_sweep_is_no_failure_of_the_first_test(
    waits: str,
) -> None:
    first = f"railyard: attempt 1\n{GOOD}\nrailyard: attempt 1 ended with status 0\n"
    waited = "railyard: attempt 1\n{}\nrailyard: attempt 1 ended with status 1{}\n".format
    second = first.replace("RDMA_Write", "RDMA_Read").replace("attempt 1", "attempt 2")
    again = ": the server is not ready, trying again"
    parsed = parse_perftest_log(first + waited(waits, again) + second)
    assert isinstance(parsed, PerftestLog)
    assert [run.test for run in parsed.runs] == ["RDMA_Write BW Test", "RDMA_Read BW Test"]
    assert not any(run.failures for run in parsed.runs)
    given_up = parse_perftest_log(first + waited(waits, ""))
    assert isinstance(given_up, PerftestLog)
    assert [bool(run.failures) for run in given_up.runs] == [False, True]


def test_a_server_that_never_listens_is_given_up(tmp_path: Path) -> None:
    script = job_script("perftest_client")
    assert "${patience:-120}" in script
    status, log = run_script("perftest_client", tmp_path, (NO_TCP + "\n", 1), (RETRY_EXCEEDED, 2))
    assert status == 2
    assert "attempt 1 ended with status 1: the server" in log
    assert judge_perftest_text(log).exit_code == 1


def test_a_server_says_how_it_ended(tmp_path: Path) -> None:
    text = "Couldn't listen to port 18515\n"
    status, log = run_script("perftest_server", tmp_path, (text, 1))
    assert status == 1
    assert log == f"railyard: attempt 1\n{text}\nrailyard: attempt 1 ended with status 1\n"
