"""Render the files of a new project, and write all or none without overwriting any."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from importlib import resources
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Literal, cast, get_args

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from components.core.errors import Bug, UsageError
from components.core.record import record
from components.core.templates import fault_text, read_table
from components.project.engine import INSTALL_CLI, OWN_LOGIN, Engine
from components.project.lab_marks import is_stand_in
from components.project.wheel import DISTRIBUTION, FOLDER, Wheel, pick_pins
from components.reading.load import MARK

_HOST: Final = r"(hosts\[\](\.each\.[^.]+)?|host_templates\.[^.]+)"
_SHORT: Final = {
    "HOST": _HOST,
    "SSH": rf"((switches|environment\.hypervisors)\[\]|{_HOST})\.ssh",
    "POOL": r"environment\.instances\.pools\[\]",
}
"""Words for long patterns in `marks.yaml`, which says what to write at a path of a value."""
Example = Literal[
    "dgx-roce", "esxi-roce", "shared-rdma", "crusoe-k3s", "rail-optimised", "spine-leaf",
    "mixed-fabric", "mixed-nodes", "quantum-ib", "quantum-ufm",
]  # fmt: skip
EXAMPLES: Final[tuple[Example, ...]] = get_args(Example)
SITE_FILE: Final = "site.yaml"
WORKFLOW: Final = ".github/workflows/preview.yml"
REQUIREMENTS: Final = "requirements.txt"
_CHECKOUT_INSTALL: Final = (
    "          .venv/bin/pip install --require-hashes -r requirements.lock\n"
    "          .venv/bin/pip install --no-deps -e .\n"
)
_INSTALL: Final = "          .venv/bin/pip install --require-hashes -r requirements.txt\n"
_NOT_A_NAME: Final = re.compile(r"[^A-Za-z0-9_.-]+")
_INDENT: Final = "\n       "


def mark_example(text: str) -> str:
    """The text of an example with a comment on each line to change; no value has several lines."""
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    marks: Mapping[str, str] = read_table(__file__, "marks")
    explained = {
        re.sub("HOST|SSH|POOL", lambda short: _SHORT[short[0]], form): words
        for form, words in marks.items()
    }
    found: dict[int, dict[str, None]] = {}
    for path, node in _leaves(root, ""):
        fitting = (words for form, words in explained.items() if re.fullmatch(form, path))
        words = next(fitting, None)
        if words is not None and node.start_mark.line == node.end_mark.line:
            found.setdefault(node.start_mark.line, {})[words] = None
    lines = text.splitlines()
    for number, words in found.items():
        lines[number] += f"  {MARK}{'; '.join(words)}"
    return "\n".join(lines) + "\n"


def _leaves(node: Node | None, path: str) -> Iterator[tuple[str, ScalarNode]]:
    """Every scalar below a node, with its path: keys with dots, and `[]` for a list."""
    if isinstance(node, ScalarNode):
        yield path, node
    elif isinstance(node, SequenceNode):
        for item in cast("list[Node]", node.value):
            yield from _leaves(item, f"{path}[]")
    elif isinstance(node, MappingNode):
        for key, value in cast("list[tuple[Node, Node]]", node.value):
            yield from _leaves(value, f"{path}.{key.value}" if path else str(key.value))


@record
class ProjectPlan:
    """The choices from which a project is rendered."""

    name: str
    """Name of the Pulumi project, which comes from its folder."""
    stack: str
    site: str
    """The text of the site."""
    wheel: Wheel
    """The Railyard of this project."""
    versions: Mapping[str, str]
    """`pulumi`, and each plugin, to its exact version."""


def project_name(folder: str) -> str:
    """A project name that Pulumi accepts, made from the folder's name."""
    return _NOT_A_NAME.sub("-", folder).strip("-.") or "site"


def render_files(plan: ProjectPlan) -> dict[str, bytes]:
    """Path in the project to the content of that file."""
    # The workflow of this repository, for a project that installs Railyard as a package.
    workflow = _shipped("template", "preview.yml")
    version = re.compile(r"(?<=PULUMI_VERSION: )\S+")
    known = _CHECKOUT_INSTALL in workflow and version.search(workflow) and "|| 'dev'" in workflow
    if not known:
        raise Bug("the workflow that ships with Railyard has another form. Please open an issue.")
    workflow = workflow.replace(_CHECKOUT_INSTALL, _INSTALL)
    workflow = workflow.replace("|| 'dev'", f"|| '{plan.stack}'")
    workflow = workflow.replace("else dev.", f"else {plan.stack}.")
    texts = {
        "Pulumi.yaml": _shipped("template", "project.yaml").format(name=json.dumps(plan.name)),
        f"Pulumi.{plan.stack}.yaml": f"config:\n  railyard:site: {SITE_FILE}\n",
        "__main__.py": _shipped("template", "program.txt"),
        SITE_FILE: mark_example(plan.site),
        ".gitignore": _shipped("template", "ignored.txt"),
        WORKFLOW: version.sub(plan.versions["pulumi"], workflow),
    }
    return {name: text.encode() for name, text in texts.items()} | render_package(plan.wheel)


def render_package(wheel: Wheel) -> dict[str, bytes]:
    """The files that install Railyard: the wheel, and every hash that pip checks."""
    text = (
        "# Railyard itself and all that it needs, each with its hash. `railyard init . --package`\n"
        f"# writes it again for another release.\n{wheel.requirement}\n{runtime_pins()}"
    )
    return {REQUIREMENTS: text.encode(), wheel.path: wheel.content}


