"""`railyard plan FILE` and `railyard rbac FILE`: decisions for a site, and the rights they need."""

from __future__ import annotations

import json
import shlex
from typing import Annotated

from components.checks.site import load_checked_site
from components.cli.app import SitePath, TextOrJson, option, say
from components.cli.check_files import report_of
from components.core.errors import UsageError
from components.core.templates import fault_text
from components.model.kubernetes import ExistingPlane
from components.plan import text as texts
from components.plan.make import make_plan
from components.preflight.cluster import NAME, render_logins, render_rbac, rights_of
from components.reading.load import load_site
from components.reading.site_path import stack_for


def plan(  # noqa: PLR0913 - one parameter for each option
    file: SitePath,
    *,
    device: Annotated[
        str | None, option("Only this host, switch or hypervisor.", "--host", "--device")
    ] = None,
    stage: Annotated[str | None, option(f"Only this stage: {', '.join(texts.STAGES)}.")] = None,
    summary: Annotated[
        bool, option("A few lines: site-wide values, counts by stage.", "--summary")
    ] = False,
    scripts: Annotated[
        bool, option("Print scripts, commands and objects whole.", "--scripts")
    ] = False,
    rights: Annotated[bool, option("Only the rights that each login needs.", "--rights")] = False,
    output: TextOrJson = "text",
    stack: Annotated[str, option("Name of the stack: devices keep a folder with this name.")] = "",
) -> None:
    """Print what would be decided for a site; no device is contacted.

    Exit codes: 0 printed, 1 the file has problems, 2 unknown file, host or stage.
    """
    if (summary or rights) and (device or stage or scripts or summary is rights):
        name = "--rights" if rights else "--summary"
        raise UsageError(f"{name} is of the whole site.\n  fix    leave the other options out.")
    report = report_of(load_site(file), str(file))
    checked, spec = report.checked, report.checked.spec_or_raise()
    if rights:
        existing = isinstance(spec.kubernetes, ExistingPlane)
        more = f"# the cluster: `railyard rbac {file}` prints the roles\n" if existing else ""
        say(render_logins(spec) + more, nl=False)
        return
    planned = make_plan(spec, stack or stack_for(file) or spec.name, checked.lock)
    choice = texts.choose(planned, device, stage, scripts=scripts)
    if output == "json":
        found = texts.summary_json(planned, spec) if summary else texts.plan_json(planned, choice)
        say(json.dumps(found, indent=1, sort_keys=True))
    elif summary:
        say(texts.render_summary(planned, spec), nl=False)
    else:
        say(texts.render_plan(planned, choice), nl=False)
        if report.refused and choice == texts.Choice(scripts=scripts):
            rules = ", ".join(dict.fromkeys(each.rule for each in report.refused))
            command = f"railyard check {shlex.quote(str(file))}"
            say(f"\n# An update would refuse this site: {rules}; see `{command}`.")


def rbac(
    file: SitePath,
    *,
    user: Annotated[
        str, option("Who gets them: a user, or NAMESPACE:NAME of a service account.")
    ] = f"kube-system:{NAME}",
) -> None:
    """Print the roles that an existing cluster's owner gives to Railyard; nothing is contacted.

    Exit codes: 0 printed, 1 the file has problems, 2 unknown file, or the site makes its own
    cluster.
    """
    checked = load_checked_site(file)
    spec = checked.spec_or_raise()
    plan = make_plan(spec, spec.name, checked.lock)
    if plan.kubernetes is None or plan.kubernetes.existing is None:
        raise UsageError(fault_text(__file__, "own-cluster", file=file))
    made = [each.body for each in plan.manifests if each.kind == "Namespace"]
    say(render_rbac(spec.name, rights_of(spec, plan), user, made), nl=False)
