"""`railyard job KIND STACK|FILE --nodes …` and `railyard image build`: jobs and their image."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from components.acceptance.collect.cluster_jobs import Absent, Api
from components.acceptance.collect.probe_runs import open_cluster
from components.catalogue.upstream import PROBE_IMAGE_BASE
from components.checks.site import load_checked_site
from components.cli.app import StackOrFile, command_app, option, say
from components.cli.say import INTERRUPTED
from components.cli.stack import Stack, load_stack_or_file
from components.core.errors import DeviceError, RailyardError, UnreachableError, UsageError
from components.core.templates import fault_text
from components.jobs.image_build import BuildRoom, check_name, choose_builder
from components.jobs.job_plan import TorchForm
from components.model.jobs import Collective
from components.model.kubernetes import ExistingPlane
from components.submit import follow, make

image_app = command_app("Build the image in which acceptance and sample jobs run.")


def job(  # noqa: PLR0913 - one parameter for each option
    kind: Annotated[
        make.JobKind, typer.Argument(help="nccl, perftest, deepspeed, horovod, pytorch")
    ],
    site: StackOrFile = "",
    program: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- PROGRAM…]", help="your script and its arguments"),
    ] = None,
    *,
    nodes: Annotated[str, option("the nodes, with commas: gpu01,gpu02")],
    run: Annotated[bool, option("submit it, and follow it to a verdict", "--run")] = False,
    name: Annotated[str, option("its name in the cluster; default the kind")] = "",
    image: Annotated[str, option("another image than the file's")] = "",
    collective: Annotated[Collective | None, option("nccl: which one")] = None,
    compare: Annotated[
        str | None, typer.Option(metavar="tcp", help="nccl, horovod: the same again over TCP")
    ] = None,
    form: Annotated[
        TorchForm | None,
        option(
            "pytorch: Indexed Job, or TrainJob; with --run default the kind that the cluster serves"
        ),
    ] = None,
    start_deadline_s: Annotated[
        int, typer.Option(help="--run: seconds for its pods to start; 0 waits without end", min=0)
    ] = follow.START_DEADLINE_S,
) -> None:
    """Print a job on some nodes as YAML, or submit it and follow it to its verdict.

    Exit codes with --run: 0 good, 1 failed or refused, 2 usage, 4 cannot be judged or reached.
    """
    if compare not in {None, "tcp"}:
        raise UsageError(f"--compare {compare} is not known.\n  fix    write --compare tcp.")
    asked = make.Asked(
        kind=kind, nodes=tuple(each.strip() for each in nodes.split(",") if each.strip()),
        name=name, image=image, collective=collective, compare=compare is not None, form=form,
        program=tuple(program or ()),
    )  # fmt: skip
    found = load_stack_or_file(site)
    chosen, troubles = make.choose(found.spec, asked)
    if not run:
        say(make.render_objects(make.make_job(_good(chosen, troubles)).objects), nl=False)
        return
    api, ready = _ready(found, asked, chosen, troubles)
    follow.create(api, ready)
    say(f"{ready.name}: created in namespace {ready.namespace}")
    try:
        ends = follow.read_job(api, ready, say, start_deadline_s)
    except KeyboardInterrupt:
        say(f"\n{follow.how_to_go_on(ready)}")
        raise typer.Exit(INTERRUPTED) from None
    verdicts = [
        follow.judge_end(asked, ready.limits, each.probe, end)
        for each, end in zip(ready.watched, ends, strict=True)
    ]
    for each, verdict in zip(ready.watched, verdicts, strict=True):
        head = f"{each.probe.name}, " if each.probe and len(verdicts) > 1 else ""
        say("\n".join((head + verdict.lines[0], *verdict.lines[1:])))
    say(f"take it away: {follow.delete_line(ready)}")
    codes = {each.exit_code for each in verdicts}
    raise typer.Exit(1 if 1 in codes else max(codes))


def _good(chosen: make.Chosen | None, troubles: tuple[make.Refusal, ...]) -> make.Chosen:
    if chosen is None:
        raise UsageError("\n".join(map(str, troubles)))
    return chosen


def _ready(
    site: Stack, asked: make.Asked, chosen: make.Chosen | None, troubles: tuple[make.Refusal, ...]
) -> tuple[Api, make.UserJob]:
    """The cluster, and the job in the form in which it can be created there now."""
    try:
        access = site.plan.acceptance.access
        known = access.known(site.applied.instances) if access else None
        api = open_cluster(known, site.all_secrets)
        if api is None or isinstance(api, Absent):
            raise UnreachableError(api.why if api else "the site lacks a cluster")
        # All faults of the command are in one error.
        plane = site.spec.kubernetes
        given = plane.tolerations if isinstance(plane, ExistingPlane) else ()
        tolerations = [each.model_dump(exclude_none=True) for each in given]
        found = [*follow.node_troubles(api, make.chosen_hosts(site.spec, asked), tolerations)]
        good = _good(chosen, troubles if chosen else (*troubles, *found))
        if asked.kind == "pytorch" and asked.form is None and follow.has_trainer(api):
            good = replace(good, asked=replace(asked, form="trainjob"))
        made = make.make_job(good)
        if found := [*found, *follow.object_troubles(api, made)]:
            raise RailyardError("\n".join(map(str, found)))
    except DeviceError as error:
        if troubles:  # these faults of the command do not depend on the cluster
            _good(None, (*troubles, make.Refusal(str(error), "the cluster could not be asked.")))
        raise
    return api, made


@image_app.callback()
def image() -> None:
    """Make `build` a command below `image`."""


@image_app.command()
def build(
    site: Annotated[
        Path | None, typer.Argument(help="A site file: its jobs.image is the tag.")
    ] = None,
    tag: Annotated[str | None, option("Name and tag, in place of a site's.")] = None,
    base: Annotated[str, option("Base image, with a tag or better its digest.")] = PROBE_IMAGE_BASE,
    builder: Annotated[
        str | None, option("docker, podman, buildah or nerdctl; default: the first on PATH.")
    ] = None,
    *,
    push: Annotated[bool, option("Push it when it is built.", "--push")] = False,
) -> None:
    """Build the image of the jobs on a base that is pinned by its digest.

    Exit codes: 0 built, and pushed if asked; 1 the build or the push failed; 2 the builder is
    missing, or a name is not pinned; 4 a daemon or registry did not answer.
    """
    if (site is None) == (tag is None):
        raise UsageError(fault_text(__file__, "image-name"))
    name = tag
    if name is None:
        name = load_checked_site(site or Path()).spec_or_raise().jobs.image
    if tag is None and "@" in name:
        raise UsageError(
            f"image: jobs.image of {site} is a digest, which a build only gives: {name}\n"
            "  fix    name it by a tag, or build under another one: --tag"
        )
    name = check_name(name, "jobs.image" if tag is None else "--tag")
    room = BuildRoom(choose_builder(builder), say)
    room.build(name, room.pin(base))
    if push:
        room.push(name)
    done = "built and pushed" if push else "built"
    say(f"railyard: {done} {name}")
