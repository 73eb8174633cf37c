"""A job that a user submits: check the request and make its objects. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Final, Literal

import yaml
from pydantic import JsonValue, TypeAdapter, ValidationError

from components.acceptance.acceptance_plan import plan_acceptance
from components.acceptance.evidence import Limits, Probe
from components.acceptance.probes.probe_job import PairTest, nccl_command, perftest_job, scan_call
from components.core.errors import Bug
from components.core.record import record
from components.core.templates import reader_of
from components.jobs.job_plan import (
    TorchForm,
    deepspeed_job,
    deepspeed_launcher,
    deepspeed_workers,
    launched_job,
    mpi_job,
    torch_objects,
)
from components.jobs.templates import ACCEPTANCE, RUN, fit_name, mpirun_command
from components.kubernetes.manifest import Body, pulling
from components.model.cluster import ClusterSpec
from components.model.hosts import Host
from components.model.jobs import Collective
from components.model.places import shares_resource
from components.model.units import PinnedImage
from components.model.worker_kinds import PAIR, WorkerKind, rail_pairs, worker_kinds

JobKind = Literal["nccl", "perftest", "deepspeed", "horovod", "pytorch"]
_NAME: Final = re.compile(r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?")
"""A label of DNS-1035 with room for `-worker-99` and the rail: the operator's own limit is 63."""
_BETWEEN_NODES: Final = frozenset({"nccl", "horovod", "perftest"})
"""They measure traffic between nodes."""
_BRINGS_IMAGE: Final = frozenset({"horovod", "pytorch"})
"""The images of the file lack their framework."""
_ONLY_OF: Final[dict[str, frozenset[str]]] = {
    "--collective": frozenset({"nccl"}),
    "--compare": frozenset({"nccl", "horovod"}),
    "--form": frozenset({"pytorch"}),
    "a program": frozenset({"deepspeed", "horovod", "pytorch"}),
}
_IMAGE: Final[TypeAdapter[str]] = TypeAdapter(PinnedImage)
_EXAMPLES: Final = "/horovod/examples/tensorflow2"
RESNET: Final = ("python", f"{_EXAMPLES}/tensorflow2_synthetic_benchmark.py", "--model", "ResNet50")
"""What NVIDIA's DeepOps guide ran: Horovod's own TensorFlow benchmark, at the path given by the
recipe of Horovod's image (`docker/horovod/Dockerfile`)."""
_MAXSIZE: Final = 28
"""`maxsize` of DeepSpeed's scan if the file asks for no scan: the default of
`acceptance.deepspeed_scan`."""
_OURS: Final = "railyard-job"
"""The label `app.kubernetes.io/part-of` of all that a user submits."""


@record
class Asked:
    """One job as the command line describes it."""

    kind: JobKind
    nodes: tuple[str, ...]
    """Names of hosts in the file, or of their nodes."""
    name: str = ""
    """Its name in the cluster; default that of the kind."""
    image: str = ""
    """Default that of the file."""
    collective: Collective | None = None
    compare: bool = False
    """Launch it again over TCP."""
    form: TorchForm | None = None
    program: tuple[str, ...] = ()
    """The user's own script and its arguments."""

    @property
    def called(self) -> str:
        """Its name in the cluster."""
        return self.name or self.kind


@record
class Refusal:
    """One reason why nothing is submitted."""

    what: str
    fix: str

    def __str__(self) -> str:
        """Format it like the other errors of the command line."""
        return f"{self.what}\n  fix    {self.fix}"


@record
class Chosen:
    """A valid choice, from which a job can be made."""

    asked: Asked
    spec: ClusterSpec
    """The site with the chosen workers alone, and the job's image."""
    kind: WorkerKind


def chosen_hosts(spec: ClusterSpec, asked: Asked) -> tuple[Host, ...]:
    """The hosts that were named and are in the file, each once, in the order of the file."""
    return tuple(host for host in spec.hosts if {host.name, host.node} & {*asked.nodes})


