"""`railyard discover HOST…`: what is plugged into the hosts, into the site file."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final, Literal

import typer

from components.checks.access import ssh_secrets
from components.cli.app import command_app, say
from components.cli.stack import read_config
from components.core.errors import UsageError
from components.core.problem import SpecPath
from components.discover.report import render_report, report_json
from components.discover.run import compare, look_at_hosts, replace_file
from components.discover.site_file import SiteFile, read_site_file
from components.discover.targets import Target, find_targets
from components.model.jump_hosts import ReachedSsh
from components.model.units import SecretRef
from components.remote.step import env_name, secrets_from
from components.update.secrets import resolve

app = command_app()
_SITE: Final = Path("site.yaml")


@app.command()
def discover(  # noqa: PLR0913 - one parameter for each option
    hosts: Annotated[
        list[str] | None,
        typer.Argument(help="hosts of the file, or USER@ADDRESS; default all of the file"),
    ] = None,
    *,
    file: Annotated[Path, typer.Option(help="site.yaml or Pulumi.<stack>.yaml")] = _SITE,
    user: Annotated[
        str, typer.Option(help="login name on a host that is not in the file")
    ] = "root",
    host_key: Annotated[
        str | None, typer.Option(help="public key of a host that is not in the file")
    ] = None,
    identity: Annotated[Path | None, typer.Option(help="file with the private SSH key")] = None,
    write: Annotated[bool, typer.Option("--write", help="add to the file what it lacks")] = False,
    output: Annotated[Literal["text", "json"], typer.Option("--format")] = "text",
) -> None:
    """Read the hosts' RDMA cards and GPUs, and show what the site file lacks of them.

    Nothing on a host is changed, and no value of the file. Exit codes: 0 the file has it all,
    2 unknown host or file, 3 file and hosts differ, 4 a host was not reached.
    """
    site = read_site_file(file)
    targets, errors = find_targets(site, hosts or [], host_key, user)
    keys = _secrets(site, targets, identity)
    looks = look_at_hosts([target.endpoint for target in targets], keys)
    report, text = compare(site, targets, looks, errors)
    if write and text != site.text:
        replace_file(site, text)
        report = report.as_written()
    if output == "json":
        say(json.dumps(report_json(report), indent=1, sort_keys=True))
    else:
        say(render_report(report), nl=False)
    raise typer.Exit(report.exit_code)


def _secrets(site: SiteFile, targets: Sequence[Target], identity: Path | None) -> Mapping[str, str]:
    """What logging in to the hosts takes: given, in the environment, from elsewhere or a stack's.

    Raises:
        UsageError: Something is nowhere, or cannot be read.
    """
    names = {name for target in targets for name in target.endpoint.secret_names}
    known = secrets_from(os.environ)
    if identity is not None:
        own = {target.endpoint.private_key_secret or "" for target in targets}
        known |= dict.fromkeys(own, _read_identity(identity))
    known |= resolve(
        [each for target in targets for each in _references(target) if each[0].name not in known],
        os.environ,
    )
    missing = sorted(names - set(known))
    if not missing:
        return known
    if site.stack is None:
        raise UsageError(
            f"{site.path} is a plain site file and holds no keys, so no host can be reached.\n"
            f"  fix    --identity FILE names the private key, or {env_name(missing[0])} holds it,"
            " or --file Pulumi.<stack>.yaml names a stack that has it."
        )
    return {**read_config(site.stack).secrets, **known}


def _references(target: Target) -> Iterator[tuple[SecretRef, SpecPath]]:
    yield from ssh_secrets(target.ssh, (*target.path, "ssh"))
    for hop in target.ssh.hops if isinstance(target.ssh, ReachedSsh) else ():
        yield from ssh_secrets(hop.ssh, ("jump_hosts", hop.name, "ssh"))


def _read_identity(identity: Path) -> str:
    try:
        return identity.expanduser().read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{identity}: the private key cannot be read: {error}") from error
