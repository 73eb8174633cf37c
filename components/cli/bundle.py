"""`railyard bundle make SITE DIR` and `push DIR REGISTRY`: a site without a network."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from typer.core import TyperGroup

from components.artefacts.bundle import open_bundle
from components.artefacts.gather import gather, push_bundle
from components.artefacts.lock import read_lock
from components.artefacts.logins import docker_logins
from components.artefacts.naming import in_registry, registry_host
from components.artefacts.registry import RegistryClient
from components.artefacts.web import Access, Login
from components.checks.site_files import find_unpinned
from components.cli.app import say
from components.cli.pin import load_pinnable, reach_of
from components.core.errors import Bug, UsageError
from components.core.limits import read_text
from components.model.sources import Registry
from components.remote.step import env_name, secrets_from

if TYPE_CHECKING:
    # Typer has no public name for the types that its own group class takes and returns.
    from typer._click import Command, Context


class _MakesByDefault(TyperGroup):
    """`bundle SITE DIR` is `bundle make SITE DIR`."""

    def resolve_command(
        self, ctx: Context, args: list[str]
    ) -> tuple[str | None, Command | None, list[str]]:
        """A first word that is no verb is the site."""
        named = args and (args[0] in self.commands or args[0].startswith("-"))
        return super().resolve_command(ctx, args if named else ["make", *args])


app = typer.Typer(
    cls=_MakesByDefault,
    help="Gather everything that a site brings into a folder, and push its images from there.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)
_SECRET: Final = "registry_password"  # noqa: S105 - the name of a secret, not one


@app.command()
def make(
    file: Annotated[Path, typer.Argument(help="A site.yaml, or a Pulumi.<stack>.yaml.")],
    folder: Annotated[Path, typer.Argument(help="Where the bundle goes.")],
    *,
    mirror: Annotated[
        bool, typer.Option("--mirror", help="take it from the site's mirror and registry")
    ] = False,
) -> None:
    """Gather all files, charts and images of a site into a folder, by the digests of its lock.

    What is there whole is not fetched again, so a run that was cut goes on. Exit codes: 0 complete,
    1 the site is not pinned, or something is not what the lock says, 2 no such file, 4 something
    could not be fetched.
    """
    spec, site = load_pinnable(file)
    lock, _ = read_lock(site)
    if unpinned := find_unpinned(spec, lock):
        say(str(unpinned), err=True)
        raise typer.Exit(1)
    failed = gather(reach_of(spec, file, upstream=not mirror), lock, folder, say)
    for error in failed:
        say(f"\n{error}", err=True)
    if failed:
        raise typer.Exit(max(error.exit_code for error in failed))
    say(f"{folder}: complete. Name it in the site: `sources: {{bundle: {folder}}}`.")


@app.command()
def push(
    folder: Annotated[Path, typer.Argument(help="A bundle.")],
    registry: Annotated[str, typer.Argument(help="HOST:PORT, with a path where there is one.")],
    *,
    ca: Annotated[Path | None, typer.Option(help="certificates that the registry trusts")] = None,
    user: Annotated[str, typer.Option(help="who may push; the password is a secret")] = "",
    insecure: Annotated[bool, typer.Option("--insecure", help="plain HTTP")] = False,
) -> None:
    """Push the images of a bundle into a registry; what is there already is not sent again.

    The password is in RAILYARD_SECRET_REGISTRY_PASSWORD, or Docker has logged in. Exit codes: 0
    pushed, 1 the bundle is broken, 2 no password, 4 the registry refuses.
    """
    bundle = open_bundle(folder)
    if bundle is None:
        raise Bug("a bundle that is named is opened")
    try:
        text = read_text(ca) if ca else None
    except OSError as error:
        raise UsageError(f"{ca}: cannot be read: {error.strerror}.") from error
    place = Registry(address=registry, ca=text, insecure=insecure)
    host = registry_host(place)
    login = _login(user) if user else docker_logins().get(host)
    client = RegistryClient(host, Access(text, login, insecure))
    sent = push_bundle(bundle, client, lambda name: in_registry(name, place), say)
    say(f"{registry}: all images of {folder} are there; {sent} layers were sent.")


def _login(user: str) -> Login:
    password = secrets_from(os.environ).get(_SECRET)
    if password is None:
        raise UsageError(f"there is no password for {user}.\n  fix    {env_name(_SECRET)} holds it")
    return Login(user, password)
