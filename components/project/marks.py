"""The values of an example that a site of one's own must change: marked for `railyard check`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, cast

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from components.reading.example_marks import MARK

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
        words = _explain(path)
        if words is not None and node.start_mark.line == node.end_mark.line:
            found.setdefault(node.start_mark.line, {})[words] = None
    lines = text.splitlines()
    for number, words in found.items():
        lines[number] += f"  {MARK}{'; '.join(words)}"
    return "\n".join(lines) + "\n"


def _explain(path: str) -> str | None:
    return next((words for form, words in _EXPLAINED.items() if re.fullmatch(form, path)), None)


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
