"""The files of a user's own project, as text. Pure: what is written where is decided here alone."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Final, Literal, get_args

from components.core.errors import Bug
from components.project.marks import mark_example

Example = Literal["dgx-roce", "esxi-roce", "shared-rdma", "crusoe-k3s"]
EXAMPLES: Final[tuple[Example, ...]] = get_args(Example)
SITE_FILE: Final = "site.yaml"
WORKFLOW: Final = ".github/workflows/preview.yml"
_PROGRAM: Final = '''\
"""The Pulumi program: the site that the stack names in `railyard:site`."""

from stacks import run

run()
'''
_IGNORED: Final = """\
/.venv/
/.railyard/
__pycache__/
"""
_CHECKOUT_INSTALL: Final = (
    "          .venv/bin/pip install --require-hashes -r requirements.lock\n"
    "          .venv/bin/pip install --no-deps -e .\n"
)
_INSTALL: Final = "          .venv/bin/pip install -r requirements.txt\n"
_NOT_A_NAME: Final = re.compile(r"[^A-Za-z0-9_.-]+")


@dataclass(frozen=True, slots=True)
class ProjectPlan:
    """What a project is made of."""

    name: str
    """Name of the Pulumi project: the folder's."""
    stack: str
    example: Example
    railyard: str
    """The line of requirements.txt that brings Railyard."""
    versions: Mapping[str, str]
    """`pulumi`, and each plugin, to its exact version."""


def project_name(folder: str) -> str:
    """A name that Pulumi takes for a project in this folder."""
    return _NOT_A_NAME.sub("-", folder).strip("-.") or "site"


def render_files(plan: ProjectPlan) -> dict[str, str]:
    """Path in the project to the text of that file."""
    return {
        "Pulumi.yaml": _project(plan.name),
        f"Pulumi.{plan.stack}.yaml": f"config:\n  railyard:site: {SITE_FILE}\n",
        "__main__.py": _PROGRAM,
        SITE_FILE: mark_example(example_text(plan.example)),
        "requirements.txt": _requirements(plan),
        ".gitignore": _IGNORED,
        WORKFLOW: _workflow(plan),
    }


def example_text(example: Example) -> str:
    """The site file of an example, as it travels with the package."""
    return _shipped("examples", f"{example}.yaml")


def _shipped(*place: str) -> str:
    return resources.files("components.project").joinpath(*place).read_text("utf-8")


def _project(name: str) -> str:
    return (
        f"name: {json.dumps(name)}\n"
        "description: An RDMA GPU Kubernetes cluster from site.yaml, by Railyard\n"
        "runtime:\n  name: python\n  options:\n    virtualenv: .venv\n"
        "main: .\n"
    )


def _requirements(plan: ProjectPlan) -> str:
    pinned = [f"pulumi=={plan.versions['pulumi']}"]
    pinned += [
        f"pulumi-{name}=={version}" for name, version in plan.versions.items() if name != "pulumi"
    ]
    return "\n".join((plan.railyard, *pinned)) + "\n"


def _workflow(plan: ProjectPlan) -> str:
    """The workflow of this repository, for a project that installs Railyard as a package."""
    text = _shipped("template", "preview.yml")
    version = re.compile(r"(?<=--version )\S+")
    if _CHECKOUT_INSTALL not in text or not version.search(text) or "|| 'dev'" not in text:
        raise Bug("the workflow that ships with Railyard has another form. Please open an issue.")
    text = text.replace(_CHECKOUT_INSTALL, _INSTALL).replace("|| 'dev'", f"|| '{plan.stack}'")
    text = text.replace("else dev.", f"else {plan.stack}.")
    return version.sub(plan.versions["pulumi"], text)