def choose(spec: ClusterSpec, asked: Asked) -> tuple[Chosen | None, tuple[Refusal, ...]]:
    """Choose the part of the site for the job, or give every fault of the request."""
    if spec.kubernetes is None:
        where = "the site lacks Kubernetes, and jobs are objects of a cluster"
        return None, (Refusal(where, "give the file a `kubernetes`, or take another site."),)
    hosts = chosen_hosts(spec, asked)
    troubles = [*_of_names(spec, asked), *_of_options(spec, asked)]
    kept = tuple(host for host in spec.hosts if host.role != "worker" or host in hosts)
    jobs, sample = spec.jobs, spec.jobs.deepspeed
    if sample is not None:
        own = {"workers": len(hosts), "image": asked.image or sample.image}
        sample = sample.model_copy(update=own)
    own_jobs = jobs.model_copy(update={"image": asked.image or jobs.image, "deepspeed": sample})
    site = spec.model_copy(update={"hosts": kept, "jobs": own_jobs})
    kinds = worker_kinds(site)
    if not any(_of_names(spec, asked)):
        troubles += _of_workers(site, asked, kinds)
    if troubles or len(kinds) != 1:
        return None, tuple(troubles)
    return Chosen(asked, site, kinds[0]), ()


def _of_names(spec: ClusterSpec, asked: Asked) -> Iterator[Refusal]:
    by_name = {name: host for host in spec.hosts for name in (host.name, host.node)}
    workers = ", ".join(host.name for host in spec.workers)
    if not asked.nodes:
        yield Refusal("--nodes names no node", f"name some of {workers}.")
    for name in dict.fromkeys(asked.nodes):
        host = by_name.get(name)
        if host is None:
            near = get_close_matches(name, by_name, n=1, cutoff=0.5)
            hint = f"is it {near[0]}? " if near else ""
            yield Refusal(f"{name} is not a host of the site", f"{hint}Its workers are {workers}.")
        elif host.role != "worker":
            role = host.role.replace("_", " ")
            yield Refusal(f"{name} is a {role} host, which runs no job", f"name some of {workers}.")
    named = [by_name[name].name for name in asked.nodes if name in by_name]
    for name in dict.fromkeys(each for each in named if named.count(each) > 1):
        yield Refusal(f"{name} is named twice in --nodes", "name each node once.")


def _of_options(spec: ClusterSpec, asked: Asked) -> Iterator[Refusal]:
    kind = asked.kind
    given = {
        "--collective": asked.collective is not None,
        "--compare": asked.compare,
        "--form": asked.form is not None,
        "a program": bool(asked.program),
    }
    for option in (each for each, is_given in given.items() if is_given):
        if kind not in _ONLY_OF[option]:
            able = " and ".join(sorted(_ONLY_OF[option]))
            yield Refusal(f"{kind} takes no {option.removeprefix('a ')}", f"{able} does: leave it.")
    if not _NAME.fullmatch(asked.called):
        rule = "use up to 40 lowercase letters, digits and -, a letter first."
        yield Refusal(f'"{asked.called}" is not a valid job name', rule)
    if asked.image:
        yield from _of_image(asked.image)
    elif kind in _BRINGS_IMAGE:
        fix = (
            "name one with --image, by tag or digest: docs/howto/run-a-job.md lists its "
            "requirements."
        )
        yield Refusal(f"{kind} needs an image: the file's image lacks the framework", fix)
    if kind == "pytorch" and not asked.program:
        fix = "write it behind two dashes: -- train.py --epochs 3"
        yield Refusal("pytorch needs a program to run", fix)
    if kind == "deepspeed" and spec.jobs.deepspeed is None:
        fix = "give the file `jobs.deepspeed`, with its image and its data, and update the stack."
        yield Refusal("the site lacks DeepSpeed: jobs.deepspeed is not in the file", fix)


