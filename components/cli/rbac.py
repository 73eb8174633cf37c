"""`railyard rbac FILE`: the rights that the kubeconfig of an existing cluster needs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from components.checks.site import load_checked_site
from components.cli.app import command_app, say
from components.core.errors import UsageError
from components.plan.make import make_plan
from components.preflight.logins import NAME, render_rbac
from components.preflight.rights import rights_of
from components.update.cluster import manifests_of

app = command_app()


@app.command()
def rbac(
    file: Annotated[Path, typer.Argument(help="A site.yaml, or a Pulumi.<stack>.yaml.")],
    *,
    user: Annotated[
        str, typer.Option(help="Who gets them: a user, or NAMESPACE:NAME of a service account.")
    ] = f"kube-system:{NAME}",
) -> None:
    """Print the roles that an existing cluster's owner gives to Railyard; nothing is contacted.

    Exit codes: 0 printed, 1 the file has problems, 2 no such file, or no existing cluster.
    """
    checked = load_checked_site(file)
    spec = checked.spec_or_raise()
    plan = make_plan(spec, spec.name, checked.lock)
    if plan.kubernetes is None or plan.kubernetes.existing is None:
        raise UsageError(
            f"{file}: the site makes its cluster itself, as its administrator.\n"
            "  fix    name a site with kubernetes.plane: existing."
        )
    made = [each.body for each in manifests_of(plan) if each.kind == "Namespace"]
    say(render_rbac(spec.name, rights_of(spec, plan), user, made), nl=False)
