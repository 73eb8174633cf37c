"""`railyard audit FILE`: compare devices and cluster with a site file; no stack, no ownership."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import typer

from components.acceptance.report.metrics import Sample, audit_samples, render_metrics
from components.checks.render import render_sarif
from components.cli.app import command_app, say
from components.cli.stack import load_file
from components.core.problem import Finding, Place, SpecPath
from components.model.cluster import ClusterSpec
from components.update.audit import Audit, run_audit

app = command_app()


@app.command()
def audit(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="a site file")],
    form: Annotated[
        Literal["text", "json", "sarif", "prometheus"], typer.Option("--format")
    ] = "text",
) -> None:
    """Compare every device and the cluster with a site file; reads only, works without a stack.

    For those who keep their own tools: nothing is changed, recorded or owned. Secrets come from
    the environment as RAILYARD_SECRET_NAME. Exit codes: 0 everything is as the file says, 1 the
    file has problems, 3 something differs, 4 something could not be read.
    """
    site = load_file(file)
    found = run_audit(site.spec.name, site.plan, site.all_secrets)
    if form == "sarif":
        results = [site.lines.locate_all(each) for each in _findings(found, site.spec)]
        say(json.dumps(render_sarif(results, Path.cwd()), indent=2))
    elif form == "prometheus":
        say(render_metrics(found.site, samples_of(found)), nl=False)
    else:
        say(found.render_json() if form == "json" else found.render())
    raise typer.Exit(found.exit_code)


def samples_of(found: Audit) -> Iterator[Sample]:
    """Yield the metrics of an audit."""
    return audit_samples(found.read, ((each.device, each.kind) for each in found.deviations))


def _findings(found: Audit, spec: ClusterSpec) -> Iterator[Finding]:
    """Yield a finding for each deviation, at the device in the file; the cluster is at its top."""
    paths: dict[str, SpecPath] = {each.name: ("hosts", at) for at, each in enumerate(spec.hosts)}
    paths |= {each.name: ("switches", at) for at, each in enumerate(spec.switches)}
    fix = "change the device, or the file if the device is right."
    for each in found.findings:
        place = Place(paths.get(each.device.partition(" ")[0], ()))
        what = f"{each.device}: {each.what}."
        yield replace(each, what=what, where=(place,), fix=fix, rule=f"audit-{each.rule}")