def runtime_pins() -> str:
    """The pins of all packages that Railyard needs to run, with their hashes."""
    names = frozenset(_shipped("template", "runtime.txt").split())
    return pick_pins(_shipped("template", "requirements.lock"), names)


def example_text(example: Example) -> str:
    """The site file of an example, as the package ships it."""
    return _shipped("examples", f"{example}.yaml")


def _shipped(*place: str) -> str:
    return resources.files("components.project").joinpath(*place).read_text("utf-8")


def write_project(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write the files of a new project, none of which may exist.

    The files are written to a temporary folder and then linked to their places. A link fails if a
    file appeared there in the meantime; then the links of this call are removed again.
    Raises: UsageError: a file exists or cannot be written; the folder is as it was before.
    """
    if folder.exists() and not folder.is_dir():
        raise UsageError(fault_text(__file__, "not-a-folder", folder=folder))
    if there := [name for name in files if os.path.lexists(folder / name)]:
        raise UsageError(fault_text(__file__, "there", folder=folder, names=", ".join(there)))
    with ExitStack() as undo:
        _make_folders(folder, undo)
        try:
            with TemporaryDirectory(
                prefix=".railyard-init-", dir=folder, ignore_cleanup_errors=True
            ) as draft:
                for name, content in files.items():
                    path = Path(draft, name)
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(content)
                for name in files:
                    _make_folders((folder / name).parent, undo)
                    os.link(Path(draft, name), folder / name)
                    undo.callback((folder / name).unlink, missing_ok=True)
        except OSError as error:
            place = error.filename2 or error.filename or folder
            raise UsageError(fault_text(__file__, "unwritten", place=place, error=error)) from error
        undo.pop_all()


def replace_package(folder: Path, files: Mapping[str, bytes]) -> tuple[str, ...]:
    """Write a project's wheel and requirements again; return the older wheels, which it removes.

    The requirements come last: until then the project installs its old wheel. UsageError: it is
    not the folder of a project, or a file cannot be written.
    """
    if not (folder / "Pulumi.yaml").is_file():
        raise UsageError(fault_text(__file__, "no-project", folder=folder))
    try:
        for name, content in sorted(files.items(), key=lambda each: each[0] == REQUIREMENTS):
            path = folder / name
            path.parent.mkdir(exist_ok=True)
            draft = path.with_name(f".{path.name}.new")
            draft.write_bytes(content)
            draft.replace(path)
        vendored = (folder / FOLDER).glob(f"{DISTRIBUTION.replace('-', '_')}-*.whl")
        old = [path for path in vendored if f"{FOLDER}/{path.name}" not in files]
        for path in old:
            path.unlink()
    except OSError as error:
        place = error.filename or folder
        raise UsageError(fault_text(__file__, "half-written", place=place, error=error)) from error
    return tuple(path.name for path in old)


def _make_folders(folder: Path, undo: ExitStack) -> None:
    """Make a folder and its missing parents; the undo removes the new ones that are empty."""
    for each in (*reversed(folder.parents), folder):
        if not each.exists():
            try:
                each.mkdir(exist_ok=True)
            except OSError as error:
                raise UsageError(
                    fault_text(__file__, "unmade", folder=folder, error=error)
                ) from error
            undo.callback(_remove_empty, each)


def _remove_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()


def render_next_steps(folder: Path, stack: str, engine: Engine, secrets: Sequence[str]) -> str:
    """The steps from the written files to the first preview; `secrets` are those of the site."""
    pip = ".venv/bin/pip install --require-hashes -r requirements.txt"
    config = [f"pulumi config set --secret -s {stack} railyard:{name}" for name in secrets]
    cli = f"the Pulumi CLI, {engine.wanted} or later"
    programs: list[tuple[str, ...]] = [
        (f"{cli}: {engine.version or 'no answer'} at {engine.program}",)
    ]
    if engine.program is None:
        programs = [(f"{cli}: not on PATH", INSTALL_CLI.format(engine.wanted))]
    for plugin in engine.plugins:
        state = str(plugin.program)
        install: tuple[str, ...] = (plugin.install,)
        if plugin.program is None:
            state = "not there"
        elif is_stand_in(plugin.program):
            state = f"the lab's substitute at {plugin.program}"
        else:
            install = ()
        programs.append((f"the plugin {plugin.name} {plugin.version}: {state}", *install))
    steps = (
        (f"cd {shlex.quote(str(folder))}", f"python3 -m venv .venv && {pip}"),
        *programs,
        ("a backend and a passphrase of your own, then the stack:", OWN_LOGIN,
            "export PULUMI_CONFIG_PASSPHRASE='…' (or --secrets-provider with a key service)",
            f"pulumi stack init {stack}"),
        (f"your values: each line of {SITE_FILE} with `{MARK.strip()}` is still the example's",
            f".venv/bin/railyard check {SITE_FILE}"),
        ("the secrets, each on standard input:", *config),
        ("the jobs' image, if you need one, and a checksum of every file of the site:",
            f".venv/bin/railyard image build {SITE_FILE} --push",
            f".venv/bin/railyard pin Pulumi.{stack}.yaml"),
        ("read every device without a change, and then show the plan:",
            f".venv/bin/railyard preflight {stack}", f"pulumi preview -s {stack}"),
    )  # fmt: skip
    return "Next\n" + "\n".join(
        f"  {number}. {_INDENT.join(lines)}" for number, lines in enumerate(steps, 1)
    )
