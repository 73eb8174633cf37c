"""What Horovod's own benchmark of TensorFlow prints, as fast as its all-reduce lets it be.

Layout, defaults and that the first rank alone prints: its `tensorflow2_synthetic_benchmark.py`
(lab/sources.md#trainer).
"""

from __future__ import annotations

from components.core.errors import UsageError
from lab.physics import nccl_text as text
from lab.physics.calibration import (
    HOROVOD_BATCH,
    HOROVOD_IMAGES_S,
    HOROVOD_RAILS,
    HOROVOD_RANKS,
)
from lab.physics.command_line import find_tool
from lab.physics.nccl_job import NcclJob, find_workers
from lab.physics.path import Site
from lab.physics.request import ProbeRequest, ProbeResult
from lab.physics.training import Benchmark, Guide, play_benchmark, training_job

PROGRAM = "tensorflow2_synthetic_benchmark.py"
_GUIDE = Guide(HOROVOD_IMAGES_S, HOROVOD_RANKS, HOROVOD_BATCH, HOROVOD_RAILS)
_DEFAULTS = {
    "--model": "ResNet50",
    "--batch-size": "32",
    "--num-warmup-batches": "10",
    "--num-batches-per-iter": "10",
    "--num-iters": "10",
}
"""Its options that take a value."""


def run_horovod(request: ProbeRequest, site: Site) -> ProbeResult:
    """Plays `mpirun ... python tensorflow2_synthetic_benchmark.py`.

    Raises:
        UsageError: Another model, or an option that the lab does not play.
    """
    launcher, _ = find_workers(request)
    call = find_tool(launcher.command, launcher.env, PROGRAM)
    asked = _options(call.arguments)
    if asked["--model"] != _DEFAULTS["--model"]:
        raise UsageError(f"the lab plays --model {_DEFAULTS['--model']}, not {asked['--model']}")
    rounds = int(asked["--num-iters"])
    steps = rounds * int(asked["--num-batches-per-iter"])
    job = training_job(request, call, steps, int(asked["--num-warmup-batches"]))
    batch = int(asked["--batch-size"])

    def lines(job: NcclJob, each: float) -> list[text.Line]:
        return [text.Line(0, word) for word in _words(len(job.ranks), batch, rounds, each)]

    return play_benchmark(Benchmark(job, batch, _GUIDE, lines), site)


def _options(arguments: tuple[str, ...]) -> dict[str, str]:
    asked = dict(_DEFAULTS)
    words = [part for word in arguments for part in word.split("=", 1)]
    for name, value in zip(words[::2], [*words[1::2], ""], strict=False):
        if name not in _DEFAULTS or not value:
            raise UsageError(f"the lab plays {', '.join(_DEFAULTS)} of {PROGRAM}, not {name}")
        asked[name] = value
    return asked


def _words(ranks: int, batch: int, rounds: int, each: float) -> list[str]:
    return [
        "Model: ResNet50",
        f"Batch size: {batch}",
        f"Number of GPUs: {ranks}",
        "Running warmup...",
        "Running benchmark...",
        *(f"Iter #{number}: {each:.1f} img/sec per GPU" for number in range(rounds)),
        f"Img/sec per GPU: {each:.1f} +-0.0",
        f"Total img/sec on {ranks} GPU(s): {ranks * each:.1f} +-0.0",
    ]