def _of_image(image: str) -> Iterator[Refusal]:
    try:
        _IMAGE.validate_python(image)
    except ValidationError as error:
        words = str(error.errors()[0]["msg"]).removeprefix("Value error, ").splitlines()[0]
        fix = "name an image with a tag other than latest, or with its digest."
        yield Refusal(f"--image {image}: {words}", fix)


def _of_workers(site: ClusterSpec, asked: Asked, kinds: Sequence[WorkerKind]) -> Iterator[Refusal]:
    yield from _of_count(site, asked.kind)
    if asked.kind == "perftest":
        return
    if len(kinds) > 1:
        found: list[str] = []
        for each in kinds:
            rails = ", ".join(f"{rail} at {speed} Gbit/s" for rail, speed in each.speeds.items())
            found.append(f"{', '.join(each.names)}: {each.gpus} GPUs, {rails or 'no rail'}")
        fix = "name nodes with the same GPUs and rails: every pod of a job asks for the same."
        yield Refusal(f"the nodes are not of one kind ({'; '.join(found)})", fix)
    sample = site.jobs.deepspeed if asked.kind == "deepspeed" else None
    for host in site.workers:
        if not host.gpus:
            what = f"{host.name} lacks a GPU, and {asked.kind} runs on GPUs"
            yield Refusal(what, "leave it out.")
    for host in site.workers:
        if sample and 0 < host.gpus < sample.gpus:
            what = f"{host.name} has {host.gpus} GPUs, and jobs.deepspeed asks for {sample.gpus}"
            yield Refusal(what, "name other nodes, or lower jobs.deepspeed.gpus.")


def _of_count(site: ClusterSpec, kind: JobKind) -> Iterator[Refusal]:
    count, names = len(site.workers), " and ".join(host.name for host in site.workers)
    if kind in _BETWEEN_NODES and count < PAIR:
        yield Refusal(f"{kind} needs two nodes, and --nodes has {names} alone", "name another one.")
    elif kind == "perftest" and count > PAIR:
        yield Refusal(f"perftest goes between two nodes, and --nodes has {count}", "name two.")
    elif kind == "perftest" and not any(any(rail_pairs(site, rail)) for rail in site.rails):
        if shares_resource(site):
            what = "all rails share one resource, so a pod cannot choose the rail of its VF"
            yield Refusal(what, "take nccl.")
        else:
            fix = "name two nodes of one rail; on InfiniBand take nccl."
            yield Refusal(f"{names} share no rail of Ethernet", fix)


@record
class Watched:
    """One object whose end is awaited, and whose log is shown."""

    index: int
    probe: Probe | None = None
    """The proof that its log must give; None if its log is not judged."""


@record
class UserJob:
    """The objects to create, in order, and those to follow."""

    name: str
    namespace: str
    objects: tuple[Body, ...]
    watched: tuple[Watched, ...]
    limits: Limits


def make_job(chosen: Chosen) -> UserJob:
    """Make the job of a choice."""
    spec, kind = chosen.spec, chosen.asked.kind
    objects: list[Body] = []
    watched: list[Watched] = []
    if kind == "perftest":
        # A server and a client on every rail that the two nodes share, all at the same time.
        for rail, pair in ((each, pair) for each in spec.rails for pair in rail_pairs(spec, each)):
            job = perftest_job(spec, pair, PairTest(rail.name, rail.name), as_jobs=True)
            ours = {f"{job.probe.name}-{end}": f"{rail.name}-{end}" for end in "sc"}
            names = {fit_name(old): f"{chosen.asked.called}-{new}" for old, new in ours.items()}
            objects += _own([*job.objects], _deadline(chosen), names)
            probe = job.probe.model_copy(update={"name": rail.name})
            watched.append(Watched(len(objects) - 1, probe))
    elif kind == "pytorch":
        asked, form = chosen.asked, chosen.asked.form or "job"
        made = torch_objects(spec, asked.called, chosen.kind, asked.image, asked.program, form)
        objects, watched = _own([*made], None), [Watched(len(made) - 1)]
    else:
        body, followed = _by_mpi(chosen)
        objects, watched = _own([body], _deadline(chosen)), [followed]
    return UserJob(
        name=chosen.asked.called,
        namespace=spec.pod_network.namespace,
        objects=tuple(pulling(spec, body) for body in objects),
        watched=tuple(watched),
        limits=plan_acceptance(spec).limits,
    )


