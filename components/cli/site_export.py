"""`railyard site export STACK --operator`: objects with which an operator runs a site."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, cast

import typer
import yaml

from components.artefacts.lock import lock_path
from components.checks.site import CheckedSite, check_config_value, load_checked_site
from components.cli.app import StackName, say
from components.cli.stack import PREFIX
from components.core.errors import UsageError
from components.core.limits import read_text
from components.core.problem import Json
from components.model.cluster import CLUSTER
from components.model.secret_refs import list_secrets
from components.model.texts import fold_names
from components.plan.make import make_plan
from components.plan.pieces import pieces_of, plan_piece
from components.project.engine import OWN_LOGIN, backend_of, wanted_versions
from components.project.operator import (
    DEFINITION,
    OLDEST,
    Export,
    OperatorStack,
    engine_variables,
    has_password,
    object_name,
    read_source,
    refuse_old,
    refuse_old_definition,
    render_export,
)
from components.project.write import REQUIREMENTS
from components.reading.site_path import SITE_KEY, config_file
from components.update.secrets import secret_names

_NOT_FOUND: Final = 404


def export(  # noqa: PLR0913 - one parameter for each option
    stack: StackName = "",
    *,
    operator: Annotated[
        bool, typer.Option("--operator", help="For the Pulumi Kubernetes Operator; needed.")
    ] = False,
    namespace: Annotated[str, typer.Option(help="Namespace of all objects.")] = "railyard",
    image: Annotated[
        str, typer.Option(help="Image with Pulumi and Python; default Pulumi's own.")
    ] = "",
    repo: Annotated[
        str, typer.Option(help="Git address as the cluster reaches it; default that of `origin`.")
    ] = "",
    git_token: Annotated[
        bool, typer.Option("--git-token", help="The Secret has GIT_TOKEN for an https address.")
    ] = False,
    backend: Annotated[str, typer.Option(help="Address of the states as the pods reach it.")] = "",
    preview: Annotated[
        bool, typer.Option("--preview", help="Only preview; change nothing.")
    ] = False,
    operator_version: Annotated[str, typer.Option(help="Release of the operator.")] = "",
    kubeconfig: Annotated[
        Path | None, typer.Option(help="Cluster with the operator; its definition is read.")
    ] = None,
) -> None:
    """Print the objects with which the Pulumi Kubernetes Operator runs a site.

    No device is contacted, and no secret is read. Exit codes: 0 printed, 1 the file has problems,
    2 the operator could not run it.
    """
    if not operator:
        raise UsageError("the form of the export is missing.\n  fix    add --operator")
    if operator_version:
        refuse_old(operator_version)
    if kubeconfig:
        _refuse_old_cluster(kubeconfig)
    file = config_file(stack)
    written = _stack_file(file)
    config = _config(written)
    if piece := config.get(f"{PREFIX}piece"):
        site = stack.removesuffix(f"-{piece}")
        raise UsageError(f"{stack} is one piece of a site.\n  fix    name the site: {site}")
    states = _backend(backend)
    engine = engine_variables(states, written)
    stacks = _stacks(stack, _checked(file, config), config, engine)
    exported = Export(
        source=read_source(Path.cwd(), _needed(config), repo, token=git_token),
        backend="" if has_password(states) else states,
        provider=str(written.get("secretsprovider", "")),
        image=image or f"pulumi/pulumi:{wanted_versions()['pulumi']}-nonroot",
        namespace=namespace,
        secret=f"railyard-{object_name(stack)}",
        preview=preview,
    )
    objects = exported.render(stacks)
    tested = "checked" if operator_version or kubeconfig else "not checked: --kubeconfig FILE"
    say(render_export(objects, _head(stack, exported, stacks, tested)), nl=False)


def _checked(file: Path, config: Mapping[str, object]) -> CheckedSite:
    """The site without the stack's file: the Secret has the values that this file may lack."""
    if site := config.get(SITE_KEY):
        return load_checked_site(file.parent / str(site))
    return check_config_value(cast("Json", config.get(f"{PREFIX}cluster")), None)


