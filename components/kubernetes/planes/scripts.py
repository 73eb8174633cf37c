"""The tool of the Kubernetes room, and files as lines of a step's stdin."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Final, Literal

from components.remote.tools import Tool, ToolCall, assemble, linux_text

Verb = Literal[
    "api_filter",
    "api_filter_observe",
    "api_filter_undo",
    "k3s_access",
    "k3s_ca",
    "k3s_install",
    "k3s_node",
    "k3s_node_undo",
    "k3s_observe",
    "k3s_registry",
    "k3s_registry_undo",
    "k3s_removal",
    "k3s_token",
    "k3s_token_undo",
    "k3s_undo",
    "kubespray_access",
    "haproxy",
    "haproxy_observe",
    "haproxy_undo",
    "keepalived",
    "keepalived_observe",
    "keepalived_undo",
]
_BALANCER: Final = ("service", "haproxy_reading")
_MOVER: Final = ("service", "keepalived_reading", "keepalived_others")
PARTS: Final[dict[Verb, tuple[str, ...]]] = {
    "api_filter": ("api_filter_reading", "api_filter"),
    "api_filter_observe": ("api_filter_reading", "api_filter_observe"),
    "api_filter_undo": ("api_filter_reading", "api_filter_undo"),
    "k3s_access": ("k3s_access",),
    "k3s_ca": ("k3s_ca",),
    "k3s_install": ("registry", "k3s_install"),
    "k3s_node": ("member", "k3s_node"),
    "k3s_node_undo": ("member", "k3s_node_undo"),
    "k3s_observe": ("registry", "k3s_observe"),
    "k3s_registry": ("registry", "k3s_registry"),
    "k3s_registry_undo": ("registry", "k3s_registry_undo"),
    "k3s_removal": ("member", "k3s_removal"),
    "k3s_token": ("k3s_token",),
    "k3s_token_undo": ("k3s_token_undo",),
    "k3s_undo": ("k3s_undo",),
    "kubespray_access": ("kubespray_access",),
    "haproxy": (*_BALANCER, "service_change", "haproxy"),
    "haproxy_observe": (*_BALANCER, "service_observe"),
    "haproxy_undo": (*_BALANCER, "service_undo"),
    "keepalived": (*_MOVER, "service_change", "keepalived"),
    "keepalived_observe": (*_MOVER, "keepalived_observe"),
    "keepalived_undo": ("service", "keepalived_reading", "service_undo"),
}
"""Verb to the files of `scripts/` that it is, in order."""


@cache
def script_text(name: str) -> str:
    """One script of `scripts/`, by its name without `.sh`."""
    return _file(f"{name}.sh")


def unit_text(name: str) -> str:
    """One unit of systemd of `scripts/`, by its name without `.service`."""
    return _file(f"{name}.service")


def _file(name: str) -> str:
    folder = resources.files("components.kubernetes")
    return folder.joinpath("scripts", name).read_text("utf-8")


@cache
def kubernetes_tool() -> Tool:
    """Everything that installs, reads and removes Kubernetes and the balancer on a host."""
    verbs = {verb: "".join(map(script_text, parts)) for verb, parts in PARTS.items()}
    return assemble("kubernetes", (linux_text(), script_text("input")), verbs)


def kubernetes_call(verb: Verb, *arguments: str) -> ToolCall:
    """One verb of the tool of this room, with its `key=value` words."""
    return ToolCall(kubernetes_tool(), verb, arguments)


def numbered_lines(file: str, text: str) -> dict[str, str]:
    """A file as lines of a step's stdin, which a preview then shows line by line.

    With their count: a line that was added at the end is drift too.
    """
    lines = text.splitlines()
    numbered = {f"{file}.{number:02}": line for number, line in enumerate(lines, 1)}
    return {**numbered, f"{file}.lines": str(len(lines))}
