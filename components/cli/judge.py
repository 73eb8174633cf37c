"""`railyard judge nccl|perftest|deepspeed|training FILE`: a verdict for any log.

It is also the separate program `railyard-judge`, for users who have a cluster but not a site file:
it needs neither Pulumi nor Kubernetes nor SSH.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import typer

from components.acceptance.judge import log
from components.acceptance.judge.nccl import NcclAsked
from components.acceptance.judge.perftest_findings import PerftestAsked
from components.acceptance.logs.lines import read_chunks
from components.cli.app import TextOrJson, command_app, option
from components.cli.say import guard, say
from components.core.errors import UsageError
from components.core.limits import bounded, refuse_endless
from components.core.to_json import to_json

app = command_app("Judge a log of NCCL, perftest, DeepSpeed or training.")

Log = Annotated[Path, typer.Argument(help="the log; - for standard input")]


def _chunks(path: Path) -> Iterator[str]:
    """The log piece by piece: it may be as long as a disk."""
    if str(path) == "-":
        yield from read_chunks(bounded(sys.stdin.buffer))
        return
    try:
        refuse_endless(path)
        with path.open("rb") as file:
            yield from read_chunks(file)
    except OSError as error:
        raise UsageError(f"{path}: the log cannot be read: {error.strerror}") from error


def _floor(value: float | None) -> float | None:
    """Refuse a limit for a bandwidth or a latency that is negative, infinite or not a number."""
    if value is not None and not 0 <= value < math.inf:
        what = f"{value:g} is neither a lowest bandwidth nor a highest latency"
        raise UsageError(f"{what}.\n  fix    give a number from 0 on.")
    return value


def _limit(words: str) -> object:
    return typer.Option(callback=_floor, help=words)


def _tell(verdict: log.LogVerdict, output: str) -> None:
    if output == "json":
        say(json.dumps(to_json(verdict), indent=1, sort_keys=True))
    else:
        say("\n".join(verdict.lines), paint=True)
    raise typer.Exit(verdict.exit_code)


@app.command()
def nccl(
    file: Log,
    expect: Annotated[
        Literal["ib", "roce", "nvlink", "socket"] | None,
        option("the transport that the data must have taken"),
    ] = None,
    min_busbw: Annotated[
        float | None, _limit("least bus bandwidth in GB/s, rows of 1 GiB and more")
    ] = None,
    must: Annotated[
        list[str] | None,
        option("also: version=2.19, topology=NCCL_TOPO_FILE, hcas=8, gdr, correct; repeatable"),
    ] = None,
    output: TextOrJson = "text",
) -> None:
    """Judge the log of an NCCL program: 0 good, 1 failed, 4 cannot be judged."""
    asked = NcclAsked.of(must or ())
    _tell(log.judge_nccl_text(_chunks(file), expect, min_busbw, asked), output)


@app.command()
def perftest(
    file: Log,
    expect: Annotated[
        Literal["ib", "roce"] | None, option("the link that must have been used")
    ] = None,
    min_gbit: Annotated[float | None, _limit("least average in Gbit/s")] = None,
    max_usec: Annotated[float | None, _limit("highest median latency of the smallest size")] = None,
    max_tail_usec: Annotated[
        float | None, _limit("most that 99.9 % of the small messages may take")
    ] = None,
    output: TextOrJson = "text",
) -> None:
    """Judge the log of a perftest client: 0 good, 1 failed, 4 cannot be judged."""
    asked = PerftestAsked(most_us=max_usec, most_tail_us=max_tail_usec)
    _tell(log.judge_perftest_text(_chunks(file), expect, min_gbit, asked), output)


@app.command()
def deepspeed(
    file: Log,
    min_gbit: Annotated[
        float | None, _limit("least bus bandwidth of the largest message in Gbit/s")
    ] = None,
    output: TextOrJson = "text",
) -> None:
    """Judge the log of DeepSpeed's all_reduce.py: 0 good, 1 failed, 4 cannot be judged."""
    _tell(log.judge_deepspeed_text(_chunks(file), min_gbit), output)


@app.command()
def node(
    file: Log,
    gpus: Annotated[int, typer.Option(min=1, help="GPUs that the machine has")],
    output: TextOrJson = "text",
) -> None:
    """Judge the output of node_health.sh on a machine's GPUs: 0 good, 1 failed, 4 not judged."""
    _tell(log.judge_node_text("".join(_chunks(file)), gpus), output)


@app.command()
def training(
    file: Log,
    ranks: Annotated[int | None, option("ranks that must have taken part")] = None,
    min_images: Annotated[
        float | None, _limit("least images per second, all ranks together")
    ] = None,
    output: TextOrJson = "text",
) -> None:
    """Judge the log of tf_cnn_benchmarks or Horovod: 0 good, 1 failed, 4 cannot be judged."""
    _tell(log.judge_training_text(_chunks(file), ranks, min_images), output)


def main() -> None:
    """Run the judge as its own program."""
    guard(lambda: app(prog_name="railyard-judge"))


if __name__ == "__main__":
    main()
