"""The files of a user's own project, as text. Pure: what is written where is decided here alone."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Final, Literal, cast, get_args

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from components.core.errors import Bug
from components.project.wheel import Wheel, pick_pins
from components.reading.load import MARK

_SSH: Final = r"(switches|hosts|environment\.hypervisors)\[\]\.ssh"
_POOL: Final = r"environment\.instances\.pools\[\]"
_EXPLAINED: Final[Mapping[str, str]] = {
    rf"{_SSH}\.address": "its management address, as this machine reaches it",
    rf"{_SSH}\.host_key": (
        "its own key of ed25519, else ECDSA, else RSA: ssh-keyscan ADDRESS, compared on its console"
    ),
    r"rails\[\]\.(vlan|subnet)": "VLAN and subnet of the rail, which nothing else uses",
    r"switches\[\]\.(model|release)": "what `show version` says on the switch",
    r"switches\[\]\.ports\..*": "which card is plugged into which port",
    r"hosts\[\]\.gpus": "GPUs of the host: nvidia-smi -L",
    r"hosts\[\]\.nics\[\]\.(pci|netdev|model|numa)": (
        "where the card is, and what it is: railyard discover reads it"
    ),
    r"environment\.hypervisors\[\]\.release": "what `vmware -v` says",
    r"environment\.hypervisors\[\]\.vms\[\]\.(gpu|nic|memory_mib)": (
        "what is passed through, and the memory: esxcli hardware pci list"
    ),
    r"environment\.instances\.(project|location)": "your project and where its capacity is",
    r"environment\.instances\.ssh_public_key": "the public half of ssh_private_key",
    r"environment\.instances\.(vpc_cidr|subnet_cidr)": "addresses that your network has free",
    rf"{_POOL}\.(type|image|count)": "instance type, image and number of the pool",
    r"environment\.(api_allowed|ssh_allowed)\[\]": "the addresses that you come from",
    r"kubernetes\.source\..*": "your mirror's path or https address of K3s, and its sha256sum",
    r"kubernetes\.registry_mirror": "your registry",
    r"operators\..*\.chart\.chart": "the chart: a path in this project, or its name with `repo`",
    r"jobs\.(.*\.)?image|containers\.(.*\.)?(image|registry|base)": "your image, with its tag",
    r"jobs\.deepspeed\.(nfs_server|path)": "your NFS server and the folder that it shares",
    r"jobs\.topology_file\.host_path": "the topology file that the image of your cloud brings",
}
"""Path of a value to what a person writes there; the first that fits counts."""


def mark_example(text: str) -> str:
    """The text of an example with a comment on each line that must be changed.

    Args:
        text: A site file. Values of several lines are not marked: no example has one to change.
    """
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    found: dict[int, dict[str, None]] = {}
    for path, node in _leaves(root, ""):
        words = next(
            (words for form, words in _EXPLAINED.items() if re.fullmatch(form, path)), None
        )
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


Example = Literal["dgx-roce", "esxi-roce", "shared-rdma", "crusoe-k3s"]
EXAMPLES: Final[tuple[Example, ...]] = get_args(Example)
SITE_FILE: Final = "site.yaml"
WORKFLOW: Final = ".github/workflows/preview.yml"
REQUIREMENTS: Final = "requirements.txt"
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
_INSTALL: Final = "          .venv/bin/pip install --require-hashes -r requirements.txt\n"
_NOT_A_NAME: Final = re.compile(r"[^A-Za-z0-9_.-]+")


@dataclass(frozen=True, slots=True)
class ProjectPlan:
    """What a project is made of."""

    name: str
    """Name of the Pulumi project: the folder's."""
    stack: str
    example: Example
    wheel: Wheel
    """The Railyard of this project."""
    versions: Mapping[str, str]
    """`pulumi`, and each plugin, to its exact version."""


def project_name(folder: str) -> str:
    """A name that Pulumi takes for a project in this folder."""
    return _NOT_A_NAME.sub("-", folder).strip("-.") or "site"


def render_files(plan: ProjectPlan) -> dict[str, bytes]:
    """Path in the project to the content of that file."""
    texts = {
        "Pulumi.yaml": _project(plan.name),
        f"Pulumi.{plan.stack}.yaml": f"config:\n  railyard:site: {SITE_FILE}\n",
        "__main__.py": _PROGRAM,
        SITE_FILE: mark_example(example_text(plan.example)),
        ".gitignore": _IGNORED,
        WORKFLOW: _workflow(plan),
    }
    return {name: text.encode() for name, text in texts.items()} | render_package(plan.wheel)


def render_package(wheel: Wheel) -> dict[str, bytes]:
    """The files of a project that bring Railyard: the wheel, and every hash that pip checks."""
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


def _workflow(plan: ProjectPlan) -> str:
    """The workflow of this repository, for a project that installs Railyard as a package."""
    text = _shipped("template", "preview.yml")
    version = re.compile(r"(?<=PULUMI_VERSION: )\S+")
    if _CHECKOUT_INSTALL not in text or not version.search(text) or "|| 'dev'" not in text:
        raise Bug("the workflow that ships with Railyard has another form. Please open an issue.")
    text = text.replace(_CHECKOUT_INSTALL, _INSTALL).replace("|| 'dev'", f"|| '{plan.stack}'")
    text = text.replace("else dev.", f"else {plan.stack}.")
    return version.sub(plan.versions["pulumi"], text)
