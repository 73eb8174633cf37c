"""The objects of a job that a user submits, from the same parts as those of acceptance. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

import yaml
from pydantic import JsonValue, TypeAdapter

from components.acceptance.evidence import Limits, Probe
from components.acceptance.plan import plan_acceptance
from components.acceptance.probes.nccl import nccl_command, scan_call
from components.acceptance.probes.perftest import user_perftest
from components.core.errors import Bug
from components.jobs.deepspeed import deepspeed_job, deepspeed_launcher, deepspeed_workers
from components.jobs.environment import mpirun_command
from components.jobs.mpi import launched_job, mpi_job
from components.jobs.templates import RUN, fit_name
from components.jobs.torchrun import torch_objects
from components.kubernetes.manifest import Body, pulling
from components.model.worker_kinds import rail_pairs
from components.submit.choose import Chosen

RESNET: Final = (
    "python",
    "/horovod/examples/tensorflow2/tensorflow2_synthetic_benchmark.py",
    "--model",
    "ResNet50",
)
"""What NVIDIA's DeepOps guide ran: Horovod's own benchmark of TensorFlow, where the recipe of
Horovod's image (`docker/horovod/Dockerfile`) has it."""
_MAXSIZE: Final = 28
"""Of DeepSpeed's scan where the file asks for none: the default of `acceptance.deepspeed_scan`."""
_BODIES: Final = TypeAdapter(list[Body])
_ACCEPTANCE: Final = "railyard-acceptance"
_OURS: Final = "railyard-job"
"""`app.kubernetes.io/part-of` of what a user submits."""


@dataclass(frozen=True, slots=True)
class Watched:
    """One object whose end is awaited, and whose log is shown."""

    index: int
    """Its place among the objects."""
    probe: Probe | None = None
    """What its log must prove; None where nothing judges it."""


@dataclass(frozen=True, slots=True)
class UserJob:
    """What is created, in order, and what of it is followed."""

    name: str
    namespace: str
    objects: tuple[Body, ...]
    watched: tuple[Watched, ...]
    limits: Limits


def make_job(chosen: Chosen) -> UserJob:
    """The job of a choice."""
    makers = {
        "nccl": _nccl,
        "perftest": _perftest,
        "deepspeed": _deepspeed,
        "horovod": _horovod,
        "pytorch": _pytorch,
    }
    objects, watched = makers[chosen.asked.kind](chosen)
    spec = chosen.spec
    return UserJob(
        name=chosen.asked.called,
        namespace=spec.pod_network.namespace,
        objects=tuple(pulling(spec, body) for body in objects),
        watched=watched,
        limits=plan_acceptance(spec).limits,
    )


_Made = tuple[list[Body], tuple[Watched, ...]]


def _nccl(chosen: Chosen) -> _Made:
    asked, spec, kind = chosen.asked, chosen.spec, chosen.kind
    collective = asked.collective or "all_reduce"
    command = nccl_command(spec, kind, collective)
    body = launched_job(spec, asked.called, kind, command, spec.jobs.image, twice=asked.compare)
    probe = _probe(chosen).model_copy(update={"collective": collective})
    return _own([body], _deadline(chosen)), (Watched(0, probe),)


def _horovod(chosen: Chosen) -> _Made:
    asked, spec, kind = chosen.asked, chosen.spec, chosen.kind
    command = mpirun_command(spec, kind.ranks, asked.program or RESNET, kind)
    body = launched_job(spec, asked.called, kind, command, asked.image, twice=asked.compare)
    return _own([body], _deadline(chosen)), (Watched(0, _probe(chosen)),)


def _perftest(chosen: Chosen) -> _Made:
    """A server and a client on every rail that the two nodes share, all at the same time."""
    spec, name = chosen.spec, chosen.asked.called
    objects: list[Body] = []
    watched: list[Watched] = []
    for rail in spec.rails:
        for pair in rail_pairs(spec, rail):
            job = user_perftest(spec, rail, pair)
            names = {
                fit_name(f"{job.probe.name}-{end}"): f"{name}-{rail.name}-{end}" for end in "sc"
            }
            objects += _own([*job.objects], _deadline(chosen), names)
            probe = job.probe.model_copy(update={"name": rail.name})
            watched.append(Watched(len(objects) - 1, probe))
    return objects, tuple(watched)


def _deepspeed(chosen: Chosen) -> _Made:
    asked, spec = chosen.asked, chosen.spec
    sample = spec.jobs.deepspeed
    if sample is None:
        raise Bug("a DeepSpeed job of a site without jobs.deepspeed. Please open an issue.")
    if asked.program:
        body = deepspeed_job(spec, asked.called, sample, asked.program)
        return _own([body], None), (Watched(0),)
    scan = spec.acceptance.deepspeed_scan
    call = scan_call(scan.maxsize_exponent if scan else _MAXSIZE)
    workers, launcher = deepspeed_workers(spec, sample), deepspeed_launcher(spec, sample, call)
    body = mpi_job(spec, asked.called, workers, launcher)
    return _own([body], _deadline(chosen)), (Watched(0, _probe(chosen)),)


def _pytorch(chosen: Chosen) -> _Made:
    asked = chosen.asked
    form = asked.form or "job"
    objects = torch_objects(
        chosen.spec, asked.called, chosen.kind, asked.image, asked.program, form
    )
    return _own([*objects], None), (Watched(len(objects) - 1),)


def _probe(chosen: Chosen) -> Probe:
    """What the plan expects of a job over all the chosen nodes."""
    kind = chosen.kind
    return Probe(
        name=chosen.asked.called,
        kind="nccl" if chosen.asked.kind == "nccl" else "resnet50",
        rails=tuple(kind.speeds),
        nodes=kind.names,
        ranks=kind.ranks,
        rates={rail: float(speed) for rail, speed in kind.speeds.items()},
    )


def _deadline(chosen: Chosen) -> int | None:
    """Seconds that a benchmark may take; a user's own program has no end that we know."""
    if chosen.asked.program:
        return None
    return int(chosen.spec.acceptance.timeout_s) * (2 if chosen.asked.compare else 1)


def _own(
    objects: list[Body], deadline_s: int | None, names: dict[str, str] | None = None
) -> list[Body]:
    """Objects of a run of acceptance as a user's own: without its number, label and deadline."""
    text = json.dumps(objects).replace(f"-{RUN}", "").replace(_ACCEPTANCE, _OURS)
    for old, new in (names or {}).items():
        text = text.replace(old, new)
    bodies = _BODIES.validate_json(text)
    for body in bodies:
        spec = body.get("spec")
        holder = spec.get("runPolicy", spec) if isinstance(spec, dict) else None
        if isinstance(holder, dict) and holder.pop("activeDeadlineSeconds", None) and deadline_s:
            holder["activeDeadlineSeconds"] = deadline_s
    return bodies


class _Dumper(yaml.SafeDumper):
    """Scripts as blocks, so that a person can read them."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    # PyYAML's stubs leave the type of a value open.
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)  # pyright: ignore[reportUnknownMemberType]


_Dumper.add_representer(str, _represent_text)


def render_objects(objects: tuple[Body, ...]) -> str:
    """The objects as `kubectl create -f -` takes them."""
    bodies: list[JsonValue] = [*objects]
    return yaml.dump_all(bodies, Dumper=_Dumper, sort_keys=True, width=200, explicit_start=True)
