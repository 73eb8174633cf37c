"""Ranks of a training whose image lacks Python, the script, or a module of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.submit.follow import Ended, judge_end
from components.submit.make import RESNET
from tests.lab_cluster.test_pod_devices import MPIRUN, hca_devices, launch
from tests.submit.jobs import asked_for, job_of

CALL = [*MPIRUN[:4], "--tag-output", "-np", "2", *RESNET]
SCRIPT = "/horovod/examples/tensorflow2/tensorflow2_synthetic_benchmark.py"
NO_SCRIPT = f"python: can't open file '{SCRIPT}': [Errno 2] No such file or directory"
IMAGE = "registry.example/horovod:0.28.1"


def test_an_image_of_horovod_runs_its_benchmark(tmp_path: Path) -> None:
    log, code, asked = launch(CALL, hca_devices(tmp_path), set(), IMAGE, IMAGE)
    assert (log, code, len(asked)) == ("played\n", 0, 1)


@pytest.mark.parametrize(
    ("image", "code", "said", "cause"),
    [
        (
            "lab.railyard.dev/no-horovod:1",
            1,
            "[1,0]<stderr>:ModuleNotFoundError: No module named 'horovod'",
            "the image's Python lacks that module",
        ),
        (
            "lab.railyard.dev/no-benchmark:1",
            2,
            f"[1,0]<stderr>:{NO_SCRIPT}",
            "the image lacks the program, or a mount is missing",
        ),
        (
            "reg/roce/nccl-roce-test:1",
            134,
            "Executable: python",
            "the image of that host lacks the program, or has it in another folder",
        ),
    ],
)
def test_an_image_without_it_fails_and_its_cause_is_named(
    tmp_path: Path, image: str, code: int, said: str, cause: str
) -> None:
    log, exit_code, asked = launch(CALL, hca_devices(tmp_path), set(), IMAGE, image)
    assert (exit_code, asked) == (code, [])
    assert said in log.splitlines()
    submitted = asked_for("horovod")
    job = job_of(submitted)
    told = judge_end(submitted, job.limits, job.watched[0].probe, Ended(log, "it failed"))
    assert (told.verdict, told.exit_code) == ("failed", 1)
    assert cause in "\n".join(told.lines)