def _refuse_old_cluster(kubeconfig: Path) -> None:
    from components.kubernetes.client import KubernetesCalls  # noqa: PLC0415 - rarely needed

    try:
        answer = KubernetesCalls(read_text(kubeconfig)).call("GET", DEFINITION)
    except OSError as error:
        raise UsageError(f"--kubeconfig {kubeconfig}: it cannot be read: {error}") from error
    where = f"{DEFINITION.rpartition('/')[2]} in the cluster of {kubeconfig}"
    if answer.status == _NOT_FOUND:
        raise UsageError(
            f"the cluster has no Pulumi Kubernetes Operator.\n  where  {where}\n"
            "  fix    install it: docs/howto/operator.md"
        )
    if "spec" not in answer.body:
        raise UsageError(
            f"the operator's definition cannot be read: {answer.words}\n  where  {where}\n"
            "  fix    use a login that may get customresourcedefinitions, or --operator-version"
        )
    refuse_old_definition(answer.body, where)


def _stack_file(file: Path) -> Mapping[str, object]:
    try:
        read: object = yaml.safe_load(read_text(file))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UsageError(
            f"{file} cannot be read: {error}\n  fix    run this in the folder of the project, and"
            " name one of its stacks"
        ) from error
    return cast("dict[str, object]", read) if isinstance(read, dict) else {}


def _needed(config: Mapping[str, object]) -> Sequence[str]:
    """The files without which the program cannot run."""
    site = Path(str(config.get(SITE_KEY, "")))
    own = [str(path) for path in (site, lock_path(site)) if path.is_file()]
    return ["Pulumi.yaml", REQUIREMENTS, *own]


def _config(written: Mapping[str, object]) -> Mapping[str, object]:
    """The stack's configuration without its encrypted values."""
    config: Any = written.get("config") or {}
    if not isinstance(config, dict):
        raise UsageError(
            "`config` of the stack's file is no mapping.\n  fix    write KEY: VALUE below"
        )
    config = cast("dict[str, Any]", config)
    sealed = {key for key, value in config.items() if isinstance(value, dict) and "secure" in value}
    return {key: value for key, value in config.items() if key not in sealed}


def _backend(named: str) -> str:
    found = named or backend_of(os.environ, Path.cwd())
    if not found:
        raise UsageError(f"Pulumi is not logged in, so no state is known.\n  fix    {OWN_LOGIN}")
    if found.startswith("file:") and not named:
        raise UsageError(
            f"the states are in a folder of this machine, {found}, which no pod has.\n"
            "  fix    move them to a backend that pods reach (docs/howto/operator.md), or name a"
            " volume of the pods: --backend file:///…"
        )
    return found


def _stacks(
    name: str, checked: CheckedSite, config: Mapping[str, object], engine: Sequence[str]
) -> list[OperatorStack]:
    """The stacks of the site in the order of an update, each with what it needs."""
    spec = checked.spec_or_raise()
    variables = [*engine, *sorted({ref.env for ref, _ in list_secrets(spec) if ref.env})]
    secrets = secret_names(spec)
    pieces = pieces_of(spec, name)
    if not pieces:
        return [OperatorStack(name, config, secrets, variables)]
    plan, stacks = make_plan(spec, name, checked.lock), {each.name: each.stack for each in pieces}
    needs = {each.name: plan_piece(plan, each).secret_names for each in pieces}
    needs[CLUSTER] |= {*secrets}  # its acceptance reads every switch
    return [
        OperatorStack(
            each.stack,
            {**config, f"{PREFIX}piece": each.name},
            [key for key in secrets if key in needs[each.name]],
            variables,
            [stacks[other] for other in each.after],
        )
        for each in pieces
    ]


def _head(
    stack: str, exported: Export, stacks: Sequence[OperatorStack], tested: str
) -> Sequence[str]:
    files = " ".join(f"--from-file={key}" for key in exported.keys(stacks))
    order = fold_names(each.name for each in stacks)
    return (
        f"{stack} at {exported.source.commit[:12]}, in the order of an update: {order}",
        f"The operator must be {OLDEST} or later ({tested}). docs/howto/operator.md explains all.",
        "First, in a folder with one file for each key, without a line break at its end:",
        f"  kubectl create namespace {exported.namespace}",
        f"  kubectl -n {exported.namespace} create secret generic {exported.secret} {files}",
        "Then: kubectl apply -f THIS_FILE",
    )
