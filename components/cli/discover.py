"""`railyard discover`, `rename` and `preflight`: the devices of a site before its updates."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final, Literal

import typer

from components.cli import app as cli
from components.cli.stack import is_file, load_stack_or_file, pulumi, read_config
from components.core.errors import UsageError
from components.core.plain_text import plain_text
from components.core.problem import SpecPath
from components.core.templates import fault_text
from components.discover.rename import Rename, rename_device
from components.discover.run import compare, look_at_hosts, render_report, replace_file, report_json
from components.discover.site_file import SiteFile, Target, find_targets, read_site_file
from components.drift.applied import applied_from_export
from components.model.places import ssh_secrets
from components.model.sources import ReachedSsh
from components.model.units import SecretRef
from components.preflight.artefacts import judge_pins
from components.preflight.report import render_html, render_json, render_text
from components.preflight.run import run_preflight
from components.project.engine import is_lab, judge_engine, look_at_engine
from components.reading.site_path import config_file
from components.remote.step import env_name, secrets_from
from components.update.secrets import resolve

_SITE: Final = Path("site.yaml")
rename_app = cli.command_app(
    "Give a host or a switch another name; its resources and its settings stay."
)
_OLD = Annotated[str, typer.Argument(help="the name in the file")]
_NEW = Annotated[str, typer.Argument(help="the name that it gets")]
Form = Literal["text", "json", "html"]


def discover(  # noqa: PLR0913 - one parameter for each option
    hosts: Annotated[
        list[str] | None,
        typer.Argument(help="hosts of the file, or USER@ADDRESS; default all of the file"),
    ] = None,
    *,
    file: Annotated[Path, cli.option("site.yaml or Pulumi.<stack>.yaml")] = _SITE,
    user: Annotated[str, cli.option("login name on a host outside the file")] = "root",
    host_key: Annotated[str | None, cli.option("public key of a host outside the file")] = None,
    identity: Annotated[Path | None, cli.option("file with the private SSH key")] = None,
    write: Annotated[bool, cli.option("add the missing entries to the file", "--write")] = False,
    output: cli.TextOrJson = "text",
) -> None:
    """Read the hosts' RDMA cards and GPUs, and show the entries to add to the site file.

    Changes nothing on a host, and no existing value in the file. Exit codes: 0 the file is
    complete, 2 unknown host or file, 3 file and hosts differ, 4 a host did not answer.
    """
    site = read_site_file(file)
    targets, errors = find_targets(site, hosts or [], host_key, user)
    keys = _secrets(site, targets, identity)
    looks = look_at_hosts([target.endpoint for target in targets], keys)
    report, text = compare(site, targets, looks, errors)
    if write and text != site.text:
        replace_file(site, text)
        report = replace(report, written=True)
    if output == "json":
        cli.say(json.dumps(report_json(report), indent=1, sort_keys=True))
    else:
        cli.say(render_report(report), nl=False)
    raise typer.Exit(report.exit_code)


def _secrets(site: SiteFile, targets: Sequence[Target], identity: Path | None) -> Mapping[str, str]:
    """Find the login secrets for the hosts: given, environment, external store or stack."""
    names = {name for target in targets for name in target.endpoint.secret_names}
    known = secrets_from(os.environ)
    if identity is not None:
        own = {target.endpoint.private_key_secret or "" for target in targets}
        try:
            known |= dict.fromkeys(own, identity.expanduser().read_text())
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{identity}: the private key cannot be read: {error}") from error
    references: list[tuple[SecretRef, SpecPath]] = []
    for target in targets:
        references += ssh_secrets(target.ssh, (*target.path, "ssh"))
        for hop in target.ssh.hops if isinstance(target.ssh, ReachedSsh) else ():
            references += ssh_secrets(hop.ssh, ("jump_hosts", hop.name, "ssh"))
    known |= resolve([each for each in references if each[0].name not in known], os.environ)
    missing = sorted(names - set(known))
    if not missing:
        return known
    if site.stack is None:
        words = {"site": site, "variable": env_name(missing[0])}
        raise UsageError(fault_text(__file__, "no-keys", **words))
    return {**read_config(site.stack).secrets, **known}


@rename_app.command("host")
def rename_host(old: _OLD, new: _NEW, stack: cli.SelectedStack = "") -> None:
    """Rename a host in the site file; its Kubernetes node keeps its name.

    Contacts no device: the next update does the rest. Exit codes: 0 written, 1 the site has
    problems, 2 the old name is unknown, or the new one is taken or not allowed.
    """
    _rename(Rename("host", old, new), stack)


@rename_app.command("switch")
def rename_switch(old: _OLD, new: _NEW, stack: cli.SelectedStack = "") -> None:
    """Rename a switch in the site file; the values that `destroy` restores stay recorded.

    Contacts no device: the next update does the rest. Exit codes: 0 written, 1 the site has
    problems, 2 the old name is unknown, or the new one is taken or not allowed.
    """
    _rename(Rename("switch", old, new), stack)


def _rename(asked: Rename, name: str) -> None:
    file = read_site_file(config_file(name))
    applied = applied_from_export(pulumi(["stack", "export", "--stack", name]))
    done = rename_device(file, asked, applied)
    replace_file(file, done.text)
    lines = ", ".join(f"{file.path}:{line}" for line in done.lines)
    said = [f"{asked.old} is {asked.new} now: {lines}"]
    if done.former:
        said.append(
            f"The next update keeps the state of {done.former} for {asked.new} (`renamed` in the "
            "file), and changes nothing on the device."
        )
    else:
        said.append(f"The state does not contain {asked.old}, or it already contains {asked.new}.")
    if done.kept_node:
        said.append(
            f"Its Kubernetes node stays {done.kept_node}: a node cannot be renamed. For another one"
            f" take {asked.new} out of the file, update, and add it again: it is drained, its node"
            " is deleted, and it joins as a new node."
        )
    said.append(f"Now look at it and run it: railyard preview {name}; pulumi up -s {name}")
    cli.say("\n".join(said))


def preflight(
    site: cli.StackOrFile = "",
    *,
    form: Annotated[Form, typer.Option("--format")] = "text",
    out: Annotated[Path | None, cli.option("file for the report")] = None,
) -> None:
    """Look at every device, artefact and API of a site, and name all that an update would lack.

    Changes nothing. With a FILE, secrets come from the environment as RAILYARD_SECRET_NAME. Exit
    codes: 0 good or only warnings, 1 problems, 2 unknown stack or file, 4 a device did not answer.
    """
    loaded, alone = load_stack_or_file(site), is_file(site)
    folder = Path(site).absolute().parent if alone else Path.cwd()
    spec, lock, lab = loaded.spec, loaded.lock, is_lab(loaded.secrets.get("lab"))
    found = run_preflight(spec, loaded.plan, loaded.all_secrets, loaded.applied, folder, lock)
    engine = () if lab or alone else judge_engine(look_at_engine(os.environ, folder))
    seen = map(loaded.lines.locate_all, found.findings)
    found = replace(found, findings=(*engine, *judge_pins(spec, lock, lab=lab), *seen))
    text = {"text": render_text, "json": render_json, "html": render_html}[form](found)
    if out is None:
        cli.say(text, paint=form == "text")
    else:
        cli.write_text(out, f"{plain_text(text)}\n")
        cli.say(f"{found.summary}\nreport: {out}")
    raise typer.Exit(found.exit_code)
