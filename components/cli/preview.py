"""`railyard preview STACK`: the effects of a change, short enough for a pull request."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Final, Literal

import typer
import yaml

from components.artefacts.lock import lock_path
from components.checks.site import load_checked_site
from components.checks.site_files import refused_unpinned
from components.cli import stack as stacks
from components.cli.app import StackOrFile, option, say
from components.core.errors import RailyardError, UsageError
from components.core.limits import FILE_BYTES, TooLongError, run_within
from components.core.plain_text import plain_text
from components.core.templates import fault_text
from components.plan.make import make_plan
from components.preview import from_plans, items, report
from components.project.engine import is_lab
from components.update.proof import SCOPE, devices_in, part_of

Form = Literal["text", "markdown", "json"]
GIT_DEADLINE_S: Final = 30


def preview(  # noqa: PLR0913, PLR0917 - one parameter for each option
    stack: StackOrFile = "",
    form: Annotated[Form, typer.Option("--format")] = "text",
    against: Annotated[
        str, option("git ref whose file to compare with; nothing else is read")
    ] = "",
    offline: Annotated[  # noqa: FBT002 - a flag of the command line
        bool, option("compare with the recorded state; contact no device", "--offline")
    ] = False,
    scope: Annotated[
        str, option("devices to read and show alone: host=gpu01,gpu02,leaf=leaf-01")
    ] = "",
    limit: Annotated[
        int, typer.Option(help="characters that the Markdown may have", min=1000)
    ] = report.GITHUB_LIMIT,
    full: Annotated[Path | None, option("file for the whole text if the Markdown is cut")] = None,
) -> None:
    """Show the effects of an update: old and new settings, and interruptions.

    Exit codes: 0 shown, 1 shown, but the update would fail.
    """
    if full is not None:
        _write(full, "", mode="a")  # fails early if it cannot be written; keeps old content
    if against and scope:
        raise UsageError("--scope: a comparison of two files has no scope.\n  fix    leave it out")
    if stacks.is_file(stack) and not against:
        raise UsageError(fault_text(__file__, "file-alone", file=stack))
    scope = scope or os.environ.get(SCOPE, "")
    found = _against(stack, against) if against else preview_stack(stack, scope, offline=offline)
    if full is not None:
        _write(full, plain_text(report.render_text(found)))
    if form == "json":
        say(report.render_json(found), nl=False)
    elif form == "markdown":
        say(report.render_markdown(found, limit), nl=False)
    else:
        say(report.render_text(found), nl=False)
    raise typer.Exit(int(found.failed))


def _write(file: Path, text: str, mode: Literal["a", "w"] = "w") -> None:
    try:
        with file.open(mode, encoding="utf-8") as opened:
            opened.write(text)
    except OSError as error:
        raise UsageError(f"--full {file}: it cannot be written: {error.strerror}") from None


def _against(stack: str, reference: str) -> report.Preview:
    """Compare the file of the working tree with the one of a git ref."""
    named = Path(stack)
    file = named if named.suffix in {".yaml", ".yml"} else stacks.config_file(stack)
    own = file.absolute().parent.name if file.stem == "site" else file.stem.removeprefix("Pulumi.")
    name = stack if file != named else own
    now = load_checked_site(file)
    spec = now.spec_or_raise()
    with TemporaryDirectory() as folder:
        target = _at(reference, file, Path(folder))
        try:
            old = load_checked_site(target)
            old_spec = old.spec_or_raise()
        except RailyardError as error:
            text = str(error).replace(f"{folder}/ref/", f"{reference}:")
            words = {"text": text, "ref": reference}
            raise UsageError(fault_text(__file__, "unsound-ref", **words)) from None
        before = make_plan(old_spec, name, old.lock)
    found = from_plans.preview_plans(spec, before, make_plan(spec, name, now.lock), reference)
    edits = (*from_plans.added_programs(old_spec, spec), *items.edited_keys(old_spec, spec))
    return replace(found, alarms=(*edits, *found.alarms))


def _at(reference: str, file: Path, folder: Path) -> Path:
    """Copy the file of a git ref into a folder, with the site that it names and its lock."""
    target = folder / "ref" / file.name
    text = _show(reference, file)
    target.parent.mkdir()
    target.write_bytes(text)
    site: object = None
    with suppress(yaml.YAMLError, ValueError, RecursionError, LookupError, TypeError):
        site = yaml.safe_load(text)["config"][f"{stacks.PREFIX}site"]
    if isinstance(site, str) and site and "\0" not in site and not Path(site).is_absolute():
        beside = target.parent / site
        if beside.resolve().is_relative_to(folder.resolve()):
            beside.parent.mkdir(parents=True, exist_ok=True)
            beside.write_bytes(_show(reference, file.parent / site))
            _lock_at(reference, file.parent / site, beside)
    _lock_at(reference, file, target)
    return target


def _lock_at(reference: str, site: Path, target: Path) -> None:
    """Copy the lock of a site, if it existed at that ref; without a lock nothing was pinned."""
    with suppress(UsageError):
        lock_path(target).write_bytes(_show(reference, lock_path(site)))


def _show(reference: str, file: Path) -> bytes:
    """A file as it is at a git ref, which must exist and have the file."""
    if reference.startswith("-"):
        raise UsageError(f"{reference!r} is not a git ref: it begins with a hyphen")
    command = ["git", "-C", str(file.absolute().parent), "show", f"{reference}:./{file.name}"]
    try:
        status, text, errors = run_within(command, GIT_DEADLINE_S, FILE_BYTES)
    except (TimeoutError, TooLongError) as error:
        raise UsageError(f"{file} at {reference}: git: {error}") from None
    except OSError as error:
        raise UsageError(f"git cannot be run: {error.strerror}") from error
    if status != 0:
        words = {"file": file, "ref": reference, "said": errors.decode(errors="replace").strip()}
        raise UsageError(fault_text(__file__, "unknown-ref", **words))
    return text


def preview_stack(name: str, scope: str = "", *, offline: bool = False) -> report.Preview:
    """Preview an update of one stack, or of the devices of a scope alone."""
    loaded = stacks.load_stack(name)
    only = devices_in(loaded.spec, scope)
    inputs = items.recorded_inputs(stacks.pulumi(["stack", "export", "--stack", name]))
    recorded = items.renamed_items(items.items_of_state(inputs), loaded.spec)
    plan = part_of(loaded.plan, only)
    found = from_plans.preview_state(loaded.spec, plan, recorded, loaded.applied)
    lab, others = is_lab(loaded.secrets.get("lab")), plan.hosts or plan.kubernetes
    if others and (unpinned := refused_unpinned(loaded.spec, loaded.lock, lab=lab)):
        words = f"an update would refuse this site: {unpinned.what}"
        found = replace(found, alarms=(words, *found.alarms))
    if only:
        edits = tuple(each for each in found.edits if each.subject in only)
        found = replace(found, edits=edits, basis=f"{found.basis}; of {scope} alone")
    if offline or (os.environ.get("RAILYARD_OBSERVE") or loaded.secrets.get("observe")) == "never":
        return found
    # Add what the engine and the program saw on devices; if they fail, add the failure.
    edited = from_plans.edited_names(loaded.plan, recorded)
    words = ["preview", "--json", "--non-interactive", "--stack", name, *stacks.config_flags(name)]
    environment, limit_s = {SCOPE: scope} if scope else None, stacks.PREVIEW_DEADLINE_S
    done = stacks.run_pulumi(words, environment=environment, deadline_s=limit_s)
    try:
        news = items.read_engine(done.stdout, edited)
    except ValueError:
        return _failed(found, (done.stderr or done.stdout).strip())
    if done.returncode != 0 or news.errors:
        return _failed(found, "\n".join(news.errors) or done.stderr.strip())
    return replace(
        found,
        basis="the file against devices and state, as `pulumi preview` sees them"
        + (f"; of {scope} alone" if scope else ""),
        alarms=news.alarms,
        repairs=news.repairs,
        notes=(*news.notes, *(note for note in found.notes if note == from_plans.PROVEN_AGAIN)),
    )


def _failed(found: report.Preview, why: str) -> report.Preview:
    words = f"pulumi preview failed, and an update would: {why}"
    return replace(found, alarms=(words, *found.alarms), failed=True)
