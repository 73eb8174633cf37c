"""`railyard audit FILE` and `railyard watch FILE`: a cluster beside its file, without a stack.

`watch` is the work of the CronJob: an audit, the quick suite on idle nodes, and their results as
metrics and node conditions.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final, Literal

import typer

from components.acceptance.collect.probe_runs import collect_evidence
from components.acceptance.handover import AcceptRequest
from components.acceptance.judge.site import Report, judge_evidence
from components.acceptance.report import publish
from components.acceptance.report.archive import forget_oldest, keep_evidence, run_folder
from components.acceptance.report.text import render_table
from components.acceptance.report.write import write_report
from components.checks.render import render_sarif
from components.cli.accept import connect
from components.cli.app import option, say
from components.cli.stack import Stack, load_file
from components.core.errors import DeviceError, UsageError
from components.core.problem import UNREACHABLE, Finding, Place, SpecPath
from components.kubernetes.kubeconfig import pod_access
from components.model.places import each_ssh
from components.plan.make import make_plan
from components.project.lab_marks import devices_outside_lab
from components.update.audit import Audit, run_audit

_SUITE: Final = {"suite": "quick", "accept": "always", "scope": "all", "when_busy": "warn"}


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
    site = load_file(file, reads_only=True)
    found = run_audit(site.spec.name, site.plan, site.all_secrets)
    if form == "sarif":
        # A finding for each deviation, at the device in the file; the cluster is at its top.
        paths: dict[str, SpecPath] = {name: at[:-1] for name, _, at in each_ssh(site.spec)}
        fix = "change the device, or the file if the device is right."
        results: list[Finding] = []
        for each in found.findings:
            what = f"{each.device}: {each.what}."
            place = Place(paths.get(each.device.partition(" ")[0], ()))
            named = replace(each, what=what, where=(place,), fix=fix, rule=f"audit-{each.rule}")
            results.append(site.lines.locate_all(named))
        say(json.dumps(render_sarif(results, Path.cwd()), indent=2))
    elif form == "prometheus":
        samples = publish.audit_samples(found.read, found.findings)
        say(publish.render_metrics(found.site, samples), nl=False)
    else:
        say(found.render_json() if form == "json" else found.render())
    raise typer.Exit(found.exit_code)


def watch(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="a site file")],
    *,
    metrics: Annotated[
        Path | None, option("Write the metrics to this file too; - prints only them.")
    ] = None,
    accept: Annotated[
        bool | None, option("Whether the quick suite runs.", "--accept/--no-accept")
    ] = None,
) -> None:
    """Audit a site, run the quick suite on idle nodes, and publish metrics and node conditions.

    The section `watch` of the file says what is published; without it only this command's options
    count. Secrets come from the environment as RAILYARD_SECRET_NAME. Exit codes: 0 all is well, 1
    the file has problems or a proof failed, 3 something differs, 4 something could not be judged.
    """
    site = load_file(file, reads_only=True)
    asked, begun = site.spec.watch, datetime.now(UTC)
    secrets = site.all_secrets | pod_access(os.environ)
    is_quiet = metrics == Path("-")
    found = run_audit(site.spec.name, site.plan, secrets)
    times = {"audit": datetime.now(UTC)}
    if not is_quiet:
        say(found.render(), paint=True)
    report = None
    if accept if accept is not None else asked is None or asked.accept:
        report = _prove(site, secrets, int(begun.timestamp()) // 60)
        times["accept"] = datetime.now(UTC)
        if not is_quiet:
            say(render_table(report), paint=True)
    text = publish.render_metrics(site.spec.name, _samples(found, report, begun, times))
    if is_quiet:
        say(text, nl=False)
    lines = _publish(site, text, None if is_quiet else metrics)
    if asked is not None and asked.conditions:
        faults, now = publish.find_faults(site.spec, report, found.findings), datetime.now(UTC)
        try:
            lines += publish.write_conditions(connect(site, secrets), site.spec, faults, now)
        except (DeviceError, UsageError) as error:
            lines.append(f"the node conditions were not written: {error}")
    for line in lines:
        say(line, err=True)
    codes = {found.exit_code, report.gate_code if report else 0, UNREACHABLE if lines else 0}
    raise typer.Exit(1 if 1 in codes else max(codes))


def _prove(site: Stack, secrets: Mapping[str, str], run: int) -> Report:
    """Run the quick suite on nodes that no other pod uses; archive and judge its evidence."""
    settings = site.spec.acceptance.model_copy(update=_SUITE)
    spec = site.spec.model_copy(update={"acceptance": settings})
    plan = make_plan(spec, site.name, site.lock).acceptance
    has_devices = bool(spec.switches or spec.reached)
    provenance = "lab" if has_devices and not devices_outside_lab(spec) else "real"
    request = AcceptRequest(site.plan.digest, site.name, provenance, plan)
    folder = run_folder(site.name, run)
    evidence = collect_evidence(request, run, secrets, folder)
    keep_evidence(site.name, evidence)
    report = judge_evidence(evidence)
    write_report(report, folder)
    forget_oldest(site.name)
    return report


def _samples(
    found: Audit, report: Report | None, begun: datetime, times: Mapping[str, datetime]
) -> Iterator[publish.Sample]:
    yield publish.Sample("railyard_run_timestamp_seconds", {}, int(begun.timestamp()))
    is_proof = report is not None and report.verdict != "error"
    success = {"audit": found.exit_code < UNREACHABLE, "accept": is_proof}
    for part, ended in times.items():
        seconds = round((ended - begun).total_seconds(), 3)
        yield publish.Sample("railyard_run_duration_seconds", {"part": part}, seconds)
        yield publish.Sample("railyard_run_success", {"part": part}, float(success[part]))
        begun = ended
    yield from publish.audit_samples(found.read, found.findings)
    yield from publish.proof_samples(report) if report else ()


def _publish(site: Stack, text: str, metrics: Path | None) -> list[str]:
    """Write and push the metrics; give a line for each place that did not take them."""
    asked, lines = site.spec.watch, list[str]()
    files = [metrics] if metrics is not None else []
    if asked is not None and asked.folder is not None:
        files.append(Path(asked.folder) / f"railyard-{site.spec.name}.prom")
    for each in files:
        try:
            publish.write_readable(each, text)
        except OSError as error:
            lines.append(f"{each}: the metrics were not written: {error.strerror}")
    if asked is not None and asked.push is not None:
        try:
            publish.push_metrics(asked.push, site.spec.name, text)
        except DeviceError as error:
            lines.append(str(error))
    return lines
