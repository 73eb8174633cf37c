"""`railyard image build`: the image of the jobs, with the user's own builder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from components.catalogue.upstream import PROBE_IMAGE_BASE
from components.checks.site import load_checked_site
from components.cli.app import command_app, say
from components.core.errors import UsageError
from components.jobs.image_build import BuildRoom, check_name, choose_builder

app = command_app("Build the image in which acceptance and sample jobs run.")


@app.callback()
def image() -> None:
    """Keep `build` a command of its own."""


@app.command()
def build(
    site: Annotated[
        Path | None, typer.Argument(help="A site file: its jobs.image is the tag.")
    ] = None,
    tag: Annotated[str | None, typer.Option(help="Name and tag, in place of a site's.")] = None,
    base: Annotated[
        str, typer.Option(help="Base image, with a tag or better its digest.")
    ] = PROBE_IMAGE_BASE,
    builder: Annotated[
        str | None, typer.Option(help="docker, podman, buildah or nerdctl; default: what is there.")
    ] = None,
    *,
    push: Annotated[bool, typer.Option("--push", help="Push it when it is built.")] = False,
) -> None:
    """Build the image of the jobs on a base that is pinned by its digest.

    Exit codes: 0 built, and pushed if asked; 1 the build or the push failed; 2 no builder, or a
    name that is not pinned; 4 a daemon or registry that does not answer.
    """
    name = _name(site, tag)
    room = BuildRoom(choose_builder(builder), say)
    room.build(name, room.pin(base))
    if push:
        room.push(name)
    done = "built and pushed" if push else "built"
    say(f"railyard: {done} {name}")


def _name(site: Path | None, tag: str | None) -> str:
    """What the image is called."""
    if (site is None) == (tag is None):
        raise UsageError(
            "image: name the image once.\n"
            "  fix    railyard image build SITE, or railyard image build --tag <name>:<tag>"
        )
    if tag is not None:
        return check_name(tag, "--tag")
    checked = load_checked_site(site or Path())
    name = checked.spec_or_raise().jobs.image
    if "@" in name:
        raise UsageError(
            f"image: jobs.image of {site} is a digest, which a build only gives: {name}\n"
            "  fix    name it by a tag, or build under another one: --tag"
        )
    return check_name(name, "jobs.image")
