"""`railyard pin SITE` records the content of each address; `railyard bundle` fetches everything."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from typer.core import TyperGroup

from components.artefacts.gather import gather, push_bundle
from components.artefacts.listing import charts_by_release
from components.artefacts.lock import lock_path, open_bundle, read_lock, write_lock
from components.artefacts.naming import in_registry, registry_host
from components.artefacts.pin import Pinned, Reach, pin_site
from components.artefacts.registry import RegistryClient, docker_logins
from components.artefacts.resolve import merged
from components.artefacts.web import Access, Login
from components.checks.render import render_text
from components.checks.site import check_loaded
from components.checks.site_files import MENDED_BY_FETCHING, find_unpinned
from components.cli.app import SitePath, TextOrJson, option, say
from components.cli.stack import read_config
from components.core.errors import Bug, SpecError, UsageError
from components.core.limits import read_text
from components.core.templates import fault_text
from components.model.cluster import ClusterSpec
from components.model.places import list_secrets
from components.model.sources import Registry
from components.operators.operators_plan import chart_values
from components.reading.load import load_site
from components.reading.site_path import stack_of
from components.remote.step import env_name, secrets_from
from components.update.secrets import resolve

if TYPE_CHECKING:
    # Typer has no public name for the types that its own group class takes and returns.
    from typer._click import Command, Context

_DIGITS: Final = 12
_KIB, _MIB = 1 << 10, 1 << 20
_SECRET: Final = "registry_password"  # noqa: S105 - the name of a secret, not one


def pin(
    file: SitePath,
    *,
    update: Annotated[
        list[str] | None,
        option("take the version that upstream serves now for this artefact; `all` for every one"),
    ] = None,
    upstream: Annotated[
        bool, option("ask upstream, past the site's mirror and registry", "--upstream")
    ] = False,
    output: TextOrJson = "text",
) -> None:
    """Ask upstream for each artefact's version and checksum, and write them into the lock.

    Fetches files and charts and asks for images, so it needs a network; contacts no device. The
    lock is written whole, or not at all. Exit codes: 0 pinned, 1 the site has problems, or a source
    serves content that the lock or its publisher does not know, 2 unknown file or secret, 4
    something could not be fetched.
    """
    spec, site = _load_pinnable(file)
    reach = _reach_of(spec, file, upstream=upstream)
    lock, _ = read_lock(site)
    found = pin_site(reach, lock, datetime.now(UTC).date(), update or ())
    codes = [each.error.exit_code for each in found if each.error is not None]
    codes += [1 for each in found if each.state == "changed"]
    code = max(codes, default=0)
    if code == 0:
        entries = [each.entry for each in found if each.entry is not None]
        write_lock(lock_path(site), {entry.key: entry for entry in entries})
    if output == "json":
        rows = [
            {
                "name": each.artefact.name, "kind": each.artefact.kind,
                "address": each.artefact.address, "state": each.state,
                "sha256": each.entry.sha256 if each.entry else each.artefact.checksum,
                "size": each.entry.size if each.entry else None,
                "locked": each.before.sha256 if each.before else None, "problem": each.error
                and {key: getattr(each.error, key) for key in ("address", "what", "fix")},
            }
            for each in found
        ]  # fmt: skip
        say(json.dumps({"lock": str(lock_path(site)), "artefacts": rows}, indent=1))
    else:
        say(_report(found, lock_path(site), written=code == 0))
    raise typer.Exit(code)


def _load_pinnable(file: Path) -> tuple[ClusterSpec, Path]:
    """Load a site without errors outside its lock, with its file; SpecError is the report."""
    loaded = load_site(file)
    checked = check_loaded(loaded, str(file))
    errors = [each for each in checked.problems if each.severity == "error"]
    errors = [each for each in errors if each.rule not in MENDED_BY_FETCHING]
    if loaded.spec is None or loaded.path is None or errors:
        raise SpecError(render_text(errors or checked.problems))
    return loaded.spec, loaded.path


def _reach_of(spec: ClusterSpec, file: Path, *, upstream: bool) -> Reach:
    """The sources of a site, with secrets, logins and values; UsageError if a secret is missing."""
    sources = spec.sources
    logins = [each.login for each in (sources.mirror, sources.registry) if each and each.login]
    if upstream:
        logins.clear()
    if spec.containers is not None:
        own = (spec.containers.login, spec.containers.build and spec.containers.build.login)
        logins += [login for login in own if login]
    wanted = {login.password.name for login in logins}
    outside = ((each, path) for each, path in list_secrets(spec) if each.name in wanted)
    known = {**resolve(outside, os.environ), **secrets_from(os.environ)}
    if not wanted <= set(known) and (stack := stack_of(file)):
        known = {**read_config(stack).secrets, **known}
    if missing := sorted(wanted - set(known)):
        words = {"secret": missing[0], "file": file, "variable": env_name(missing[0])}
        raise UsageError(fault_text(__file__, "no-login", **words))
    values = {
        release: merged(chart_values(spec, release), owner.values)
        for release, (owner, _, _) in charts_by_release(spec).items()
    }
    return Reach(spec, known, upstream, docker_logins(), values)


def _report(found: Sequence[Pinned], path: Path, *, written: bool) -> str:
    wide = max(len(each.artefact.name) for each in found)
    lines: list[str] = []
    failures: dict[tuple[str, str], list[str]] = {}
    for each in found:
        artefact, entry = each.artefact, each.entry
        count = entry.size if entry else 0
        size = f"{count / _MIB:9.1f} MiB" if count >= _MIB else f"{count / _KIB:9.1f} KiB"
        what = (artefact.checksum or (entry.sha256 if entry else ""))[:_DIGITS]
        lines.append(
            f"{artefact.kind:<10} {artefact.name:<{wide}}  {each.state:<12} "
            f"{what:<{_DIGITS}} {size if entry else ''}".rstrip()
        )
        if (error := each.error) is not None:
            name = f"{artefact.name}: {error.address}"
            failures.setdefault((error.what, error.fix), []).append(name)
    # Each cause of a failure and its fix once, with all artefacts that failed for it.
    lines += [
        f"\n{names[0]}: {what}\n  fix    {fix}."
        if len(names) == 1
        else "\n  ".join([f"\n{len(names)} artefacts: {what}", *names]) + f"\n  fix    {fix}."
        for (what, fix), names in failures.items()
    ]
    for each in found:
        if each.state == "changed" and each.before and each.entry:
            words = {"artefact": each.artefact, "now": each.entry, "before": each.before}
            lines.append(f"\n{fault_text(__file__, 'changed', **words)}")
    if written:
        new, old = (sum(each.state == word for each in found) for word in ("pinned", "unchanged"))
        return "\n".join([*lines, f"{path}: {new} pinned, {old} unchanged."])
    failed = sum(each.error is not None for each in found)
    changed = sum(each.state == "changed" for each in found)
    causes = [f"{failed} of {len(found)} could not be pinned"] if failed else []
    causes += [f"{changed} of {len(found)} changed"] if changed else []
    return "\n".join([*lines, f"\n{path}: not written: {' and '.join(causes)}."])


class _MakesByDefault(TyperGroup):
    """Read `bundle SITE DIR` as `bundle make SITE DIR`."""

    def resolve_command(
        self, ctx: Context, args: list[str]
    ) -> tuple[str | None, Command | None, list[str]]:
        """Take the first word as the site if it is not a verb."""
        named = args and (args[0] in self.commands or args[0].startswith("-"))
        return super().resolve_command(ctx, args if named else ["make", *args])


bundle_app = typer.Typer(
    cls=_MakesByDefault, no_args_is_help=True, add_completion=False, rich_markup_mode=None,
    help="Gather everything that a site brings into a folder, and push its images from there.",
)  # fmt: skip


@bundle_app.command()
def make(
    file: SitePath,
    folder: Annotated[Path, typer.Argument(help="Where the bundle goes.")],
    *,
    mirror: Annotated[
        bool, option("take it from the site's mirror and registry", "--mirror")
    ] = False,
) -> None:
    """Gather all files, charts and images of a site into a folder, by the digests of its lock.

    Complete files are not fetched again, so an interrupted run goes on. Exit codes: 0 complete, 1
    the site is not pinned, or something differs from the lock, 2 unknown file, 4 something could
    not be fetched.
    """
    spec, site = _load_pinnable(file)
    lock, _ = read_lock(site)
    if unpinned := find_unpinned(spec, lock):
        say(str(unpinned), err=True)
        raise typer.Exit(1)
    failed = gather(_reach_of(spec, file, upstream=not mirror), lock, folder, say)
    for error in failed:
        say(f"\n{error}", err=True)
    if failed:
        raise typer.Exit(max(error.exit_code for error in failed))
    say(f"{folder}: complete. Name it in the site: `sources: {{bundle: {folder}}}`.")


@bundle_app.command()
def push(
    folder: Annotated[Path, typer.Argument(help="A bundle.")],
    registry: Annotated[
        str, typer.Argument(help="HOST:PORT, with a path if the registry has one.")
    ],
    *,
    ca: Annotated[Path | None, option("certificates that the registry trusts")] = None,
    user: Annotated[str, option("who may push; the password is a secret")] = "",
    insecure: Annotated[bool, option("plain HTTP", "--insecure")] = False,
) -> None:
    """Push the images of a bundle into a registry; images that it has are not sent again.

    The password is in RAILYARD_SECRET_REGISTRY_PASSWORD, or Docker has logged in. Exit codes: 0
    pushed, 1 the bundle is broken, 2 the password is missing, 4 the registry refuses.
    """
    bundle = open_bundle(folder)
    if bundle is None:
        raise Bug("the named bundle must be open")
    try:
        text = read_text(ca) if ca else None
    except OSError as error:
        raise UsageError(f"{ca}: cannot be read: {error.strerror}.") from error
    place = Registry(address=registry, ca=text, insecure=insecure)
    host = registry_host(place)
    login = docker_logins().get(host)
    if user:
        password = secrets_from(os.environ).get(_SECRET)
        if password is None:
            raise UsageError(f"no password for {user}.\n  fix    set {env_name(_SECRET)}")
        login = Login(user, password)
    client = RegistryClient(host, Access(text, login, insecure))
    sent = push_bundle(bundle, client, lambda name: in_registry(name, place), say)
    say(f"{registry}: all images of {folder} are there; {sent} layers were sent.")
