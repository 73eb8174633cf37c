"""How runs fail, by what launchers, hosts and programs print; and that no row is out of reach."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.acceptance.judge.log import judge_nccl_text, judge_perftest_text
from components.acceptance.logs.lines import (
    HARMLESS,
    Cause,
    causes_of,
    has_hint,
    nccl_finder,
    perftest_finder,
)
from lab.pods import recorded as pods
from tests.acceptance.recordings import load_nccl, load_perftest

LINES = [
    "srun: error: gpu02: task 3: Exited with exit code 1",
    "srun: error: gpu02: tasks 8-15: Killed",
    "slurmstepd: error: Detected 1 oom_kill event in StepId=77.0. Some of the step tasks failed.",
    "slurmstepd: error: *** STEP 7.0 ON gpu01 CANCELLED AT 2026-11-21T10:00:00 DUE TO TIME LIMIT",
    "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.",
    "Primary job  terminated normally, but 1 process returned\na non-zero exit code.",
    "mpirun noticed that process rank 3 with PID 0 on node gpu02 exited on signal 9 (Killed).",
    "prterun detected that one or more processes exited with non-zero status, thus causing",
    "  Exit code:    7",
    "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES",
    "=   KILLED BY SIGNAL: 9 (Killed)",
    "command terminated with exit code 137",
    'Error from server (NotFound): pods "nccl-launcher" not found',
    "      Reason:       OOMKilled",
    "nccl-launcher  0/1  Evicted",
    "Job has reached the specified backoff limit: BackoffLimitExceeded",
    "Out of memory: Killed process 4242 (all_reduce_perf) total-vm:7kB",
    "all_reduce_perf invoked oom-killer: gfp_mask=0xcc0",
    "Killed",
    "/bin/sh: line 1:    77 Killed                  all_reduce_perf -g 8",
    "Terminated",
    "Segmentation fault (core dumped)",
    "[rank3]:[E ProcessGroupNCCL.cpp:616] [Rank 3] Watchdog caught collective operation timeout:",
    "[rank0]:[E] Process group watchdog thread terminated with exception: NCCL error",
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:",
    "  exitcode  : -6 (pid: 4242)",
    "watchdog: BUG: soft lockup - CPU#3 stuck for 22s!",
    "INFO: task all_reduce_perf:4242 blocked for more than 120 seconds.",
    "NVRM: Xid (PCI:0000:1a:00): 79, pid=4242, GPU has fallen off the bus.",
    "nccl.service: Main process exited, code=exited, status=7/NOTRUNNING",
    "nccl.service: Failed with result 'signal'.",
    "nccl-1 exited with code 139",
    "timeout: sending signal TERM to command 'mpirun'",
    "error: timed out waiting for the condition on jobs/nccl",
    "Error: exit status 7",
    "ssh: connect to host gpu02 port 22: Connection refused",
    "error: unexpected EOF",
    "client_loop: send disconnect: Broken pipe",
    "OCI runtime exec failed: exec failed: unable to start container process: exec format error",
    "job.batch/nccl failed: Job has reached the specified backoff limit",
    "=>> PBS: job killed: walltime 3605 exceeded limit 3600",
    "TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.",
    "TERM_RUNLIMIT: job killed after reaching LSF run time limit.",
    "# Avg bus bandwidth    : 105.46 FAILED",
    "# error: unhandled system error (run with NCCL_DEBUG=INFO for details)",
    "gpu01:1:1 [0] NCCL INFO comm 0x7f rank 0 nranks 2 cudaDev 0 busId 60 - Abort COMPLETE",
]  # fmt: skip


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("before", ["", "Nov 21 10:00:00 gpu01 nccl[7]: ", "[1,1]<stderr>:"])
def test_a_line_of_failure_outweighs_a_perfect_table(line: str, before: str) -> None:
    text = load_nccl("all_reduce_nvlink")
    shown = "\n".join(before + part for part in line.split("\n"))
    assert judge_nccl_text(f"{text}{shown}\n").exit_code == 1


@pytest.mark.parametrize("line", LINES[:5] + LINES[11:20])
def test_a_line_of_failure_outweighs_a_perfect_perftest(line: str) -> None:
    text = load_perftest("aks_write_bw")
    assert judge_perftest_text(text).exit_code == 0
    assert judge_perftest_text(f"{text}{line}\n").exit_code == 1


ROWS = {
    row.pattern.pattern: row
    for row in (*nccl_finder().tables, *perftest_finder().tables)
    if row.kind != HARMLESS
}


@given(st.data())
@settings(max_examples=15, deadline=None)
@pytest.mark.parametrize("row", ROWS.values(), ids=lambda row: row.kind)
def test_the_cheap_look_before_the_patterns_loses_none(row: Cause, data: st.DataObject) -> None:
    line = data.draw(
        st.from_regex(row.pattern, fullmatch=True, alphabet=st.characters(codec="ascii"))
    )
    assert has_hint(line)


ENDS = {
    # name in the record: kind of the cause, and what is to be looked for
    "no-program": ("missing_program", "lacks the program"),
    "rank-failed": ("no_device", "card, driver, address and link"),
    "other-port": ("launcher", "no sshd answers"),
    "other-host-key": ("host_key", "another key than the pinned one"),
    "no-daemon": ("missing_program", "lacks the program"),
    "no-root-login": ("ssh_login", "key is not let in"),
}


@pytest.mark.parametrize(("name", "said"), ENDS.items())
def test_an_mpirun_that_real_nodes_ended_has_its_cause(name: str, said: tuple[str, str]) -> None:
    recorded = json.loads((Path(pods.__file__).parent / "mpirun.json").read_text())
    assert recorded.keys() == ENDS.keys()
    kind, look = said
    for judge in (judge_nccl_text, judge_perftest_text):
        shown = "\n".join(judge(recorded[name]["log"]).lines)
        assert f"actual {kind}: " in shown
        assert look in shown


def test_every_harmless_line_has_a_source() -> None:
    assert all(len(row.meaning) > 10 for row in causes_of("nccl") if row.kind == HARMLESS)
    assert all(row.meaning and row.kind for row in ROWS.values())


def test_a_thousand_ranks_that_complain_leave_the_cause() -> None:
    finder = nccl_finder()
    for rank in range(1000):
        finder.feed(f"gpu{rank}: Test NCCL failure common.cu:1 'unhandled system error'")
    finder.feed("gpu7:1:1 [0] ib.cc:1 NCCL WARN Call to ibv_modify_qp failed with error No route")
    assert len(finder.failures) < 50
    assert [each.kind for each in finder.failures if not each.is_consequence] == ["ibv_modify_qp"]


BEFORE = [
    "ssh: connect to host nccl-worker-0.nccl port 22: Connection refused",
    "ssh: Could not resolve hostname nccl-worker-1.nccl: Name or service not known",
    "kex_exchange_identification: Connection closed by remote host",
    "Permission denied (publickey).",
    "error: timed out waiting for the condition on pods/nccl-worker-0",
    'Error from server (NotFound): mpijobs.kubeflow.org "nccl" not found',
    "slurmstepd: error: couldn't chdir to `/home/u': No such file: going to /tmp instead",
    "web-5f7   0/1   CrashLoopBackOff   12 (3m ago)   3d",
    "old-job-x2   0/1   Evicted   0   3d",
    "kubectl exited with exit code 1",
    "Traceback (most recent call last):",
    "srun: error: Unable to create step for job 7: Job/step already completing",
]


@pytest.mark.parametrize("line", BEFORE)
def test_what_is_said_before_a_whole_run_is_a_warning(line: str) -> None:
    text = load_nccl("all_reduce_nvlink")
    judged = judge_nccl_text(f"{line}\n{text}")
    assert judged.exit_code == 0
    assert any("SKIPPED warnings" in each and line[:20] in each for each in judged.lines)
    assert judge_nccl_text(f"{line}\n").exit_code in (1, 4)
    cut = text[: text.index("Out of bounds")]
    assert judge_nccl_text(f"{line}\n{cut}").exit_code == 1


def test_a_long_wait_before_a_run_hides_no_failure_of_it() -> None:
    wait = "ssh: connect to host w1 port 22: Connection refused\n" * 100
    text = wait + load_nccl("all_reduce_nvlink")
    assert judge_nccl_text(text).exit_code == 0
    down = "w1:1:2 [0] ib.cc:1 NCCL WARN NET/IB : mlx5_3:1 Got async error event: port error\n"
    judged = judge_nccl_text(text + down)
    assert judged.exit_code == 1
    assert "port_down" in "\n".join(judged.lines)


def test_a_helper_that_a_script_ends_is_no_failure() -> None:
    text = load_nccl("all_reduce_nvlink")
    for helper in ("sleep 600", "kubectl logs -f nccl", "tail -f x"):
        assert judge_nccl_text(f"{text}a.sh: line 4: 81 Terminated      {helper}\n").exit_code == 0
    assert judge_nccl_text(f"{text}a.sh: line 4: 81 Terminated   mpirun -np 8\n").exit_code == 1


@pytest.mark.parametrize("name", ["oom-killer-a1", "gpu-xid-7", "fatal-evicted", "exit-code-1"])
def test_a_host_may_have_a_word_of_failure_as_its_name(name: str) -> None:
    text = load_nccl("all_reduce_nvlink")
    shown = re.sub(r"( on\s+)\S+( device )", rf"\g<1>{name}\2", text)
    assert shown != text
    assert judge_nccl_text(shown).exit_code == judge_nccl_text(text).exit_code == 0
    after = f"{shown}Warning: Permanently added '{name}' to the list of known hosts.\n"
    assert judge_nccl_text(after).exit_code == 0
    assert judge_nccl_text(f"{shown}srun: error: {name}: task 3: Killed\n").exit_code == 1


PAGES = {
    "markdown": """
## Troubleshooting

If a rail is down, NCCL says so in its log, for example:

```
{}
```
""",
    "restructured": """
.. code-block:: text

   {}

The two hosts cannot reach each other over that rail, so look at the VLAN first.
""",
    "html": """
<p>When the link goes down you will find a line like this one in the log:</p>
<pre>{}</pre>
""",
    "plain": """
Your job may stop with an error that looks like the one below:
{}
In most of these cases the switch port has another MTU than the host.
The same can come from a wrong GID index on one of the two hosts.
""",
}


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_a_page_that_quotes_lines_of_a_log_cannot_be_judged(page: str) -> None:
    line = "gpu01:1:2 [0] ib.cc:1 NCCL WARN Call to ibv_modify_qp failed with error timed out"
    assert judge_nccl_text(f"{line}\n").exit_code == 1
    assert judge_nccl_text(page.format(line)).exit_code == 4