def _by_mpi(chosen: Chosen) -> tuple[Body, Watched]:
    """One MPIJob: its log is judged, unless it is a user's program under DeepSpeed."""
    asked, spec, kind = chosen.asked, chosen.spec, chosen.kind
    probe = Probe(
        name=asked.called,
        kind="nccl" if asked.kind == "nccl" else "resnet50",
        rails=tuple(kind.speeds),
        nodes=kind.names,
        ranks=kind.ranks,
        rates={rail: float(speed) for rail, speed in kind.speeds.items()},
    )
    watched = Watched(0, probe)
    if asked.kind == "deepspeed":
        sample, scan = spec.jobs.deepspeed, spec.acceptance.deepspeed_scan
        if sample is None:
            raise Bug("a DeepSpeed job of a site without jobs.deepspeed. Please open an issue.")
        if asked.program:
            body, watched = deepspeed_job(spec, asked.called, sample, asked.program), Watched(0)
        else:
            call = scan_call(scan.maxsize_exponent if scan else _MAXSIZE)
            launcher = deepspeed_launcher(spec, sample, call)
            body = mpi_job(spec, asked.called, deepspeed_workers(spec, sample), launcher)
    elif asked.kind == "horovod":
        command = mpirun_command(spec, kind.ranks, asked.program or RESNET, kind)
        body = launched_job(spec, asked.called, kind, command, asked.image, twice=asked.compare)
    else:
        collective = asked.collective or "all_reduce"
        command, image = nccl_command(spec, kind, collective), spec.jobs.image
        body = launched_job(spec, asked.called, kind, command, image, twice=asked.compare)
        watched = Watched(0, probe.model_copy(update={"collective": collective}))
    return body, watched


def _deadline(chosen: Chosen) -> int | None:
    """Seconds that a benchmark may take; None for a user's own program, whose length is unknown."""
    if chosen.asked.program:
        return None
    return int(chosen.spec.acceptance.timeout_s) * (2 if chosen.asked.compare else 1)


def _own(
    objects: list[Body], deadline_s: int | None, names: dict[str, str] | None = None
) -> list[Body]:
    """Objects of a run of acceptance as a user's own: without its number, label and deadline."""
    text = json.dumps(objects).replace(f"-{RUN}", "").replace(ACCEPTANCE, _OURS)
    for old, new in (names or {}).items():
        text = text.replace(old, new)
    bodies: list[Body] = reader_of(list[Body]).validate_json(text)
    for body in bodies:
        spec = body.get("spec")
        holder = spec.get("runPolicy", spec) if isinstance(spec, dict) else None
        if isinstance(holder, dict) and holder.pop("activeDeadlineSeconds", None) and deadline_s:
            holder["activeDeadlineSeconds"] = deadline_s
    return bodies


class _Dumper(yaml.SafeDumper):
    """Write scripts as YAML blocks, which are easier to read."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    # PyYAML's stubs leave the type of a value open.
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)  # pyright: ignore[reportUnknownMemberType]


_Dumper.add_representer(str, _represent_text)


def render_objects(objects: tuple[Body, ...]) -> str:
    """Render the objects as input of `kubectl create -f -`."""
    bodies: list[JsonValue] = [*objects]
    return yaml.dump_all(bodies, Dumper=_Dumper, sort_keys=True, width=200, explicit_start=True)
